"""Energy with a large constant offset: differences of nearly equal numbers."""

import numpy as np

CAUSE = "large-magnitude"
EXPECT = "fail"

OFFSET = 1.0e8


def forward(x):
    return np.array(OFFSET + np.sin(x).sum())


def backward(grad_out, x):
    return (grad_out * np.cos(x),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([0.1, 0.6, 1.2, 2.2]),)


VARIANTS = [
    {"check": {"eps": 1e-2}, "expect": "pass", "why": "a step of 1e-2 passes"},
    {"func": (lambda x: np.array(np.sin(x).sum()), backward), "expect": "pass", "why": "without the offset it passes"},
]
