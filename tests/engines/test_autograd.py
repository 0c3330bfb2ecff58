"""The engine of HIPS autograd, which only the name "autograd" chooses."""

from __future__ import annotations

import itertools
import warnings
from collections import namedtuple

import autograd
import autograd.numpy as anp
import numpy as np
import pytest
import torch
from autograd.builtins import dict as boxed_dict
from autograd.builtins import tuple as boxed_tuple
from autograd.extend import defjvp, defvjp, primitive
from autograd.tracer import trace_stack

from gradcheck_widget import GradcheckError, gradcheck, gradcheck_report, gradgradcheck
from gradcheck_widget.engines import find_engine
from gradcheck_widget.engines.autograd import AutogradEngine
from gradcheck_widget.jacobians import Template, analytical_rows, drain, forward_columns, numerical_columns

engine = AutogradEngine()


def array(*shape, seed=0, complex_=False):
    rng = np.random.default_rng(seed)
    x = np.asarray(rng.normal(size=shape))
    return np.asarray(x + 1j * rng.normal(size=shape)) if complex_ else x


def measured(func, *inputs):
    """The Linearization, and the analytical, numerical and forward-mode Jacobians, by the engine's own methods."""
    checked = [i for i, x in enumerate(inputs) if engine.is_tensor(x)]
    linearization = engine.linearize(func, inputs, checked)
    templates = [Template(inputs[i].shape, inputs[i].dtype, f"input {i}") for i in checked]
    outputs = [Template(o.shape, o.dtype, f"output {k}") for k, o in enumerate(linearization.outputs)]
    (evaluator,) = engine.evaluators(func, inputs, checked)
    assert evaluator.plain
    return (
        linearization,
        drain(analytical_rows(linearization, templates, outputs)),
        drain(numerical_columns(evaluator, templates, outputs, 1e-6)).jacobians,
        lambda: drain(forward_columns(engine.pushforward(func, inputs, checked), templates, outputs)),
    )


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for key, J in expected.items():
        np.testing.assert_allclose(found[key], J, rtol=1e-6, atol=1e-7, err_msg=str(key))


def test_only_its_name_chooses_it():
    assert find_engine([np.ones(2)]).name == "numpy"
    assert find_engine([np.ones(2)], "autograd").name == "autograd"


def test_arrays_of_floats_and_complex_numbers_are_its_tensors():
    assert engine.is_tensor(np.ones(2)) and engine.is_tensor(np.ones((), complex))
    assert not any(engine.is_tensor(x) for x in (np.arange(3), 1.0, np.float64(1), [1.0], "x"))


# -- right derivatives ---------------------------------------------------------------------------------------------
Pair = namedtuple("Pair", "left right")

RIGHT = {
    "elementwise": lambda x: anp.tanh(x) * x,
    "matmul": lambda x: x @ x.T,
    "a loss": lambda x: anp.mean(anp.log1p(anp.exp(x)) ** 2),
    "one element": lambda x: x[0, 1] ** 3,
    "slices of it": lambda x: (x[1:], x[:, ::2], x[[0, 0, 1]]),
    "its own input": lambda x: x,
    "the same output twice": lambda x: (lambda y: (y, y))(anp.sin(x)),
    "an empty output": lambda x: (x[:0], ()),
    "a constant beside it": lambda x: (x * 2, np.ones(2), 3.0, np.float64(2)),
    "an integer beside it": lambda x: (x * 2, anp.argmax(x), x > 0),
    "a list": lambda x: [x, x * x],
    "nested": lambda x: {"a": anp.sum(x), "b": [x, (x**2,)]},
    "a namedtuple": lambda x: Pair(x, x**2),
    "a boxed tuple": lambda x: boxed_tuple((x, x**2)),
    "a boxed dict": lambda x: boxed_dict({"a": x, "b": x**2}),
    "a gradient inside": lambda x: autograd.grad(lambda y: anp.sum(y**3))(x),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_derivative_agrees_with_differences_in_both_modes(name):
    _, analytical, numerical, forward = measured(RIGHT[name], array(2, 3))
    assert_same(analytical, numerical)
    if name == "a boxed dict":  # has no forward rule in autograd
        with pytest.raises(NotImplementedError, match="JVP of _make_dict"):
            forward()
    else:
        assert_same(forward(), numerical)


def test_several_outputs_of_a_primitive():
    a = array(3, 3)
    _, analytical, numerical, _ = measured(lambda a: anp.linalg.eigh(a @ a.T + anp.eye(3))[0], a)
    assert_same(analytical, numerical)
    _, analytical, numerical, _ = measured(lambda a: anp.linalg.slogdet(a @ a.T + anp.eye(3)), a)
    assert_same(analytical, numerical)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3)])
