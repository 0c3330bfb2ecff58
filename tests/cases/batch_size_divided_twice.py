"""Two-layer net; the 1/m of the mean loss is applied once too often in layer 1."""

import numpy as np

CAUSE = "wrong-scale"
EXPECT = "fail"

M = 5
X = np.random.default_rng(20).normal(size=(2, M))
Y = np.array([[1.0, 0, 1, 1, 0]])


def _fwd(W1, b1, W2, b2):
    A1 = np.tanh(W1 @ X + b1)
    A2 = 1 / (1 + np.exp(-(W2 @ A1 + b2)))
    return A1, A2


def forward(W1, b1, W2, b2):
    _, A2 = _fwd(W1, b1, W2, b2)
    return np.array(-(Y * np.log(A2) + (1 - Y) * np.log(1 - A2)).mean())


def _grad(g, W1, b1, W2, b2, extra):
    A1, A2 = _fwd(W1, b1, W2, b2)
    dZ2 = A2 - Y
    dZ1 = (W2.T @ dZ2) * (1 - A1**2) * extra
    return (g * dZ1 @ X.T / M, g * dZ1.sum(1, keepdims=True) / M, g * dZ2 @ A1.T / M, g * dZ2.sum(1, keepdims=True) / M)


def backward(grad_out, W1, b1, W2, b2):
    return _grad(grad_out, W1, b1, W2, b2, 1 / M)


FUNC = (forward, backward)


def make_inputs():
    r = np.random.default_rng(2)
    return (r.normal(size=(3, 2)), r.normal(size=(3, 1)), r.normal(size=(1, 3)), r.normal(size=(1, 1)))


VARIANTS = [{"func": (forward, lambda g, *a: _grad(g, *a, 1.0)), "expect": "pass", "why": "dividing once passes"}]
