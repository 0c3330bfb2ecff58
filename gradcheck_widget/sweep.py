"""Difference quotients of one input element over a ladder of steps: what eps does to the numerical side.

A central difference is off by truncation, which grows as eps^2, and by rounding, which grows as 1/eps. Where the
analytical value is right, its distance to the quotient follows that V; where it is wrong, the distance stays.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .jacobians import Key, Progress, parts_of
from .measurement import Measurement

__all__ = ["LADDER", "Slopes", "ladder"]

Array = np.ndarray[Any, Any]

LADDER = tuple(10.0**e for e in range(-12, 0))


@dataclass(frozen=True)
class Slopes:
    """Derivatives of all outputs with respect to one element, by three difference quotients at one eps.

    Each maps (output, checked input, part) to an array with one value for each output element, complex for a
    complex input. ``central = (f(x + eps) - f(x - eps)) / ((x + eps) - (x - eps))``; ``forward`` and ``backward`` are
    one-sided.
    """

    eps: float
    central: dict[Key, Array]
    forward: dict[Key, Array]
    backward: dict[Key, Array]


def ladder(
    measurement: Measurement, i: int, column: int, steps: Sequence[float] = LADDER
) -> Generator[Progress, None, tuple[Slopes, ...]]:
    """Measure element `column` (flat position) of checked input `i` at each of `steps`: two runs of func a step.

    A step at which func raises (outside of its domain, say) is left out. The inputs are restored at each yield.
    """
    evaluator = measurement.evaluator
    buffer, template = evaluator.buffers[i], measurement.templates[i]
    places = evaluator.positions[i] if evaluator.positions else None
    flat: Any = buffer.reshape(-1) if buffer.flags.c_contiguous else buffer.flat
    j = column if places is None else int(np.flatnonzero(places == column)[0]) if column in places else -1
    if j < 0:  # an unspecified element of a masked sparse input does not move
        return ()
    original = buffer.copy()
    x = flat[j]
    kept = [k for k, o in enumerate(measurement.outputs) if o.is_inexact]
    directions: tuple[complex, ...] = (1, 1j) if template.is_complex else (1,)
    total, done = 2 * len(steps) * len(directions) + 1, 1

    def at(value: Any) -> dict[int, Array]:
        try:
            flat[j] = value
            outputs = evaluator.run()
            return {k: np.array(outputs[k], _wide(outputs[k].dtype)) for k in kept}
        finally:
            buffer[...] = original

    here = at(x)
    yield Progress(done, total)
    found = []
    for eps in steps:
        quotients: list[tuple[dict[Key, Array], ...]] = []
        try:
            for d in directions:
                low, high = x.dtype.type(x - d * eps), x.dtype.type(x + d * eps)
                f_low, f_high = at(low), at(high)
                quotients.append(
                    tuple(
                        _quotients(measurement, i, b, a, abs(high_x - low_x))
                        for a, b, low_x, high_x in (
                            (f_low, f_high, low, high),
                            (here, f_high, x, high),
                            (f_low, here, low, x),
                        )
                    )
                )
                done += 2
                yield Progress(done, total)
        except Exception:
            continue
        joined = [
            {key: q[0][n][key] + 1j * q[1][n][key] if len(q) == 2 else q[0][n][key] for key in q[0][n]}
            for q in (quotients,)
            for n in range(3)
        ]
        found.append(Slopes(eps, *joined))
    return tuple(found)


def _quotients(
    measurement: Measurement, i: int, high: dict[int, Array], low: dict[int, Array], step: Any
) -> dict[Key, Array]:
    out: dict[Key, Array] = {}
    for k in high:
        with np.errstate(all="ignore"):
            slope = (high[k] - low[k]).reshape(-1) / step if step > 0 else np.full(high[k].size, np.nan)
        for part in parts_of(measurement.outputs[k]):
            out[k, i, part] = slope.imag if part == "imag" else slope.real
    return out


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.promote_types(dtype, np.complex128 if dtype.kind == "c" else np.float64)
