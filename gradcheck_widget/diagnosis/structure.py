"""A wrong analytical Jacobian A beside the right one N: what turns one into the other names the mistake.

Each rule is a function of one pair that gives a `Finding` or None; `PAIR_RULES` holds them in the order in which they
are asked, the most specific first. A rule has to explain every failing element, and may spoil no other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from ..findings import Finding
from ..report import number

__all__ = ["COLUMN_RULES", "PAIR_RULES", "WEAK_RULES", "Sides", "constant_ratio", "explained", "fraction_text"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Sides:
    """Both Jacobians of one output and one input, of shape (output size, input size), and what belongs to them.

    ``slack`` is the error that the numerical side may have: the tolerance, and the noise of the step. `others` are all
    inputs of func, by name, with the checked one `x` among them.
    """

    A: Array
    N: Array
    slack: Array
    output_shape: tuple[int, ...]
    input_shape: tuple[int, ...]
    x: Array
    name: str = "output 0 <- input 0"
    others: tuple[tuple[str, Array], ...] = ()

    def fits(self, A: Array, N: Array | None = None) -> bool:
        """Whether `A` is the numerical Jacobian, everywhere."""
        N = self.N if N is None else N
        with np.errstate(all="ignore"):
            return A.shape == N.shape and bool((abs(A - N) <= self.slack).all())

    @cached_property
    def failing(self) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(~(abs(self.A - self.N) <= self.slack))

    @cached_property
    def telling(self) -> Array:
        """Elements whose numerical value stands out of its error by far."""
        return np.asarray(abs(self.N) > 10 * self.slack)

    @property
    def full(self) -> tuple[int, ...]:
        return self.output_shape + self.input_shape

    @property
    def of(self) -> str:
        """``on 5 of 12 elements of output 0 <- input 1``"""
        return f"on {np.count_nonzero(self.failing):,} of {self.A.size:,} elements of {self.name}"


def fraction_text(ratio: float) -> str:
    """``0.2 (1/5)``: with the fraction, where the ratio is one of small numbers."""
    near = Fraction(ratio).limit_denominator(64)
    if near and abs(float(near) - ratio) <= 2e-4 * abs(ratio) and near.denominator > 1:
        return f"{ratio:.4g} ({near})"
    return f"{float(near):.4g}" if near and abs(float(near) - ratio) <= 2e-4 * abs(ratio) else f"{ratio:.6g}"


def constant_ratio(A: Array, N: Array, slack: Array) -> float | None:
    """r with A = r N up to the error of N, if there is one, from all elements at once; 0 does not count.

    Least squares: r = <N, A> / <N, N>, which weighs the elements with the least relative error most.
    """
    norm = float((abs(N) ** 2).sum())
    if not norm or not math.isfinite(norm) or not np.isfinite(A).all():
        return None
    r = float(np.real((np.conj(N) * A).sum()) / norm)
    if r == 0 or not (abs(A - r * N) <= slack * max(1.0, abs(r))).all():
        return None
    # an error of N must not pass for a factor
    return r if abs(r) * math.sqrt(norm) > float(slack.min()) and abs(r) > 1e-9 else None


def _finding(cause: str, confidence: str, evidence: str, remedy: str) -> Finding:
    return Finding(cause, confidence, evidence, remedy)


# -- the rules ----------------------------------------------------------------------------------------------------
def nothing_flows(s: Sides) -> Finding | None:
    """A = 0 although N is not."""
    if np.any(s.A) or not s.failing.any():
        return None
    return _finding(
        "detached",
        "likely",
        f"the analytical gradient is exactly 0 {s.of.replace('on ', 'everywhere, where the numerical one is not ', 1)}",
        "Look for .detach(), .data, .item(), no_grad or a conversion to another library on the way from this input to "
        "the output; in a hand-written backward, return the gradient of this input instead of zeros or None",
    )


def conjugated(s: Sides) -> Finding | None:
    """A = conj(N), perhaps times a factor (Wirtinger derivatives have 1/2)."""
    if not (np.iscomplexobj(s.A) or np.iscomplexobj(s.N)) or not (abs(s.N.imag) > s.slack).any():
        return None
    r = constant_ratio(np.conj(s.A), s.N, s.slack)
    if r is None or abs(r) < 1e-3:
        return None
    factor = "" if abs(r - 1) < 1e-3 else f" times {fraction_text(r)}"
    return _finding(
        "complex-convention",
        "certain" if not factor else "likely",
        f"the analytical gradient is the complex conjugate of the numerical one{factor}, {s.of}",
        "The gradient of a real loss L at z = a + bi is dL/da + i dL/db: conjugate the derivative, so that a "
        "holomorphic f pulls g back to g * conj(f'(z))",
    )


def negated(s: Sides) -> Finding | None:
    """A = -N everywhere, or in the failing places and A = N in the others."""
    where = s.failing
    if not (where & s.telling).any():
        return None
    if not (abs(s.A + s.N)[where] <= 2 * s.slack[where]).all():
        return None
    everywhere = not (s.telling & ~where).any()
    count = int(np.count_nonzero(where))
    return _finding(
        "sign-flip",
        "certain" if everywhere and count > 1 else "likely",
        f"the analytical gradient is minus the numerical one, {s.of}"
        + ("" if everywhere else "; the other elements agree"),
        "Turn the sign of this input's gradient in backward"
        if everywhere
        else "Turn the sign of the terms that belong to these elements; does it depend on the sign of the input?",
    )


def scaled(s: Sides) -> Finding | None:
    """A = r N everywhere, or in the failing places and A = N in the others."""
    where = s.failing
    r = constant_ratio(s.A, s.N, s.slack)
    if r is None and where.sum() > 2 and (s.telling & where).any():
        r = constant_ratio(s.A[where], s.N[where], s.slack[where])
    if r is None:
        return None
    count = int(np.count_nonzero(where & s.telling))
    sizes = {n: f"; {n} is the length of an axis" for n in (*s.output_shape, *s.input_shape) if n > 1}
    hint = next((t for n, t in sizes.items() if abs(r * n - 1) < 2e-3 or abs(r / n - 1) < 2e-3), "")
    nice = fraction_text(r) != f"{r:.6g}" or bool(hint)
    if count < 2 and not nice:  # one number is always a multiple of another
        return None
    return _finding(
        "wrong-scale",
        "certain" if count > 2 else "likely" if count == 2 else "possible",
        f"analytical / numerical = {fraction_text(r)} {s.of}{hint}",
        f"Multiply this input's gradient by {fraction_text(1 / r)}: look for a factor (2, 1/n of a mean, a "
        "weight) that "
        "is missing, or applied twice",
    )


def swapped_axes(s: Sides) -> Finding | None:
    """N after two axes of equal length are exchanged, of the input, of the output, or one of each."""
    if not np.isfinite(s.A).all():
        return None
    full, A = s.full, s.A.reshape(s.full)
    k = len(s.output_shape)
    for a, b in itertools.combinations(range(len(full)), 2):
        if full[a] == full[b] > 1 and s.fits(A.swapaxes(a, b).reshape(s.A.shape)):
            where = "input" if a >= k else "output" if b < k else ""
            what = (
                f"axes {a - k} and {b - k} of the input" if where == "input"
                else f"axes {a} and {b} of the output" if where == "output"
                else f"axis {a} of the output and axis {b - k} of the input"
            )  # fmt: skip
            return _finding(
                "transposed",
                "certain",
                f"the analytical Jacobian equals the numerical one after {what} are exchanged ({s.of})",
                "Transpose this input's gradient (g.T, swapaxes) in backward"
                if where == "input"
                else "Multiply by the transposed matrix in backward: y = x @ W pulls g back to g @ W.T",
            )
    return None


def other_memory_order(s: Sides) -> Finding | None:
    """N after the input's (output's) gradient is read row by row where it was written column by column."""
    k = len(s.output_shape)
    for first, shape, what in ((k, s.input_shape, "input"), (0, s.output_shape, "output")):
        for axis in range(len(shape) - 1):
            p, q = shape[axis : axis + 2]
            if p == q or min(p, q) < 2:
                continue
            wrong = (*s.full[: first + axis], q, p, *s.full[first + axis + 2 :])
            A = s.A.reshape(wrong).swapaxes(first + axis, first + axis + 1).reshape(s.A.shape)
            if s.fits(A):
                return _finding(
                    "transposed",
                    "certain",
                    f"the analytical Jacobian equals the numerical one if its {what} part is read as shape "
                    f"{wrong[first : first + len(shape)]} and transposed to {shape} ({s.of})",
                    f"The gradient was computed as {(q, p)} and reshaped to {(p, q)}: transpose it instead (.T), or "
                    "reshape in the other memory order",
                )
    return None


def permuted(s: Sides) -> Finding | None:
    """The columns of N, or the numbers of each of its rows, in another order."""
    if not s.telling.any() or not np.isfinite(s.A).all() or not np.isfinite(s.N).all():
        return None
    n = s.A.shape[1]
    if n < 2 or n > 400:
        return None
    order = _matching(s.A, s.N, s.slack)
    if order is not None and np.any(order != np.arange(n)) and (s.A.shape[0] > 1 or n > 2):
        moved = int(np.flatnonzero(order != np.arange(n))[0])
        return _finding(
            "transposed",
            "likely",
            "the columns of the analytical Jacobian are those of the numerical one in another order: column "
            f"{moved} is "
            f"column {int(order[moved])} of it ({s.of})",
            "Check the indices, axes or the permutation with which backward writes this input's gradient (it may need "
            "the inverse one)",
        )
    if n > 2 and (s.telling.sum(axis=1)[s.failing.any(axis=1)] > 2).all():
        A, N = np.sort(s.A.real, axis=1), np.sort(s.N.real, axis=1)
        distinct = np.diff(N, axis=1) > 4 * s.slack.max()
        if s.fits(A, N) and not np.iscomplexobj(s.A) and (distinct.sum(axis=1)[s.failing.any(axis=1)] > 1).all():
            return _finding(
                "transposed",
                "likely",
                f"each row of the analytical Jacobian has the numbers of the numerical one in another order ({s.of})",
                "Check transposes, axes and indices in backward",
            )
    return None


def _matching(A: Array, N: Array, slack: Array) -> Array | None:
    """For each column of A the column of N that it equals, each once; equal columns stay where they are."""
    n = A.shape[1]
    order = np.full(n, -1)
    free = set(range(n))
    with np.errstate(all="ignore"):
        for j in range(n):
            good = (abs(A[:, j, None] - N) <= slack).all(axis=0)
            options = [c for c in np.flatnonzero(good) if c in free]
            if not options:
                return None
            order[j] = j if j in options else options[0]
            free.discard(int(order[j]))
    return order


def transposed_factor(s: Sides) -> Finding | None:
    """One factor of the chain is a known square matrix W, and A has it the other way round.

    Rows v W^T of N and v W of A have the same v: A W^-1 = N W^-T. Likewise if a diagonal follows, N = D M and
    A = D M^T: then R[i, j] = N[i, j] / A[j, i] = d_i / d_j, so that R[i, j] R[j, k] R[k, i] = 1.
    """
    if not np.isfinite(s.A).all() or not s.input_shape:
        return None
    d = s.input_shape[-1]
    evidence = ""
    for name, W in s.others:
        if W.shape == (d, d) and d > 1 and W.dtype.kind == "f" and s.A.size:
            a, n = (M.reshape(-1, d).astype(float) for M in (s.A.real, s.N.real))
            if np.linalg.cond(W) < 1e4 and not np.allclose(W, W.T):
                for first, second in ((W, W.T), (W.T, W)):
                    u, v = np.linalg.solve(first.T, a.T), np.linalg.solve(second.T, n.T)
                    if abs(u - v).max() <= 1e-3 * abs(v).max():
                        evidence = (
                            f"the analytical Jacobian multiplies by {name} where the numerical one has its transpose"
                        )
    m, n_ = s.A.shape
    if not evidence and m == n_ >= 3 and s.telling.all() and np.all(s.A.T):
        R = s.N / s.A.T
        cycles = R[:, :, None] * R[None] * R.T[:, None, :]
        if not s.fits(s.A) and abs(cycles - 1).max() < 1e-2:
            evidence = "the analytical Jacobian is D M^T where the numerical one is D M, with D diagonal"
    if not evidence:
        return None
    return _finding(
        "transposed",
        "likely",
        f"{evidence} ({s.of})",
        "Multiply by the transposed matrix in backward: y = x @ W pulls g back to g @ W.T",
    )


def symmetric_matrix(s: Sides) -> Finding | None:
    """At a symmetric matrix A + A^T = N + N^T: moving both (i, j) and (j, i) gives the same on both sides."""
    shape = s.input_shape
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] < 2:
        return None
    if not np.allclose(s.x, np.conj(s.x.swapaxes(-1, -2)), rtol=1e-12, atol=0):
        return None
    if not np.any(s.x - np.eye(shape[-1]) * s.x):  # a diagonal matrix is symmetric by accident
        return None
    A, N, slack = (M.reshape(s.full) for M in (s.A, s.N, s.slack))
    both = [M + M.swapaxes(-1, -2) for M in (A, N)]
    with np.errstate(all="ignore"):
        if not (abs(both[0] - both[1]) <= 2 * np.maximum(slack, slack.swapaxes(-1, -2))).all():
            return None
    # elements of the numerical side that do not move, or count twice, show a triangle that is not read
    upper, lower = np.triu_indices(shape[-1], 1), np.tril_indices(shape[-1], -1)
    unread = [
        name
        for name, (i, j) in (("upper", upper), ("lower", lower))
        if not np.any(abs(N[..., i, j]) > slack[..., i, j])
    ]
    more = f"; func does not read the {unread[0]} triangle" if len(unread) == 1 else ""
    return _finding(
        "symmetric-input",
        "certain" if more else "likely",
        f"the input is a symmetric matrix, and analytical and numerical Jacobian agree once they are symmetrised{more} "
        f"({s.of})",
        "Check x -> func((x + x.T) / 2): single entries then stay within the symmetric matrices",
    )


def one_sample_only(s: Sides) -> Finding | None:
    """Along one axis of the output a single index agrees, and A is 0 at all others."""
    A, N, bad = (M.reshape((*s.output_shape, -1)) for M in (s.A, s.N, s.failing))
    for axis, length in enumerate(s.output_shape):
        if length < 2:
            continue
        rest = tuple(a for a in range(A.ndim) if a != axis)
        fails, nonzero = np.asarray(bad.any(axis=rest)), np.asarray((A != 0).any(axis=rest))
        present = (np.asarray(N) != 0).any(axis=rest)
        good = np.flatnonzero(~fails)
        if len(good) == 1 and nonzero[good[0]] and present.all() and not nonzero[fails].any():
            return _finding(
                "missing-batch-sum",
                "certain" if length > 2 else "likely",
                f"along axis {axis} of the output only index {good[0]} of {length} has a gradient, and that is right; "
                f"at the others it is exactly 0 ({s.of})",
                f"Sum grad_output over the axis along which this input is broadcast: grad_output.sum(axis={axis}) "
                f"instead of grad_output[{', '.join([':'] * axis + [str(good[0])])}]",
            )
    return None


def kept_one_contribution(s: Sides) -> Finding | None:
    """An element that feeds several outputs has the gradient of one of them; or, through a sum, N = k A with "
    "whole k."""
    missing = s.failing & (s.A == 0)
    columns = s.failing.any(axis=0)
    if s.failing.any() and np.array_equal(missing, s.failing) and s.telling[missing].all():
        kept = (~s.failing & (s.A != 0)).any(axis=0)
        if kept[columns].all():
            j = int(np.flatnonzero(columns)[0])
            uses, have = int(np.count_nonzero(s.N[:, j])), int(np.count_nonzero(s.A[:, j]))
            return _finding(
                "missing-accumulation",
                "likely",
                f"each failing element is 0 in the analytical Jacobian, while others of the same input element are "
                f"right: input element {j} feeds {uses} outputs and has the gradient of {have} ({s.of})",
                "Add contributions up instead of overwriting: np.add.at(dx, index, g), index_add, or dx[...] += g in a "
                "loop (dx[index] += g keeps one of the repeated indices)",
            )
    if not s.failing.any() or not np.isfinite(s.A).all():
        return None
    where = s.telling & (s.A != 0)
    if (s.failing & ~where).any():
        return None
    ratio = np.real(s.N[where] / s.A[where])
    whole = np.round(ratio)
    with np.errstate(all="ignore"):
        exact = abs(ratio - whole) <= 2 * s.slack[where] / abs(s.A[where]) + 1e-4
    if not exact.all() or (whole < 1).any() or len(set(whole)) < 2 or whole.max() > 64:
        return None
    counts = np.ones(s.A.shape)
    counts[where] = whole
    big = counts.max(axis=0)
    if any(len(set(counts[where[:, j], j])) > 1 for j in np.flatnonzero(columns)):
        return None
    return _finding(
        "missing-accumulation",
        "likely" if s.failing.sum() > 1 else "possible",
        f"numerical / analytical is a whole number that differs between input elements, up to {big.max():g} ({s.of}): "
        "elements that are used several times have the gradient of one use",
        "Add contributions up instead of overwriting: np.add.at(dx, index, g), index_add, or dx[...] += g in a loop",
    )


