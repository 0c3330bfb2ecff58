"""Rules that run func at other points: twice at the same one, at f(x), at a moved x, at one side of this point."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..comparison import Element
from ..findings import Finding
from ..report import PairReport, number
from .context import Case, quietly

__all__ = [
    "by_hand", "differs_when_repeated", "gradient_does_not_move", "only_at_this_point", "saved_another_value",
    "staircase",
]  # fmt: skip

Array = np.ndarray[Any, Any]

ROWS, COLUMNS = 6, 4  # of a Jacobian that are looked at elsewhere


def differs_when_repeated(case: Case) -> Finding | None:
    """f(x) twice at the same x: a random mask, a hidden state."""
    first, second = case.outputs, case.at({})
    worst = 0.0
    for a, b in zip(first, second, strict=False):
        with np.errstate(all="ignore"):
            both = np.isnan(a) & np.isnan(b) if a.dtype.kind in "fc" else np.zeros(a.shape, bool)
            differs = np.where((a == b) | both, 0.0, abs(a - b)) if a.shape == b.shape else np.array(np.inf)
        worst = max(worst, float(np.nanmax(np.where(np.isnan(differs), np.inf, differs), initial=0.0)))
    if worst == 0 and len(first) == len(second):
        return None
    return Finding(
        "nondeterministic",
        "certain",
        f"func gives two results at the same input: the largest difference is {worst:.3g}",
        "Make func a function of its inputs alone: fix the random mask or seed inside, put layers such as dropout and "
        "batch norm into evaluation mode",
    )


def staircase(case: Case, pair: PairReport) -> bool:
    """Whether the output stays exactly where it is under small moves, at several points, and still is not constant."""
    k, i, _ = pair.key
    x = case.values[i]
    rng = np.random.default_rng(3)
    size = np.abs(x) + (np.abs(x).max(initial=0.0) or 1.0)
    seen = [case.outputs[k]]
    for n in range(4):
        if not case.in_time:
            return False
        at = x + (n > 0) * (rng.uniform(-1.0, 1.0, x.shape) * size).astype(x.dtype)
        by = (1e-7 * rng.uniform(0.5, 1.0, x.shape) * size).astype(x.dtype)
        runs = quietly(lambda at=at, by=by: [case.at({i: values})[k] for values in (at, at + by)])  # type: ignore[misc]
        if runs is None or runs[0].shape != seen[0].shape or not np.array_equal(*runs):
            return False
        seen.append(runs[0])
    return any(not np.array_equal(seen[0], s) for s in seen[1:])


def _rows(pair: PairReport) -> list[int]:
    """Rows with failing elements, the worst first."""
    return list(dict.fromkeys(e.row for e in pair.worst(16) if e.failing))[:ROWS]


def _columns(pair: PairReport) -> list[int]:
    return list(dict.fromkeys(e.column for e in pair.worst(16) if e.failing))[:COLUMNS]


def _column_at(case: Case, pair: PairReport, moved: dict[int, Array], column: int) -> Array:
    """One column of the numerical Jacobian where inputs hold other values."""
    k, i, part = pair.key
    x = moved.get(i, case.values[i])
    h = max(case.precision(pair.key) ** (1 / 3) * max(1.0, float(abs(x.reshape(-1)[column]))), case.report.eps)
    ends = []
    for step in (-h, h):
        there = np.array(x)
        there.reshape(-1)[column] += step
        values = case.at({**moved, i: there})[k].reshape(-1)
        ends.append(values.imag if part == "imag" else values.real)
    return np.asarray((ends[1] - ends[0]) / (2 * h))


def saved_another_value(case: Case, pair: PairReport, slack: Array) -> Finding | None:
    """The formula is right, but was given the output for the input, the input for the output, or another input."""
    k, i, _ = pair.key
    A, N = pair.analytical, pair.numerical
    x, y = case.values[i], case.outputs[k]
    evidence = ""
    if y.shape == x.shape and y.dtype.kind == x.dtype.kind and np.isfinite(y).all():
        at_output = {i: np.array(y)}
        point = quietly(lambda: case.point(at_output))
        rows = quietly(lambda: {r: point.row(pair.key, r) for r in _rows(pair)}) if point is not None else None
        with np.errstate(all="ignore"):
            if rows and all((abs(a - N[r]) <= slack[r]).all() for r, a in rows.items()):
                evidence = (
                    "at x = f(x) the analytical gradient is the numerical one at x: it was given x, and wants f(x)"
                )
            elif not np.iscomplexobj(x):
                found = quietly(lambda: {j: _column_at(case, pair, at_output, j) for j in _columns(pair)})
                if found and all((abs(n - A[:, j]) <= slack[:, j]).all() for j, n in found.items()):
                    evidence = (
                        "the analytical gradient at x is the numerical one at f(x): it was given f(x), and wants x"
                    )
    if not evidence:
        evidence = _swapped_inputs(case, pair, slack)
    if not evidence:
        return None
    return Finding(
        "wrong-saved-value",
        "certain",
        f"{evidence} ({pair.name})",
        "Check what forward saves for backward (input, output, or another input) and in which order backward reads it",
    )


def _swapped_inputs(case: Case, pair: PairReport, slack: Array) -> str:
    k, i, part = pair.key
    for other in case.report.pairs:
        j = other.key[1]
        if (
            other.key != (k, j, part)
            or j == i
            or other.mode != pair.mode
            or case.values[j].shape != case.values[i].shape
        ):
            continue
        with np.errstate(all="ignore"):
            crossed = (abs(pair.analytical - other.numerical) <= slack).all()
            back = (abs(other.analytical - pair.numerical) <= slack).all()
        if crossed and back:
            return f"the gradients of {pair.input} and {other.input} are exchanged"
        point = quietly(lambda j=j: case.point({i: case.values[j], j: case.values[i]}))  # type: ignore[misc]
        rows = quietly(lambda p=point: {r: p.row(pair.key, r) for r in _rows(pair)}) if point is not None else None  # type: ignore[misc]
        with np.errstate(all="ignore"):
            if rows and all((abs(a - pair.numerical[r]) <= slack[r]).all() for r, a in rows.items()):
                return f"the analytical gradient is right once {pair.input} and {other.input} are exchanged"
    return ""


def gradient_does_not_move(case: Case, pair: PairReport, slack: Array) -> Finding | None:
    """A stays the same when all inputs move, while N changes: backward differentiates at a fixed point."""
    rng = np.random.default_rng(5)
    moved = {
        n: (v + 0.1 * rng.uniform(0.5, 1.0, v.shape) * (abs(v) + 0.1 * abs(v).max(initial=0.0) + 1e-2)).astype(v.dtype)
        for n, v in enumerate(case.values)
    }
    point = quietly(lambda: case.point(moved))
    rows = quietly(lambda: {r: point.row(pair.key, r) for r in _rows(pair)}) if point is not None else None
    if not rows:
        return None
    A = pair.analytical
    if any(not np.allclose(a, A[r], rtol=1e-9, atol=0) for r, a in rows.items()):
        return None
    found = quietly(lambda: {j: _column_at(case, pair, moved, j) for j in _columns(pair)})
    if not found:
        return None
    changes = {j: float(abs(n - pair.numerical[:, j]).max()) for j, n in found.items()}
    if not any(changes[j] > 10 * slack[:, j].max() for j in found):
        return None
    values = np.unique(np.round(A[A != 0], 12))
    if values.size <= 1:
        what = f"{number(values[0].item(), 4)} wherever it is not 0" if values.size else "0"
        return Finding(
            "missing-term",
            "likely",
            f"the analytical gradient is {what}, here and at other inputs, while the numerical one changes by up to "
            f"{max(changes.values()):.3g} when the inputs move ({pair.name})",
            "Multiply grad_output by the derivative of the function at the saved input",
        )
    return Finding(
        "function-mismatch",
        "likely",
        f"the analytical gradient stays exactly the same when the inputs move by 10 %, while the numerical one changes "
        f"by up to {max(changes.values()):.3g} ({pair.name})",
        "Let backward use the values of this call of forward, not some kept from before (a constructor, a global, a "
        "cache)",
    )


def only_at_this_point(case: Case, pair: PairReport, element: Element) -> Finding | None:
    """On both sides of this value the gradient is right: this point itself is special, a bound or a tie."""
    i = pair.key[1]
    x = case.values[i]
    if np.iscomplexobj(x):
        return None
    here = float(x.reshape(-1)[element.column])
    scale = abs(here) or float(abs(x).max(initial=0.0)) or 1.0
    for step in (-1e-3 * scale, 1e-3 * scale):
        moved = np.array(x)
        moved.reshape(-1)[element.column] += step
        at = {i: moved}
        point = quietly(lambda at=at: case.point(at))  # type: ignore[misc]
        row = quietly(lambda p=point: p.row(pair.key, element.row)) if point is not None else None  # type: ignore[misc]
        column = quietly(lambda at=at: _column_at(case, pair, at, element.column))  # type: ignore[misc]
        if row is None or column is None:
            return None
        a, n = row[element.column], column[element.row]
        if not abs(a - n) <= case.report.atol + case.report.rtol * abs(n):
            return None
    return Finding(
        "kink",
        "likely",
        f"only at this very value of {pair.place(element).split(' <- ')[1]} = {here:g} do the sides differ (analytical "
        f"{number(element.analytical)}, numerical {number(element.numerical)}); at {here:g} +- "
        f"{1e-3 * scale:.2g} they agree",
        "A bound, a tie or a special case in backward: the gradient there is a convention. Check at points "
        "away from it",
    )


def by_hand(case: Case) -> bool:
    """Whether a derivative written by hand takes part; False: the graph is the framework's own throughout."""
    m = case.measurement
    if m.engine.name not in ("numpy", "torch", "jax"):
        return True
    args = list(m.inputs)
    for i in m.checked:
        args[i] = m.engine.copy(m.inputs[i])
        if m.engine.name == "numpy":
            args[i] = m.engine.tensor(case.values[m.checked.index(i)].copy())
    if m.engine.name == "jax":
        jax: Any = sys.modules["jax"]
        text = quietly(lambda: str(jax.make_jaxpr(m.func)(*args)), "custom_vjp")
        return "custom_vjp" in text or "custom_jvp" in text
    result = quietly(lambda: m._watched(lambda: m.func(*args))[0])
    outputs = result if isinstance(result, tuple | list) else (result,)
    todo = [getattr(o, "grad_fn", None) or getattr(o, "_node", None) for o in outputs]
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if any(c.__name__ in ("BackwardCFunction", "_FunctionNode") for c in type(node).__mro__):
            return True
        todo += [n for n, _ in getattr(node, "next_functions", ())] + [n for n, _ in getattr(node, "parents", ())]
    return not seen
