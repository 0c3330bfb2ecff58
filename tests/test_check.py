"""The contract of `gradcheck`: its arguments, its refusals, its messages, and torch's verdict."""

from __future__ import annotations

import inspect
import re
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from gradcheck_widget import Function, GradcheckError, Tensor, from_backward, gradcheck, gradcheck_report, gradgradcheck
from gradcheck_widget.check import Settings
from gradcheck_widget.engines.numpy import NumpyEngine
from gradcheck_widget.errors import UsageError

torch.set_num_threads(1)
engine = NumpyEngine()


def leaf(x):
    return Tensor(x, requires_grad=True)


def scaled(factor):
    """x**2, its gradient off by `factor`."""
    return from_backward(lambda x: (x**2, x), lambda g, x: factor * 2 * g * x)


square, wrong = scaled(1.0), scaled(1.5)


@pytest.fixture
def x():
    return np.random.default_rng(0).uniform(0.5, 2.0, size=(3, 2))


def failure(func, inputs, **settings):
    """The text of the GradcheckError; False must come back without the exception."""
    assert gradcheck(func, inputs, raise_exception=False, **settings) is False
    with pytest.raises(GradcheckError) as caught:
        gradcheck(func, inputs, **settings)
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.report.passed is False
    return str(caught.value)


# -- arguments --------------------------------------------------------------------------------------------------
def test_arguments_names_order_and_defaults_are_those_of_torch():
    ours = inspect.signature(gradcheck).parameters
    theirs = inspect.signature(torch.autograd.gradcheck).parameters
    assert [(n, p.default, p.kind) for n, p in theirs.items()] == [
        (n, p.default, p.kind) for n, p in list(ours.items())[: len(theirs)]
    ]
    assert list(ours)[len(theirs) :] == ["seed", "engine"]


def test_the_report_takes_the_arguments_of_the_check_but_for_the_exception():
    ours = dict(inspect.signature(gradcheck).parameters)
    del ours["raise_exception"]
    assert dict(inspect.signature(gradcheck_report).parameters).keys() == ours.keys()
    for name, p in inspect.signature(gradcheck_report).parameters.items():
        assert p.default == ours[name].default


def test_settings_have_the_same_defaults_as_the_check():
    defaults = {
        n: p.default
        for n, p in inspect.signature(gradcheck_report).parameters.items()
        if n not in ("func", "inputs", "engine")
    }
    assert vars(Settings()) == defaults


def test_a_right_gradient_gives_true_and_a_wrong_one_an_error_with_its_report(x):
    assert gradcheck(square, x) is True
    failure(wrong, x)


@pytest.mark.parametrize("wrap", [lambda *t: t, lambda *t: list(t)])
def test_inputs_and_outputs_may_be_tuples_or_lists(wrap, x):
    assert gradcheck(lambda a, b: wrap(a * b, a - b), wrap(x, x.copy()))
    assert gradcheck(lambda a: wrap(a * 2), wrap(x))


def test_eps_is_the_perturbation_of_one_element(x):
    at, seen = x.copy(), []

    def func(v):
        seen.append(engine.array(v) - at)
        return v * 2

    gradcheck(func, x, eps=2.0**-10)
    moves = [m for m in seen if np.count_nonzero(m) == 1]
    assert len(moves) == 2 * x.size
    np.testing.assert_allclose(np.abs(moves).sum(axis=(1, 2)), 2.0**-10)


@pytest.mark.parametrize(("atol", "passes"), [(0.99e-3, False), (1.01e-3, True)])
def test_atol_is_absolute(atol, passes):
    f = from_backward(lambda x: (x * 1.0, x), lambda g, x: g * 1.001)
    assert gradcheck(f, np.ones(1), atol=atol, rtol=0.0, raise_exception=False) is passes


@pytest.mark.parametrize(("rtol", "passes"), [(0.99e-3, False), (1.01e-3, True)])
def test_rtol_is_relative_to_the_numerical_gradient(rtol, passes):
    f = from_backward(lambda x: (x * 1e6, x), lambda g, x: g * 1.001e6)
    assert gradcheck(f, np.ones(1), atol=0.0, rtol=rtol, raise_exception=False) is passes


