"""exp Function keeps its result on ctx; the caller then scales that result in place."""

import torch

CAUSE = "inplace-modification"
EXPECT = "fail"


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.y = x.exp()  # not via save_for_backward: no version check
        return ctx.y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.y


def FUNC(x):
    y = Exp.apply(x)
    y.mul_(3.0)
    return y


def make_inputs():
    g = torch.Generator().manual_seed(31)
    return (torch.randn(3, generator=g, dtype=torch.float64).requires_grad_(),)


VARIANTS = [{"func": lambda x: Exp.apply(x) * 3.0, "expect": "pass", "why": "out of place it passes"}]
