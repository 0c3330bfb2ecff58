"""The order of a diagnosis.

1. what makes every number meaningless: func writes into its input, or is not a function of it;
2. the side checks that failed, each of which names its cause;
3. a few of the worst elements, each over a ladder of steps (`elements`): kink, domain, step, or a wrong gradient;
4. for a wrong gradient, what turns one Jacobian into the other (`structure`), then other points (`probing`).

No rule accuses a gradient unless step 3 found it wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..comparison import Element
from ..findings import CONFIDENCES, Finding
from ..jacobians import Progress, drain
from ..measurement import Measurement
from ..report import GradcheckReport, PairReport, number
from . import passes, probing
from .context import SECONDS, Case, quietly
from .elements import Curve, Reading, read
from .structure import COLUMN_RULES, PAIR_RULES, WEAK_RULES, Sides, explained

__all__ = ["caution_steps", "diagnose", "diagnosis_steps"]

Array = np.ndarray[Any, Any]

COLUMNS = 4  # of the worst columns are measured over the ladder
ROWS = 6  # failing elements of each of them are read
Steps = Generator[Progress, None, tuple[Finding, ...]]


def diagnose(measurement: Measurement, report: GradcheckReport, *, seconds: float = SECONDS) -> GradcheckReport:
    """The report with its `diagnosis`, if it failed, or its `cautions`, if it passed.

    Runs func at a few columns, for about `seconds` at most; the inputs are as they were afterwards.
    """
    return replace(
        report,
        diagnosis=drain(diagnosis_steps(measurement, report, seconds=seconds)),
        cautions=drain(caution_steps(measurement, report, seconds=seconds)),
    )


def diagnosis_steps(measurement: Measurement, report: GradcheckReport, *, seconds: float = SECONDS) -> Steps:
    """Why `report` failed, the likeliest cause first; () if it passed. A generator that can be stopped at each yield.

    Whatever goes wrong within becomes ``cannot-tell``.
    """
    if report.passed:
        return ()
    try:
        found = yield from _diagnosis(Case(measurement, report, seconds))
    except Exception as error:
        return (_cannot_tell(f"func raised {type(error).__name__} while it was examined: {error}"),)
    return found or (_cannot_tell("nothing in the numbers points to one cause"),)


def caution_steps(measurement: Measurement, report: GradcheckReport, *, seconds: float = SECONDS) -> Steps:
    """Why a pass may be worth less than it looks; () if the report failed."""
    if not report.passed:
        return ()
    try:
        found = yield from passes.cautions(Case(measurement, report, seconds))
    except Exception:
        return ()
    return _merged(found)


def _cannot_tell(evidence: str) -> Finding:
    return Finding(
        "cannot-tell", "possible", evidence, "Compare both sides at the worst elements, and over several values of eps"
    )


def _merged(found: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each cause once, the first and surest finding of it."""
    kept: dict[str, Finding] = {}
    for f in found:
        old = kept.get(f.cause)
        if old is None or CONFIDENCES.index(f.confidence) < CONFIDENCES.index(old.confidence):
            kept[f.cause] = f
    return tuple(kept.values())


# -- the whole ----------------------------------------------------------------------------------------------------
def _diagnosis(case: Case) -> Steps:
    failed = {c.name: c.message for c in case.report.checks if not c.passed}
    if "input untouched" in failed:
        remedy = "Work on a copy (x = x.copy()), or write x = x - ... instead of x -= ..."
        return (Finding("inplace-modification", "certain", failed["input untouched"].split(": ")[0], remedy),)
    if "gradient shapes" in failed:
        remedy = (
            "Backward must give each input a gradient of that input's shape: transpose it, or sum over the axes along "
            "which the input was broadcast"
        )
        return (Finding("wrong-shape", "certain", failed["gradient shapes"], remedy),)
    yield Progress(0, 1)
    repeated = probing.differs_when_repeated(case)
    if repeated is not None:
        return (repeated,)
    found: list[Finding] = []
    late: list[Finding] = []
    for name, message in failed.items():
        finding = _of_check(name, message)
        if finding is not None:
            # 0 times an infinite derivative: the derivative is the cause, the zero probe only shows it
            first = name in ("backward is deterministic", "backward scales with grad_output") and "nan" not in message
            (found if first else late).append(finding)
    for pair in case.report.pairs:
        if not pair.differentiable and not pair.passed:
            e = pair.worst(1)[0]
            found.append(
                Finding(
                    "detached",
                    "certain",
                    f"{pair.output} carries no gradient, yet it moves with {pair.input}: numerical "
                    f"{number(e.numerical)}",
                    "Stay within the framework's own operations: no .detach(), .data, .item(), .numpy() or no_grad "
                    "between this input and the output",
                )
            )
    if any(p.differentiable and not p.passed for p in case.report.pairs):
        found += yield from _of_elements(case)
    return _merged(found + late)


