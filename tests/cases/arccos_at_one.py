"""arccos at exactly 1: vertical tangent at the end of the domain."""

import numpy as np

CAUSE = "domain-edge"
EXPECT = "fail"


def forward(x):
    with np.errstate(all="ignore"):
        return np.arccos(x)


def backward(grad_out, x):
    with np.errstate(all="ignore"):
        return (np.where(grad_out == 0, 0.0, -grad_out / np.sqrt(1 - x * x)),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([1.0, 0.2, -0.6]),)


VARIANTS = [{"inputs": lambda: (np.array([0.9, 0.2, -0.6]),), "expect": "pass", "why": "inside it passes"}]
