"""tensorplay: its own memory, its own derivatives (right ones and wrong ones), torch's verdicts."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest

from gradcheck_widget import GradcheckError, gradcheck, gradcheck_report, gradgradcheck

tensorplay = pytest.importorskip("tensorplay")

from gradcheck_widget.engines.tensorplay import TensorplayEngine  # noqa: E402

Function = tensorplay.autograd.Function
engine = TensorplayEngine()


def leaf(values, lib=tensorplay):
    return lib.from_numpy(np.array(values)).requires_grad_()


def real(*shape, seed=0):
    """Away from 0, from 1 and from each other, so that no kink is near."""
    rng = np.random.default_rng((seed, *shape))
    size = int(np.prod(shape))
    values = rng.permutation(np.linspace(0.25, 0.9, size)) * rng.choice([-1, 1], size)
    return values.reshape(shape)


def cplx(*shape, seed=0):
    return real(*shape, seed=seed) + 1j * real(*shape, seed=seed + 1)


def positive(*shape, seed=0):
    return abs(real(*shape, seed=seed)) + 0.3


def function(forward, backward):
    """A Function from two plain functions: ``backward(ctx, *grads)``; ``ctx.saved_tensors`` are the inputs."""

    class Custom(Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.save_for_backward(*xs)
            return forward(*xs)

    Custom.backward = staticmethod(backward)
    return Custom.apply


def cubed(factor=3.0):
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x * x * factor

    return function(lambda x: x * x * x, backward)


# -- the verdict is torch's, on the same function written in both -----------------------------------------------
def assigned(lib, x):
    y = lib.zeros(*x.shape, dtype=x.dtype)
    y[0] = x[1] * 2
    return y


CASES = {
    "sin": (lambda lib, x: lib.sin(x), real(5)),
    "exp": (lambda lib, x: lib.exp(x), real(2, 3)),
    "tanh": (lambda lib, x: lib.tanh(x), real(2, 3)),
    "sqrt of a square plus one": (lambda lib, x: lib.sqrt(x * x + 1), real(4)),
    "relu": (lambda lib, x: lib.relu(x), real(5, seed=1)),
    "abs": (lambda lib, x: x.abs(), real(5)),
    "a power": (lambda lib, x: x**3, real(4)),
    "a power of two tensors": (lambda lib, x, y: x**y, positive(4), real(4)),
    "a quotient": (lambda lib, x, y: x / y, real(2, 3), real(3, seed=2)),
    "broadcasting": (lambda lib, x, y: x[:, None] * y + x.sum(), real(3), real(4, seed=2)),
    "a sum of all": (lambda lib, x: x.sum(), real(2, 3)),
    "a mean along an axis": (lambda lib, x: x.mean(1, keepdim=True), real(2, 3)),
    "a product": (lambda lib, x: x.prod(), real(5)),
    "a variance": (lambda lib, x: x.var(dim=0), real(4, 2)),
    "a maximum": (lambda lib, x: x.max(), real(2, 3)),
    "cumsum": (lambda lib, x: x.cumsum(0), real(3, 2)),
    "log_softmax": (lambda lib, x: lib.log_softmax(x, 1), real(2, 3)),
    "matmul": (lambda lib, x, y: x @ y, real(2, 3), real(3, 4)),
    "matmul with a vector": (lambda lib, x, y: x @ y, real(2, 3), real(3)),
    "bmm": (lambda lib, x, y: lib.bmm(x, y), real(2, 2, 3), real(2, 3, 2)),
    "a transposed view": (lambda lib, x: x.t().reshape(6) * 2, real(2, 3)),
    "permute": (lambda lib, x: x.permute(2, 0, 1), real(2, 3, 2)),
    "expand": (lambda lib, x: x.expand(4, 3) * 2, real(3)),
    "a slice with steps": (lambda lib, x: x[:, ::2], real(2, 5)),
    "a row": (lambda lib, x: x[1], real(3, 2)),
    "repeated indices": (lambda lib, x: x[lib.tensor([0, 2, 0])], real(3, 2)),
    "a mask": (lambda lib, x: x[x > 0], real(6)),
    "where": (lambda lib, x, y: lib.where(x > 0, x * y, y), real(5), real(5, seed=2)),
    "cat and stack": (lambda lib, x, y: lib.cat([lib.stack([x, y]), lib.stack([y, x])]), real(3), real(3, seed=2)),
    "several outputs": (lambda lib, x, y: (x * y, (x - y).sum(), y @ x), real(3), real(3, seed=2)),
    "parts": (lambda lib, x: x.split(2), real(5)),
    "a layer": (lambda lib, x, w, b: lib.relu(lib.nn.functional.linear(x, w, b)), real(2, 3), real(4, 3), real(4)),
    "einsum": (lambda lib, x, y: lib.einsum("ij,kj->ik", x, y), real(2, 3), real(2, 3, seed=2)),
    "complex exp": (lambda lib, z: lib.exp(z), cplx(3)),
    "complex power": (lambda lib, z: z**3 + 1 / z, cplx(3)),
    "complex sin": (lambda lib, z: lib.sin(z), cplx(2, 2)),
    "conjugate": (lambda lib, z: z.conj() * z * z, cplx(3)),
    "abs of complex": (lambda lib, z: z.abs(), cplx(3)),
    "angle": (lambda lib, z: lib.angle(z), cplx(3)),
    "a real loss of complex numbers": (lambda lib, z: (z * z).abs().sum(), cplx(3)),
    "complex matmul": (lambda lib, z, w: z @ w, cplx(2, 3), cplx(3, 2)),
    "complex sum": (lambda lib, z: z.sum(0), cplx(3, 2)),
    "complex parts": (lambda lib, z: lib.view_as_real(z), cplx(3)),
    "complex of parts": (lambda lib, x, y: lib.complex(x, y), real(3), real(3, seed=2)),
    "fft": (lambda lib, z: lib.fft.fft(z), cplx(4)),
    "fft of real": (lambda lib, x: lib.fft.fft(x).abs(), real(4)),
    "real before complex": (lambda lib, x, z: x * z, real(3), cplx(3)),
    "complex before real": (lambda lib, z, x: z / x + x, cplx(3), real(3)),
    "real between complex": (lambda lib, z, x, w: (z * x + w, (w * x).abs()), cplx(3), real(3), cplx(3, seed=5)),
    "real matmul complex": (lambda lib, x, z: lib.complex(x, x * 2) @ z, real(2, 3), cplx(3, 2)),
    "complex view": (lambda lib, z: z.t()[1:] * 2j, cplx(2, 3)),
    "identity": (lambda lib, x: x, real(3)),
    "detached": (lambda lib, x: x.detach(), real(3)),
    "detached and constant": (lambda lib, x: (x * 2, lib.ones_like(x)), real(3)),
}

# the derivatives that tensorplay 1.0.0 has wrong. Mostly a conjugate is missing, or the graph is cut
WRONG = {
    "complex log10": (lambda lib, z: lib.log10(z), cplx(3)),
    "complex outer": (lambda lib, z, w: lib.outer(z, w), cplx(2), cplx(3)),
    "complex dot": (lambda lib, z, w: lib.dot(z, w), cplx(3), cplx(3, seed=2)),
    "vdot": (lambda lib, z, w: lib.vdot(z, w), cplx(3), cplx(3, seed=2)),
    "complex einsum": (lambda lib, z, w: lib.einsum("ij,kj->ik", z, w), cplx(2, 3), cplx(2, 3, seed=2)),
    "complex tensordot": (lambda lib, z, w: lib.tensordot(z, w, 1), cplx(2, 3), cplx(3, 2)),
    "complex addmm": (lambda lib, z, w: lib.addmm(z, z, w), cplx(2, 2), cplx(2, 2, seed=2)),
    "complex addcmul": (lambda lib, z, w: lib.addcmul(z, z, w, value=0.5), cplx(3), cplx(3, seed=2)),
    "complex addcdiv": (lambda lib, z, w: lib.addcdiv(z, z, w, value=0.5), cplx(3), cplx(3, seed=2)),
    "complex linear": (lambda lib, z, w: lib.nn.functional.linear(z, w), cplx(2, 3), cplx(2, 3, seed=2)),
    "real part": (lambda lib, z: lib.real(z), cplx(3)),
    "imaginary part": (lambda lib, z: lib.imag(z), cplx(3)),
    "polar": (lambda lib, r, t: lib.polar(r, t), positive(3), real(3)),
    "irfft": (lambda lib, z: lib.fft.irfft(z), cplx(4)),
    "diag": (lambda lib, x: lib.diag(x), real(3, 3)),
    "det": (lambda lib, x: lib.linalg.det(x), real(3, 3)),
    "inv": (lambda lib, x: lib.linalg.inv(x), real(3, 3)),
    "solve": (lambda lib, x, b: lib.linalg.solve(x, b), real(3, 3), real(3, 1)),
    "logsumexp along the last axis": (lambda lib, x: lib.logsumexp(x, 1), real(3, 3)),
    "assignment to a part": (assigned, real(3, 2)),
    "softplus, which rounds to float32": (lambda lib, x: lib.nn.functional.softplus(x), real(3)),
}


def sabotaged(func):
    """Values a tenth larger than `func` has, with the derivative of `func`."""

    def more(lib, *xs):
        found = func(lib, *xs)
        outputs = found if isinstance(found, tuple | list) else (found,)
        return tuple(o + o.detach() * 0.1 for o in outputs)

    return more


def in_torch(func, arrays):
    torch = pytest.importorskip("torch")
    return torch.autograd.gradcheck(
        lambda *xs: func(torch, *xs), tuple(leaf(a, torch) for a in arrays), raise_exception=False
    )


def in_tensorplay(func, arrays, **settings):
    xs = tuple(leaf(a) for a in arrays)
    return gradcheck(lambda *ys: func(tensorplay, *ys), xs, raise_exception=False, **settings)


@pytest.mark.parametrize("name", CASES)
def test_verdict_is_the_one_that_torch_gives_for_the_same_function(name):
    func, *arrays = CASES[name]
    assert in_tensorplay(func, arrays) == in_torch(func, arrays)


@pytest.mark.parametrize("name", CASES)
def test_a_derivative_that_is_10_percent_off_fails_as_it_does_in_torch(name):
    func, *arrays = CASES[name]
    assert not in_tensorplay(sabotaged(func), arrays)
    assert not in_torch(sabotaged(func), arrays)


def test_an_output_that_was_detached_beside_one_that_was_not_fails_here_though_torch_lets_it_pass():
    def half(lib, x):
        return x * 2, x.detach() * 2

    assert in_torch(half, [real(3)])
    report = gradcheck_report(lambda x: half(tensorplay, x), leaf(real(3)))
    assert [p.passed for p in report.pairs] == [True, False]
    assert "output 1" in str(report) and "was it detached?" in report.error_text()
    assert gradgradcheck(lambda x: half(tensorplay, x), leaf(real(3)))


def rows(lib, func, arrays):
    """The vector-Jacobian products of the framework itself with all unit vectors."""
    xs = [leaf(a, lib) for a in arrays]
    found = func(lib, *xs)
    rows = []
    for o in found if isinstance(found, tuple | list) else (found,):
        for unit in (1, 1j) if o.is_complex() else (1,):
            for j in range(o.numel()):
                g = np.zeros(o.numel(), o.detach().numpy().dtype)
                g[j] = unit
                g = lib.from_numpy(g.reshape(tuple(o.shape)))
                grads = lib.autograd.grad([o], xs, [g], retain_graph=True, allow_unused=True) if o.requires_grad else ()
                for x, v in zip(xs, grads or [None] * len(xs), strict=True):
                    row = np.zeros(tuple(x.shape)) if v is None else v.resolve_conj().detach().numpy()
                    rows.append(row if x.is_complex() else row.real)
    return rows


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_derivative_of_tensorplay_itself_is_not_passed(name):
    torch = pytest.importorskip("torch")
    func, *arrays = WRONG[name]
    mine, theirs = rows(tensorplay, func, arrays), rows(torch, func, arrays)
    values = [func(lib, *(leaf(a, lib) for a in arrays)).detach().resolve_conj().numpy() for lib in (tensorplay, torch)]
    right = all(np.allclose(a, b, rtol=1e-3, atol=1e-5) for a, b in zip(mine, theirs, strict=True))
    right = right and np.allclose(*values, rtol=1e-12, atol=0)
    assert in_torch(func, arrays)
    assert in_tensorplay(func, arrays) == right
    if tensorplay.__version__.startswith("1.0.0"):
        assert not right


@pytest.mark.parametrize("name", [n for n in CASES if "detached" not in n])
def test_analytical_jacobians_are_those_of_torch_to_the_last_digits(name):
    torch = pytest.importorskip("torch")
    func, *arrays = CASES[name]
    report = gradcheck_report(lambda *xs: func(tensorplay, *xs), tuple(leaf(a) for a in arrays))
    expected = rows(torch, func, arrays)
    count = len(arrays)
    for i in range(count):
        mine = np.concatenate([p.analytical for p in report.pairs if p.input_index == i])
        np.testing.assert_allclose(mine, [e.reshape(-1) for e in expected[i::count]], rtol=1e-12, atol=1e-14)


# -- custom Functions -------------------------------------------------------------------------------------------
def test_a_right_custom_function_passes_and_a_wrong_factor_fails():
    assert gradcheck(cubed(), leaf(real(2, 3)))
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(cubed(2.9), leaf(real(2, 3)))


def test_complex_custom_function_must_multiply_by_the_conjugate_of_its_derivative():
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        return g * (2 * z).conj()

    def unconjugated(ctx, g):
        (z,) = ctx.saved_tensors
        return g * 2 * z

    assert gradcheck(function(lambda z: z * z, backward), leaf(cplx(3)))
    assert not gradcheck(function(lambda z: z * z, unconjugated), leaf(cplx(3)), raise_exception=False)


@pytest.mark.parametrize("real_first", [True, False])
def test_a_wrong_gradient_of_a_real_input_beside_a_complex_one_fails(real_first):
    # tensorplay's own checker never looks at real inputs beside complex ones
    double = function(lambda x: x * 2, lambda ctx, g: g * 7)
    x, z = leaf(real(3)), leaf(cplx(3))
    if real_first:
        report = gradcheck_report(lambda x, z: double(x) * z, (x, z))
    else:
        report = gradcheck_report(lambda z, x: double(x) * z, (z, x))
    assert {p.input[-3:] for p in report.pairs if not p.passed} == {"'x'"}


def test_backward_that_ignores_grad_output_is_named():
    func = function(lambda x: x.sum(), lambda ctx, g: tensorplay.ones_like(ctx.saved_tensors[0]))
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(func, leaf(real(3)))


def test_backward_that_differs_from_run_to_run_is_named():
    calls = []

    def backward(ctx, g):
        calls.append(1)
        return g * (2 + 1e-7 * len(calls))

    func = function(lambda x: x * 2, backward)
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(func, leaf(real(3)))
    assert gradcheck(func, leaf(real(3)), nondet_tol=1e-4)


def test_gradient_of_a_wrong_shape_is_named():
    # tensorplay passes it on without a word
    func = function(lambda x: x * 2, lambda ctx, g: tensorplay.ones(5, dtype=tensorplay.float64))
    with pytest.raises(GradcheckError, match="incorrect size"):
        gradcheck(func, leaf(real(3)))


def test_backward_that_writes_into_its_grad_output_gets_a_right_verdict():
    assert gradcheck(function(lambda x: x * 2, lambda ctx, g: g.mul_(2)), leaf(real(3)))
    assert not gradcheck(function(lambda x: x * 2, lambda ctx, g: g.mul_(3)), leaf(real(3)), raise_exception=False)


def test_gradient_that_is_the_grad_output_itself_is_copied_before_the_next_row():
    assert gradcheck(function(lambda x: x * 1, lambda ctx, g: g), leaf(real(3)))
    assert gradcheck(function(lambda x, y: x + y, lambda ctx, g: (g, g)), (leaf(real(3)), leaf(real(3))))


def test_a_complex_gradient_of_a_real_input_is_seen_when_asked_for():
    # the gradient of tensorplay's own power, complex base and real exponent
    inputs = (leaf(cplx(3)), leaf(real(3)))
    assert gradcheck(lambda z, x: z**x, inputs)
    if tensorplay.__version__.startswith("1.0.0"):
        assert not gradcheck(lambda z, x: z**x, inputs, check_grad_dtypes=True, raise_exception=False)
    assert gradcheck(lambda z, x: z * x, inputs, check_grad_dtypes=True)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: lambda x: f(x) * 2, lambda f: lambda x: f(f(x))])
def test_a_function_whose_forward_returns_its_input_is_judged_and_the_input_stays_a_leaf(wrap):
    # tensorplay makes the caller's own tensor the result of the Function, so that its gradient ends there
    for factor, right in ((1.0, True), (3.0, False)):
        x = leaf(real(3))
        func = wrap(function(lambda x: x, lambda ctx, g: g * factor))
        assert gradcheck(func, x, raise_exception=False) == right
        assert x.is_leaf and x.requires_grad and x.grad_fn is None


def test_a_constant_input_that_a_function_returns_requires_no_grad_afterwards():
    x, c = leaf(real(3)), tensorplay.ones(3, dtype=tensorplay.float64)
    both = function(lambda x, c: (x * 2, c), lambda ctx, g, h: (g * 2, h))
    assert gradcheck(lambda x, c: both(x, c)[0], (x, c))
    assert not c.requires_grad and c.is_leaf


def test_an_intermediate_input_keeps_its_place_in_the_graph():
    base = leaf(real(3))
    x = base * 2
    node = x.grad_fn
    assert gradcheck(function(lambda x: x, lambda ctx, g: g), x)
    assert x.grad_fn is node
    (g,) = tensorplay.autograd.grad([x.sum()], [base])
    np.testing.assert_array_equal(g.numpy(), 2)


# -- undefined grad_outputs -------------------------------------------------------------------------------------
def two_outputs(backward, materialize):
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2, x.sum()

    Two.backward = staticmethod(backward)
    return Two.apply


def test_backward_that_cannot_take_none_fails_unless_that_is_not_asked_for():
    def backward(ctx, g, h):
        return g * 2 + h

    def careful(ctx, g, h):
        parts = [*([] if g is None else [g * 2]), *([] if h is None else [h.expand(3)])]
        return sum(parts[1:], parts[0]) if parts else None

    assert gradcheck(two_outputs(backward, True), leaf(real(3)))
    assert gradcheck(two_outputs(careful, False), leaf(real(3)))

    class One(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(GradcheckError, match="Expected backward function to handle undefined output grads"):
        gradcheck(One.apply, leaf(real(3)))
    assert gradcheck(One.apply, leaf(real(3)), check_undefined_grad=False)


def test_backward_that_takes_none_for_ones_fails():
    def backward(ctx, g, h):
        total = tensorplay.ones(3, dtype=tensorplay.float64) if h is None else h.expand(3)
        return total if g is None else total + g * 2

    with pytest.raises(GradcheckError, match="undefined"):
        gradcheck(lambda x: two_outputs(backward, False)(x)[::-1], leaf(real(3)))


@pytest.mark.parametrize("func", [lambda x: x @ x.t(), lambda x: x[1], lambda x: x.sum(0)])
def test_products_and_rows_do_not_fail_for_the_shapes_of_tensorplays_undefined_grads(func):
    # tensorplay's own checker fails on them
    assert gradcheck(func, leaf(real(2, 3)))


# -- second derivatives -----------------------------------------------------------------------------------------
TWICE = [
    "sin", "exp", "a power", "a quotient", "broadcasting", "a sum of all", "a product", "matmul", "a transposed view",
    "a row", "repeated indices", "cat and stack", "several outputs", "complex exp", "complex power", "complex sum",
]  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_verdict_on_second_derivatives_is_torchs(name):
    torch = pytest.importorskip("torch")
    func, *arrays = CASES[name]
    theirs = torch.autograd.gradgradcheck(
        lambda *xs: func(torch, *xs), tuple(leaf(a, torch) for a in arrays), raise_exception=False
    )
    xs = tuple(leaf(a) for a in arrays)
    assert theirs
    assert gradgradcheck(lambda *ys: func(tensorplay, *ys), xs)
    for x, a in zip(xs, arrays, strict=True):
        assert x.is_leaf and x.grad is None and (x.detach().numpy() == a).all()


def test_second_derivative_that_the_graph_lost_is_not_passed():
    def detached(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x * x).detach() * 3

    func = function(lambda x: x * x * x, detached)
    assert gradcheck(func, leaf(real(3)))
    with pytest.raises(GradcheckError, match="second derivatives"):
        gradgradcheck(func, leaf(real(3)))
    assert gradgradcheck(cubed(), leaf(real(3)))
    if tensorplay.__version__.startswith("1.0.0"):  # tanh can be differentiated once only
        assert not gradgradcheck(tensorplay.tanh, leaf(real(3)), raise_exception=False)


def test_second_derivatives_take_grad_outputs_of_the_caller_and_non_contiguous_ones():
    x = leaf(real(2, 3))
    assert gradgradcheck(lambda x: x**3, x, leaf(real(2, 3)))
    assert gradgradcheck(lambda x: x**3, x, gen_non_contig_grad_outputs=True)
    with pytest.raises(ValueError, match="grad_outputs must be one tensor for each output"):
        gradgradcheck(lambda x: x**3, x, leaf(real(3)))


# -- closures and functions that differentiate inside -----------------------------------------------------------
def test_a_function_that_closes_over_its_input_gets_torchs_verdict():
    torch = pytest.importorskip("torch")
    for func in (
        lambda x: lambda a: a * x,
        lambda x: lambda a: x * x,
        lambda x: lambda a: a * x.detach(),
        lambda x: lambda a: (a.detach() * x).sum(),
        lambda x: lambda a: x.sum() * a.detach(),
    ):
        verdicts = []
        for lib, check in ((tensorplay, gradcheck), (torch, torch.autograd.gradcheck)):
            x = leaf(real(3), lib)
            verdicts.append(check(func(x), x, raise_exception=False))
        assert verdicts[0] == verdicts[1]


def test_functions_may_differentiate_inside_and_branch_on_requires_grad():
    def inner(x):
        return tensorplay.autograd.grad([(x**3).sum()], [x], create_graph=True)[0]

    assert gradcheck(inner, leaf(real(3)))
    assert gradcheck(lambda x: x * 2 if x.requires_grad else x * 5, leaf(real(3)))


def test_a_module_that_holds_its_parameters_is_checked_for_them():
    layer = tensorplay.nn.Linear(3, 2).double()
    x = leaf(real(4, 3))
    assert gradcheck(lambda x, w, b: layer(x), (x, layer.weight, layer.bias))
    assert gradcheck(lambda x, p: layer(x), (x, dict(layer.named_parameters())))


# -- inputs and outputs of all kinds ----------------------------------------------------------------------------
def test_what_is_not_a_tensor_is_passed_through_and_integers_are_left_alone():
    index, seen = tensorplay.tensor([2, 0]), []

    def func(x, index, scale, name):
        seen.append((index, scale, name))
        return x[index] * scale

    assert gradcheck(func, (leaf(real(3)), index, 2.5, "label"))
    assert all(i is index and s == 2.5 and n == "label" for i, s, n in seen)
    assert index.tolist() == [2, 0]


def test_integer_tensors_are_not_checked_even_where_tensorplay_lets_them_require_grad():
    index = tensorplay.tensor([2, 0]).requires_grad_()
    assert gradcheck(lambda x, i: x[i], (leaf(real(3)), index))
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda i: i * 2.0, index)


def test_an_input_that_requires_no_grad_is_not_checked():
    x, c = leaf(real(3)), tensorplay.from_numpy(real(3))
    report = gradcheck_report(lambda x, c: x * c.detach(), (x, c))
    assert report.passed and [p.input_index for p in report.pairs] == [0]


def test_scalars_and_empty_tensors():
    assert gradcheck(lambda x: x * x, leaf(0.7))
    assert gradcheck(lambda x: x[0] * 3, leaf(real(2)))
    assert not gradcheck(cubed(2.0), leaf(0.7), raise_exception=False)
    assert gradcheck(lambda x: x * 2, leaf(np.zeros((0, 3))))
    assert gradcheck(lambda x, y: x.sum() + y, (leaf(np.zeros((0, 3))), leaf(real(2))))
    assert gradcheck(lambda x: x[:0], leaf(real(3)))


def strided(kind):
    base = np.arange(1.0, 25.0).reshape(4, 6) / 30
    tensor = tensorplay.from_numpy(base)
    views = {
        "transposed": lambda: tensor.t(),
        "every second column": lambda: tensor[:, ::2],
        "a column": lambda: tensor[:, 2],
        "diagonal": lambda: tensor[:, :4].diagonal(),
        "permuted": lambda: tensor.view(2, 3, 4).permute(2, 0, 1),
    }
    return base, views[kind]().detach().requires_grad_()


@pytest.mark.parametrize("kind", ["transposed", "every second column", "a column", "diagonal", "permuted"])
def test_non_contiguous_inputs_are_perturbed_where_they_lie(kind):
    base, x = strided(kind)
    before = base.copy()
    assert gradcheck(lambda a: a * x, x)
    assert not gradcheck(cubed(2.0), x, raise_exception=False)
    assert base.tobytes() == before.tobytes()


def test_inputs_whose_elements_share_memory_are_refused():
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 2, leaf(real(3)).detach().expand(2, 3).requires_grad_())


def test_one_tensor_given_twice_is_one_variable():
    torch = pytest.importorskip("torch")
    for func in (lambda a, b: a * b, lambda a, b: a + b.detach()):
        x, y = leaf(real(3)), leaf(real(3), torch)
        theirs = torch.autograd.gradcheck(func, (y, y), raise_exception=False)
        assert gradcheck(func, (x, x), raise_exception=False) == theirs


@pytest.mark.parametrize(
    "func",
    [lambda x: x, lambda x: (x, x), lambda x: x.view(-1), lambda x: x.t(), lambda x: (x[0], x * 2), lambda x: x[:, 1:]],
)
def test_outputs_that_are_views_of_the_input_pass(func):
    assert gradcheck(func, leaf(real(2, 3)))


def test_single_precision_warns_and_passes_with_the_settings_that_the_warning_names():
    x = leaf(real(3).astype(np.float32))
    with pytest.warns(UserWarning, match=r"float32.*eps=0.005"):
        assert gradcheck(lambda x: x**3, x, eps=5e-3, atol=1e-2, rtol=1e-2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64", "complex32"])
def test_types_that_numpy_has_not_are_perturbed_through_a_copy(dtype):
    x = tensorplay.ones(3, dtype=getattr(tensorplay, dtype)).requires_grad_()
    before = x.detach().clone()
    double, triple = (function(lambda x: x * 2, lambda ctx, g, f=f: g * f) for f in (2, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert gradcheck(double, x, eps=0.25, rtol=0.05)
        assert gradcheck(lambda a: x * 2, x, eps=0.25, rtol=0.05)  # it closes over its input
        assert gradcheck(lambda a, b: a + b, (x, x), eps=0.25, rtol=0.05)
        assert not gradcheck(triple, x, eps=0.25, rtol=0.05, raise_exception=False)
    assert (x.detach() == before).all()


def test_sparse_tensors_are_refused_in_words():
    sparse = tensorplay.eye(3, dtype=tensorplay.float64).to_sparse()
    with pytest.raises(ValueError, match="Sparse tensors are not supported"):
        gradcheck(lambda x: x.to_dense(), sparse.requires_grad_())
    with pytest.raises(ValueError, match=r"Sparse output is not supported.*to_dense\(\) on output 0"):
        gradcheck(lambda x: x.to_sparse(), leaf(np.eye(3)))


def test_a_result_that_is_no_tensor_is_named():
    with pytest.raises(TypeError, match="func returned float as output 1"):
        gradcheck(lambda x: (x, 1.0), leaf(real(3)))


def test_nested_inputs_are_named():
    params = {"w": leaf(real(2, 3)), "b": [leaf(real(3))]}
    report = gradcheck_report(lambda p: cubed(2.0)(p["w"]) + p["b"][0], (params,))
    assert {p.input for p in report.pairs if not p.passed} == {"input 0 p['w']"}


def test_flags_that_tensorplay_lacks_are_refused_without_a_verdict():
    for flag in ("check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "fast_mode"):
        with pytest.raises(NotImplementedError, match=f"{flag}.*tensorplay"):
            gradcheck(lambda x: x * 2, leaf(real(3)), raise_exception=False, **{flag: True})


def test_tensors_of_two_frameworks_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="one framework"):
        gradcheck(lambda x, y: x * 2, (leaf(real(3)), leaf(real(3), torch)))


def test_tensorplay_is_not_imported_for_other_inputs():
    code = """
