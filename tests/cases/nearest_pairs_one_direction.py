"""Symmetric nearest-neighbour distance; backward only follows one of the two directions."""

import torch

CAUSE = "wrong-scale"
EXPECT = "fail"


class NearestLoss(torch.autograd.Function):
    SIDES = 1.0

    @staticmethod
    def forward(ctx, x, y):
        d = ((x[:, None] - y[None]) ** 2).sum(-1)
        i, j = d.argmin(1), d.argmin(0)
        ctx.save_for_backward(x, y, i)
        n = len(x)
        return d[torch.arange(n), i].mean() + d[j, torch.arange(n)].mean()

    @staticmethod
    def backward(ctx, g):
        x, y, i = ctx.saved_tensors
        gx = g * NearestLoss.SIDES * 2 * (x - y[i]) / len(x)
        gy = torch.zeros_like(y).index_add(0, i, -gx)
        return gx, gy


FUNC = NearestLoss.apply


def make_inputs():
    g = torch.Generator().manual_seed(4)
    x = torch.tensor([[0.0, 0], [4, 0], [0, 4], [5, 5]], dtype=torch.float64)
    y = x + 0.3 * torch.randn(4, 2, generator=g, dtype=torch.float64)
    return x.requires_grad_(), y.requires_grad_()


def both_sides(x, y):
    d = ((x[:, None] - y[None]) ** 2).sum(-1)
    return d.min(1).values.mean() + d.min(0).values.mean()


VARIANTS = [{"func": both_sides, "expect": "pass", "why": "autograd through both sides passes"}]
