"""Layer normalisation; backward subtracts the mean but forgets the variance term."""

import numpy as np

CAUSE = "missing-term"
EXPECT = "fail"

E = 1e-6


def _norm(x):
    c = x - x.mean(1, keepdims=True)
    inv = 1 / np.sqrt((c * c).mean(1, keepdims=True) + E)
    return c * inv, inv


def forward(x):
    return _norm(x)[0]


def backward(grad_out, x):
    _, inv = _norm(x)
    return (inv * (grad_out - grad_out.mean(1, keepdims=True)),)


FUNC = (forward, backward)


def make_inputs():
    return (np.random.default_rng(12).normal(size=(2, 4)),)


def fixed(g, x):
    xh, inv = _norm(x)
    return (inv * (g - g.mean(1, keepdims=True) - xh * (g * xh).mean(1, keepdims=True)),)


VARIANTS = [{"func": (forward, fixed), "expect": "pass", "why": "with the projection it passes"}]
