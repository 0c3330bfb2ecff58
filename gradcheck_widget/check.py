"""The contract: `gradcheck`, `gradgradcheck` and `gradcheck_report`, with PyTorch's arguments and messages."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from . import probes
from .comparison import Comparison
from .diagnosis import attach, diagnose, diagnosis_steps, explain
from .engines import Engine
from .errors import GradcheckError, OutputChanged, UsageError
from .jacobians import Key, Progress, Template, drain
from .measurement import Measurement, as_tuple
from .probes import Check
from .projections import Projected, random_rows
from .report import GradcheckReport, PairReport, tolerance_value

__all__ = ["Settings", "build_report", "gradcheck", "gradcheck_report", "gradgradcheck", "report_steps", "run_checks"]


@dataclass(frozen=True)
class Settings:
    """The arguments of `gradcheck`, validated.

    Raises
    ------
    ValueError
        If eps, atol, rtol or nondet_tol is negative, NaN or not a number, or eps is 0.
    """

    eps: float = 1e-6
    atol: float = 1e-5
    rtol: float = 1e-3
    nondet_tol: float = 0.0
    check_undefined_grad: bool = True
    check_grad_dtypes: bool = False
    check_batched_grad: bool = False
    check_batched_forward_grad: bool = False
    check_forward_ad: bool = False
    check_backward_ad: bool = True
    fast_mode: bool = False
    masked: bool | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("eps", "atol", "rtol", "nondet_tol"):
            object.__setattr__(self, name, tolerance_value(name, getattr(self, name), positive=name == "eps"))

    def refuse_unsupported(self, engine: Any, names: Mapping[str, str] = MappingProxyType({})) -> None:
        """Raise for what asks for nothing and for flags that `engine` does not have; `names`: what the caller calls
        them."""
        forward, backward = (names.get(flag, flag) for flag in ("check_forward_ad", "check_backward_ad"))
        if not (self.check_backward_ad or self.check_forward_ad):
            raise UsageError(
                f"Expected at least one of {forward} and {backward} to be True: with both False there is nothing to "
                "compare the numerical gradient with"
            )
        for flag in ("check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "fast_mode"):
            if getattr(self, flag) and flag not in engine.supports:
                has = " and ".join(["reverse mode", *sorted(names.get(f, f) for f in engine.supports)])
                raise NotImplementedError(
                    f"{names.get(flag, flag)}=True is not supported by the {engine.name} engine, which has {has} only. "
                    "The torch and jax engines support it, for their own tensors"
                )
        for flag, needed in (("check_batched_grad", backward), ("check_batched_forward_grad", forward)):
            if getattr(self, flag) and not getattr(
                self, "check_backward_ad" if needed == backward else "check_forward_ad"
            ):
                raise UsageError(f"Setting {flag}=True requires {needed} to be True")


def run_checks(measurement: Measurement, settings: Settings) -> tuple[Check, ...]:
    """The side checks; they depend on neither atol nor rtol. The analytical Jacobians are measured on the way.

    A `GradcheckError` of the engine (a gradient of the wrong shape) becomes a failed check.
    """
    try:
        checks = _reverse_checks(measurement, settings) if settings.check_backward_ad else []
        if settings.check_forward_ad:
            checks += _forward_checks(measurement, settings)
    except GradcheckError as error:
        return (Check("gradient shapes", False, str(error)),)
    return tuple(checks)


def _reverse_checks(measurement: Measurement, settings: Settings) -> list[Check]:
    linearization = measurement.linearization
    inputs, outputs = measurement.templates, measurement.outputs
    if settings.fast_mode:
        first, second = measurement.guarded(lambda: [random_rows(linearization, inputs, outputs) for _ in "12"])
    else:
        first, second = measurement.analytical, measurement.second_analytical()
    checks = [
        Check("gradient shapes", True, "each gradient has the shape of its input"),
        probes.reentrant(first, second, settings.nondet_tol),
    ]
    more = [probes.scaled_by_grad_output]
    if settings.check_undefined_grad:
        more.append(probes.undefined_grads)
    if settings.check_grad_dtypes:
        more.append(probes.gradient_dtypes)
    if settings.check_batched_grad:
        more.append(probes.batched_grad)
    return checks + measurement.guarded(lambda: [probe(linearization, inputs, outputs) for probe in more])


def _forward_checks(measurement: Measurement, settings: Settings) -> list[Check]:
    if not settings.fast_mode:
        measurement.forward  # noqa: B018  (measured here, with its errors)
    more = []
    if settings.check_undefined_grad:
        more.append(probes.undefined_tangents)
    if settings.check_grad_dtypes:
        more.append(probes.forward_dtypes)
    if settings.check_batched_forward_grad:
        more.append(probes.batched_forward_grad)
    push = measurement.pushforward
    return measurement.guarded(lambda: [probe(push, measurement.templates, measurement.outputs) for probe in more])


def build_report(measurement: Measurement, settings: Settings, checks: Sequence[Check]) -> GradcheckReport:
    """Judge what `measurement` holds at ``settings.eps``; what is missing is measured."""
    report: GradcheckReport = drain(_report_steps(measurement, settings, tuple(checks)))
    return report


def report_steps(
    measurement: Measurement, settings: Settings, checks: Sequence[Check] | None = None
) -> Generator[Progress, None, tuple[GradcheckReport, tuple[Check, ...]]]:
    """Measure and judge, one row or column at a time: gives the report and its side checks.

    `checks` are those of an earlier report of this measurement, which depend on none of eps, atol and rtol.
    """
    if not settings.fast_mode:
        try:
            yield from measurement.steps(
                settings.eps, backward=settings.check_backward_ad, forward=settings.check_forward_ad
            )
        except GradcheckError:
            pass  # becomes a failed check below
    found = run_checks(measurement, settings) if checks is None else tuple(checks)
    report = yield from _report_steps(measurement, settings, found)
    return report, found


def _report_steps(
    measurement: Measurement, settings: Settings, checks: tuple[Check, ...]
) -> Generator[Progress, None, GradcheckReport]:
    """A failure seen on a shortcut is decided the plain way: one of the fast mode by the slow mode, one of a quick
    evaluator by the plain one."""
    if settings.fast_mode:
        if settings.seed is None:  # another one each time, so that a wrong column is not missed each time
            settings = replace(settings, seed=secrets.randbits(32))
        report = _fast(measurement, settings, checks)
        if report.passed:
            return report
        settings = replace(settings, fast_mode=False)
        checks = run_checks(measurement, settings)
    report = _judge(measurement, settings, checks)
    if any(not p.passed for p in report.pairs) and (yield from measurement.confirm_steps(settings.eps)):
        report = _judge(measurement, settings, checks)
    return report


def _judge(measurement: Measurement, settings: Settings, checks: Sequence[Check]) -> GradcheckReport:
    pairs: tuple[PairReport, ...] = ()
    checks = tuple(checks)
    if all(c.passed for c in checks if c.name == "gradient shapes"):
        try:
            numerical = measurement.numerical(settings.eps)
        except OutputChanged as error:
            checks = (*checks, Check("output stays", False, str(error)))
        else:
            sides = {"reverse": measurement.analytical} if settings.check_backward_ad else {}
            if settings.check_forward_ad:
                sides["forward"] = measurement.forward
            pairs = tuple(
                _pair(measurement, key, Comparison(J, numerical.jacobians[key], 0.0, 0.0), settings,
                      mode=mode, unmoved=numerical.unmoved[key[1]])
                for mode, jacobians in sides.items()
                for key, J in jacobians.items()
            )  # fmt: skip
    return _assembled(measurement, settings, pairs, checks)


def _fast(measurement: Measurement, settings: Settings, checks: Sequence[Check]) -> GradcheckReport:
    """A report on random projections of the Jacobians."""
    sides: dict[str, Projected] = {}
    rng = np.random.default_rng(settings.seed)
    try:
        if settings.check_backward_ad:
            sides["reverse"] = measurement.projected(settings.eps, rng, forward=False)
        if settings.check_forward_ad:
            sides["forward"] = measurement.projected(settings.eps, rng, forward=True)
    except OutputChanged as error:  # the slow mode, which decides, names the element
        sides, checks = {}, (*checks, Check("output stays", False, str(error)))
    pairs = tuple(
        _pair(measurement, key, Comparison(side.analytical[key], side.numerical[key], 0.0, 0.0), settings,
              mode=mode, shares=side.shares[key])
        for mode, side in sides.items()
        for key in side.analytical
    )  # fmt: skip
    return _assembled(measurement, settings, pairs, tuple(checks))


def _assembled(
    measurement: Measurement, settings: Settings, pairs: tuple[PairReport, ...], checks: tuple[Check, ...]
) -> GradcheckReport:
    checks = (*checks, probes.input_untouched(measurement.modified))
    return GradcheckReport(
        pairs, checks, settings.eps, settings.atol, settings.rtol, settings.nondet_tol, measurement.engine.name,
        settings.seed if settings.fast_mode else None,
    )  # fmt: skip


def _pair(
    measurement: Measurement,
    key: Key,
    comparison: Comparison,
    settings: Settings,
    *,
    mode: str,
    unmoved: Any = None,
    shares: Any = None,
) -> PairReport:
    k, i, part = key
    output, x = measurement.outputs[k], measurement.templates[i]
    projected = shares is not None
    return PairReport(
        output=output.name,
        input=x.name,
        output_index=k,
        input_index=measurement.owners[measurement.checked[i]],
        part=part,
        output_shape=comparison.analytical.shape[:1] if projected else output.shape,
        input_shape=() if projected else x.shape,
        differentiable=mode == "forward" or measurement.differentiable[k],
        unmoved=np.zeros((), bool) if projected else unmoved,
        comparison=comparison,
        mode=mode,
        shares=shares,
        key=key,
    ).judge(settings.atol, settings.rtol)


def _report(
    func: Callable[..., Any], inputs: Any, settings: Settings, engine: str | Engine | None
) -> tuple[Measurement, GradcheckReport]:
    """What was measured, and the report on it. Exceptions carry their ``diagnosis``."""
    measurement = None
    try:
        measurement = Measurement(
            func, inputs, engine=engine, masked=bool(settings.masked), backward=settings.check_backward_ad, stacklevel=3
        )
        settings.refuse_unsupported(measurement.engine)
        return measurement, build_report(measurement, settings, run_checks(measurement, settings))
    except Exception as error:
        failure = error
        attach(failure, lambda: explain(failure, inputs, measurement))
        raise


def _verdict(measurement: Measurement, report: GradcheckReport, raise_exception: bool, more: str = "") -> bool:
    if report.passed or not raise_exception:
        return report.passed
    report = replace(report, diagnosis=drain(diagnosis_steps(measurement, report)))
    stays = all(c.passed for c in report.checks if c.name == "output stays")
    error = (GradcheckError if stays else OutputChanged)(report.error_text() + more)
    error.report = report
    attach(error, lambda: report.diagnosis)
    raise error


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
    seed: int | None = None,
    engine: str | Engine | None = None,
) -> bool:
    """Check gradients from small central differences against analytical gradients.

    Every floating point or complex tensor in `inputs` that requires grad is checked. It passes where
    ``abs(analytical - numerical) <= atol + rtol * abs(numerical)`` for every element of every Jacobian, and the side
    checks pass too. The contract is that of ``torch.autograd.gradcheck``.

    Parameters
    ----------
    func : callable
        Takes tensors, returns a tensor or a tuple (list) of tensors, of any shapes, real or complex.
    inputs : tensor or tuple (list) of them
        `Tensor` s, or NumPy arrays of floating point or complex dtype (all of which are checked). Double precision
        is expected. Anything else is passed through untouched. They are bit-identical afterwards, whatever happens.
    eps : float
        Perturbation of one element at a time, in the units of the input: ``x - eps`` and ``x + eps``.
    atol, rtol : float
        Absolute tolerance, in the units of the derivative, and relative tolerance.
    raise_exception : bool
        False: return False for a failed check. Wrong usage, and what `func` itself raises, is raised in any case.
    nondet_tol : float
        The analytical Jacobian is computed twice; both must agree within this (0.0: exactly).
    check_undefined_grad : bool
        Undefined (None) output gradients must be accepted and count as zeros: all at once, then each in turn.
    check_grad_dtypes : bool
        Gradients must have the dtype of their input.
    check_batched_grad, check_batched_forward_grad : bool
        The batched (vmapped) gradient must be that of one cotangent (tangent) at a time.
    check_forward_ad : bool
        The Jacobian of forward mode must agree with the numerical one too.
    check_backward_ad : bool
        False: no reverse-mode check; needs `check_forward_ad`.
    fast_mode : bool
        Compare random projections of the Jacobian instead of the Jacobian: a few runs of `func`, whatever the sizes.
        The report says for which share of the columns an error of 10 % would have been seen. A failure is decided
        again by the slow mode, whose report it gives.
    masked : bool, optional
        True: move only the specified elements of sparse inputs. No effect on dense tensors.
    seed : int, optional
        Of the random projections of the fast mode; by default another one each time, which the report names.
    engine : str or Engine, optional
        ``'numpy'``, ``'torch'``, ``'jax'``, ``'tensorplay'`` or ``'autograd'``; by default the one whose tensors the
        inputs are. Functions written with ``autograd.numpy`` take plain arrays: name the engine.

    Returns
    -------
    bool
        True if everything agrees; False only with ``raise_exception=False``.

    Raises
    ------
    GradcheckError
        If the check failed; ``error.report`` holds all that was measured.
    ValueError
        If no input requires grad, or a tolerance is negative, NaN or not a number.
    RuntimeError
        If an input's elements share memory.
    NotImplementedError
        For a flag that the inputs' engine does not support.
    UsageError
        An AssertionError, if both `check_backward_ad` and `check_forward_ad` are False.

    Warns
    -----
    UserWarning
        If an input that requires grad is not in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> from gradcheck_widget import Tensor, gradcheck
    >>> gradcheck(np.tanh, Tensor(np.random.rand(4, 3), requires_grad=True))
    True
    """
    settings = Settings(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode, masked, seed,
    )  # fmt: skip
    return _verdict(*_report(func, inputs, settings, engine), raise_exception)


def gradcheck_report(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
    seed: int | None = None,
    engine: str | Engine | None = None,
) -> GradcheckReport:
    """Everything that `gradcheck` finds, as a `GradcheckReport`; a failed check is not raised.

    Parameters are those of `gradcheck`, as are the errors for wrong usage.

    Returns
    -------
    GradcheckReport
        With both Jacobians of each pair; ``report.judge(atol=..., rtol=...)`` judges them anew without running `func`.
    """
    settings = Settings(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode, masked, seed,
    )  # fmt: skip
    return diagnose(*_report(func, inputs, settings, engine))


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
    seed: int | None = None,
    engine: str | Engine | None = None,
) -> bool:
    """Check second derivatives: `gradcheck` of the function that maps inputs and output gradients to input gradients.

    Parameters
    ----------
    func, inputs, eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes
        As in `gradcheck`.
    grad_outputs : tensor or tuple (list) of them, optional
        One for each output that carries a gradient, of its shape. Default: random normal values from a generator of
        their own with a fixed seed.
    gen_non_contig_grad_outputs : bool
        Make the random grad_outputs non-contiguous in memory.
    check_rev_over_rev, check_fwd_over_rev : bool
        Reverse, or forward, mode over reverse mode; forward is not supported on NumPy.
    check_batched_grad, fast_mode : bool
        Not supported on NumPy: True raises.
    masked : bool
        For signature parity.

    Returns
    -------
    bool

    Raises
    ------
    GradcheckError, ValueError, RuntimeError, NotImplementedError, UsageError
        As in `gradcheck`; ValueError also if no output carries a gradient or `grad_outputs` do not fit the outputs.
    """
    settings = Settings(
        eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, False,
        check_fwd_over_rev, check_rev_over_rev, fast_mode, masked, seed,
    )  # fmt: skip
    first = Measurement(func, inputs, engine=engine, masked=masked, stacklevel=2)
    used = first.engine
    settings.refuse_unsupported(
        used, {"check_forward_ad": "check_fwd_over_rev", "check_backward_ad": "check_rev_over_rev"}
    )
    carried = [o for o, d in zip(first.outputs, first.linearization.differentiable, strict=True) if d]
    if not carried:
        raise ValueError(
            "gradgradcheck needs an output that carries a gradient, but func returns none: "
            f"{', '.join(f'{o.name} is {o.dtype} without one' for o in first.outputs) or 'it has no outputs'} (was it "
            "detached, or computed on bare arrays?)"
        )
    if grad_outputs is None:
        given = _random_grad_outputs(carried, first, gen_non_contig_grad_outputs)
    else:
        given = as_tuple(grad_outputs)
        _check_grad_outputs(given, carried, used)
    vjp = used.gradient(first.func, first.checked, len(first.inputs))
    labels = (*first.labels, *(f"grad_output {k}" for k in range(len(given))))
    second = Measurement(
        vjp, (*first.inputs, *given), engine=used, masked=masked, backward=check_rev_over_rev, labels=labels,
        stacklevel=None,
    )  # fmt: skip
    try:
        report = build_report(second, settings, run_checks(second, settings))
    except GradcheckError:  # a first derivative of the wrong shape
        if raise_exception:
            raise
        return False
    more = "\nThese are second derivatives: the outputs are the gradients of func with respect to its inputs."
    return _verdict(second, report, raise_exception, more)


def _check_grad_outputs(given: Sequence[Any], outputs: Sequence[Template], engine: Any) -> None:
    arrays = [engine.array(g) if engine.is_tensor(g) else None for g in given]
    fits = len(arrays) == len(outputs) and all(
        a is not None and a.shape == o.shape and (o.is_complex or a.dtype.kind != "c")
        for a, o in zip(arrays, outputs, strict=False)
    )
    if not fits:
        wanted = ", ".join(f"{o.name}: {o.shape} {o.dtype}" for o in outputs)
        got = ", ".join(
            type(g).__name__ if a is None else f"{a.shape} {a.dtype}" for g, a in zip(given, arrays, strict=True)
        )
        raise ValueError(
            "grad_outputs must be one tensor for each output that carries a gradient, of its shape, and real where it "
            f"is real: expected {wanted}; got {got or 'none'}"
        )


def _random_grad_outputs(outputs: Sequence[Template], first: Measurement, non_contiguous: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    made = []
    for o in outputs:
        values = rng.standard_normal(o.shape)
        if o.is_complex:
            values = values + 1j * rng.standard_normal(o.shape)
        values = np.asarray(values, o.dtype)
        if non_contiguous and values.ndim:
            values = np.repeat(values, 2, axis=-1)[..., ::2]
        made.append(first.engine.tensor(values, like=first.inputs[first.checked[0]]))
    return tuple(made)
