"""Rules of products and of linear algebra. ``H(a)`` is the conjugate transpose of the last two axes.

Sources: M. Giles, *Collected matrix derivative results for forward and reverse mode algorithmic differentiation*
(2008) for inv, solve, det; I. Murray, *Differentiation of the Cholesky decomposition* (2016).
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from .core import VARIADIC, Array, Tensor, apply, conj, defvjp, implements, is_complex, raw

WELL_CONDITIONED = 1e4  # below this the inverse is good for second derivatives too; det falls back on cofactors


def H(a: Array) -> Array:
    return conj(np.swapaxes(a, -1, -2))


# -- products -----------------------------------------------------------------------------------------------
def _as_matrices(g: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """matmul's treatment of vectors: a row on the left, a column on the right."""
    if b.ndim == 1:
        b, g = np.expand_dims(b, -1), np.expand_dims(g, -1)
    if a.ndim == 1:
        a, g = np.expand_dims(a, 0), np.expand_dims(g, -2)
    return g, a, b


def _matmul_left(g: Array, ans: Array, a: Array, b: Array) -> Array:
    g, _, b = _as_matrices(g, a, b)
    back = np.matmul(g, H(b))
    return np.squeeze(back, -2) if a.ndim == 1 else back


def _matmul_right(g: Array, ans: Array, a: Array, b: Array) -> Array:
    g, a, _ = _as_matrices(g, a, b)
    back = np.matmul(H(a), g)
    return np.squeeze(back, -1) if b.ndim == 1 else back


defvjp(np.matmul, _matmul_left, _matmul_right)

Axes = tuple[tuple[int, ...], tuple[int, ...]]


def _tensordot_left(g: Array, ans: Array, a: Array, b: Array, axes: Axes) -> Array:
    # g carries a's free axes, then b's; contracting b's free axes leaves a's free axes, then b's contracted ones
    a_axes, b_axes = axes
    b_free = [i for i in range(b.ndim) if i not in b_axes]
    a_free = [i for i in range(a.ndim) if i not in a_axes]
    back = np.tensordot(g, conj(b), (tuple(range(len(a_free), g.ndim)), tuple(b_free)))
    contracted = [a_axes[b_axes.index(i)] for i in sorted(b_axes)]
    return np.transpose(back, np.argsort([*a_free, *contracted]))


def _tensordot_right(g: Array, ans: Array, a: Array, b: Array, axes: Axes) -> Array:
    a_axes, b_axes = axes
    a_free = [i for i in range(a.ndim) if i not in a_axes]
    b_free = [i for i in range(b.ndim) if i not in b_axes]
    back = np.tensordot(conj(a), g, (tuple(a_free), tuple(range(len(a_free)))))
    contracted = [b_axes[a_axes.index(i)] for i in sorted(a_axes)]
    return np.transpose(back, np.argsort([*contracted, *b_free]))


defvjp(np.tensordot, _tensordot_left, _tensordot_right)
# np.dot contracts the last axis of a with the second to last of b: tensordot's rule with dot's values
defvjp(
    np.dot,
    lambda g, ans, a, b: _tensordot_left(g, ans, a, b, _dot_axes(a, b)),
    lambda g, ans, a, b: _tensordot_right(g, ans, a, b, _dot_axes(a, b)),
)
defvjp(
    np.inner,
    lambda g, ans, a, b: _tensordot_left(g, ans, a, b, ((a.ndim - 1,), (b.ndim - 1,))),
    lambda g, ans, a, b: _tensordot_right(g, ans, a, b, ((a.ndim - 1,), (b.ndim - 1,))),
)


def _dot_axes(a: Array, b: Array) -> Axes:
    return (a.ndim - 1,), (max(b.ndim - 2, 0),)


def _array(x: Any) -> Any:
    return x if isinstance(x, Tensor) else np.asarray(x)


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = _array(a), _array(b)
    if not np.iterable(axes):
        axes = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    left, right = (tuple(x) if np.iterable(x) else (x,) for x in axes)
    pair = tuple(int(i) % a.ndim for i in left), tuple(int(i) % b.ndim for i in right)
    return apply(np.tensordot, a, b, axes=pair)


