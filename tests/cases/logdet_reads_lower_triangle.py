"""log det through a factorisation that reads the lower triangle; symmetric gradient."""

import numpy as np

CAUSE = "symmetric-input"
EXPECT = "fail"


def forward(A):
    return np.array(2 * np.log(np.diag(np.linalg.cholesky(A))).sum())


def backward(grad_out, A):
    S = np.tril(A) + np.tril(A, -1).T
    return (grad_out * np.linalg.inv(S),)


FUNC = (forward, backward)


def make_inputs():
    b = np.random.default_rng(96).normal(size=(3, 3))
    return (b @ b.T + np.eye(3),)


VARIANTS = [
    {"func": (lambda A: forward((A + A.T) / 2), backward), "expect": "pass", "why": "symmetrising first passes"}
]
