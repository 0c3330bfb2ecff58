"""One analytical and one numerical Jacobian under (atol, rtol). Pure NumPy: no I/O, no state."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["Comparison", "Element"]

LEADING = 16  # so many of the worst elements are found once and kept

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Element:
    """One element of a Jacobian: where it is, both values, and how they compare.

    ``row`` and ``column`` are flat positions in the output and the input; ``ratio`` is error over tolerance.
    """

    row: int
    column: int
    analytical: complex
    numerical: complex
    error: float
    tolerance: float
    ratio: float
    failing: bool


@dataclass(frozen=True, eq=False)
class Comparison:
    """Elementwise ``abs(analytical - numerical) <= atol + rtol * abs(numerical)``.

    This is ``numpy.allclose(analytical, numerical, atol=atol, rtol=rtol)``, numerical side as the reference: equal
    infinities pass, a NaN never does.

    Parameters
    ----------
    analytical, numerical : ndarray, shape (m, n)
        float64 or complex128.
    atol, rtol : float
    """

    analytical: Array
    numerical: Array
    atol: float
    rtol: float

    @cached_property
    def error(self) -> Array:
        """``abs(analytical - numerical)``, 0 for equal infinities."""
        with np.errstate(all="ignore"):
            return np.asarray(np.where(self.analytical == self.numerical, 0.0, abs(self.analytical - self.numerical)))

    def judge(self, atol: float, rtol: float) -> Comparison:
        """The same values under other tolerances; what does not depend on them is not computed again."""
        other = Comparison(self.analytical, self.numerical, atol, rtol)
        for name in ("error", "_size", "_near_misses"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        return other

    @cached_property
    def _size(self) -> Array:
        with np.errstate(all="ignore"):
            size = abs(self.numerical)
            return np.asarray(np.where(np.isfinite(size), size, 0.0))

    @cached_property
    def tolerance(self) -> Array:
        """``atol + rtol * abs(numerical)``; a numerical value that is not finite earns no tolerance beyond atol."""
        with np.errstate(all="ignore"):
            return np.asarray(self.atol + self.rtol * self._size)

    @cached_property
    def failing(self) -> Array:
        """Boolean, shape (m, n)."""
        with np.errstate(all="ignore"):
            return ~(self.error <= self.tolerance)

    @cached_property
    def ratio(self) -> Array:
        """Error over tolerance, 1 at the limit: 0 where the error is 0, inf where the error is NaN."""
        with np.errstate(all="ignore"):
            ratio = np.where(self.error == 0, 0.0, self.error / self.tolerance)
        return np.where(np.isnan(ratio), np.inf, ratio)

    @cached_property
    def failing_count(self) -> int:
        return int(np.count_nonzero(self.failing))

    @property
    def passed(self) -> bool:
        return self.failing_count == 0

    @cached_property
    def largest_ratio(self) -> float:
        return float(self.ratio.max()) if self.ratio.size else 0.0

    def element(self, row: int, column: int) -> Element:
        at = (row, column)
        return Element(
            int(row),
            int(column),
            self.analytical[at].item(),
            self.numerical[at].item(),
            float(self.error[at]),
            float(self.tolerance[at]),
            float(self.ratio[at]),
            bool(self.failing[at]),
        )

    def worst(self, k: int = 5) -> tuple[Element, ...]:
        """The `k` elements with the largest ratio, the worst first; NaN before infinity, then by error."""
        return self._leading[:k] if 0 < k <= LEADING else self._ordered(k)

    @cached_property
    def _leading(self) -> tuple[Element, ...]:
        return self._ordered(LEADING)

    def _ordered(self, k: int) -> tuple[Element, ...]:
        flat = self.ratio.ravel()
        k = min(k, flat.size)
        if k <= 0:
            return ()
        if flat.size > k:
            candidates = np.flatnonzero(flat >= np.partition(flat, flat.size - k)[flat.size - k])
        else:
            candidates = np.arange(flat.size)
        error = self.error.ravel()[candidates]
        order = np.lexsort((candidates, -np.nan_to_num(error, nan=np.inf), ~np.isnan(error), -flat[candidates]))
        chosen = candidates[order[:k]]
        return tuple(self.element(*divmod(int(c), self.ratio.shape[1])) for c in chosen)

    @cached_property
    def nonzero(self) -> Array:
        """Elements of which a share can be wrong at all: all but those whose analytical value is a passing 0."""
        return np.asarray((self.analytical != 0) | self.failing)

    def detected(self, share: float = 0.01) -> Array:
        """Boolean (m, n): an analytical value off by `share`, up or down, would have failed here."""
        if not (0 < share < np.inf):
            raise ValueError(f"share must be a positive number, such as 0.01 for 1 %, got {share!r}")
        error = self._near_misses.get(share)
        if error is None:
            # it must fail on both sides, so the smaller error counts
            with np.errstate(all="ignore"):
                wrong = [self.analytical * factor for factor in (1 + share, 1 - share)]
                error = np.fmin(*(np.where(w == self.numerical, 0.0, abs(w - self.numerical)) for w in wrong))
            self._near_misses[share] = error
        with np.errstate(all="ignore"):
            return np.asarray(~(error <= self.tolerance) & self.nonzero)

    @cached_property
    def _near_misses(self) -> dict[float, Array]:
        return {}

    def detection_power(self, share: float = 0.01) -> float:
        """The share of nonzero elements on which an error of `share` (0.01: 1 %) of the value would have been seen.

        Exact, not estimated: `detected` elements over `nonzero` ones; 0 if every element is 0, since then nothing
        was tested.
        """
        total = int(np.count_nonzero(self.nonzero))
        return float(np.count_nonzero(self.detected(share))) / total if total else 0.0
