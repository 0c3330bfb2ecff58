"""CPU time from the change of a setting of the widget to the new pictures.

    OMP_NUM_THREADS=1 python tests/benchmarks/widget_latency.py

Targets for atol and rtol: 40 ms at 100 x 100 elements, 120 ms at 1,000 x 1,000. eps costs the bare 2n calls of the
function and at most another 120 ms.
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

from gradcheck_widget import GradcheckWidget, from_jacobian

REPEATS = 15


def wrong_product(n: int) -> tuple[Callable[..., Any], np.ndarray]:
    """A dense n x n Jacobian with one column 10 % too large."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(n, n))
    jacobian = a * np.where(np.arange(n) == n // 3, 1.1, 1.0)
    return from_jacobian(lambda x: a @ x, lambda x: jacobian), rng.normal(size=n)


def cpu(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return 1e3 * (time.process_time() - begin)


def moves(widget: GradcheckWidget, name: str, first: float) -> float:
    """Every move to another value, so that nothing is answered from what was measured before."""
    times = []
    for k in range(REPEATS + 2):
        times.append(cpu(lambda: (setattr(widget, name, first * (1 + k / 100)), widget.wait())))
    setattr(widget, name, first)
    widget.wait()
    return statistics.median(times[2:])


def main() -> None:
    print(f"{'elements':>16}  {'atol':>6}  {'rtol':>6}  {'eps':>6}  {'2n calls':>8}   CPU ms, median of {REPEATS}")
    for n in (100, 1000):
        func, x = wrong_product(n)
        widget = GradcheckWidget(func, x)
        widget.wait()
        bare = statistics.median(cpu(lambda: [func(x) for _ in range(2 * n)]) for _ in range(5))
        row = [moves(widget, *setting) for setting in (("atol", 1.01e-5), ("rtol", 1.01e-3), ("eps", 1.01e-6))]
        print(f"{f'{n:,} x {n:,}':>16}  " + "  ".join(f"{t:6.1f}" for t in row) + f"  {bare:8.1f}")
        widget.close()


if __name__ == "__main__":
    main()