def test_scalars_and_empty_arrays_are_inputs_like_others(shape):
    x = array(*shape)
    _, analytical, numerical, forward = measured(lambda x: anp.sin(x) * 2, x)
    assert numerical[0, 0, ""].shape == (x.size, x.size)
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)


def test_several_inputs_with_others_between_them():
    def f(x, index, y, rate, unused):
        return x[index] * y * rate

    _, analytical, numerical, forward = measured(f, array(5), np.asarray([3, 0]), array(2), 0.5, array(2, seed=2))
    assert [k[:2] for k in numerical] == [(0, 0), (0, 1), (0, 2)]
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)


def test_the_same_array_twice_is_one_variable():
    """Perturbing the caller's own array moves both arguments, so the gradient of each must be that of both."""
    x = array(3)
    linearization, analytical, numerical, forward = measured(lambda a, b: a * b**2, x, x)
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)
    np.testing.assert_allclose(linearization.pullback({0: np.ones(3)})[0], 3 * x**2)
    push = engine.pushforward(lambda a, b: a * b**2, [x, x], [0, 1]).push
    np.testing.assert_allclose(push({0: np.ones(3), 1: np.ones(3)})[0], 6 * x**2)
    assert gradgradcheck(lambda a, b: a * b**2, (x, x), engine="autograd")


def test_a_function_that_closes_over_its_input_is_not_taken_for_right():
    x = array(3)
    assert not gradcheck(lambda a: a * x, x, engine="autograd", raise_exception=False)


def test_a_read_only_input_is_checked_too():
    x = array(3)
    x.flags.writeable = False
    _, analytical, numerical, _ = measured(lambda x: x**3, x)
    assert_same(analytical, numerical)


def test_an_input_that_no_output_depends_on_has_no_gradient():
    linearization = engine.linearize(lambda x, y: x * 2, [array(2), array(3)], [0, 1])
    x, y = linearization.pullback({0: np.ones(2)})
    np.testing.assert_array_equal(x, [2, 2])
    assert y is None


def test_an_output_left_out_takes_no_part():
    """0 times the infinite derivative of sqrt at 0 would be NaN."""
    linearization = engine.linearize(lambda x: (x * 2, anp.sqrt(x)), [np.zeros(2)], [0])
    np.testing.assert_array_equal(linearization.pullback({0: np.ones(2)})[0], [2, 2])


def test_outputs_bear_their_paths_and_tell_which_carry_a_gradient():
    linearization = engine.linearize(RIGHT["nested"], [array(2)], [0])
    assert linearization.paths == ("['a']", "['b'][0]", "['b'][1][0]")
    linearization = engine.linearize(lambda x: (x, anp.argmax(x), x.astype(int), np.ones(2)), [array(2)], [0])
    assert linearization.paths == ("", "", "", "")
    assert linearization.differentiable == (True, False, False, False)


def test_undefined_cotangents_count_as_zeros():
    pullback = engine.linearize(lambda x: (x**2, anp.sum(x)), [np.asarray([1.0, 2.0])], [0]).pullback
    np.testing.assert_array_equal(pullback({0: None, 1: None})[0], [0, 0])
    np.testing.assert_array_equal(pullback({0: np.ones(2), 1: None})[0], [2, 4])
    np.testing.assert_array_equal(pullback({0: np.ones(2), 1: np.asarray(3.0)})[0], [5, 7])
    assert pullback({}) == [None]


