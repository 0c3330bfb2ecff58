"""The contract: `gradcheck`, `gradgradcheck` and `gradcheck_report`, with PyTorch's arguments and messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from . import probes
from .comparison import Comparison
from .errors import GradcheckError, OutputChanged, UsageError
from .jacobians import Key, Template
from .measurement import Measurement, as_tuple
from .probes import Check
from .report import GradcheckReport, PairReport, tolerance_value

__all__ = ["Settings", "build_report", "gradcheck", "gradcheck_report", "gradgradcheck", "run_checks"]


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
                raise NotImplementedError(
                    f"{names.get(flag, flag)}=True is not supported by the {engine.name} engine, which has reverse "
                    "mode only, one row at a time. torch.autograd offers it for torch tensors"
                )


def run_checks(measurement: Measurement, settings: Settings) -> tuple[Check, ...]:
    """The side checks; they depend on neither atol nor rtol. The analytical Jacobian is measured on the way.

    A `GradcheckError` of the engine (a gradient of the wrong shape) becomes a failed check.
    """
    linearization = measurement.linearization
    inputs, outputs = measurement.templates, measurement.outputs
    checks: list[Check] = []
    try:
        analytical = measurement.analytical
        checks.append(Check("gradient shapes", True, "each gradient has the shape of its input"))
    except GradcheckError as error:
        return (Check("gradient shapes", False, str(error)),)
    checks.append(probes.reentrant(analytical, measurement.second_analytical(), settings.nondet_tol))
    more = [probes.scaled_by_grad_output]
    if settings.check_undefined_grad:
        more.append(probes.undefined_grads)
    if settings.check_grad_dtypes:
        more.append(probes.gradient_dtypes)
    checks += measurement.guarded(lambda: [probe(linearization, inputs, outputs) for probe in more])
    return tuple(checks)


def build_report(measurement: Measurement, settings: Settings, checks: Sequence[Check]) -> GradcheckReport:
    """Judge what `measurement` holds at ``settings.eps``. A failure seen on a shortcut is decided the plain way."""
    report = _judge(measurement, settings, checks)
    if any(not p.passed for p in report.pairs) and measurement.confirm(settings.eps):
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
            pairs = tuple(
                _pair(measurement, key, J, numerical.jacobians[key], numerical.unmoved[key[1]], settings)
                for key, J in measurement.analytical.items()
            )
    checks = (*checks, probes.input_untouched(measurement.modified))
    return GradcheckReport(
        pairs, checks, settings.eps, settings.atol, settings.rtol, settings.nondet_tol, measurement.engine.name
    )


def _pair(
    measurement: Measurement, key: Key, analytical: Any, numerical: Any, unmoved: Any, settings: Settings
) -> PairReport:
    k, i, part = key
    output, x = measurement.outputs[k], measurement.templates[i]
    return PairReport(
        output=output.name,
        input=x.name,
        output_index=k,
        input_index=measurement.checked[i],
        part=part,
        output_shape=output.shape,
        input_shape=x.shape,
        differentiable=measurement.linearization.differentiable[k],
        unmoved=unmoved,
        comparison=Comparison(analytical, numerical, settings.atol, settings.rtol),
    ).judge(settings.atol, settings.rtol)


def _report(func: Callable[..., Any], inputs: Any, settings: Settings) -> GradcheckReport:
    measurement = Measurement(func, inputs, stacklevel=3)
    settings.refuse_unsupported(measurement.engine)
    return build_report(measurement, settings, run_checks(measurement, settings))


def _verdict(report: GradcheckReport, raise_exception: bool, more: str = "") -> bool:
    if report.passed or not raise_exception:
        return report.passed
    error = GradcheckError(report.error_text() + more)
    error.report = report
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
    check_batched_grad, check_batched_forward_grad, check_forward_ad, fast_mode : bool
        Not supported on NumPy: True raises.
    check_backward_ad : bool
        False: no reverse-mode check; needs `check_forward_ad`.
    masked : bool, optional
        For signature parity; dense tensors have no mask.

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
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode, masked,
    )  # fmt: skip
    return _verdict(_report(func, inputs, settings), raise_exception)


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
        check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode, masked,
    )  # fmt: skip
    return _report(func, inputs, settings)


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
        check_fwd_over_rev, check_rev_over_rev, fast_mode, masked,
    )  # fmt: skip
    first = Measurement(func, inputs, stacklevel=2)
    engine = first.engine
    settings.refuse_unsupported(
        engine, {"check_forward_ad": "check_fwd_over_rev", "check_backward_ad": "check_rev_over_rev"}
    )
    carried = [o for o, d in zip(first.outputs, first.linearization.differentiable, strict=True) if d]
    if not carried:
        raise ValueError(
            "gradgradcheck needs an output that carries a gradient, but func returns none: "
            f"{', '.join(f'{o.name} is {o.dtype} without one' for o in first.outputs) or 'it has no outputs'} (was it "
            "detached, or computed on bare arrays?)"
        )
    if grad_outputs is None:
        given = _random_grad_outputs(carried, engine, gen_non_contig_grad_outputs)
    else:
        given = as_tuple(grad_outputs)
        _check_grad_outputs(given, carried, engine)
    vjp = engine.gradient(func, first.checked, len(first.inputs))
    names = (*first.names, *(f"grad_output {k}" for k in range(len(given))))
    second = Measurement(vjp, (*first.inputs, *given), names=names, stacklevel=None)
    try:
        report = build_report(second, settings, run_checks(second, settings))
    except GradcheckError:  # a first derivative of the wrong shape
        if raise_exception:
            raise
        return False
    more = "\nThese are second derivatives: the outputs are the gradients of func with respect to its inputs."
    return _verdict(report, raise_exception, more)


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


def _random_grad_outputs(outputs: Sequence[Template], engine: Any, non_contiguous: bool) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    made = []
    for o in outputs:
        values = rng.standard_normal(o.shape)
        if o.is_complex:
            values = values + 1j * rng.standard_normal(o.shape)
        values = np.asarray(values, o.dtype)
        if non_contiguous and values.ndim:
            values = np.repeat(values, 2, axis=-1)[..., ::2]
        made.append(engine.tensor(values))
    return tuple(made)
