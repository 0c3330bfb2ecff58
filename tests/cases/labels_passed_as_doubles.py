"""Segment labels handed over as differentiable doubles and cut to integers inside."""

import torch

CAUSE = "integer-input"
EXPECT = "fail"


def FUNC(x, seg):
    return torch.zeros(2, dtype=x.dtype).index_add(0, seg.long(), x**2)


def make_inputs(as_float=True):
    g = torch.Generator().manual_seed(77)
    x = torch.randn(4, generator=g, dtype=torch.float64).requires_grad_()
    seg = torch.tensor([1, 0, 1, 1])
    return x, (seg.double().requires_grad_() if as_float else seg)


VARIANTS = [{"inputs": lambda: make_inputs(False), "expect": "pass", "why": "with integer labels it passes"}]