def same_for_every_output(s: Sides) -> Finding | None:
    """All rows of A are equal: whichever output is asked for, backward answers for their sum."""
    m = s.A.shape[0]
    if m < 2 or not np.isfinite(s.A).all():
        return None
    if abs(s.A - s.A[:1]).max() > 1e-12 * abs(s.A).max() or not s.failing.any():
        return None
    if s.A.shape[1] < 2 and not (abs(s.A[0] - s.N.sum(axis=0)) <= s.slack.sum(axis=0)).all():
        return None
    total = (abs(s.A[0] - s.N.sum(axis=0)) <= s.slack.sum(axis=0)).all()
    return _finding(
        "not-scaled-by-grad-output",
        "certain" if total else "likely",
        f"all {m} rows of the analytical Jacobian are equal"
        + (", and equal to the column sums of the numerical one" if total else "")
        + f" ({s.of}): backward answers the same, whichever output is asked for",
        "Multiply by grad_output element by element (grad_output * ...) before anything is summed",
    )


def rounded(s: Sides) -> Finding | None:
    """A is N cut to integers, or rounded to fewer digits than the input has."""
    if np.iscomplexobj(s.A) or not np.isfinite(s.A).all() or not s.failing.any():
        return None
    whole = (abs(s.N - np.round(s.N)) <= s.slack)[s.failing].all()  # these, no cut to integers changes
    for cut, what in ((np.trunc, "cut to integers"), (np.round, "rounded to integers"), (np.floor, "floored")):
        if not whole and np.array_equal(s.A, np.round(s.A)) and s.A.any() and _rounds(s, cut):
            return _finding(
                "wrong-dtype",
                "certain" if s.A.size > 1 else "likely",
                f"the analytical gradient is the numerical one {what} ({s.of})",
                "Write the gradient into an array of the input's dtype: np.zeros_like(x), dtype=float",
            )
    for bits, what in ((8, "bfloat16"), (11, "float16"), (24, "float32")):
        digits = 2.0 ** -(bits - 1)
        mantissa, _ = np.frexp(s.A)
        short = np.array_equal(mantissa * 2.0**bits, np.round(mantissa * 2.0**bits))
        near = (abs(s.A - s.N) <= digits * abs(s.N) + s.slack).all()
        if short and near and (s.failing & s.telling).any() and _many_digits(s.N, bits):
            return _finding(
                "wrong-dtype",
                "likely",
                f"the analytical gradient has the {bits} bits of {what}, and is right up to these ({s.of})",
                "Compute and store the gradient in the input's dtype",
            )
    return None


