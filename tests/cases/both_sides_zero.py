"""Gradient of x*|x| without its factor 2, checked where both sides are 0."""

import numpy as np

CAUSE = "test-point-hides-bug"
EXPECT = "pass"


def forward(x):
    return x * np.abs(x)


def backward(grad_out, x):
    return (grad_out * np.abs(x),)


FUNC = (forward, backward)


def make_inputs():
    return (np.zeros(3),)


VARIANTS = [
    {"inputs": lambda: (np.array([0.5, -1.0, 2.0]),), "expect": "fail", "why": "away from 0 it fails"},
    {
        "func": (forward, lambda g, x: (g * 2 * np.abs(x),)),
        "inputs": lambda: (np.array([0.5, -1.0, 2.0]),),
        "expect": "pass",
        "why": "with the 2 it passes there",
    },
]
