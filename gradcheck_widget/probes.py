"""The side checks: what a right Jacobian does not show. Each gives one `Check`, one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .engines.base import Array, Linearization, Pushforward
from .jacobians import Key, Template, element_name

__all__ = [
    "Check",
    "batched_forward_grad",
    "batched_grad",
    "forward_dtypes",
    "gradient_dtypes",
    "input_untouched",
    "reentrant",
    "scaled_by_grad_output",
    "undefined_grads",
    "undefined_tangents",
]


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


def batched_grad(linearization: Linearization, inputs: Sequence[Template], outputs: Sequence[Template]) -> Check:
    """Two random cotangents at once must give what they give one after the other."""
    name = "batched gradient"
    rng = np.random.default_rng(0)
    if linearization.batched is None:
        raise NotImplementedError("check_batched_grad=True needs an engine with a batched pullback")
    for k in _carried(linearization):
        cotangents = _random(rng, (2, *outputs[k].shape), outputs[k].dtype)
        single = [linearization.pullback({k: g.copy()}) for g in cotangents]
        try:
            together = linearization.batched(k, cotangents)
        except (RuntimeError, NotImplementedError) as error:
            return Check(name, False, f"While computing batched gradients, got: {error}")
        for i, (x, got) in enumerate(zip(inputs, together, strict=True)):
            want = [np.zeros(x.shape, x.dtype) if g[i] is None else g[i] for g in single]
            got = np.zeros((2, *x.shape), x.dtype) if got is None else got
            if not _close(got, np.stack([np.asarray(w) for w in want])):
                return Check(
                    name,
                    False,
                    f"For output {k} and input {i}: the batched gradient of {outputs[k].name} with respect to {x.name} "
                    f"differs from that of one cotangent at a time. {_largest(got, want)}",
                )
    return Check(name, True, "two cotangents at once give what they give one by one")


def batched_forward_grad(pushforward: Pushforward, inputs: Sequence[Template], outputs: Sequence[Template]) -> Check:
    """Two random tangents at once must give what they give one after the other."""
    name = "batched forward gradient"
    rng = np.random.default_rng(0)
    if pushforward.batched is None:
        raise NotImplementedError("check_batched_forward_grad=True needs an engine with a batched pushforward")
    for i, x in enumerate(inputs):
        tangents = _random(rng, (2, *x.shape), x.dtype)
        single = [pushforward.push({i: t.copy()}) for t in tangents]
        try:
            together = pushforward.batched(i, tangents)
        except (RuntimeError, NotImplementedError) as error:
            return Check(name, False, f"While computing batched gradients, got: {error}")
        for k, (o, got) in enumerate(zip(outputs, together, strict=True)):
            if not o.is_inexact:
                continue
            want = [np.zeros(o.shape, o.dtype) if t[k] is None else t[k] for t in single]
            got = np.zeros((2, *o.shape), o.dtype) if got is None else np.broadcast_to(got, (2, *o.shape))
            if not _close(got, np.stack([np.asarray(w) for w in want])):
                return Check(
                    name,
                    False,
                    f"For output {k} and input {i}: the batched tangent of {o.name} along {x.name} differs from that "
                    f"of one tangent at a time. {_largest(got, want)}",
                )
    return Check(name, True, "two tangents at once give what they give one by one")


def undefined_tangents(pushforward: Pushforward, inputs: Sequence[Template], outputs: Sequence[Template]) -> Check:
    """An input without a tangent counts as one whose tangent is zero."""
    name = "undefined tangents"
    rng = np.random.default_rng(0)
    for i, x in enumerate(inputs):
        others = {n: _random(rng, t.shape, t.dtype) for n, t in enumerate(inputs) if n != i}
        undefined = pushforward.push(others)
        zero = pushforward.push({**others, i: np.zeros(x.shape, x.dtype)})
        for o, a, b in zip(outputs, undefined, zero, strict=True):
            if o.is_inexact and not (_close(a, b) if a is not None and b is not None else _equal(a, b)):
                return Check(
                    name, False, f"Mismatch in tangent values for {o.name} when {x.name} has an undefined tangent"
                )
    return Check(name, True, "an input without a tangent counts as one with zeros")


def forward_dtypes(pushforward: Pushforward, inputs: Sequence[Template], outputs: Sequence[Template]) -> Check:
    name = "tangent dtypes"
    found = pushforward.push({i: np.ones(x.shape, x.dtype) for i, x in enumerate(inputs)})
    for o, t in zip(outputs, found, strict=True):
        if t is not None and o.is_inexact and t.dtype != o.dtype:
            return Check(
                name, False, f"Forward AD gradient has dtype mismatch: {t.dtype} for {o.name}, which is {o.dtype}"
            )
    return Check(name, True, "each tangent has the dtype of its output")


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    values = rng.standard_normal(shape)
    return np.asarray(values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values).astype(dtype)


def _close(a: Array, b: Array) -> bool:
    """Up to rounding, as ``torch.allclose`` has it by default."""
    return bool(np.allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=True))


def _largest(got: Array, want: Sequence[Array | None]) -> str:
    with np.errstate(all="ignore"):
        return f"The largest difference is {np.nanmax(abs(got - np.stack([np.asarray(w) for w in want]))):.6g}"


def _carried(linearization: Linearization) -> list[int]:
    return [k for k, d in enumerate(linearization.differentiable) if d]


def _equal(g: Array | None, want: Array | None) -> bool:
    if g is None or want is None:
        return all(a is None or bool((a == 0).all()) for a in (g, want))
    return bool(np.allclose(g, want, rtol=1e-10, atol=0.0, equal_nan=True))
