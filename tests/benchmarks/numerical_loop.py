"""What the numerical loop costs above the bare function, for each call of a NumPy function.

    OMP_NUM_THREADS=1 python tests/benchmarks/numerical_loop.py

The loop and the bare function run in turns in one process and one thread; the figures are medians. The target is an
overhead of at most 3 us per call.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcheck_widget.jacobians import drain, numerical_columns
from gradcheck_widget.measurement import Measurement

REPEATS = 41


def network() -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """A network of two layers, with its data inside; 110 parameters."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(16, 8))

    def forward(w: Any, b: Any, v: Any) -> Any:
        return np.tanh(data @ w + b) @ v

    return forward, (rng.normal(size=(8, 10)), rng.normal(size=10), rng.normal(size=(10, 2)))


CASES: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "np.tanh of 100 elements": (np.tanh, (np.random.default_rng(0).normal(size=100),)),
    "a network of two layers": network(),
    "np.sum of 100 elements": (np.sum, (np.random.default_rng(0).normal(size=100),)),
}


def per_call(func: Callable[..., Any], inputs: tuple[np.ndarray, ...]) -> tuple[float, float]:
    """Medians in microseconds: (bare function, numerical loop), each per call."""
    measurement = Measurement(func, inputs)
    evaluator, templates, outputs = measurement._chosen(1e-6)[0], measurement.templates, measurement.outputs
    calls = 2 * sum(x.size for x in inputs)
    bare, loop = [], []
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(calls):
            func(*inputs)
        middle = time.perf_counter()
        drain(numerical_columns(evaluator, templates, outputs, 1e-6))
        loop.append((time.perf_counter() - middle) / calls)
        bare.append((middle - start) / calls)
    return statistics.median(bare) * 1e6, statistics.median(loop) * 1e6


def main() -> None:
    print(f"{'us per call':28}{'bare':>8}{'loop':>8}{'overhead':>10}")
    for name, (func, inputs) in CASES.items():
        bare, loop = per_call(func, inputs)
        print(f"{name:28}{bare:8.2f}{loop:8.2f}{loop - bare:10.2f}")


if __name__ == "__main__":
    main()
