"""The jax engine: pytrees, complex convention, forward and batched mode, and what must not go wrong on the way."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gradcheck_widget import GradcheckError, gradcheck, gradcheck_report, gradgradcheck
from gradcheck_widget.engines import find_engine
from gradcheck_widget.engines.jax import JaxEngine
from gradcheck_widget.jacobians import Template, analytical_rows, drain, forward_columns, numerical_columns

engine = JaxEngine()


@pytest.fixture(autouse=True)
def double_precision():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def array(*shape, seed=0, complex_=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return jnp.asarray(x + 1j * rng.normal(size=shape) if complex_ else x)


def measured(func, *inputs):
    """The Linearization, and the analytical, numerical and forward-mode Jacobians, by the engine's own methods."""
    checked = [i for i, x in enumerate(inputs) if engine.is_tensor(x) and engine.requires_grad(x)]
    linearization = engine.linearize(func, inputs, checked)
    arrays = [engine.array(inputs[i]) for i in checked]
    templates = [Template(a.shape, a.dtype, f"input {i}") for i, a in zip(checked, arrays, strict=True)]
    outputs = [Template(o.shape, o.dtype, f"output {k}") for k, o in enumerate(linearization.outputs)]
    (evaluator,) = engine.evaluators(func, inputs, checked)
    assert evaluator.plain
    return (
        linearization,
        drain(analytical_rows(linearization, templates, outputs)),
        drain(numerical_columns(evaluator, templates, outputs, 1e-6)).jacobians,
        lambda: drain(forward_columns(engine.pushforward(func, inputs, checked), templates, outputs)),
    )


def assert_same(found, expected, atol=1e-7):
    assert found.keys() == expected.keys()
    for key, J in expected.items():
        np.testing.assert_allclose(found[key], J, rtol=1e-6, atol=atol, err_msg=str(key))


# -- which inputs, and how they come and go -----------------------------------------------------------------------
def test_arrays_of_jax_find_their_engine_without_being_asked():
    assert find_engine([{"w": jnp.ones(2)}]).name == "jax"


def test_integers_and_random_keys_are_tensors_without_a_derivative():
    for x in (jnp.arange(3), jnp.ones(2, bool), jax.random.key(0), jax.random.PRNGKey(0)):
        assert engine.is_tensor(x) and not engine.requires_grad(x)
        assert not engine.snapshot(x).restore()
    assert not engine.is_tensor(np.ones(2)) and not engine.is_tensor(1.0)
    assert engine.requires_grad(jnp.ones(2, jnp.bfloat16)) and engine.requires_grad(jnp.ones(2, complex))


def test_an_array_of_a_trace_is_not_an_input():
    jax.jit(lambda x: [x, assert_(not engine.is_tensor(x))][0])(jnp.ones(2))


def assert_(condition):
    assert condition


class Layer(NamedTuple):
    kernel: jax.Array
    bias: jax.Array | None


@jax.tree_util.register_pytree_with_keys_class
class Scale:
    def __init__(self, by):
        self.by = by

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("by"), self.by)], None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


def test_leaves_of_a_pytree_bear_their_paths_and_go_back_to_their_places():
    tree = {"b": Layer(jnp.ones(2), None), "a": [jnp.zeros(1), "relu"], "s": Scale(jnp.ones(()))}
    leaves, paths, rebuild = engine.flatten(tree)
    assert paths == ["['a'][0]", "['a'][1]", "['b'].kernel", "['s'].by"]
    again = rebuild(leaves)
    assert isinstance(again["b"], Layer) and again["b"].bias is None and again["a"][1] == "relu"
    assert again["s"].by is tree["s"].by
    assert engine.flatten(jnp.ones(2))[1] == [""]


def test_host_copies_are_writable_and_leave_the_array_alone():
    x = array(2, 3)
    copy = engine.array(x)
    copy[...] = 7
    assert not (np.asarray(x) == 7).any()


