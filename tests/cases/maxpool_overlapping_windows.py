"""1-D max pooling with stride 1 and window 3; a shared maximum gets one contribution only."""

import numpy as np

CAUSE = "missing-accumulation"
EXPECT = "fail"

K = 3


def _arg(x):
    return np.array([i + np.argmax(x[i : i + K]) for i in range(len(x) - K + 1)])


def forward(x):
    return x[_arg(x)]


def backward(grad_out, x):
    dx = np.zeros_like(x)
    dx[_arg(x)] = grad_out
    return (dx,)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([0.1, 0.7, 0.3, 2.0, 0.5, 0.9, 1.1]),)


def fixed(g, x):
    dx = np.zeros_like(x)
    np.add.at(dx, _arg(x), g)
    return (dx,)


VARIANTS = [{"func": (forward, fixed), "expect": "pass", "why": "accumulating passes"}]
