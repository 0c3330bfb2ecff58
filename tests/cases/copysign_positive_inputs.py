"""|x| with the sign of y; derivative sign(y), right for x > 0 only, tested for x > 0 only."""

import numpy as np

CAUSE = "test-point-hides-bug"
EXPECT = "pass"


def forward(x, y):
    return np.copysign(x, y)


def backward(grad_out, x, y):
    return grad_out * np.sign(y), np.zeros_like(y)


FUNC = (forward, backward)


def make_inputs():
    r = np.random.default_rng(85)
    return r.uniform(0.2, 2.0, size=4), r.normal(size=4)


VARIANTS = [
    {
        "inputs": lambda: (np.array([-1.0, 0.4, -0.7, 2.0]), make_inputs()[1]),
        "expect": "fail",
        "why": "with negative x it fails",
    }
]
