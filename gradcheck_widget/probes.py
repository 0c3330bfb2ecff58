"""The side checks: what a right Jacobian does not show. Each gives one `Check`, one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .engines.base import Array, Linearization
from .jacobians import Key, Template, element_name

__all__ = ["Check", "gradient_dtypes", "input_untouched", "reentrant", "scaled_by_grad_output", "undefined_grads"]


@dataclass(frozen=True)
class Check:
    """One side check. `message` says what was found, in a line."""

    name: str
    passed: bool
    message: str


def input_untouched(modified: str | None) -> Check:
    name = "input untouched"
    if modified is None:
        return Check(name, True, "func leaves its inputs as they were")
    return Check(
        name,
        False,
        f"func changed {modified} in place: its derivative belongs to values that no longer exist, and the caller's "
        "data is lost. Work on a copy (x = x.copy()), or write x = x - ... instead of x -= ... "
        "(the original values have been restored)",
    )


def reentrant(first: dict[Key, Array], second: dict[Key, Array], nondet_tol: float) -> Check:
    """The analytical Jacobian twice on identical inputs: both must agree within `nondet_tol`, NaN with NaN."""
    name = "backward is deterministic"
    spread = 0.0
    for key, a in first.items():
        b = second[key]
        with np.errstate(all="ignore"):
            differs = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, abs(a - b))
        spread = max(spread, float(np.where(np.isnan(differs), np.inf, differs).max(initial=0.0)))
    if spread <= nondet_tol:
        return Check(name, True, "two runs agree exactly" if spread == 0 else f"two runs agree within {spread:.3g}")
    return Check(
        name,
        False,
        "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
        f"different values. The largest difference is {spread:.6g}, the tolerance for nondeterminism was {nondet_tol:g}"
        + (f": nondet_tol={spread * 2:.1g} would accept it" if np.isfinite(spread) else ""),
    )


def scaled_by_grad_output(
    linearization: Linearization, inputs: Sequence[Template], outputs: Sequence[Template]
) -> Check:
    """A zero cotangent must give a zero gradient, since backward is linear in it."""
    name = "backward scales with grad_output"
    zeros = {k: np.zeros(outputs[k].shape, outputs[k].dtype) for k in _carried(linearization)}
    for x, g in zip(inputs, linearization.pullback(zeros), strict=True):
        if g is not None and not (g == 0).all():
            first = int(np.flatnonzero(g != 0)[0])
            worst = g.reshape(-1)[first]
            return Check(
                name,
                False,
                f"backward not multiplied by grad_output: a zero grad_output gives the gradient {worst:.6g} for "
                f"{element_name(x.name, x.shape, first)}"
                + (" (0 times infinity: mask it where grad_output is 0)" if np.isnan(worst) else "")
                + ". Backward must multiply by grad_output",
            )
    return Check(name, True, "a zero grad_output gives a zero gradient")


def gradient_dtypes(linearization: Linearization, inputs: Sequence[Template], outputs: Sequence[Template]) -> Check:
    name = "gradient dtypes"
    ones = {k: np.ones(outputs[k].shape, outputs[k].dtype) for k in _carried(linearization)}
    for x, g in zip(inputs, linearization.pullback(ones), strict=True):
        if g is not None and g.dtype != x.dtype:
            return Check(name, False, f"Backward gives a gradient of dtype {g.dtype} for {x.name}, which is {x.dtype}")
    return Check(name, True, "each gradient has the dtype of its input")


def undefined_grads(linearization: Linearization, inputs: Sequence[Template], outputs: Sequence[Template]) -> Check:
    """Undefined (None) cotangents count as zeros: all outputs at once, then each in turn beside ones."""
    name = "undefined grad_outputs"
    carried = _carried(linearization)
    trials: list[tuple[str, list[int]]] = [("all outputs", carried)]
    if len(carried) > 1:
        trials += [(f"output {k}", [k]) for k in carried]

    def pull(undefined: list[int], value: Callable[[int], Array | None]) -> list[Array | None]:
        # each cotangent is a new array, since backward may write into it
        ones = {k: np.ones(outputs[k].shape, outputs[k].dtype) for k in carried if k not in undefined}
        return linearization.pullback({**ones, **{k: value(k) for k in undefined}})

    for where, undefined in trials:
        try:
            got = pull(undefined, lambda k: None)
        except Exception as error:
            return Check(
                name,
                False,
                f"Expected backward function to handle undefined output grads: with grad_output None for {where} it "
                f"raised {type(error).__name__}: {error}. Treat None as zeros",
            )
        zeroed = pull(undefined, lambda k: np.zeros(outputs[k].shape, outputs[k].dtype))
        for x, g, want in zip(inputs, got, zeroed, strict=True):
            if not _equal(g, want):
                return Check(
                    name,
                    False,
                    "Expected all input grads to be undefined or zero when all output grads are undefined or zero"
                    f": {x.name} differs when grad_output is None for {where}"
                    if len(undefined) == len(carried)
                    else f"None as grad_output of {where} gives another gradient for {x.name} than zeros do",
                )
    return Check(name, True, "None as grad_output counts as zeros")


def _carried(linearization: Linearization) -> list[int]:
    return [k for k, d in enumerate(linearization.differentiable) if d]


def _equal(g: Array | None, want: Array | None) -> bool:
    if g is None or want is None:
        return all(a is None or bool((a == 0).all()) for a in (g, want))
    return bool(np.allclose(g, want, rtol=1e-10, atol=0.0, equal_nan=True))
