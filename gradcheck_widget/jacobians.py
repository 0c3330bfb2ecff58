"""Numerical and analytical Jacobians, as generators that can be driven, timed and stopped between two columns.

``J[i, j] = d out.flat[i] / d in.flat[j]``, one matrix for each pair of output and input. A complex output is two
real functions, its real and its imaginary part, with a matrix each. For a complex input x = a + bi the entry is
``d/da + i d/db``, PyTorch's convention for the gradient of a real function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .engines.base import Array, Evaluator, Linearization
from .errors import GradcheckError

__all__ = ["Key", "Numerical", "Progress", "Template", "analytical_rows", "drain", "numerical_columns", "parts_of"]

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
        return int(np.prod(self.shape, dtype=int))

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
    """Run a generator to its end and give what it returns."""
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        if progress is not None:
            progress(step)


def numerical_columns(
    evaluator: Evaluator, inputs: Sequence[Template], outputs: Sequence[Template], eps: float
) -> Generator[Progress, None, Numerical]:
    """Central differences ``(f(x + eps) - f(x - eps)) / ((x + eps) - (x - eps))``, one element at a time.

    The divisor is the step really taken in floating point. At each yield every input has its own bits again; they are
    also restored on an exception from ``func``, on Ctrl-C and when the generator is closed.
    """
    kept = [k for k, o in enumerate(outputs) if o.is_inexact]
    total = 2 * sum(x.size * (2 if x.is_complex else 1) for x in inputs)
    done = 0
    jacobians: dict[Key, Array] = {}
    unmoved = []
    for i, (buffer, template) in enumerate(zip(evaluator.buffers, inputs, strict=True)):
        n = template.size
        stuck = np.zeros(n, bool)
        slopes: dict[tuple[int, str], Array] = {}
        for direction in ("real", "imag") if template.is_complex else ("",):
            down, up, taken = _stencil(buffer, direction, eps)
            stuck |= (up == buffer.ravel()) | (down == buffer.ravel())
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
                d = {direction: _part(slopes[k, direction], part) for kk, direction in slopes if kk == k}
                J = d["real"] + 1j * d["imag"] if template.is_complex else d[""]
                J[stuck] = np.nan
                jacobians[k, i, part] = J.T
        unmoved.append(stuck.reshape(template.shape))
    return Numerical(jacobians, tuple(unmoved))


def _part(values: Array, part: str) -> Array:
    return values.real.copy() if part == "real" else values.imag.copy() if part == "imag" else values


def _stencil(x: Array, direction: str, eps: float) -> tuple[Array, Array, Array]:
    """Each element moved down and up along `direction`, and the distance between the two as floating point has it."""
    down, up = x.flatten(), x.flatten()
    with np.errstate(all="ignore"):
        if direction == "":
            down -= x.dtype.type(eps)
            up += x.dtype.type(eps)
            return down, up, (up - down).astype(np.float64)
        step = x.real.dtype.type(eps)
        low, high = (down.real, up.real) if direction == "real" else (down.imag, up.imag)
        low -= step
        high += step
        return down, up, (high - low).astype(np.float64)


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
    copied before the input moves on, since an output may be a view of it.
    """
    buffer, run = evaluator.buffers[i], evaluator.run
    original = buffer.copy()
    still = original.reshape(-1) if original.flags.c_contiguous else original.ravel()
    flat: Any = buffer.reshape(-1) if buffer.flags.c_contiguous else buffer.flat
    n = buffer.size
    block = max(1, min(n, BLOCK // max(1, sum(outputs[k].size for k in kept))))
    low, high = ({k: np.empty((block, *outputs[k].shape), _work(outputs[k].dtype)) for k in kept} for _ in "-+")
    expected = [(o.shape, o.dtype) for o in outputs]
    start, j, sign = 0, 0, "-"
    try:
        for j in range(n):
            row = j - start
            sign = "-"
            flat[j] = down[j]
            values = run()
            if [(v.shape, v.dtype) for v in values] != expected:
                raise _changed_output(values, outputs, inputs[i], j, -eps)
            for k in kept:
                low[k][row] = values[k]
            sign = "+"
            flat[j] = up[j]
            values = run()
            if [(v.shape, v.dtype) for v in values] != expected:
                raise _changed_output(values, outputs, inputs[i], j, eps)
            for k in kept:
                high[k][row] = values[k]
            flat[j] = still[j]
            if row + 1 == block or j + 1 == n:
                yield start, j + 1, low, high
                start = j + 1
            else:
                yield start, None, low, high
    except Exception as error:
        place = element_name(inputs[i].name, inputs[i].shape, j)
        error.add_note(f"gradcheck was evaluating func at x {sign} eps of {place}, eps={eps:g}")
        raise
    finally:
        buffer[...] = original


def _work(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.promote_types(dtype, np.complex128 if dtype.kind == "c" else np.float64)


def _changed_output(
    values: Sequence[Array], outputs: Sequence[Template], x: Template, j: int, step: float
) -> GradcheckError:
    place = element_name(x.name, x.shape, j)
    if len(values) != len(outputs):
        what = f"{len(outputs)} outputs, now {len(values)}"
    else:
        k = next(
            k for k, (v, o) in enumerate(zip(values, outputs, strict=True)) if (v.shape, v.dtype) != (o.shape, o.dtype)
        )
        what = f"output {k}: {outputs[k].shape} {outputs[k].dtype}, now {values[k].shape} {values[k].dtype}"
    return GradcheckError(
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

    Outputs without a gradient have rows of zeros. A row is copied before the cotangent is used again, since the gradient
    of an identity is the cotangent's own memory.

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
