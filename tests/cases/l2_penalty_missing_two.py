"""Linear least squares with an L2 penalty; the penalty gradient lacks its factor 2."""

import numpy as np

CAUSE = "missing-term"
EXPECT = "fail"

LAM = 0.7
X = np.random.default_rng(30).normal(size=(6, 3))
T = np.random.default_rng(31).normal(size=(6, 2))


def forward(W):
    return np.array(((X @ W - T) ** 2).mean() + LAM * (W * W).sum())


def _grad(g, W, k):
    return (g * (2 * X.T @ (X @ W - T) / T.size + k * LAM * W),)


def backward(grad_out, W):
    return _grad(grad_out, W, 1.0)


FUNC = (forward, backward)


def make_inputs():
    return (np.random.default_rng(3).normal(size=(3, 2)),)


VARIANTS = [{"func": (forward, lambda g, W: _grad(g, W, 2.0)), "expect": "pass", "why": "with the 2 it passes"}]
