"""What the rules read: a measurement and its report, func at single moved points, and how much may be run."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..jacobians import Key, Progress
from ..measurement import Measurement
from ..report import GradcheckReport, PairReport
from ..sweep import ladder
from .elements import Curve, rungs

__all__ = ["SECONDS", "Case", "Point", "precision_of", "quietly"]

Array = np.ndarray[Any, Any]

SECONDS = 2.0  # for all runs of func that one diagnosis needs; a run that has begun ends


def precision_of(dtype: np.dtype[Any]) -> float:
    """The relative spacing of floating point numbers; integers are exact."""
    return float(np.finfo(dtype).eps) if dtype.kind in "fc" else 0.0


@dataclass(frozen=True)
class Point:
    """func and some rows of its analytical Jacobian at other inputs."""

    measurement: Measurement
    outputs: tuple[Array, ...]

    def pulled(self, cotangents: Mapping[int, Array | None]) -> list[Array]:
        """Gradients of all checked inputs, zeros for None."""
        found = self.measurement.linearization.pullback(cotangents)
        return [
            np.zeros(x.shape) if g is None else np.asarray(g)
            for x, g in zip(self.measurement.templates, found, strict=True)
        ]

    def row(self, key: Key, row: int) -> Array:
        """One row of the analytical Jacobian `key`, flat."""
        k, i, part = key
        template = self.measurement.outputs[k]
        g = np.zeros(template.shape, template.dtype)
        g.reshape(-1)[row] = 1j if part == "imag" else 1
        values = self.pulled({k: g})[i].reshape(-1)
        return values if self.measurement.templates[i].is_complex else values.real


class Case:
    """One failed or passed check under examination.

    Attributes
    ----------
    values : list of ndarray
        The checked inputs; `outputs` is func there, as the user would run it.
    precision : float
        Relative spacing of the coarsest floating point numbers among inputs and outputs.
    """

    def __init__(self, measurement: Measurement, report: GradcheckReport, seconds: float = SECONDS) -> None:
        self.measurement, self.report = measurement, report
        self._deadline = time.perf_counter() + seconds
        self._curves: dict[tuple[int, int], dict[Key, Curve] | None] = {}

    # -- what is known without running func ------------------------------------------------------------------
    @cached_property
    def values(self) -> list[Array]:
        m = self.measurement
        return [np.array(m.engine.array(m.inputs[i])) for i in m.checked]

    @property
    def in_time(self) -> bool:
        """Whether func may be run once more."""
        return time.perf_counter() < self._deadline

    def precision(self, key: Key) -> float:
        """Relative spacing of the coarsest floating point numbers known to be involved."""
        k, i, _ = key
        known = max(precision_of(self.measurement.outputs[k].dtype), precision_of(self.measurement.templates[i].dtype))
        return max(known, float(np.finfo(np.float32).eps)) if self.single[k] else known

    @cached_property
    def single(self) -> tuple[bool, ...]:
        """Of each output: is it double, while all its values are those of single precision, wherever func is run?"""
        moves = {i: _moved(x) for i, x in enumerate(self.values)}
        runs = [self.outputs, quietly(lambda: self.at(moves), ())]
        if len(runs[1]) != len(runs[0]):
            return (False,) * len(runs[0])
        return tuple(all(map(_is_single, values)) for values in zip(*runs, strict=True))

    def noise(self, pair: PairReport) -> float:
        """What rounding of the outputs alone adds to a central difference at the eps of the report."""
        size = float(np.nanmax(abs(self.outputs[pair.key[0]]), initial=0.0))
        return self.precision(pair.key) * (size if np.isfinite(size) else 0.0) / self.report.eps

    # -- running func ------------------------------------------------------------------------------------------
    @cached_property
    def outputs(self) -> tuple[Array, ...]:
        return self.at({})

    def at(self, moved: Mapping[int, Array]) -> tuple[Array, ...]:
        """func, run the plain way, where checked inputs hold other values; they are restored."""
        m = self.measurement
        plain = m._chosen(self.report.eps)[1] if m._evaluators is None else m._evaluators[1]

        def run() -> tuple[Array, ...]:
            kept = [b.copy() for b in plain.buffers]
            try:
                for i, values in moved.items():
                    places = plain.positions[i] if plain.positions else None
                    buffer = plain.buffers[i]
                    flat = values.reshape(-1)
                    buffer[...] = (flat if places is None else flat[places]).reshape(buffer.shape)
                with np.errstate(all="ignore"):
                    return tuple(np.array(o) for o in plain.run())
            finally:
                for buffer, original in zip(plain.buffers, kept, strict=True):
                    buffer[...] = original

        return m._watched(run, plain.buffers)[0]

    def point(self, moved: Mapping[int, Array]) -> Point:
        """func recorded at copies of the inputs, some of which hold other values. The originals take no part."""
        m = self.measurement
        inputs = list(m.inputs)
        for n, i in enumerate(m.checked):
            values = np.ascontiguousarray(moved.get(n, self.values[n]).astype(m.templates[n].dtype))
            inputs[i] = m.engine.tensor(values.copy(), like=m.inputs[i])
        other = Measurement(m.func, tuple(inputs), engine=m.engine, labels=m.labels, stacklevel=None)
        outputs = m._watched(lambda: tuple(np.array(o) for o in other.linearization.outputs))[0]
        return Point(other, outputs)

    def curves(self, i: int, column: int) -> Generator[Progress, None, dict[Key, Curve] | None]:
        """The quotients of one column over a ladder of steps, for all outputs; None if there is no time or no way."""
        if (i, column) not in self._curves and self.in_time:
            found = yield from self._measured_curves(i, column)
            self._curves[i, column] = found
        return self._curves.get((i, column))

    def _measured_curves(self, i: int, column: int) -> Generator[Progress, None, dict[Key, Curve] | None]:
        m = self.measurement
        x, template = self.values[i].reshape(-1), m.templates[i]
        finite = abs(x[np.isfinite(x)])
        steps = rungs(self.report.eps, abs(x[column]), float(finite.max(initial=0.0)), template.dtype)
        steps = self._affordable(steps)
        with np.errstate(all="ignore"):
            found = yield from ladder(m, i, column, steps)
        if not found:
            return None
        keys = found[0].central
        taken = np.array([s.eps for s in found])
        raised = tuple(h for h in steps if h not in set(taken.tolist()))
        return {
            key: Curve(
                steps=taken,
                central=np.array([s.central[key] for s in found]),
                forward=np.array([s.forward[key] for s in found]),
                backward=np.array([s.backward[key] for s in found]),
                value=np.real(self.outputs[key[0]].reshape(-1)) if key[2] != "imag"
                else np.imag(self.outputs[key[0]].reshape(-1)),
                precision=self.precision(key),
                scale=float(abs(x[column])) or float(finite.max(initial=0.0)) or 1.0,
                raised=raised,
            )
            for key in keys
        }  # fmt: skip

    def _affordable(self, steps: tuple[float, ...]) -> tuple[float, ...]:
        """As many rungs as there is time for, those around eps and the usual best steps first."""
        begin = time.perf_counter()
        self.at({})
        cost = 4 * max(time.perf_counter() - begin, 1e-9)
        count = int((self._deadline - time.perf_counter()) / cost / 2)  # not all on one column
        if count >= len(steps):
            return steps
        order = sorted(steps, key=lambda h: abs(np.log10(h / self.report.eps)))
        return tuple(sorted(order[: max(count, 3)]))


def quietly(run: Callable[[], Any], otherwise: Any = None) -> Any:
    """``run()``, or `otherwise` if that raises: a point outside of func's domain, say."""
    try:
        with np.errstate(all="ignore"):
            return run()
    except Exception:
        return otherwise


def _moved(x: Array) -> Array:
    """Moved by about a thousandth, to values with all the digits that a double has."""
    step = 1e-3 * np.random.default_rng(1).uniform(0.5, 1.0, x.shape)
    return np.asarray(x + (step * (abs(x) + (x == 0))).astype(x.dtype))


def _is_single(x: Array) -> bool:
    if x.dtype not in (np.float64, np.complex128):
        return False
    narrow = np.complex64 if x.dtype.kind == "c" else np.float32
    with np.errstate(all="ignore"):
        if not np.array_equal(x, x.astype(narrow), equal_nan=True):
            return False
        coarse = x.real.astype(np.float16) + (1j * x.imag.astype(np.float16) if x.dtype.kind == "c" else 0)
    # integers, halves and the like fit into anything: they say nothing
    return not np.array_equal(x, coarse, equal_nan=True)