class Restless(Function):
    """The identity, with a gradient that grows by 1e-7 at each run of backward."""

    runs = 0

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        Restless.runs += 1
        return g * (1 + 1e-7 * Restless.runs)


def test_nondet_tol_is_what_two_backward_runs_may_differ_by(x):
    Restless.runs = 0
    assert "Backward is not reentrant" in failure(Restless.apply, np.ones(1))
    Restless.runs = 0
    assert gradcheck(Restless.apply, np.ones(1), nondet_tol=1e-5)


class NoneUnaware(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def test_undefined_grads_are_checked_unless_told_not_to(x):
    assert "Expected backward function to handle undefined output grads" in failure(NoneUnaware.apply, x)
    assert gradcheck(NoneUnaware.apply, x, check_undefined_grad=False)


def test_gradient_dtypes_are_checked_only_if_asked_for(x):
    f = from_backward(lambda x: (x * 2, x), lambda g, x: (2 * g).astype(np.float32))
    assert gradcheck(f, x)
    assert "dtype float32 for input 0 'x', which is float64" in failure(f, x, check_grad_dtypes=True)


def test_masked_is_taken_and_changes_nothing(x):
    for masked in (None, True, False):
        assert gradcheck(square, x, masked=masked)
        failure(wrong, x, masked=masked)


FLAGS = ["check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "fast_mode"]


@pytest.mark.parametrize("flag", FLAGS)
def test_flags_that_numpy_does_not_have_are_refused_before_anything_runs_also_without_raise_exception(flag, x):
    ran = []
    func = lambda v: ran.append(v) or v  # noqa: E731
    for call in (gradcheck, gradcheck_report, lambda *a, **k: gradcheck(*a, raise_exception=False, **k)):
        with pytest.raises(NotImplementedError, match=rf"{flag}=True is not supported by the numpy engine.*torch"):
            call(func, x, **{flag: True})
    assert ran == []


@pytest.mark.parametrize("flag", ["check_fwd_over_rev", "check_batched_grad", "fast_mode"])
def test_flags_of_second_derivatives_are_refused_by_their_own_name(flag, x):
    for raise_exception in (True, False):
        with pytest.raises(NotImplementedError, match=f"{flag}=True"):
            gradgradcheck(square, x, raise_exception=raise_exception, **{flag: True})


def test_asking_for_no_check_at_all_is_an_assertion_error_that_names_the_flags(x):
    for raise_exception in (True, False):
        with pytest.raises(AssertionError, match="check_forward_ad and check_backward_ad"):
            gradcheck(square, x, check_backward_ad=False, raise_exception=raise_exception)
        with pytest.raises(AssertionError, match="check_fwd_over_rev and check_rev_over_rev"):
            gradgradcheck(square, x, check_rev_over_rev=False, raise_exception=raise_exception)
    with pytest.raises(UsageError):
        gradcheck_report(square, x, check_backward_ad=False)


# -- usage errors -----------------------------------------------------------------------------------------------
CALLS = {
    "gradcheck": gradcheck,
    "quiet": lambda f, i, **k: gradcheck(f, i, raise_exception=False, **k),
    "report": gradcheck_report,
    "second": lambda f, i, **k: gradgradcheck(f, i, raise_exception=False, **k),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "value", [-1e-6, np.nan, np.inf, "1e-3", b"1", None, 1j, [1e-6], np.array([1e-6]), True], ids=repr
)
@pytest.mark.parametrize("name", ["eps", "atol", "rtol", "nondet_tol"])
def test_settings_that_are_no_numbers_are_refused_with_name_and_value(name, value, call, x):
    with pytest.raises(ValueError, match=rf"^{name} must be a finite number.*got {re.escape(repr(value))}"):
        CALLS[call](square, x, **{name: value})


@pytest.mark.parametrize("call", CALLS)
def test_a_step_of_zero_is_refused_but_tolerances_may_be_zero(call, x):
    with pytest.raises(ValueError, match="eps must be a finite number greater than 0, got 0"):
        CALLS[call](np.square, x, eps=0)
    assert gradcheck(lambda v: 2 * v.sum(), np.zeros(3), atol=0, rtol=0, eps=0.5)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (np.arange(3), "input 0 is ndarray of int64"),
        (Tensor(np.ones(2)), "input 0 is Tensor of float64 that does not require grad"),
        ([1.0, 2.0], "input 0 is float; input 1 is float"),
        ((), "there are no inputs"),
        (torch.ones(2), r"input 0 is torch\.Tensor of torch\.float32"),
    ],
    ids=["integers", "no grad", "numbers", "nothing", "torch"],
)
def test_inputs_without_anything_to_check_are_refused_with_what_they_are(inputs, words, call):
    with pytest.raises(ValueError, match="gradcheck expects at least one input tensor to require gradient") as caught:
        CALLS[call](np.tanh, inputs)
    assert re.search(words, str(caught.value))
    remedy = "requires_grad_()" if isinstance(inputs, torch.Tensor) else "Tensor(x, requires_grad=True)"
    assert remedy in str(caught.value)