# -- complex numbers: PyTorch's convention ---------------------------------------------------------------------------
COMPLEX = {
    "holomorphic": (lambda z, x: z**3 * (1 + 2j), lambda z, x: z**3 * (1 + 2j)),
    "a real loss": (lambda z, x: anp.sum(anp.abs(z) ** 2), lambda z, x: (z.abs() ** 2).sum()),
    "conjugate": (lambda z, x: anp.conj(z) * z**2, lambda z, x: z.conj() * z**2),
    "parts": (lambda z, x: (anp.real(z) * x, anp.imag(z) ** 2), lambda z, x: (z.real * x, z.imag**2)),
    "real to complex": (lambda z, x: x**2 * (1 + 2j), lambda z, x: x**2 * (1 + 2j)),
    "mixed": (lambda z, x: (z * x, anp.exp(1j * x), x * 2), lambda z, x: (z * x, torch.exp(1j * x), x * 2)),
    "angle": (lambda z, x: anp.angle(z) * x, lambda z, x: torch.angle(z) * x),
    "norm": (lambda z, x: anp.linalg.norm(z), lambda z, x: torch.linalg.norm(z)),
    "outer": (lambda z, x: anp.outer(z, x), lambda z, x: torch.outer(z, x.to(z.dtype))),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_are_those_of_torch(name):
    ours, theirs = COMPLEX[name]
    z, x = array(3, complex_=True), array(3, seed=1)
    linearization, analytical, numerical, forward = measured(ours, z, x)
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)

    tensors = [torch.from_numpy(a.copy()).requires_grad_() for a in (z, x)]
    outputs = theirs(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    rng = np.random.default_rng(5)
    cotangents = {
        k: np.asarray(rng.normal(size=o.shape) + (1j * rng.normal(size=o.shape) if o.is_complex() else 0))
        for k, o in enumerate(outputs)
    }
    expected = torch.autograd.grad(
        outputs, tensors, [torch.from_numpy(c) for c in cotangents.values()], allow_unused=True
    )
    for g, want in zip(linearization.pullback(cotangents), expected, strict=True):
        np.testing.assert_allclose(0 if g is None else g, 0 if want is None else want.numpy(), rtol=1e-12, atol=1e-12)


def test_the_tangent_of_a_real_output_is_real():
    """The rule of linalg.norm gives a complex number for complex inputs, and others may."""
    (t,) = engine.pushforward(anp.linalg.norm, [array(3, complex_=True)], [0]).push({0: np.ones(3, complex)})
    assert t.dtype == np.float64


def test_complex_gradients_by_hand():
    z = np.asarray(1 + 2j)
    pullback = engine.linearize(lambda z: z**2, [z], [0]).pullback
    assert pullback({0: np.asarray(1 + 0j)}) == [2 - 4j]  # conj(2z)
    assert pullback({0: np.asarray(1j)}) == [4 + 2j]
    loss = engine.linearize(lambda z: anp.real(z) ** 2 + 3 * anp.imag(z), [z], [0])
    assert loss.pullback({0: np.asarray(1.0)}) == [2 + 3j]  # dL/da + 1j dL/db
    assert engine.pushforward(lambda z: z**2, [z], [0]).push({0: np.asarray(1j)}) == [-4 + 2j]


# -- what must fail ---------------------------------------------------------------------------------------------------
def with_rule(vjp, jvp=None):
    f = primitive(lambda x: np.logaddexp(x, 0.0))
    defvjp(f, vjp)
    if jvp is not None:
        defjvp(f, jvp)
    return f


def sigmoid(x):
    return 1 / (1 + anp.exp(-x))


SABOTAGED = {
    "wrong factor": with_rule(lambda ans, x: lambda g: 1.01 * g * sigmoid(x)),
    "wrong sign": with_rule(lambda ans, x: lambda g: -g * sigmoid(x)),
    "cotangent ignored": with_rule(lambda ans, x: lambda g: sigmoid(x)),
    "wrong shape": with_rule(lambda ans, x: lambda g: anp.sum(g * sigmoid(x), axis=0, keepdims=True)),
    "no gradient": with_rule(None),
    "detached": lambda x: x * np.asarray(x._value if hasattr(x, "_value") else x),
    "detached output": lambda x: (x, 2 * np.asarray(x._value if hasattr(x, "_value") else x)),
}


@pytest.mark.parametrize("name", SABOTAGED)
def test_a_wrong_rule_is_found(name):
    with pytest.raises(GradcheckError):
        gradcheck(SABOTAGED[name], array(2, 3), engine="autograd")
    assert not gradcheck(SABOTAGED[name], array(2, 3), engine="autograd", raise_exception=False)


def test_the_right_rule_beside_them_passes():
    f = with_rule(lambda ans, x: lambda g: g * sigmoid(x), lambda g, ans, x: g * sigmoid(x))
    assert gradcheck(f, array(2, 3), engine="autograd", check_grad_dtypes=True)
    assert gradcheck(f, array(2, 3), engine="autograd", check_forward_ad=True)


def test_a_wrong_forward_rule_is_found_though_the_backward_rule_is_right():
    f = with_rule(lambda ans, x: lambda g: g * sigmoid(x), lambda g, ans, x: 1.01 * g * sigmoid(x))
    assert gradcheck(f, array(3), engine="autograd")
    assert not gradcheck(f, array(3), engine="autograd", check_forward_ad=True, raise_exception=False)


def test_a_function_without_a_forward_rule_is_named():
    with pytest.raises(NotImplementedError, match="JVP of inv") as caught:
        engine.pushforward(anp.linalg.inv, [np.eye(2)], [0]).push({0: np.eye(2)})
    assert any("defjvp" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("flag", ["check_batched_grad", "check_batched_forward_grad", "fast_mode"])
def test_flags_that_autograd_has_not_are_refused(flag):
    with pytest.raises(NotImplementedError, match=flag):
        gradcheck(anp.sin, array(2), engine="autograd", raise_exception=False, **{flag: True})


def test_a_rule_that_differs_from_run_to_run_is_found():
    calls = itertools.count()
    f = with_rule(lambda ans, x: lambda g: g * sigmoid(x) * (1 + 1e-9 * next(calls)))
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(f, array(3), engine="autograd")


# -- second derivatives -----------------------------------------------------------------------------------------------
def test_second_derivatives_of_real_and_complex_functions():
    assert gradgradcheck(lambda x, y: (anp.sin(x) * y, y**3), (array(3), array(3, seed=1)), engine="autograd")
    assert gradgradcheck(
        lambda z, x: (z**2 * x, anp.abs(z) ** 2), (array(2, complex_=True), array(2)), engine="autograd"
    )
    assert gradgradcheck(lambda x: {"a": anp.dot(x, x), "n": anp.argmax(x)}, array(3), engine="autograd")


def test_a_wrong_second_derivative_is_found_though_the_first_is_right():
    wrong = primitive(lambda x: 1 / (1 + np.exp(-x)))
    defvjp(wrong, lambda ans, x: lambda g: g * ans)
    f = with_rule(lambda ans, x: lambda g: g * wrong(x))
    assert gradcheck(f, array(3), engine="autograd")
    assert not gradgradcheck(f, array(3), engine="autograd", raise_exception=False)


def test_the_gradient_is_that_of_torch():
    z, g = array(3, complex_=True), array(3, seed=3) + 1j
    (found,) = engine.gradient(lambda z: anp.conj(z) * z**2, [0], 1)(z, g)
    t = torch.from_numpy(z.copy()).requires_grad_()
    (want,) = torch.autograd.grad(t.conj() * t**2, t, torch.from_numpy(g))
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-12)


def test_an_output_that_another_trace_recorded_carries_no_gradient_of_ours():
    def outer(w):
        (g,) = engine.gradient(lambda x: (w, x * w), [0], 1)(array(3), np.ones(3))
        return anp.sum(g**2)

    w = array(3, seed=1)
    np.testing.assert_allclose(autograd.grad(outer)(w), 2 * w)


def test_the_gradient_of_unused_inputs_is_left_out():
    assert len(engine.gradient(lambda x, y: y * 2, [0, 1], 2)(array(2), array(2), np.ones(2))) == 1


# -- promises --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("result", "where"), [("text", "str as output 0:"), ({"a": 1.0, "b": object()}, "object as output 1 ['b']")]
)
def test_what_is_not_an_array_is_named(result, where):
    with pytest.raises(TypeError, match="func returned") as caught:
        engine.linearize(lambda x: result, [np.ones(2)], [0])
    assert where in str(caught.value)
    with pytest.raises(TypeError, match="func returned NoneType as output 0"):
        engine.linearize(lambda x: None, [np.ones(2)], [0])


