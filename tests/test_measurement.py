"""Measurement: what is run when, what is cached, which way func is run, and the caller's memory."""

from __future__ import annotations

import gc
import warnings

import numpy as np
import pytest

from gradcheck_widget import Function, Tensor, from_backward, gradcheck_report
from gradcheck_widget.jacobians import Progress, drain
from gradcheck_widget.measurement import Measurement, as_tuple
from gradcheck_widget.tensor.core import Node


def leaf(x):
    return Tensor(np.array(x, float), requires_grad=True)


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=4)


class Counted:
    """tanh, counting its runs."""

    def __init__(self):
        self.forwards = self.backwards = 0
        self.call = from_backward(self.forward, self.backward)

    def forward(self, x):
        self.forwards += 1
        y = np.tanh(x)
        return y, y

    def backward(self, g, y):
        self.backwards += 1
        return g * (1 - y**2)


# -- what is run when -------------------------------------------------------------------------------------------
def test_nothing_runs_before_it_is_asked_for(x):
    f = Counted()
    Measurement(f.call, x)
    assert f.forwards == 0


def test_each_eps_is_measured_once_and_the_analytical_side_never_again(x):
    f = Counted()
    m = Measurement(f.call, x)
    analytical = m.analytical
    first = m.numerical(1e-6)
    runs, pulls = f.forwards, f.backwards
    assert pulls == x.size
    assert m.numerical(1e-6) is first
    assert f.forwards == runs
    m.numerical(1e-4)
    assert f.forwards == runs + 2 * x.size
    assert m.numerical(1e-6) is first
    assert m.analytical is analytical
    assert (f.forwards, f.backwards) == (runs + 2 * x.size, pulls)


def test_the_caller_can_drive_the_measurement_and_sees_its_progress(x):
    m = Measurement(np.tanh, x)
    assert list(m.numerical_steps(1e-6)) == [Progress(k, 8) for k in (2, 4, 6, 8)]
    assert list(m.numerical_steps(1e-6)) == []  # cached
    told = []
    m.numerical(1e-5, told.append)
    assert told[-1] == Progress(8, 8)


def test_a_measurement_given_up_half_way_leaves_no_half_result(x):
    m = Measurement(np.tanh, x)
    steps = m.numerical_steps(1e-6)
    next(steps)
    steps.close()
    np.testing.assert_allclose(np.diag(m.numerical(1e-6).jacobians[0, 0, ""]), 1 - np.tanh(x) ** 2, rtol=1e-7)


def test_old_eps_are_forgotten_when_the_cache_is_full(x, monkeypatch):
    monkeypatch.setattr("gradcheck_widget.measurement.CACHE_BYTES", 3 * x.size**2 * 8)
    f = Counted()
    m = Measurement(f.call, x)
    for eps in (1e-3, 1e-4, 1e-5, 1e-6):
        m.numerical(eps)
    runs = f.forwards
    m.numerical(1e-6), m.numerical(1e-5), m.numerical(1e-4)
    assert f.forwards == runs
    m.numerical(1e-3)
    assert f.forwards == runs + 2 * x.size


# -- shortcuts --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [lambda x: x, leaf])
def test_no_graph_is_recorded_in_the_numerical_loop_of_a_numpy_function(make, x, monkeypatch):
    m = Measurement(lambda v: np.tanh(v) * np.exp(v).sum(), make(x))
    m.numerical(1e-6)
    made = []
    monkeypatch.setattr(Node, "__init__", lambda self, *args, **kwargs: made.append(self))
    m.numerical(1e-5)
    assert made == []


def kinds_seen(func, *inputs):
    """The types that func gets in the numerical loop, once the way is chosen."""
    seen = []

    def spy(*args):
        seen.append(type(args[0]).__name__ + "+grad" * bool(getattr(args[0], "requires_grad", False)))
        return func(*args)

    m = Measurement(spy, inputs)
    m.numerical(1e-6)
    seen.clear()
    m.numerical(1e-5)
    return set(seen)


def test_a_numpy_function_runs_on_bare_arrays(x):
    assert kinds_seen(np.tanh, leaf(x)) == {"ndarray"}


def test_a_function_that_needs_tensors_gets_tensors(x):
    assert kinds_seen(lambda v: v * v.detach(), leaf(x)) == {"Tensor"}


def test_a_function_that_asks_for_requires_grad_gets_the_callers_own_tensors(x):
    def func(v):
        if not v.requires_grad:
            raise ValueError("a tensor that requires grad, please")
        return v * 2

    assert kinds_seen(func, leaf(x)) == {"Tensor+grad"}


def test_a_function_that_is_another_one_on_arrays_is_not_run_on_arrays(x):
    assert kinds_seen(lambda v: v * 2 if isinstance(v, Tensor) else v * 3, leaf(x)) == {"Tensor"}


