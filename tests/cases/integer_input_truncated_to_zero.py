"""Non-negative integer counts: the step is lost on the plus side and rounds towards 0 on the minus side."""

import numpy as np

CAUSE = "integer-input"
EXPECT = "fail"
REFUSED = ValueError

WRT = (0,)


def forward(n):
    return np.log1p(n * 0.5)


def backward(grad_out, n):
    return (grad_out * 0.5 / (1 + n * 0.5),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([0, 5, 0]),)


VARIANTS = [{"inputs": lambda: (np.array([0.0, 5.0, 0.0]),), "expect": "pass", "why": "floats pass"}]
