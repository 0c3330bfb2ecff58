"""Numerical and analytical Jacobians: the numbers, the bits of the inputs, and how often func runs."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from gradcheck_widget import Tensor, from_backward
from gradcheck_widget.engines import Evaluator
from gradcheck_widget.errors import GradcheckError, OutputChanged
from gradcheck_widget.jacobians import Progress, Template, analytical_rows, drain, element_name, numerical_columns
from gradcheck_widget.measurement import Measurement


def template(x, name="x"):
    return Template(x.shape, x.dtype, name)


def steps(func, *inputs, eps=1e-6):
    """The numerical generator of a function of bare arrays."""
    outputs = func(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)

    def run():
        out = func(*inputs)
        return tuple(np.asarray(o) for o in (out if isinstance(out, tuple) else (out,)))

    templates = [template(np.asarray(o), f"output {k}") for k, o in enumerate(outputs)]
    return numerical_columns(
        Evaluator(inputs, run, True), [template(x, f"input {i}") for i, x in enumerate(inputs)], templates, eps
    )


def numerical(func, *inputs, eps=1e-6):
    return drain(steps(func, *inputs, eps=eps))


# -- the numbers ----------------------------------------------------------------------------------------------
def test_rows_are_outputs_and_columns_are_inputs_in_reading_order():
    w = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    found = numerical(lambda x: w @ x, np.array([[0.1], [0.2], [0.3]]))
    np.testing.assert_allclose(found.jacobians[0, 0, ""], w, rtol=1e-8)


def test_each_pair_of_output_and_input_has_its_own_matrix():
    found = numerical(lambda a, b: (a * b, a.sum()), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert set(found.jacobians) == {(0, 0, ""), (0, 1, ""), (1, 0, ""), (1, 1, "")}
    np.testing.assert_allclose(found.jacobians[0, 1, ""], np.diag([1.0, 2.0]), atol=1e-8)
    np.testing.assert_allclose(found.jacobians[1, 0, ""], [[1.0, 1.0]], atol=1e-8)
    np.testing.assert_array_equal(found.jacobians[1, 1, ""], [[0.0, 0.0]])


@pytest.mark.parametrize("x", [1e3, 1e6, 1e9, -3e8, 0.1])
def test_the_difference_is_divided_by_the_step_really_taken(x):
    # 4 x is exact in floating point, so its slope is exactly 4 whatever the step became; divided by 2 eps it is not
    found = numerical(lambda v: 4 * v, np.array([x]))
    assert found.jacobians[0, 0, ""][0, 0] == 4.0


def test_float32_steps_are_those_that_float32_can_take():
    found = numerical(lambda v: 3 * v, np.array([1.0, 7.0], np.float32), eps=1e-6)
    np.testing.assert_allclose(np.diag(found.jacobians[0, 0, ""]), 3.0, rtol=0.35)
    found = numerical(lambda v: v, np.array([1.0, 7.0], np.float32), eps=1e-6)
    np.testing.assert_array_equal(found.jacobians[0, 0, ""], np.eye(2))


def test_a_step_that_does_not_move_the_value_is_marked_and_is_nan_not_0_over_0():
    found = numerical(lambda v: 3 * v, np.array([1e12, 1.0, 1e300, np.inf]))
    np.testing.assert_array_equal(found.unmoved[0], [True, False, True, False])  # infinity stays by nature
    J = found.jacobians[0, 0, ""]
    assert np.isnan(J[:, [0, 2]]).all()
    assert (J[:3, 3] == 0).all() and np.isnan(J[3, 3])  # as torch has it
    np.testing.assert_allclose(J[:2, 1], [0.0, 3.0], atol=1e-8)


def test_a_step_that_moves_the_value_on_one_side_only_is_marked_too():
    x = 2.0**53  # x - 1 is a neighbour, x + 1 is not
    assert x - 1 != x == x + 1
    found = numerical(lambda v: 3 * v, np.array([x]), eps=1.0)
    assert found.unmoved[0][0]
    assert np.isnan(found.jacobians[0, 0, ""][0, 0])


def test_a_complex_element_is_stuck_if_either_part_is():
    found = numerical(lambda v: v, np.array([1 + 1j, 1e12 + 1j, 1 + 1e12j]))
    np.testing.assert_array_equal(found.unmoved[0], [False, True, True])


def test_a_complex_input_gives_d_da_plus_1j_d_db_for_each_part_of_the_output():
    z = np.array([0.5 + 2j])
    found = numerical(lambda v: v * v, z).jacobians
    # z**2 = a^2 - b^2 + 2 a b i
    np.testing.assert_allclose(found[0, 0, "real"], 2 * z.real - 2j * z.imag + np.zeros((1, 1)), rtol=1e-8)
    np.testing.assert_allclose(found[0, 0, "imag"], 2 * z.imag + 2j * z.real + np.zeros((1, 1)), rtol=1e-8)


def test_an_infinite_slope_along_the_imaginary_axis_does_not_make_the_real_part_nan():
    found = numerical(lambda v: np.where(v.imag > 1, np.inf, 0.0) + v.real, np.array([2 + 1j]))
    assert found.jacobians[0, 0, ""][0, 0].real == pytest.approx(1.0)
    assert found.jacobians[0, 0, ""][0, 0].imag == np.inf


def test_outputs_that_are_views_of_the_input_have_the_right_slopes():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    permutation = np.eye(4)[[0, 2, 1, 3]]
    for func, expected in [
        (lambda v: v, np.eye(4)),
        (lambda v: v.reshape(-1), np.eye(4)),
        (lambda v: v.T, permutation),
        (lambda v: v[1], np.eye(4)[2:]),
    ]:
        np.testing.assert_allclose(numerical(func, x).jacobians[0, 0, ""], expected, atol=1e-9)


@pytest.mark.parametrize("n", [1, 5, 400])
def test_blocks_of_columns_are_put_together_in_order(n, monkeypatch):
    monkeypatch.setattr("gradcheck_widget.jacobians.BLOCK", 3 * n)
    x = np.linspace(1.0, 2.0, n)
    np.testing.assert_allclose(numerical(lambda v: v**2, x).jacobians[0, 0, ""], np.diag(2 * x), atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, ">f8", "<f8"])
def test_outputs_of_every_precision_are_compared_in_double(dtype):
    found = numerical(lambda v: v + v, np.array([1.0, 2.0], dtype), eps=2.0**-6)
    assert found.jacobians[0, 0, ""].dtype == np.float64
    np.testing.assert_array_equal(found.jacobians[0, 0, ""], 2 * np.eye(2))


def test_integer_outputs_have_no_jacobian():
    found = numerical(lambda v: (v, v.argsort(), v > 0), np.array([1.0, 2.0]))
    assert set(found.jacobians) == {(0, 0, "")}


@pytest.mark.parametrize("shape", [(0,), (2, 0), ()])
def test_empty_and_scalar_inputs_have_jacobians_of_their_size(shape):
    x = np.ones(shape)
    assert numerical(lambda v: v * 2, x).jacobians[0, 0, ""].shape == (x.size, x.size)
    assert numerical(lambda v: v.sum(), x).jacobians[0, 0, ""].shape == (1, x.size)


def test_nothing_that_numpy_is_set_to_raise_for_comes_from_the_loop_itself():
    values = np.array([np.inf, 1e308, 1.0, np.nan, 1e-310])
    table = np.array([np.inf, -np.inf, 1e308, -1e308, np.nan])
    calls = iter(range(10**6))
    with np.errstate(all="raise"):
        found = numerical(lambda v: np.roll(table, next(calls)), values)
    assert found.unmoved[0].tolist() == [False, True, False, False, False]


# -- how often func runs, and what is seen meanwhile -----------------------------------------------------------
@pytest.mark.parametrize(("dtype", "calls"), [(float, 2 * 6), (complex, 4 * 6)])
def test_func_runs_exactly_twice_for_each_real_number_of_the_input(dtype, calls):
    count = 0

    def func(v):
        nonlocal count
        count += 1
        return v.sum()

    generator = steps(func, np.ones((2, 3), dtype))
    count = 0
    drain(generator)
    assert count == calls


def test_func_sees_one_element_moved_at_a_time_down_then_up():
    x = np.array([1.0, 10.0, 100.0])
    seen = []

    def func(v):
        seen.append(v - [1.0, 10.0, 100.0])
        return v.sum()

    generator = steps(func, x, eps=0.25)
    seen.clear()
    drain(generator)
    unit = 0.25 * np.eye(3)
    np.testing.assert_array_equal(seen, [sign * unit[j] for j in range(3) for sign in (-1, 1)])


def test_progress_counts_the_evaluations_up_to_the_total():
    told = []
    drain(steps(lambda a, z: (a.sum() * z).real, np.ones(3), np.ones(2, complex)), told.append)
    assert told == [Progress(done, 14) for done in range(2, 15, 2)]


AWKWARD = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 5e-324, 1.0, 1e12])
AWKWARD[0:1].view(np.uint64)[0] = 0x7FF8_0000_DEAD_BEEF  # a NaN that carries a payload


def memory(kind):
    """(the array to check, the memory it lives in)"""
    if kind == "contiguous":
        base = AWKWARD.copy()
        return base, base
    if kind == "every second":
        base = np.repeat(AWKWARD, 2)
        return base[::2], base
    if kind == "backwards":
        base = AWKWARD.copy()
        return base[::-1], base
    if kind == "fortran":
        base = np.asfortranarray(AWKWARD.reshape(2, 4))
        return base, base
    if kind == "column":
        base = np.tile(AWKWARD, (3, 1)).T.copy()
        return base[:, 1], base
    if kind == "complex":
        base = np.stack([AWKWARD, AWKWARD[::-1]], -1).copy().view(complex)[:, 0]
        return base, base
    if kind == "real part":
        base = np.stack([AWKWARD, AWKWARD[::-1]], -1).copy().view(complex)[:, 0]
        return base.real, base
    base = AWKWARD.astype(kind)
    if kind == np.float32:
        base[0:1].view(np.uint32)[0] = 0x7FA0_1234  # a signalling NaN
    return base, base


KINDS = ["contiguous", "every second", "backwards", "fortran", "column", "complex", "real part"]
KINDS += [">f8", np.float32, np.float16, np.longdouble]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_input_has_its_own_bits_again_at_each_yield(kind):
    x, base = memory(kind)
    before = base.tobytes()
    generator = steps(lambda v: v * 2, x)
    for _ in generator:
        assert base.tobytes() == before
    assert base.tobytes() == before


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_closing_the_generator_leaves_the_inputs_as_they_were(kind):
    for stop in range(5):
        x, base = memory(kind)
        before = base.tobytes()
        generator = steps(lambda v: v * 2, x)
        for _ in range(stop):
            next(generator)
        generator.close()
        assert base.tobytes() == before


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_input_has_its_own_bits_again_after_an_exception_at_any_call(kind, error):
    x, base = memory(kind)
    before = base.tobytes()
    total = 2 * x.size * (2 if x.dtype.kind == "c" else 1)
    for fatal in range(1, total + 1):
        calls = -1  # the first call, by `steps`, does not count

        def func(v):
            nonlocal calls
            calls += 1
            if calls == fatal:
                raise error
            return v * 2

        with pytest.raises(type(error)) as caught:
            drain(steps(func, x))
        assert caught.value is error
        assert base.tobytes() == before


def test_an_abandoned_generator_never_writes_old_values_over_new_ones():
    x = np.array([1.0, 2.0, 3.0])
    generator = steps(lambda v: v * 2, x)
    next(generator)
    x[:] = [7.0, 8.0, 9.0]  # the owner goes on with other values
    generator.close()
    np.testing.assert_array_equal(x, [7.0, 8.0, 9.0])


def test_an_exception_carries_a_note_with_the_element_and_the_side():
    def func(v):
        if v[1, 0] > 3:
            raise ZeroDivisionError("mine")
        return v

    with pytest.raises(ZeroDivisionError) as caught:
        numerical(func, np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert caught.value.__notes__ == ["gradcheck was evaluating func at x + eps of input 0 [1, 0], eps=1e-06"]


def test_drain_closes_what_it_runs_when_progress_raises():
    generator = steps(lambda v: v * 2, np.ones(3))

    def progress(step):
        raise KeyError

    with pytest.raises(KeyError):
        drain(generator, progress)
    assert inspect.getgeneratorstate(generator) == inspect.GEN_CLOSED


# -- outputs that change ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda v: v[:2], r"output 0: \(3,\) float64, now \(2,\) float64"),
        (lambda v: v.astype(np.float32), r"output 0: \(3,\) float64, now \(3,\) float32"),
        (lambda v: (v, v), "1 outputs, now 2"),
        (lambda v: (), "1 outputs, now 0"),
    ],
)
def test_an_output_that_changes_under_perturbation_is_named_with_the_step_that_changed_it(other, words):
    with pytest.raises(OutputChanged, match=words) as caught:
        numerical(lambda v: other(v) if v[1] > 2 else v, np.array([1.0, 2.0, 3.0]))
    assert "input 0 [1] moved by 1e-06" in str(caught.value)
    assert isinstance(caught.value, GradcheckError)


def test_indices_in_names_are_those_of_the_users_array():
    assert element_name("input 1 'w'", (2, 3), 5) == "input 1 'w' [1, 2]"
    assert element_name("input 0", (), 0) == "input 0"


# -- analytical rows --------------------------------------------------------------------------------------------
def analytical(func, *inputs):
    m = Measurement(func, inputs)
    return drain(analytical_rows(m.linearization, m.templates, m.outputs))


def test_analytical_rows_are_the_pullbacks_of_unit_vectors():
    w = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(analytical(lambda x: w @ x, np.ones(3))[0, 0, ""], w)


def test_rows_of_an_identity_are_not_overwritten_by_later_rows():
    np.testing.assert_array_equal(analytical(lambda x: x, np.ones(3))[0, 0, ""], np.eye(3))


def test_a_backward_that_writes_into_its_grad_output_does_not_spoil_the_next_row():
    def backward(g, x):
        g *= 2 * x
        return g

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(analytical(from_backward(lambda x: (x**2, x), backward), x)[0, 0, ""], np.diag(2 * x))


def test_an_output_without_gradient_has_rows_of_zeros():
    found = analytical(lambda x: (x * 2, x.data * 3), Tensor(np.ones(2), requires_grad=True))
    np.testing.assert_array_equal(found[1, 0, ""], np.zeros((2, 2)))


def test_a_complex_output_of_a_real_input_has_real_rows_for_each_part():
    found = analytical(lambda x: x * (2 + 3j), np.ones(2))
    np.testing.assert_array_equal(found[0, 0, "real"], 2 * np.eye(2))
    np.testing.assert_array_equal(found[0, 0, "imag"], 3 * np.eye(2))
    assert found[0, 0, "real"].dtype == np.float64


def test_an_exception_in_backward_carries_a_note_with_the_output_element():
    error = ZeroDivisionError("mine")

    def backward(g, x):
        if g[1, 0]:
            raise error
        return g

    with pytest.raises(ZeroDivisionError) as caught:
        analytical(from_backward(lambda x: (x + 1, x), backward), np.ones((2, 2)))
    assert caught.value is error
    assert error.__notes__ == ["gradcheck was pulling back a unit cotangent at output 0 [1, 0]"]


def test_progress_of_the_analytical_side_counts_rows_of_differentiable_outputs_only():
    m = Measurement(lambda x: (x * 1j, x * 2, x > 0), np.ones(3))
    told = list(analytical_rows(m.linearization, m.templates, m.outputs))
    assert told == [Progress(k, 9) for k in range(1, 10)]
