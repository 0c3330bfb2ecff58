"""Derivatives written by hand: Function, from_backward and from_jacobian, their contract and their error messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_widget import Function, GradcheckError, Tensor, from_backward, from_jacobian, gradcheck, gradgradcheck
from gradcheck_widget.tensor import grad

X = np.array([[0.3, -1.2, 0.7], [1.1, 0.4, -0.5]])
Y = np.array([[1.5, 0.2, -0.4], [0.8, -1.0, 0.6]])


def tensors(*arrays: Any) -> list[Tensor]:
    return [Tensor(a, requires_grad=True) for a in arrays]


def pull(y: Any, inputs: list[Tensor], create_graph: bool = False) -> list[Any]:
    return list(grad([y], inputs, [np.ones(y.shape, y.dtype)], create_graph=create_graph))


# -- Function: what is saved ------------------------------------------------------------------------------------
class SavesInput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.sin(x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * np.cos(x)


class SavesOutput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = np.tanh(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * (1 - y**2)


class SavesBoth(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = np.exp(x**2)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * 2 * x * y


class SavesScalarOutput(Function):
    """np.sqrt(np.sum(...)) is a NumPy scalar, not an array."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        norm = np.sqrt(np.sum(x**2))
        ctx.save_for_backward(x, norm)
        return norm

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, norm = ctx.saved_tensors
        return g * x / norm


class Product(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * np.conj(y), g * np.conj(x)


class SumAndDifference(Function):
    """Two outputs, each of which may be used or not."""

    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        s, d = np.sin(x + y), np.sin(x - y)
        ctx.save_for_backward(x, y)
        return s, d

    @staticmethod
    def backward(ctx: Any, gs: Any, gd: Any) -> Any:
        x, y = ctx.saved_tensors
        a, b = gs * np.cos(x + y), gd * np.cos(x - y)
        return a + b, a - b


@pytest.mark.parametrize("f", [SavesInput, SavesOutput, SavesBoth, SavesScalarOutput])
def test_saved_inputs_and_outputs_are_tied_to_the_graph_in_second_order(f: type[Function]) -> None:
    """Else the second derivative through them is silently 0."""
    assert gradcheck(f.apply, X)
    assert gradgradcheck(f.apply, X)


@pytest.mark.parametrize("f", [Product, SumAndDifference])
def test_several_inputs_and_outputs_pass_to_second_order(f: type[Function]) -> None:
    assert gradcheck(f.apply, (X, Y))
    assert gradgradcheck(f.apply, (X, Y))


def test_complex_inputs_pass_to_second_order() -> None:
    assert gradcheck(Product.apply, (X + 1j * Y, Y))
    assert gradgradcheck(Product.apply, (X + 1j * Y, Y))


def test_third_derivatives_go_through_a_function() -> None:
    (x,) = tensors(X)
    y = SavesInput.apply(x)
    for expected in (np.cos(X), -np.sin(X), -np.cos(X)):
        (y,) = pull(y, [x], create_graph=True)
        np.testing.assert_allclose(y.data, expected, rtol=1e-14)


def test_a_wrong_backward_is_caught() -> None:
    class Wrong(SavesInput):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * np.cos(x) * 1.01

    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, X)


def test_a_backward_right_in_first_and_wrong_in_second_order_is_caught() -> None:
    class Wrong(SavesInput):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * np.cos(x.data if isinstance(x, Tensor) else x)

    assert gradcheck(Wrong.apply, X)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(Wrong.apply, X)


def test_other_values_can_be_saved_and_are_plain() -> None:
    class Scaled(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, power: int) -> Any:
            ctx.save_for_backward(x, power, np.full(3, 2.0))
            ctx.note = "kept"
            return 2.0 * x**power

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, power, two = ctx.saved_tensors
            assert (power, ctx.note, type(two)) == (3, "kept", np.ndarray)
            return g * two * power * x ** (power - 1), None

    assert gradcheck(Scaled.apply, (X, 3))
    assert gradgradcheck(Scaled.apply, (X, 3))


