"""The contract: `gradcheck`, `gradgradcheck` and `gradcheck_report`, with PyTorch's arguments and messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import probes
from .comparison import Comparison
from .errors import GradcheckError, UsageError
from .jacobians import Key
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

    def refuse_unsupported(self, engine: Any) -> None:
        """Raise for what asks for nothing, and for flags that `engine` does not have."""
        if not (self.check_backward_ad or self.check_forward_ad):
            raise UsageError(
                "Expected at least one of check_forward_ad and check_backward_ad to be True: with both False there is "
                "nothing to compare the numerical gradient with"
            )
        for flag in ("check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "fast_mode"):
            if getattr(self, flag) and flag not in engine.supports:
                raise NotImplementedError(
                    f"{flag}=True is not supported by the {engine.name} engine, which has reverse mode only, one row "
                    "at a time. torch.autograd.gradcheck offers it for torch tensors"
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
        return (
            Check("gradient shapes", False, str(error)),
            probes.input_untouched(measurement.modified),
        )
    with measurement.untouched() as changed:
        again = measurement.second_analytical()
        checks.append(probes.reentrant(analytical, again, settings.nondet_tol))
        checks.append(probes.scaled_by_grad_output(linearization, inputs, outputs))
        if settings.check_undefined_grad:
            checks.append(probes.undefined_grads(linearization, inputs, outputs))
        if settings.check_grad_dtypes:
            checks.append(probes.gradient_dtypes(linearization, inputs, outputs))
    checks.append(probes.input_untouched(measurement.modified or changed()))
    return tuple(checks)


def build_report(measurement: Measurement, settings: Settings, checks: Sequence[Check]) -> GradcheckReport:
    """Judge what `measurement` holds at ``settings.eps``. A failure seen on a shortcut is measured the plain way too."""
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
        except GradcheckError as error:  # the output's shape or dtype changed
            checks = (*checks, Check("output stays", False, str(error)))
        else:
            pairs = tuple(
                _pair(measurement, key, J, numerical.jacobians[key], numerical.unmoved[key[1]], settings)
                for key, J in measurement.analytical.items()
            )
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


def _report(func: Callable[..., Any], inputs: Any, settings: Settings, stacklevel: int) -> GradcheckReport:
    measurement = Measurement(func, inputs, stacklevel=stacklevel + 1)
    settings.refuse_unsupported(measurement.engine)
    return build_report(measurement, settings, run_checks(measurement, settings))


def _verdict(report: GradcheckReport, raise_exception: bool) -> bool:
    if report.passed or not raise_exception:
        return report.passed
    error = GradcheckError(report.error_text())
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
    return _verdict(_report(func, inputs, settings, 2), raise_exception)


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
    return _report(func, inputs, settings, 2)


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
    settings.refuse_unsupported(engine)
    carried = [o for o, d in zip(first.outputs, first.linearization.differentiable, strict=True) if d]
    if not carried:
        raise ValueError("gradgradcheck needs an output that carries a gradient, but func returns none")
    if grad_outputs is None:
        given = _random_grad_outputs(carried, engine, gen_non_contig_grad_outputs)
    else:
        given = as_tuple(grad_outputs)
        shapes = [tuple(engine.array(g).shape) if engine.is_tensor(g) else None for g in given]
        if shapes != [o.shape for o in carried]:
            raise ValueError(
                f"grad_outputs must be one tensor for each output that carries a gradient, of its shape: expected "
                f"{[o.shape for o in carried]}, got {shapes}"
            )
    vjp = engine.gradient(func, first.checked, len(first.inputs))
    return _verdict(_report(vjp, (*first.inputs, *given), settings, 2), raise_exception)


def _random_grad_outputs(outputs: Sequence[Any], engine: Any, non_contiguous: bool) -> tuple[Any, ...]:
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
