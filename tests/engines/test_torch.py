"""The torch engine: what PyTorch's own gradcheck accepts and refuses, and what must be left as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gradcheck_widget import GradcheckError, gradcheck, gradcheck_report, gradgradcheck, with_parameters

torch.set_num_threads(1)


def leaf(*shape, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=dtype).requires_grad_()


def both(func, inputs, **settings):
    """Our verdict and that of torch; what a side raises instead of a failed check counts as one."""

    def run(check):
        try:
            return bool(check(func, inputs, raise_exception=False, **settings))
        except (RuntimeError, ValueError) as error:
            return type(error).__name__

    return run(gradcheck), run(torch.autograd.gradcheck)


def scaled(factor=1.0, rule=False):
    """``x * x`` whose gradient is wrong by `factor`."""

    class Square(torch.autograd.Function):
        generate_vmap_rule = rule

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return factor * g * 2 * x.conj()

    return Square.apply


def wrong(x, factor=1.1):
    """`x` with a gradient that is wrong by `factor`."""
    return factor * x - (factor - 1) * x.detach()


# -- complex -------------------------------------------------------------------------------------------------------
COMPLEX = {
    "complex to complex": lambda z, x: z * z.conj() * x,
    "complex to real": lambda z, x: z.abs() + x,
    "real to complex": lambda z, x: torch.complex(x, x.sin()),
    "both kinds of outputs": lambda z, x: (z * x, z.imag * x, x.exp()),
    "conjugate and negative views": lambda z, x: (z.conj(), z.conj().imag),
}


@pytest.mark.parametrize("name", COMPLEX)
@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("sabotage", ["", "z", "x"])
def test_complex_gradients_get_the_verdict_of_torch(name, forward, sabotage):
    func = COMPLEX[name]

    def used(z, x):
        return func(wrong(z) if sabotage == "z" else z, wrong(x) if sabotage == "x" else x)

    ours, theirs = both(used, (leaf(3, dtype=torch.complex128), leaf(3, seed=1)), check_forward_ad=forward)
    assert ours == theirs
    assert ours or sabotage


def test_reversed_imaginary_gradient_is_caught():
    class Phase(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z.angle()

        @staticmethod
        def backward(ctx, g):
            (z,) = ctx.saved_tensors
            return torch.complex(-g * z.imag, -g * z.real) / z.abs() ** 2

    assert both(Phase.apply, (leaf(3, dtype=torch.complex128),)) == (False, False)


# -- kinds of inputs -------------------------------------------------------------------------------------------------
VIEWS = {
    "row of a matrix": lambda: leaf(3, 4).detach()[1].requires_grad_(),
    "every second": lambda: leaf(8).detach()[::2].requires_grad_(),
    "transposed": lambda: leaf(2, 3).detach().T.requires_grad_(),
    "channels last": lambda: leaf(1, 2, 3, 2).detach().to(memory_format=torch.channels_last).requires_grad_(),
    "a non-leaf view": lambda: leaf(3, 4)[1],
    "a non-leaf": lambda: leaf(4) * 2,
    "conjugate bit": lambda: leaf(3, dtype=torch.complex128).detach().conj().requires_grad_(),
    "negative bit": lambda: leaf(3, dtype=torch.complex128).detach().conj().imag.requires_grad_(),
    "real parts": lambda: leaf(3, dtype=torch.complex128).detach().real.requires_grad_(),
    "a scalar": lambda: leaf(),
    "empty": lambda: leaf(0, 3),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_checked_as_contiguous_tensors_are(name):
    x = VIEWS[name]()
    before, strides = x.detach().clone(), x.stride()
    assert gradcheck(scaled(), x)
    if x.numel():
        assert not gradcheck(scaled(1.1), x, raise_exception=False)
    assert torch.equal(x, before) and x.stride() == strides


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision_is_warned_of_by_the_name_of_the_input(dtype):
    x = leaf(2).detach().to(dtype).requires_grad_()
    with pytest.warns(UserWarning, match=r"input 1 'weight'.*rounding"):
        gradcheck(lambda y, weight: y.sum() + weight * 0, (leaf(2), x), raise_exception=False)


def test_integers_none_and_other_objects_arrive_as_the_same_objects():
    given = (leaf(3), torch.tensor([2, 0]), None, {"mode": "sum"}, object())
    seen = []

    def func(x, index, *others):
        seen.append((index, *others))
        return x[index]

    assert gradcheck(func, given)
    assert all(a is b for call in seen for a, b in zip(call, given[1:], strict=True))


def test_nested_inputs_are_named_by_their_path():
    tree = {"layers": [leaf(2), leaf(2, seed=1)], "bias": leaf(2, seed=2)}
    assert gradcheck(lambda p: p["layers"][0] * p["layers"][1] + p["bias"], (tree,))
    with pytest.raises(GradcheckError, match=r"p\['layers'\]\[1\]"):
        gradcheck(lambda p: p["layers"][0] * wrong(p["layers"][1]) + p["bias"], (tree,))


def test_a_tensor_subclass_stays_one():
    class Named(torch.Tensor):
        pass

    kinds = set()

    def func(x):
        kinds.add(type(x))
        return (x * x).as_subclass(torch.Tensor)

    assert gradcheck(func, leaf(3).detach().as_subclass(Named).requires_grad_())
    assert kinds == {Named}


# -- kinds of functions ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rule", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_custom_functions_are_judged_with_and_without_a_vmap_rule(rule, factor):
    assert gradcheck(scaled(factor, rule), leaf(3), raise_exception=False) == (factor == 1)


def test_a_function_that_closes_over_its_input_is_not_seen_as_constant():
    x = leaf(3)
    assert gradcheck(lambda _: x.sin(), x)
    assert not gradcheck(lambda _: wrong(x), x, raise_exception=False)


def test_a_function_may_differentiate_inside():
    def func(x):
        return torch.autograd.grad((x**3).sum(), x, create_graph=True)[0]

    assert gradcheck(func, leaf(3))


def test_both_sides_see_the_same_branch():
    x = leaf(3)
    assert gradcheck(lambda x: x.sin() if x.requires_grad and torch.is_grad_enabled() else x * 7, x)


def test_in_place_work_on_intermediates_is_allowed():
    assert gradcheck(lambda x: (x * 2).mul_(3).add_(x), leaf(3))


@pytest.mark.parametrize("func", [lambda x: x, lambda x: x.view(-1), lambda x: x[1:], lambda x: (x, x.T)])
def test_outputs_that_are_views_of_the_input_do_not_move_with_it(func):
    assert gradcheck(func, leaf(2, 2))


def test_a_hook_that_changes_the_gradient_is_caught():
    def func(x, factor):
        y = x * 2
        y.register_hook(lambda g: None if g is None else factor * g)
        return y.sin()

    assert both(func, (leaf(3), 1.0)) == (True, True)
    assert both(func, (leaf(3), 1.1)) == (False, False)


def test_a_detached_output_is_caught():
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: (x * 2, x.detach() * 2), leaf(3))


# -- modules ---------------------------------------------------------------------------------------------------------
def module():
    g = torch.Generator().manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=g, dtype=p.dtype))
    return net


def test_parameters_of_a_module_pass():
    assert gradcheck(*with_parameters(module(), leaf(2, 3)))


def test_the_wrong_parameter_of_a_module_is_named_and_no_other():
    net = module()
    net[2].bias.register_hook(lambda g: 1.1 * g)
    report = gradcheck_report(*with_parameters(net, leaf(2, 3)))
    assert [p.input for p in report.pairs if not p.passed] == ["input 1 parameters['2.bias']"]


# -- sparse ----------------------------------------------------------------------------------------------------------
def sparse(layout):
    dense = torch.tensor([[1.0, 0, 2, 0], [0, 3, 0, 0], [0, 0, 0, 0], [0, 4, 0, 5]], dtype=torch.float64)
    blocks = {"blocksize": (2, 2)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
    return dense.to_sparse(layout=layout, **blocks).requires_grad_()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc], ids=str
)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("masked_grad", [False, True])
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_sparse_inputs_get_the_verdict_of_torch(layout, masked, masked_grad, factor):
    def func(x):
        y = x.to_dense(masked_grad=masked_grad)
        return y * wrong(y, factor)

    ours, theirs = both(func, (sparse(layout),), masked=masked)
    assert ours == theirs
    assert factor == 1 or ours is not True


# -- Jacobians, second derivatives -----------------------------------------------------------------------------------
def test_jacobians_are_those_of_torch():
    inputs = (leaf(2, 3), leaf(3, seed=1))

    def func(a, b):
        return (a * b).sin(), a @ b

    expected = torch.autograd.functional.jacobian(func, inputs)
    report = gradcheck_report(func, inputs, check_forward_ad=True)
    assert len(report.pairs) == 8
    for p in report.pairs:
        wanted = expected[p.output_index][p.input_index].numpy()
        np.testing.assert_allclose(p.in_full_shape(p.analytical), wanted, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(p.in_full_shape(p.numerical), wanted, atol=1e-8)


@pytest.mark.parametrize("forward_over_reverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_second_derivatives(forward_over_reverse, dtype):
    x = leaf(3, dtype=dtype)
    settings = {"check_fwd_over_rev": forward_over_reverse, "check_rev_over_rev": not forward_over_reverse}
    assert gradgradcheck(lambda x: (x.sin() * x, x**3), x, **settings)


def test_a_backward_that_breaks_the_graph_is_caught_by_second_derivatives():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            return g * 3 * ctx.saved_tensors[0].detach() ** 2

    assert gradcheck(Cube.apply, leaf(3))
    assert not gradgradcheck(Cube.apply, leaf(3), raise_exception=False)


# -- exceptions, and what is left as it was ----------------------------------------------------------------------------
@pytest.mark.parametrize("calls", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt])
def test_exceptions_pass_through_and_leave_the_input_alone(calls, kind):
    x, error, count = leaf(3), kind("mine"), [0]
    before = x.detach().clone()

    def func(x):
        count[0] += 1
        if count[0] == calls:
            raise error
        return x * 2

    with pytest.raises(kind) as caught:
        gradcheck(func, x)
    assert caught.value is error and torch.equal(x, before)


def test_an_exception_of_func_says_where_the_checker_was():
    def func(x):
        if not torch.equal(x, before):
            raise ZeroDivisionError("mine")
        return x * 2

    x = leaf(3)
    before = x.detach().clone()
    with pytest.raises(ZeroDivisionError) as caught:
        gradcheck(func, x)
    assert caught.value.__notes__


@pytest.mark.parametrize(
    "settings", [{}, {"check_forward_ad": True}, {"check_batched_grad": True}, {"fast_mode": True}]
)
def test_a_check_leaves_no_trace(settings):
    x, other = leaf(3), leaf(3, seed=1).detach()
    x.grad = torch.full_like(x, 7)
    bits, grad = x.detach().numpy().tobytes(), x.grad
    versions = x._version, other._version, grad._version
    random, default = torch.get_rng_state(), torch.get_default_dtype()
    numpy_random = np.random.get_state()[1].tobytes()  # noqa: NPY002
    with torch.no_grad():
        pass
    assert gradcheck(lambda x, o: x.sin() * o, (x, other), **settings)
    assert gradgradcheck(lambda x, o: x.sin() * o, (x, other))
    assert x.detach().numpy().tobytes() == bits
    assert x.grad is grad and bool((grad == 7).all())
    assert (x._version, other._version, grad._version) == versions
    assert torch.equal(torch.get_rng_state(), random) and torch.get_default_dtype() is default
    assert np.random.get_state()[1].tobytes() == numpy_random  # noqa: NPY002
    assert torch.is_grad_enabled() and x.requires_grad and not other.requires_grad and x.is_leaf


def test_a_gradient_that_torch_keeps_as_a_zero_tensor_is_read():
    assert gradcheck(torch.sgn, leaf(3))


def test_one_low_precision_tensor_passed_twice_is_one_input():
    x = torch.tensor([0.5, -0.25], dtype=torch.bfloat16, requires_grad=True)
    with pytest.warns(UserWarning, match="bfloat16|float32"):
        assert gradcheck(lambda a, b: a * b, (x, x), eps=0.125, atol=0.1, rtol=0.1)


class Duck:
    """No Tensor, but like one: torch's functions work on it through its ``__torch_function__``."""

    def __init__(self, tensor):
        self.tensor = tensor

    @staticmethod
    def bare(x):
        if type(x) in (tuple, list):
            return type(x)(Duck.bare(v) for v in x)
        return x.tensor if isinstance(x, Duck) else x

    @staticmethod
    def clothed(x):
        if type(x) in (tuple, list):
            return type(x)(Duck.clothed(v) for v in x)
        return Duck(x) if isinstance(x, torch.Tensor) else x

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls.clothed(func(*cls.bare(tuple(args)), **{k: cls.bare(v) for k, v in (kwargs or {}).items()}))

    def __getattr__(self, name):
        found = getattr(object.__getattribute__(self, "tensor"), name)
        if callable(found) and not isinstance(found, torch.Tensor):
            return lambda *args, **kwargs: Duck.clothed(found(*Duck.bare(args), **kwargs))
        return Duck.clothed(found)

    def __mul__(self, other):
        return Duck(self.tensor * Duck.bare(other))


def test_what_is_only_like_a_tensor_is_checked():
    assert gradcheck(lambda x: torch.sin(x) * x, Duck(leaf(3)))
    assert not gradcheck(lambda x: torch.sin(x) * x.detach(), Duck(leaf(3)), raise_exception=False)
