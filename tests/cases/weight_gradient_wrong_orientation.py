"""Linear Function returning x^T g for a weight stored as (out, in)."""

import torch

CAUSE = "wrong-shape"
EXPECT = "fail"
REFUSED = RuntimeError


class Lin(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w.T

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w, x.T @ g


FUNC = Lin.apply


def make_inputs():
    g = torch.Generator().manual_seed(20)
    return (
        torch.randn(2, 3, generator=g, dtype=torch.float64).requires_grad_(),
        torch.randn(4, 3, generator=g, dtype=torch.float64).requires_grad_(),
    )


VARIANTS = [{"func": lambda x, w: x @ w.T, "expect": "pass", "why": "autograd passes"}]
