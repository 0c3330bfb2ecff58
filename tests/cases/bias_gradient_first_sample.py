"""Bias layer whose parameter gradient copies the error of the first sample only."""

import numpy as np

CAUSE = "missing-batch-sum"
EXPECT = "fail"


def forward(x, b):
    return x + b


def backward(grad_out, x, b):
    return grad_out, grad_out[0].copy()


FUNC = (forward, backward)


def make_inputs():
    r = np.random.default_rng(16)
    return r.normal(size=(4, 3)), r.normal(size=3)


VARIANTS = [{"func": (forward, lambda g, x, b: (g, g.sum(0))), "expect": "pass", "why": "sum over the batch passes"}]