@implements(np.dot)
def dot(a: Any, b: Any) -> Any:
    a, b = _array(a), _array(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else apply(np.dot, a, b)


@implements(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    a, b = _array(a), _array(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else apply(np.inner, a, b)


# np.vdot conjugates a and flattens both
defvjp(
    np.vdot,
    lambda g, ans, a, b: np.reshape(conj(g) * b, a.shape),
    lambda g, ans, a, b: np.reshape(g * a, b.shape),
)


@implements(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    return apply(np.vdot, _array(a), _array(b))


@implements(np.outer, np.linalg.outer)
def outer(a: Any, b: Any) -> Any:
    return np.reshape(_array(a), (-1, 1)) * np.reshape(_array(b), (1, -1))


@implements(np.kron)
def kron(a: Any, b: Any) -> Any:
    a, b = _array(a), _array(b)
    n = max(a.ndim, b.ndim)
    sa, sb = (1,) * (n - a.ndim) + a.shape, (1,) * (n - b.ndim) + b.shape
    # interleave the axes: (a0, 1, a1, 1, ...) * (1, b0, 1, b1, ...)
    left = np.reshape(a, [k for s in sa for k in (s, 1)])
    right = np.reshape(b, [k for s in sb for k in (1, s)])
    return np.reshape(left * right, [p * q for p, q in zip(sa, sb, strict=True)])


def _convolve_other(g: Array, other: Array, size: int, mode: str) -> Array:
    """Cotangent of one operand, of `size`: g correlated with the other one. g is the middle of the full output."""
    n, short = size + other.size - 1, min(size, other.size)
    before = {"full": 0, "same": (short - 1) // 2, "valid": short - 1}[mode]
    return np.convolve(np.pad(g, (before, n - before - g.size)), conj(other)[::-1], "valid")


defvjp(
    np.convolve,
    lambda g, ans, a, v, mode: _convolve_other(g, v, a.size, mode),
    lambda g, ans, a, v, mode: _convolve_other(g, a, v.size, mode),
)


@implements(np.convolve)
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    return apply(np.convolve, np.atleast_1d(a), np.atleast_1d(v), mode)


@implements(np.linalg.matmul)
def matmul(x1: Any, x2: Any, /) -> Any:
    return np.matmul(x1, x2)


@implements(np.cross)
def cross(a: Any, b: Any, axis: int = -1) -> Any:
    a, b = (np.moveaxis(_array(x), axis, -1) for x in (a, b))
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise NotImplementedError(f"np.cross here needs vectors of length 3, got {a.shape[-1]} and {b.shape[-1]}")
    a1, a2, a3, b1, b2, b3 = (x[..., i] for x in (a, b) for i in range(3))
    return np.stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1], axis)


# -- einsum: explicit subscripts, one letter an axis ------------------------------------------------------------
def contract(*operands: Array, subscripts: str, optimize: Any) -> Array:
    return np.einsum(subscripts, *operands, optimize=optimize)


def _contract_vjp(k: int, g: Array, ans: Array, *operands: Array, subscripts: str, optimize: Any) -> Array:
    """Contract g with the other operands, into the subscripts of operand k.

    An index that only operand k has was summed over: its cotangent is spread by an operand of ones. A repeated
    index took a diagonal: an identity matrix puts it back.
    """
    inputs, output = subscripts.split("->")
    terms = inputs.split(",")
    mine = terms[k]
    others = [(t, conj(x)) for i, (t, x) in enumerate(zip(terms, operands, strict=True)) if i != k]
    parts = [(output, g), *others]
    known = set("".join(t for t, _ in parts))
    fresh = (c for c in _LETTERS if c not in set(subscripts))
    target = ""
    for label, size in zip(mine, operands[k].shape, strict=True):
        if label in target:
            twin = next(fresh)
            parts.append((label + twin, np.eye(size)))
            label = twin
        elif label not in known:
            parts.append((label, np.ones(size)))
        target += label
    back = np.einsum(",".join(t for t, _ in parts) + "->" + target, *(x for _, x in parts))
    # an index of length 1 elsewhere was broadcast to operand k's length
    full = tuple(m if n == 1 else n for n, m in zip(back.shape, operands[k].shape, strict=True))
    return np.broadcast_to(back, full) if full != back.shape else back


VARIADIC[contract] = _contract_vjp
_LETTERS = string.ascii_uppercase + string.ascii_lowercase  # in their order, which is that of an implicit output


def _explicit(subscripts: str, ndims: Sequence[int], optimize: Any) -> str:
    """Subscripts with an output and with letters instead of an ellipsis."""
    subscripts = subscripts.replace(" ", "")
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum subscripts {subscripts!r} name {len(terms)} operands, {len(ndims)} were given")
    free = [c for c in reversed(_LETTERS) if c not in subscripts]
    widths = [n - len(t.replace("...", "")) for t, n in zip(terms, ndims, strict=True)]
    dots = "".join(free[: max([w for t, w in zip(terms, widths, strict=True) if "..." in t], default=0)])
    terms = [t.replace("...", dots[len(dots) - w :]) if "..." in t else t for t, w in zip(terms, widths, strict=True)]
    if not arrow:
        joined = "".join(t for t in inputs.replace("...", "") if t != ",")
        output = dots + "".join(sorted(c for c in set(joined) if joined.count(c) == 1))
    elif dots and "..." not in output and not optimize:  # NumPy's optimized path does sum over it
        raise ValueError(f"einsum subscripts {subscripts!r} have an ellipsis on the left, none on the right")
    return ",".join(terms) + "->" + output.replace("...", dots)


@implements(np.einsum)
def einsum(*operands: Any, optimize: Any = False) -> Any:
    if not isinstance(operands[0], str):  # einsum(x, [0, 1], y, [1, 2], [0, 2])
        pairs, rest = operands[: len(operands) // 2 * 2], operands[len(operands) // 2 * 2 :]

        def text(labels: Any) -> str:
            return "".join("..." if c is Ellipsis else _LETTERS[c] for c in labels)

        subscripts = ",".join(text(labels) for labels in pairs[1::2])
        operands = (subscripts + ("->" + text(rest[0]) if rest else ""), *pairs[::2])
    arrays = [_array(x) for x in operands[1:]]
    subscripts = _explicit(operands[0], [x.ndim for x in arrays], optimize)
    return apply(contract, *arrays, subscripts=subscripts, optimize=optimize)


# -- traces, norms ------------------------------------------------------------------------------------------
def _trace_vjp(g: Array, ans: Array, a: Array, offset: int, axis1: int, axis2: int) -> Array:
    eye = np.eye(a.shape[axis1], a.shape[axis2], offset)
    return np.moveaxis(np.expand_dims(g, (-2, -1)) * eye, (-2, -1), (axis1, axis2))


defvjp(np.trace, _trace_vjp)


@implements(np.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return apply(np.trace, a, offset, axis1, axis2)


def _p_norm(x: Array, p: float, axes: tuple[int, ...], **given: Any) -> Array:
    return np.linalg.norm(x, **given)


def _p_norm_vjp(g: Array, ans: Array, x: Array, p: float, axes: tuple[int, ...], **given: Any) -> Array:
    # of (sum |x|^p)^(1/p): x / norm for p = 2, else sign(x) (|x| / norm)^(p-1); 0 where the norm is 0
    if x.ndim:
        shape = [1 if i in axes else n for i, n in enumerate(x.shape)]
        g, ans = np.reshape(g, shape), np.reshape(ans, shape)
    size = np.where(ans == 0, 1.0, ans)
    slope = x / size if p == 2 else np.sign(x) * (np.abs(x) / size) ** (p - 1)
    return np.where(ans == 0, 0.0, g * slope)


defvjp(_p_norm, _p_norm_vjp)


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    axes = tuple(int(a) % x.ndim for a in (range(x.ndim) if axis is None else axis if np.iterable(axis) else (axis,)))
    width = len(axes)
    size = np.abs(x)
    if ord is None or (width == 2 and ord in ("fro", "f")) or (width == 1 and _is_power(ord)):
        p = ord if _is_power(ord) else 2
        return apply(_p_norm, x, p=p, axes=axes, ord=ord, axis=axis, keepdims=keepdims)
    if width == 1 and ord in (np.inf, -np.inf):
        return (np.max if ord > 0 else np.min)(size, axis=axes, keepdims=keepdims)
    if width == 2 and ord in (1, -1, np.inf, -np.inf):
        summed, left = axes if abs(ord) == 1 else axes[::-1]
        out = (np.max if ord > 0 else np.min)(np.sum(size, axis=summed, keepdims=True), axis=left, keepdims=True)
        return out if keepdims else np.squeeze(out, axes)
    np.linalg.norm(raw(x), ord, axis, keepdims)  # it tells what is wrong with an ord that it does not know
    raise NotImplementedError(
        f"np.linalg.norm with ord={ord!r} over {width} axes has no derivative rule here: for vectors all but 0, "
        "for matrices None, 'fro', 1, -1, inf and -inf have"
    )


def _is_power(ord: Any) -> bool:
    return isinstance(ord, int | float | np.number) and bool(ord != 0) and bool(np.isfinite(ord))


# -- systems ------------------------------------------------------------------------------------------------
defvjp(np.linalg.inv, lambda g, ans, a: -H(ans) @ g @ H(ans))


def _column(b: Array) -> bool:
    """NumPy 2: b is one vector only if it has one axis."""
    return bool(b.ndim == 1)


def _solve_matrix(g: Array, ans: Array, a: Array, b: Array) -> Array:
    back = np.linalg.solve(H(a), g)
    if _column(b):
        # a stack of matrices against one vector: solve() reads a stack of solutions as matrices
        return -np.expand_dims(back, -1) * np.expand_dims(conj(ans), -2)
    return -back @ H(ans)


defvjp(np.linalg.solve, _solve_matrix, lambda g, ans, a, b: np.linalg.solve(H(a), g))


@implements(np.linalg.inv)
def inv(a: Any) -> Any:
    return apply(np.linalg.inv, a)


@implements(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    a, b = _array(a), _array(b)
    if b.ndim == 1 and a.ndim > 2:  # a stack of matrices, one right-hand side
        return np.squeeze(apply(np.linalg.solve, a, np.expand_dims(b, -1)), -1)
    return apply(np.linalg.solve, a, b)


def _cofactors(a: Array) -> Array:
    """d det(a) / d a without a division: det of a with row i and column j struck out, with sign."""
    n = a.shape[-1]
    i = np.arange(n)
    keep = np.array([np.delete(i, k) for k in i], int).reshape(n, max(n - 1, 0))
    minors = a[..., keep[:, None, :, None], keep[None, :, None, :]]
    return (-1.0) ** np.add.outer(i, i) * np.linalg.det(minors)


def _det_vjp(g: Array, ans: Array, a: Array) -> Array:
    g = np.expand_dims(g, (-2, -1))
    if a.size and np.all(np.linalg.cond(raw(a)) < WELL_CONDITIONED):
        return g * conj(np.expand_dims(ans, (-2, -1))) * H(np.linalg.inv(a))
    return g * conj(_cofactors(a))


defvjp(np.linalg.det, _det_vjp)


@implements(np.linalg.det)
def det(a: Any) -> Any:
    return apply(np.linalg.det, a)


def _det_sign(a: Array) -> Array:
    return np.linalg.slogdet(a)[0]


def _log_abs_det(a: Array) -> Array:
    return np.linalg.slogdet(a)[1]


def _det_sign_vjp(g: Array, ans: Array, a: Array) -> Array:
    # d sign = i sign Im tr(a^-1 da); constant for a real matrix
    if not is_complex(a):
        return np.zeros(a.shape)
    turn = np.imag(conj(ans) * g)
    return np.expand_dims(turn * 1j, (-2, -1)) * H(np.linalg.inv(a))


defvjp(_det_sign, _det_sign_vjp)
defvjp(_log_abs_det, lambda g, ans, a: np.expand_dims(g, (-2, -1)) * H(np.linalg.inv(a)))


@implements(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    plain = np.linalg.slogdet(a.data)
    return type(plain)(apply(_det_sign, a), apply(_log_abs_det, a))


def _cholesky_vjp(g: Array, ans: Array, a: Array) -> Array:
    # Phi takes the lower triangle and halves the diagonal; S = L^-H Phi(L^H g) L^-1 (Murray 2016).
    # NumPy reads the lower triangle only, so the derivative lives there: an element off the diagonal stands for
    # two of the symmetric matrix, and the diagonal of a Hermitian matrix is real.
    n = a.shape[-1]
    halved = np.tril(np.ones((n, n))) - 0.5 * np.eye(n)
    inverse = np.linalg.inv(ans)
    s = H(inverse) @ (halved * (H(ans) @ g)) @ inverse
    lower = np.tril(np.ones((n, n)), -1)
    return lower * (s + H(s)) + np.eye(n) * np.real(s)


def _upper_cholesky(a: Array) -> Array:
    return np.linalg.cholesky(a, upper=True)


defvjp(np.linalg.cholesky, _cholesky_vjp)
defvjp(_upper_cholesky, lambda g, ans, a: H(_cholesky_vjp(H(g), H(ans), H(a))))


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    return apply(_upper_cholesky if upper else np.linalg.cholesky, a)
