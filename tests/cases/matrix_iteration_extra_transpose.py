"""One step of a matrix-root iteration; the finished gradient is transposed at the end."""

import torch

CAUSE = "transposed"
EXPECT = "fail"


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return 1.5 * a - 0.5 * a @ a @ a

    @staticmethod
    def backward(ctx, g):
        (a,) = ctx.saved_tensors
        t = a.T
        d = 1.5 * g - 0.5 * (g @ t @ t + t @ g @ t + t @ t @ g)
        return d.T


FUNC = Step.apply


def make_inputs():
    g = torch.Generator().manual_seed(9)
    return (torch.randn(3, 3, generator=g, dtype=torch.float64).requires_grad_(),)


VARIANTS = [{"func": lambda a: 1.5 * a - 0.5 * a @ a @ a, "expect": "pass", "why": "autograd passes"}]