def test_bfloat16_is_shown_as_float32():
    x = jnp.asarray([1.5, 2.0], jnp.bfloat16)
    assert engine.array(x).dtype == np.float32
    linearization, analytical, *_ = measured(lambda x: x * x, x)
    assert linearization.outputs[0].dtype == np.float32
    assert_same(analytical, {(0, 0, ""): np.diag([3.0, 4.0])})


@pytest.mark.parametrize("x64", [True, False])
def test_a_copy_has_everything_but_the_memory(x64):
    """The widget measures on copies in the background, while the caller may give the original away."""
    for x in (jnp.ones(2, jnp.bfloat16), jnp.full(2, 0.5), array(3), jnp.ones((), jnp.complex128)):
        jax.config.update("jax_enable_x64", x64)
        copy = engine.copy(x)
        jax.config.update("jax_enable_x64", True)
        assert copy is not x and (copy.dtype, copy.shape, copy.weak_type) == (x.dtype, x.shape, x.weak_type)
        x.delete()
        assert np.isfinite(engine.array(copy)).all()


def test_two_arrays_with_one_buffer_are_not_refused():
    """Nobody can write into an array, so moving one never moves the other."""
    x = array(3)
    y = jnp.array(x, copy=False)
    assert gradcheck(lambda x, y: x * y**2, (x, y))


# -- reverse mode against central differences -----------------------------------------------------------------------
@jax.custom_jvp
def square(x):
    return x**2


square.defjvp(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))

RIGHT = {
    "elementwise": lambda x: jnp.tanh(x) * x,
    "matmul": lambda x: x @ x.T,
    "a loss": lambda x: jnp.mean(jax.nn.softplus(x) ** 2),
    "jitted": jax.jit(lambda x: jnp.exp(-(x**2)).sum(axis=0)),
    "custom_jvp": square,
    "scanned": lambda x: jax.lax.scan(lambda c, r: (c * 0.5 + jnp.sin(r), c), jnp.zeros(3), x),
    "vmapped": lambda x: jax.vmap(lambda r: r / jnp.linalg.norm(r))(x),
    "checkpointed": jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))),
    "a gradient inside": lambda x: jax.grad(lambda y: jnp.sum(y**3))(x),
    "its own input": lambda x: x,
    "several outputs, one an integer": lambda x: (x * 2, jnp.argmax(x), {"c": jnp.ones(2), "s": [x.sum(), x > 0]}),
    "a scalar element": lambda x: x[0, 1] ** 3,
    "an empty output": lambda x: (x[:0], ()),
    "a list": lambda x: [x, x * x],
    "constants of Python and NumPy": lambda x: (x, 3.0, 2, np.ones(2), np.float64(1)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_derivative_agrees_with_differences_in_every_mode(name):
    _, analytical, numerical, forward = measured(RIGHT[name], array(2, 3))
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3)])
def test_scalars_and_empty_arrays_are_inputs_like_others(shape):
    x = array(*shape, seed=1)
    _, analytical, numerical, forward = measured(lambda x: jnp.sin(x) * 2, x)
    assert numerical[0, 0, ""].shape == (x.size, x.size)
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)


def test_several_inputs_with_integers_and_keys_between_them():
    def f(x, index, key, y, rate):
        return x[index] * y * rate + jax.random.key_data(key).sum(), index

    _, analytical, numerical, forward = measured(f, array(5), jnp.asarray([3, 0]), jax.random.key(1), array(2), 0.5)
    assert [k[:2] for k in numerical] == [(0, 0), (0, 1)]
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)


def test_a_function_that_closes_over_other_arrays():
    w = array(3, 3, seed=2)
    _, analytical, numerical, _ = measured(lambda x: w @ x + x * jnp.sum(w), array(3))
    assert_same(analytical, numerical)


def test_the_same_array_twice_is_two_arguments():
    x = array(3)
    _, analytical, numerical, _ = measured(lambda a, b: a * b**2, x, x)
    assert_same(analytical, numerical)
    assert abs(numerical[0, 0, ""] - numerical[0, 1, ""]).max() > 0.01


