"""The fast mode: random projections of the Jacobian instead of the Jacobian.

With random signs u (an element for each of the input) and v (for each of the output), a right gradient satisfies

    v . (f(x + h u) - f(x - h u)) / (2 h)  =  (J^T v) . u,    h = eps / |u|

for two runs of func and one of its backward, whatever the sizes. Signs, and not positive numbers, so that the sum does
not outgrow the share of one column. Several such pairs are drawn, from a generator that can be seeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .engines.base import Array, Evaluator, Linearization, Pushforward
from .errors import GradcheckError
from .jacobians import Key, Template, parts_of

__all__ = ["PROJECTIONS", "Projected", "project", "random_rows"]

PROJECTIONS = 4  # pairs of directions for each input


@dataclass(frozen=True)
class Projected:
    """``analytical[r] = (J^T v_r) . u_r`` and its numerical counterpart, both of shape (PROJECTIONS, 1).

    ``shares[r, j]`` is what column j contributes to the r-th sum, where reverse mode gives it; else None.
    """

    analytical: dict[Key, Array]
    numerical: dict[Key, Array]
    shares: dict[Key, Array | None]


def project(
    evaluator: Evaluator,
    linearization: Linearization | None,
    pushforward: Pushforward | None,
    inputs: Sequence[Template],
    outputs: Sequence[Template],
    eps: float,
    rng: np.random.Generator,
) -> Projected:
    """Draw directions, measure along them, and pull or push the same directions analytically.

    Exactly one of `linearization` and `pushforward` is used, the former if both are given. The caller restores the
    buffers if `func` raises.
    """
    kept = [k for k, o in enumerate(outputs) if o.is_inexact]
    keys = [(k, i, part) for k in kept for i in range(len(inputs)) for part in parts_of(outputs[k])]
    analytical, numerical = ({key: np.zeros((PROJECTIONS, 1)) for key in keys} for _ in "an")
    shares: dict[Key, Array | None] = {
        (k, i, part): np.zeros((PROJECTIONS, inputs[i].size)) if linearization is not None else None
        for k, i, part in keys
    }
    for r in range(PROJECTIONS):
        weights = {(k, part): _signs(rng, outputs[k].shape) for k in kept for part in parts_of(outputs[k])}
        directions = [_signs(rng, x.shape, x.is_complex) for x in inputs]
        if evaluator.positions:  # a sparse input moves along its specified elements only
            directions = [_masked(u, p) for u, p in zip(directions, evaluator.positions, strict=True)]
        for i in range(len(inputs)):
            slopes = _slope(evaluator, i, directions[i], eps, kept)
            tangents = None if linearization is not None or pushforward is None else pushforward.push(
                {i: directions[i].astype(inputs[i].dtype)}
            )  # fmt: skip
            for k in kept:
                for part in parts_of(outputs[k]):
                    v = weights[k, part]
                    numerical[k, i, part][r] = _dot(v, slopes[k], part)
                    tangent = tangents[k] if tangents is not None else None
                    if tangent is not None:
                        analytical[k, i, part][r] = _dot(v, tangent, part)
        for k in kept if linearization is not None else ():
            for part in parts_of(outputs[k]):
                if linearization is None or not linearization.differentiable[k]:
                    continue
                cotangent = np.asarray(weights[k, part] * (1j if part == "imag" else 1), outputs[k].dtype)
                for i, g in enumerate(linearization.pullback({k: cotangent})):
                    if g is not None:
                        each = np.real(np.conj(g) * directions[i]).reshape(-1)
                        share = shares[k, i, part]
                        assert share is not None
                        share[r] = each
                        analytical[k, i, part][r] = each.sum()
    return Projected(analytical, numerical, shares)


def _slope(evaluator: Evaluator, i: int, u: Array, eps: float, kept: Sequence[int]) -> dict[int, Array]:
    """Central difference of all outputs along the direction `u` of input i.

    The whole step has length eps, so that it stays as near to the point as that of a single element does.
    """
    buffer = evaluator.buffers[i]
    original = buffer.copy()
    places = evaluator.positions[i] if evaluator.positions else None
    length = float(np.linalg.norm(u)) or 1.0
    unit = (u if places is None else u.reshape(-1)[places].reshape(buffer.shape)) / length
    step = (eps * unit).astype(buffer.dtype)
    try:
        buffer[...] = original - step
        values = evaluator.run()
        low = {k: values[k].copy() for k in kept}
        buffer[...] = original + step
        high = evaluator.run()
        with np.errstate(all="ignore"):
            return {k: (high[k].astype(_wide(high[k])) - low[k]) * (length / (2 * eps)) for k in kept}
    finally:
        buffer[...] = original


def _wide(x: Array) -> np.dtype[np.generic]:
    return np.promote_types(x.dtype, np.complex128 if x.dtype.kind == "c" else np.float64)


def _signs(rng: np.random.Generator, shape: tuple[int, ...], is_complex: bool = False) -> Array:
    signs = rng.integers(0, 2, shape) * 2.0 - 1.0
    return np.asarray(signs + 1j * (rng.integers(0, 2, shape) * 2.0 - 1.0) if is_complex else signs)


def _masked(u: Array, places: Array | None) -> Array:
    if places is None:
        return u
    keep = np.zeros(u.size, bool)
    keep[places] = True
    return np.where(keep.reshape(u.shape), u, 0)


def _dot(v: Array, slope: Array, part: str) -> float:
    return float(np.sum(v * (slope.imag if part == "imag" else slope.real)))


def random_rows(
    linearization: Linearization, inputs: Sequence[Template], outputs: Sequence[Template]
) -> dict[Key, Array]:
    """``J^T v`` for one v of random signs for each output, the same at each call: does backward repeat itself?

    Raises
    ------
    GradcheckError
        If a gradient has not the shape of its input.
    """
    rng = np.random.default_rng(0)
    rows: dict[Key, Array] = {}
    for k, o in enumerate(outputs):
        if o.is_inexact and linearization.differentiable[k]:
            cotangent = np.asarray(_signs(rng, o.shape, o.is_complex), o.dtype)
            for i, (x, g) in enumerate(zip(inputs, linearization.pullback({k: cotangent}), strict=True)):
                if g is not None and g.shape != x.shape:
                    raise GradcheckError(
                        f"Analytical gradient has incorrect size: {g.shape} for {x.name}, whose shape is {x.shape}"
                    )
                rows[k, i, ""] = np.zeros(x.shape) if g is None else g.copy()
    return rows
