"""Inputs are moved through a helper that detaches them before the check."""

import torch

CAUSE = "no-input-requires-grad"
EXPECT = "fail"
REFUSED = ValueError


def FUNC(p, x):
    return x * torch.log(p) + (1 - x) * torch.log1p(-p)


def make_inputs(detach=True):
    g = torch.Generator().manual_seed(97)
    p = (torch.rand(3, generator=g, dtype=torch.float64) * 0.8 + 0.1).requires_grad_()
    x = torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)
    return (p.detach().clone() if detach else p), x


VARIANTS = [{"inputs": lambda: make_inputs(False), "expect": "pass", "why": "the original tensors pass"}]