def test_forward_and_first_backward_get_plain_arrays() -> None:
    """Any NumPy or SciPy function works in them, and assignment into arrays does."""
    seen: list[type] = []

    class Plain(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            seen.append(type(x))
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.extend((type(g), type(ctx.saved_tensors[0])))
            return g

    (x,) = tensors(X)
    pull(Plain.apply(x), [x])
    assert seen == [np.ndarray] * 3


def test_without_tensors_the_result_is_plain_arrays() -> None:
    assert type(SavesInput.apply(X)) is np.ndarray
    assert [type(o) for o in SumAndDifference.apply(X, Y)] == [np.ndarray] * 2


def test_tensors_without_gradient_record_nothing() -> None:
    y = SavesInput.apply(Tensor(X))
    assert isinstance(y, Tensor)
    assert not y.requires_grad


# -- Function: undefined and missing gradients ------------------------------------------------------------------
def test_none_is_a_gradient_of_zero() -> None:
    class First(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return 2 * x + 0 * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g, None

    x, y = tensors(X, Y)
    gx, gy = pull(First.apply(x, y), [x, y])
    assert np.array_equal(gx.data, np.full(X.shape, 2.0))
    assert gy is None
    assert gradcheck(First.apply, (X, Y))


def test_undefined_cotangents_arrive_as_zeros() -> None:
    x, y = tensors(X, Y)
    _, difference = SumAndDifference.apply(x, y)
    gx, gy = pull(difference, [x, y])
    np.testing.assert_allclose(gx.data, np.cos(X - Y))
    np.testing.assert_allclose(gy.data, -np.cos(X - Y))


@pytest.mark.parametrize("create_graph", [False, True])
def test_undefined_cotangents_arrive_as_none_if_asked_for(create_graph: bool) -> None:
    seen = []

    class Both(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return 2 * x, 3 * x

        @staticmethod
        def backward(ctx: Any, g2: Any, g3: Any) -> Any:
            seen.append((g2 is None, g3 is None))
            if g2 is None or g3 is None:
                return 2 * g2 if g2 is not None else 3 * g3 if g3 is not None else None
            return 2 * g2 + 3 * g3

    (x,) = tensors(X)
    double, triple = Both.apply(x)
    assert pull(triple, [x], create_graph)[0].data.tolist() == np.full(X.shape, 3.0).tolist()
    assert pull(double, [x], create_graph)[0].data.tolist() == np.full(X.shape, 2.0).tolist()
    assert seen == [(True, False), (False, True)]
    assert gradcheck(Both.apply, X)


class SortedWithOrder(Function):
    """A result, and the whole numbers that belong to it, kept as floats."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        order = np.argsort(x)
        rank = order.astype(float)
        ctx.order = order
        ctx.mark_non_differentiable(rank)
        return x[order], rank

    @staticmethod
    def backward(ctx: Any, g: Any, g_rank: Any) -> Any:
        assert not np.any(g_rank)
        out = np.empty_like(g)
        out[ctx.order] = g
        return out


def test_marked_outputs_carry_no_gradient() -> None:
    (x,) = tensors(X[0])
    values, rank = SortedWithOrder.apply(x)
    assert values.requires_grad
    assert not rank.requires_grad
    assert gradcheck(SortedWithOrder.apply, X[0])


def test_a_scalar_output_can_be_marked_too() -> None:
    class Counted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            count = np.sum(x > 0, dtype=float)
            ctx.mark_non_differentiable(count)
            return 2 * x, count

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            return 2 * g

    _, count = Counted.apply(*tensors(X))
    assert not count.requires_grad


def test_integer_outputs_are_plain_arrays() -> None:
    class WithOrder(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x, np.argsort(x)

        @staticmethod
        def backward(ctx: Any, g: Any, _: Any) -> Any:
            return 2 * g

    _, order = WithOrder.apply(*tensors(X))
    assert type(order) is np.ndarray
    assert gradcheck(WithOrder.apply, X)


def test_needs_input_grad_tells_which_gradients_are_wanted() -> None:
    seen = []

    class Watched(Product):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return Product.backward(ctx, g)

    (x,) = tensors(X)
    assert np.array_equal(pull(Watched.apply(x, Y), [x])[0].data, Y)
    pull(Watched.apply(Tensor(Y), x), [x])
    assert seen == [(True, False), (False, True)]


def test_a_gradient_for_an_argument_that_needs_none_is_ignored() -> None:
    class Loose(Product):
        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return Product.backward(ctx, g)[0], np.zeros(99)

    assert gradcheck(lambda x: Loose.apply(x, Y), X)


def test_forward_may_return_its_input() -> None:
    class Identity(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * (x / x)

    assert gradcheck(Identity.apply, X)
    assert gradgradcheck(Identity.apply, X)
    (x,) = tensors(X)
    assert np.array_equal(pull(Identity.apply(x) * x, [x])[0].data, 2 * X)


def test_backward_may_write_into_its_cotangent() -> None:
    """Course code does (dout[mask] = 0); another branch that shares the cotangent must not see it."""

    class Relu(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mask = x <= 0
            return np.maximum(x, 0)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            g[ctx.mask] = 0
            return g

    def f(x: Any) -> Any:
        return np.sum(Relu.apply(x) + x)  # np.sum's cotangent is a read-only view

    (x,) = tensors(X)
    cotangent = np.ones(X.shape)
    assert gradcheck(f, X)
    (g,) = grad([Relu.apply(x) + x], [x], [cotangent])
    assert g is not None and np.array_equal(g.data, 1.0 + (X > 0))
    assert np.array_equal(cotangent, np.ones(X.shape))


# -- Function: mistakes, and what is said about them ------------------------------------------------------------
def function_with(result: Callable[[Any], Any]) -> Any:
    """A function of two inputs, of shapes (2, 3) and (3,), whose backward returns `result`."""

    class Layer(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, b: Any) -> Any:
            return x + b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return result(g)

    return Layer.apply


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda g: g, "Layer.backward returned 1 gradients for 2 inputs"),
        (lambda g: (g, g.sum(0), None), "Layer.backward returned 3 gradients for 2 inputs"),
        (lambda g: (g, g), r"gradient of shape \(2, 3\) for input 1, whose shape is \(3,\).*sum over the leading axes"),
        (lambda g: (g.T, g.sum(0)), r"gradient of shape \(3, 2\) for input 0, whose shape is \(2, 3\).*transposed"),
        (lambda g: (g, 1.0), r"gradient of shape \(\) for input 1, whose shape is \(3,\)"),
        (lambda g: (g, g.sum(0, keepdims=True)), r"gradient of shape \(1, 3\) for input 1, whose shape is \(3,\)"),
    ],
    ids=["too-few", "too-many", "not-summed", "transposed", "number", "keepdims"],
)
def test_a_gradient_of_wrong_number_or_shape_is_named_with_both_shapes(
    result: Callable[[Any], Any], message: str
) -> None:
    x, b = tensors(X, np.ones(3))
    with pytest.raises(GradcheckError, match=message):
        pull(function_with(result)(x, b), [x, b])
    with pytest.raises(GradcheckError, match=message):
        gradcheck(function_with(result), (X, np.ones(3)))


@pytest.mark.parametrize(
    ("value", "told"), [(None, "NoneType"), ({}, "dict"), ((X, None), "NoneType"), ([X, X[:1], "?"], "str")]
)
def test_a_forward_that_returns_no_array_is_named(value: Any, told: str) -> None:
    class Forgetful(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return value

    with pytest.raises(TypeError, match=rf"Forgetful.forward must return an array or a tuple of arrays, got .*{told}"):
        Forgetful.apply(*tensors(X))


def test_missing_methods_are_named() -> None:
    class Nothing(Function):
        pass

    class NoBackward(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

    (x,) = tensors(X)
    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(x)
    with pytest.raises(NotImplementedError, match="backward"):
        pull(NoBackward.apply(x), [x])


def test_an_exception_in_backward_reaches_the_user() -> None:
    def fail(g: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        gradcheck(function_with(fail), (X, np.ones(3)))


def test_a_complex_gradient_of_a_real_input_counts_by_its_real_part() -> None:
    class Turn(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * (1 + 2j)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * (1 - 2j)

    assert gradcheck(Turn.apply, X)
    assert gradgradcheck(Turn.apply, X)


# -- from_backward ----------------------------------------------------------------------------------------------
def affine_forward(x: Any, w: Any, b: Any) -> Any:
    return x @ w + b, (x, w)


def affine_backward(dout: Any, cache: Any) -> Any:
    x, w = cache
    return dout @ w.T, x.T @ dout, dout.sum(axis=0)


W, B = np.array([[0.5, -0.3], [1.2, 0.8], [-0.7, 0.1]]), np.array([0.4, -0.6])


def test_a_numpy_pair_passes() -> None:
    assert gradcheck(from_backward(affine_forward, affine_backward), (X, W, B))


def test_a_numpy_pair_works_within_a_larger_function() -> None:
    affine = from_backward(affine_forward, affine_backward)
    assert gradcheck(lambda x, w, b: np.tanh(affine(x * 2, w, b)) ** 2, (X, W, B))


def test_a_numpy_pair_that_forgets_to_sum_is_told_both_shapes() -> None:
    pair = from_backward(affine_forward, lambda dout, cache: (*affine_backward(dout, cache)[:2], dout))
    with pytest.raises(GradcheckError, match=r"affine_forward.backward .*\(2, 2\) for input 2, whose shape is \(2,\)"):
        gradcheck(pair, (X, W, B))


def test_a_pair_with_one_input_returns_one_array() -> None:
    assert gradcheck(from_backward(lambda x: (np.sin(x), x), lambda g, x: g * np.cos(x)), X)


def test_a_pair_with_several_outputs_gets_a_tuple_of_cotangents() -> None:
    def forward(x: Any) -> Any:
        return (np.sin(x), np.cos(x)), x

    def backward(gs: Any, x: Any) -> Any:
        g_sin, g_cos = gs
        return g_sin * np.cos(x) - g_cos * np.sin(x)

    pair = from_backward(forward, backward)
    assert gradcheck(pair, X)
    (x,) = tensors(X)
    np.testing.assert_allclose(pull(pair(x)[1], [x])[0].data, -np.sin(X))


def test_each_call_keeps_its_own_cache() -> None:
    square = from_backward(lambda x: (x**2, x), lambda g, x: 2 * g * x)
    assert gradcheck(lambda x: square(square(x)) + square(3 * x), X)


def test_a_pair_on_arrays_gives_arrays() -> None:
    out = from_backward(affine_forward, affine_backward)(X, W, B)
    assert type(out) is np.ndarray
    assert np.array_equal(out, X @ W + B)


def test_a_pair_keeps_the_name_and_the_parameters_of_its_forward() -> None:
    """They name the inputs in reports."""
    pair = from_backward(affine_forward, affine_backward)
    assert pair.__name__ == "affine_forward"
    assert list(inspect.signature(pair).parameters) == ["x", "w", "b"]


@pytest.mark.parametrize(
    ("result", "told"),
    [(lambda x: x, "got ndarray"), (lambda x: (x, x, x), "got tuple of length 3"), (lambda x: None, "got NoneType")],
)
def test_a_forward_that_returns_no_pair_is_told_so(result: Callable[[Any], Any], told: str) -> None:
    def my_forward(x: Any) -> Any:
        return result(x)

    with pytest.raises(TypeError, match=rf"my_forward must return a pair \(out, cache\), {told}"):
        gradcheck(from_backward(my_forward, lambda g, cache: g), X)


def test_second_order_of_a_numpy_pair_is_refused_with_the_way_out() -> None:
    """Its backward runs on bare arrays: the second derivative would silently be that of a constant."""
    pair = from_backward(affine_forward, affine_backward)
    with pytest.raises(NotImplementedError, match=r"affine_forward .* cannot be differentiated again.*Function"):
        gradgradcheck(pair, (X, W, B))
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        gradgradcheck(from_jacobian(np.sin, lambda x: np.diag(np.cos(x))), X[0])


def test_a_pair_whose_backward_writes_into_dout_passes() -> None:
    def backward(dout: Any, x: Any) -> Any:
        dout[x <= 0] = 0
        return dout

    relu = from_backward(lambda x: (np.maximum(x, 0), x), backward)
    assert gradcheck(lambda x: np.sum(relu(x) + relu(-x)), X)


def test_a_pair_made_of_a_class_with_state_is_named_by_its_class() -> None:
    class Layer:
        def __call__(self, x: Any) -> Any:
            return 2 * x, None

    pair = from_backward(Layer(), lambda g, cache: (g, g))
    with pytest.raises(GradcheckError, match=r"Layer\.backward returned 2 gradients for 1 inputs"):
        gradcheck(pair, X)


# -- from_jacobian ----------------------------------------------------------------------------------------------
V = np.array([1.3, 0.7, -0.4])
A = np.array([[1.0, 2.0, -1.0], [0.5, -0.3, 0.8]])


@pytest.mark.parametrize(
    ("func", "jac", "inputs"),
    [
        (lambda x: np.sum(x**3), lambda x: 3 * x**2, (V,)),
        (lambda x: float(np.sum(x**3)), lambda x: (3 * x**2).tolist(), (V,)),
        (lambda x: np.sum(x**3), lambda x: 3 * x[None] ** 2, (V,)),
        (lambda x: np.sum(x**3, keepdims=True), lambda x: 3 * x**2, (V,)),
        (lambda x: A @ np.sin(x), lambda x: A * np.cos(x), (V,)),
        (lambda x: np.sin(x), lambda x: np.diag(np.cos(x)), (V,)),
        (lambda x: np.sum(x**2), lambda x: 2 * x, (X,)),
        (lambda x: x.sum(0), lambda x: np.einsum("jl,k->jkl", np.eye(3), np.ones(2)), (X,)),
        (lambda x: x**2, lambda x: 2 * x, (np.array(1.5),)),
        (lambda x, y: x * y, lambda x, y: (np.diag(y), np.diag(x)), (V, V + 1)),
        (lambda x, y: x @ y, lambda x, y: [y, x], (V, V + 1)),
        (lambda x, n: x**n, lambda x, n: (np.diag(n * x ** (n - 1)), None), (V, 3)),
    ],
    ids=[
        "scalar-(n,)",
        "scalar-numbers-and-lists",
        "scalar-(1,n)",
        "(1,)-(n,)",
        "vector-(m,n)",
        "vector-(n,n)",
        "matrix-input",
        "matrix-input-vector-output",
        "0d",
        "two-inputs",
        "two-inputs-list",
        "constant-argument",
    ],
)
def test_fun_and_jac_pairs_pass(func: Any, jac: Any, inputs: tuple[Any, ...]) -> None:
    assert gradcheck(from_jacobian(func, jac), inputs)


def test_jac_true_takes_the_pair_from_func() -> None:
    pair = from_jacobian(lambda x: (np.sum(x**2), 2 * x), True)
    assert gradcheck(pair, V)
    assert pair(V) == np.sum(V**2)


def test_a_wrong_jacobian_is_caught() -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(from_jacobian(lambda x: np.sum(x**3), lambda x: 2 * x**2), V)


def test_a_jacobian_is_evaluated_where_func_was() -> None:
    square = from_jacobian(lambda x: x**2, lambda x: np.diag(2 * x))
    assert gradcheck(lambda x: square(square(x)), V)


def test_holomorphic_jacobians_follow_pytorchs_convention() -> None:
    z = V + 1j * V[::-1]
    pair = from_jacobian(lambda z: np.exp(1j * z), lambda z: np.diag(1j * np.exp(1j * z)))
    assert gradcheck(pair, z)
    assert gradcheck(pair, V)  # a real input of a complex function


@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array", "coo_matrix", "dia_array"])
def test_sparse_jacobians_pass(kind: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    assert gradcheck(from_jacobian(lambda x: A @ x**2, lambda x: getattr(sparse, kind)(A * 2 * x)), V)


def test_scipys_rosen_and_its_derivative_pass() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    assert gradcheck(from_jacobian(optimize.rosen, optimize.rosen_der), V)
    assert gradcheck(from_jacobian(optimize.rosen_der, optimize.rosen_hess), V)


@pytest.mark.parametrize(
    ("func", "jac", "message"),
    [
        (
            lambda x: A @ x,
            lambda x: A.T,
            r"returned shape \(3, 2\) for an output of shape \(2,\) and an input of shape \(3,\): the derivative has "
            r"shape \(2, 3\) \(this one looks transposed\)",
        ),
        (lambda x: np.sum(x), lambda x: np.ones(4), r"returned shape \(4,\) for .* the derivative has shape \(3,\)$"),
        (lambda x: x, lambda x: np.ones(3), r"returned shape \(3,\) for .* the derivative has shape \(3, 3\)$"),
        (lambda x: x, lambda x: {}, r"returned shape \(\) for"),
    ],
    ids=["transposed", "too-long", "diagonal-only", "dict"],
)
def test_a_jacobian_of_wrong_shape_is_named_with_both_shapes(func: Any, jac: Any, message: str) -> None:
    def my_jac(x: Any) -> Any:
        return jac(x)

    with pytest.raises(GradcheckError, match=f"(?m)my_jac {message}"):
        gradcheck(from_jacobian(func, my_jac), V)


def test_too_few_jacobians_are_counted() -> None:
    with pytest.raises(GradcheckError, match="returned 1 derivatives for 2 inputs: it must return a tuple"):
        gradcheck(from_jacobian(lambda x, y: x @ y, lambda x, y: y), (V, V + 1))


def test_jac_true_without_a_pair_is_told_so() -> None:
    with pytest.raises(TypeError, match=r"must return a pair \(value, jac\) .*jac=True"):
        gradcheck(from_jacobian(lambda x: np.sum(x), True), V)
