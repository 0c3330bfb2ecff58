"""Rules of reductions, scans and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from .core import Array, apply, conj, constant, defvjp, implements, is_complex
from .shaping import rearrange

Axis = int | tuple[int, ...] | None


def _axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(a % ndim for a in (axis if isinstance(axis, tuple | list) else (axis,)))


def _count(shape: tuple[int, ...], axis: Axis) -> int:
    return int(np.prod([shape[a] for a in _axes(axis, len(shape))], dtype=int))


def _spread(g: Array, x: Array, axis: Axis, keepdims: bool) -> Array:
    """Give a reduced array its reduced axes back, with length 1."""
    if keepdims or x.ndim == 0:
        return g
    reduced = _axes(axis, x.ndim)
    return np.reshape(g, tuple(1 if a in reduced else n for a, n in enumerate(x.shape)))


def _sum_vjp(g: Array, ans: Array, x: Array, axis: Axis, keepdims: bool, **_: Any) -> Array:
    return np.broadcast_to(_spread(g, x, axis, keepdims), x.shape)


defvjp(np.sum, _sum_vjp)
defvjp(np.nansum, lambda g, ans, x, axis, keepdims: _sum_vjp(g, ans, x, axis, keepdims) * ~np.isnan(x))
defvjp(np.mean, lambda g, ans, x, axis, keepdims: _sum_vjp(g / (_count(x.shape, axis) or 1), ans, x, axis, keepdims))


@implements(np.sum)
def sum(a: Any, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return apply(np.sum, a, axis=axis, keepdims=keepdims, **({} if dtype is None else {"dtype": dtype}))


@implements(np.nansum)
def nansum(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return apply(np.nansum, a, axis=axis, keepdims=keepdims)


@implements(np.mean)
def mean(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return apply(np.mean, a, axis=axis, keepdims=keepdims)


@implements(np.nanmean)
def nanmean(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    count = np.sum(~np.isnan(a), axis=axis, keepdims=keepdims, dtype=a.dtype)
    return np.nansum(a, axis=axis, keepdims=keepdims) / count


@implements(np.average)
def average(a: Any, axis: Axis = None, weights: Any = None, *, keepdims: bool = False) -> Any:
    if weights is None:
        return np.mean(a, axis=axis, keepdims=keepdims)
    if np.shape(weights) != np.shape(a):  # weights of the averaged axes alone, in their order
        axes = _axes(axis, np.ndim(a))
        if axis is None or np.shape(weights) != tuple(np.shape(a)[i] for i in axes):
            raise ValueError(
                f"np.average: weights of shape {np.shape(weights)} fit neither a, of shape {np.shape(a)}, nor its "
                f"averaged axes {axis}"
            )
        shape = [n if i in axes else 1 for i, n in enumerate(np.shape(a))]
        weights = np.reshape(np.transpose(weights, np.argsort(axes)), shape)
    total = np.sum(np.multiply(a, weights), axis=axis, keepdims=keepdims)
    return total / np.sum(weights, axis=axis, keepdims=keepdims)


def _var_vjp(g: Array, ans: Array, x: Array, axis: Axis, ddof: float, keepdims: bool) -> Array:
    # var = sum |x - mean|^2 / (n - ddof); the mean's own derivative drops out because sum (x - mean) = 0
    centred = x - np.mean(x, axis=axis, keepdims=True)
    freedom = np.float64(_count(x.shape, axis) - ddof)
    return _spread(g, x, axis, keepdims) * (2 / np.maximum(freedom, 0.0)) * centred


def _std_vjp(g: Array, ans: Array, x: Array, axis: Axis, ddof: float, keepdims: bool) -> Array:
    # 0 where all values are equal, as central differences see it
    half = np.where(ans == 0, 0.0, 0.5 / np.where(ans == 0, 1.0, ans))
    return _var_vjp(g * half, ans, x, axis, ddof, keepdims)


defvjp(np.var, _var_vjp)
defvjp(np.std, _std_vjp)


@implements(np.var)
def var(a: Any, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    return apply(np.var, a, axis=axis, ddof=ddof, keepdims=keepdims)


@implements(np.std)
def std(a: Any, axis: Axis = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    return apply(np.std, a, axis=axis, ddof=ddof, keepdims=keepdims)


def _extremum_vjp(g: Array, ans: Array, x: Array, axis: Axis, keepdims: bool) -> Array:
    # ties share evenly
    chosen = 1.0 * (x == _spread(ans, x, axis, keepdims))
    return _spread(g, x, axis, keepdims) * (chosen / np.sum(chosen, axis=axis, keepdims=True))


defvjp(np.max, _extremum_vjp)
defvjp(np.min, _extremum_vjp)


@implements(np.max, np.amax)
def max(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return apply(np.max, a, axis=axis, keepdims=keepdims)


@implements(np.min, np.amin)
def min(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return apply(np.min, a, axis=axis, keepdims=keepdims)


@implements(np.ptp)
def ptp(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


# -- products: without division, so that zeros among the factors do no harm ------------------------------------
def _products_of_others(x: Array) -> Array:
    """Along the last axis, the product of all elements but the one in place."""
    one = np.ones((*x.shape[:-1], 1), x.dtype)
    before = np.concatenate([one, np.cumprod(x[..., :-1], axis=-1)], axis=-1)
    after = np.concatenate([one, np.cumprod(x[..., :0:-1], axis=-1)], axis=-1)[..., ::-1]
    return before * after


def _prod_vjp(g: Array, ans: Array, x: Array, axis: Axis, keepdims: bool) -> Array:
    if x.ndim == 0 or x.size == 0:
        return np.broadcast_to(_spread(g, x, axis, keepdims), x.shape)
    axes = _axes(axis, x.ndim)
    last = tuple(range(x.ndim - len(axes), x.ndim))
    moved = np.moveaxis(x, axes, last)
    others = _products_of_others(np.reshape(moved, (*moved.shape[: x.ndim - len(axes)], -1)))
    others = np.moveaxis(np.reshape(others, moved.shape), last, axes)
    return _spread(g, x, axis, keepdims) * conj(others)


defvjp(np.prod, _prod_vjp)


@implements(np.prod)
def prod(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    return apply(np.prod, a, axis=axis, keepdims=keepdims)


def _flat_scan(x: Array, axis: int | None) -> tuple[Array, int]:
    return (np.reshape(x, -1), 0) if axis is None or x.ndim == 0 else (x, axis)


def _cumsum_vjp(g: Array, ans: Array, x: Array, axis: int | None) -> Array:
    flat, along = _flat_scan(g, axis)
    return np.reshape(np.flip(np.cumsum(np.flip(flat, along), axis=along), along), x.shape)


def _cumprod_vjp(g: Array, ans: Array, x: Array, axis: int | None) -> Array:
    # d ans_k / d x_i = product of x_j over j <= k, j != i: one cumulative product with x_i replaced by 1 for each i
    flat, along = _flat_scan(x, axis)
    y = np.moveaxis(flat, along, -1)
    gy = np.moveaxis(np.reshape(g, flat.shape), along, -1)
    n = y.shape[-1]
    without = np.cumprod(np.where(np.eye(n, dtype=bool), 1.0, np.expand_dims(y, -2)), axis=-1)
    partial = np.where(np.triu(np.ones((n, n), bool)), without, 0.0)
    back = np.sum(np.expand_dims(gy, -2) * conj(partial), axis=-1)
    return np.reshape(np.moveaxis(back, -1, along), x.shape)


defvjp(np.cumsum, _cumsum_vjp)
defvjp(np.cumprod, _cumprod_vjp)


@implements(np.cumsum)
def cumsum(a: Any, axis: int | None = None) -> Any:
    return apply(np.cumsum, a, axis=axis)


@implements(np.cumprod)
def cumprod(a: Any, axis: int | None = None) -> Any:
    return apply(np.cumprod, a, axis=axis)


@implements(np.diff)
def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    if n < 0:
        raise ValueError(f"np.diff needs an order n >= 0, got {n}")
    for _ in range(n):
        moved = np.moveaxis(a, axis, -1)
        a = np.moveaxis(moved[..., 1:] - moved[..., :-1], -1, axis)
    return a


@implements(np.trapezoid)
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    y = np.moveaxis(y, axis, -1)
    if x is not None:
        dx = np.diff(x if np.ndim(x) == 1 else np.moveaxis(x, axis, -1))
    return np.sum(dx * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)


# -- sorting is a rearrangement that depends on the values -----------------------------------------------------
@implements(np.sort)
def sort(a: Any, axis: int | None = -1, kind: Any = None, *, stable: bool | None = None) -> Any:
    # equal elements are alike, so the kind changes nothing
    if axis is None:
        a, axis = np.reshape(a, -1), 0
    return rearrange(a, lambda places: np.take_along_axis(places, np.argsort(a.data, axis, kind="stable"), axis))


@implements(np.median)
def median(a: Any, axis: Axis = None, *, keepdims: bool = False) -> Any:
    if is_complex(a):
        raise NotImplementedError("np.median of complex values has no derivative rule here")
    reduced = _axes(axis, a.ndim)
    kept = [i for i in range(a.ndim) if i not in reduced]
    flat = np.reshape(np.transpose(a, [*kept, *reduced]), [*(a.shape[i] for i in kept), _count(a.shape, axis)])
    n = flat.shape[-1]
    out = np.mean(np.sort(flat)[..., (n - 1) // 2 : n // 2 + 1], axis=-1)
    out = np.where(np.any(np.isnan(flat), axis=-1), np.nan, out)  # a NaN is sorted to the end
    return np.reshape(out, [1 if i in reduced else n for i, n in enumerate(a.shape)]) if keepdims else out


constant(
    np.argmax, np.argmin, np.argsort, np.nanargmax, np.nanargmin, np.any, np.all, np.count_nonzero, np.nonzero,
    np.flatnonzero, np.argwhere, np.searchsorted, np.unravel_index, np.lexsort, np.digitize,
)  # fmt: skip
