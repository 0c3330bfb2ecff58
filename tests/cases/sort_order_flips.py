"""Sorting values some of which are closer together than the step."""

import torch

CAUSE = "kink"
EXPECT = "fail"


def FUNC(x):
    return torch.sort(x).values


def make_inputs(n=6):
    g = torch.Generator().manual_seed(55)
    x = torch.rand(n, generator=g, dtype=torch.float64)
    x[1] = x[0] + 3e-7
    return (x.requires_grad_(),)


VARIANTS = [
    {"check": {"eps": 1e-08}, "expect": "pass", "why": "a step below the gap passes"},
    {
        "inputs": lambda: make_inputs(2000),
        "check": {"fast_mode": True},
        "expect": "pass",
        "why": "fast mode on 2000 values passes",
    },
]
