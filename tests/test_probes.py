"""The side checks: what a right Jacobian does not show."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from gradcheck_widget import Function, from_backward, probes
from gradcheck_widget.measurement import Measurement


def probe(check, func, *inputs):
    m = Measurement(func, inputs)
    return check(m.linearization, m.templates, m.outputs)


def pair(backward, forward=lambda x: (2 * x, x)):
    return from_backward(forward, backward)


# -- backward must scale with grad_output -----------------------------------------------------------------------
def test_a_backward_that_ignores_grad_output_is_caught_with_the_element_and_its_value():
    check = probe(probes.scaled_by_grad_output, pair(lambda g, x: np.array([0.0, 2.0, 2.0])), np.ones(3))
    assert not check.passed
    assert "backward not multiplied by grad_output" in check.message
    assert "gives the gradient 2 for input 0 'x' [1]" in check.message


def test_zero_times_infinity_in_backward_is_explained():
    def backward(g, x):
        with np.errstate(all="ignore"):
            return g * (1 / x)

    check = probe(probes.scaled_by_grad_output, pair(backward), np.zeros(2))
    assert not check.passed
    assert "0 times infinity: mask it where grad_output is 0" in check.message


@pytest.mark.parametrize("backward", [lambda g, x: 2 * g, lambda g, x: None, lambda g, x: -2 * g])
def test_a_gradient_that_is_zero_for_zero_or_undefined_passes(backward):
    assert probe(probes.scaled_by_grad_output, pair(backward), np.ones(3)).passed


def test_a_complex_gradient_that_ignores_grad_output_is_caught():
    check = probe(probes.scaled_by_grad_output, pair(lambda g, x: x * 1j), np.ones(2, complex))
    assert not check.passed
    assert "0+1j" in check.message


# -- undefined grads --------------------------------------------------------------------------------------------
class TwoOutputs(Function):
    """(x, 2 y), with undefined grads handed over as None."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 1, y * 2


def two_outputs(backward):
    return type("Custom", (TwoOutputs,), {"backward": staticmethod(backward)}).apply


def undefined(backward):
    return probe(probes.undefined_grads, two_outputs(backward), np.ones(2), np.ones(2))


def test_undefined_grads_taken_for_zeros_pass():
    assert undefined(lambda ctx, gx, gy: (gx, None if gy is None else 2 * gy)).passed


def test_an_exception_for_an_undefined_grad_is_reported_and_says_which_output():
    check = undefined(lambda ctx, gx, gy: (gx, 2 * gy))
    assert not check.passed
    assert "Expected backward function to handle undefined output grads" in check.message
    assert "None for all outputs" in check.message
    assert "TypeError: unsupported operand" in check.message


def test_an_exception_for_one_undefined_grad_only_is_found_in_its_turn():
    def backward(ctx, gx, gy):
        if gx is None and gy is None:
            return None, None
        return gx, 2 * gy

    check = undefined(backward)
    assert not check.passed
    assert "None for output 1" in check.message


def test_a_gradient_made_up_for_undefined_grads_is_found():
    check = undefined(lambda ctx, gx, gy: (np.ones(2) if gx is None else gx, None if gy is None else 2 * gy))
    assert not check.passed
    assert (
        "Expected all input grads to be undefined or zero when all output grads are undefined or zero" in check.message
    )
    assert "input 0" in check.message


def test_a_gradient_made_up_for_one_undefined_grad_is_found():
    def backward(ctx, gx, gy):
        if gx is None and gy is None:
            return None, None
        return (np.full(2, 3.0) if gx is None else gx), (None if gy is None else 2 * gy)

    check = undefined(backward)
    assert not check.passed
    assert "None as grad_output of output 0" in check.message


def test_a_backward_that_gives_up_as_soon_as_one_grad_is_undefined_is_found():
    check = undefined(lambda ctx, gx, gy: (None, None) if gx is None or gy is None else (gx, 2 * gy))
    assert not check.passed
    assert "None as grad_output of output 0 gives another gradient for input 1 than zeros do" in check.message


def test_a_backward_that_writes_into_grad_output_is_not_blamed_for_undefined_grads():
    def backward(ctx, gx, gy):
        if gx is not None:
            gx *= 1.0
        if gy is not None:
            gy *= 2.0
        return gx, gy

    assert undefined(backward).passed


def test_an_ordinary_function_passes_since_undefined_grads_arrive_as_zeros():
    assert probe(probes.undefined_grads, lambda x: (x * 2, np.sin(x)), np.ones(3)).passed


# -- dtypes -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float32, np.longdouble, np.int64])
def test_a_gradient_of_another_dtype_is_named_with_both(dtype):
    check = probe(probes.gradient_dtypes, pair(lambda g, x: (2 * g).astype(dtype)), np.ones(3))
    assert not check.passed
    assert f"dtype {np.dtype(dtype)} for input 0 'x', which is float64" in check.message


def test_gradients_of_the_right_dtype_pass():
    assert probe(probes.gradient_dtypes, lambda x: (x * 2).astype(complex), np.ones(3)).passed


# -- determinism ------------------------------------------------------------------------------------------------
def matrices(values):
    return {(0, 0, ""): np.array([values])}


def test_two_equal_runs_pass_also_with_nan_and_infinity_in_the_same_places():
    a = matrices([np.nan, np.inf, -np.inf, 1.0])
    check = probes.reentrant(a, matrices([np.nan, np.inf, -np.inf, 1.0]), 0.0)
    assert check.passed
    assert check.message == "two runs agree exactly"


def test_a_difference_is_reported_with_its_size_and_a_tolerance_that_would_accept_it():
    first, second = matrices([1.0, 2.0]), matrices([1.0, 2.0 + 3e-7])
    check = probes.reentrant(first, second, 0.0)
    assert not check.passed
    assert "Backward is not reentrant" in check.message
    assert "3e-07" in check.message
    advised = float(check.message.split("nondet_tol=")[1].split()[0])
    assert probes.reentrant(first, second, advised).passed
    assert not probes.reentrant(first, second, 2e-7).passed


@pytest.mark.parametrize("other", [np.nan, np.inf, -np.inf])
def test_no_tolerance_is_advised_where_none_would_help(other):
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for a, b in [(1.0, other), (other, 1.0)]:
            check = probes.reentrant(matrices([a]), matrices([b]), 1e300)
            assert not check.passed
            assert "would accept it" not in check.message


def test_empty_jacobians_are_deterministic():
    empty = {(0, 0, ""): np.empty((0, 3))}
    assert probes.reentrant(empty, empty, 0.0).passed


# -- inputs -----------------------------------------------------------------------------------------------------
def test_a_changed_input_is_named_and_the_way_out_is_given():
    check = probes.input_untouched("input 1 'w'")
    assert not check.passed
    assert "func changed input 1 'w' in place" in check.message
    assert "x = x.copy()" in check.message
    assert probes.input_untouched(None).passed
