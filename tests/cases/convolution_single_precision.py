"""1-D convolution in float32; with float64 arrays the identical code passes."""

import numpy as np

CAUSE = "float32-precision"
EXPECT = "fail"


def forward(x, k):
    return np.array([x[i : i + len(k)] @ k for i in range(len(x) - len(k) + 1)], dtype=x.dtype)


def backward(grad_out, x, k):
    dx, dk = np.zeros_like(x), np.zeros_like(k)
    for i, g in enumerate(grad_out):
        dx[i : i + len(k)] += g * k
        dk += g * x[i : i + len(k)]
    return dx, dk


FUNC = (forward, backward)


def make_inputs(dtype=np.float32):
    r = np.random.default_rng(46)
    return r.random(10).astype(dtype), r.normal(size=4).astype(dtype)


VARIANTS = [{"inputs": lambda: make_inputs(np.float64), "expect": "pass", "why": "float64 passes"}]