def test_a_function_that_is_another_one_on_arrays_is_found_out_also_where_the_values_agree():
    # at x = 1 both are 1, their slopes are not
    assert kinds_seen(lambda v: v**2 if isinstance(v, Tensor) else v**3, leaf(np.ones(3))) == {"Tensor"}


def test_a_random_function_is_run_the_plain_way(x):
    rng = np.random.default_rng(0)
    assert kinds_seen(lambda v: v * rng.normal(), leaf(x)) == {"Tensor+grad"}


def test_moving_to_another_way_costs_three_runs_of_func(x):
    f = Counted()
    m = Measurement(f.call, x)
    m.numerical(1e-6)
    # recorded once; on arrays at the inputs and near them, and near them the plain way
    assert f.forwards == 1 + 3 + 2 * x.size


def square(on_tensors, on_arrays, slope):
    """x**2 on both ways, with a chosen value near x = 1 on each, and a chosen gradient."""

    class Square(Function):
        @staticmethod
        def forward(ctx, v):
            ctx.v = v
            return on_tensors(v)

        @staticmethod
        def backward(ctx, g):
            return g * slope(ctx.v)

    return lambda v: Square.apply(v) if isinstance(v, Tensor) else on_arrays(v)


@pytest.mark.parametrize("x0", [1.0, 0.7])
def test_what_only_the_array_path_gets_right_fails(x0):
    f = square(lambda v: v**3, lambda v: v**2, lambda v: 2 * v)
    report = gradcheck_report(f, leaf([x0]))
    assert not report.passed
    assert report.pairs[0].numerical[0, 0] == pytest.approx(3 * x0**2)


@pytest.mark.parametrize("x0", [1.0, 0.7])
def test_what_only_the_array_path_gets_wrong_passes(x0):
    f = square(lambda v: v**2, lambda v: v**3, lambda v: 2 * v)
    assert gradcheck_report(f, leaf([x0])).passed


# -- a failure on a shortcut is decided again the plain way ---------------------------------------------------------
def test_a_failure_on_a_shortcut_is_measured_the_plain_way_and_kept_if_the_numbers_are_the_same(x):
    m = Measurement(from_backward(lambda v: (v**2, v), lambda g, v: g * v), x)
    before = m.numerical(1e-6)
    assert not m.settled
    assert not m.confirm(1e-6)
    assert m.settled
    assert m.numerical(1e-6) is before


def test_a_failure_that_only_the_shortcut_has_becomes_a_pass():
    # on arrays far from x it is another function: at x and near it nothing shows, but the way to it is far from plain
    calls = {"arrays": 0}

    def func(v):
        if isinstance(v, np.ndarray):
            calls["arrays"] += 1
            if calls["arrays"] > 3:  # only once it has been trusted
                return v * 7
        return v * 2

    m = Measurement(func, leaf([1.0, 2.0]))
    wrong = m.numerical(1e-6)
    assert m.confirm(1e-6)
    assert m.settled
    right = m.numerical(1e-6)
    np.testing.assert_allclose(right.jacobians[0, 0, ""], 2 * np.eye(2), rtol=1e-8)
    assert not np.allclose(right.jacobians[0, 0, ""], wrong.jacobians[0, 0, ""])
    calls["arrays"] = 0
    assert gradcheck_report(func, leaf([1.0, 2.0])).passed


def test_what_a_shortcut_measured_at_other_steps_is_forgotten_with_it():
    calls = {"arrays": 0}

    def func(v):
        calls["arrays"] += isinstance(v, np.ndarray)
        return v * 7 if calls["arrays"] > 3 and isinstance(v, np.ndarray) else v * 2

    m = Measurement(func, leaf([1.0]))
    for eps in (1e-4, 1e-6):
        m.numerical(eps)
    m.confirm(1e-6)
    assert m.numerical(1e-4).jacobians[0, 0, ""][0, 0] == pytest.approx(2.0)


def test_a_plain_measurement_needs_no_second_one(x):
    f = Counted()
    m = Measurement(lambda v: f.call(v) * (1 if v.requires_grad else 1 / 0), leaf(x))
    m.numerical(1e-6)
    runs = f.forwards
    assert m.settled
    assert not m.confirm(1e-6)
    assert f.forwards == runs


def test_a_confirmation_that_was_interrupted_is_done_again(x):
    stop = False

    def func(v):
        if stop:
            raise KeyboardInterrupt
        return v * 2

    m = Measurement(func, leaf(x))
    m.numerical(1e-6)
    stop = True
    with pytest.raises(KeyboardInterrupt):
        m.confirm(1e-6)
    assert not m.settled


