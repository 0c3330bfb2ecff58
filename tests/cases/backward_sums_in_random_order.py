"""Backward accumulates in a random order, as atomic additions on a GPU do."""

import torch

CAUSE = "nondeterministic"
EXPECT = "fail"


class Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sum() * torch.tensor([0.1, 0.7, 1e3, 3e-3, 12.0], dtype=x.dtype)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        w = torch.tensor([0.1, 0.7, 1e3, 3e-3, 12.0], dtype=x.dtype)
        parts = torch.cat([(g * w) / 3, (g * w) / 3, (g * w) / 3, w, -w])
        order = torch.randperm(len(parts))
        total = torch.zeros((), dtype=x.dtype)
        for v in parts[order]:
            total = total + v
        return total * (g.abs().sum() > 0) * torch.ones_like(x)


FUNC = Total.apply


def make_inputs():
    torch.manual_seed(68)
    return (torch.randn(3, dtype=torch.float64).requires_grad_(),)


VARIANTS = [{"check": {"nondet_tol": 1e-09}, "expect": "pass", "why": "with a tolerance for it, it passes"}]
