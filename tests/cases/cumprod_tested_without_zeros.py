"""Cumulative product whose gradient divides by the input, tested on (0, 1) only."""

import numpy as np

CAUSE = "test-point-hides-bug"
EXPECT = "pass"


def forward(x):
    return np.cumprod(x)


def backward(grad_out, x):
    with np.errstate(all="ignore"):
        return (np.cumsum((grad_out * np.cumprod(x))[::-1])[::-1] / x,)


FUNC = (forward, backward)


def make_inputs():
    return (np.random.default_rng(42).uniform(0.1, 1.0, size=5),)


VARIANTS = [
    {
        "inputs": lambda: (np.array([0.5, 0.0, 0.7, 0.2, 0.9]),),
        "expect": "fail",
        "why": "with a zero among them it fails",
    }
]
