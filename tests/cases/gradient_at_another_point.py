"""Cost function whose gradient is evaluated at parameters kept from its construction."""

import numpy as np

CAUSE = "function-mismatch"
EXPECT = "fail"

START = np.array([0.2, -0.5, 1.0])


def forward(p):
    return np.array(np.cos(p).prod())


def _grad_at(p):
    c, s = np.cos(p), np.sin(p)
    return np.array([-s[i] * np.delete(c, i).prod() for i in range(len(p))])


def backward(grad_out, p):
    return (grad_out * _grad_at(START),)


FUNC = (forward, backward)


def make_inputs():
    return (np.array([0.9, 0.4, -0.7]),)


VARIANTS = [
    {"func": (forward, lambda g, p: (g * _grad_at(p),)), "expect": "pass", "why": "at the checked point it passes"},
    {
        "inputs": lambda: (START.copy(),),
        "expect": "pass",
        "why": "at the kept parameters it agrees by chance of the point",
    },
]