# -- what must fail ----------------------------------------------------------------------------------------------
def with_rule(forward, backward):
    f = jax.custom_vjp(forward)
    f.defvjp(lambda *args: (forward(*args), args), backward)
    return f


def log1pexp(x):
    return jnp.logaddexp(x, 0.0)


SABOTAGED = {
    "wrong factor": with_rule(log1pexp, lambda res, g: (1.01 * g * jax.nn.sigmoid(res[0]),)),
    "wrong sign": with_rule(log1pexp, lambda res, g: (-g * jax.nn.sigmoid(res[0]),)),
    "cotangent ignored": with_rule(log1pexp, lambda res, g: (jax.nn.sigmoid(res[0]),)),
    "one element": with_rule(log1pexp, lambda res, g: ((g * jax.nn.sigmoid(res[0])).at[1, 2].mul(1.1),)),
    "wrong custom_jvp": jax.custom_jvp(jnp.sin),
    "stop_gradient": lambda x: x * jax.lax.stop_gradient(x),
    "detached output": lambda x: (x, jax.lax.stop_gradient(x)),
}
SABOTAGED["wrong custom_jvp"].defjvp(lambda p, t: (jnp.sin(p[0]), jnp.cos(p[0]) * t[0] * 2))


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", SABOTAGED)
def test_a_wrong_rule_is_found(name, jit):
    func = jax.jit(SABOTAGED[name]) if jit else SABOTAGED[name]
    with pytest.raises(GradcheckError):
        gradcheck(func, array(2, 3))
    assert not gradcheck(func, array(2, 3), raise_exception=False)


def test_the_right_rule_beside_them_passes():
    assert gradcheck(with_rule(log1pexp, lambda res, g: (g * jax.nn.sigmoid(res[0]),)), array(2, 3))


@pytest.mark.parametrize("every", [2, 7])
def test_a_function_that_counts_its_calls_is_not_frozen_by_compiling_it(every):
    """A jitted copy would keep the first value of the counter for ever, and the check would pass."""
    calls = itertools.count()

    def f(x):
        return x * (2 + (next(calls) % every == every - 1) * 1e-6)

    assert not gradcheck(f, array(150), raise_exception=False)


def test_random_numbers_of_numpy_are_not_frozen():
    rng = np.random.default_rng(0)
    assert not gradcheck(lambda x: x * rng.normal(), array(120), raise_exception=False)


def test_a_rule_that_differs_from_run_to_run_is_found():
    calls = itertools.count()
    f = with_rule(log1pexp, lambda res, g: (g * jax.nn.sigmoid(res[0]) * (1 + 1e-9 * next(calls)),))
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(f, array(3))


# -- complex numbers: PyTorch's convention ---------------------------------------------------------------------------
COMPLEX = {
    "holomorphic": (lambda z, x: z**3 * (1 + 2j), lambda z, x: z**3 * (1 + 2j)),
    "a real loss": (lambda z, x: (jnp.abs(z) ** 2).sum(), lambda z, x: (z.abs() ** 2).sum()),
    "conjugate": (lambda z, x: jnp.conj(z) * z**2, lambda z, x: z.conj() * z**2),
    "real and imaginary parts": (lambda z, x: (z.real * x, z.imag**2), lambda z, x: (z.real * x, z.imag**2)),
    "real to complex": (lambda z, x: x**2 * (1 + 2j), lambda z, x: x**2 * (1 + 2j)),
    "mixed": (lambda z, x: (z * x, jnp.exp(1j * x), x * 2), lambda z, x: (z * x, torch.exp(1j * x), x * 2)),
    "angle": (lambda z, x: jnp.angle(z) * x, lambda z, x: torch.angle(z) * x),
    "matmul": (lambda z, x: z[:, None] @ x[None, :], lambda z, x: z[:, None] @ x[None, :].to(z.dtype)),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_are_those_of_torch(name):
    ours, theirs = COMPLEX[name]
    z, x = array(3, complex_=True), array(3, seed=1)
    linearization, analytical, numerical, forward = measured(ours, z, x)
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)

    tensors = [torch.from_numpy(engine.array(a)).requires_grad_() for a in (z, x)]
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
        np.testing.assert_allclose(g, 0 if want is None else want.numpy(), rtol=1e-12, atol=1e-12)


