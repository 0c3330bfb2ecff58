"""acosh on [0, 1): not defined there, both Jacobians are nan."""

import torch

CAUSE = "domain-edge"
EXPECT = "fail"


def FUNC(x):
    return torch.acosh(x)


def make_inputs(shift=0.0):
    g = torch.Generator().manual_seed(56)
    return ((torch.rand(3, generator=g, dtype=torch.float64) + shift).requires_grad_(),)


VARIANTS = [{"inputs": lambda: make_inputs(1.2), "expect": "pass", "why": "inside the domain it passes"}]
