"""Our gradcheck beside tensorplay's own, on tensorplay's tensors.

    OMP_NUM_THREADS=1 python tests/benchmarks/tensorplay_check.py

Both run in turns in one process and one thread; times are medians in ms, "theirs / ours" above 1 means that ours is
quicker. tensorplay runs without its check of undefined gradients where that fails on a correct function (`*`), and ours
with it. Verdicts stand beside the times: tensorplay fails correct complex functions.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorplay

from gradcheck_widget import gradcheck

REPEATS = 9


class Cube(tensorplay.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * x * 3


def leaf(*shape: int, dtype: type = float) -> Any:
    rng = np.random.default_rng(0)
    values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype is complex else 0)
    return tensorplay.from_numpy(np.asarray(values, dtype)).requires_grad_()


def network() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The loss of a network of two layers as a function of its 110 parameters."""
    data = leaf(16, 8).detach()
    return lambda w, b, v: ((data @ w + b).tanh() @ v).square().sum(), (leaf(8, 10), leaf(10), leaf(10, 2))


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "tanh, n = 10": (tensorplay.tanh, (leaf(10),)),
    "tanh, n = 100": (tensorplay.tanh, (leaf(100),)),
    "tanh, n = 1000": (tensorplay.tanh, (leaf(1000),)),
    "a custom Function, n = 100": (Cube.apply, (leaf(100),)),
    "sum, n = 1000": (lambda x: x.sum(), (leaf(1000),)),
    "matmul 10 x 10": (lambda x, y: x @ y, (leaf(10, 10), leaf(10, 10))),
    "loss of a network, 110 parameters": network(),
    "complex exp, n = 1": (tensorplay.exp, (leaf(1, dtype=complex),)),
    "complex exp, n = 50": (tensorplay.exp, (leaf(50, dtype=complex),)),
}


def timed(check: Callable[..., bool], func: Callable[..., Any], inputs: tuple[Any, ...], **settings: Any) -> Any:
    start = time.perf_counter()
    passed = check(func, inputs, raise_exception=False, **settings)
    return (time.perf_counter() - start) * 1e3, passed


def main() -> None:
    warnings.simplefilter("ignore")
    tensorplay.set_num_threads(1)
    own = tensorplay.autograd.gradcheck
    print(f"{'ms':36}{'ours':>10}{'theirs':>10}{'theirs / ours':>15}   verdicts")
    for name, (func, inputs) in CASES.items():
        settings = {} if own(func, inputs, raise_exception=False) else {"check_undefined_grad": False}
        verdicts = gradcheck(func, inputs, raise_exception=False), own(func, inputs, raise_exception=False, **settings)
        ours, theirs = [], []
        for _ in range(REPEATS):
            theirs.append(timed(own, func, inputs, **settings)[0])
            ours.append(timed(gradcheck, func, inputs)[0])
        a, b = statistics.median(ours), statistics.median(theirs)
        mine, other = ("PASS" if v else "FAIL" for v in verdicts)
        print(f"{name + '*' * bool(settings):36}{a:10.1f}{b:10.1f}{b / a:15.2f}   ours {mine}, theirs {other}")


if __name__ == "__main__":
    main()
