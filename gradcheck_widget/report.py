"""What was found, as data, text, HTML and JSON. A report holds arrays, never the function: re-judging runs nothing."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .comparison import Comparison, Element
from .findings import Finding
from .jacobians import element_name
from .probes import Check

__all__ = ["GradcheckReport", "PairReport", "badge", "number", "ratio_text", "tolerance_value"]

Array = np.ndarray[Any, Any]


def number(x: complex, digits: int = 6) -> str:
    """A value in a message: `digits` significant digits, complex as ``1.5-0.25j``."""
    if isinstance(x, complex):
        return f"{x.real:.{digits}g}{x.imag:+.{digits}g}j"
    return f"{x:.{digits}g}"


def _distinct(a: complex, b: complex) -> tuple[str, str]:
    """Both values with as many digits as it takes to tell them apart, 6 at least."""
    digits = 6
    while a != b and number(a, digits) == number(b, digits) and digits < 17:
        digits += 1
    return number(a, digits), number(b, digits)


@dataclass(frozen=True, eq=False)
class PairReport:
    """One Jacobian: an output with respect to an input, at one (atol, rtol).

    Attributes
    ----------
    output, input : str
        Names, such as ``output 0`` and ``input 1 'w'``; `output_index` and `input_index` are their positions.
    part : str
        ``''`` for a real output; ``'real'`` or ``'imag'``: which part of a complex output this is the Jacobian of.
    analytical, numerical : ndarray, shape (output size, input size)
        float64, or complex128 if the input is complex.
    error, tolerance, ratio : ndarray, float64, of the same shape
        ``abs(analytical - numerical)``, ``atol + rtol * abs(numerical)``, and their quotient (1 is the limit).
    failing : ndarray of bool, of the same shape
    output_shape, input_shape : tuple of int
    differentiable : bool
        False: the output carries no gradient, so the numerical side must be exactly 0, whatever the tolerances.
    unmoved : ndarray of bool, shape `input_shape`
        Where x + eps == x in floating point: the step is too small for this value, and numerical is NaN.
    mode : str
        ``'reverse'`` or ``'forward'``: how the analytical side was computed.
    shares : ndarray, shape (projections, input size), optional
        Only in fast mode, where the rows are random projections and there is one column: what each element of the input
        contributes to the analytical value. Empty if that is not known.
    key : tuple
        Output, checked input and part, as the `jacobians` of the measurement are numbered.
    """

    output: str
    input: str
    output_index: int
    input_index: int
    part: str
    output_shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    differentiable: bool
    unmoved: Array
    comparison: Comparison
    mode: str = "reverse"
    shares: Array | None = None
    key: tuple[int, int, str] = (0, 0, "")

    @property
    def analytical(self) -> Array:
        return self.comparison.analytical

    @property
    def numerical(self) -> Array:
        return self.comparison.numerical

    @property
    def error(self) -> Array:
        return self.comparison.error

    @property
    def tolerance(self) -> Array:
        return self.comparison.tolerance

    @property
    def ratio(self) -> Array:
        return self.comparison.ratio

    @property
    def failing(self) -> Array:
        return self.comparison.failing

    @property
    def failing_count(self) -> int:
        return self.comparison.failing_count

    @property
    def passed(self) -> bool:
        return self.comparison.passed

    @property
    def size(self) -> int:
        return int(self.analytical.size)

    @property
    def name(self) -> str:
        """``output 0 <- input 1 'w'``, with the part of a complex output."""
        mode = " (forward mode)" if self.mode == "forward" else ""
        return f"{self.output}{f' ({self.part})' if self.part else ''} <- {self.input}{mode}"

    def worst(self, k: int = 5) -> tuple[Element, ...]:
        """The `k` elements with the largest ratio, the worst first."""
        return self.comparison.worst(k)

    def detection_power(self, share: float = 0.01) -> float:
        """Share of nonzero elements on which an error of `share` (0.01: 1 %) would have been seen: see `Comparison`."""
        return self.comparison.detection_power(share)

    def place(self, element: Element) -> str:
        """``output 0 [2, 1] <- input 1 'w' [0, 3]``"""
        if self.shares is not None:
            return f"{self.name}, random projection {element.row}"
        out = element_name(self.output, self.output_shape, element.row)
        return f"{out} <- {element_name(self.input, self.input_shape, element.column)}"

    def in_full_shape(self, values: Array) -> Array:
        """A matrix of this pair in the shape ``output_shape + input_shape``."""
        return values.reshape(self.output_shape + self.input_shape)

    def describe(self, element: Element) -> str:
        """One line: place, both values, error against tolerance."""
        values = "analytical {}, numerical {}".format(*_distinct(element.analytical, element.numerical))
        if self.unmoved.size and self.unmoved.reshape(-1)[element.column]:
            return f"{self.place(element)}: {values} (step too small for this value: x + eps == x; use a larger eps)"
        text = f"{self.place(element)}: {values}, error {element.error:.3g}"
        if element.tolerance > 0 and math.isfinite(element.ratio):
            return f"{text} = {ratio_text(element.ratio)} the tolerance {element.tolerance:.3g}"
        return f"{text}, tolerance {element.tolerance:.3g}"

    def judge(self, atol: float, rtol: float) -> PairReport:
        """The same Jacobians under other tolerances."""
        if not self.differentiable:
            atol = rtol = 0.0
        return replace(self, comparison=self.comparison.judge(atol, rtol))


@dataclass(frozen=True, eq=False)
class GradcheckReport:
    """All that `gradcheck` found. Its ``str()`` is for reading, ``to_dict()`` and ``to_json()`` are for programs.

    Attributes
    ----------
    pairs : tuple of PairReport
        One for each output and checked input; two for a complex output.
    checks : tuple of Check
        The side checks, each with `name`, `passed` and `message`.
    eps, atol, rtol, nondet_tol : float
        The settings. `eps` is in the units of the inputs, `atol` in those of the derivative.
    engine : str
    seed : int, optional
        Of the random projections, in fast mode.
    diagnosis : tuple of Finding
        Why it failed, the likeliest cause first.
    cautions : tuple of Finding
        Why a pass may be worth less than it looks.
    """

    pairs: tuple[PairReport, ...]
    checks: tuple[Check, ...]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    engine: str
    seed: int | None = None
    diagnosis: tuple[Finding, ...] = ()
    cautions: tuple[Finding, ...] = ()

    @cached_property
    def passed(self) -> bool:
        return all(p.passed for p in self.pairs) and all(c.passed for c in self.checks)

    def __bool__(self) -> bool:
        return self.passed

    def judge(self, *, atol: float | None = None, rtol: float | None = None) -> GradcheckReport:
        """The same measurement under other tolerances; `func` is not run again.

        Other elements fail under other tolerances, and perhaps for other reasons: `diagnosis` and `cautions` are
        empty then.

        Raises
        ------
        ValueError
            If a tolerance is negative, NaN or not a number.
        """
        atol = self.atol if atol is None else tolerance_value("atol", atol)
        rtol = self.rtol if rtol is None else tolerance_value("rtol", rtol)
        if (atol, rtol) == (self.atol, self.rtol):
            return self
        pairs = tuple(p.judge(atol, rtol) for p in self.pairs)
        return replace(self, pairs=pairs, atol=atol, rtol=rtol, diagnosis=(), cautions=())

    # -- counts -------------------------------------------------------------------------------------------
    @property
    def size(self) -> int:
        """Number of elements of all Jacobians."""
        return sum(p.size for p in self.pairs)

    @cached_property
    def failing_count(self) -> int:
        return sum(p.failing_count for p in self.pairs)

    @cached_property
    def largest_ratio(self) -> float:
        return max((p.comparison.largest_ratio for p in self.pairs), default=0.0)

    def detected_count(self, share: float = 0.01) -> tuple[int, int]:
        """On how many elements an error of `share` would have been seen, and how many are not 0."""
        if share not in self._detected:
            self._detected[share] = (
                sum(int(np.count_nonzero(p.comparison.detected(share))) for p in self.pairs),
                sum(int(np.count_nonzero(p.comparison.nonzero)) for p in self.pairs),
            )
        return self._detected[share]

    @cached_property
    def _detected(self) -> dict[float, tuple[int, int]]:
        return {}

    def detection_power(self, share: float = 0.01) -> float:
        """Share of all nonzero elements on which an error of `share` (0.01: 1 %) would have been seen."""
        seen, total = self.detected_count(share)
        return seen / total if total else 0.0

    # -- words --------------------------------------------------------------------------------------------
    @property
    def fast(self) -> bool:
        """Whether the pairs are random projections instead of whole Jacobians."""
        return any(p.shares is not None for p in self.pairs)

    @property
    def _noun(self) -> str:
        return "random projection" if self.fast else "element"

    def columns_seen(self, share: float = 0.1) -> tuple[int, int]:
        """In fast mode: for how many columns of all Jacobians an error of `share` would have been seen, of how many.

        Column j adds ``shares[r, j]`` to the r-th projection; it is seen if `share` of that exceeds the tolerance in
        one of them. Columns that contribute nothing cannot be wrong by a share and do not count.
        """
        seen = total = 0
        for p in self.pairs:
            if p.shares is not None and p.shares.size:
                caught = (share * abs(p.shares) > p.tolerance).any(axis=0)
                seen += int(np.count_nonzero(caught))
                total += int(np.count_nonzero((p.shares != 0).any(axis=0)))
        return seen, total

    @cached_property
    def _fast_text(self) -> str:
        seen, total = self.columns_seen()
        drawn = f"fast mode, seed {self.seed}"
        if not total:
            return f"{drawn}: how likely a wrong column would be seen is not known"
        return f"{drawn}: a column wrong by 10 % would be seen for {_percent(seen, total)} of {_count(total, 'column')}"

    @cached_property
    def power_text(self) -> str:
        if self.fast:
            return self._fast_text
        seen, total = self.detected_count()
        if total == 0:
            return "every element is 0 on both sides: nothing was tested"
        return f"a 1 % error would be seen on {_percent(seen, total)} of {_count(total, 'nonzero element')}"

    @cached_property
    def verdict(self) -> str:
        """The verdict in one line, as the widget shows it."""
        if not self.pairs and not self.checks:
            return "PASS  nothing to compare"
        within = self.size - self.failing_count
        bad = [c for c in self.checks if not c.passed]
        if self.failing_count:
            return (
                f"FAIL  {self.failing_count:,} of {_count(self.size, self._noun)} out of tolerance, "
                f"worst error {ratio_text(self.largest_ratio)} its tolerance"
            )
        if bad:
            return f"FAIL  {bad[0].name}: see the checks below"
        if self.size == 0:
            return "PASS  there are no elements to compare: nothing was tested"
        return (
            f"PASS  {within:,} of {_count(self.size, self._noun)} within tolerance, worst error "
            f"{ratio_text(self.largest_ratio)} its tolerance"
        )

    @cached_property
    def checks_text(self) -> str:
        good = sum(c.passed for c in self.checks)
        return f"other checks: {good} of {len(self.checks)} pass"

    def failures(self) -> Iterator[str]:
        """What failed, in PyTorch's order, each as the text of a `GradcheckError`."""
        for check in self.checks:
            if not check.passed and check.name in ("gradient shapes", "output stays", "input untouched"):
                yield check.message
        for pair in sorted(self.pairs, key=lambda p: (p.mode == "forward", p.part != "imag")):
            if not pair.passed:
                yield self._mismatch(pair)
        for check in self.checks:
            if not check.passed and check.name not in ("gradient shapes", "output stays", "input untouched"):
                yield check.message

    def _mismatch(self, pair: PairReport) -> str:
        part = {"real": "real", "imag": "imaginary"}.get(pair.part)
        head = f"While considering the {part} part of complex outputs only, " if part else ""
        forward = pair.mode == "forward"
        if forward and np.iscomplexobj(pair.analytical):
            first = pair.worst(1)[0]
            part = "imaginary" if abs((first.analytical - first.numerical).imag) > first.tolerance else "real"
            head = f"While considering the {part} part of complex inputs only, "
        where = f"output {pair.output_index} with respect to input {pair.input_index}"
        if pair.differentiable:
            rule = f"exceed atol + rtol * |numerical| (eps={self.eps:g}, atol={self.atol:g}, rtol={self.rtol:g})"
            head += f"Jacobian {'computed with forward mode ' if forward else ''}mismatch for {where}"
        else:
            rule = f"are not 0 (eps={self.eps:g}), although the output carries no gradient (was it detached?)"
            head += f"Numerical gradient for function expected to be zero, for {where}"
        name = f" ({pair.input.split(' ', 2)[2]})" if pair.input.count(" ") > 1 else ""
        worst = [e for e in pair.worst(4) if e.failing]
        lines = [f"{head}{name}: {pair.failing_count:,} of {_count(pair.size, self._noun)} {rule}"]
        lines += [("  worst: " if n == 0 else "         ") + pair.describe(e) for n, e in enumerate(worst)]
        return "\n".join(lines)

    def error_text(self) -> str:
        """The text of the `GradcheckError`: the first failure in full, the others in a line each."""
        found = list(self.failures())
        if not found:
            return ""
        rest = [line.splitlines()[0] for line in found[1:]]
        more = f"\n  ... and {len(rest) - 5} more" if len(rest) > 5 else ""
        return found[0] + "".join(f"\nAlso: {line}" for line in rest[:5]) + more + self._cause_text()

    def _cause_text(self) -> str:
        """The likeliest cause and its remedy, two more lines of an error text."""
        if not self.diagnosis:
            return ""
        cause, remedy = self.diagnosis[0].lines()
        return f"\nLikely cause: {cause}\n  Remedy: {remedy}"

    def __str__(self) -> str:
        lines = [
            self.verdict,
            f"      {self.power_text}; {self.checks_text}",
            f"      eps={self.eps:g}, atol={self.atol:g}, rtol={self.rtol:g}, engine {self.engine}",
        ]
        for p in self.pairs:
            state = "pass" if p.passed else "FAIL"
            lines.append(
                f"  {state}  {p.name}  ({p.analytical.shape[0]} x {p.analytical.shape[1]}): "
                f"{p.failing_count:,} of {_count(p.size, self._noun)} fail, "
                f"worst error {ratio_text(p.comparison.largest_ratio)} its tolerance"
            )
            if not p.passed:
                lines += [f"          {p.describe(e)}" for e in p.worst(5) if e.failing]
        lines += [f"  {'pass' if c.passed else 'FAIL'}  {c.name}: {c.message}" for c in self.checks]
        for title, findings in (("Likely cause", self.diagnosis), ("Caution", self.cautions)):
            for f in findings:
                first, remedy = f.lines()
                lines += [f"{title}: {first}", f"    Remedy: {remedy}"]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<GradcheckReport: {self.verdict}>"

    def _repr_html_(self) -> str:
        esc = html.escape
        rows = []
        for p in self.pairs:
            worst = "<br>".join(esc(p.describe(e)) for e in p.worst(3) if e.failing)
            rows.append(
                f"<tr><td>{badge('PASS' if p.passed else 'FAIL')}</td><td>{esc(p.name)}</td>"
                f"<td style='text-align:right'>{p.failing_count:,} of {p.size:,}</td>"
                f"<td style='text-align:right'>{esc(ratio_text(p.comparison.largest_ratio))}</td>"
                f"<td style='text-align:left'>{worst}</td></tr>"
            )
        head = "".join(
            f"<th style='text-align:left'>{h}</th>"
            for h in ("", "Jacobian", "failing", "worst error / tolerance", "worst elements")
        )
        checks = "".join(
            f"<li style='list-style:none'>{badge('PASS' if c.passed else 'FAIL')} {esc(c.name)}: {esc(c.message)}</li>"
            for c in self.checks
        )
        found = "".join(
            f"<p><b>{title}: {esc(f.cause)}</b> ({esc(f.confidence)}), {esc(f.meaning)}. {esc(f.evidence)}<br>"
            f"<i>Remedy:</i> {esc(f.remedy)}</p>"
            for title, findings in (("Likely cause", self.diagnosis), ("Caution", self.cautions))
            for f in findings
        )
        word, text = self.verdict.split("  ", 1)
        return (
            f"<div><p>{badge(word)} {esc(text)}. {esc(self.power_text)}; "
            f"{esc(self.checks_text)}.<br><small>eps={self.eps:g}, atol={self.atol:g}, rtol={self.rtol:g}, engine "
            f"{esc(self.engine)}</small></p><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
            f"<ul style='padding-left:0'>{checks}</ul>{found}</div>"
        )

    # -- data ---------------------------------------------------------------------------------------------
    def to_dict(self, *, worst: int = 5, arrays: bool = False) -> dict[str, Any]:
        """Plain data, ready for JSON: complex numbers as ``{"re", "im"}``, infinities and NaN as strings.

        Parameters
        ----------
        worst : int
            How many of the worst elements of each pair to list.
        arrays : bool
            Also the two Jacobians in full, as nested lists.
        """
        pairs = []
        for p in self.pairs:
            entry: dict[str, Any] = {
                "output": p.output,
                "input": p.input,
                "output_index": p.output_index,
                "input_index": p.input_index,
                "part": p.part,
                "mode": p.mode,
                "output_shape": list(p.output_shape),
                "input_shape": list(p.input_shape),
                "differentiable": p.differentiable,
                "passed": p.passed,
                "elements": p.size,
                "failing": p.failing_count,
                "largest_ratio": _plain(p.comparison.largest_ratio),
                "detection_power": p.detection_power(),
                "worst": [
                    {
                        "output_element": _index(e.row, p.output_shape),
                        "input_element": _index(e.column, p.input_shape),
                        "analytical": _plain(e.analytical),
                        "numerical": _plain(e.numerical),
                        "error": _plain(e.error),
                        "tolerance": _plain(e.tolerance),
                        "ratio": _plain(e.ratio),
                        "failing": e.failing,
                    }
                    for e in p.worst(worst)
                ],
            }
            if arrays:
                entry["analytical"] = _plain(p.analytical.tolist())
                entry["numerical"] = _plain(p.numerical.tolist())
            pairs.append(entry)
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "eps": self.eps,
            "atol": self.atol,
            "rtol": self.rtol,
            "nondet_tol": self.nondet_tol,
            "engine": self.engine,
            "seed": self.seed,
            "detection_power": self.detection_power(),
            "pairs": pairs,
            "checks": [{"name": c.name, "passed": c.passed, "message": c.message} for c in self.checks],
            "diagnosis": [f.to_dict() for f in self.diagnosis],
            "cautions": [f.to_dict() for f in self.cautions],
        }

    def to_json(self, *, worst: int = 5, arrays: bool = False, indent: int | None = None) -> str:
        """`to_dict` as strict JSON text."""
        return json.dumps(self.to_dict(worst=worst, arrays=arrays), indent=indent, allow_nan=False)


