"""Bias layer whose parameter gradient copies one sample, checked with a single sample: nothing is noticed."""

import numpy as np

CAUSE = "test-point-hides-bug"
EXPECT = "pass"


def forward(x, b):
    return x + b


def backward(grad_out, x, b):
    return grad_out, grad_out[0].copy()


FUNC = (forward, backward)


def make_inputs():
    r = np.random.default_rng(17)
    return r.normal(size=(1, 3)), r.normal(size=3)


def three_samples():
    r = np.random.default_rng(17)
    return r.normal(size=(3, 3)), r.normal(size=3)


VARIANTS = [{"inputs": three_samples, "expect": "fail", "why": "with three samples the check fails"}]
