"""Scalar rectifier returning 1 or 0 instead of grad_output or 0: only a grad_output of 0 shows it."""

import numpy as np

CAUSE = "grad-output-hides-bug"
EXPECT = "fail"


def forward(x):
    return np.array(max(float(x), 0.0))


def backward(grad_out, x):
    return (np.array(1.0 if x > 0 else 0.0),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array(1.3),)


def down(x):
    return 3.0 * forward(x)


def down_backward(grad_out, x):
    return backward(3.0 * grad_out, x)


VARIANTS = [
    {
        "func": (down, down_backward),
        "expect": "fail",
        "why": "with one more op behind it the check fails (1 against 3)",
    },
    {"func": (forward, lambda g, x: (g * (x > 0),)), "expect": "pass", "why": "multiplied by grad_output it passes"},
]
