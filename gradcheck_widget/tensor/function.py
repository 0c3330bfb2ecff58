"""Derivatives written by hand: `Function` as in PyTorch, `from_backward` and `from_jacobian` for pairs of functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from ..errors import GradcheckError
from .core import Array, Node, Tensor, is_complex, raw

__all__ = ["Context", "Function", "from_backward", "from_jacobian"]


class Context:
    """What `forward` leaves for `backward`; PyTorch calls it ``ctx``. Any attribute may be set on it."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self._saved: tuple[Any, ...] = ()
        self._tensors: dict[int, Tensor] | None = None
        self._materialize = True
        self._non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *arrays: Any) -> None:
        """Keep inputs or outputs for `backward`. Other values can be kept too, but count as constants there."""
        self._saved = tuple(raw(a) for a in arrays)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was saved: arrays in a first-order pass; Tensors tied to the graph when that pass is differentiated."""
        if self._tensors is None:
            return self._saved
        return tuple(self._tensors.get(id(a), a) for a in self._saved)

    def set_materialize_grads(self, value: bool) -> None:
        """False: an undefined cotangent reaches `backward` as None instead of as zeros."""
        self._materialize = bool(value)

    def mark_non_differentiable(self, *outputs: Any) -> None:
        """These outputs carry no gradient."""
        self._non_differentiable = tuple(raw(o) for o in outputs)


class Function:
    """A differentiable operation with a backward pass of its own. Subclass it, then call ``MyFunction.apply(...)``.

    ``forward(ctx, *args)`` (a staticmethod) gets the arrays inside the Tensors, so any NumPy or SciPy function works
    there, and returns one array or a tuple. ``backward(ctx, *grad_outputs)`` gets one cotangent for each output, an
    array of its own, and returns one gradient for each argument of forward: of its shape, or None where there is none.
    For second derivatives (`gradgradcheck`) write backward with NumPy functions that work on Tensors, and read inputs
    and outputs through ``ctx.saved_tensors``.

    Examples
    --------
    >>> class Tanh(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = np.tanh(x)
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         (y,) = ctx.saved_tensors
    ...         return grad_output * (1 - y**2)
    """

    twice_differentiable: ClassVar[bool] = True

    @staticmethod
    def forward(ctx: Context, *args: Any) -> Any:
        raise NotImplementedError("a Function needs a staticmethod forward(ctx, *args)")

    @staticmethod
    def backward(ctx: Context, *grad_outputs: Any) -> Any:
        raise NotImplementedError("a Function needs a staticmethod backward(ctx, *grad_outputs)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward. Without a Tensor among `args` the result is plain arrays, and nothing is recorded."""
        ctx = Context(tuple(isinstance(a, Tensor) and a.requires_grad for a in args))
        arrays = tuple(raw(a) for a in args)
        result = cls.forward(ctx, *arrays)
        many = isinstance(result, tuple | list)
        values = tuple(raw(o) for o in (result if many else (result,)))
        outs = tuple(np.asarray(v) for v in values)
        if any(o.dtype.kind not in "biufc" for o in outs):
            raise TypeError(
                f"{cls.__name__}.forward must return an array or a tuple of arrays, got "
                f"{type(result).__name__ if not many else [type(v).__name__ for v in values]}"
            )
        if not any(isinstance(a, Tensor) for a in args):
            return outs if many else outs[0]
        node = _FunctionNode(cls, ctx, args, arrays, values) if any(ctx.needs_input_grad) else None
        constant = {id(o) for o in ctx._non_differentiable}
        wrapped = tuple(
            o if o.dtype.kind not in "fc" else Tensor._recorded(o, None if id(v) in constant else node, i)
            for i, (o, v) in enumerate(zip(outs, values, strict=True))
        )
        return wrapped if many else wrapped[0]


class _FunctionNode(Node):
    __slots__ = ("args", "arrays", "ctx", "function", "values")

    def __init__(
        self,
        function: type[Function],
        ctx: Context,
        args: tuple[Any, ...],
        arrays: tuple[Any, ...],
        values: tuple[Any, ...],
    ) -> None:
        parents = tuple((a._node, a._index) for a in args if isinstance(a, Tensor) and a._node is not None)
        super().__init__(parents, len(values))
        self.function, self.ctx, self.args = function, ctx, args
        # the very objects that forward saw and returned: by them a saved one is known
        self.arrays, self.values = arrays, values

    def pull(self, cotangents: list[Array | None], graph: bool) -> Sequence[Array | None]:
        name, ctx = self.function.__name__, self.ctx
        if graph and not self.function.twice_differentiable:
            raise NotImplementedError(
                f"{name} was made from a plain NumPy pair, whose backward cannot be differentiated again: "
                "write it as a gradcheck_widget.Function, with a backward in NumPy functions that work on Tensors"
            )
        grads_in: list[Any] = []
        for g, value in zip(cotangents, self.values, strict=True):
            if g is None and ctx._materialize:
                g = np.zeros_like(value)
            elif isinstance(g, np.ndarray | np.generic):
                g = np.array(g)  # its own copy: others may share it, and backward may write into it
            grads_in.append(Tensor(g) if graph and g is not None and not isinstance(g, Tensor) else g)
        if graph:  # saved inputs and outputs become Tensors tied to the graph
            known = {id(v): Tensor._recorded(v, self, i) for i, v in enumerate(self.values)}
            known.update({id(x): a for a, x in zip(self.args, self.arrays, strict=True) if isinstance(a, Tensor)})
            ctx._tensors = known
        try:
            result = self.function.backward(ctx, *grads_in)
        finally:
            ctx._tensors = None
        grads = tuple(result) if isinstance(result, tuple | list) else (result,)
        if len(grads) != len(self.args):
            raise GradcheckError(
                f"{name}.backward returned {len(grads)} gradients for {len(self.args)} inputs: it must return one for "
                "each argument of forward, None where there is none"
            )
        return [self._checked(k, g, graph) for k, g in enumerate(grads) if ctx.needs_input_grad[k]]

    def _checked(self, k: int, g: Any, graph: bool) -> Array | None:
        if g is None:
            return None
        g = g if isinstance(g, Tensor) and graph else np.asarray(raw(g))
        x = self.arrays[k]
        if g.shape != x.shape:
            raise GradcheckError(
                f"{self.function.__name__}.backward returned a gradient of shape {g.shape} for input {k}, whose shape "
                f"is {x.shape}: a gradient has the shape of its input{_shape_hint(g.shape, x.shape)}"
            )
        return np.real(g) if is_complex(g) and not is_complex(x) else g


def _shape_hint(got: tuple[int, ...], want: tuple[int, ...]) -> str:
    if len(got) > 1 and got == want[::-1]:
        return " (this one looks transposed)"
    if len(got) > len(want) and got[len(got) - len(want) :] == want:
        return " (a sum over the leading axes seems to be missing)"
    return ""


def from_backward(forward: Callable[..., tuple[Any, Any]], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A differentiable function from a plain NumPy pair, as deep-learning courses write them.

    Parameters
    ----------
    forward : callable
        ``forward(*arrays) -> (out, cache)``; `out` is one array or a tuple of arrays, `cache` anything.
    backward : callable
        ``backward(grad_out, cache) -> grads``; `grad_out` has the shape of `out` (a tuple, if that is one); `grads`
        is one array, or a tuple with one array or None for each input of forward, of its shape.

    Returns
    -------
    callable
        Takes arrays or Tensors, returns `out`; hand it to `gradcheck`.

    Raises
    ------
    TypeError
        When called, if forward does not return a pair.
    """
    where = _name_of(forward)

    def run(ctx: Context, *args: Any) -> Any:
        result = forward(*args)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise TypeError(
                f"{where} must return a pair (out, cache), got {type(result).__name__}"
                + (f" of length {len(result)}" if isinstance(result, tuple) else "")
            )
        out, ctx.cache = result  # type: ignore[attr-defined]
        ctx.many = isinstance(out, tuple | list)  # type: ignore[attr-defined]
        return out

    def pull(ctx: Any, *grad_outputs: Any) -> Any:
        return backward(grad_outputs if ctx.many else grad_outputs[0], ctx.cache)

    return _pair(run, pull, forward)


def from_jacobian(func: Callable[..., Any], jac: Callable[..., Any] | bool) -> Callable[..., Any]:
    """A differentiable function from a ``fun``/``jac`` pair, as `scipy.optimize` takes them.

    Parameters
    ----------
    func : callable
        ``func(*arrays) -> array`` or number.
    jac : callable or True
        ``jac(*arrays)`` gives the derivative, of shape ``out.shape + x.shape`` (for one vector: ``(n,)`` where func
        is scalar, ``(m, n)`` where it gives m values); a tuple of them, if func takes several arrays. Sparse
        matrices are taken too. True: func returns the pair ``(value, jac)`` itself.

    Returns
    -------
    callable
        Takes arrays or Tensors; hand it to `gradcheck`.
    """

    def run(ctx: Context, *args: Any) -> Any:
        if jac is True:
            result = func(*args)
            if not (isinstance(result, tuple | list) and len(result) == 2):
                raise TypeError(
                    f"{_name_of(func)} must return a pair (value, jac) with jac=True, got {type(result).__name__}"
                )
            value, ctx.jac = result  # type: ignore[attr-defined]
            return value
        ctx.args = args  # type: ignore[attr-defined]
        return func(*args)

    def pull(ctx: Any, grad_output: Any) -> Any:
        matrices = ctx.jac if jac is True else jac(*ctx.args)  # type: ignore[operator]
        several = len(ctx.needs_input_grad) > 1
        matrices = tuple(matrices) if several and isinstance(matrices, tuple | list) else (matrices,)
        if len(matrices) != len(ctx.needs_input_grad):
            raise GradcheckError(
                f"{_name_of(jac)} returned {len(matrices)} derivatives for {len(ctx.needs_input_grad)} inputs: it must "
                "return a tuple with one for each"
            )
        return tuple(_contract(grad_output, m, x) for m, x in zip(matrices, ctx.shapes, strict=True))

    def _contract(g: Any, matrix: Any, shape: tuple[int, ...]) -> Any:
        if matrix is None:
            return None
        matrix = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
        full = g.shape + shape
        if matrix.shape != full and (
            matrix.size != int(np.prod(full)) or _without_ones(matrix.shape) != _without_ones(full)
        ):
            hint = " (this one looks transposed)" if matrix.shape == full[::-1] else ""
            raise GradcheckError(
                f"{_name_of(jac)} returned shape {matrix.shape} for an output of shape {g.shape} and an input of shape "
                f"{shape}: the derivative has shape {full}{hint}"
            )
        # g pulled back: sum over the output of g * conj(d out / d x)
        return np.tensordot(g, np.conjugate(matrix.reshape(full)), g.ndim)

    def shaped(ctx: Any, *args: Any) -> Any:
        ctx.shapes = tuple(np.shape(a) for a in args)
        return run(ctx, *args)

    return _pair(shaped, pull, func)


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def _name_of(func: Any) -> str:
    return getattr(func, "__name__", type(func).__name__)


def _pair(forward: Callable[..., Any], backward: Callable[..., Any], original: Any) -> Callable[..., Any]:
    name = _name_of(original)
    function = type(
        name,
        (Function,),
        {"forward": staticmethod(forward), "backward": staticmethod(backward), "twice_differentiable": False},
    )

    def call(*args: Any) -> Any:
        return function.apply(*args)  # type: ignore[attr-defined]

    functools.update_wrapper(call, original, updated=())
    try:
        call.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        pass
    return call
