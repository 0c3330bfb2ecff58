"""tanh layer that expects its own output in backward but is handed the input."""

import numpy as np

CAUSE = "wrong-saved-value"
EXPECT = "fail"


def forward(x):
    return np.tanh(x)


def layer_backward(grad_out, y):
    return grad_out * (1 - y * y)


def backward(grad_out, x):
    return (layer_backward(grad_out, x),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([0.05, 0.5, -0.9, 1.6]),)


VARIANTS = [
    {
        "func": (forward, lambda g, x: (layer_backward(g, np.tanh(x)),)),
        "expect": "pass",
        "why": "handing the output over passes",
    }
]
