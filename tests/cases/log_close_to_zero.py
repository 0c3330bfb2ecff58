"""Logarithm at values only a few steps away from its pole."""

import numpy as np

CAUSE = "step-too-large"
EXPECT = "fail"


def forward(x):
    return np.log(x) * 1e-3


def backward(grad_out, x):
    return (grad_out * 1e-3 / x,)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([2e-6, 1e-5, 1.0]),)


VARIANTS = [{"check": {"eps": 1e-9}, "expect": "pass", "why": "a step of 1e-9 passes"}]
