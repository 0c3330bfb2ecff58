"""A view with overlapping windows: perturbing one element moves two."""

import numpy as np

CAUSE = "overlapping-memory"
EXPECT = "fail"
REFUSED = RuntimeError


def forward(v):
    return np.tanh(v).sum(1)


def backward(grad_out, v):
    return (grad_out[:, None] * (1 - np.tanh(v) ** 2),)


FUNC = (forward, backward)


def make_inputs():
    base = np.random.default_rng(72).normal(size=5)
    return (np.lib.stride_tricks.as_strided(base, (4, 2), (8, 8)),)


VARIANTS = [{"inputs": lambda: (make_inputs()[0].copy(),), "expect": "pass", "why": "a copy passes"}]
