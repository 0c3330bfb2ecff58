"""Small-scaled objective, one sign wrong; an absolute error measure cannot tell."""

import numpy as np

CAUSE = "tolerance-too-loose"
EXPECT = "pass"


def forward(x):
    return np.array(2e-6 * (x[0] ** 2 - x[1] + x[0] * x[2]))


def backward(grad_out, x):
    return (grad_out * 2e-6 * np.array([2 * x[0] + x[2], 1.0, x[0]]),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([0.7, -0.2, 1.4]),)


VARIANTS = [{"check": {"atol": 1e-12}, "expect": "fail", "why": "with atol 1e-12 it fails"}]
