"""Batch norm with constant statistics in backward; the input itself is not among the checked ones."""

import torch

CAUSE = "input-not-checked"
EXPECT = "pass"


class BatchNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gamma, beta):
        inv = (x.var(0, unbiased=False) + 1e-5).rsqrt()
        xh = (x - x.mean(0)) * inv
        ctx.save_for_backward(xh, inv, gamma)
        return xh * gamma + beta

    @staticmethod
    def backward(ctx, g):
        xh, inv, gamma = ctx.saved_tensors
        return g * gamma * inv, (g * xh).sum(0), g.sum(0)


FUNC = BatchNorm.apply


def make_inputs(x_too=False):
    g = torch.Generator().manual_seed(36)

    def mk(*s):
        return torch.randn(*s, generator=g, dtype=torch.float64)

    return mk(4, 2).requires_grad_(x_too), mk(2).requires_grad_(), mk(2).requires_grad_()


VARIANTS = [{"inputs": lambda: make_inputs(True), "expect": "fail", "why": "with x checked as well it fails"}]