def test_complex_gradients_by_hand():
    linearization = engine.linearize(lambda z: z**2, [jnp.asarray(1 + 2j)], [0])
    assert linearization.pullback({0: np.asarray(1 + 0j)}) == [2 - 4j]  # conj(2z)
    assert linearization.pullback({0: np.asarray(1j)}) == [4 + 2j]
    loss = engine.linearize(lambda z: z.real**2 + 3 * z.imag, [jnp.asarray(1 + 2j)], [0])
    assert loss.pullback({0: np.asarray(1.0)}) == [2 + 3j]  # dL/da + 1j dL/db
    mixed = engine.linearize(lambda x: x * (1 + 2j), [jnp.asarray(3.0)], [0])
    assert mixed.pullback({0: np.asarray(1j)}) == [2.0]  # the real part of conj(1 + 2j) * 1j
    push = engine.pushforward(lambda z: z**2, [jnp.asarray(1 + 2j)], [0]).push
    assert push({0: np.asarray(1j)}) == [-4 + 2j]  # 2z * 1j


def test_a_rule_that_forgets_to_conjugate_is_found():
    f = with_rule(lambda z: jnp.abs(z) ** 2, lambda res, g: (2 * g * res[0],))  # JAX wants 2 g conj(z)
    assert not gradcheck(f, array(3, complex_=True), raise_exception=False)
    assert gradcheck(with_rule(lambda z: jnp.abs(z) ** 2, lambda res, g: (2 * g * jnp.conj(res[0]),)), array(3) + 1j)


# -- nested results -------------------------------------------------------------------------------------------------
def test_outputs_of_a_nested_result_bear_their_paths():
    def paths(f):
        return engine.linearize(f, [jnp.ones(2)], [0]).paths

    assert paths(lambda x: x) == ("",)
    assert paths(lambda x: (x, x)) == ("", "")
    assert paths(lambda x: {"loss": x, "aux": [x, None, (x,)]}) == ("['aux'][0]", "['aux'][2][0]", "['loss']")
    assert paths(lambda x: (x, {"n": x})) == ("", "[1]['n']")
    assert paths(lambda x: Layer(x, None)) == (".kernel",)


def test_a_pytree_of_parameters_is_checked_leaf_by_leaf_under_its_names():
    params = {"dense": Layer(array(3, 2), array(2)), "steps": jnp.arange(2), "scale": Scale(array())}

    def f(params, x):
        h = jnp.tanh(x @ params["dense"].kernel + params["dense"].bias) * params["scale"].by
        return {"loss": jnp.mean(h**2), "count": params["steps"] + 1}

    report = gradcheck_report(f, (params, array(4, 3, seed=3)))
    assert report.passed
    assert {p.output for p in report.pairs} == {"output 1 ['loss']"}
    names = " ".join(p.input for p in report.pairs)
    assert "params['dense'].kernel" in names and "params['scale'].by" in names and "steps" not in names


@pytest.mark.parametrize(
    ("result", "where"), [("text", "str as output 0:"), ({"a": 1.0, "b": object()}, "object as output 1 ['b']")]
)
def test_what_is_not_an_array_is_named(result, where):
    with pytest.raises(TypeError, match="func returned") as caught:
        gradcheck(lambda x: result, jnp.ones(2))
    assert where in str(caught.value)


def test_a_function_without_return_is_told_so():
    with pytest.raises(TypeError, match="func returned None"):
        gradcheck(lambda x: None, jnp.ones(2))