def _rounds(s: Sides, cut: Callable[[Array], Array]) -> bool:
    """Whether A is `cut` of N, within the error that N has."""
    low, high = cut(s.N - s.slack), cut(s.N + s.slack)
    return bool(((low <= s.A) & (high >= s.A)).all())


def _many_digits(N: Array, bits: int) -> bool:
    mantissa, _ = np.frexp(N[np.isfinite(N) & (N != 0)])
    scaled = mantissa * 2.0**bits
    return bool((abs(scaled - np.round(scaled)) > 1e-3).any())


def factor_by_row_or_column(s: Sides) -> Finding | None:
    """A = diag(c) N or A = N diag(c): a factor that belongs to each output, or to each input, is missing."""
    if not np.isfinite(s.A).all() or min(s.A.shape) < 2:
        return None
    for axis, what in ((0, "output"), (1, "input")):
        A, N, slack, telling = (M if axis == 0 else M.T for M in (s.A, s.N, s.slack, s.telling))
        counts = telling.sum(axis=1)
        if counts.max(initial=0) < 2:
            continue
        with np.errstate(all="ignore"):
            c = np.real((np.conj(N) * A).sum(axis=1) / np.maximum((abs(N) ** 2).sum(axis=1), 1e-300))
        c = np.where(counts > 0, c, 1.0)
        if (abs(A - c[:, None] * N) <= slack * np.maximum(1, abs(c))[:, None]).all() and np.count_nonzero(
            counts > 1
        ) > 1:
            shown = ", ".join(number(float(v), 4) for v in c[:4])
            return _finding(
                "missing-term",
                "likely",
                f"analytical / numerical is the same for all elements of one {what} and differs between them: {shown}"
                f"{', ...' if len(c) > 4 else ''} ({s.of})",
                f"A factor with one value for each element of the {what} is missing in backward, or one too many: the "
                "derivative of an elementwise step, a weight, a mask",
            )
    return None


