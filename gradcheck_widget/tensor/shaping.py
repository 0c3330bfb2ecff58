"""Rules of indexing, rearranging and joining. Gathering elements and adding them back are each other's transpose."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .core import (
    HANDLERS,
    VARIADIC,
    Array,
    Tensor,
    _getitem,
    _name,
    _writes,
    apply,
    constant,
    defvjp,
    implements,
    raw,
)

Indices = np.ndarray[Any, Any]


# -- indexing: any index NumPy knows --------------------------------------------------------------------------
def getitem(x: Array, index: Any) -> Array:
    return x[index]


def unget(g: Array, index: Any, shape: tuple[int, ...]) -> Array:
    """Transpose of ``x[index]`` for an x of `shape`: zeros with g added at the index, repeats accumulated."""
    out = np.zeros(shape, g.dtype)
    if isinstance(out[index], np.ndarray) and np.may_share_memory(out[index], out):
        out[index] += g  # a view: no element occurs twice
    else:
        np.add.at(out, index, g)
    return out


HANDLERS[_getitem] = getitem
defvjp(getitem, lambda g, ans, x, index: apply(unget, g, index, x.shape))
defvjp(unget, lambda g, ans, x, index, shape: g[index])


# -- rearrangements and splits: out.flat[k] = x.flat[source.flat[k]] --------------------------------------------
def gather(x: Array, source: Indices) -> Array:
    return x.reshape(-1)[source]


def ungather(g: Array, source: Indices, shape: tuple[int, ...]) -> Array:
    out = np.zeros(int(np.prod(shape)), g.dtype)
    np.add.at(out, source, g)
    return out.reshape(shape)


defvjp(gather, lambda g, ans, x, source: apply(ungather, g, source, x.shape))
defvjp(ungather, lambda g, ans, x, source, shape: apply(gather, g, source))


def rearrange(x: Any, move: Callable[[Indices], Any]) -> Any:
    """Apply a function that only moves, drops or repeats elements, learning what it does from element numbers."""
    places = move(np.arange(x.size).reshape(x.shape))
    return [apply(gather, x, p) for p in places] if isinstance(places, list) else apply(gather, x, places)


def _rearrangement(func: Callable[..., Any], name: str) -> None:
    signature = inspect.signature(func)

    def handler(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        if given.arguments.get("out") is not None:  # it would be filled with element numbers
            raise _writes(_name(func))
        x = given.arguments[name]

        def move(places: Indices) -> Any:
            given.arguments.update({**raw(given.arguments), name: places})
            return func(*given.args, **given.kwargs)

        return rearrange(x if isinstance(x, Tensor) else np.asarray(x), move)

    HANDLERS[func] = handler


_REARRANGEMENTS: dict[str, tuple[Callable[..., Any], ...]] = {  # by the name of the array's parameter
    "a": (np.roll, np.repeat, np.take, np.diagonal, np.compress, np.resize),
    "m": (np.flip, np.fliplr, np.flipud, np.rot90),
    "arr": (np.take_along_axis, np.delete),
    "A": (np.tile,),
    "x": (np.lib.stride_tricks.sliding_window_view,),
    "ary": (np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit),
}
for _name_of_array, _funcs in _REARRANGEMENTS.items():
    for _func in _funcs:
        _rearrangement(_func, _name_of_array)


# -- changes of shape that are views in NumPy -------------------------------------------------------------------
def _reshaped(func: Callable[..., Any]) -> None:
    """Functions that keep the elements in C order."""
    defvjp(func, lambda g, ans, x, *args, **kwargs: np.reshape(g, x.shape))
    HANDLERS[func] = lambda a, *args, **kwargs: apply(func, a, *args, **kwargs)


_reshaped(np.squeeze)
_reshaped(np.expand_dims)


def _reshape_vjp(g: Array, ans: Array, x: Array, shape: Any, order: Any) -> Array:
    return np.reshape(g, x.shape, order=order)


defvjp(np.reshape, _reshape_vjp)


@implements(np.reshape)
def reshape(a: Any, shape: Any = None, order: Any = "C", *, newshape: Any = None) -> Any:
    if order not in ("C", "F"):
        raise NotImplementedError(f"np.reshape with order={order!r} has no derivative rule here: use 'C' or 'F'")
    return apply(np.reshape, a, newshape if shape is None else shape, order=order)


@implements(np.ravel)
def ravel(a: Any, order: Any = "C") -> Any:
    return reshape(a, -1, order)


def _transpose_vjp(g: Array, ans: Array, x: Array, axes: Any) -> Array:
    return np.transpose(g, None if axes is None else np.argsort(np.mod(axes, x.ndim), axis=None))


defvjp(np.transpose, _transpose_vjp)
defvjp(np.swapaxes, lambda g, ans, x, axis1, axis2: np.swapaxes(g, axis1, axis2))
defvjp(np.moveaxis, lambda g, ans, x, source, destination: np.moveaxis(g, destination, source))
defvjp(np.broadcast_to, lambda g, ans, x, shape: g)  # `fit` sums over what was stretched


@implements(np.transpose, np.permute_dims)
def transpose(a: Any, axes: Any = None) -> Any:
    return apply(np.transpose, a, axes)


@implements(np.matrix_transpose)
def matrix_transpose(x: Any, /) -> Any:
    return apply(np.swapaxes, x, -1, -2)


@implements(np.swapaxes)
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return apply(np.swapaxes, a, axis1, axis2)


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return apply(np.moveaxis, a, source, destination)


@implements(np.rollaxis)
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    axis %= a.ndim
    start += a.ndim if start < 0 else 0
    return moveaxis(a, axis, start - 1 if axis < start else start)


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any) -> Any:
    return apply(np.broadcast_to, array, shape)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any) -> Any:
    shape = np.broadcast_shapes(*(np.shape(a) for a in args))
    return tuple(np.broadcast_to(a, shape) for a in args)


def _atleast(n: int) -> Callable[..., Any]:
    def one(a: Any) -> Any:
        place = {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}[n]
        a = a if isinstance(a, Tensor) else np.asarray(a)
        return np.reshape(a, place(np.empty(a.shape, bool)).shape)

    return lambda *arys: one(arys[0]) if len(arys) == 1 else tuple(one(a) for a in arys)


HANDLERS[np.atleast_1d] = _atleast(1)
HANDLERS[np.atleast_2d] = _atleast(2)
HANDLERS[np.atleast_3d] = _atleast(3)


@implements(np.copy)
def copy(a: Any, order: Any = "K") -> Any:
    return np.positive(a)


@implements(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, *, shape: Any = None) -> Any:
    template = np.empty_like(a, dtype, shape=shape)
    if not isinstance(fill_value, Tensor):
        return np.full_like(template, fill_value)
    return np.broadcast_to(fill_value, template.shape).astype(template.dtype)


# -- joining and padding ------------------------------------------------------------------------------------
def join(*arrays: Array, axis: int) -> Array:
    return np.concatenate(arrays, axis=axis)


def _join_vjp(k: int, g: Array, ans: Array, *arrays: Array, axis: int) -> Array:
    start = int(np.sum([np.shape(a)[axis] for a in arrays[:k]], dtype=int))
    return np.moveaxis(np.moveaxis(g, axis, 0)[start : start + np.shape(arrays[k])[axis]], 0, axis)


VARIADIC[join] = _join_vjp


@implements(np.concatenate, np.concat)
def concatenate(arrays: Sequence[Any], /, axis: int | None = 0) -> Any:
    if axis is None:
        return join_all([np.ravel(a) for a in arrays], 0)
    return join_all(list(arrays), axis)


def join_all(arrays: list[Any], axis: int) -> Any:
    return apply(join, *(a if isinstance(a, Tensor) else np.asarray(a) for a in arrays), axis=axis)


@implements(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    if len({np.shape(a) for a in arrays}) != 1:
        raise ValueError(f"np.stack needs arrays of one shape, got {[np.shape(a) for a in arrays]}")
    return join_all([np.expand_dims(a, axis) for a in arrays], axis)


@implements(np.vstack)
def vstack(tup: Sequence[Any]) -> Any:
    return join_all([np.atleast_2d(a) for a in tup], 0)


@implements(np.hstack)
def hstack(tup: Sequence[Any]) -> Any:
    arrays = [np.atleast_1d(a) for a in tup]
    return join_all(arrays, 0 if arrays[0].ndim == 1 else 1)


@implements(np.dstack)
def dstack(tup: Sequence[Any]) -> Any:
    return join_all([np.atleast_3d(a) for a in tup], 2)


@implements(np.column_stack)
def column_stack(tup: Sequence[Any]) -> Any:
    return join_all([np.reshape(a, (-1, 1)) if np.ndim(a) < 2 else a for a in tup], 1)


@implements(np.append)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return concatenate([arr, values], axis)


def _pad_vjp(g: Array, ans: Array, x: Array, pad_width: Any, **_: Any) -> Array:
    return np.reshape(g[np.pad(np.ones(x.shape, bool), pad_width)], x.shape)


defvjp(np.pad, _pad_vjp)


@implements(np.pad)
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    if mode == "constant":
        if isinstance(kwargs.get("constant_values"), Tensor):
            raise NotImplementedError(
                "np.pad with a Tensor as constant_values has no derivative rule here: use np.concatenate"
            )
        return apply(np.pad, array, pad_width, mode="constant", **kwargs)
    if mode in ("edge", "wrap") or (mode in ("reflect", "symmetric") and kwargs.get("reflect_type", "even") == "even"):
        return rearrange(array, lambda places: np.pad(places, pad_width, mode=mode, **kwargs))
    raise NotImplementedError(
        f"np.pad with mode={mode!r} has no derivative rule here: constant, edge, wrap, reflect and symmetric have"
    )


# -- triangles and diagonals ----------------------------------------------------------------------------------
defvjp(np.tril, lambda g, ans, m, k: np.tril(g, k))
defvjp(np.triu, lambda g, ans, m, k: np.triu(g, k))


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Any:
    return apply(np.tril, m, k)


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Any:
    return apply(np.triu, m, k)


@implements(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ValueError(f"np.diag needs a vector or a matrix, got shape {v.shape}")
    n = v.size + abs(k)
    rows = np.arange(v.size) + (-k if k < 0 else 0)
    return apply(unget, v, (rows, rows + k), (n, n))


@implements(np.diagflat)
def diagflat(v: Any, k: int = 0) -> Any:
    return diag(np.reshape(v, -1), k)


constant(
    np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.empty_like, np.result_type,
    np.can_cast, np.may_share_memory, np.shares_memory, np.array2string, np.array_repr, np.array_str,
    np.tril_indices_from, np.triu_indices_from, np.diag_indices_from, np.ix_, np.min_scalar_type, np.common_type,
)  # fmt: skip