import sys, numpy as np
from gradcheck_widget import gradcheck
assert gradcheck(np.tanh, np.ones(3))
assert "tensorplay" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# -- what no check may ever do ----------------------------------------------------------------------------------
AWKWARD = np.array([1.5, -0.0, np.inf, 5e-324, np.nan, 0.25])
AWKWARD[4:5].view(np.uint64)[0] = 0x7FF4_0000_DEAD_BEEF  # a signalling NaN that carries a payload


class Held:
    """An input, the bytes of all the memory that it lives in, and its place in the graph."""

    def __init__(self, kind):
        self.base = {
            "contiguous": AWKWARD.copy,
            "column": lambda: np.tile(AWKWARD[:, None], (1, 3)),
            "transposed": lambda: AWKWARD.reshape(2, 3).copy(),
            "complex": lambda: AWKWARD.view(complex).copy(),
            "single": lambda: AWKWARD.astype(np.float32),
            "scalar": lambda: np.array(-0.0),
            "bfloat16": lambda: np.array([1.5, -0.0, np.inf, 1e-40], np.float32),
            "intermediate": AWKWARD.copy,
        }[kind]()
        x = tensorplay.from_numpy(self.base)
        if kind == "bfloat16":
            x = x.to(tensorplay.bfloat16)
        x = {"column": lambda: x[:, 1], "transposed": x.t}.get(kind, lambda: x)().detach().requires_grad_()
        self.x = x * 1 if kind == "intermediate" else x
        self.state = self.look()

    def look(self):
        x = self.x
        return (
            self.base.tobytes(), x.detach().numpy().tobytes(), x._version, x.grad, x.requires_grad, x.is_leaf,
            x.grad_fn, tuple(x.stride()),
        )  # fmt: skip