# -- undefined cotangents, batches and forward mode --------------------------------------------------------------------
def test_undefined_cotangents_count_as_zeros():
    pullback = engine.linearize(lambda x: (x**2, jnp.argmax(x), x.sum()), [jnp.asarray([1.0, 2.0])], [0]).pullback
    np.testing.assert_array_equal(pullback({0: None, 2: None})[0], [0, 0])
    np.testing.assert_array_equal(pullback({})[0], [0, 0])
    np.testing.assert_array_equal(pullback({0: np.ones(2), 2: None})[0], [2, 4])
    np.testing.assert_array_equal(pullback({2: np.asarray(3.0)})[0], [3, 3])


def test_integer_outputs_are_not_differentiable_and_have_no_tangent():
    def f(x):
        return x, jnp.argmax(x), x > 0

    assert engine.linearize(f, [array(3)], [0]).differentiable == (True, False, False)
    pushed = engine.pushforward(f, [array(3)], [0])
    assert [t is None for t in pushed.push({0: np.ones(3)})] == [False, True, True]
    assert [t is None for t in pushed.batched(0, np.ones((2, 3)))] == [False, True, True]


def test_batched_rows_and_columns_are_those_of_the_loop():
    def f(z, x):
        return z * x, jnp.sin(x) @ x

    inputs = (array(3, complex_=True), array(3, seed=1))
    linearization = engine.linearize(f, inputs, (0, 1))
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 3)) + 1j * rng.normal(size=(5, 3))
    for k, many in ((0, rows), (1, rng.normal(size=5))):
        for i, g in enumerate(linearization.batched(k, many)):
            np.testing.assert_allclose(g, [linearization.pullback({k: c})[i] for c in many], rtol=1e-13)
    pushed = engine.pushforward(f, inputs, (0, 1))
    for i, many in ((0, rows), (1, rows.real)):
        for k, t in enumerate(pushed.batched(i, many)):
            np.testing.assert_allclose(t, [pushed.push({i: c})[k] for c in many], rtol=1e-13)


def test_a_derivative_that_cannot_be_batched_is_a_runtime_error():
    def backward(res, g):
        return (g * jax.nn.sigmoid(res[0]) if g.sum() > -1e9 else g,)  # a branch on values

    linearization = engine.linearize(with_rule(log1pexp, backward), [array(3)], [0])
    assert linearization.pullback({0: np.ones(3)})[0].shape == (3,)
    with pytest.raises(RuntimeError, match=r"jax.vmap cannot batch the derivative of func: TracerBool"):
        linearization.batched(0, np.eye(3))


def test_an_input_left_out_does_not_move():
    push = engine.pushforward(lambda x, y: x * y, [jnp.asarray(2.0), jnp.asarray(5.0)], [0, 1]).push
    assert push({0: np.asarray(1.0)}) == [5.0]
    assert push({}) == [0.0]
    assert push({0: np.asarray(1.0), 1: np.asarray(1.0)}) == [7.0]


def test_forward_mode_of_custom_vjp_says_what_to_do():
    f = with_rule(log1pexp, lambda res, g: (g * jax.nn.sigmoid(res[0]),))
    with pytest.raises(TypeError, match="custom_vjp") as caught:
        engine.pushforward(f, [array(3)], [0]).push({0: np.ones(3)})
    assert any("jax.custom_jvp" in note for note in caught.value.__notes__)


def test_the_flags_of_the_contract_work():
    def f(x, z):
        return jnp.tanh(x) * z, jnp.abs(z)

    inputs = (array(3), array(3, complex_=True))
    assert gradcheck(f, inputs, check_forward_ad=True)
    assert gradcheck(f, inputs, check_forward_ad=True, check_backward_ad=False)
    assert gradcheck(f, inputs, check_batched_grad=True, check_grad_dtypes=True)
    assert gradcheck(f, inputs, check_forward_ad=True, check_batched_forward_grad=True)
    assert gradcheck(f, inputs, fast_mode=True)


