"""Numerical and analytical Jacobians, as generators that can be driven, timed and stopped between two columns.

``J[i, j] = d out.flat[i] / d in.flat[j]``, one matrix for each pair of output and input. A complex output is two
real functions, its real and its imaginary part, with a matrix each. For a complex input x = a + bi the entry is
``d/da + i d/db``, PyTorch's convention for the gradient of a real function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .engines.base import Array, Evaluator, Linearization, Pushforward
from .errors import GradcheckError, OutputChanged

__all__ = [
    "Key",
    "Numerical",
    "Progress",
    "Template",
    "analytical_rows",
    "drain",
    "forward_columns",
    "numerical_columns",
    "parts_of",
]

Key = tuple[int, int, str]  # output, input (both as positions among outputs and checked inputs), part

BLOCK = 1 << 16  # outputs kept before they are subtracted and divided at once


@dataclass(frozen=True)
class Template:
    """Shape and dtype of an output or a checked input, and what to call it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name: str

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_complex(self) -> bool:
        return self.dtype.kind == "c"

    @property
    def is_inexact(self) -> bool:
        return self.dtype.kind in "fc"


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` evaluations (or pullbacks)."""

    done: int
    total: int


@dataclass(frozen=True)
class Numerical:
    """Central differences at one eps. ``unmoved[i]`` marks elements of checked input i for which x + eps == x."""

    jacobians: dict[Key, Array]
    unmoved: tuple[Array, ...]


def parts_of(output: Template) -> tuple[str, ...]:
    return ("real", "imag") if output.is_complex else ("",)


def drain(steps: Generator[Progress, None, Any], progress: Callable[[Progress], None] | None = None) -> Any:
    """Run a generator to its end and give what it returns; it is closed if `progress` raises, or on Ctrl-C."""
    try:
        while True:
            step = next(steps)
            if progress is not None:
                progress(step)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def numerical_columns(
    evaluator: Evaluator, inputs: Sequence[Template], outputs: Sequence[Template], eps: float
) -> Generator[Progress, None, Numerical]:
    """Central differences ``(f(x + eps) - f(x - eps)) / ((x + eps) - (x - eps))``, one element at a time.

    The divisor is the step really taken in floating point. At each yield every input has its own bits again, and so it
    has after an exception from ``func`` and Ctrl-C.

    Raises
    ------
    OutputChanged
        If the number of outputs, a shape or a dtype differs from `outputs`.
    """
    kept = [k for k, o in enumerate(outputs) if o.is_inexact]
    total = 2 * sum(b.size * (2 if x.is_complex else 1) for b, x in zip(evaluator.buffers, inputs, strict=True))
    done = 0
    jacobians: dict[Key, Array] = {}
    unmoved = []
    for i, (buffer, template) in enumerate(zip(evaluator.buffers, inputs, strict=True)):
        n = buffer.size
        places = evaluator.positions[i] if evaluator.positions else None
        stuck = np.zeros(n, bool)
        slopes: dict[tuple[int, str], Array] = {}
        for direction in ("real", "imag") if template.is_complex else ("",):
            down, up, taken, unable = _stencil(buffer, direction, eps)
            stuck |= unable
            for k in kept:  # transposed: a column is written as one contiguous row
                dtype = np.complex128 if outputs[k].is_complex else np.float64
                slopes[k, direction] = np.empty((n, outputs[k].size), dtype)
            for start, stop, low, high in _stencil_values(evaluator, i, inputs, outputs, kept, down, up, eps):
                if stop is not None:
                    with np.errstate(all="ignore"):
                        for k in kept:
                            rows = slopes[k, direction][start:stop]
                            count = stop - start
                            np.subtract(high[k][:count], low[k][:count], out=high[k][:count])
                            rows[...] = high[k][:count].reshape(rows.shape) / taken[start:stop, None]
                done += 2
                yield Progress(done, total)
        for k in kept:
            for part in parts_of(outputs[k]):
                if template.is_complex:  # not d_a + 1j * d_b, whose real part is NaN where d_b is infinite
                    J = np.empty((n, outputs[k].size), np.complex128)
                    J.real, J.imag = (_part(slopes[k, direction], part) for direction in ("real", "imag"))
                else:
                    J = _part(slopes[k, ""], part)
                J[stuck] = np.nan
                jacobians[k, i, part] = _placed(J, places, template.size).T
        unmoved.append(_placed(stuck, places, template.size).reshape(template.shape))
    return Numerical(jacobians, tuple(unmoved))


def _placed(rows: Array, places: Array | None, size: int) -> Array:
    """Rows of the elements of a sparse input at their places among those of the dense one, zeros elsewhere."""
    if places is None:
        return rows
    out = np.zeros((size, *rows.shape[1:]), rows.dtype)
    out[places] = rows
    return out


def _part(values: Array, part: str) -> Array:
    return values.real.copy() if part == "real" else values.imag.copy() if part == "imag" else values


def _stencil(x: Array, direction: str, eps: float) -> tuple[Array, Array, Array, Array]:
    """Each element moved down and up along `direction`, the distance between the two as floating point has it, and
    whether one of them did not move at all."""
    flat, down, up = x.ravel(), x.flatten(), x.flatten()
    low, high = (down, up) if direction == "" else (getattr(down, direction), getattr(up, direction))
    step = x.real.dtype.type(eps)
    with np.errstate(all="ignore"):
        low -= step
        high += step
        taken = (high - low).astype(np.float64)
    # an infinite value stays where it is by nature, not because the step is too small: its slope is 0 / (2 eps)
    finite = np.isfinite(flat)
    taken[~finite] = 2 * eps
    return down, up, taken, finite & ((up == flat) | (down == flat))


def _stencil_values(
    evaluator: Evaluator,
    i: int,
    inputs: Sequence[Template],
    outputs: Sequence[Template],
    kept: Sequence[int],
    down: Array,
    up: Array,
    eps: float,
) -> Iterator[tuple[int, int | None, Mapping[int, Array], Mapping[int, Array]]]:
    """Evaluate at every moved element of buffer `i`.

    Yields after each element, with ``stop=None`` until a block of elements start..stop is complete. f(x - eps) is
    copied before the input moves on, since an output may be a view of it. Nothing is written into the buffer while
    the generator is suspended or when it is closed: by then its owner may have put other values there.
    """
    buffer, run = evaluator.buffers[i], evaluator.run
    original = buffer.copy()
    still = original.reshape(-1)
    flat: Any = buffer.reshape(-1) if buffer.flags.c_contiguous else buffer.flat
    n = buffer.size
    block = max(1, min(n, BLOCK // max(1, sum(outputs[k].size for k in kept))))
    low, high = ({k: np.empty((block, *outputs[k].shape), _work(outputs[k].dtype)) for k in kept} for _ in "-+")
    lows, highs = ([(o.shape, o.dtype, rows.get(k)) for k, o in enumerate(outputs)] for rows in (low, high))
    count = len(outputs)
    padded = buffer.dtype.char in "gG"  # a long double has bytes beside its bits, which one element takes not along

    def keep(slots: Sequence[tuple[tuple[int, ...], np.dtype[Any], Array | None]], row: int) -> None:
        values = run()
        if len(values) != count:
            raise _changed_output(values, outputs, inputs[i], where(j), step)
        for value, (shape, dtype, rows) in zip(values, slots):  # noqa: B905
            if value.shape != shape or value.dtype != dtype:
                raise _changed_output(values, outputs, inputs[i], where(j), step)
            if rows is not None:
                rows[row] = value

    places = evaluator.positions[i] if evaluator.positions else None

    def where(j: int) -> int:
        return j if places is None else int(places[j])

    start, step = 0, -eps
    for j in range(n):
        row = j - start
        try:
            step = -eps
            flat[j] = down[j]
            keep(lows, row)
            step = eps
            flat[j] = up[j]
            keep(highs, row)
            if padded:
                buffer[...] = original
            else:
                flat[j] = still[j]
        except BaseException as error:
            buffer[...] = original  # before any call, so that a second Ctrl-C cannot come between
            if isinstance(error, Exception) and not isinstance(error, OutputChanged):
                place = element_name(inputs[i].name, inputs[i].shape, where(j))
                sign = "-" if step < 0 else "+"
                error.add_note(f"gradcheck was evaluating func at x {sign} eps of {place}, eps={eps:g}")
            raise
        if row + 1 == block or j + 1 == n:
            yield start, j + 1, low, high
            start = j + 1
        else:
            yield start, None, low, high


def _work(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.promote_types(dtype, np.complex128 if dtype.kind == "c" else np.float64)


def _changed_output(
    values: Sequence[Array], outputs: Sequence[Template], x: Template, j: int, step: float
) -> OutputChanged:
    place = element_name(x.name, x.shape, j)
    if len(values) != len(outputs):
        what = f"{len(outputs)} outputs, now {len(values)}"
    else:
        k = next(
            k for k, (v, o) in enumerate(zip(values, outputs, strict=True)) if (v.shape, v.dtype) != (o.shape, o.dtype)
        )
        what = f"output {k}: {outputs[k].shape} {outputs[k].dtype}, now {values[k].shape} {values[k].dtype}"
    return OutputChanged(
        "Expected `func` to return outputs with the same shape and dtype when inputs are perturbed: it changed when "
        f"{place} moved by {step:g} ({what}). A derivative exists only where they stay"
    )


def element_name(name: str, shape: tuple[int, ...], j: int) -> str:
    """``input 1 'w' [0, 3]``; a scalar has no index."""
    index = np.unravel_index(j, shape) if shape else ()
    return name + (f" [{', '.join(str(int(a)) for a in index)}]" if shape else "")


def analytical_rows(
    linearization: Linearization, inputs: Sequence[Template], outputs: Sequence[Template]
) -> Generator[Progress, None, dict[Key, Array]]:
    """Rows of vector-Jacobian products: unit cotangents, 1 for a real part and 1j for an imaginary part.

    Outputs without a gradient have rows of zeros. A row is copied before the cotangent is used again, since the
    gradient of an identity is the cotangent's own memory.

    Raises
    ------
    GradcheckError
        If a gradient has not the shape of its input.
    """
    carried = [k for k, d in enumerate(linearization.differentiable) if d]
    total = sum(outputs[k].size * len(parts_of(outputs[k])) for k in carried)
    done = 0
    jacobians = {
        (k, i, part): np.zeros((o.size, x.size), np.complex128 if x.is_complex else np.float64)
        for k, o in enumerate(outputs)
        if o.is_inexact
        for i, x in enumerate(inputs)
        for part in parts_of(o)
    }
    for k in carried:
        cotangent = np.zeros(outputs[k].shape, outputs[k].dtype)
        flat = cotangent.reshape(-1)
        for part in parts_of(outputs[k]):
            for row in range(outputs[k].size):
                cotangent.fill(0)
                flat[row] = 1j if part == "imag" else 1
                try:
                    gradients = linearization.pullback({k: cotangent})
                except Exception as error:
                    place = element_name(outputs[k].name, outputs[k].shape, row)
                    error.add_note(f"gradcheck was pulling back a unit cotangent at {place}")
                    raise
                for i, (x, g) in enumerate(zip(inputs, gradients, strict=True)):
                    if g is None:
                        continue
                    if g.shape != x.shape:
                        raise GradcheckError(
                            f"Analytical gradient has incorrect size: {g.shape} for {x.name}, whose shape is {x.shape}"
                        )
                    if g.dtype.kind == "c" and not x.is_complex:
                        g = g.real
                    jacobians[k, i, part][row] = g.reshape(-1)
                done += 1
                yield Progress(done, total)
    return jacobians


def forward_columns(
    pushforward: Pushforward, inputs: Sequence[Template], outputs: Sequence[Template]
) -> Generator[Progress, None, dict[Key, Array]]:
    """Columns of Jacobian-vector products: unit tangents, and 1j times them for a complex input."""
    total = sum(x.size * (2 if x.is_complex else 1) for x in inputs)
    done = 0
    jacobians: dict[Key, Array] = {}
    kept = [k for k, o in enumerate(outputs) if o.is_inexact]
    for i, x in enumerate(inputs):
        for k in kept:
            for part in parts_of(outputs[k]):
                dtype = np.complex128 if x.is_complex else np.float64
                jacobians[k, i, part] = np.zeros((x.size, outputs[k].size), dtype)  # a column is a contiguous row
        tangent = np.zeros(x.shape, x.dtype)
        for direction in ("real", "imag") if x.is_complex else ("",):
            for j in range(x.size):
                tangent.fill(0)
                tangent.reshape(-1)[j] = 1j if direction == "imag" else 1
                try:
                    found = pushforward.push({i: tangent})
                except Exception as error:
                    error.add_note(
                        f"gradcheck was pushing forward a unit tangent at {element_name(x.name, x.shape, j)}"
                    )
                    raise
                if len(found) != len(outputs):
                    raise GradcheckError(
                        f"func returned {len(found)} outputs in forward mode and {len(outputs)} otherwise: it must "
                        "return the same ones"
                    )
                for k in kept:
                    t = found[k]
                    if t is None:
                        continue
                    if t.shape != outputs[k].shape:
                        raise GradcheckError(
                            f"Forward AD gradient has incorrect size: {t.shape} for {outputs[k].name}, whose shape is "
                            f"{outputs[k].shape}"
                        )
                    for part in parts_of(outputs[k]):
                        column = jacobians[k, i, part][j]
                        values = (t.imag if part == "imag" else t.real).reshape(-1)
                        if direction == "imag":
                            column.imag = values
                        elif direction == "real":
                            column.real = values
                        else:
                            column[...] = values
                done += 1
                yield Progress(done, total)
    order = sorted(jacobians, key=lambda key: (key[0], key[1]))
    return {key: jacobians[key].T for key in order}