CHECKS = {
    "backward is deterministic": (
        "nondeterministic", "certain", "Find what differs between two runs of backward (random numbers, the order of "
        "a sum), or accept it with nondet_tol",
    ),
    "backward scales with grad_output": (
        "not-scaled-by-grad-output", "certain", "Multiply by grad_output in backward: return grad_output * derivative",
    ),
    "undefined grad_outputs": (
        "undefined-grad", "certain", "Treat a grad_output of None as zeros: skip its term, or fill it with zeros",
    ),
    "undefined tangents": ("undefined-grad", "certain", "Treat a missing tangent as zeros"),
    "gradient dtypes": ("wrong-dtype", "certain", "Give each gradient the dtype of its input"),
    "tangent dtypes": ("wrong-dtype", "certain", "Give each tangent the dtype of its output"),
    "batched gradient": (
        "function-mismatch", "likely", "Make the batching rule (vmap) of backward do what backward does for one",
    ),
    "batched forward gradient": (
        "function-mismatch", "likely", "Make the batching rule (vmap) do what forward mode does for one tangent",
    ),
    "output stays": (
        "kink", "possible", "Check at a point where the outputs keep their shape and dtype when an input moves by eps",
    ),
}  # fmt: skip


def _of_check(name: str, message: str) -> Finding | None:
    if name not in CHECKS:
        return None
    cause, confidence, remedy = CHECKS[name]
    evidence = message.removesuffix(". Backward must multiply by grad_output")
    return Finding(cause, confidence, evidence, remedy)


# -- elements -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Read:
    """One failing element that was measured over the ladder."""

    pair: PairReport
    element: Element
    reading: Reading
    curve: Curve

    @property
    def place(self) -> str:
        return self.pair.place(self.element)


def _of_elements(case: Case) -> Generator[Progress, None, list[Finding]]:
    taken = yield from _read_worst(case)
    if not taken:
        return [_cannot_tell("func is too slow to be run over a ladder of steps, or cannot be run there")]
    groups: dict[str, list[Read]] = {}
    for r in taken:
        groups.setdefault(r.reading.status, []).append(r)
    # NaN before all; then what most elements say, and a kink before an accusation
    order = ["nan", "kink", "jump", "near-kink", "wrong", "domain", "large", "small", "unclear"]
    ranked = sorted(groups, key=lambda s: (s != "nan", -len(groups[s]), order.index(s)))
    found: list[Finding] = []
    for status in ranked:
        found += _WORDS[status](case, groups[status])
        yield Progress(1, 1)
    return found


def _read_worst(case: Case) -> Generator[Progress, None, list[Read]]:
    """The worst elements of the failing pairs in turn, in different columns."""
    report = case.report
    failing = [p for p in report.pairs if not p.passed and p.differentiable]
    failing.sort(key=lambda p: -p.comparison.largest_ratio)
    queues = [[(p, e.column) for e in p.worst(16) if e.failing] for p in failing]
    chosen: list[tuple[int, int]] = []
    while any(queues) and len(chosen) < COLUMNS:
        for queue in queues:
            while queue:
                p, column = queue.pop(0)
                if (p.key[1], column) not in chosen:
                    chosen.append((p.key[1], column))
                    break
    taken: list[Read] = []
    for i, column in chosen[:COLUMNS]:
        curves = yield from case.curves(i, column)
        if curves is None:
            continue
        for p in failing:
            if p.key[1] != i or p.key not in curves:
                continue
            rows = np.flatnonzero(p.failing[:, column])
            with np.errstate(all="ignore"):
                worst = rows[np.argsort(-p.ratio[rows, column], kind="stable")][:ROWS]
            for row in worst:
                e = p.comparison.element(int(row), column)
                found = read(
                    curves[p.key], int(row), e.analytical, e.numerical, eps=report.eps, atol=report.atol,
                    rtol=report.rtol,
                )  # fmt: skip
                taken.append(Read(p, e, found, curves[p.key]))
    return taken


def _passing_eps(reads: Sequence[Read]) -> float | None:
    """A step at which all of `reads` pass: a power of ten near the middle of those, if there is one."""
    common = set(reads[0].reading.passing)
    for r in reads[1:]:
        common &= set(r.reading.passing)
    if not common:
        return None
    target = float(np.median(np.log10([r.reading.step for r in reads])))
    round_ones = [h for h in common if f"{h:.0e}" == f"{h:e}".replace(".000000", "")]
    return min(round_ones or list(common), key=lambda h: abs(np.log10(h) - target))