def test_a_wrong_forward_rule_is_found_where_reverse_mode_is_not_asked():
    f = SABOTAGED["wrong custom_jvp"]
    assert not gradcheck(f, array(3), check_forward_ad=True, check_backward_ad=False, raise_exception=False)


def test_fast_mode_sees_a_wrong_factor():
    assert not gradcheck(SABOTAGED["wrong factor"], array(2, 3), fast_mode=True, raise_exception=False)


# -- second derivatives -----------------------------------------------------------------------------------------------
def test_second_derivatives_of_real_and_complex_functions():
    assert gradgradcheck(lambda x, y: (jnp.sin(x) * y, y**3), (array(3), array(3, seed=1)))
    assert gradgradcheck(lambda z, x: (z**2 * x, jnp.abs(z) ** 2), (array(2, complex_=True), array(2)))
    assert gradgradcheck(with_rule(log1pexp, lambda res, g: (g * jax.nn.sigmoid(res[0]),)), array(3))
    assert gradgradcheck(lambda p: {"a": p["w"] ** 3, "n": jnp.argmax(p["w"])}, {"w": array(3)})


def test_a_wrong_second_derivative_is_found_though_the_first_is_right():
    sigmoid = with_rule(jax.nn.sigmoid, lambda res, g: (g * jax.nn.sigmoid(res[0]),))
    f = with_rule(log1pexp, lambda res, g: (g * sigmoid(res[0]),))
    assert gradcheck(f, array(3))
    assert not gradgradcheck(f, array(3), raise_exception=False)


def test_the_gradient_is_that_of_torch():
    z = array(3, complex_=True)
    g = np.random.default_rng(3).normal(size=3) + 1j
    (found,) = engine.gradient(lambda z: jnp.conj(z) * z**2, [0], 1)(z, jnp.asarray(g))
    t = torch.from_numpy(engine.array(z)).requires_grad_()
    (want,) = torch.autograd.grad(t.conj() * t**2, t, torch.from_numpy(g))
    np.testing.assert_allclose(found, want.numpy(), rtol=1e-12)


def test_forward_over_reverse():
    assert gradgradcheck(lambda x: jnp.sin(x) * x**2, array(3), check_fwd_over_rev=True)


# -- promises --------------------------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
def test_arrays_survive_a_function_that_donates_its_arguments():
    """A jitted function with donate_argnums deletes what it is given."""
    x, n = array(3), jnp.arange(3)
    f = jax.jit(lambda x, n: (x**2 * n, n + 1), donate_argnums=(0, 1))
    before = np.asarray(x).tobytes()
    _, analytical, numerical, forward = measured(f, x, n)
    assert_same(analytical, numerical)
    assert_same(forward(), numerical)
    (evaluator,) = engine.evaluators(f, [x, n], [0])
    first, again = evaluator.run(), evaluator.run()
    assert [o.tobytes() for o in first] == [o.tobytes() for o in again]
    assert not x.is_deleted() and not n.is_deleted() and np.asarray(x).tobytes() == before


def test_inputs_are_bit_identical_after_pass_fail_and_exception():
    x, y = array(3), array(3, complex_=True)
    kept = [np.asarray(a).tobytes() for a in (x, y)]
    calls = itertools.count()

    def breaks(x, y):
        if next(calls) == 5:
            raise ZeroDivisionError("the sixth call")
        return x * y

    assert gradcheck(lambda x, y: x * y, (x, y))
    assert not gradcheck(lambda x, y: jax.lax.stop_gradient(x) * y, (x, y), raise_exception=False)
    with pytest.raises(ZeroDivisionError, match="the sixth call") as caught:
        gradcheck(breaks, (x, y))
    assert any("x + eps" in note or "x - eps" in note for note in caught.value.__notes__)
    assert [np.asarray(a).tobytes() for a in (x, y)] == kept


def test_what_jax_itself_raises_reaches_the_user():
    with pytest.raises(jax.errors.TracerArrayConversionError):
        gradcheck(lambda x: jnp.asarray(np.sin(x)), array(3))


