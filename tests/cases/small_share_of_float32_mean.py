"""mean(x + w) in float32 with w = 0: each element's share of the mean drowns in rounding."""

import numpy as np

CAUSE = "float32-precision"
EXPECT = "fail"

COLS = 128


def forward(x, w):
    return np.array((x + w).mean(dtype=x.dtype))


def backward(grad_out, x, w):
    rows = x.shape[0]
    return np.full_like(x, grad_out / x.size), np.full_like(w, grad_out * rows / x.size)


FUNC = (forward, backward)
WRT = (1,)


def make_inputs(dtype=np.float32):
    r = np.random.default_rng(47)
    return (r.normal(size=(6, COLS)) + 3).astype(dtype), np.zeros((1, COLS), dtype)


VARIANTS = [{"inputs": lambda: make_inputs(np.float64), "expect": "pass", "why": "float64 passes"}]
