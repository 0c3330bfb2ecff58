"""The functions of the embedded engine, each with the arguments users write: one table for all tests of the rules.

A case is written for a namespace `xp`, so that the same line runs on Tensors and arrays (``xp`` is numpy) and under
HIPS autograd (``xp`` is autograd.numpy), which serves as the reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, bool], Array]
Kind = Literal["real", "complex", "real-complex", "complex-real"]


@dataclass(frozen=True)
class Case:
    """``call(xp, *inputs)`` at seeded inputs.

    `reference` tells what its derivative is compared with: "autograd" (the same call, on autograd.numpy), a formula for
    the same value in functions that autograd has, or "step" (complex-step differentiation of the call).
    """

    name: str
    call: Callable[..., Any]
    draws: tuple[Draw, ...]
    complex: bool
    reference: Callable[..., Any] | Literal["autograd", "step"]
    second: bool

    def inputs(self, kind: Kind) -> tuple[Array, ...]:
        rng = np.random.default_rng(7)
        first, rest = kind.startswith("complex"), kind.endswith("complex")
        return tuple(draw(rng, rest if i % 2 else first) for i, draw in enumerate(self.draws))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        if not self.complex:
            return ("real",)
        return ("real", "complex") if len(self.draws) == 1 else ("real", "complex", "real-complex", "complex-real")

    def __call__(self, *inputs: Any) -> Any:
        return self.call(np, *inputs)


# -- inputs ---------------------------------------------------------------------------------------------------
def normal(*shape: int) -> Draw:
    return lambda rng, z: np.asarray(rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if z else 0))


def uniform(low: float, high: float, *shape: int) -> Draw:
    """Complex: the same real parts, imaginary parts in -0.8..0.8, which keeps off the branch cuts."""
    return lambda rng, z: np.asarray(rng.uniform(low, high, shape) + (1j * rng.uniform(-0.8, 0.8, shape) if z else 0))


def positive(*shape: int) -> Draw:
    return uniform(0.5, 2.0, *shape)


def inside(*shape: int) -> Draw:
    return uniform(-0.8, 0.8, *shape)


def away(*shape: int) -> Draw:
    """Of either sign, away from 0."""

    def draw(rng: np.random.Generator, z: bool) -> Array:
        return np.asarray(positive(*shape)(rng, z) * rng.choice([-1.0, 1.0], shape))

    return draw


def distinct(*shape: int) -> Draw:
    """Half a unit apart and none at 0, in random order: no kink within reach of a step."""

    def draw(rng: np.random.Generator, z: bool) -> Array:
        n = int(np.prod(shape))
        x = (rng.permutation(n).reshape(shape) - n // 2) / 2 + 0.25
        return x + 1j * rng.standard_normal(shape) if z else x

    return draw


def uneven(*shape: int) -> Draw:
    """Of either sign and of unequal sizes."""
    return lambda rng, z: distinct(*shape)(rng, z) + 0.1


def at(values: Any) -> Draw:
    return lambda rng, z: np.array(values, float) * ((1 + 0.5j) if z else 1)


def regular(*shape: int) -> Draw:
    """Well-conditioned square matrices."""
    return lambda rng, z: normal(*shape)(rng, z) + 2 * shape[-1] * np.eye(shape[-1])


def definite(*shape: int) -> Draw:
    """Hermitian positive definite matrices."""

    def draw(rng: np.random.Generator, z: bool) -> Array:
        a = normal(*shape)(rng, z)
        return np.asarray(a @ np.conj(np.swapaxes(a, -1, -2)) + shape[-1] * np.eye(shape[-1]))

    return draw


# fmt: off
# -- the table ------------------------------------------------------------------------------------------------
def case(
    name: str,
    call: Callable[..., Any],
    *draws: Draw,
    complex: bool = True,
    reference: Any = "autograd",
    second: bool = True,
) -> Case:
    return Case(name, call, draws, complex, reference, second)


def real(name: str, call: Callable[..., Any], *draws: Draw, reference: Any = "autograd", second: bool = True) -> Case:
    return Case(name, call, draws, False, reference, second)


def _unary() -> Iterator[Case]:
    for names, draw in (
        ("exp exp2 expm1 sin cos sinh cosh square negative positive conjugate real imag", normal(4)),
        ("log log2 log10 log1p sqrt", positive(4)),
        ("tan tanh arcsin arccos arctan arcsinh arctanh", inside(4)),
        ("arccosh", uniform(1.3, 3.0, 4)),
        ("reciprocal absolute sign sinc angle", away(4)),
    ):
        for name in names.split():
            no_reference = {"positive": lambda xp, x: 1 * x, "sign": lambda xp, x: x / xp.abs(x)}
            yield case(
                name, lambda xp, x, name=name: getattr(xp, name)(x), draw, reference=no_reference.get(name, "autograd")
            )
    for name in ["fabs", "deg2rad", "radians", "rad2deg", "degrees"]:
        yield real(name, lambda xp, x, name=name: getattr(xp, name)(x), away(4))
    yield real(
        "cbrt", lambda xp, x: xp.cbrt(x), away(4), reference=lambda xp, x: xp.sign(x) * xp.abs(x) ** (1 / 3)
    )
    yield case("exp-0d", lambda xp, x: xp.exp(x), normal())
    yield case("exp-size-0", lambda xp, x: xp.exp(x), normal(0, 3))
    yield real("absolute-at-0", lambda xp, x: xp.abs(x), at([0.0, 1.0, -2.0]), second=False)
    yield real("sinc-near-0", lambda xp, x: xp.sinc(x), at([0.0, 1e-3, -9e-3, 0.02, 0.5]), reference=_sinc)
    yield case("angle-deg", lambda xp, x: xp.angle(x, deg=True), away(4),
               reference=lambda xp, x: xp.angle(x) * 180 / np.pi)
    yield case(
        "nan_to_num", lambda xp, x: xp.nan_to_num(3 * x, nan=1.0), normal(4), reference=lambda xp, x: 3 * x
    )
    yield case("copy", lambda xp, x: xp.copy(x), normal(2, 3), reference=lambda xp, x: 1 * x)


def _sinc(xp: Any, x: Any) -> Any:
    """A Taylor polynomial of sin(pi x) / (pi x): autograd divides by 0 there."""
    t = (np.pi * x) ** 2
    return 1 - t / 6 * (1 - t / 20 * (1 - t / 42 * (1 - t / 72 * (1 - t / 110 * (1 - t / 156 * (1 - t / 210))))))


def _binary() -> Iterator[Case]:
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "": ((3,), (3,)),
        "-stretched": ((2, 1), (3,)),
        "-0d": ((), (3,)),
        "-size-0": ((0, 3), (3,)),
    }
    for name in ["add", "subtract", "multiply", "divide", "power"]:
        for suffix, (a, b) in shapes.items():
            yield case(name + suffix, lambda xp, x, y, name=name: getattr(xp, name)(x, y), positive(*a), away(*b))
    same: dict[str, Any] = {
        "arctan2": "autograd",
        "logaddexp": "autograd",
        "logaddexp2": "autograd",
        "maximum": "autograd",
        "minimum": "autograd",
        "fmax": "autograd",
        "fmin": "autograd",
        "remainder": "autograd",
        "hypot": lambda xp, x, y: xp.sqrt(x**2 + y**2),
        "fmod": lambda xp, x, y: x - y * np.trunc(_value(x) / _value(y)),
        "copysign": lambda xp, x, y: xp.abs(x) * xp.sign(_value(y)) + 0 * y,
        "heaviside": lambda xp, x, y: 0 * x + 0 * y + (_value(x) > 0),
        "float_power": lambda xp, x, y: xp.abs(x) ** y,
    }
    for name, reference in same.items():
        for suffix, (a, b) in shapes.items():
            x = positive if name == "float_power" else distinct
            yield real(
                name + suffix,
                lambda xp, x, y, name=name: getattr(xp, name)(x, y),
                x(*a),
                away(*b),
                reference=reference,
            )
    yield case("float_power-complex", lambda xp, x, y: xp.float_power(x, y), positive(3), away(3), reference="step")
    yield real("arctan2-quadrants", lambda xp, y, x: xp.arctan2(y, x), at([1, 1, -1, -1]), at([1, -1, 1, -1]))
    yield real("fmod-several-times", lambda xp, x, y: xp.fmod(x, y), at([5.5, -7.3, 3.1, -4.0]),
               at([2.0, 1.6, -0.7, -1.1]), reference=lambda xp, x, y: x - y * np.array([2, -4, -4, 3]))
    yield real("remainder-several-times", lambda xp, x, y: xp.remainder(x, y), at([5.5, -7.3, 3.1, -4.0]),
               at([2.0, 1.6, -0.7, -1.1]), reference=lambda xp, x, y: x - y * np.array([2, -5, -5, 3]))
    yield real("hypot-at-0", lambda xp, x, y: xp.hypot(x, y), at([0.0, 3.0]), at([0.0, 0.0]),
               second=False, reference=lambda xp, x, y: xp.array([0.0 * x[0], x[1]]) + 0 * y)
    yield real("maximum-tie", lambda xp, x, y: xp.maximum(x, y), at([1.0, 2.0]), at([1.0, 0.0]), second=False)
    yield real("minimum-tie", lambda xp, x, y: xp.minimum(x, y), at([1.0, 2.0]), at([1.0, 0.0]), second=False)
    yield real("heaviside-at-0", lambda xp, y: xp.heaviside(np.array([0.0, 1.0, -1.0]), y), at([1.0, 2.0, 3.0]),
               reference=lambda xp, y: y * np.array([1, 0, 0]) + np.array([0, 1, 0]))
    yield real("ldexp", lambda xp, x: xp.ldexp(x, np.array([1, -2, 0])), normal(3),
               reference=lambda xp, x: x * np.array([2, 0.25, 1]))
    yield real("fmax-nan", lambda xp, x: xp.fmax(x, np.array([np.nan, 0.1, 9.0])), at([1.0, 2.0, 3.0]),
               reference=lambda xp, x: x * np.array([1, 1, 0]) + np.array([0, 0, 9]))
    yield real("fmin-nan", lambda xp, x: xp.fmin(np.array([np.nan, 0.1, 9.0]), x), at([1.0, 2.0, 3.0]),
               reference=lambda xp, x: x * np.array([1, 0, 1]) + np.array([0, 0.1, 0]))
    # powers
    yield case("power-integer-exponent", lambda xp, x: xp.power(x, 3), away(4))
    yield case("power-negative-exponent", lambda xp, x: xp.power(x, -2), away(4))
    yield case("power-negative-base-float-exponent", lambda xp, x: xp.power(x, 3.0), at([-1.5, 2.0, -0.5]))
    yield case("power-zero-base", lambda xp, x: xp.power(x, 2), at([0.0, 1.0, -1.0]))
    yield case("power-zero-base-cubed", lambda xp, x: x**3, at([0.0, 1.0, -1.0]))
    yield case("power-exponent-1-zero-base", lambda xp, x: x**1, at([0.0, 2.0]))
    yield case("power-exponent-0", lambda xp, x: x**0, at([0.0, 2.0, -1.0]), reference=lambda xp, x: 0 * x + 1)
    yield case("power-array-of-exponents", lambda xp, x: x ** np.array([0, 1, 2, 3]), away(4))
    yield case("power-exponent-alone", lambda xp, y: 2.0**y, normal(3))
    yield case("power-exponent-integer-base", lambda xp, y: xp.power(3, y), normal(3))
    yield real("power-zero-base-exponent", lambda xp, x, y: xp.power(x, y), at([0.0, 1.5]), at([2.0, 3.0]),
               second=False)
    yield real("power-negative-base-complex-exponent", lambda xp, y: xp.power(-2.0, y * (1 + 1j)), normal(3),
               reference=lambda xp, y: xp.exp((np.log(2) + 1j * np.pi) * (y * (1 + 1j))))
    # chosen by a mask
    yield case("where", lambda xp, x, y: xp.where(np.array([True, False, True]), x, y), normal(3), normal(3))
    yield case("where-stretched", lambda xp, x, y: xp.where(np.array([[True], [False]]), x, y), normal(3), normal(),
               reference=lambda xp, x, y: np.array([[1], [0]]) * x + np.array([[0], [1]]) * y)
    yield real("where-own-mask", lambda xp, x: xp.where(x > 0, x**2, -3 * x), away(5))
    yield case("where-python-scalar", lambda xp, x: xp.where(np.array([True, False]), x, 0.5), normal(2))
    yield case("where-list", lambda xp, x: xp.where([True, False], [1.0, 2.0], x), normal(2))
    yield real("where-masked-infinity", lambda xp, x: xp.where(x > 0, xp.log(xp.where(x > 0, x, 1.0)), x), away(5))
    yield real("clip", lambda xp, x: xp.clip(x, -0.6, 0.7), distinct(2, 3))
    yield real("clip-low", lambda xp, x: xp.clip(x, -0.6, None), distinct(5),
               reference=lambda xp, x: xp.maximum(x, -0.6))
    yield real("clip-high", lambda xp, x: xp.clip(x, None, 0.6), distinct(5),
               reference=lambda xp, x: xp.minimum(x, 0.6))
    yield real("clip-keywords", lambda xp, x: xp.clip(x, min=-0.6, max=0.7), distinct(5),
               reference=lambda xp, x: xp.clip(x, -0.6, 0.7))
    yield real("clip-array-bounds", lambda xp, x: xp.clip(x, np.array([-0.1, 0.4]), 1.1), distinct(3, 2),
               reference=lambda xp, x: xp.minimum(xp.maximum(x, np.array([-0.1, 0.4])), 1.1))
    yield real("clip-differentiated-bound", lambda xp, x, low: xp.clip(x, low, 5.0), distinct(3, 2), at([0.1, 0.4]),
               reference=lambda xp, x, low: xp.minimum(xp.maximum(x, low), 5.0))


def _value(x: Any) -> Any:
    """The array inside an autograd box."""
    while hasattr(x, "_value"):
        x = x._value
    return x


def _operators() -> Iterator[Case]:
    left = np.array([0.7, 1.2, 2.5])
    matrix = np.array([[0.5, -1.0, 2.0], [1.5, 0.3, -0.7]])
    yield case("operator+", lambda xp, x, y: x + y, normal(2, 3), normal(3))
    yield case("operator-", lambda xp, x, y: x - y, normal(2, 3), normal(3))
    yield case("operator*", lambda xp, x, y: x * y, normal(2, 3), normal(3))
    yield case("operator/", lambda xp, x, y: x / y, normal(2, 3), away(3))
    yield case("operator**", lambda xp, x, y: x**y, positive(2, 3), normal(3))
    yield real("operator%", lambda xp, x, y: x % y, distinct(2, 3), at([0.7, -0.9, 1.1]))
    yield case("operator@", lambda xp, x, y: x @ y, normal(2, 3), normal(3, 2))
    yield case("operator-unary", lambda xp, x: -(+x), normal(3), reference=lambda xp, x: -x)
    yield case("operator-abs", lambda xp, x: abs(x), away(3))
    yield case("square-operator", lambda xp, x: x**2, normal(3))
    yield case("sqrt-operator", lambda xp, x: x**0.5, positive(3))
    yield case("reflected-scalars", lambda xp, x: (2 + x) * (3 - x) * (1.5 * x) / 7 + 2 / x, away(3))
    yield case("reflected-power", lambda xp, x: 2**x + 0.5**x, normal(3))
    yield real("reflected-remainder", lambda xp, x: 7 % x, at([0.9, 2.2, -1.3]))
    yield case("reflected-complex-scalar", lambda xp, x: (1 + 2j) * x - 1j / x, away(3))
    yield case("array-on-the-left", lambda xp, x: (left + x) * (left - x) / (left * x) + left**x, positive(3))
    yield case("array@tensor", lambda xp, x: matrix @ x, normal(3), reference=lambda xp, x: xp.dot(matrix, x))
    yield case("list@tensor", lambda xp, x: matrix.tolist() @ x, normal(3), reference=lambda xp, x: xp.dot(matrix, x))
    yield case("numpy-scalar-on-the-left", lambda xp, x: np.float64(2.5) * x + np.float64(1.0) / x, away(3),
               reference=lambda xp, x: 2.5 * x + 1 / x)
    yield case("list-operand", lambda xp, x: [1.0, 2.0, 3.0] * x + [0.5, 0.5, 1.0] - x / [1, 2, 4], normal(3),
               reference=lambda xp, x: np.array([0.0, 1.5, 2.75]) * x + np.array([0.5, 0.5, 1.0]))
    yield case("rebinding", _rebinding, normal(3), reference=lambda xp, x: (3 * x / 2 + 1 - x) ** 2)
    yield case("0d-times-vector", lambda xp, a, x: a * x + a, normal(), normal(3))
    yield case("used-twice", lambda xp, x: x * xp.sin(x) + x, normal(3))


def _rebinding(xp: Any, x: Any) -> Any:
    """In-place operators rebind the name: the Tensor itself does not change."""
    y = 3 * x
    y /= 2
    y += 1
    y -= x
    y **= 2
    y *= 1.0
    return y


def _reductions() -> Iterator[Case]:
    axes = (None, 0, -1, (0, 2), (-1, 0), (1,), ())
    holes = np.array([[True, False, False], [False, True, False]])
    for name in ("sum", "mean", "prod"):
        for axis in axes:
            for keepdims in (False, True):
                yield case(
                    f"{name}-axis={axis}" + ("-keepdims" if keepdims else ""),
                    lambda xp, x, name=name, kw={"axis": axis, "keepdims": keepdims}: getattr(xp, name)(x, **kw),
                    away(2, 3, 2),
                )
        yield case(f"{name}-0d", lambda xp, x, name=name: getattr(xp, name)(x), away(), reference=lambda xp, x: 1 * x)
        yield case(f"{name}-method", lambda xp, x, name=name: getattr(x, name)(1), away(2, 3))
    yield case("nansum-axes", lambda xp, x: xp.nansum(x, axis=(0, 2), keepdims=True), normal(2, 3, 2),
               reference=lambda xp, x: xp.sum(x, axis=(0, 2), keepdims=True))
    yield case("sum-size-0", lambda xp, x: xp.sum(x, axis=0), normal(0, 3))
    yield case("sum-dtype", lambda xp, x: xp.sum(x, axis=0, dtype=np.complex128), normal(2, 3),
               reference=lambda xp, x: (1 + 0j) * xp.sum(x, axis=0))
    yield case("nansum", lambda xp, x: xp.nansum(xp.where(holes, np.nan, x), axis=0), normal(2, 3),
               reference=lambda xp, x: xp.sum(x * ~holes, axis=0))
    yield case("nanmean", lambda xp, x: xp.nanmean(xp.where(holes, np.nan, x), axis=0), normal(2, 3),
               reference=lambda xp, x: xp.sum(x * ~holes, axis=0) / np.array([1, 1, 2]))
    yield case("nanmean-keepdims", lambda xp, x: xp.nanmean(xp.where(holes, np.nan, x), keepdims=True), normal(2, 3),
               reference=lambda xp, x: xp.sum(x * ~holes, keepdims=True) / 4)
    yield case("average", lambda xp, x: xp.average(x, axis=1), normal(2, 3), reference=lambda xp, x: xp.mean(x, axis=1))
    yield case("average-weights", lambda xp, x, w: xp.average(x, weights=w), normal(2, 3), positive(2, 3),
               reference=lambda xp, x, w: xp.sum(x * w) / xp.sum(w))
    yield case("average-weights-of-an-axis", lambda xp, x, w: xp.average(x, 0, w, keepdims=True), normal(3, 2),
               positive(3),
               reference=lambda xp, x, w: xp.sum(x * xp.reshape(w, (3, 1)), axis=0, keepdims=True) / xp.sum(w))
    yield case("average-weights-of-axes", lambda xp, x, w: xp.average(x, axis=(2, 0), weights=w), normal(2, 2, 3),
               positive(3, 2), reference=lambda xp, x, w: xp.einsum("ijk,ki->j", x, w) / xp.sum(w))
    for axis in (0, 1):
        yield case(f"prod-size-0-axis={axis}", lambda xp, x, axis=axis: xp.prod(x, axis=axis), normal(0, 3))
    yield case("prod-one-zero", lambda xp, x: xp.prod(x, axis=1), at([[2.0, 0.0, 3.0], [1.0, 4.0, 5.0]]),
               reference="step")
    yield case("prod-two-zeros", lambda xp, x: xp.prod(x), at([2.0, 0.0, 3.0, 0.0]), reference="step")
    yield case("prod-many-axes-zero", lambda xp, x: xp.prod(x, axis=(2, 0)), at([[[2, 0], [3, 1]], [[1, 2], [0, 4]]]),
               reference="step")
    for name in ("var", "std"):
        for axis in (None, 0, -1, (0, 2)):
            for ddof in (0, 1):
                yield case(
                    f"{name}-axis={axis}-ddof={ddof}",
                    lambda xp, x, name=name, kw={"axis": axis, "ddof": ddof}: getattr(xp, name)(x, **kw),
                    normal(2, 3, 2),
                    reference="autograd" if axis != (0, 2) else _spread_of(name, ddof),
                )
        yield case(f"{name}-keepdims", lambda xp, x, name=name: getattr(xp, name)(x, 1, keepdims=True), normal(2, 3))
        yield case(f"{name}-method", lambda xp, x, name=name: getattr(x, name)(axis=0, ddof=1), normal(2, 3))
    yield real("std-no-spread", lambda xp, x: xp.std(x, axis=1), at([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]]), second=False,
               reference=lambda xp, x: xp.sqrt(xp.var(x[1:], axis=1)) * np.array([0, 1]))
    for name in ("max", "min", "amax", "amin"):
        for axis in axes[:-1] if len(name) == 3 else (0,):
            yield case(
                f"{name}-axis={axis}",
                lambda xp, x, name=name, axis=axis: getattr(xp, name)(x, axis=axis),
                distinct(2, 3, 2),
            )
        yield case(
            f"{name}-keepdims", lambda xp, x, name=name: getattr(xp, name)(x, axis=1, keepdims=True), distinct(2, 3)
        )
    yield case("max-0d", lambda xp, x: xp.max(x), normal(), reference=lambda xp, x: 1 * x)
    yield case("max-method", lambda xp, x: x.max(0) - x.min(0), distinct(3, 2))
    yield real("max-tie", lambda xp, x: xp.max(x), at([3.0, 1.0, 3.0]), second=False)
    yield case("ptp", lambda xp, x: xp.ptp(x, axis=1), distinct(2, 3),
               reference=lambda xp, x: xp.max(x, axis=1) - xp.min(x, axis=1))
    yield case("ptp-keepdims", lambda xp, x: xp.ptp(x, axis=0, keepdims=True), distinct(2, 3),
               reference=lambda xp, x: xp.max(x, axis=0, keepdims=True) - xp.min(x, axis=0, keepdims=True))
    for name in ("cumsum", "cumprod"):
        reference = "autograd" if name == "cumsum" else "step"
        for axis in (None, 0, 1, -2):
            yield case(f"{name}-axis={axis}", lambda xp, x, name=name, axis=axis: getattr(xp, name)(x, axis=axis),
                       away(2, 3), reference=reference)
        yield case(f"{name}-0d", lambda xp, x, name=name: getattr(xp, name)(x), away(), reference=reference)
        yield case(f"{name}-0d-axis=0", lambda xp, x, name=name: getattr(xp, name)(x, axis=0), away(), reference="step")
        yield case(f"{name}-size-0", lambda xp, x, name=name: getattr(xp, name)(x, axis=1), normal(2, 0),
                   reference=reference)
        yield case(f"{name}-method", lambda xp, x, name=name: getattr(x, name)(0), away(2, 3), reference=reference)
    yield case("cumprod-zeros", lambda xp, x: xp.cumprod(x), at([2.0, 0.0, 3.0, 0.0, 1.0]), reference="step")
    yield case("diff", lambda xp, x: xp.diff(x), normal(2, 4))
    yield case("diff-n=2-axis=0", lambda xp, x: xp.diff(x, n=2, axis=0), normal(4, 2))
    yield case("trapezoid", lambda xp, y: xp.trapezoid(y, dx=0.5), normal(2, 4),
               reference=lambda xp, y: 0.25 * xp.sum(y[:, 1:] + y[:, :-1], axis=1))
    yield case("trapezoid-places", lambda xp, y, x: xp.trapezoid(y, x, axis=0), normal(4, 2), normal(4),
               reference=lambda xp, y, x: xp.sum(xp.reshape(xp.diff(x), (3, 1)) * (y[1:] + y[:-1]) / 2, axis=0))
    yield case("trapezoid-places-2d", lambda xp, y, x: xp.trapezoid(y, x, axis=0), normal(4, 2), normal(4, 2),
               reference=lambda xp, y, x: xp.sum(xp.diff(x, axis=0) * (y[1:] + y[:-1]) / 2, axis=0))
    yield case("diff-n=0", lambda xp, x: xp.diff(x, n=0), normal(3), reference=lambda xp, x: 1 * x)
    for axis in (-1, 0, None):
        yield case(f"sort-axis={axis}", lambda xp, x, axis=axis: xp.sort(x, axis=axis), distinct(3, 3),
                   reference="step")
    yield case("sort-kind", lambda xp, x: xp.sort(x, kind="stable"), distinct(2, 3), reference="step")
    for axis in (None, 0, -1):
        yield real(f"median-axis={axis}", lambda xp, x, axis=axis: xp.median(x, axis=axis), distinct(3, 4),
                   reference=lambda xp, x, axis=axis: _middle(xp, x, axis))
    yield real("median-axes", lambda xp, x: xp.median(x, axis=(2, 0), keepdims=True), distinct(2, 2, 3),
               reference=lambda xp, x: xp.reshape(_middle(xp, xp.reshape(xp.swapaxes(x, 0, 1), (2, 6)), 1), (1, 2, 1)))
    yield real("median-keepdims", lambda xp, x: xp.median(x, keepdims=True), distinct(2, 3),
               reference=lambda xp, x: xp.reshape(_middle(xp, x, None), (1, 1)))
    # through the ufuncs' methods
    yield case("add.reduce", lambda xp, x: xp.add.reduce(x), normal(2, 3), reference=lambda xp, x: xp.sum(x, axis=0))
    yield case("add.reduce-all", lambda xp, x: xp.add.reduce(x, axis=None, keepdims=True), normal(2, 3),
               reference=lambda xp, x: xp.sum(x, keepdims=True))
    yield case("multiply.reduce", lambda xp, x: xp.multiply.reduce(x, 1), away(2, 3),
               reference=lambda xp, x: xp.prod(x, axis=1))
    yield real("maximum.reduce", lambda xp, x: xp.maximum.reduce(x) - xp.minimum.reduce(x), distinct(3, 2),
               reference=lambda xp, x: xp.max(x, axis=0) - xp.min(x, axis=0))
    yield case("add.accumulate", lambda xp, x: xp.add.accumulate(x), normal(3, 2),
               reference=lambda xp, x: xp.cumsum(x, axis=0))
    yield case("multiply.accumulate", lambda xp, x: xp.multiply.accumulate(x, axis=1), away(2, 3),
               reference=lambda xp, x: xp.stack([x[:, 0], x[:, 0] * x[:, 1], x[:, 0] * x[:, 1] * x[:, 2]], 1))
    yield case("multiply.outer", lambda xp, x, y: xp.multiply.outer(x, y), normal(2), normal(2, 2),
               reference=lambda xp, x, y: xp.reshape(x, (2, 1, 1)) * y)


def _spread_of(name: str, ddof: int) -> Callable[..., Any]:
    def formula(xp: Any, x: Any) -> Any:
        centred = x - xp.mean(xp.mean(x, axis=0, keepdims=True), axis=2, keepdims=True)
        v = xp.sum(xp.sum(xp.real(centred * xp.conj(centred)), axis=2), axis=0) / (4 - ddof)
        return xp.sqrt(v) if name == "std" else v

    return formula


def _middle(xp: Any, x: Any, axis: int | None) -> Any:
    x = xp.ravel(x) if axis is None else xp.moveaxis(x, axis, 0)
    order = np.argsort(_value(x), axis=0)
    n = len(order)
    pick = [xp.sum(x * (np.arange(n).reshape((n,) + (1,) * (x.ndim - 1)) == order[k]), axis=0)
            for k in ((n - 1) // 2, n // 2)]
    return (pick[0] + pick[1]) / 2


def _indexing() -> Iterator[Case]:
    indices: dict[str, Any] = {
        "int": 1,
        "negative": -1,
        "slice": slice(0, 2),
        "step": slice(None, None, 2),
        "reversed": slice(None, None, -1),
        "empty-slice": slice(2, 2),
        "ellipsis": (..., 0),
        "newaxis": (slice(None), None, 1),
        "full-tuple": (2, 0, 1),
        "element-of-0d": (2, 0, 1, ...),
        "list": [0, 2],
        "repeated": [1, 1, 0, 1],
        "array-2d": np.array([[0, 1], [1, 1]]),
        "two-arrays": (np.array([0, 0, 2]), np.array([1, 1, 0])),
        "arrays-apart": ([0, 2, 2], slice(None), [1, 1, 0]),
        "array-and-slice": (slice(1, None), [1, 1]),
        "mask": np.array([True, False, True]),
        "mask-full": np.arange(12).reshape(3, 2, 2) % 3 == 0,
        "mask-none": np.zeros(3, bool),
        "mask-axis-1": (slice(None), np.array([False, True])),
        "bool-scalar": True,
        "empty-list": [],
        "empty-tuple": (),
    }
    for name, index in indices.items():
        yield case(f"getitem-{name}", lambda xp, x, index=index: x[index], normal(3, 2, 2))
    yield case("getitem-0d-ellipsis", lambda xp, x: x[...], normal(), reference=lambda xp, x: 1 * x)
    yield case("getitem-0d-newaxis", lambda xp, x: x[None], normal(), reference=lambda xp, x: xp.reshape(x, 1))
    yield real("getitem-own-mask", lambda xp, x: x[x > 0], away(5))
    yield case("iteration", lambda xp, x: sum((row * k for k, row in enumerate(x)), 0 * x[0]), normal(3, 2))
    yield case("unpacking", lambda xp, x: _unpacked(x), normal(2), reference=lambda xp, x: x[0] * xp.exp(x[1]))
    yield case("take", lambda xp, x: xp.take(x, [0, 3, 3], axis=None), normal(2, 2),
               reference=lambda xp, x: x.ravel()[[0, 3, 3]])
    yield case("take-axis", lambda xp, x: xp.take(x, np.array([[1, 1], [0, 2]]), axis=1), normal(2, 3),
               reference=lambda xp, x: x[:, np.array([[1, 1], [0, 2]])])
    yield case("take-one", lambda xp, x: xp.take(x, 2), normal(4), reference=lambda xp, x: x[2])
    yield case("take-wrap", lambda xp, x: x.take([5, -1], mode="wrap"), normal(4), reference=lambda xp, x: x[[1, 3]])
    yield case("take_along_axis", lambda xp, x: xp.take_along_axis(x, np.array([[1, 1], [0, 1]]), axis=1), normal(2, 2),
               reference=lambda xp, x: x[[[0, 0], [1, 1]], [[1, 1], [0, 1]]])
    yield case("compress", lambda xp, x: xp.compress([True, False, True], x, axis=1), normal(2, 3),
               reference=lambda xp, x: x[:, [0, 2]])
    yield case("compress-flat", lambda xp, x: xp.compress(np.array([0, 1, 1]), x), normal(2, 3),
               reference=lambda xp, x: xp.ravel(x)[[1, 2]])
    yield case("delete", lambda xp, x: xp.delete(x, 1, axis=0), normal(3, 2), reference=lambda xp, x: x[[0, 2]])
    yield case("delete-flat", lambda xp, x: xp.delete(x, [0, 3]), normal(2, 3),
               reference=lambda xp, x: xp.ravel(x)[[1, 2, 4, 5]])


def _unpacked(x: Any) -> Any:
    a, b = x
    return a * np.exp(b)


def _shaping() -> Iterator[Case]:
    yield case("reshape", lambda xp, x: xp.reshape(x, (3, 2)), normal(2, 3))
    yield case("reshape-flat", lambda xp, x: xp.reshape(x, -1), normal(2, 3))
    yield case("reshape-fortran", lambda xp, x: xp.reshape(x, (3, -1), order="F"), normal(2, 3))
    yield case("reshape-method", lambda xp, x: x.reshape(3, 2) + x.reshape((3, 2)), normal(2, 3))
    yield case("reshape-method-fortran", lambda xp, x: x.reshape(3, -1, order="F"), normal(2, 3))
    yield case("reshape-size-0", lambda xp, x: xp.reshape(x, (3, 0)), normal(0, 2))
    yield case("reshape-to-0d", lambda xp, x: xp.reshape(x, ()), normal(1))
    yield case("ravel", lambda xp, x: xp.ravel(x), normal(2, 3))
    yield case("ravel-fortran", lambda xp, x: xp.ravel(x, order="F"), normal(2, 3))
    yield case("ravel-methods", lambda xp, x: x.ravel() + x.flatten() + x.ravel("F") + x.flatten("F"), normal(2, 3),
               reference=lambda xp, x: 2 * xp.ravel(x) + 2 * xp.ravel(x.T))
    yield case("squeeze", lambda xp, x: xp.squeeze(x), normal(1, 2, 1))
    yield case("squeeze-axis", lambda xp, x: xp.squeeze(x, axis=-1), normal(1, 2, 1))
    yield case("squeeze-axes", lambda xp, x: xp.squeeze(x, axis=(0, 2)), normal(1, 2, 1))
    yield case("squeeze-method", lambda xp, x: x.squeeze(0), normal(1, 2, 1))
    yield case("expand_dims", lambda xp, x: xp.expand_dims(x, 1), normal(2, 3))
    yield case("expand_dims-many", lambda xp, x: xp.expand_dims(x, (0, -1)), normal(2, 3))
    yield case("transpose", lambda xp, x: xp.transpose(x), normal(2, 3, 2))
    yield case("transpose-axes", lambda xp, x: xp.transpose(x, (1, 2, 0)), normal(2, 3, 2))
    yield case("transpose-negative", lambda xp, x: xp.transpose(x, (-2, 0, -1)), normal(2, 3, 2), reference="step")
    yield case("transpose-1d-int", lambda xp, x: xp.transpose(x, 0), normal(3), reference=lambda xp, x: 1 * x)
    yield case("transpose-0d", lambda xp, x: xp.transpose(x), normal())
    yield case("transpose-methods", lambda xp, x: x.T + x.transpose() + x.transpose(1, 0) + x.transpose((1, 0)),
               normal(2, 3), reference=lambda xp, x: 4 * x.T)
    yield case("mT", lambda xp, x: x.mT, normal(2, 3, 2), reference=lambda xp, x: xp.swapaxes(x, 1, 2))
    yield case("matrix_transpose", lambda xp, x: xp.matrix_transpose(x), normal(2, 3, 2),
               reference=lambda xp, x: xp.swapaxes(x, 1, 2))
    yield case("swapaxes", lambda xp, x: xp.swapaxes(x, 0, -1), normal(2, 3, 2))
    yield case("swapaxes-method", lambda xp, x: x.swapaxes(0, 1), normal(2, 3, 2))
    yield case("moveaxis", lambda xp, x: xp.moveaxis(x, 0, -1), normal(2, 3, 2))
    yield case("moveaxis-many", lambda xp, x: xp.moveaxis(x, (0, 1), (-1, 0)), normal(2, 3, 2))
    yield case("rollaxis", lambda xp, x: xp.rollaxis(x, 2), normal(2, 3, 2))
    yield case("rollaxis-start", lambda xp, x: xp.rollaxis(x, 0, 2), normal(2, 3, 2))
    yield case("rollaxis-negative", lambda xp, x: xp.rollaxis(x, -2, -1), normal(2, 3, 2), reference="step")
    yield case("broadcast_to", lambda xp, x: xp.broadcast_to(x, (2, 3, 2)), normal(3, 1),
               reference=lambda xp, x: x * np.ones((2, 3, 2)))
    yield case("broadcast_to-0d", lambda xp, x: xp.broadcast_to(x, (2,)), normal(),
               reference=lambda xp, x: x * np.ones(2))
    yield case("broadcast_arrays", lambda xp, x, y: xp.broadcast_arrays(x, y), normal(2, 1), normal(3),
               reference=lambda xp, x, y: (x * np.ones(3), y * np.ones((2, 1))))
    for n, shape in ((1, ()), (2, (3,)), (3, (2, 3))):
        yield case(f"atleast_{n}d", lambda xp, x, n=n: getattr(xp, f"atleast_{n}d")(x), normal(*shape))
    yield case("atleast_2d-many", lambda xp, x, y: xp.atleast_2d(x, y), normal(3), normal(),
               reference=lambda xp, x, y: (xp.atleast_2d(x), xp.atleast_2d(y)))
    # rearrangements
    yield case("roll", lambda xp, x: xp.roll(x, 1), normal(2, 3))
    yield case("roll-axis", lambda xp, x: xp.roll(x, -2, axis=1), normal(2, 3))
    yield case("roll-axes", lambda xp, x: xp.roll(x, (1, 2), axis=(0, 1)), normal(2, 3), reference="step")
    yield case("flip", lambda xp, x: xp.flip(x), normal(2, 3), reference=lambda xp, x: x[::-1, ::-1])
    yield case("flip-axis", lambda xp, x: xp.flip(x, 1), normal(2, 3), reference=lambda xp, x: x[:, ::-1])
    yield case("flip-keyword", lambda xp, x: xp.flip(m=x, axis=0), normal(2, 3), reference=lambda xp, x: x[::-1])
    yield case("fliplr-flipud", lambda xp, x: xp.fliplr(x) * xp.flipud(x), normal(2, 3))
    yield case("rot90", lambda xp, x: xp.rot90(x), normal(2, 3))
    yield case("rot90-k", lambda xp, x: xp.rot90(x, k=2, axes=(1, 0)), normal(2, 3), reference="step")
    yield case("repeat", lambda xp, x: xp.repeat(x, 2), normal(2, 2))
    yield case("repeat-axis", lambda xp, x: xp.repeat(x, 3, axis=0), normal(2, 2))
    yield case("repeat-each", lambda xp, x: x.repeat([1, 0, 2], axis=1), normal(2, 3),
               reference=lambda xp, x: x[:, [0, 2, 2]])
    yield case("tile", lambda xp, x: xp.tile(x, (2, 1, 2)), normal(2, 2))
    yield case("tile-int", lambda xp, x: xp.tile(x, 2), normal(3))
    yield case("sliding_window_view", lambda xp, x: xp.lib.stride_tricks.sliding_window_view(x, 2, axis=1),
               normal(2, 4),
               reference=lambda xp, x: xp.stack([x[:, :-1], x[:, 1:]], -1))
    yield case("full_like", lambda xp, x, y: xp.full_like(x, y) * x, normal(3), normal(),
               reference=lambda xp, x, y: y * x)
    yield case("resize", lambda xp, x: xp.resize(x, (2, 3)), normal(4),
               reference=lambda xp, x: x[[[0, 1, 2], [3, 0, 1]]])
    for mode in ("edge", "wrap", "reflect", "symmetric"):
        yield case(f"pad-{mode}", lambda xp, x, mode=mode: xp.pad(x, ((1, 2), (0, 1)), mode=mode), normal(3, 2),
                   reference="step")
    yield case("pad", lambda xp, x: xp.pad(x, 1), normal(2, 2), reference=lambda xp, x: xp.pad(x, 1, "constant"))
    for width in (2, (1, 2), ((1,), (2,)), ((0, 1), (2, 0))):
        yield case(f"pad-constant-{width}", lambda xp, x, width=width: xp.pad(x, width, constant_values=3.0),
                   normal(2, 2),
                   reference="step")
    yield case("tril", lambda xp, x: xp.tril(x), normal(3, 3))
    yield case("tril-k-stack", lambda xp, x: xp.tril(x, -1), normal(2, 2, 3))
    yield case("triu-k", lambda xp, x: xp.triu(x, 1), normal(3, 2))
    yield case("triu-1d", lambda xp, x: xp.triu(x), normal(3), reference="step")
    yield case("diag", lambda xp, x: xp.diag(x), normal(3))
    yield case("diag-k", lambda xp, x: xp.diag(x, 1) + xp.diag(x, -1), normal(2))
    yield case("diag-of-matrix", lambda xp, x: xp.diag(x, -1), normal(3, 2), reference="step")
    yield case("diagflat", lambda xp, x: xp.diagflat(x, 1), normal(2, 2),
               reference=lambda xp, x: xp.diag(xp.ravel(x), 1))
    yield case("diagonal", lambda xp, x: xp.diagonal(x), normal(3, 2), reference="step")
    yield case("diagonal-offset-axes", lambda xp, x: xp.diagonal(x, 1, 2, 0), normal(2, 2, 3), reference="step")
    yield case("diagonal-method", lambda xp, x: x.diagonal(offset=-1), normal(3, 3),
               reference=lambda xp, x: xp.diag(x, -1))
    # joining and splitting
    for axis in (0, 1, -1, None):
        yield case(f"concatenate-axis={axis}", lambda xp, x, y, axis=axis: xp.concatenate((x, y), axis=axis),
                   normal(2, 2),
                   normal(2, 2), reference="step" if axis is None else "autograd")
    yield case("concatenate-unequal", lambda xp, x, y: xp.concatenate([x, np.ones((1, 2)), y, x]), normal(2, 2),
               normal(0, 2))
    yield case("concatenate-rows-of-one", lambda xp, x: xp.concatenate(x), normal(2, 3),
               reference=lambda xp, x: xp.ravel(x))
    for axis in (0, 1, -1):
        yield case(f"stack-axis={axis}", lambda xp, x, y, axis=axis: xp.stack([x, y, np.ones(2)], axis), normal(2),
                   normal(2))
    yield case("stack-scalars", lambda xp, x, y: xp.stack([x, 2.0, y * x]), normal(), normal(),
               reference=lambda xp, x, y: xp.array([x, 2.0, y * x]))
    yield case("vstack", lambda xp, x, y: xp.vstack([x, y]), normal(2), normal(2, 2))
    yield case("hstack-1d", lambda xp, x, y: xp.hstack([x, y]), normal(2), normal(3))
    yield case("hstack-2d", lambda xp, x, y: xp.hstack([x, y]), normal(2, 1), normal(2, 2))
    yield case("dstack", lambda xp, x, y: xp.dstack([x, y]), normal(2, 2), normal(2, 2, 1), reference="step")
    yield case("column_stack", lambda xp, x, y: xp.column_stack([x, y]), normal(2), normal(2, 2))
    yield case("column_stack-scalars", lambda xp, x, y: xp.column_stack([x, y]), normal(), normal(),
               reference=lambda xp, x, y: xp.array([[x, y]]))
    yield case("append", lambda xp, x, y: xp.append(x, y), normal(2, 2), normal(3))
    yield case("append-axis", lambda xp, x, y: xp.append(x, y, axis=0), normal(2, 2), normal(1, 2))
    yield case("append-to-an-array", lambda xp, y: xp.append(np.ones(2), y), normal(3))
    yield case("split", lambda xp, x: xp.split(x, 2), normal(4, 2))
    yield case("split-places-axis", lambda xp, x: xp.split(x, [1, 3], axis=1), normal(2, 4))
    yield case("split-partly-used", lambda xp, x: xp.split(x, 3)[1], normal(6))
    yield case("array_split", lambda xp, x: xp.array_split(x, 3), normal(4, 2))
    yield case("hsplit", lambda xp, x: xp.hsplit(x, 2), normal(2, 4))
    yield case("hsplit-1d", lambda xp, x: xp.hsplit(x, [1]), normal(3), reference=lambda xp, x: (x[:1], x[1:]))
    yield case("vsplit", lambda xp, x: xp.vsplit(x, [1]), normal(3, 2))
    yield case("dsplit", lambda xp, x: xp.dsplit(x, 2), normal(1, 2, 4))
    yield case("astype-complex", lambda xp, x: x.astype(np.complex128) * 1j, normal(3))
    yield case("copy-method", lambda xp, x: x.copy() + x.conj(), normal(3), reference=lambda xp, x: x + xp.conj(x))
    yield case("real-imag-properties", lambda xp, x: x.real * x.imag, normal(3),
               reference=lambda xp, x: xp.real(x) * xp.imag(x))
    yield real("clip-method", lambda xp, x: x.clip(-0.6, 0.7), distinct(5),
               reference=lambda xp, x: xp.clip(x, -0.6, 0.7))


def _linalg() -> Iterator[Case]:
    a: tuple[int, ...]
    b: tuple[int, ...]
    axes: Any
    pairs: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 2)), ((2, 2, 3), (3,)), ((3,), (2, 3, 2)),
        ((2, 2, 3), (3, 2)), ((2, 3), (2, 3, 2)), ((2, 2, 3), (2, 3, 2)), ((2, 1, 2, 3), (1, 3, 2)), ((0, 3), (3, 2)),
    )
    for a, b in pairs:
        yield case(f"matmul-{a}@{b}", lambda xp, x, y: xp.matmul(x, y), normal(*a), normal(*b))
    for a, b in (((), (3,)), ((3,), ()), ((), ()), *(p for p in pairs if p != ((2, 1, 2, 3), (1, 3, 2)))):
        yield case(f"dot-{a}.{b}", lambda xp, x, y: xp.dot(x, y), normal(*a), normal(*b), reference=_dot)
    yield case("dot-method", lambda xp, x, y: x.dot(y), normal(2, 3), normal(3), reference=_dot)
    yield case("dot-scalar", lambda xp, x: xp.dot(x, 2.0), normal(3))
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 3), (4, 3)), ((2, 2, 3), (2, 3)), ((), (3,))):
        yield case(f"inner-{a}.{b}", lambda xp, x, y: xp.inner(x, y), normal(*a), normal(*b), reference=_inner)
    for axes in (0, 1, 2):
        yield case(f"tensordot-axes={axes}", lambda xp, x, y, axes=axes: xp.tensordot(x, y, axes),
                   normal(2, 2), normal(2, 2))
    for axes in (([0], [1]), ((0, 2), (2, 1)), ((2, 0), (1, 2)), ((-1,), (-2,)), (1, 0)):
        yield case(f"tensordot-axes={axes}", lambda xp, x, y, axes=axes: xp.tensordot(x, y, axes=axes),
                   normal(2, 3, 2), normal(3, 2, 2), reference=lambda xp, x, y, axes=axes: _tensordot(xp, x, y, axes))
    yield case("tensordot-to-a-number", lambda xp, x, y: xp.tensordot(x, y, axes=((1, 0), (0, 1))), normal(2, 3),
               normal(3, 2),
               reference=lambda xp, x, y: xp.sum(x * y.T))
    yield case("vdot", lambda xp, x, y: xp.vdot(x, y), normal(2, 3), normal(3, 2),
               reference=lambda xp, x, y: xp.dot(xp.conj(xp.ravel(x)), xp.ravel(y)))
    yield case("outer", lambda xp, x, y: xp.outer(x, y), normal(3), normal(2, 1),
               reference=lambda xp, x, y: xp.outer(x, xp.ravel(y)))
    yield case("linalg.outer", lambda xp, x, y: xp.linalg.outer(x, y), normal(3), normal(2),
               reference=lambda xp, x, y: xp.outer(x, y))
    yield case("linalg.matmul", lambda xp, x, y: xp.linalg.matmul(x, y), normal(2, 3), normal(3, 2),
               reference=lambda xp, x, y: xp.matmul(x, y))
    yield case("kron", lambda xp, x, y: xp.kron(x, y), normal(2, 2), normal(2, 1))
    yield case("kron-unequal-ndim", lambda xp, x, y: xp.kron(x, y), normal(3), normal(2, 2),
               reference=lambda xp, x, y: xp.kron(xp.reshape(x, (1, 3)), y))
    for mode in ("full", "same", "valid"):
        for n, m in ((5, 3), (4, 2), (2, 5), (3, 3), (1, 3)):
            yield case(f"convolve-{mode}-{n}*{m}", lambda xp, x, y, mode=mode: xp.convolve(x, y, mode), normal(n),
                       normal(m),
                       reference="step")
    yield case("cross", lambda xp, x, y: xp.cross(x, y), normal(2, 3), normal(3), reference="step")
    yield case("cross-axis", lambda xp, x, y: xp.cross(x, y, axis=0), normal(3, 2), normal(3, 2))
    # einsum
    for subscripts, shapes in (
        ("i,i->", ((3,), (3,))),
        ("i,i", ((3,), (3,))),
        ("ij,jk->ik", ((2, 3), (3, 2))),
        ("ij,jk", ((2, 3), (3, 2))),
        ("ba", ((2, 3),)),
        ("ij,jk->ki", ((2, 3), (3, 2))),
        ("i,j->ij", ((2,), (3,))),
        ("ij->", ((2, 3),)),
        ("ij->j", ((2, 3),)),
        ("ij->ji", ((2, 3),)),
        ("ii->", ((3, 3),)),
        ("ii", ((3, 3),)),
        ("ii->i", ((3, 3),)),
        ("iij->j", ((2, 2, 3),)),
        ("iji->ij", ((2, 3, 2),)),
        ("iii->i", ((2, 2, 2),)),
        ("ii,i->i", ((3, 3), (3,))),
        ("ii,jj->", ((2, 2), (3, 3))),
        ("ij,k->i", ((2, 3), (2,))),
        ("ij,jk,kl->il", ((2, 2), (2, 3), (3, 2))),
        ("i,ij,j->", ((2,), (2, 3), (3,))),
        ("ij,ij,ij->i", ((2, 3), (2, 3), (2, 3))),
        ("...ij,...jk->...ik", ((2, 2, 3), (2, 3, 2))),
        ("...ij,...jk", ((2, 2, 3), (3, 2))),
        ("...i,...i->...", ((2, 3), (3,))),
        ("i...->...", ((2, 3, 2),)),
        ("...ii->...i", ((2, 3, 3),)),
        ("ij,ij->ij", ((1, 3), (2, 3))),
        ("ij,ij->", ((2, 1), (2, 3))),
        ("...i,...i->...i", ((1, 3), (2, 3))),
        ("ij,j->i", ((2, 3), (1,))),
        ("ij,jk->ik", ((2, 1), (3, 2))),
        ("ii,i->", ((3, 3), (1,))),
        ("ij,ij->ij", ((0, 3), (0, 3))),
        ("ij,ij->j", ((0, 3), (1, 3))),
        (" i j , j -> i ", ((2, 3), (3,))),
        (",i->i", ((), (3,))),
        ("Ab,bC->AC", ((2, 3), (3, 2))),
        ("bA", ((2, 3),)),
    ):
        yield case(
            f"einsum-{subscripts.replace(' ', '_')}-{','.join(map(str, shapes))}",
            lambda xp, *xs, subscripts=subscripts: xp.einsum(subscripts, *xs),
            *(normal(*s) for s in shapes),
            reference="step" if re.search(r"([a-z])[a-z]*\1", subscripts.split("->")[0]) else "autograd",
        )
    yield case("einsum-lists", lambda xp, x, y: xp.einsum(x, [0, 1], y, [1, 2], [2, 0]), normal(2, 3), normal(3, 2),
               reference=lambda xp, x, y: xp.dot(x, y).T)
    yield case("einsum-lists-implicit", lambda xp, x, y: xp.einsum(x, [0, 1], y, [1, 2]), normal(2, 3), normal(3, 2),
               reference=lambda xp, x, y: xp.dot(x, y))
    yield case("einsum-lists-implicit-large", lambda xp, x: xp.einsum(x, [26, 1]), normal(2, 3), reference="step")
    yield case("einsum-lists-ellipsis", lambda xp, x: xp.einsum(x, [..., 0, 0], [..., 0]), normal(2, 3, 3),
               reference="step")
    yield case("einsum-constant-operand", lambda xp, x: xp.einsum("ij,jk->ik", [[1.0, 2.0]], x), normal(2, 3),
               reference=lambda xp, x: xp.dot(np.array([[1.0, 2.0]]), x))
    yield case("einsum-optimize", lambda xp, x, y, z: xp.einsum("ij,jk,kl->il", x, y, z, optimize=True), normal(2, 3),
               normal(3, 2), normal(2, 3), reference=lambda xp, x, y, z: xp.dot(xp.dot(x, y), z))
    yield case("einsum-optimize-summed-ellipsis", lambda xp, x: xp.einsum("i...->i", x, optimize=True), normal(2, 3),
               reference=lambda xp, x: xp.sum(x, axis=1))
    yield case("einsum-one-operand-twice", lambda xp, x: xp.einsum("ij,kj->ik", x, x), normal(2, 3))
    # traces and norms
    yield case("trace", lambda xp, x: xp.trace(x), normal(3, 2))
    yield case("trace-offset", lambda xp, x: xp.trace(x, 1), normal(3, 3))
    yield case("trace-axes", lambda xp, x: xp.trace(x, -1, 0, 2), normal(3, 2, 3), reference="step")
    yield case("trace-method", lambda xp, x: x.trace(axis1=-1, axis2=0), normal(2, 2, 3), reference="step")
    yield case("norm", lambda xp, x: xp.linalg.norm(x), normal(4))
    yield case("norm-of-a-stack", lambda xp, x: xp.linalg.norm(x), normal(2, 2, 2),
               reference=lambda xp, x: _norm(xp, x, 2))
    yield case("norm-0d", lambda xp, x: xp.linalg.norm(x), away(), reference=lambda xp, x: xp.abs(x))
    for order in (None, 1, 2, 3, 2.5, -1, -2, 0.5):
        p = 2 if order is None else order
        yield case(f"norm-ord={order}", lambda xp, x, order=order: xp.linalg.norm(x, order), away(4),
                   reference=lambda xp, x, p=p: _norm(xp, x, p))
        yield case(
            f"norm-ord={order}-axis",
            lambda xp, x, order=order: xp.linalg.norm(x, order, axis=-1),
            away(2, 3),
            reference=lambda xp, x, p=p: _norm(xp, x, p, axis=-1),
        )
    yield case("norm-axis-keepdims", lambda xp, x: xp.linalg.norm(x, axis=0, keepdims=True), normal(3, 2),
               reference=lambda xp, x: _norm(xp, x, 2, axis=0, keepdims=True))
    yield case("norm-all-keepdims", lambda xp, x: xp.linalg.norm(x, keepdims=True), normal(3, 2),
               reference=lambda xp, x: _norm(xp, x, 2, keepdims=True))
    yield case("norm-axis-numpy-int", lambda xp, x: xp.linalg.norm(x, axis=np.int64(1)), normal(2, 3),
               reference=lambda xp, x: _norm(xp, x, 2, axis=1))
    yield case("norm-axes", lambda xp, x: xp.linalg.norm(x, axis=(0, -1)), normal(2, 2, 3), reference=_frobenius)
    yield case("norm-fro", lambda xp, x: xp.linalg.norm(x, "fro"), normal(2, 3),
               reference=lambda xp, x: _norm(xp, x, 2))
    yield case("norm-f", lambda xp, x: xp.linalg.norm(x, "f"), normal(2, 3), reference=lambda xp, x: _norm(xp, x, 2))
    yield case("norm-fro-axes", lambda xp, x: xp.linalg.norm(x, "fro", axis=(2, 0)), normal(2, 2, 3),
               reference=_frobenius)
    for order in (np.inf, -np.inf):
        pick = "max" if order > 0 else "min"
        yield case(f"norm-ord={order}", lambda xp, x, order=order: xp.linalg.norm(x, order), uneven(4),
                   reference=lambda xp, x, pick=pick: getattr(xp, pick)(xp.abs(x)))
    for order in (1, -1, np.inf, -np.inf):
        yield case(
            f"norm-matrix-ord={order}",
            lambda xp, x, order=order: xp.linalg.norm(x, order),
            uneven(3, 2),
            reference=lambda xp, x, order=order: _matrix_norm(xp, x, order),
        )
        yield case(
            f"norm-matrix-ord={order}-axes-keepdims",
            lambda xp, x, order=order: xp.linalg.norm(x, order, axis=(1, 2), keepdims=True),
            uneven(2, 3, 2),
            reference=lambda xp, x, order=order: xp.stack([_matrix_norm(xp, m, order) for m in x]).reshape((2, 1, 1)),
        )
    yield case("norm-ord=inf-axis", lambda xp, x: xp.linalg.norm(x, np.inf, axis=0, keepdims=True), uneven(3, 2),
               reference=lambda xp, x: xp.max(xp.abs(x), axis=0, keepdims=True))
    yield real("norm-of-zeros", lambda xp, x: xp.linalg.norm(x, axis=1), at([[0.0, 0.0], [3.0, 4.0]]), second=False,
               reference=lambda xp, x: xp.sqrt(xp.sum(x[1] ** 2)) * np.array([0, 1]))
    yield real("norm-ord=3-of-zeros", lambda xp, x: xp.linalg.norm(x, 3, axis=1), at([[0.0, 0.0], [3.0, 0.0]]),
               second=False,
               reference=lambda xp, x: xp.sum(xp.abs(x[1]) ** 3) ** (1 / 3) * np.array([0, 1]))
    # systems
    for shape in ((1, 1), (3, 3), (2, 2, 2)):
        yield case(f"inv-{shape}", lambda xp, x: xp.linalg.inv(x), regular(*shape))
        yield case(f"det-{shape}", lambda xp, x: xp.linalg.det(x), regular(*shape))
        yield case(f"cholesky-{shape}", lambda xp, x: xp.linalg.cholesky(x), definite(*shape), reference=_cholesky)
        yield case(f"cholesky-upper-{shape}", lambda xp, x: xp.linalg.cholesky(x, upper=True), definite(*shape),
                   reference=lambda xp, x: _H(xp, _cholesky(xp, _H(xp, x))))
        yield case(f"slogdet-{shape}", lambda xp, x: xp.linalg.slogdet(x), regular(*shape), reference=_slogdet)
    yield case("slogdet-fields", lambda xp, x: xp.linalg.slogdet(x).logabsdet * 2, regular(2, 2),
               reference=lambda xp, x: 2 * _slogdet(xp, x)[1])
    yield case("slogdet-negative", lambda xp, x: xp.linalg.slogdet(x)[1], at([[1.0, 2.0], [3.0, 0.5]]),
               reference=lambda xp, x: _slogdet(xp, x)[1])
    # det at singular matrices has a derivative all the same: the cofactors
    for name, matrix in {
        "rank-2": [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]],
        "rank-2-rounded": [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]],
        "rank-1": [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [-1.0, -2.0, -3.0]],
        "zero": [[0.0, 0.0], [0.0, 0.0]],
        "1x1-zero": [[0.0]],
        "one-of-a-stack": [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 5.0]]],
    }.items():
        yield case(f"det-singular-{name}", lambda xp, x: xp.linalg.det(x), at(matrix), reference=_leibniz)
    yield case("det-ill-conditioned", lambda xp, x: xp.linalg.det(x),
               at([[1.0 + 1e-9, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]), reference=_leibniz)
    for a, b in (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 2, 2), (2,)), ((2, 2, 2), (2, 2, 1)), ((2, 2), (3, 2, 2)),
                 ((2, 2, 2), (2, 2)), ((3, 1, 2, 2), (2, 2, 1))):
        yield case(f"solve-{a}-{b}", lambda xp, x, y: xp.linalg.solve(x, y), regular(*a), normal(*b), reference=_solve)
    yield case("solve-own-right-side", lambda xp, x: xp.linalg.solve(x, x @ x), regular(2, 2),
               reference=lambda xp, x: 1 * x)


def _H(xp: Any, x: Any) -> Any:
    return xp.conj(xp.swapaxes(x, -1, -2))


def _dot(xp: Any, x: Any, y: Any) -> Any:
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return _inner(xp, x, y if y.ndim == 1 else xp.swapaxes(y, -1, -2))


def _inner(xp: Any, x: Any, y: Any) -> Any:
    """Elementwise product and sum over the last axes."""
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return xp.sum(xp.reshape(x, x.shape[:-1] + (1,) * (y.ndim - 1) + x.shape[-1:]) * y, axis=-1)


def _tensordot(xp: Any, x: Any, y: Any, axes: Any) -> Any:
    left, right = (tuple(a) if np.iterable(a) else (a,) for a in axes)
    x = xp.moveaxis(x, left, tuple(range(-len(left), 0)))
    y = xp.moveaxis(y, right, tuple(range(-len(right), 0)))
    x, y = (xp.reshape(z, (*z.shape[: z.ndim - len(left)], -1)) for z in (x, y))
    return _inner(xp, x, y)


def _norm(xp: Any, x: Any, p: float, **where: Any) -> Any:
    return xp.sum(xp.abs(x) ** p, **where) ** (1 / p)


def _frobenius(xp: Any, x: Any) -> Any:
    return xp.sqrt(xp.sum(xp.sum(xp.abs(x) ** 2, axis=2), axis=0))


def _matrix_norm(xp: Any, x: Any, order: float) -> Any:
    sums = xp.sum(xp.abs(x), axis=0 if abs(order) == 1 else 1)
    return xp.max(sums) if order > 0 else xp.min(sums)


def _leibniz(xp: Any, x: Any) -> Any:
    """det by expansion along the first row."""
    n = x.shape[-1]
    if n == 1:
        return x[..., 0, 0]
    others = [[k for k in range(n) if k != j] for j in range(n)]
    return sum((-1) ** j * x[..., 0, j] * _leibniz(xp, x[..., 1:, :][..., others[j]]) for j in range(n))


def _slogdet(xp: Any, x: Any) -> Any:
    d = _leibniz(xp, x)
    return d / xp.abs(d), xp.log(xp.abs(d))


def _cholesky(xp: Any, a: Any) -> Any:
    """The textbook recursion, which reads the lower triangle alone."""
    n = a.shape[-1]
    rows: list[list[Any]] = []
    for i in range(n):
        row: list[Any] = []
        for j in range(i + 1):
            rest = a[..., i, j] - sum(p * xp.conj(q) for p, q in zip(row, (rows[j] if j < i else row), strict=False))
            row.append(xp.sqrt(xp.real(rest)) + 0 * rest if i == j else rest / rows[j][j])
        rows.append(row)
    zero = 0 * a[..., 0, 0]
    return xp.stack([xp.stack(row + [zero] * (n - len(row)), -1) for row in rows], -2)


def _solve(xp: Any, a: Any, b: Any) -> Any:
    """By the inverse, written as cofactors over the determinant."""
    n = a.shape[-1]
    keep = [[k for k in range(n) if k != i] for i in range(n)]
    cofactors = [
        [(-1) ** (i + j) * _leibniz(xp, a[..., keep[j], :][..., keep[i]]) for j in range(n)] for i in range(n)
    ]
    inverse = xp.stack([xp.stack(row, -1) for row in cofactors], -2) / xp.reshape(_leibniz(xp, a),
               (*a.shape[:-2], 1, 1))
    return xp.matmul(inverse, b)


CASES: tuple[Case, ...] = (
    *_unary(), *_binary(), *_operators(), *_reductions(), *_indexing(), *_shaping(), *_linalg(),
)
# fmt: on
