"""Leaky rectifier at 0: the difference quotient is the mean of both slopes."""

import numpy as np

CAUSE = "kink"
EXPECT = "fail"

ALPHA = 0.2


def forward(x):
    return np.where(x > 0, x, ALPHA * x)


def backward(grad_out, x):
    return (grad_out * np.where(x > 0, 1.0, ALPHA),)


FUNC = (forward, backward)


def make_inputs():
    return (np.zeros((2, 1)),)


VARIANTS = [{"inputs": lambda: (np.array([[0.7], [-0.3]]),), "expect": "pass", "why": "away from 0 it passes"}]
