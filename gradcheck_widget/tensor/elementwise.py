"""Rules of elementwise functions: each stands beside its derivative."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .core import Array, apply, conj, constant, defvjp, implements, is_complex, raw

LN2, LN10 = float(np.log(2.0)), float(np.log(10.0))


def holomorphic(ufunc: Callable[..., Any], derivative: Callable[[Array, Array], Array]) -> None:
    """A function of one argument with ``f'(x) = derivative(ans, x)``; g is pulled back to ``g * conj(f'(x))``."""
    defvjp(ufunc, lambda g, ans, x: g * conj(derivative(ans, x)))


holomorphic(np.exp, lambda ans, x: ans)
holomorphic(np.exp2, lambda ans, x: LN2 * ans)
holomorphic(np.expm1, lambda ans, x: ans + 1)
holomorphic(np.log, lambda ans, x: 1 / x)
holomorphic(np.log2, lambda ans, x: 1 / (LN2 * x))
holomorphic(np.log10, lambda ans, x: 1 / (LN10 * x))
holomorphic(np.log1p, lambda ans, x: 1 / (1 + x))
holomorphic(np.sqrt, lambda ans, x: 0.5 / ans)
holomorphic(np.cbrt, lambda ans, x: 1 / (3 * ans**2))
holomorphic(np.square, lambda ans, x: 2 * x)
holomorphic(np.reciprocal, lambda ans, x: -(ans**2))
holomorphic(np.sin, lambda ans, x: np.cos(x))
holomorphic(np.cos, lambda ans, x: -np.sin(x))
holomorphic(np.tan, lambda ans, x: 1 + ans**2)
holomorphic(np.arcsin, lambda ans, x: 1 / (np.sqrt(1 - x) * np.sqrt(1 + x)))
holomorphic(np.arccos, lambda ans, x: -1 / (np.sqrt(1 - x) * np.sqrt(1 + x)))
holomorphic(np.arctan, lambda ans, x: 1 / (1 + x**2))
holomorphic(np.sinh, lambda ans, x: np.cosh(x))
holomorphic(np.cosh, lambda ans, x: np.sinh(x))
holomorphic(np.tanh, lambda ans, x: 1 - ans**2)
holomorphic(np.arcsinh, lambda ans, x: 1 / np.sqrt(1 + x**2))
holomorphic(np.arccosh, lambda ans, x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)))
holomorphic(np.arctanh, lambda ans, x: 1 / (1 - x**2))
holomorphic(np.deg2rad, lambda ans, x: np.pi / 180)
holomorphic(np.radians, lambda ans, x: np.pi / 180)
holomorphic(np.rad2deg, lambda ans, x: 180 / np.pi)
holomorphic(np.degrees, lambda ans, x: 180 / np.pi)
holomorphic(np.sinc, lambda ans, x: _sinc_derivative(ans, x))

defvjp(np.negative, lambda g, ans, x: -g)
defvjp(np.positive, lambda g, ans, x: g)


def _sinc_derivative(ans: Array, x: Array) -> Array:
    """d sin(pi x) / (pi x) = (cos(pi x) - sinc(x)) / x; its Taylor series near 0, where that is 0/0."""
    near = np.abs(x) < 0.01
    far = np.where(near, 1.0, x)
    t = np.where(near, np.pi * x, 0.0)
    series = np.pi * t * (-1 / 3 + t**2 / 30 - t**4 / 840)
    return np.where(near, series, (np.cos(np.pi * far) - np.sinc(far)) / far)


# -- complex parts: real-linear, not holomorphic --------------------------------------------------------------
def _sign(x: Array) -> Array:
    """x / |x|, 0 at 0: the derivative that central differences of |x| give there."""
    return np.sign(x)


defvjp(np.absolute, lambda g, ans, x: g * _sign(x))
defvjp(np.fabs, lambda g, ans, x: g * _sign(x))
defvjp(np.conjugate, lambda g, ans, x: conj(g))
defvjp(np.real, lambda g, ans, x: g)
defvjp(np.imag, lambda g, ans, x: g * 1j if is_complex(x) else 0 * g)


def _complex_sign_vjp(g: Array, ans: Array, x: Array) -> Array:
    # d(x/|x|) = (dx - s Re(conj(s) dx)) / |x| with s = x/|x|: real-linear and self-adjoint; constant 0 at 0
    size = np.abs(x)
    safe = np.where(size == 0, 1.0, size)
    return np.where(size == 0, 0.0, (g - ans * np.real(np.conjugate(ans) * g)) / safe)


def _real_sign_vjp(g: Array, ans: Array, x: Array) -> Array:
    return _complex_sign_vjp(g, ans, x) if is_complex(x) else 0 * g


defvjp(np.sign, _real_sign_vjp)


def _angle_vjp(g: Array, ans: Array, z: Array) -> Array:
    # angle = atan2(b, a), so d/da + i d/db = (-b + i a) / |z|^2 = i z / |z|^2
    return g * 1j * z / (np.real(z) ** 2 + np.imag(z) ** 2) if is_complex(z) else 0 * g


defvjp(np.angle, _angle_vjp)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    radians = apply(np.angle, z)
    return radians * (180 / np.pi) if deg else radians


@implements(np.real)
def real(val: Any) -> Any:
    return apply(np.real, val)


@implements(np.imag)
def imag(val: Any) -> Any:
    return apply(np.imag, val)


@implements(np.sinc)
def sinc(x: Any) -> Any:
    return apply(np.sinc, x)


# -- two arguments ------------------------------------------------------------------------------------------
defvjp(np.add, lambda g, ans, x, y: g, lambda g, ans, x, y: g)
defvjp(np.subtract, lambda g, ans, x, y: g, lambda g, ans, x, y: -g)
defvjp(np.multiply, lambda g, ans, x, y: g * conj(y), lambda g, ans, x, y: g * conj(x))
defvjp(np.true_divide, lambda g, ans, x, y: g / conj(y), lambda g, ans, x, y: -g * conj(ans / y))


def _power_base(g: Array, ans: Array, x: Array, y: Array) -> Array:
    # y x^(y-1), and 0 where y is 0: there x^(y-1) may be infinite
    return g * conj(np.where(y == 0, 0.0, y * x ** np.where(y == 0, 1.0, y - 1)))


def _power_exponent(g: Array, ans: Array, x: Array, y: Array) -> Array:
    # x^y log x, which tends to 0 with x; a negative x has a logarithm if the power is complex
    safe = np.where(x == 0, 1.0, x)
    return g * conj(np.where(x == 0, 0.0, ans * np.log(safe + 0j if is_complex(ans) else safe)))


defvjp(np.power, _power_base, _power_exponent)
defvjp(operator.pow, _power_base, _power_exponent)
defvjp(np.float_power, _power_base, _power_exponent)
defvjp(
    np.arctan2,
    lambda g, ans, y, x: g * x / (x**2 + y**2),
    lambda g, ans, y, x: -g * y / (x**2 + y**2),
)
defvjp(np.hypot, lambda g, ans, x, y: g * _over(x, ans), lambda g, ans, x, y: g * _over(y, ans))
defvjp(np.logaddexp, lambda g, ans, x, y: g * np.exp(x - ans), lambda g, ans, x, y: g * np.exp(y - ans))
defvjp(np.logaddexp2, lambda g, ans, x, y: g * np.exp2(x - ans), lambda g, ans, x, y: g * np.exp2(y - ans))
defvjp(np.fmod, lambda g, ans, x, y: g, lambda g, ans, x, y: -g * np.trunc(x / y))
defvjp(np.remainder, lambda g, ans, x, y: g, lambda g, ans, x, y: -g * np.floor(x / y))
defvjp(np.copysign, lambda g, ans, x, y: g * np.copysign(1.0, x) * np.copysign(1.0, y), lambda g, ans, x, y: 0 * g)
defvjp(np.heaviside, lambda g, ans, x, y: 0 * g, lambda g, ans, x, y: g * (x == 0))
defvjp(np.ldexp, lambda g, ans, x, i: g * 2.0**i)


def _over(x: Array, length: Array) -> Array:
    """x / length, 0 where both are 0."""
    return np.where(length == 0, 0.0, x / np.where(length == 0, 1.0, length))


def _share(mine: Array, other: Array, larger: bool) -> Array:
    """Share of the chosen element: 1 to the winner, 1/2 to each on a tie, as central differences see it."""
    wins = (mine > other) if larger else (mine < other)
    return np.where(mine == other, 0.5, 1.0 * wins)


for _ufunc, _larger in ((np.maximum, True), (np.minimum, False)):
    defvjp(
        _ufunc,
        lambda g, ans, x, y, larger=_larger: g * _share(x, y, larger),
        lambda g, ans, x, y, larger=_larger: g * _share(y, x, larger),
    )
for _nan_aware, _larger in ((np.fmax, True), (np.fmin, False)):
    defvjp(
        _nan_aware,  # these ignore a NaN on the other side
        lambda g, ans, x, y, larger=_larger: g * np.where(np.isnan(y), 1.0, _share(x, y, larger)),
        lambda g, ans, x, y, larger=_larger: g * np.where(np.isnan(x), 1.0, _share(y, x, larger)),
    )


@implements(np.clip)
def clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Any:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    if low is not None:
        a = np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


defvjp(
    np.where,
    None,
    lambda g, ans, condition, x, y: np.where(condition, g, 0.0),
    lambda g, ans, condition, x, y: np.where(condition, 0.0, g),
)


@implements(np.where)
def where(condition: Any, x: Any, y: Any) -> Any:
    return apply(np.where, raw(condition), x, y)


def _nan_to_num_vjp(g: Array, ans: Array, x: Array, **_: Any) -> Array:
    if is_complex(x):  # each part by itself
        return np.real(g) * np.isfinite(np.real(x)) + 1j * (np.imag(g) * np.isfinite(np.imag(x)))
    return g * np.isfinite(x)


defvjp(np.nan_to_num, _nan_to_num_vjp)


@implements(np.nan_to_num)
def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    return apply(np.nan_to_num, x, nan=nan, posinf=posinf, neginf=neginf)


constant(
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
    np.isnan, np.isinf, np.isfinite, np.signbit, np.floor, np.ceil, np.rint, np.trunc, np.floor_divide,
    np.round, np.around, np.fix, np.isclose, np.allclose, np.array_equal, np.array_equiv,
    np.isreal, np.iscomplex, np.iscomplexobj, np.isrealobj, np.isposinf, np.isneginf, np.spacing,
)  # fmt: skip
