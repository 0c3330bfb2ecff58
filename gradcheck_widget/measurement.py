"""A function and its inputs with their cached Jacobians: one analytical, and one numerical for each eps.

Measuring runs the user's code and depends on eps alone; judging (`comparison`) and showing never come back here.
"""

from __future__ import annotations

import inspect
import reprlib
import warnings
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from .engines import Engine, Evaluator, Linearization, find_engine
from .engines.base import Array, Pushforward, Snapshot, overlapping
from .errors import OutputChanged
from .jacobians import Key, Numerical, Progress, Template, analytical_rows, drain, forward_columns, numerical_columns
from .projections import Projected, project

__all__ = ["Measurement", "as_tuple"]

T = TypeVar("T")

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
        Each may be a nested tuple, list or dict of tensors. Others than tensors are passed through untouched.
    engine : str or Engine, optional
        By default the one whose tensors the inputs are.
    masked : bool
        Move only the specified elements of sparse inputs.
    backward : bool
        Whether `func` may be recorded for reverse mode; False: forward mode alone is going to be checked.
    labels : sequence of str, optional
        What to call the inputs; by default the names of func's parameters.
    stacklevel : int, optional
        Of the warning, counted from the caller of the constructor as in `warnings.warn`; None: no warning.

    Attributes
    ----------
    inputs : tuple
        The leaves of the nested inputs; `checked` are the positions of those whose derivatives are checked, and
        `owners` tells of each leaf in which input it is.

    Raises
    ------
    TypeError
        If `func` is not callable, or the inputs are tensors of several frameworks.
    ValueError
        If no input requires grad.
    RuntimeError
        If an input's elements share memory with each other or with another input.

    Warns
    -----
    UserWarning
        For each input that requires grad in less than double precision.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        inputs: Any,
        *,
        engine: str | Engine | None = None,
        masked: bool = False,
        backward: bool = True,
        labels: Sequence[str] = (),
        stacklevel: int | None = 2,
    ) -> None:
        if not callable(func):
            got = _kind(func) if hasattr(func, "dtype") else reprlib.repr(func)
            hint = ": func comes first, then inputs" if callable(inputs) else ""
            raise TypeError(f"func must be callable, got {got}{hint}")
        tree = as_tuple(inputs)
        self.engine: Engine = find_engine(tree, engine)
        self.masked, self.backward = masked, backward
        parts = [self._leaves(x) for x in tree]
        self.inputs = tuple(x for leaves, _, _ in parts for x in leaves)
        self.owners = tuple(i for i, (leaves, _, _) in enumerate(parts) for _ in leaves)
        names = tuple(labels) or _parameter_names(func, len(tree)) or ("",) * len(tree)
        self.labels = tuple(
            (f"{names[i]}{path}" if path else f"{names[i]}") for i, (_, paths, _) in enumerate(parts) for path in paths
        )
        nested = any(paths != [""] for _, paths, _ in parts)
        self.func = _on_leaves(func, [(len(leaves), rebuild) for leaves, _, rebuild in parts]) if nested else func
        is_tensor, requires_grad = self.engine.is_tensor, self.engine.requires_grad
        self.checked = tuple(i for i, x in enumerate(self.inputs) if is_tensor(x) and requires_grad(x))
        if not self.checked:
            paths = [path for _, paths, _ in parts for path in paths]
            raise ValueError(self._nothing_to_check(paths, named=engine is not None))
        self.templates = tuple(
            Template(a.shape, a.dtype, _input_name(self.owners[i], self.labels[i]))
            for i, a in ((i, self.engine.array(self.inputs[i])) for i in self.checked)
        )
        self._refuse_shared_memory()
        if stacklevel is not None:
            self._warn_of_low_precision(stacklevel + 1)
        self.modified: str | None = None  # the input that func writes into, if it does
        self._evaluators: tuple[Evaluator, Evaluator] | None = None  # see `_chosen`
        self._numerical: OrderedDict[float, Numerical] = OrderedDict()
        self._confirmed = False

    def _leaves(self, x: Any) -> tuple[list[Any], list[str], Callable[[Sequence[Any]], Any]]:
        """`Engine.flatten`; what holds no tensor is left whole, so that func gets the very object that was passed."""
        leaves, paths, rebuild = self.engine.flatten(x)
        if any(self.engine.is_tensor(leaf) for leaf in leaves):
            return leaves, paths, rebuild
        return [x], [""], lambda given: given[0]

    def _nothing_to_check(self, paths: Sequence[str], named: bool) -> str:
        """What the inputs are, and what to do. `named`: the caller chose the engine."""
        engine, inputs = self.engine, self.inputs
        kinds = [f"input {i}{path} is {_kind(x)}" for i, path, x in zip(self.owners, paths, inputs, strict=True)]
        more = f"; ... and {len(kinds) - 6} more" if len(kinds) > 6 else ""
        if engine.is_tensor(np.zeros(1)):
            remedy = "Pass a float64 or complex128 NumPy array" + (
                ", or Tensor(x, requires_grad=True)" if engine.name == "numpy" else ""
            )
            if named:
                remedy += f", or name another engine than {engine.name}"
            elif any(type(x).__module__.partition(".")[0] not in ("builtins", "numpy", __package__) for x in inputs):
                remedy += ". Tensors of another library need an engine that knows them: engine=..."
        elif not any(map(engine.is_tensor, inputs)):
            remedy = f"The engine that was named takes tensors of {engine.name}: pass such, or name another engine"
        elif any(hasattr(x, "requires_grad_") and _is_inexact(x) for x in inputs):
            remedy = "Call requires_grad_() on what is to be checked"
        else:
            remedy = "Integers have no derivative: convert what is to be checked to float64"
        return (
            "gradcheck expects at least one input tensor to require gradient, but none of them does: "
            f"{'; '.join(kinds[:6]) or 'there are no inputs'}{more}. {remedy}"
        )

    def _warn_of_low_precision(self, stacklevel: int) -> None:
        for i, t in zip(self.checked, self.templates, strict=True):
            if t.dtype.itemsize < np.dtype(np.complex128 if t.is_complex else np.float64).itemsize:
                step = float(np.finfo(t.dtype).eps) ** (1 / 3)
                remedy = self.engine.precision_hint(self.inputs[i]) or (
                    "Convert the inputs to double precision (float64, complex128)"
                )
                warnings.warn(
                    f"Input #{self.owners[i]} requires gradient and is not a double precision floating point or "
                    f"complex: {t.name} is {t.dtype}, where rounding alone may exceed the tolerances. "
                    f"{remedy}, or use eps={step:.1g} with atol and rtol near {2 * step:.1g}",
                    UserWarning,
                    stacklevel=stacklevel + 1,
                )

    def _refuse_shared_memory(self) -> None:
        memories = [self.engine.memory(self.inputs[i]) for i in self.checked]
        for i, t, a in zip(self.checked, self.templates, memories, strict=True):
            if overlapping(a):
                what = "a dimension with stride 0" if 0 in a.strides else "elements that share memory"
                raise RuntimeError(
                    f"The {self.owners[i]}th input has {what} ({t.name}, shape {a.shape}, strides {a.strides} bytes): "
                    "moving one element moves others, so no difference quotient belongs to one element. gradcheck only "
                    "supports inputs that are non-overlapping. Pass a copy (x.copy(), x.clone())"
                )
        for j, b in enumerate(memories):
            for i, a in enumerate(memories[:j]):
                if self.inputs[self.checked[i]] is not self.inputs[self.checked[j]] and np.shares_memory(a, b):
                    raise RuntimeError(
                        f"{self.templates[i].name} and {self.templates[j].name} share memory: moving an element of one "
                        "moves the other. Pass a copy of one of them (x.copy(), x.clone())"
                    )

    # -- running func -------------------------------------------------------------------------------------
    @cached_property
    def _base(self) -> tuple[Linearization | None, tuple[Array, ...]]:
        def run() -> tuple[Linearization | None, tuple[Array, ...]]:
            if self.backward:
                linearization = self.engine.linearize(self.func, self.inputs, self.checked)
                return linearization, tuple(o.copy() for o in linearization.outputs)
            *_, plain = self.engine.evaluators(self.func, self.inputs, self.checked, self.masked)
            return None, tuple(o.copy() for o in plain.run())

        return self.guarded(run)

    @property
    def linearization(self) -> Linearization:
        """func at its inputs and its reverse-mode derivative, recorded once."""
        linearization = self._base[0]
        if linearization is None:
            raise RuntimeError("this measurement was made with backward=False: it has no reverse mode")
        return linearization

    @cached_property
    def pushforward(self) -> Pushforward:
        """The forward-mode derivative of func at its inputs."""
        return self.engine.pushforward(self.func, self.inputs, self.checked)

    @property
    def differentiable(self) -> tuple[bool, ...]:
        """Whether output k carries a gradient, as far as reverse mode was asked."""
        linearization, outputs = self._base
        return (True,) * len(outputs) if linearization is None else linearization.differentiable

    @cached_property
    def outputs(self) -> tuple[Template, ...]:
        """Shapes, dtypes and names of what func returns."""
        linearization, outputs = self._base
        paths = (linearization.paths if linearization is not None else ()) or ("",) * len(outputs)
        return tuple(
            Template(o.shape, o.dtype, f"output {k}" + (f" {path}" if path else ""))
            for k, (o, path) in enumerate(zip(outputs, paths, strict=True))
        )

    def guarded(self, run: Callable[[], T]) -> T:
        """What ``run()`` gives. Whatever happens, the caller's tensors have their bits again; `modified` names one that
        had not."""
        result, changed = self._watched(run)
        self.modified = self.modified or changed
        return result

    def _watched(self, run: Callable[[], T], buffers: Iterable[Array] = ()) -> tuple[T, str | None]:
        """``run()``, and which checked input it changed; all tensors and `buffers` are restored in any case."""
        snapshot = _Snapshot(self._snapshots(), buffers)
        try:
            result = run()
            return result, snapshot.changed(self.templates)
        finally:
            try:
                snapshot.restore()
            except BaseException:  # Ctrl-C while restoring: first things first
                snapshot.restore()
                raise

    def _snapshots(self) -> list[Snapshot]:
        """Of the caller's tensors, the checked ones first."""
        checked = [self.inputs[i] for i in self.checked]
        others = [x for i, x in enumerate(self.inputs) if i not in self.checked and self.engine.is_tensor(x)]
        return [self.engine.snapshot(x) for x in (*checked, *others)]

    @property
    def evaluator(self) -> Evaluator:
        """The way of running func that the numerical side uses."""
        evaluator = self._evaluators[0] if self._evaluators is not None else self._chosen(1e-6)[0]
        return _restoring(evaluator) if self.modified else evaluator

    def _chosen(self, eps: float) -> tuple[Evaluator, Evaluator]:
        """The quickest way of running func that agrees with the plain one to the bit, and the plain one."""
        if self._evaluators is None:
            *shortcuts, plain = self.engine.evaluators(self.func, self.inputs, self.checked, self.masked)
            self._evaluators = next((e for e in shortcuts if self._agrees(e, plain, eps)), plain), plain
        return self._evaluators

    def _agrees(self, shortcut: Evaluator, plain: Evaluator, eps: float) -> bool:
        """Whether `shortcut` leaves the inputs alone and gives the plain outputs where all elements moved by up to eps.

        A function that is another one on a shortcut differs there, even if it has the same value at the inputs.
        """
        rng = np.random.default_rng(0)
        moves = {id(b): b + _random_step(rng, b, eps) for b in shortcut.buffers}

        def moved(evaluator: Evaluator) -> tuple[Array, ...]:
            def run() -> tuple[Array, ...]:
                for buffer in evaluator.buffers:
                    buffer[...] = moves[id(buffer)]
                return tuple(o.copy() for o in evaluator.run())

            return self._watched(run, evaluator.buffers)[0]

        try:
            _, changed = self._watched(shortcut.run)
            if changed:
                if not any(hasattr(self.inputs[i], "requires_grad") for i in self.checked):
                    self.modified = self.modified or changed  # what it writes into are arrays that the caller passed
                return False
            with np.errstate(all="ignore"):
                return _same_bits(moved(shortcut), moved(plain))
        except Exception:  # it does not work on bare arrays, or this point is outside of its domain
            return False

    def isolated(self, eps: float) -> Measurement:
        """The same measurement on copies of the checked inputs, if func cannot tell: then it can go on while the caller
        works with the originals. Else (func reads its input from elsewhere too, or is random) this very measurement."""
        copies = list(self.inputs)
        for i in self.checked:
            copies[i] = self.engine.copy(self.inputs[i])
        other = Measurement(
            self.func, tuple(copies), engine=self.engine, masked=self.masked, backward=self.backward,
            labels=self.labels, stacklevel=None,
        )  # fmt: skip
        other.owners, other.templates = self.owners, self.templates
        rng = np.random.default_rng(0)
        try:
            *_, mine = self.engine.evaluators(self.func, self.inputs, self.checked, self.masked)
            *_, theirs = other.engine.evaluators(other.func, other.inputs, other.checked, other.masked)
            moves = [b + _random_step(rng, b, eps) for b in mine.buffers]

            def moved(evaluator: Evaluator) -> tuple[Array, ...]:
                for buffer, values in zip(evaluator.buffers, moves, strict=True):
                    buffer[...] = values
                return tuple(o.copy() for o in evaluator.run())

            with np.errstate(all="ignore"):
                same = _same_bits(
                    self._watched(lambda: moved(mine), mine.buffers)[0],
                    other._watched(lambda: moved(theirs), theirs.buffers)[0],
                )
        except Exception:  # outside of func's domain, for instance: no way to tell
            return self
        return other if same else self

    # -- Jacobians ----------------------------------------------------------------------------------------
    def analytical_steps(self) -> Generator[Progress, None, dict[Key, Array]]:
        """Measure the analytical side, one row at a time."""
        return analytical_rows(self.linearization, self.templates, self.outputs)

    @cached_property
    def analytical(self) -> dict[Key, Array]:
        """The analytical Jacobians; they do not depend on eps."""
        return self.second_analytical()

    def second_analytical(self) -> dict[Key, Array]:
        """The same rows once more, from the same recorded run."""
        second: dict[Key, Array] | None = self.__dict__.pop("_second", None)  # measured by `steps`
        return drain(self._guarded_steps(self.analytical_steps())) if second is None else second

    @cached_property
    def forward(self) -> dict[Key, Array]:
        """The analytical Jacobians in forward mode."""
        result: dict[Key, Array] = drain(self._guarded_steps(self._forward_steps()))
        return result

    def _forward_steps(self) -> Generator[Progress, None, dict[Key, Array]]:
        return forward_columns(self.pushforward, self.templates, self.outputs)

    def steps(self, eps: float, *, backward: bool = True, forward: bool = False) -> Generator[Progress, None, None]:
        """Measure all that a report at `eps` needs, one row or column at a time; what is there takes no step."""
        if backward and "analytical" not in self.__dict__:
            self.__dict__["analytical"] = yield from self._guarded_steps(self.analytical_steps())
            self.__dict__["_second"] = yield from self._guarded_steps(self.analytical_steps())
        if forward and "forward" not in self.__dict__:
            self.__dict__["forward"] = yield from self._guarded_steps(self._forward_steps())
        yield from self.numerical_steps(eps)

    def _guarded_steps(self, steps: Generator[Progress, None, T]) -> Generator[Progress, None, T]:
        """`guarded` for a generator. Given up between two steps, it restores nothing: the inputs are as they were, and
        by now they may hold other values of the caller's."""
        snapshot = _Snapshot(self._snapshots())
        try:
            found = yield from steps
            self.modified = self.modified or snapshot.changed(self.templates)
        except GeneratorExit:
            raise
        except BaseException:
            snapshot.restore()
            raise
        snapshot.restore()
        return found

    def numerical_steps(self, eps: float) -> Generator[Progress, None, Numerical]:
        """Measure at `eps`, or give what is cached."""
        if eps in self._numerical:
            self._numerical.move_to_end(eps)
            return self._numerical[eps]
        found = yield from self._measured(self._chosen(eps)[0], eps)
        self._keep(eps, found)
        return found

    def _measured(self, evaluator: Evaluator, eps: float) -> Generator[Progress, None, Numerical]:
        outputs = self.outputs
        if self.modified:
            evaluator = _restoring(evaluator)
        found = yield from self._guarded_steps(numerical_columns(evaluator, self.templates, outputs, eps))
        return found

    def numerical(self, eps: float, progress: Callable[[Progress], None] | None = None) -> Numerical:
        """The numerical Jacobians at `eps`."""
        result: Numerical = drain(self.numerical_steps(eps), progress)
        return result

    def projected(self, eps: float, rng: np.random.Generator, *, forward: bool) -> Projected:
        """Random projections of the Jacobians at `eps`, measured the plain way."""
        plain = self._chosen(eps)[1]
        evaluator = _steady(_restoring(plain) if self.modified else plain, self.outputs)
        reverse, push = (None, self.pushforward) if forward else (self.linearization, None)
        return self.guarded(lambda: project(evaluator, reverse, push, self.templates, self.outputs, eps, rng))

    @property
    def settled(self) -> bool:
        """No failure needs to be measured the plain way any more."""
        return self._confirmed or (self._evaluators is not None and self._evaluators[0].plain)

    def confirm(self, eps: float) -> bool:
        """After a failure on a shortcut, measure the plain way too. True: the numbers at `eps` are others now."""
        changed: bool = drain(self.confirm_steps(eps))
        return changed

    def confirm_steps(self, eps: float) -> Generator[Progress, None, bool]:
        """`confirm`, one column at a time."""
        if self.settled:
            return False
        shortcut, plain = self.numerical(eps), self._chosen(eps)[1]
        found = yield from self._measured(plain, eps)
        self._confirmed = True
        if all(_same_bits((found.jacobians[key],), (J,)) for key, J in shortcut.jacobians.items()):
            return False
        self._evaluators = plain, plain
        self._numerical.clear()
        self._keep(eps, found)
        return True

    def _keep(self, eps: float, found: Numerical) -> None:
        self._numerical[eps] = found
        size = sum(J.nbytes for J in found.jacobians.values())
        while len(self._numerical) > max(1, CACHE_BYTES // max(size, 1)):
            self._numerical.popitem(last=False)


class _Snapshot:
    """The bits of tensors, and of arrays that may stand in for them, to put back."""

    def __init__(self, tensors: Sequence[Snapshot], arrays: Iterable[Array] = ()) -> None:
        self._tensors = tensors
        self._arrays = [(a, a.copy()) for a in arrays]

    def changed(self, templates: Sequence[Template]) -> str | None:
        """Put the tensors back; the name of the first that had changed. `templates` name the first ones."""
        moved = [tensor.restore() for tensor in self._tensors]
        return next((t.name for m, t in zip(moved, templates, strict=False) if m), None)

    def restore(self) -> None:
        for tensor in self._tensors:
            tensor.restore()
        for array, kept in self._arrays:
            array[...] = kept


def _random_step(rng: np.random.Generator, x: Array, eps: float) -> Array:
    """Of between eps / 2 and eps in each element, up or down."""

    def step() -> Array:
        size = rng.uniform(0.5, 1.0, x.shape) * eps
        return np.asarray(np.where(rng.uniform(size=x.shape) < 0.5, -size, size))

    return (step() + 1j * step() if x.dtype.kind == "c" else step()).astype(x.dtype)


def _restoring(evaluator: Evaluator) -> Evaluator:
    """For a func that writes into its input: give each buffer its contents back after every run."""
    buffers = evaluator.buffers
    before = [b.copy() for b in buffers]

    def run() -> tuple[Array, ...]:
        outputs = tuple(o.copy() for o in evaluator.run())
        for buffer, values in zip(buffers, before, strict=True):
            buffer[...] = values
        return outputs

    return replace(evaluator, run=run)


def _steady(evaluator: Evaluator, outputs: Sequence[Template]) -> Evaluator:
    """Raise `OutputChanged` where `outputs` do not describe the results: these would be broadcast, or left out."""

    def run() -> tuple[Array, ...]:
        values = evaluator.run()
        if [(v.shape, v.dtype) for v in values] != [(o.shape, o.dtype) for o in outputs]:
            raise OutputChanged("Expected `func` to return outputs with the same shape and dtype: they changed")
        return values

    return replace(evaluator, run=run)


def _same_bits(a: Sequence[Array], b: Sequence[Array]) -> bool:
    return len(a) == len(b) and all(
        x.dtype == y.dtype and x.shape == y.shape and (x.tobytes() == y.tobytes() or _same_long_doubles(x, y))
        for x, y in zip(a, b, strict=True)
    )


def _same_long_doubles(x: Array, y: Array) -> bool:
    """A long double has bytes beside its bits, which hold anything."""
    return x.dtype.char in "gG" and np.array_equal(x, y, equal_nan=True)


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


def _input_name(index: int, label: str) -> str:
    """``input 1 'w'``, ``input 0 params['w']``, or ``input 0`` without a name."""
    if not label:
        return f"input {index}"
    return f"input {index} {label}" if "[" in label or "." in label else f"input {index} {label!r}"


def _on_leaves(func: Callable[..., Any], parts: Sequence[tuple[int, Callable[..., Any]]]) -> Callable[..., Any]:
    """`func` as a function of the leaves of its nested arguments."""

    def call(*leaves: Any) -> Any:
        args, start = [], 0
        for count, rebuild in parts:
            args.append(rebuild(leaves[start : start + count]))
            start += count
        return func(*args)

    return call


def _kind(x: Any) -> str:
    module, name = type(x).__module__.partition(".")[0], type(x).__qualname__
    text = name if module in ("builtins", "numpy", __package__) else f"{module}.{name}"
    dtype = getattr(x, "dtype", None)
    if dtype is not None:
        text += f" of {dtype}"
    return text + " that does not require grad" * (getattr(x, "requires_grad", True) is False)


def _is_inexact(x: Any) -> bool:
    """By the name of its dtype, whosever it is."""
    return any(kind in str(getattr(x, "dtype", "")) for kind in ("float", "complex"))