# -- the caller's memory ----------------------------------------------------------------------------------------
def test_all_tensors_are_restored_also_those_that_are_not_checked(x):
    constant = Tensor(np.ones(4))

    def func(v, c):
        c.data[0] += 1
        return v * c.data[1]

    m = Measurement(func, (x, constant))
    m.numerical(1e-6)
    _ = m.analytical
    np.testing.assert_array_equal(constant.data, np.ones(4))
    assert m.modified is None  # a buffer may be written into: no derivative is taken with respect to it


def test_an_input_changed_on_bare_arrays_only_is_found(x):
    def func(v):
        v -= v.mean()
        return v * 2

    m = Measurement(func, x)
    before = x.tobytes()
    m.numerical(1e-6)
    assert m.modified == "input 0 'v'"
    assert x.tobytes() == before
    # for Tensors `-=` is no write
    tensor = leaf(x)
    m = Measurement(func, tensor)
    np.testing.assert_allclose(m.numerical(1e-6).jacobians[0, 0, ""], m.analytical[0, 0, ""], atol=1e-8)
    assert m.modified is None


def test_an_input_changed_at_a_late_call_only_is_found_and_restored(x):
    calls = 0

    def func(v):
        nonlocal calls
        calls += 1
        if calls == 9:
            v[0] = 100.0
        return v * 2

    before = x.tobytes()
    m = Measurement(func, x)
    m.numerical(1e-6)
    assert m.modified == "input 0 'v'"
    assert x.tobytes() == before


def test_jacobians_are_right_although_func_changes_its_inputs(x):
    def forward(v):
        v -= 1.0
        return v * v, v.copy()

    m = Measurement(from_backward(forward, lambda g, v: g * 2 * v), x)
    np.testing.assert_allclose(m.analytical[0, 0, ""], np.diag(2 * (x - 1)))
    np.testing.assert_allclose(m.numerical(1e-6).jacobians[0, 0, ""], np.diag(2 * (x - 1)), atol=1e-7)
    assert m.modified == "input 0 'v'"


def test_a_backward_that_changes_the_input_is_found(x):
    def backward(g, v):
        v[0] += 1.0
        return 2 * g

    before = x.tobytes()
    m = Measurement(from_backward(lambda v: (2 * v, v), backward), x)
    _ = m.analytical
    assert m.modified == "input 0 'v'"
    assert x.tobytes() == before


def test_new_values_written_after_an_interrupted_measurement_are_not_taken_back(x):
    m = Measurement(np.tanh, x)
    steps = m.numerical_steps(1e-6)
    next(steps)
    x[:] = 5.0
    del steps
    gc.collect()
    np.testing.assert_array_equal(x, np.full(4, 5.0))


def test_a_copy_of_the_values_is_all_that_a_measurement_of_read_only_inputs_touches():
    x = np.frombuffer(np.array([1.0, 2.0]).tobytes())
    m = Measurement(lambda v: v**2, x)
    np.testing.assert_allclose(m.numerical(1e-6).jacobians[0, 0, ""], np.diag([2.0, 4.0]), rtol=1e-8)
    np.testing.assert_array_equal(x, [1.0, 2.0])


# -- names and refusals -----------------------------------------------------------------------------------------
def names(func, *inputs):
    return [t.name for t in Measurement(func, inputs).templates]


def test_inputs_bear_the_names_of_the_parameters(x):
    assert names(lambda w, b: w, x, x.copy()) == ["input 0 'w'", "input 1 'b'"]
    assert names(lambda flag, w: w, True, x) == ["input 1 'w'"]
    assert names(lambda *args: args[0], x) == ["input 0"]
    assert names(lambda w, /, *rest: w, x, x.copy()) == ["input 0", "input 1"]


def test_a_given_name_wins(x):
    m = Measurement(np.tanh, x, labels=["theta"])
    assert m.templates[0].name == "input 0 'theta'"


def test_the_shared_memory_of_two_inputs_is_refused_with_both_names(x):
    with pytest.raises(RuntimeError, match="input 0 'a' and input 1 'b' share memory"):
        Measurement(lambda a, b: a, (x, x[::-1]))
    Measurement(lambda a, b: a, (x[::2], x[1::2]))
    Measurement(lambda a, b: a, (x, x))  # one and the same input twice is one variable


def test_no_warning_where_none_is_wanted(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Measurement(np.tanh, x.astype(np.float32), stacklevel=None)


@pytest.mark.parametrize(("given", "expected"), [((1, 2), (1, 2)), ([1, 2], (1, 2)), (3, (3,)), (None, (None,))])
def test_inputs_are_a_tuple_a_list_or_a_single_one(given, expected):
    assert as_tuple(given) == expected


def test_the_second_analytical_side_is_measured_anew(x):
    f = Counted()
    m = Measurement(f.call, x)
    first, second = m.analytical, m.second_analytical()
    assert f.backwards == 2 * x.size
    assert first[0, 0, ""] is not second[0, 0, ""]
    assert drain(m.analytical_steps()).keys() == first.keys()