def test_weakly_typed_inputs_stay_so():
    """Otherwise x * float32 would be float32 in the recorded run and float64 in the others."""
    weak = jnp.full((2,), 0.5)
    assert weak.weak_type
    seen = set()

    def f(x):
        seen.add((x.weak_type, x.dtype))
        return x * jnp.ones(2, jnp.float32)

    measured(f, weak)
    assert seen == {(True, np.dtype(np.float64))}


def test_a_function_that_keeps_its_argument_keeps_its_values():
    """Memory of ours under an array of jax would change the array behind the user's back."""
    kept = []
    (evaluator,) = engine.evaluators(lambda x: (kept.append(x), x * 2)[1], [array(4096)], [0])
    evaluator.run()
    evaluator.buffers[0][...] = 7
    evaluator.run()
    np.testing.assert_array_equal(kept[0], array(4096))
    np.testing.assert_array_equal(kept[1], np.full(4096, 7.0))


def test_arguments_that_did_not_move_are_not_made_anew():
    seen = []
    (evaluator,) = engine.evaluators(lambda x, y: (seen.append((x, y)), x * y)[1], [array(3), array(3)], [0, 1])
    evaluator.run()
    evaluator.buffers[0][1] += 1
    evaluator.run()
    assert seen[0][0] is not seen[1][0] and seen[0][1] is seen[1][1]


# -- precision and devices ------------------------------------------------------------------------------------------
def run_alone(code, **env):
    code = "import warnings\nimport jax, jax.numpy as jnp, numpy as np\nfrom gradcheck_widget import *\n" + code
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"JAX_PLATFORMS": "cpu", "PATH": "", **env}
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_with_x64_off_float32_says_how_to_switch_it_on_and_float64_is_kept():
    code = """
x = jnp.linspace(0.5, 1.5, 4)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(gradcheck(lambda x: jnp.sin(x) * x, x, eps=5e-3, atol=1e-2, rtol=1e-2))
print("jax_enable_x64" in str(caught[0].message), x.dtype, jax.config.jax_enable_x64)
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
with enable_x64(True):
    x = jnp.linspace(0.5, 1.5, 4)
    z = jnp.exp(1j * x)
import threading  # the switch is one for each thread, and the widget measures in one of its own
check = lambda: print(gradcheck(lambda x, z: (jnp.sin(x) * 2 * x, z * 3), (x, z), check_forward_ad=True), x.dtype)
thread = threading.Thread(target=check)
thread.start()
thread.join()
print(gradgradcheck(lambda x: jnp.sin(x) * 2, x), jax.config.jax_enable_x64)
"""
    assert run_alone(code) == ["True", "True", "float32", "False", "True", "float64", "True", "False"]


def test_float32_with_x64_on_is_not_blamed_on_jax():
    assert engine.precision_hint(jnp.ones(2, jnp.float32)) == ""
    with pytest.warns(UserWarning, match="float32"):
        assert gradcheck(lambda x: x * 2, jnp.ones(2, jnp.float32), eps=1e-2, atol=1e-2)


def test_the_precision_switch_is_left_as_it_was():
    gradcheck(jnp.sin, array(2))
    assert jax.config.jax_enable_x64


def test_arrays_on_other_devices_stay_there():
    code = """
jax.config.update("jax_enable_x64", True)
one, two = jax.devices()
x = jax.device_put(jnp.arange(1.0, 5.0), two)
free = jnp.ones(4)
def f(x, y):
    assert isinstance(x, jax.core.Tracer) or x.devices() == {two}
    return jnp.sin(x) * y
print(gradcheck(f, (x, free), check_forward_ad=True), gradgradcheck(f, (x, free)))
mesh = jax.sharding.Mesh(jax.devices(), "i")
s = jax.device_put(jnp.arange(1.0, 5.0), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i")))
print(gradcheck(lambda x: x**2, s))
"""
    assert run_alone(code, XLA_FLAGS="--xla_force_host_platform_device_count=2") == ["True"] * 3
