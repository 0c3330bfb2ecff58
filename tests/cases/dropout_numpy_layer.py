"""The tutorial dropout layer: forward draws a mask and keeps it for the next backward."""

import numpy as np

CAUSE = "nondeterministic"
EXPECT = "fail"

_state = {"rng": np.random.default_rng(67), "mask": None}


def forward(x):
    _state["mask"] = _state["rng"].random(x.shape) < 0.6
    return x * _state["mask"] / 0.6


def backward(grad_out, x):
    return (grad_out * _state["mask"] / 0.6,)


FUNC = (forward, backward)


def make_inputs():
    return (np.random.default_rng(670).normal(size=6),)


def frozen(x):
    _state["mask"] = np.array([1, 0, 1, 1, 0, 1], bool)
    return x * _state["mask"] / 0.6


VARIANTS = [{"func": (frozen, backward), "expect": "pass", "why": "with a frozen mask it passes"}]
