"""One column of a Jacobian over a ladder of steps: is the gradient to blame, or the step?

With h the step and e the relative spacing of floating point numbers, a central difference D(h) is off by

    truncation  h**2 |f'''| / 6      and      rounding  >= e |f| / h,

so D(h) is flat between the two: a plateau. Its height is the derivative, whatever the analytical side says:

    right gradient, bad step    |A - D| on the plateau is small, at the user's eps it is not
    wrong gradient              |A - D| on the plateau is far above the spread S of neighbouring quotients
    cannot tell                 there is no plateau: S exceeds the tolerance everywhere
    kink                        forward and backward quotients differ by a gap that does not shrink with h

S is floored by the rounding error: a minimum over few noisy values is biased low. The plateau with the smallest steps
counts, since quotients over large steps may agree with each other by accident (sin(2 pi x) over whole periods).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["Curve", "Reading", "read", "rungs"]

Array = np.ndarray[Any, Any]

WRONG = 3.0  # times the uncertainty of the best estimate: below, a difference means nothing
BETWEEN = np.e  # not a round number: periods of func are, and would fool neighbouring rungs together


def rungs(eps: float, x: float, largest: float, dtype: np.dtype[Any]) -> tuple[float, ...]:
    """Steps for an element of size `x`, in an input whose largest is `largest`: two for each decade, and eps.

    Up to the size of the element; down to a millionth of it, where that is less than 1e-12.
    """
    x = x if np.isfinite(x) else 0.0
    size = x or largest
    low, high = 1e-12, 0.1
    if size > 0:
        low, high = min(low, size * 1e-6), max(high, 10.0 ** np.ceil(np.log10(size)))
    resolution = float(np.finfo(dtype).eps) * x
    decades = range(int(np.floor(np.log10(max(low, 1e-290)))), int(np.round(np.log10(high))) + 1)
    made = {float(f"1e{d}") for d in decades} | {BETWEEN * 10.0**d for d in decades}
    limit = float(np.finfo(dtype).max) / 10
    return tuple(sorted({eps} | {h for h in made if resolution < h < limit}))


@dataclass(frozen=True, eq=False)
class Curve:
    """Quotients of all elements of an output with respect to one input element: arrays of shape (steps, rows).

    ``value`` is the output at the point itself; `precision` its relative spacing; `scale` the size of the input
    element; `raised` the steps at which func raised.
    """

    steps: Array
    central: Array
    forward: Array
    backward: Array
    value: Array
    precision: float
    scale: float
    raised: tuple[float, ...] = ()

    @cached_property
    def noise(self) -> Array:
        """What rounding of the output alone does: e (|f| / h + |D|)."""
        with np.errstate(all="ignore"):
            size = np.where(np.isfinite(self.value), abs(self.value), 0.0)
            floor = size / self.steps[:, None] + np.nan_to_num(abs(self.central), nan=0.0, posinf=0.0)
            return np.asarray(self.precision * floor)

    def resolved(self, row: int, analytical: complex, tolerance: float) -> Array:
        """The central quotients, NaN where both evaluations round to the same value.

        An exact 0 says that func did not move. It is a derivative of 0 only if func stays for steps that matter, or
        if the analytical side says 0 too and the first move is no rounding: a kink nearby.
        """
        D = np.array(self.central[:, row])
        moving = np.flatnonzero((D != 0) & np.isfinite(D))
        if moving.size and moving[0] > 0 and self.steps[moving[0]] <= 1e-3 * self.scale:
            moved = 2 * self.steps[moving[0]] * abs(D[moving[0]])
            exact = moved > 100 * self.precision * abs(self.value[row])
            if not (exact and abs(analytical) <= tolerance):
                D[: moving[0]] = np.nan
        return D

    def spread(self, row: int, D: Array) -> Array:
        """S: the larger difference of D to its two neighbours, infinite where there is none."""
        with np.errstate(all="ignore"):
            steps = abs(np.diff(D))
            below, above = np.append(np.nan, steps), np.append(steps, np.nan)
            # at the ends of the ladder there is one neighbour only: less to go by
            S = np.where(np.isnan(below), 3 * above, np.where(np.isnan(above), 3 * below, np.fmax(below, above)))
            S = np.where(np.isfinite(S) & np.isfinite(D), S, np.inf)
            return np.asarray(np.maximum(S, 4 * self.noise[:, row]))

    @cached_property
    def gap(self) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(abs(self.forward - self.backward))


@dataclass(frozen=True)
class Reading:
    """What the curve of one element says.

    ``status`` is one of ``wrong`` (gradient), ``kink``, ``jump``, ``near-kink`` (within eps), ``nan`` (analytical),
    ``domain``, ``small`` and ``large`` (step), ``unclear``. `best` is the derivative on the plateau, up to
    `uncertainty`; `passing` are the steps at which the element passes.
    """

    status: str
    best: complex = np.nan
    uncertainty: float = np.inf
    step: float = np.nan
    passing: tuple[float, ...] = ()
    slopes: tuple[complex, complex] = (np.nan, np.nan)
    rounding: float = 0.0  # what rounding of the output does at the user's eps


def read(
    curve: Curve, row: int, analytical: complex, numerical: complex, *, eps: float, atol: float, rtol: float
) -> Reading:
    """Classify one element."""
    with np.errstate(all="ignore"):
        return _read(curve, row, analytical, numerical, eps, atol, rtol)


def _read(
    curve: Curve, row: int, analytical: complex, numerical: complex, eps: float, atol: float, rtol: float
) -> Reading:
    A, h = analytical, curve.steps
    D = curve.resolved(row, A, atol)
    S = curve.spread(row, D)
    tolerance = np.maximum(atol + rtol * abs(D), 1e-300)
    best, U, step = _plateau(h, D, S, tolerance)
    value = curve.value[row]
    rounding = curve.precision * abs(value) / eps if np.isfinite(value) else np.inf
    slopes = kink(curve, row, atol + rtol * abs(best if np.isfinite(best) else 0.0))
    if not np.isfinite(value):
        return Reading("domain", best, U, step)
    if slopes is not None:
        return Reading("kink", best, U, step, slopes=slopes)
    if jump(curve, row):
        return Reading("jump", best, U, step)
    near = (h <= eps * (1 + 1e-9)) & ~np.isfinite(curve.central[:, row])
    outside = bool(near.any()) or any(r <= eps * (1 + 1e-9) for r in curve.raised)
    if not np.isfinite(A):
        if outside or not np.isfinite(best):
            return Reading("domain", best, U, step)
        return Reading("nan", best, U, step)
    error = abs(A - D)
    passing = tuple(float(s) for s in h[error <= tolerance])
    stuck = abs(curve.precision * curve.scale) >= eps  # x + eps == x
    if outside and not stuck:
        return Reading("domain", best, U, step, passing)
    if not np.isfinite(best):
        return Reading("unclear", best, U, step, passing, rounding=rounding)
    allowed = atol + rtol * abs(best)
    off = abs(A - best)
    if off > allowed + (WRONG if 0.3 * allowed >= U else 10.0) * U:
        if _agrees_elsewhere(error, tolerance, S):
            return Reading("small", best, U, step, passing, rounding=rounding)
        return Reading("wrong", best, U, step, passing, rounding=rounding)
    if off > allowed and allowed < U:
        return Reading("unclear", best, U, step, passing, rounding=rounding)
    if step >= eps:
        return Reading("small", best, U, step, passing, rounding=rounding)
    if _jumps(h, error, curve.noise[:, row], tolerance, step, eps):
        return Reading("near-kink", best, U, step, passing, rounding=rounding)
    return Reading("large", best, U, step, passing, rounding=rounding)


def _plateau(h: Array, D: Array, S: Array, tolerance: Array) -> tuple[complex, float, float]:
    """The derivative, its uncertainty and its step: where S is least on the first stretch that the tolerance can use,
    or anywhere, if there is no such stretch."""
    if not np.isfinite(S).any():
        return np.nan, np.inf, np.nan
    usable = np.isfinite(S) & (0.3 * tolerance >= S)
    if usable.any():
        first = int(np.argmax(usable))
        rest = np.flatnonzero(~usable[first:])
        last = first + int(rest[0]) if rest.size else len(h)
        k = first + int(np.argmin(S[first:last]))
    else:
        k = int(np.argmin(S / tolerance))  # relative: where func saturates, D and S both vanish as 1/h
    return D[k].item(), float(S[k]), float(h[k])


def _agrees_elsewhere(error: Array, tolerance: Array, S: Array) -> bool:
    """Whether the analytical value sits on another plateau: func is then rough on a small scale, as tables are."""
    good = (error <= tolerance) & (0.3 * tolerance >= S)
    return bool((good[:-1] & good[1:]).any())


def kink(curve: Curve, row: int, tolerance: float) -> tuple[complex, complex] | None:
    """The one-sided slopes, if they differ by a gap that does not shrink with h.

    Where func is smooth the gap is h |f''|: a hundredth over two decades. Where rounding rules it is as 1/h. In
    between, constant, or with a power of h (the root of |x|: -1/2), it is a kink.
    """
    gap, h = curve.gap[:, row], curve.steps
    clear = np.isfinite(gap) & (gap > 20 * curve.noise[:, row]) & (gap > tolerance)
    where = np.flatnonzero(clear)
    if where.size < 5:
        return None
    where = where[h[where] <= 110 * h[where[0]]]
    span = h[where[-1]] / h[where[0]]
    if where.size < 4 or span < 50:
        return None
    g = gap[where]
    slope, offset = np.polyfit(np.log(h[where]), np.log(g), 1)
    residual = float(abs(np.log(g) - slope * np.log(h[where]) - offset).max())
    constant = g.max() <= 1.5 * g.min()
    power = -0.9 < slope < -0.1 and residual < 0.05
    if not (constant or power):
        return None
    return curve.backward[where[0], row].item(), curve.forward[where[0], row].item()


def jump(curve: Curve, row: int) -> bool:
    """Whether func jumps at this very point: D h is constant, far above rounding."""
    h, D = curve.steps, curve.central[:, row]
    moved = abs(D) * h
    clear = np.flatnonzero(np.isfinite(moved) & (moved > 1e3 * curve.noise[:, row] * h) & (h <= 0.3 * curve.scale))
    if clear.size < 6 or h[clear[-1]] < 1e3 * h[clear[0]]:
        return False
    small = moved[clear[: max(6, clear.size // 2)]]
    return bool(small.max() <= 1.02 * small.min())


def _jumps(h: Array, error: Array, noise: Array, tolerance: Array, step: float, eps: float) -> bool:
    """Whether the error, growing from the plateau to eps, leaps by more than a smooth function's can.

    Truncation grows as h**2: 100-fold in a decade. A kink at a distance d adds nothing below d and all of it above.
    """
    inside = np.flatnonzero((h >= step * (1 - 1e-9)) & np.isfinite(error))
    for a, b in pairwise(inside):
        before = max(error[a], 8 * noise[a])
        if h[a] < eps and h[b] <= 10 * eps and error[b] > tolerance[b] and error[b] > 300 * before:
            return True
    return False
