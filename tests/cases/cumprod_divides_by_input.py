"""Cumulative product whose gradient divides by the input; one input is 0."""

import numpy as np

CAUSE = "nan-or-inf"
EXPECT = "fail"


def forward(x):
    return np.cumprod(x)


def backward(grad_out, x):
    with np.errstate(all="ignore"):
        return (np.cumsum((grad_out * np.cumprod(x))[::-1])[::-1] / x,)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([2.0, 0.0, 3.0, 0.5]),)


def fixed(g, x):
    out = np.zeros_like(x)
    for i in range(len(x)):
        p = np.cumprod(np.where(np.arange(len(x)) == i, 1.0, x))
        out[i] = (g[i:] * p[i:]).sum()
    return (out,)


VARIANTS = [{"func": (forward, fixed), "expect": "pass", "why": "division-free formula passes"}]