KINDS = ["contiguous", "column", "transposed", "complex", "single", "scalar", "bfloat16", "intermediate"]


def intruder(after, then):
    """``x -> 2 x``, until it is called for the `after`-th time: then ``then(x)``."""
    calls = 0

    def func(x):
        nonlocal calls
        calls += 1
        if calls == after:
            then(x)
        return x * 2

    return func


def throw(error):
    def then(x):
        raise error

    return then


def spoil(x):
    x.data.copy_(tensorplay.full_like(x.data, 7.0))


def spoil_and_throw(x):
    spoil(x)
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_bit_identical_whatever_happens(kind):
    held = Held(kind)
    for func in (lambda x: x * 2, cubed(), cubed(2.0), lambda x: x, lambda x: x.detach()):
        gradcheck(func, held.x, raise_exception=False)
        assert held.look() == held.state
    gradgradcheck(lambda x: x * x, held.x, raise_exception=False)
    assert held.look() == held.state
    for after in (1, 2, 3):
        for error in (ZeroDivisionError("mine"), KeyboardInterrupt()):
            with pytest.raises(type(error)):
                gradcheck(intruder(after, throw(error)), held.x)
            assert held.look() == held.state
        with pytest.raises(KeyboardInterrupt):
            gradcheck(intruder(after, spoil_and_throw), held.x)
        assert held.look() == held.state
        assert not gradcheck(intruder(after, spoil), held.x, raise_exception=False)
        assert held.look() == held.state