def _use(reads: Sequence[Read], otherwise: str) -> str:
    eps = _passing_eps(reads)
    return otherwise if eps is None else f"Use eps={eps:.2g}: the gradient passes there"


def _kink(case: Case, reads: Sequence[Read]) -> list[Finding]:
    r = reads[0]
    backward, forward = (number(s, 4) for s in r.reading.slopes)
    between = _between(r)
    return [
        Finding(
            "kink",
            "certain" if between else "likely",
            f"{r.place}: the slope is {backward} on one side and {forward} on the other, and the gap does not "
            "shrink with "
            f"eps (analytical {number(r.element.analytical, 4)}, numerical {number(r.element.numerical, 4)})",
            "Check at points away from the kink: at it, any value between the slopes is a convention"
            if between
            else "Check at points away from the kink; if it fails there too, the gradient is wrong",
        )
    ]


def _between(r: Read) -> bool:
    a = r.element.analytical
    low, high = sorted(np.real(s) for s in r.reading.slopes)
    room = r.element.tolerance + 1e-3 * abs(high - low)
    return bool(low - room <= np.real(a) <= high + room)


def _jump(case: Case, reads: Sequence[Read]) -> list[Finding]:
    r = reads[0]
    x = case.values[r.pair.key[1]]
    if _stands_for_integers(x):
        return [_integers(r)]
    return [
        Finding(
            "kink",
            "likely",
            f"{r.place}: func jumps at this very point: the difference quotient grows as 1/eps "
            f"(numerical {number(r.element.numerical, 4)})",
            "Check at points away from the jump",
        )
    ]


def _stands_for_integers(x: Array) -> bool:
    return bool(x.dtype.kind == "f" and x.size and np.array_equal(x, np.round(x)) and np.any(x))


def _integers(r: Read) -> Finding:
    return Finding(
        "integer-input",
        "likely",
        f"all values of {r.pair.input} are whole numbers, and func cuts or rounds them: moved by eps they jump or stay "
        f"(analytical {number(r.element.analytical, 4)}, numerical {number(r.element.numerical, 4)})",
        "Pass labels, indices and counts as integers, or without requires_grad, so that they are not checked",
    )


def _near_kink(case: Case, reads: Sequence[Read]) -> list[Finding]:
    r = reads[0]
    return [
        Finding(
            "kink",
            "likely",
            f"{r.place}: the quotient agrees with the analytical {number(r.element.analytical, 4)} up to a step of "
            f"{r.reading.step:.2g} and leaps to {number(r.element.numerical, 4)} at eps={case.report.eps:g}: a "
            "kink or a "
            "tie lies within eps of this point",
            _use(reads, "Use a smaller eps, or a point away from ties"),
        )
    ]


def _nan(case: Case, reads: Sequence[Read]) -> list[Finding]:
    r = reads[0]
    return [
        Finding(
            "nan-or-inf",
            "certain",
            f"{r.place}: the analytical gradient is {number(r.element.analytical)}, while the function has the "
            "derivative "
            f"{number(r.reading.best)} there",
            "Find the 0 / 0, 0 * inf or log(0) in backward: avoid the division, or mask with where on both sides of it",
        )
    ]


def _domain(case: Case, reads: Sequence[Read]) -> list[Finding]:
    r = reads[0]
    value = r.curve.value[r.element.row]
    if not np.isfinite(value):
        evidence = f"{r.pair.output} itself is {number(float(value))} at this input ({r.place})"
        remedy = "Check at inputs inside of the function's domain"
    else:
        raised = ", raises" if r.curve.raised else ""
        evidence = (
            f"{r.place}: func is not finite{raised} within eps={case.report.eps:g} of this point: the input "
            "lies at the "
            f"edge of the domain (analytical {number(r.element.analytical)}, numerical {number(r.element.numerical)})"
        )
        remedy = _use(reads, "Check at points further than eps from the edge of the domain")
    return [Finding("domain-edge", "certain" if not np.isfinite(value) else "likely", evidence, remedy)]


def _large(case: Case, reads: Sequence[Read]) -> list[Finding]:
    r = reads[0]
    return [
        Finding(
            "step-too-large",
            "certain" if r.reading.passing else "likely",
            f"{r.place}: with smaller steps the numerical value tends to {number(r.reading.best)}, and the "
            "analytical is "
            f"{number(r.element.analytical)}; at eps={case.report.eps:g} func curves too much within the step",
            _use(reads, "Use a smaller eps, or scale the input"),
        )
    ]


