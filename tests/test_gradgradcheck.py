"""Second derivatives: `gradcheck` of the gradient, as a function of inputs and grad_outputs."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch

from gradcheck_widget import Function, GradcheckError, Tensor, from_backward, gradgradcheck

torch.set_num_threads(1)


def leaf(x):
    return Tensor(x, requires_grad=True)


class Cube(Function):
    """x**3, with a backward that can be differentiated."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


class CubeOfConstant(Function):
    """x**3, right once: backward takes its slope from forward, where it is a constant."""

    @staticmethod
    def forward(ctx, x):
        ctx.slope = 3 * x**2
        return x**3

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope


class CubeOfConstantInTorch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.slope = 3 * x**2
        return x**3

    @staticmethod
    def backward(ctx, g):
        return g * ctx.slope


class CubeTwiceWrong(Function):
    """x**3, right once, and with a second derivative that is 1 % off."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * Slope.apply(x)


class Slope(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 3 * x**2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 6.06 * x


@pytest.fixture
def x():
    return np.random.default_rng(0).uniform(0.5, 2.0, size=(2, 3))


def failure(func, inputs, *args, **settings):
    assert gradgradcheck(func, inputs, *args, raise_exception=False, **settings) is False
    with pytest.raises(GradcheckError) as caught:
        gradgradcheck(func, inputs, *args, **settings)
    return str(caught.value)


def test_arguments_names_order_and_defaults_are_those_of_torch():
    ours = inspect.signature(gradgradcheck).parameters
    theirs = inspect.signature(torch.autograd.gradgradcheck).parameters
    assert [(n, p.default, p.kind) for n, p in theirs.items()] == [
        (n, p.default, p.kind) for n, p in list(ours.items())[: len(theirs)]
    ]
    assert list(ours)[len(theirs) :] == ["seed", "engine"]


@pytest.mark.parametrize("make", [lambda v: v, leaf], ids=["array", "tensor"])
@pytest.mark.parametrize(
    "func",
    [
        np.sin,
        np.exp,
        Cube.apply,
        lambda v: v @ v.T,
        lambda v: np.tanh(v).sum(),
        lambda v: 3 * v,
        lambda v: (v**2, v.sum()),
    ],
)
def test_right_second_derivatives_pass(func, make, x):
    before = x.tobytes()
    assert gradgradcheck(func, make(x)) is True
    assert x.tobytes() == before


def test_several_inputs_pass_also_where_an_output_depends_on_one_only(x):
    assert gradgradcheck(lambda a, b: (a * b**2, np.sin(a)), (x, x.copy()))
    assert gradgradcheck(lambda a, b: a**2, (x, x.copy()))
    assert gradgradcheck(lambda a, k: a**k, (x, 3))


def test_a_backward_that_saves_an_intermediate_as_a_constant_is_caught_as_by_torch(x):
    text = failure(CubeOfConstant.apply, leaf(x))
    assert text.startswith("Jacobian mismatch for output 0 with respect to input 0: 6 of 36 elements")
    assert "analytical 0" in text
    assert "These are second derivatives: the outputs are the gradients of func" in text
    theirs = torch.tensor(x, requires_grad=True)
    assert torch.autograd.gradgradcheck(CubeOfConstantInTorch.apply, theirs, raise_exception=False) is False


def test_a_second_derivative_that_is_a_percent_off_is_caught(x):
    assert gradgradcheck(Cube.apply, x)
    assert "Jacobian mismatch" in failure(CubeTwiceWrong.apply, x)
    assert gradgradcheck(CubeTwiceWrong.apply, x, rtol=0.02)


def test_a_first_derivative_that_is_wrong_alone_is_not_the_business_of_the_second_check(x):
    class Wrong(Cube):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 5 * x**2

    assert gradgradcheck(Wrong.apply, x)


@pytest.mark.parametrize("make", [lambda v: v, leaf], ids=["array", "tensor"])
def test_given_grad_outputs_are_used_and_left_as_they_are(make, x):
    g = np.full((2, 3), 2.0)
    before = g.tobytes()
    assert gradgradcheck(Cube.apply, x, make(g))
    assert gradgradcheck(lambda v: (v**2, v**3), x, [make(g), make(g.copy())])
    assert g.tobytes() == before
    # a zero grad_output hides the second derivative of x, not the one of grad_output
    assert gradgradcheck(CubeOfConstant.apply, x, Tensor(np.zeros((2, 3))))


def test_non_contiguous_grad_outputs_pass(x):
    assert gradgradcheck(Cube.apply, x, np.ones((3, 2)).T)
    assert gradgradcheck(Cube.apply, x, np.ones((4, 3))[::2])
    assert gradgradcheck(Cube.apply, x, gen_non_contig_grad_outputs=True)
    assert gradgradcheck(np.sum, x, gen_non_contig_grad_outputs=True)
    failure(CubeOfConstant.apply, x, gen_non_contig_grad_outputs=True)


def test_generated_grad_outputs_are_non_contiguous_if_asked_for(x):
    seen = []

    class Spy(Cube):
        @staticmethod
        def backward(ctx, g):
            seen.append((g.data if isinstance(g, Tensor) else g).flags.c_contiguous)
            return Cube.backward(ctx, g)

    gradgradcheck(Spy.apply, leaf(x), gen_non_contig_grad_outputs=True)
    assert False in seen
    seen.clear()
    gradgradcheck(Spy.apply, leaf(x))
    assert all(seen)


def test_generated_grad_outputs_are_the_same_each_time_and_leave_numpys_generator_alone(x):
    seen = []

    class Spy(Cube):
        @staticmethod
        def backward(ctx, g):
            seen.append(np.array(g.data if isinstance(g, Tensor) else g))
            return Cube.backward(ctx, g)

    np.random.seed(3)  # noqa: NPY002
    state = np.random.get_state()[1].tobytes()  # noqa: NPY002
    for _ in range(2):
        gradgradcheck(Spy.apply, leaf(x))
    assert np.random.get_state()[1].tobytes() == state  # noqa: NPY002
    np.testing.assert_array_equal(seen[: len(seen) // 2], seen[len(seen) // 2 :])
    assert len({g.tobytes() for g in seen}) > 1


@pytest.mark.parametrize(
    ("grad_outputs", "got"),
    [
        (np.ones(3), r"\(3,\) float64"),
        ((), "none"),
        ((np.ones((2, 3)), np.ones((2, 3))), r"\(2, 3\) float64, \(2, 3\) float64"),
        (np.ones((2, 3), complex), r"\(2, 3\) complex128"),
        (np.ones((2, 3), int), "ndarray"),
        (1.0, "float"),
    ],
    ids=["shape", "none", "two", "complex", "integers", "number"],
)
def test_grad_outputs_that_do_not_fit_are_refused_with_what_was_expected(grad_outputs, got, x):
    with pytest.raises(ValueError, match=rf"grad_outputs must be one tensor.*output 0: \(2, 3\) float64; got {got}$"):
        gradgradcheck(Cube.apply, x, grad_outputs, raise_exception=False)


def test_grad_outputs_are_for_outputs_that_carry_a_gradient(x):
    assert gradgradcheck(lambda v: (v > 1, v**2, v.data), leaf(x), np.ones((2, 3)))


@pytest.mark.parametrize("func", [lambda v: v.data * 2, lambda v: v > 1, lambda v: v.detach()])
def test_a_function_without_a_graph_is_refused_with_the_reason(func, x):
    with pytest.raises(ValueError, match="needs an output that carries a gradient, but func returns none: output 0 is"):
        gradgradcheck(func, leaf(x), raise_exception=False)


def test_a_pair_of_bare_numpy_functions_is_refused_with_the_way_out(x):
    f = from_backward(lambda v: (v**2, v), lambda g, v: 2 * g * v)
    with pytest.raises(NotImplementedError, match=r"cannot be differentiated again.*gradcheck_widget\.Function"):
        gradgradcheck(f, x)


def test_a_gradient_of_the_wrong_shape_is_a_failure(x):
    class Wrong(Cube):
        @staticmethod
        def backward(ctx, g):
            return g.sum()

    assert "whose shape is (2, 3)" in failure(Wrong.apply, x)


@pytest.mark.parametrize("func", [lambda z: z**3, lambda z: np.exp(z) * np.conj(z), np.abs, lambda z: np.real(z) ** 2])
def test_complex_second_derivatives_pass(func):
    assert gradgradcheck(func, np.array([0.5 + 1j, -1.0 + 0.25j]))


def test_complex_and_real_inputs_mix(x):
    assert gradgradcheck(lambda a, z: (a * z**2, np.abs(z) * a), (x[0], x[1] * (1 + 0.5j)))


def test_a_wrong_complex_second_derivative_is_caught():
    z = np.array([0.5 + 1j])
    assert gradgradcheck(lambda z: z**3, z)
    assert "complex outputs" in failure(CubeOfConstant.apply, z)


def test_a_conjugated_second_derivative_is_caught():
    class Bent(Slope):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 6 * x  # without the conjugate that PyTorch's convention asks for

    class BentCube(Cube):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * np.conj(Bent.apply(x))

    failure(BentCube.apply, np.array([0.5 + 1j]))


def test_functions_that_close_over_their_own_input_get_torchs_verdict(x):
    ours, theirs = leaf(x), torch.tensor(x, requires_grad=True)
    for mine, other in [
        (lambda t: t * ours**2, lambda t: t * theirs**2),
        (lambda t: t**2 * ours.detach(), lambda t: t**2 * theirs.detach()),
        (lambda t: ours**3, lambda t: theirs**3),
    ]:
        expected = torch.autograd.gradgradcheck(other, theirs, raise_exception=False)
        assert gradgradcheck(mine, ours, raise_exception=False) == expected


def test_inputs_and_grad_outputs_are_named_in_a_mismatch(x):
    class Product(Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a)
            ctx.b = b
            return a * b

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            return g * ctx.b, g * a

    def func(weight, bias):
        return Product.apply(weight, bias)

    assert "with respect to input 1 ('bias')" in failure(func, (x, x.copy()))

    class Forgets(Cube):
        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g.data if isinstance(g, Tensor) else g) * 3 * x**2

    assert "with respect to input 1 ('grad_output 0')" in failure(Forgets.apply, x)


def test_the_settings_reach_the_check(x):
    assert gradgradcheck(CubeTwiceWrong.apply, x, atol=10.0)
    failure(np.exp, x, eps=1.0)
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradgradcheck(np.exp, Tensor(x))