def diagonal_only(s: Sides) -> Finding | None:
    """A is right on the diagonal, or off it, and 0 elsewhere; or A - N has low rank: a term of the sum is absent."""
    missing = s.failing & (s.A == 0)
    if s.failing.any() and np.array_equal(missing, s.failing) and (~s.failing & (s.A != 0)).any():
        return _finding(
            "missing-term",
            "likely",
            f"every failing element is exactly 0 in the analytical Jacobian, and all others are right ({s.of})",
            "Part of the dependence was left out of backward: elements that act on each other (a sum, a mean, a "
            "normalisation) give the Jacobian entries off the diagonal",
        )
    return None


Rule = Callable[[Sides], "Finding | None"]
PAIR_RULES: Sequence[Rule] = (
    nothing_flows,
    one_sample_only,
    conjugated,
    negated,
    same_for_every_output,
    scaled,
    rounded,
    swapped_axes,
    other_memory_order,
    symmetric_matrix,
    kept_one_contribution,
    transposed_factor,
    permuted,
)
# shapes of a mistake rather than mistakes: asked when nothing else explains it
WEAK_RULES: Sequence[Rule] = (diagonal_only, factor_by_row_or_column)
# those that need no more than some columns of the Jacobian
COLUMN_RULES: Sequence[Rule] = (nothing_flows, conjugated, negated, scaled)


def explained(s: Sides, rules: Sequence[Rule] = PAIR_RULES) -> Finding | None:
    """What the first of `rules` that applies says."""
    with np.errstate(all="ignore"):
        return next((f for f in (rule(s) for rule in rules) if f is not None), None)
