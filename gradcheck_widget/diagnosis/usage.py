"""Exceptions that a check raises before there is a report: what they say about the cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..findings import Finding
from ..measurement import Measurement, as_tuple

__all__ = ["attach", "explain"]

DOMAIN = (ValueError, ArithmeticError, np.linalg.LinAlgError)


def explain(error: BaseException, inputs: Any, measurement: Measurement | None) -> tuple[Finding, ...]:
    """Findings for an exception of a check; () if it says nothing about derivatives.

    `measurement` is None if the inputs themselves were refused.
    """
    text = str(error)
    notes = " ".join(getattr(error, "__notes__", ()))
    if measurement is None:
        return _refused(text, inputs)
    if "pulling back" in notes:
        return _in_backward(text, error, measurement)
    if "evaluating func at x" in notes and isinstance(error, DOMAIN):
        return (
            Finding(
                "domain-edge",
                "likely",
                f"func works at x and raises {type(error).__name__} one step away: {_short(text)}",
                "Check at points further than eps from the edge of the domain, or use a smaller eps",
            ),
        )
    return ()


def _refused(text: str, inputs: Any) -> tuple[Finding, ...]:
    if "at least one input tensor to require gradient" in text:
        kinds = [str(getattr(x, "dtype", type(x).__name__)) for x in _leaves(inputs)]
        integers = [k for k in kinds if "int" in k or k == "bool"]
        floats = [k for k in kinds if any(name in k for name in ("float", "complex")) and k not in ("float", "complex")]
        if integers and not floats:
            return (
                Finding(
                    "integer-input",
                    "certain",
                    f"the inputs are {', '.join(dict.fromkeys(kinds))}: integers cannot move by eps",
                    "Pass floating point values (x.astype(float), x.double()), if the function is meant for them",
                ),
            )
        return (
            Finding(
                "no-input-requires-grad",
                "certain",
                f"none of the inputs ({', '.join(dict.fromkeys(kinds)) or 'none'}) requires a gradient",
                "Call x.requires_grad_() on what is to be checked, after copies and conversions: detach(), "
                "clone() of a "
                "detached tensor and .to() of data give tensors without it",
            ),
        )
    if "share memory" in text or "stride 0" in text:
        return (Finding("overlapping-memory", "certain", _short(text), "Pass a copy: x.copy(), x.clone()"),)
    return ()


def _in_backward(text: str, error: BaseException, measurement: Measurement) -> tuple[Finding, ...]:
    lower = text.lower()
    if _works_with_zeros(measurement):
        return (
            Finding(
                "undefined-grad",
                "certain",
                f"backward raises {type(error).__name__} ({_short(text)}) when the gradient of one output is "
                "given alone, "
                "and works when those of the others are zeros",
                "Treat a grad_output of None as zeros: skip its term, or leave ctx.set_materialize_grads at True",
            ),
        )
    if "inplace operation" in lower or "in-place" in lower:
        return (
            Finding(
                "inplace-modification",
                "certain",
                _short(text),
                "Do not write into tensors that backward needs: y = y * 3 instead of y *= 3, or save a clone",
            ),
        )
    if "shape" in lower or "size" in lower or "broadcast" in lower:
        returned = "invalid gradient" in lower or "bwd" in lower or "gradient" in lower
        return (
            Finding(
                "wrong-shape",
                "certain" if returned else "likely",
                _short(text),
                "Backward must give each input a gradient of that input's shape: transpose it, or sum over the axes "
                "along which the input was broadcast",
            ),
        )
    if "dtype" in lower:
        return (Finding("wrong-dtype", "likely", _short(text), "Give each gradient the dtype of its input"),)
    if "does not require grad" in lower:
        return (Finding("detached", "likely", _short(text), "Keep the graph: no detach(), .data or no_grad"),)
    return ()


def _works_with_zeros(measurement: Measurement) -> bool:
    """Whether the same pullback goes through if all outputs have a gradient. It needs more than one output."""
    try:
        linearization, outputs = measurement.linearization, measurement.outputs
        carried = [k for k, d in enumerate(linearization.differentiable) if d]
        if len(carried) < 2:
            return False
        ones = {k: (np.ones if k == carried[0] else np.zeros)(outputs[k].shape, outputs[k].dtype) for k in carried}
        measurement.guarded(lambda: linearization.pullback(ones))
    except Exception:
        return False
    return True


def _leaves(inputs: Any) -> list[Any]:
    found: list[Any] = []
    todo: list[Any] = list(as_tuple(inputs))
    while todo:
        x = todo.pop(0)
        if isinstance(x, dict):
            todo = list(x.values()) + todo
        elif isinstance(x, tuple | list):
            todo = list(x) + todo
        else:
            found.append(x)
    return found


def _short(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "no message"
    return line if len(line) <= 300 else line[:297] + "..."


def attach(error: BaseException, findings: Callable[[], tuple[Finding, ...]]) -> None:
    """Set ``error.diagnosis``, on whatever kind of exception, and never fail."""
    try:
        error.diagnosis = findings()  # type: ignore[attr-defined]
    except Exception:
        pass
