"""Gradient written into an integer array: everything below 1 in magnitude becomes 0."""

import numpy as np

CAUSE = "wrong-dtype"
EXPECT = "fail"


def forward(p):
    return np.array(1.78 - 0.43 * np.exp(p[2] / 7.7) + 1.5 * p[0] * p[1])


def backward(grad_out, p):
    out = np.array([0, 0, 0])  # integer dtype
    out[0] = grad_out * 1.5 * p[1]
    out[1] = grad_out * 1.5 * p[0]
    out[2] = grad_out * -0.43 / 7.7 * np.exp(p[2] / 7.7)
    return (out,)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([1.9, -2.3, -4.0]),)


def fixed(g, p):
    return (g * np.array([1.5 * p[1], 1.5 * p[0], -0.43 / 7.7 * np.exp(p[2] / 7.7)]),)


VARIANTS = [{"func": (forward, fixed), "expect": "pass", "why": "a float buffer passes"}]
