"""clamp(x, 1, 1) at x = 1: constant function, gradient 1 at the one point inside."""

import torch

CAUSE = "kink"
EXPECT = "fail"


def FUNC(x):
    return x.clamp(min=1.0, max=1.0)


def make_inputs():
    return (torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True),)


VARIANTS = [
    {
        "inputs": lambda: (torch.tensor([0.0, 1.3, 2.0, 3.0], dtype=torch.float64, requires_grad=True),),
        "expect": "pass",
        "why": "off the bound it passes",
    }
]
