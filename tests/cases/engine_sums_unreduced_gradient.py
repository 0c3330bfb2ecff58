"""torch.autograd.Function returning an unreduced bias gradient: the engine sums it silently."""

import torch

CAUSE = "none"
EXPECT = "pass"


class AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        return x + b

    @staticmethod
    def backward(ctx, g):
        return g, g.clone()


FUNC = AddBias.apply


def make_inputs():
    g = torch.Generator().manual_seed(18)
    return (
        torch.randn(4, 3, generator=g, dtype=torch.float64).requires_grad_(),
        torch.randn(3, generator=g, dtype=torch.float64).requires_grad_(),
    )
