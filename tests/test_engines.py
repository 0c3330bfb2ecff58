"""The engine: which inputs it takes, shared memory, ways of running func, and its derivatives."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from gradcheck_widget import Function, Tensor
from gradcheck_widget.engines import find_engine
from gradcheck_widget.engines.base import overlapping
from gradcheck_widget.engines.numpy import NumpyEngine

engine = NumpyEngine()


def leaf(x):
    return Tensor(x, requires_grad=True)


# -- shared memory ----------------------------------------------------------------------------------------------
def bytes_overlap(x):
    """By listing every byte of every element."""
    seen = set()
    for index in np.ndindex(*x.shape):
        start = sum(i * s for i, s in zip(index, x.strides, strict=True))
        mine = set(range(start, start + x.itemsize))
        if mine & seen:
            return True
        seen |= mine
    return False


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-40, 40)), max_size=3), st.sampled_from([4, 8, 16]))
def test_overlap_is_found_exactly_where_two_elements_share_a_byte(axes, itemsize):
    dtype = {4: np.float32, 8: np.float64, 16: np.complex128}[itemsize]
    middle = np.zeros(1024, np.uint8)[512:528].view(dtype)
    x = as_strided(middle, [n for n, _ in axes], [s for _, s in axes])
    assert overlapping(x) == bytes_overlap(x)


BASE = np.arange(24.0)
SHARED = {
    "stride 0": np.broadcast_to(np.ones(1), (3,)),
    "one axis of stride 0": np.broadcast_to(np.ones((2, 1)), (2, 3)),
    "windows": sliding_window_view(BASE, 5),
    "two-dimensional windows": sliding_window_view(BASE.reshape(4, 6), (2, 2)),
    "half an element further": as_strided(BASE, (4,), (4,)),
    "interlocking axes that meet": as_strided(BASE, (4, 3), (16, 24)),
}
DISJOINT = {
    "every second": BASE[::2],
    "backwards": BASE[::-1],
    "real parts": np.ones((3, 4), complex).real,
    "imaginary parts": np.ones((3, 4), complex).imag,
    "transposed": BASE.reshape(4, 6).T,
    "axes permuted": BASE.reshape(2, 3, 4).transpose(1, 2, 0),
    "a block": BASE.reshape(4, 6)[1:3, ::2],
    "diagonal": np.diagonal(np.ones((4, 4))),
    "fortran": np.asfortranarray(np.ones((3, 4))),
    "interlocking axes that miss each other": as_strided(BASE, (2, 3), (24, 16)),
    "a repeated axis of length 1": np.broadcast_to(np.ones(3), (1, 3)),
    "empty": np.broadcast_to(np.ones(1), (0, 3)),
    "a scalar": np.array(1.0),
}


@pytest.mark.parametrize("name", SHARED)
def test_elements_that_share_memory_are_seen(name):
    assert overlapping(SHARED[name])


@pytest.mark.parametrize("name", DISJOINT)
def test_views_without_shared_elements_are_not_refused(name):
    assert not overlapping(DISJOINT[name])


# -- which inputs are tensors -----------------------------------------------------------------------------------
@pytest.mark.parametrize("x", [np.ones(2), np.ones(2, complex), np.ones(2, np.float32), np.array(1.0), leaf([1.0])])
def test_floating_point_arrays_and_tensors_are_checked(x):
    assert engine.is_tensor(x)
    assert engine.requires_grad(x)


@pytest.mark.parametrize(
    "x", [np.arange(3), np.ones(2, bool), np.array(["a"]), [1.0], 1.0, None, np.float64(1)], ids=repr
)
def test_anything_else_is_no_tensor(x):
    assert not engine.is_tensor(x)


def test_a_tensor_that_does_not_require_grad_is_not_checked():
    assert engine.is_tensor(Tensor([1.0]))
    assert not engine.requires_grad(Tensor([1.0]))


def test_array_shares_the_memory_of_the_caller():
    x = np.ones(3)
    assert engine.array(x) is x
    assert engine.array(leaf(x)) is x


def test_the_engine_is_found_from_the_inputs_and_is_the_embedded_one_without_any():
    assert find_engine([1, np.ones(2)]).name == "numpy"
    assert find_engine([]).name == "numpy"


def test_an_engine_declares_no_flag_that_it_does_not_have():
    assert engine.supports == frozenset()


def test_finding_the_engine_imports_no_framework():
    code = (
        "import sys, numpy as np; from gradcheck_widget import gradcheck; gradcheck(np.tanh, np.ones(2));"
        "print([m for m in ('torch', 'jax', 'autograd', 'tensorplay') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


# -- linearize --------------------------------------------------------------------------------------------------
def linearize(func, *inputs):
    return engine.linearize(func, inputs, range(len(inputs)))


def test_the_pullback_takes_cotangents_by_output_and_gives_gradients_by_input():
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    lin = linearize(lambda a, b: (a * b, a.sum()), a, b)
    assert lin.differentiable == (True, True)
    ga, gb = lin.pullback({0: np.array([1.0, 10.0]), 1: np.array(100.0)})
    np.testing.assert_array_equal(ga, [103.0, 140.0])
    np.testing.assert_array_equal(gb, [1.0, 20.0])


def test_outputs_left_out_of_the_cotangents_take_no_part():
    ga, gb = linearize(lambda a, b: (a * 2, b * 3), np.ones(2), np.ones(2)).pullback({0: np.ones(2)})
    np.testing.assert_array_equal(ga, [2.0, 2.0])
    assert gb is None


def test_an_undefined_cotangent_counts_as_nothing():
    ga, gb = linearize(lambda a, b: (a * 2, b * 3), np.ones(2), np.ones(2)).pullback({0: np.ones(2), 1: None})
    np.testing.assert_array_equal(ga, [2.0, 2.0])
    assert gb is None


def test_outputs_tell_whether_they_carry_a_gradient():
    lin = linearize(lambda x: (x * 2, x.detach(), x.data, x > 0, np.floor(x)), np.ones(2))
    assert lin.differentiable == (True, False, False, False, False)


def test_one_array_passed_twice_is_one_tensor():
    x = np.array([2.0])
    same = []
    lin = linearize(lambda a, b: same.append(a is b) or a * b, x, x)
    assert same == [True]
    np.testing.assert_array_equal(lin.pullback({0: np.ones(1)}), [[4.0], [4.0]])


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (None, "NoneType as output 0"),
        (3.0, "float as output 0"),
        ({"a": 1}, "dict as output 0"),
        ((np.ones(1), "b"), "str as output 1"),
    ],
)
def test_a_result_that_is_no_tensor_is_named(result, words):
    with pytest.raises(TypeError, match=words):
        linearize(lambda x: result, np.ones(2))


# -- ways of running func ---------------------------------------------------------------------------------------
def evaluators(func, *inputs):
    return list(engine.evaluators(func, inputs, [i for i, x in enumerate(inputs) if engine.is_tensor(x)]))


def test_the_last_evaluator_is_the_plain_one_and_the_only_one():
    assert [e.plain for e in evaluators(np.tanh, np.ones(2))] == [False, False, True]


def test_evaluators_hand_over_arrays_then_detached_tensors_then_the_callers_own():
    x = leaf(np.ones(2))
    got = []
    for e in evaluators(lambda v: got.append(v) or v, x):
        e.run()
    assert type(got[0]) is np.ndarray
    assert isinstance(got[1], Tensor) and not got[1].requires_grad
    assert got[2] is x


def test_every_evaluator_sees_what_is_written_into_the_buffers():
    for x in (np.ones(3), leaf(np.ones(3)), np.ones(6)[::2], np.asfortranarray(np.ones((3, 1)))):
        for e in evaluators(lambda v: v * 2, x):
            e.buffers[0][...] = 5.0
            np.testing.assert_array_equal(e.run()[0], np.full(engine.array(x).shape, 10.0))
            assert np.shares_memory(e.buffers[0], engine.array(x))


def test_a_read_only_array_is_moved_in_a_copy():
    x = np.ones(3)
    x.flags.writeable = False
    for inputs in ((x,), (leaf(x),), (x, x)):
        for e in evaluators(lambda *v: v[0] * 2, *inputs):
            e.buffers[0][0] = 5.0
            np.testing.assert_array_equal(e.run()[0], [10.0, 2.0, 2.0])
            assert all(b is e.buffers[0] for b in e.buffers)
            e.buffers[0][0] = 1.0
    np.testing.assert_array_equal(x, np.ones(3))


def test_inputs_that_are_no_tensors_arrive_as_they_are():
    other = object()
    got = []
    for e in evaluators(lambda v, a, b: got.extend((a, b)) or v, np.ones(2), other, "s"):
        e.run()
    assert got == [other, "s"] * 3


def test_scalars_and_tuples_and_lists_come_back_as_arrays():
    for e in evaluators(lambda v: [v.sum(), np.float64(2.0), v.max() > 0], np.ones(2)):
        assert all(isinstance(o, np.ndarray) for o in e.run())


# -- the vjp as a function --------------------------------------------------------------------------------------
def test_the_gradient_function_gives_one_result_for_each_input_an_output_depends_on():
    g = engine.gradient(lambda a, b, c: a * c, [0, 1, 2], 3)
    a, b, c = leaf([2.0]), leaf([3.0]), leaf([5.0])
    ga, gc = g(a, b, c, leaf([7.0]))
    assert (ga.item(), gc.item()) == (35.0, 14.0)
    assert ga.requires_grad


def test_the_gradient_function_records_nothing_when_nothing_requires_grad():
    g = engine.gradient(np.sin, [0], 1)
    (result,) = g(np.array([0.5]), np.array([1.0]))
    assert not result.requires_grad
    np.testing.assert_allclose(result.data, np.cos([0.5]))


def test_a_function_called_on_arrays_gives_arrays_and_on_tensors_tensors():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    kinds = [type(e.run()[0]) for e in evaluators(Double.apply, np.ones(2))]
    assert kinds == [np.ndarray] * 3
    assert isinstance(Double.apply(np.ones(2)), np.ndarray)
    assert isinstance(Double.apply(Tensor(np.ones(2))), Tensor)


def test_evaluators_agree_with_each_other_for_every_memory_layout():
    x = np.random.default_rng(0).normal(size=(3, 4))
    layouts = (np.ascontiguousarray, np.asfortranarray, lambda a: a[::2, ::-1])
    for layout, make in itertools.product(layouts, (lambda a: a, leaf)):
        results = [e.run()[0] for e in evaluators(lambda v: v @ v.T, make(layout(x)))]
        for r in results[1:]:
            np.testing.assert_array_equal(r, results[0])