def _small(case: Case, reads: Sequence[Read]) -> list[Finding]:
    r = reads[0]
    eps, precision = case.report.eps, case.precision(r.pair.key)
    value, best = r.curve.value[r.element.row], number(r.reading.best)
    analytical = number(r.element.analytical)
    agrees = f"at a step of {r.reading.step:.2g} the numerical value is {best}, the analytical {analytical}"
    sure = "certain" if r.reading.passing else "likely"
    if precision > 1e-10:
        x, single = case.measurement.templates[r.pair.key[1]], case.single[r.pair.key[0]]
        what = "func computes in single precision inside" if single else f"{r.pair.input} is {x.dtype}"
        if not single and x.dtype.itemsize == (16 if x.is_complex else 8):
            what = f"{r.pair.output} is {case.measurement.outputs[r.pair.key[0]].dtype}"
        return [
            Finding(
                "float32-precision",
                sure,
                f"{what}: rounding alone changes the quotient by about {r.reading.rounding:.2g} at eps={eps:g} "
                f"({r.place}: {agrees})",
                "Convert inputs and constants to double precision" + _or_eps(reads),
            )
        ]
    if np.isfinite(value) and r.reading.rounding * 20 >= r.element.error > 0:
        return [
            Finding(
                "large-magnitude",
                sure,
                f"the output is {value:.3g}, so rounding alone changes the quotient by about "
                f"{r.reading.rounding:.2g} at "
                f"eps={eps:g} ({r.place}: {agrees})",
                _use(reads, "Use a larger eps") + ", or take the large constant off before the check",
            )
        ]
    return [
        Finding(
            "step-too-small",
            sure,
            f"at eps={eps:g} noise of func exceeds what the step moves ({r.place}: {agrees})",
            _use(reads, "Use a larger eps, in proportion to the size of the input"),
        )
    ]


def _or_eps(reads: Sequence[Read]) -> str:
    eps = _passing_eps(reads)
    return ", or loosen atol and rtol to what the dtype can show" if eps is None else f", or use eps={eps:.2g}"


def _unclear(case: Case, reads: Sequence[Read]) -> list[Finding]:
    """No plateau: the noise is named if it explains the error, and nothing is accused."""
    r = reads[0]
    U, precision = r.reading.uncertainty, case.precision(r.pair.key)
    if precision > 1e-10 and r.element.error <= 50 * max(r.reading.rounding, U):
        return _small(case, reads)
    if r.reading.rounding * 20 >= r.element.error > 0:
        return _small(case, reads)
    return [
        _cannot_tell(
            f"{r.place}: over all steps the numerical value is not known better than {number(r.reading.best)} "
            f"+- {U:.2g}, "
            f"and the tolerance is {r.element.tolerance:.2g} (analytical {number(r.element.analytical)})"
        )
    ]


# -- a wrong gradient ---------------------------------------------------------------------------------------------
def _wrong(case: Case, reads: Sequence[Read]) -> list[Finding]:
    found: list[Finding] = []
    hand = bool(quietly(lambda: probing.by_hand(case), True))
    for pair in dict.fromkeys(r.pair for r in reads):
        mine = [r for r in reads if r.pair is pair]
        finding = _wrong_pair(case, pair, mine, hand)
        if not hand and finding.cause in _AUTODIFF_CANNOT:
            finding = _cut_graph(finding)
        found.append(finding)
    causes = [f.cause for f in found]
    found.sort(key=lambda f: (CONFIDENCES.index(f.confidence), -causes.count(f.cause)))
    return found


# a framework's own derivatives do not make these mistakes: there a part of the graph was cut off
_AUTODIFF_CANNOT = {
    "wrong-scale", "sign-flip", "missing-term", "missing-accumulation", "missing-batch-sum", "transposed",
    "function-mismatch", "wrong-saved-value",
}  # fmt: skip


def _cut_graph(finding: Finding) -> Finding:
    return Finding(
        "detached",
        "likely",
        f"all derivatives are the framework's own, and still the gradient is wrong: {finding.evidence}",
        "Look for .detach(), .data, .item(), no_grad, in-place writes to .data or a detour through NumPy inside func",
    )


