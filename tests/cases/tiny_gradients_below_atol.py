"""Gradient three times too large, but all of it below the absolute tolerance."""

import numpy as np

CAUSE = "tolerance-too-loose"
EXPECT = "pass"


def forward(x):
    return np.array(1e-6 * np.sin(x).sum())


def backward(grad_out, x):
    return (3.0 * grad_out * 1e-6 * np.cos(x),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([0.1, 0.5, 1.2]),)


VARIANTS = [
    {"check": {"atol": 1e-12}, "expect": "fail", "why": "with atol 1e-12 it fails"},
    {
        "func": (lambda x: 1e6 * forward(x), lambda g, x: backward(1e6 * g, x)),
        "expect": "fail",
        "why": "rescaled to order one it fails",
    },
]
