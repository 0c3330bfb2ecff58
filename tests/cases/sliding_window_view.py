"""Overlapping windows as one strided view: no stride is 0, yet elements share memory."""

import torch

CAUSE = "overlapping-memory"
EXPECT = "fail"
REFUSED = RuntimeError


def FUNC(v):
    return (v**2).sum(1)


def make_inputs():
    g = torch.Generator().manual_seed(71)
    base = torch.randn(5, generator=g, dtype=torch.float64)
    return (base.as_strided((4, 2), (1, 1)).requires_grad_(),)


VARIANTS = [
    {
        "inputs": lambda: (make_inputs()[0].detach().clone(memory_format=torch.contiguous_format).requires_grad_(),),
        "expect": "pass",
        "why": "a contiguous copy passes",
    }
]
