"""A function and its inputs with their cached Jacobians: one analytical, and one numerical for each eps.

Measuring runs the user's code and depends on eps alone; judging (`comparison`) and showing never come back here.
"""

from __future__ import annotations

import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from .engines import Engine, Evaluator, Linearization, find_engine
from .engines.base import Array, overlapping
from .jacobians import Key, Numerical, Progress, Template, analytical_rows, drain, numerical_columns

__all__ = ["Measurement", "as_tuple"]

CACHE_BYTES = 256 << 20  # numerical Jacobians of earlier eps are kept up to this many bytes


def as_tuple(inputs: Any) -> tuple[Any, ...]:
    """`inputs` as a tuple: a single tensor is one input; tuples and lists are taken as they are."""
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


class Measurement:
    """What `gradcheck` and the widget know about ``func`` at ``inputs``.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor or a tuple of tensors.
    inputs : tensor or tuple (list) of them
        Others than tensors are passed through untouched.

    Raises
    ------
    TypeError
        If `func` is not callable.
    ValueError
        If no input requires grad.
    RuntimeError
        If an input's elements share memory with each other or with another input.

    Warns
    -----
    UserWarning
        For each input that requires grad in less than double precision.
    """

    def __init__(self, func: Callable[..., Any], inputs: Any, *, stacklevel: int = 2) -> None:
        if not callable(func):
            raise TypeError(f"func must be callable, got {func!r}")
        self.func = func
        self.inputs = as_tuple(inputs)
        self.engine: Engine = find_engine(self.inputs)
        engine = self.engine
        self.checked = tuple(i for i, x in enumerate(self.inputs) if engine.is_tensor(x) and engine.requires_grad(x))
        if not self.checked:
            raise ValueError(_nothing_to_check(self.inputs))
        names = _parameter_names(func, len(self.inputs))
        self.templates = tuple(
            Template(a.shape, a.dtype, f"input {i}" + (f" {names[i]!r}" if names else ""))
            for i, a in ((i, engine.array(self.inputs[i])) for i in self.checked)
        )
        self._refuse_shared_memory()
        for t in self.templates:
            if t.dtype.itemsize < np.dtype(np.complex128 if t.is_complex else np.float64).itemsize:
                warnings.warn(
                    f"{t.name} requires grad and is {t.dtype}, not double precision (float64, complex128): rounding "
                    "alone may exceed the tolerances. Convert the inputs to double precision, or use an eps near "
                    "5e-3 with tolerances near 1e-2 for float32",
                    UserWarning,
                    stacklevel=stacklevel + 1,
                )
        self.modified: str | None = None  # the input that func writes into, if it does
        self._numerical: OrderedDict[float, Numerical] = OrderedDict()
        self._confirmed = False

    def _refuse_shared_memory(self) -> None:
        arrays = [self.engine.array(self.inputs[i]) for i in self.checked]
        for t, a in zip(self.templates, arrays, strict=True):
            if overlapping(a):
                raise RuntimeError(
                    f"{t.name} has elements that share memory (shape {a.shape}, strides {a.strides} bytes): moving one "
                    "moves the others, so no difference quotient belongs to one element. Pass a copy (x.copy())"
                )
        for j, b in enumerate(arrays):
            for i, a in enumerate(arrays[:j]):
                if self.inputs[self.checked[i]] is not self.inputs[self.checked[j]] and np.shares_memory(a, b):
                    raise RuntimeError(
                        f"{self.templates[i].name} and {self.templates[j].name} share memory: moving an element of one "
                        "moves the other. Pass a copy of one of them (x.copy())"
                    )

    # -- running func -------------------------------------------------------------------------------------
    @cached_property
    def _base(self) -> tuple[Linearization, tuple[Array, ...]]:
        with self.untouched() as changed:
            linearization = self.engine.linearize(self.func, self.inputs, self.checked)
            outputs = tuple(o.copy() for o in linearization.outputs)
        if changed():
            self.modified = changed()
        return linearization, outputs

    @property
    def linearization(self) -> Linearization:
        return self._base[0]

    @cached_property
    def outputs(self) -> tuple[Template, ...]:
        many = len(self._base[1]) > 1
        return tuple(
            Template(o.shape, o.dtype, f"output {k}" if many else "output 0") for k, o in enumerate(self._base[1])
        )

    @cached_property
    def _evaluator(self) -> Evaluator:
        """The quickest way of running func that gives the recorded run's outputs to the bit."""
        base = self._base[1]
        for evaluator in self.engine.evaluators(self.func, self.inputs, self.checked):
            if evaluator.plain:
                break
            with self.untouched() as changed:
                try:
                    outputs = tuple(o.copy() for o in evaluator.run())
                except Exception:  # it does not work on bare arrays: the plain way decides
                    continue
            if changed():
                if not any(hasattr(self.inputs[i], "requires_grad") for i in self.checked):
                    self.modified = changed()  # the caller's own arrays
                    break
                continue
            if _same_bits(outputs, base):
                break
        return _restoring(evaluator) if self.modified else evaluator

    @contextmanager
    def untouched(self) -> Iterator[Callable[[], str | None]]:
        """Restore the caller's arrays on leaving, whatever happened; then tells which one had been changed."""
        arrays = [self.engine.array(self.inputs[i]) for i in self.checked]
        before = [a.copy() for a in arrays]
        found: list[str] = []
        try:
            yield lambda: found[0] if found else None
        finally:
            for a, b, t in zip(arrays, before, self.templates, strict=True):
                if a.flags.writeable and a.tobytes() != b.tobytes():
                    a[...] = b
                    found.append(t.name)

    # -- Jacobians ----------------------------------------------------------------------------------------
    def analytical_steps(self) -> Generator[Progress, None, dict[Key, Array]]:
        return analytical_rows(self.linearization, self.templates, self.outputs)

    @cached_property
    def analytical(self) -> dict[Key, Array]:
        with self.untouched():
            result: dict[Key, Array] = drain(self.analytical_steps())
        return result

    def second_analytical(self) -> dict[Key, Array]:
        """The same rows once more, from the same recorded run."""
        result: dict[Key, Array] = drain(self.analytical_steps())
        return result

    def numerical_steps(self, eps: float) -> Generator[Progress, None, Numerical]:
        """Measure at `eps`, or give what is cached."""
        if eps in self._numerical:
            self._numerical.move_to_end(eps)
            return self._numerical[eps]
        with self.untouched():
            found = yield from numerical_columns(self._evaluator, self.templates, self.outputs, eps)
        self._keep(eps, found)
        return found

    def numerical(self, eps: float, progress: Callable[[Progress], None] | None = None) -> Numerical:
        result: Numerical = drain(self.numerical_steps(eps), progress)
        return result

    @property
    def settled(self) -> bool:
        """No failure needs to be measured the plain way any more."""
        return self._confirmed or self._evaluator.plain

    def confirm(self, eps: float) -> bool:
        """After a failure on a shortcut, measure the plain way too. True: the numbers at `eps` are others now."""
        if self.settled:
            return False
        self._confirmed = True
        shortcut, evaluator = self.numerical(eps), self._evaluator
        for evaluator in self.engine.evaluators(self.func, self.inputs, self.checked):
            pass
        plain = _restoring(evaluator) if self.modified else evaluator
        with self.untouched():
            found: Numerical = drain(numerical_columns(plain, self.templates, self.outputs, eps))
        if all(_same_bits((found.jacobians[key],), (J,)) for key, J in shortcut.jacobians.items()):
            return False
        self.__dict__["_evaluator"] = plain
        self._numerical.clear()
        self._keep(eps, found)
        return True

    def _keep(self, eps: float, found: Numerical) -> None:
        self._numerical[eps] = found
        size = sum(J.nbytes for J in found.jacobians.values())
        while len(self._numerical) > max(1, CACHE_BYTES // max(size, 1)):
            self._numerical.popitem(last=False)


def _restoring(evaluator: Evaluator) -> Evaluator:
    """For a func that writes into its input: give each buffer its contents back after every run."""
    buffers = evaluator.buffers
    before = [b.copy() for b in buffers]

    def run() -> tuple[Array, ...]:
        outputs = tuple(o.copy() for o in evaluator.run())
        for buffer, values in zip(buffers, before, strict=True):
            buffer[...] = values
        return outputs

    return Evaluator(buffers, run, evaluator.plain)


def _same_bits(a: Sequence[Array], b: Sequence[Array]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in zip(a, b, strict=True)
    )


def _parameter_names(func: Callable[..., Any], count: int) -> tuple[str, ...]:
    """The names of func's first `count` positional parameters, () if it does not tell them."""
    try:
        parameters = list(inspect.signature(func).parameters.values())[:count]
    except (TypeError, ValueError):
        return ()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if len(parameters) < count or any(p.kind not in positional for p in parameters):
        return ()
    return tuple(p.name for p in parameters)


def _nothing_to_check(inputs: Sequence[Any]) -> str:
    kinds = []
    for i, x in enumerate(inputs):
        dtype = getattr(x, "dtype", None)
        kinds.append(f"input {i} is {type(x).__name__}" + (f" of {dtype}" if dtype is not None else ""))
    return (
        "gradcheck expects at least one input tensor to require gradient, but none of them does: "
        f"{'; '.join(kinds) or 'there are no inputs'}. Pass a float64 or complex128 NumPy array, or "
        "Tensor(x, requires_grad=True)"
    )
