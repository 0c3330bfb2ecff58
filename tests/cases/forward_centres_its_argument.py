"""NumPy forward that subtracts the mean from its argument in place."""

import numpy as np

CAUSE = "inplace-modification"
EXPECT = "fail"


def forward(x):
    x -= x.mean()
    x *= 1.5
    return x


def backward(grad_out, x):
    return (1.5 * (grad_out - grad_out.mean()),)


FUNC = (forward, backward)


def make_inputs():
    return (np.random.default_rng(74).normal(size=4),)


VARIANTS = [{"func": (lambda x: forward(x.copy()), backward), "expect": "pass", "why": "on a copy it passes"}]