@pytest.mark.parametrize("call", CALLS)
def test_a_func_that_cannot_be_called_is_refused(call, x):
    with pytest.raises(TypeError, match="func must be callable, got 3"):
        CALLS[call](3, x)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("result", [None, 1.5, "a", {"loss": 1}], ids=repr)
def test_a_func_that_returns_no_tensors_is_refused_with_what_it_returned(result, call, x):
    with pytest.raises(TypeError, match=f"func returned {type(result).__name__} as output 0: it must return"):
        CALLS[call](lambda v: result, x)


SHARED = {
    "stride 0": lambda: np.broadcast_to(np.ones(1), (3,)),
    "windows": lambda: sliding_window_view(np.arange(5.0), 2),
    "as_strided": lambda: as_strided(np.arange(5.0), (4, 2), (8, 8)),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("make", [lambda x: x, leaf], ids=["array", "tensor"])
@pytest.mark.parametrize("name", SHARED)
def test_elements_that_share_memory_are_refused_before_func_runs(name, make, call):
    ran = []
    with pytest.raises(RuntimeError, match=r"The 0th input has .*input 0 'v'.*x\.copy\(\)") as caught:
        CALLS[call](lambda v: ran.append(v) or v, make(SHARED[name]()))
    assert not isinstance(caught.value, GradcheckError)
    assert ran == []
    if call != "second":
        assert CALLS[call](lambda v: v * 2, make(SHARED[name]().copy()))


def test_two_inputs_that_share_memory_are_refused(x):
    with pytest.raises(RuntimeError, match="input 0 'a' and input 1 'b' share memory"):
        gradcheck(lambda a, b: a + b, (x, x[::-1]))


def test_constants_may_share_memory(x):
    assert gradcheck(lambda a, c: a * c, (x[0], Tensor(np.broadcast_to(2.0, (2,)))))


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a[::2],
        lambda a: a[::-1],
        lambda a: a.T,
        lambda a: a.astype(complex).real,
        lambda a: a.astype(complex).imag,
    ],
    ids=["every second", "backwards", "transposed", "real part", "imaginary part"],
)
def test_views_without_overlap_are_checked(view, x):
    assert gradcheck(np.sin, view(x))


def test_two_interlocking_views_of_one_array_are_two_inputs(x):
    assert gradcheck(lambda a, b: a * b, (x.reshape(-1)[::2], x.reshape(-1)[1::2]))
    z = x.astype(complex)
    assert gradcheck(lambda a, b: a * b, (z.real, z.imag))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
def test_lower_precision_is_warned_of_with_the_inputs_name_at_the_users_line(dtype, x):
    kind = re.escape(str(np.dtype(dtype)))
    for call in (gradcheck, gradcheck_report, gradgradcheck):
        with pytest.warns(
            UserWarning, match=f"Input #1 requires gradient and is not a double.*input 1 'b' is {kind}"
        ) as seen:
            call(lambda a, b: a * b, (x, x.astype(dtype)), eps=0.1, atol=1.0, rtol=1.0)
        assert [w.filename for w in seen] == [__file__]  # once, and at the line of the call