def test_inputs_are_bit_identical_after_pass_fail_and_exception():
    x, y = array(3), array(3, complex_=True)
    kept = [a.tobytes() for a in (x, y)]
    calls = itertools.count()

    def breaks(x, y):
        if next(calls) == 5:
            raise ZeroDivisionError("the sixth call")
        return x * y

    assert gradcheck(lambda x, y: x * y, (x, y), engine="autograd")
    assert not gradcheck(SABOTAGED["wrong factor"], x, engine="autograd", raise_exception=False)
    with pytest.raises(ZeroDivisionError, match="the sixth call"):
        gradcheck(breaks, (x, y), engine="autograd")
    assert [a.tobytes() for a in (x, y)] == kept


def test_an_exception_leaves_the_tracer_of_autograd_as_it_was():
    top = trace_stack.top
    with pytest.raises(ZeroDivisionError):
        engine.linearize(lambda x: 1 // 0, [np.ones(2)], [0])
    assert trace_stack.top == top


def test_a_function_that_does_not_depend_on_its_input_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradcheck(lambda x: np.ones(2), array(2), engine="autograd")


def test_what_func_cannot_differentiate_reaches_the_user():
    with pytest.raises(NotImplementedError, match="VJP of flip"):
        gradcheck(anp.flip, array(3), engine="autograd")


def test_a_nest_of_parameters_is_checked_under_its_names():
    params = [{"w": array(3, 2), "b": array(2)}, {"w": array(2, 2, seed=1), "b": array(2, seed=1)}]

    def f(params, x):
        for layer in params:
            x = anp.tanh(anp.dot(x, layer["w"]) + layer["b"])
        return {"loss": anp.mean(x**2)}

    report = gradcheck_report(f, (params, array(4, 3)), engine="autograd")
    assert report.passed and report.engine == "autograd"
    assert {p.output for p in report.pairs} == {"output 0 ['loss']"}
    assert any("params[1]['w']" in p.input for p in report.pairs)