def tolerance_value(name: str, value: Any, *, positive: bool = False) -> float:
    """`value` as a float, or a ValueError that names it and the rule."""
    try:
        x = math.nan if isinstance(value, str | bytes | bool) or np.ndim(value) else float(value)
    except (TypeError, ValueError):
        x = math.nan
    if not math.isfinite(x) or x < 0 or (positive and x == 0):
        rule = "a finite number greater than 0" if positive else "a finite number, 0 or greater"
        raise ValueError(f"{name} must be {rule}, got {value!r}")
    return x


def _index(flat: int, shape: tuple[int, ...]) -> list[int]:
    return [int(a) for a in np.unravel_index(flat, shape)] if shape else []


def _plain(x: Any) -> Any:
    if isinstance(x, list):
        return [_plain(v) for v in x]
    if isinstance(x, complex):
        return {"re": _plain(x.real), "im": _plain(x.imag)}
    return x if math.isfinite(x) else str(x)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _percent(part: int, whole: int) -> str:
    """Rounded, but never to 100 % or 0 % when it is not."""
    share = 100 * part / whole
    if part not in (0, whole):
        share = min(max(share, 0.1), 99.9)
    return f"{share:.3g} %"


def ratio_text(x: float) -> str:
    """Error over tolerance in words: ``0.31 x``, ``infinitely many x`` for NaN or infinite errors."""
    if math.isinf(x):
        return "infinitely many times"
    return f"{x:,.0f} x" if 1000 <= x < 1e6 else f"{x:.3g} x"


def badge(word: str) -> str:
    """PASS or FAIL as HTML: word and colour, both colours fixed, so that a dark theme cannot take one of them."""
    back = "#1b6e53" if word == "PASS" else "#b3401a"
    return (
        f"<span style='background:{back};color:#ffffff;padding:1px 6px;border-radius:3px;font-weight:600'>{word}</span>"
    )