def test_lower_precision_of_what_is_not_checked_is_no_reason_for_a_warning(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gradcheck(lambda a, c: a * c, (x, Tensor(x.astype(np.float32))))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("func", [np.sin, lambda v: v @ v.T, square])
def test_a_lower_precision_check_passes_with_the_settings_that_the_warning_names(func, dtype, x):
    with pytest.warns(UserWarning, match="not a double precision") as seen:
        gradcheck(func, x.astype(dtype), raise_exception=False)
        step, tolerance = re.search(r"eps=(\S+) with atol and rtol near (\S+)", str(seen[0].message)).groups()
        assert gradcheck(func, x.astype(dtype), eps=float(step), atol=float(tolerance), rtol=float(tolerance))


# -- inputs of all kinds ----------------------------------------------------------------------------------------
LAYOUTS = {
    "fortran": np.asfortranarray,
    "every second row": lambda a: np.repeat(a, 2, 0)[::2],
    "backwards": lambda a: a[::-1, ::-1],
    "big-endian": lambda a: a.astype(">f8"),
    "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
    "long double": lambda a: a.astype(np.longdouble),
    "a scalar": lambda a: np.array(0.7),
    "one element": lambda a: a[:1, :1],
    "empty": lambda a: a[:0],
    "subclass": lambda a: a.view(type("Mine", (np.ndarray,), {})),
}


@pytest.mark.parametrize("make", [lambda x: x, leaf], ids=["array", "tensor"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_right_gradients_pass_and_wrong_ones_fail_whatever_the_memory_is_like(name, make, x):
    v = LAYOUTS[name](x)
    before = v.tobytes()
    for func in (np.tanh, np.sum, square, lambda v: v @ v.T if v.ndim else v, lambda v: v, lambda v: v.reshape(-1)):
        assert gradcheck(func, make(v))
    assert gradcheck(wrong, make(v), raise_exception=False) is (name == "empty")
    assert v.tobytes() == before


def test_one_array_passed_twice_is_one_variable(x):
    for make in (lambda a: a, leaf):
        same = make(x)
        assert gradcheck(lambda a, b: a * b, (same, same))
        both = gradcheck_report(lambda a, b: a * b, (same, same)).pairs
        for p in both:
            np.testing.assert_allclose(p.numerical, np.diag(2 * x.reshape(-1)), atol=1e-8)


def test_what_is_no_tensor_is_passed_through_as_it_is(x):
    other = {"scale": 3.0}
    labels = np.array([2, 0])

    def func(flag, v, options, index, number):
        assert flag is True and options is other and index is labels and number == 0.5
        return v[index] * options["scale"] * number

    assert gradcheck(func, (True, x, other, labels, 0.5))


def test_only_inputs_that_require_grad_are_checked(x):
    f = from_backward(lambda a, b: (a * b, (a, b)), lambda g, c: (g * c[1], None))  # no gradient for b
    assert gradcheck(f, (leaf(x), Tensor(x.copy())))
    assert "with respect to input 1 ('b')" in failure(f, (leaf(x), leaf(x.copy())))


def test_several_inputs_and_outputs_are_all_compared(x):
    def broken(k_out, k_in):
        def backward(grads, cache):
            J = [[1.0, 2.0], [3.0, 4.0]]
            J[k_out][k_in] += 0.5
            return tuple(sum(J[o][i] * grads[o] for o in (0, 1)) for i in (0, 1))

        return from_backward(lambda a, b: ((a + 2 * b, 3 * a + 4 * b), None), backward)

    for k_out in (0, 1):
        for k_in in (0, 1):
            text = failure(broken(k_out, k_in), (x, x.copy()))
            assert text.startswith(f"Jacobian mismatch for output {k_out} with respect to input {k_in} ")
            assert "Also" not in text


# -- outputs ----------------------------------------------------------------------------------------------------
def test_integer_and_boolean_outputs_need_no_gradient(x):
    assert gradcheck(lambda v: (v * 2, v > 1, np.argmax(v), np.array([1, 2])), x)
    assert gradcheck(lambda v: v > 1, x)


def test_an_output_may_be_independent_of_an_input(x):
    assert gradcheck(lambda a, b: (a * 2, b * 3), (x, x.copy()))
    assert gradcheck(lambda a, b: a * 2, (x, x.copy()))
    assert gradcheck(lambda a: np.ones(2), x)


@pytest.mark.parametrize("cut", [lambda v: v.detach() * 2, lambda v: v.data * 2, lambda v: Tensor(v.data) ** 2])
def test_a_detached_output_that_depends_on_the_input_fails_whatever_the_tolerances(cut, x):
    for func in (cut, lambda v: (v * 2, cut(v))):
        text = failure(func, leaf(x), atol=1e9, rtol=1e9)
        assert "Numerical gradient for function expected to be zero" in text
        assert "although the output carries no gradient (was it detached?)" in text


ALIASES = {
    "identity": lambda v: v,
    "reshape": lambda v: v.reshape(-1),
    "transpose": lambda v: v.T,
    "slice": lambda v: v[1:],
    "twice": lambda v: (v, v),
    "a view and its base": lambda v: (v, v[0], v.reshape(-1)[::2]),
}


@pytest.mark.parametrize("make", [lambda x: x, leaf], ids=["array", "tensor"])
@pytest.mark.parametrize("name", ALIASES)
def test_outputs_that_are_views_of_the_input_pass(name, make, x):
    assert gradcheck(ALIASES[name], make(x))


def test_a_gradient_of_the_wrong_shape_fails_and_says_which_and_how(x):
    for gradient, words in [
        (lambda g: g.sum(), r"shape \(\) for input 0, whose shape is \(3, 2\)"),
        (lambda g: g.T, "this one looks transposed"),
        (lambda g: g[None] * np.ones((4, 1, 1)), "a sum over the leading axes seems to be missing"),
    ]:
        text = failure(from_backward(lambda v: (v * 2, None), lambda g, c, gradient=gradient: gradient(g)), x)
        assert re.search(words, text)
        assert "input untouched" not in text


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_gradients_fails_with_both_numbers(count, x):
    f = from_backward(lambda a, b: (a * b, None), lambda g, c: (g,) * count)
    assert f"returned {count} gradients for 2 inputs" in failure(f, (x, x.copy()))


class Late:
    """Behaves until it has run `after` times."""

    def __init__(self, after, then):
        self.after, self.then = after, then

    def __call__(self, v):
        self.after -= 1
        return self.then(v) if self.after < 0 else v * 2


@pytest.mark.parametrize(
    ("then", "words"),
    [
        (lambda v: v[:1] * 2, r"output 0: \(3, 2\) float64, now \(1, 2\) float64"),
        (lambda v: (v * 2).astype(np.float32), r"output 0: \(3, 2\) float64, now \(3, 2\) float32"),
        (lambda v: (v, v), "1 outputs, now 2"),
    ],
)
def test_an_output_that_changes_under_perturbation_fails_and_names_the_step(then, words, x):
    with pytest.raises(GradcheckError, match=words) as caught:
        gradcheck(Late(8, then), x)
    assert "same shape and dtype when inputs are perturbed" in str(caught.value)
    assert re.search(r"input 0 'v' \[\d, \d\] moved by -?1e-06", str(caught.value))
    assert gradcheck(Late(8, then), x, raise_exception=False) is False


def test_a_gradcheck_error_of_the_users_own_is_not_taken_for_a_verdict(x):
    mine = GradcheckError("mine")

    def raises(v):
        raise mine

    with pytest.raises(GradcheckError) as caught:
        gradcheck(Late(8, raises), x, raise_exception=False)
    assert caught.value is mine


# -- closures: torch's verdict ----------------------------------------------------------------------------------
def closure_cases(x, other, values, xp):
    """Functions that close over their own input: as a tensor, as the memory inside it, or as a copy."""
    return {
        "its own tensor": (True, lambda t: t * x),
        "only its own tensor": (True, lambda t: x * 2),
        "its own memory": (False, lambda t: t * values),
        "its own tensor, detached": (False, lambda t: t * x.detach()),
        "both": (False, lambda t: t * x + x.detach()),
        "a copy": (True, lambda t: t * other),
        "a function of it": (True, lambda t: xp.sin(x) * xp.cos(t)),
        "a sum with itself": (True, lambda t: t + x * x + t * x),
    }


@pytest.mark.parametrize("name", closure_cases(None, None, None, None))
def test_functions_that_close_over_their_own_input_get_torchs_verdict(name):
    values = np.random.default_rng(0).uniform(0.5, 2.0, size=(2, 2))
    ours = leaf(values)
    theirs = torch.tensor(values, requires_grad=True)
    shared = theirs.detach()
    expected, func = closure_cases(theirs, shared.clone(), shared, torch)[name]
    assert torch.autograd.gradcheck(func, theirs, raise_exception=False) == expected
    _, func = closure_cases(ours, values.copy(), ours.data, np)[name]
    assert gradcheck(func, ours, raise_exception=False) == expected


def test_an_array_that_closes_over_itself_moves_with_itself():
    values = np.array([1.0, 2.0])
    theirs = torch.from_numpy(values.copy()).requires_grad_()
    expected = torch.autograd.gradcheck(lambda t: t * theirs.detach(), theirs, raise_exception=False)
    assert gradcheck(lambda t: t * values, values, raise_exception=False) == expected is False


# -- complex: torch's verdict and torch's Jacobians ----------------------------------------------------------------
NAMES = ("exp", "sin", "sqrt", "abs", "real", "imag", "sum")
NUMPY = SimpleNamespace(conj=np.conj, **{n: getattr(np, n) for n in NAMES})
TORCH = SimpleNamespace(conj=torch.conj_physical, **{n: getattr(torch, n) for n in NAMES})
COMPLEX = {
    "c: square": ("c", lambda xp, z: z * z),
    "c: exp sin": ("c", lambda xp, z: xp.exp(xp.sin(z))),
    "c: reciprocal": ("c", lambda xp, z: 1 / z),
    "c: sqrt": ("c", lambda xp, z: xp.sqrt(z)),
    "c: conj": ("c", lambda xp, z: xp.conj(z) * (2 + 1j)),
    "c: modulus": ("c", lambda xp, z: xp.abs(z)),
    "c: modulus times z": ("c", lambda xp, z: xp.abs(z) * z),
    "c: real and imaginary part": ("c", lambda xp, z: (xp.real(z) * xp.imag(z), xp.imag(z))),
    "c: real part back to complex": ("c", lambda xp, z: xp.real(z) * (1 + 2j)),
    "c: a real sum": ("c", lambda xp, z: xp.sum(xp.real(z * xp.conj(z)))),
    "r: to complex": ("r", lambda xp, x: x * (1 + 2j)),
    "r: phase": ("r", lambda xp, x: xp.exp(1j * x)),
    "rc: product": ("rc", lambda xp, x, z: x * z),
    "cr: product": ("cr", lambda xp, z, x: z * x),
    "crc: mixture": ("crc", lambda xp, z, x, w: (z * x, xp.abs(w) * x, xp.conj(w) * z)),
    "rcr: real outputs of complex": ("rcr", lambda xp, x, z, y: (xp.abs(z) * x, xp.real(z) * y, x * y)),
    "cc: one of them conjugated": ("cc", lambda xp, z, w: z * xp.conj(w)),
    "cr: matrix product": ("cR", lambda xp, z, x: z @ (x + 0j)),
}


def complex_inputs(kinds):
    rng = np.random.default_rng(5)
    draw = {
        "r": lambda: rng.uniform(0.5, 1.5, size=2),
        "R": lambda: rng.uniform(0.5, 1.5, size=(2, 2)),
        "c": lambda: rng.uniform(0.5, 1.5, size=2) + 1j * rng.uniform(-1.5, -0.5, size=2),
    }
    return [draw[k]() for k in kinds]


SABOTAGE = {
    "right": lambda g: g,
    "scaled": lambda g: g * 1.01,
    "conjugated": lambda g: g.conj(),
    "turned": lambda g: g * 1j,
    "negated": lambda g: -g,
    "real part only": lambda g: g.real + 0 * g,
}


def sabotaged_numpy(how):
    class Bent(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return SABOTAGE[how](g)

    return Bent.apply


def sabotaged_torch(how):
    class Bent(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return SABOTAGE[how](g).resolve_conj()

    return Bent.apply


def bend(func, apply):
    """`func` whose every complex output, or every output if it has no complex one, is bent."""

    def bent(*args):
        out = func(*args)
        outs = out if isinstance(out, tuple) else (out,)
        some = any(o.dtype in (np.complex128, torch.complex128) for o in outs)
        return tuple(apply(o) if not some or o.dtype in (np.complex128, torch.complex128) else o for o in outs)

    return bent


def both(name, how):
    kinds, func = COMPLEX[name]
    values = complex_inputs(kinds)
    ours = bend(lambda *a: func(NUMPY, *a), sabotaged_numpy(how))
    theirs = bend(lambda *a: func(TORCH, *a), sabotaged_torch(how))
    return (ours, [leaf(v.copy()) for v in values]), (theirs, [torch.tensor(v, requires_grad=True) for v in values])


REAL_ONLY = {n for n, (_, f) in COMPLEX.items() if n in ("c: modulus", "c: real and imaginary part", "c: a real sum",
                                                          "rcr: real outputs of complex")}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "how"),
    # the gradient of a real output cannot be turned
    [(name, how) for name in COMPLEX for how in SABOTAGE if not (name in REAL_ONLY and how == "turned")],
)
def test_complex_functions_get_torchs_verdict(name, how):
    (ours, x), (theirs, t) = both(name, how)
    expected = torch.autograd.gradcheck(theirs, t, raise_exception=False)
    assert gradcheck(ours, x, raise_exception=False) == expected
    harmless = how == "right" or (name in REAL_ONLY and how in ("conjugated", "real part only"))
    assert expected == harmless


@pytest.mark.parametrize("how", ["right", "scaled"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_jacobians_are_those_of_torch(name, how):
    (ours, x), (theirs, t) = both(name, how)
    pairs = {(p.output_index, p.input_index, p.part): p for p in gradcheck_report(ours, x).pairs}
    outs = theirs(*t)
    expected = {}
    for k, o in enumerate(outs):
        for part in ("real", "imag") if o.is_complex() else ("",):
            rows = []
            for row in range(o.numel()):
                unit = torch.zeros(o.numel(), dtype=o.dtype)
                unit[row] = 1j if part == "imag" else 1
                rows.append(torch.autograd.grad(o, t, unit.reshape(o.shape), retain_graph=True, allow_unused=True))
            for i, v in enumerate(t):
                grads = [torch.zeros_like(v) if r[i] is None else r[i] for r in rows]
                expected[k, i, part] = np.stack([g.detach().resolve_conj().numpy().reshape(-1) for g in grads])
    assert pairs.keys() == expected.keys()
    for key, J in expected.items():
        np.testing.assert_allclose(pairs[key].analytical, J, atol=1e-12)
        if how == "right":
            np.testing.assert_allclose(pairs[key].numerical, J, atol=1e-7)


# -- real functions: torch's verdict -----------------------------------------------------------------------------
def bent_square(base, scale):
    class Square(base):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return scale(g, x)

    return Square.apply


@pytest.mark.parametrize(
    "scale",
    [
        lambda g, x: g * 2 * x,
        lambda g, x: g * 2.001 * x,
        lambda g, x: g * 2.01 * x,
        lambda g, x: 2 * x,
        lambda g, x: -2 * g * x,
        lambda g, x: (g * 2 * x).T,
        lambda g, x: g * 2 * x / len(x),
        lambda g, x: 0 * g,
        lambda g, x: g * 2 * x + (x > 1.2) * 1e-4 * g,
        lambda g, x: None,
    ],
)
@pytest.mark.parametrize("settings", [{}, {"atol": 1e-8, "rtol": 1e-6}, {"atol": 1.0, "rtol": 1.0}, {"eps": 1e-3}])
def test_right_and_wrong_gradients_get_torchs_verdict(scale, settings):
    x = np.random.default_rng(1).uniform(0.5, 2.0, size=(3, 3))
    expected = torch.autograd.gradcheck(
        bent_square(torch.autograd.Function, scale),
        torch.tensor(x, requires_grad=True),
        raise_exception=False,
        **settings,
    )
    assert gradcheck(bent_square(Function, scale), x, raise_exception=False, **settings) == expected


# -- messages ---------------------------------------------------------------------------------------------------
def test_a_mismatch_names_count_worst_element_both_values_error_and_tolerance(x):
    def backward(g, v):
        slope = 2 * v
        slope[2, 1] *= 1.5
        slope[0, 0] *= 1.1
        return g * slope

    text = failure(from_backward(lambda w: (w**2, w), backward), x)
    first, worst, second, *_ = text.splitlines()
    assert first == (
        "Jacobian mismatch for output 0 with respect to input 0 ('w'): 2 of 36 elements exceed "
        "atol + rtol * |numerical| (eps=1e-06, atol=1e-05, rtol=0.001)"
    )
    numerical, analytical = 2 * x[2, 1], 3 * x[2, 1]
    tolerance = 1e-5 + 1e-3 * numerical
    assert worst.startswith("  worst: output 0 [2, 1] <- input 0 'w' [2, 1]: analytical ")
    found = [
        float(n)
        for n in re.findall(r"(?:analytical|numerical|error|=|tolerance) (\d[\d.e+-]*)", worst.split(":", 2)[2])
    ]
    np.testing.assert_allclose(
        found,
        [analytical, numerical, analytical - numerical, (analytical - numerical) / tolerance, tolerance],
        rtol=5e-3,
    )
    assert "output 0 [0, 0] <- input 0 'w' [0, 0]" in second


def test_a_large_mismatch_is_never_dumped():
    n = 1000
    w = np.random.default_rng(0).normal(size=(n, n))
    f = from_backward(lambda v: (w @ v, None), lambda g, c: (w.T @ g) + 1.0)
    text = failure(f, np.ones(n))
    assert len(text) < 1500
    assert len(text.splitlines()) < 12
    assert "of 1,000,000 elements" in text


def test_a_step_too_small_for_the_value_is_reported_as_such():
    text = failure(lambda v: 3 * v, np.array([1.0, 1e12]))
    assert "analytical 3, numerical nan (step too small for this value: x + eps == x" in text
    assert "[1] <- input 0 'v' [1]" in text
    assert gradcheck(lambda v: 3 * v, np.array([1.0, 1e12]), eps=1.0)


def test_a_mismatch_of_a_complex_output_says_which_part():
    f = from_backward(lambda z: (z * 2, None), lambda g, c: g.conj() * 2)
    text = failure(f, np.array([1 + 1j]))
    assert text.startswith(
        "While considering the imaginary part of complex outputs only, Jacobian mismatch for output 0"
    )


def test_a_backward_that_ignores_grad_output_is_said_beside_its_mismatch():
    f = from_backward(lambda v: (v**2, v), lambda g, v: 2 * v)
    text = failure(f, np.array([1.0, 2.0]))
    assert text.startswith("Jacobian mismatch")
    assert "\nAlso: backward not multiplied by grad_output" in text
    only = failure(f, np.array([1.5]))  # one element: 1 times f' is f'
    assert only.startswith("backward not multiplied by grad_output")


def test_an_input_that_func_changes_is_named_first():
    def forward(v):
        v -= v.mean()
        return v, None

    text = failure(from_backward(forward, lambda g, c: g - g.mean()), np.array([1.0, 2.0]))
    assert text.startswith("func changed input 0 'v' in place")


def test_an_input_that_func_changes_only_when_it_is_an_array_is_named_too():
    def func(v):
        v -= v.mean()
        return v * 2

    x = np.array([1.0, 2.0])
    assert "func changed input 0 'v' in place" in failure(func, x)
    assert gradcheck(func, leaf(x))
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_nan_fails_and_is_shown():
    f = from_backward(lambda v: (v * 1, v), lambda g, v: g * np.where(v > 1, np.nan, 1.0))
    text = failure(f, np.array([0.5, 2.0]))
    assert "analytical nan, numerical 1" in text


# -- random and stateful functions -------------------------------------------------------------------------------
def test_a_random_function_fails():
    rng = np.random.default_rng(0)
    failure(lambda v: v * (rng.random(v.shape) < 0.5), np.ones(6))
    failure(lambda v: v + rng.normal(size=v.shape), np.ones(6))


def test_a_layer_that_keeps_its_mask_for_backward_is_checked_against_that_mask():
    class Layer:
        def forward(self, v):
            self.mask = np.arange(v.size) % 2 == 0
            return v * self.mask, None

        def backward(self, g, cache):
            return g * self.mask

    layer = Layer()
    assert gradcheck(from_backward(layer.forward, layer.backward), np.ones(5))


def test_a_layer_that_keeps_its_input_for_backward_is_checked_at_that_input():
    class Layer:
        def forward(self, v):
            self.v = v.copy()
            return v**3, None

        def backward(self, g, cache):
            return g * 3 * self.v**2

    layer = Layer()
    assert gradcheck(from_backward(layer.forward, layer.backward), np.linspace(1, 2, 4), atol=1e-9, rtol=1e-7)