def _wrong_pair(case: Case, pair: PairReport, reads: Sequence[Read], hand: bool) -> Finding:
    r = reads[0]
    if all(q.reading.best == 0 for q in reads) and quietly(lambda: probing.staircase(case, pair), False):
        if _stands_for_integers(case.values[pair.key[1]]):
            return _integers(r)
        return Finding(
            "surrogate-gradient",
            "certain",
            "func is a staircase: it does not move at all for small steps, so its derivative is 0, while the "
            "analytical "
            f"gradient is {number(r.element.analytical)} ({r.place})",
            "If that is meant (a straight-through estimator), do not check it, or check the smooth function that it "
            "stands for",
        )
    noise = 8 * case.noise(pair)
    if noise > 0.3 * float(pair.tolerance.min()):
        finding = explained(_columns_of(case, pair), COLUMN_RULES)
        return finding or _fallback(pair, r)
    slack = pair.tolerance + noise
    sides = _sides(case, pair, slack)
    finding = explained(sides, PAIR_RULES)
    if finding is not None:
        return _as_complex(case, pair, finding)
    tests: list[Callable[[], Finding | None]] = [
        lambda: probing.only_at_this_point(case, pair, r.element),
        lambda: probing.saved_another_value(case, pair, slack),
        lambda: probing.gradient_does_not_move(case, pair, slack),
        lambda: explained(sides, WEAK_RULES),
    ]
    for test in tests if case.in_time else tests[-1:]:  # all but the last run func
        finding = quietly(test)
        if finding is not None:
            return finding
    return _fallback(pair, r)


def _as_complex(case: Case, pair: PairReport, finding: Finding) -> Finding:
    """A real input of a complex output: where only the imaginary part has the wrong sign, a conjugate is missing."""
    if finding.cause == "sign-flip" and pair.part == "imag":
        k, i, _ = pair.key
        real = [p for p in case.report.pairs if p.key == (k, i, "real") and p.mode == pair.mode]
        if real and real[0].passed:
            return Finding(
                "complex-convention",
                "certain",
                f"{finding.evidence}; that of the real part agrees",
                "Conjugate the derivative: f pulls g back to g * conj(f'), of which a real input takes the real part",
            )
    return finding


def _sides(case: Case, pair: PairReport, slack: Array) -> Sides:
    m = case.measurement
    others = tuple(
        (f"input {i}", np.asarray(m.engine.array(x)))
        for i, x in enumerate(m.inputs)
        if m.engine.is_tensor(x) and len(getattr(x, "shape", ())) == 2
    )
    return Sides(
        pair.analytical, pair.numerical, slack, pair.output_shape, pair.input_shape, case.values[pair.key[1]],
        pair.name,
        others,
    )  # fmt: skip


def _columns_of(case: Case, pair: PairReport) -> Sides:
    """The columns that were measured over the ladder, with the best numerical values instead of those at eps."""
    columns = [j for (i, j), curves in case._curves.items() if i == pair.key[1] and curves is not None]
    A = pair.analytical[:, columns]
    N, slack = np.zeros_like(pair.numerical[:, columns]), np.zeros(A.shape)
    for n, j in enumerate(columns):
        curves = case._curves[pair.key[1], j]
        assert curves is not None
        for row in range(A.shape[0]):
            found = read(
                curves[pair.key], row, A[row, n].item(), 0.0, eps=case.report.eps, atol=pair.comparison.atol,
                rtol=pair.comparison.rtol,
            )  # fmt: skip
            N[row, n], slack[row, n] = found.best, found.uncertainty
    known = np.isfinite(N) & np.isfinite(slack)
    A, N, slack = np.where(known, A, 0), np.where(known, N, 0), np.where(known, slack, 0)
    slack = 3 * slack + pair.comparison.atol + pair.comparison.rtol * abs(N)
    x = case.values[pair.key[1]].reshape(-1)[columns]
    return Sides(A, N, slack, (A.shape[0],), (A.shape[1],), x, pair.name)


def _fallback(pair: PairReport, r: Read) -> Finding:
    return Finding(
        "missing-term",
        "possible",
        f"the gradient is wrong, not the step: {r.place} is {number(r.reading.best)} +- "
        f"{r.reading.uncertainty:.1g} over "
        f"all steps, analytical {number(r.element.analytical)}; {pair.failing_count:,} of {pair.size:,} "
        "elements fail, in "
        "no pattern that is known",
        "Derive backward again term by term; check its parts one at a time",
    )


_WORDS: dict[str, Callable[[Case, Sequence[Read]], list[Finding]]] = {
    "wrong": _wrong,
    "kink": _kink,
    "jump": _jump,
    "near-kink": _near_kink,
    "nan": _nan,
    "domain": _domain,
    "large": _large,
    "small": _small,
    "unclear": _unclear,
}
