"""A parameter of 2e4 perturbed by an absolute 1e-6 through a forward accurate to 1e-10."""

import numpy as np

CAUSE = "step-too-small"
EXPECT = "fail"


def forward(k, t):
    return np.round(k * 1e-4 * np.sin(t), 10) + t**2


def backward(grad_out, k, t):
    return grad_out * 1e-4 * np.sin(t), grad_out * (k * 1e-4 * np.cos(t) + 2 * t)


FUNC = (forward, backward)


def make_inputs():
    return np.array([20431.0, 18772.0, 21999.0]), np.array([0.7, 1.1, 0.4])


VARIANTS = [{"check": {"eps": 1e-2}, "expect": "pass", "why": "a step of 1e-2 passes"}]
