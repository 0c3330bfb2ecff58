"""Rounding with a straight-through gradient: deliberately not the derivative."""

import torch

CAUSE = "surrogate-gradient"
EXPECT = "fail"


class RoundST(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return (x * 16).round() / 16

    @staticmethod
    def backward(ctx, g):
        return g


FUNC = RoundST.apply


def make_inputs():
    g = torch.Generator().manual_seed(43)
    return (torch.rand(4, generator=g, dtype=torch.float64).requires_grad_(),)


class RoundZero(RoundST):
    @staticmethod
    def backward(ctx, g):
        return torch.zeros_like(g)


VARIANTS = [{"func": RoundZero.apply, "expect": "pass", "why": "the true derivative (0) passes"}]