def test_a_fill_that_tensorplay_writes_beside_the_view_is_seen_and_the_input_gets_its_elements_back():
    # fill_ of tensorplay 1.0.0 ignores the strides of a view, and so it misses most of a column
    base = np.arange(1.0, 13.0).reshape(4, 3)
    x = tensorplay.from_numpy(base)[:, 1].detach().requires_grad_()
    report = gradcheck_report(lambda x: (x * 2, x.data.fill_(7.0))[0], x)
    assert not report.passed and "func changed input 0 'x'" in str(report)
    assert x.tolist() == [2.0, 5.0, 8.0, 11.0]


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), KeyboardInterrupt()])
def test_an_exception_in_backward_comes_out_as_it_is_and_leaves_the_input_alone(error):
    held = Held("contiguous")

    def backward(ctx, g):
        raise error

    with pytest.raises(type(error)):
        gradcheck(function(lambda x: x * 2, backward), held.x)
    assert held.look() == held.state


def test_an_exception_in_func_names_the_element_that_was_being_moved():
    with pytest.raises(ZeroDivisionError) as caught:
        gradcheck(intruder(4, throw(ZeroDivisionError("mine"))), leaf(real(3)))
    assert "input 0 'x' [1]" in caught.value.__notes__[0]


def test_tensors_that_func_writes_into_are_restored_and_named():
    x, c = leaf(real(3)), tensorplay.from_numpy(real(3))
    before = c.numpy().copy()

    def func(x, c):
        x.data.add_(1)
        c.add_(1)
        return x * 2

    report = gradcheck_report(func, (x, c))
    assert not report.passed
    assert (x.detach().numpy() == real(3)).all() and (c.numpy() == before).all()
    assert next(k for k in report.checks if k.name == "input untouched").message.startswith("func changed input 0 'x'")


