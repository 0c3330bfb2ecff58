"""What a pass is worth: reasons to doubt it.

A caution has to be shown, not suspected: wherever func can be run, it is checked again at a few rows and columns at
another point (signs turned, a zero among the values, a second sample), and only what is wrong there is told.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from ..findings import CONFIDENCES, Finding
from ..jacobians import Key, Progress, drain, element_name, parts_of
from ..measurement import Measurement
from ..report import GradcheckReport, PairReport, number
from .context import Case, Point, quietly
from .elements import kink, read

__all__ = ["cautions"]

Array = np.ndarray[Any, Any]

SAMPLES = 4  # rows and columns that are checked at another point


def cautions(case: Case) -> Generator[Progress, None, list[Finding]]:
    """All that speaks against the pass, the surest first."""
    found: list[Finding] = []
    for rule in (tested_nothing, below_tolerance, not_linear, symmetric_kink, elsewhere, left_out):
        yield Progress(0, 1)
        if rule is tested_nothing or case.in_time:
            found += quietly(lambda rule=rule: list(rule(case)), [])  # type: ignore[misc]
    return sorted(found, key=lambda f: CONFIDENCES.index(f.confidence))


def _hides(confidence: str, evidence: str, remedy: str) -> Finding:
    return Finding("test-point-hides-bug", confidence, evidence, remedy)


def _pairs(case: Case) -> list[PairReport]:
    return [p for p in case.report.pairs if p.shares is None and p.differentiable]


def tested_nothing(case: Case) -> Iterator[Finding]:
    """0 against 0: any gradient of size 0 passes."""
    pairs = _pairs(case)
    for i, x in enumerate(case.measurement.templates):
        mine = [p for p in pairs if p.key[1] == i]
        if mine and x.size and all(not p.analytical.any() and (abs(p.numerical) <= p.tolerance).all() for p in mine):
            alone = len({p.key[1] for p in pairs}) == 1
            yield _hides(
                "certain" if alone else "possible",
                f"every element of the gradient of {x.name} is 0 on both sides: nothing was tested there",
                "Check at other inputs, where the result depends on each of them",
            )


def below_tolerance(case: Case) -> Iterator[Finding]:
    """Elements that are wrong by a share which the tolerance hides; or that lie under it as a whole."""
    report = case.report
    tried = 0
    for p in _pairs(case):
        with np.errstate(all="ignore"):
            share = np.where(p.numerical != 0, p.error / abs(p.numerical), 0.0)
        suspects = np.argwhere((share > max(0.02, 10 * report.rtol)) & (p.error > 8 * case.noise(p)))
        for row, column in suspects[np.argsort(-share[tuple(suspects.T)], kind="stable")][:SAMPLES]:
            if tried == SAMPLES:
                return
            tried += 1
            e = p.comparison.element(int(row), int(column))
            curves = drain(case.curves(p.key[1], e.column))
            if curves is None:
                continue
            r = read(
                curves[p.key], e.row, e.analytical, e.numerical, eps=report.eps, atol=0.0, rtol=max(0.01, report.rtol)
            )
            if r.status == "wrong":
                yield Finding(
                    "tolerance-too-loose",
                    "certain",
                    f"{p.place(e)}: analytical {number(e.analytical)}, numerical {number(r.best)} over all "
                    "steps: wrong by "
                    f"{abs(e.analytical - r.best) / max(abs(r.best), 1e-300):.2g} of its value, which the tolerance "
                    f"{e.tolerance:.2g} hides",
                    f"Use atol={max(abs(r.best) * 1e-4, 1e-300):.0e}, or scale the output to order 1",
                )
                return
        size = abs(p.analytical[p.analytical != 0])
        if size.size and size.max() <= report.atol and report.atol > 0:
            yield Finding(
                "tolerance-too-loose",
                "possible",
                f"no element of {p.name} exceeds atol={report.atol:g} (the largest is {size.max():.2g}): any "
                "gradient of "
                "this size, also one of the wrong sign, passes",
                f"Use atol={size.max() * 1e-4:.0e}, or scale the output to order 1",
            )
            return


def not_linear(case: Case) -> Iterator[Finding]:
    """A backward is linear in grad_output: g is pulled back to sum_k g_k A[k], whatever its signs and sizes."""
    m, report = case.measurement, case.report
    if not m.backward:
        return
    rng = np.random.default_rng(7)
    whole = {p.key: p.analytical for p in _pairs(case) if p.mode == "reverse"}
    for size in (1.0, 30.0):
        g = {}
        for k, d in enumerate(m.differentiable):
            if d and m.outputs[k].is_inexact:
                values = rng.standard_normal(m.outputs[k].shape) * size
                if m.outputs[k].is_complex:
                    values = values + 1j * rng.standard_normal(m.outputs[k].shape) * size
                g[k] = np.asarray(values, m.outputs[k].dtype)
        got = m.guarded(lambda g=g: m.linearization.pullback({k: v.copy() for k, v in g.items()}))  # type: ignore[misc]
        for i, x in enumerate(m.templates):
            parts = [(k, part) for k in g for part in parts_of(m.outputs[k])]
            if not parts or any((k, i, part) not in whole for k, part in parts):
                continue
            terms = [
                ((g[k].imag if part == "imag" else g[k].real).reshape(-1, 1) * whole[k, i, part]) for k, part in parts
            ]
            want, bound = sum(t.sum(axis=0) for t in terms), sum(abs(t).sum(axis=0) for t in terms)
            have = np.zeros(x.size) if got[i] is None else np.asarray(got[i]).reshape(-1)
            have = have if x.is_complex else have.real
            limit = np.sqrt(max(case.precision((k, i, "")) for k in g)) * bound + report.nondet_tol * size
            off = np.flatnonzero(~(abs(have - want) <= limit))
            if off.size and np.isfinite(want).all():
                j = int(off[0])
                yield Finding(
                    "grad-output-hides-bug",
                    "certain",
                    f"a random grad_output gives {number(have[j].item())} for "
                    f"{element_name(x.name, x.shape, j)}, while "
                    f"the rows that were checked add up to {number(want[j].item())}: backward is not linear in "
                    "grad_output",
                    "Multiply by grad_output and do nothing else with it: no sign, clipping, comparison or constant",
                )
                return


def symmetric_kink(case: Case) -> Iterator[Finding]:
    """At a kink the central difference is the mean of two slopes, which may agree by accident: |x| at 0."""
    tried = 0
    for i, x in enumerate(case.values):
        if x.dtype.kind != "f":
            continue
        flat = x.reshape(-1)
        _, inverse, counts = np.unique(flat, return_inverse=True, return_counts=True)
        special = np.flatnonzero((flat == np.round(flat)) | (counts[inverse] > 1))
        for column in special[: 2 if len(case.values) > 1 else SAMPLES]:
            if tried == SAMPLES:
                return
            tried += 1
            for key, curve in (drain(case.curves(i, int(column))) or {}).items():
                for row in range(min(curve.value.size, 64)):
                    slopes = kink(curve, row, case.report.atol)
                    if slopes is not None:
                        t = case.measurement.templates[i]
                        yield Finding(
                            "kink",
                            "likely",
                            f"{case.measurement.outputs[key[0]].name} has the slopes {number(slopes[0], 4)} and "
                            f"{number(slopes[1], 4)} on the two sides of "
                            f"{element_name(t.name, t.shape, int(column))} = "
                            f"{flat[column]:g}: it passes because their mean happens to agree",
                            "Check at points away from the kink as well",
                        )
                        return


# -- other points -------------------------------------------------------------------------------------------------
def elsewhere(case: Case) -> Iterator[Finding]:
    """The same gradient at points of another kind."""
    for what, remedy, moved in _points(case):
        if not case.in_time:
            return
        wrong = quietly(lambda moved=moved: _first_wrong(case, case.point(moved)))  # type: ignore[misc]
        if wrong is not None:
            yield _hides("certain", f"{what} the gradient is wrong: {wrong}", remedy)
            return
    yield from _batch_of_one(case)


def _points(case: Case) -> Iterator[tuple[str, str, dict[int, Array]]]:
    rng = np.random.default_rng(11)
    for i, x in enumerate(case.values[:4]):
        name = case.measurement.templates[i].name
        if x.size == 0 or x.dtype.kind not in "fc" or not np.isfinite(x).all():
            continue
        if x.dtype.kind == "f" and x.any() and (x.min() >= 0 or x.max() <= 0):
            turned = np.array(x).reshape(-1)
            turned[::2] *= -1
            sign = "positive" if x.min() >= 0 else "negative"
            yield (
                f"all values of {name} are {sign}; with some signs turned",
                "Check at inputs of both signs", {i: turned.reshape(x.shape)},
            )  # fmt: skip
        if x.all() and x.size > 1:
            zeroed = np.array(x)
            zeroed.reshape(-1)[x.size // 2] = 0
            yield f"no value of {name} is 0; with one that is", "Check at inputs with a zero among them", {i: zeroed}
        if (
            x.size and (x.size == 1 or np.unique(x).size < x.size) and not np.array_equal(x, np.round(x))
        ) or not x.any():
            size = abs(x) + (abs(x).max() or 1.0)
            moved = (x + rng.uniform(-0.5, 0.5, x.shape) * size).astype(x.dtype)
            yield (
                f"the values of {name} are special (zero or equal); at random ones",
                "Check at random inputs",
                {i: moved},
            )


def _first_wrong(case: Case, point: Point) -> str | None:
    """The first of a few elements at `point` whose gradient is wrong beyond doubt, in words."""
    other, report = point.measurement, case.report
    there = Case(other, _settings_of(report), 0.5)
    if not all(np.isfinite(o).all() for o in point.outputs if o.dtype.kind in "fc"):
        return None
    for i, x in enumerate(other.templates):
        columns = sorted({int(c) for c in np.linspace(0, x.size - 1, min(x.size, SAMPLES))} if x.size else ())
        flat = there.values[i].reshape(-1)
        special = np.flatnonzero(flat == 0)[:1]
        for column in dict.fromkeys([*special.tolist(), *columns]):
            for k, o in enumerate(other.outputs):
                if not o.is_inexact or not other.differentiable[k]:
                    continue
                for part in parts_of(o):
                    text = _wrong_in_column(there, point, (k, i, part), column)
                    if text:
                        return text
    return None


def _settings_of(report: GradcheckReport) -> GradcheckReport:
    return GradcheckReport((), (), report.eps, report.atol, report.rtol, report.nondet_tol, report.engine)


def _wrong_in_column(there: Case, point: Point, key: Key, column: int) -> str:
    m, report = there.measurement, there.report
    size = m.outputs[key[0]].size
    rows = sorted({*np.linspace(0, size - 1, min(size, SAMPLES)).astype(int).tolist(), min(column, size - 1)})
    if m.templates[key[1]].is_complex:
        return ""
    curves = None
    for row in rows:
        a = float(np.real(point.row(key, row)[column]))
        if curves is None:
            curves = drain(there.curves(key[1], column))
            if curves is None or curves[key].raised:
                return ""
            if not np.isfinite(curves[key].central[curves[key].steps <= report.eps]).all():
                return ""  # an edge of the domain: 0 times infinity makes NaN of other rows too
        r = read(curves[key], row, a, np.nan, eps=report.eps, atol=report.atol, rtol=report.rtol)
        if r.status in ("wrong", "nan"):
            name = element_name(m.templates[key[1]].name, m.templates[key[1]].shape, column)
            return f"{name}: analytical {number(a)}, numerical {number(r.best)}"
    return ""


def _batch_of_one(case: Case) -> Iterator[Finding]:
    """One sample hides a missing sum over samples: try two."""
    batch = {i: x for i, x in enumerate(case.values) if x.ndim > 1 and x.shape[0] == 1}
    outs = [o for o in case.measurement.outputs if len(o.shape) > 1 and o.shape[0] == 1]
    if not batch or not outs or len(batch) == len(case.values):
        return
    rng = np.random.default_rng(13)
    two = {i: np.concatenate([x, x + 0.1 * rng.standard_normal(x.shape)]).astype(x.dtype) for i, x in batch.items()}
    point = quietly(lambda: case.point(two))
    if point is None or any(o.shape[0] != 2 for o in point.measurement.outputs if len(o.shape) > 1):
        yield _hides(
            "possible",
            "the first axis of the output has length 1, as has that of an input, and another input has none: a missing "
            "sum over a batch would not be seen",
            "Check with two samples or more",
        )
        return
    wrong = quietly(lambda: _first_wrong(case, point))
    if wrong is not None:
        yield _hides(
            "certain", f"with two samples instead of one the gradient is wrong: {wrong}", "Check with two samples"
        )


def left_out(case: Case) -> Iterator[Finding]:
    """A tensor that is not checked, on which the result depends, and whose gradient is another than func's."""
    m = case.measurement
    for i, x in enumerate(m.inputs):
        if i in m.checked:
            continue
        values = _float_values(m, x)
        if values is None or not case.in_time:
            continue
        inputs = list(m.inputs)
        inputs[i] = quietly(lambda v=values: m.engine.tensor(v.copy(), like=m.inputs[m.checked[0]]))  # type: ignore[misc]
        point = quietly(lambda inputs=inputs: _point_of(m, inputs))  # type: ignore[misc]
        if point is None or i not in point.measurement.checked:
            continue
        wrong = quietly(lambda p=point: _first_wrong(case, p))  # type: ignore[misc]
        if wrong is not None:
            nothing = "analytical 0," in wrong
            yield Finding(
                "input-not-checked",
                "possible" if nothing else "likely",
                f"input {i} does not require grad and was not checked; with it the gradient is wrong: {wrong}",
                f"Check input {i} too (requires_grad_()), unless it is a constant for which backward gives no gradient",
            )
            return


def _float_values(m: Measurement, x: Any) -> Array | None:
    values = quietly(lambda: np.array(m.engine.array(x))) if m.engine.is_tensor(x) else x
    return values if isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.size else None


def _point_of(m: Measurement, inputs: list[Any]) -> Point:
    copies = [m.engine.copy(x) if n in m.checked else x for n, x in enumerate(inputs)]
    other = Measurement(m.func, tuple(copies), engine=m.engine, labels=m.labels, stacklevel=None)
    return Point(other, m._watched(lambda: tuple(np.array(o) for o in other.linearization.outputs))[0])