def test_nothing_global_is_touched():
    state = tensorplay.get_rng_state().numpy().tobytes() if hasattr(tensorplay, "get_rng_state") else b""
    assert tensorplay.is_grad_enabled()
    gradcheck(lambda x: x * 2, leaf(real(3)))
    gradgradcheck(lambda x: x * x, leaf(real(3)))
    assert tensorplay.is_grad_enabled()
    if state:
        assert tensorplay.get_rng_state().numpy().tobytes() == state


# -- the engine itself ------------------------------------------------------------------------------------------
def test_buffers_are_the_memory_of_the_caller():
    x, z = leaf(real(2, 3)), leaf(cplx(2))
    (evaluator,) = engine.evaluators(lambda x, z: x * 2, (x, z), (0, 1))
    evaluator.buffers[0][1, 2] = 5.0
    evaluator.buffers[1][0] = 3j
    assert x[1, 2].item() == 5.0 and z[0].item() == 3j and evaluator.plain
    assert evaluator.run()[0][1, 2] == 10.0


def test_perturbing_leaves_version_counters_alone_so_that_a_graph_of_the_caller_still_runs():
    x = leaf(real(3))
    loss = (x * x).sum()
    version = x._version
    assert gradcheck(lambda x: x**3, x)
    assert x._version == version
    loss.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * real(3))


def test_a_new_tensor_of_the_engine_requires_grad_and_holds_the_values():
    values = np.arange(12.0).reshape(3, 4)[:, ::2]
    x = engine.tensor(values, like=leaf(real(2)))
    assert x.requires_grad and (x.detach().numpy() == values).all()
