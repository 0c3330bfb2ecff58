"""A test suite that uses torch's gradcheck passes when ours is put in its place: same exception types, same phrases."""

from __future__ import annotations

import pytest
import torch
from torch.autograd.gradcheck import GradcheckError
from torch.autograd.gradcheck import gradcheck as theirs

import gradcheck_widget

pytestmark = pytest.mark.filterwarnings("ignore")
CHECKS = pytest.mark.parametrize("check", [theirs, gradcheck_widget.gradcheck], ids=["torch", "ours"])


def leaf(*shape, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    return torch.rand(shape, generator=g, dtype=dtype).add(0.5).requires_grad_()


def function(forward, backward):
    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, *g):
            return backward(ctx.saved_tensors[0], *g)

    return Custom.apply


def moved_up(x):
    return (x.detach().sum() - leaf(3).detach().sum()).item() > 1e-9


def growing(x):
    return x.repeat(1 + moved_up(x))


def widening(x):
    return x.float() if moved_up(x) else x * 1


count = iter(range(10**9))
jitter = function(lambda x: x * 2, lambda x, g: g * (2 + 1e-12 * (next(count) % 7)))
unscaled = function(lambda x: x.clone(), lambda x, g: torch.ones_like(x))
strict = function(lambda x: (x * 1, x * 2), lambda x, g, h: None)


class NoneRefused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        if g is None:
            raise RuntimeError("no gradient")
        return g * 2


class NotBatched(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return torch.from_numpy(g.numpy() * 2)


class WrongForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2

    @staticmethod
    def jvp(ctx, t):
        return t * 3


part = function(lambda x: torch.complex(x * 1, x * 2), lambda x, g: g.real + 2.1 * g.imag)
sparse = torch.eye(3, dtype=torch.float64).to_sparse()

SITUATIONS = {
    "wrong gradient": (function(lambda x: x * 2, lambda x, g: g * 3), leaf(3), {}, GradcheckError,
                       "Jacobian mismatch for output 0 with respect to input 0"),
    "second input": (lambda x, y: x * y.detach() + y, (leaf(3), leaf(3)), {}, GradcheckError,
                     "Jacobian mismatch for output 0 with respect to input 1"),
    "imaginary part": (part, leaf(3), {}, GradcheckError,
                       "While considering the imaginary part of complex outputs only, Jacobian mismatch"),
    "forward mode": (WrongForward.apply, leaf(3), {"check_forward_ad": True}, GradcheckError,
                     "Jacobian computed with forward mode mismatch for output 0 with respect to input 0"),
    "not scaled": (unscaled, leaf(), {}, GradcheckError, "backward not multiplied by grad_output"),
    "nondeterministic": (jitter, leaf(3), {}, GradcheckError, "Backward is not reentrant"),
    "undefined grads": (NoneRefused.apply, leaf(3), {}, GradcheckError,
                        "Expected backward function to handle undefined output grads"),
    "not batched": (NotBatched.apply, leaf(3), {"check_batched_grad": True}, GradcheckError,
                    "While computing batched gradients"),
    "detached": (lambda x: (x.detach() * 2).requires_grad_(False), leaf(3), {}, GradcheckError,
                 "Numerical gradient for function expected to be zero"),
    "sparse output": (lambda x: x.to_sparse(), leaf(3, 3), {}, ValueError,
                      "Sparse output is not supported at gradcheck yet"),
    "mkldnn output": (lambda x: x.to_mkldnn(), leaf(3, dtype=torch.float32), {}, ValueError,
                      "MKLDNN output is not supported at gradcheck yet"),
    "no input": (torch.sin, leaf(3).detach(), {}, ValueError,
                 "gradcheck expects at least one input tensor to require gradient"),
    "stride 0": (torch.sin, torch.ones(1, dtype=torch.float64).expand(3).requires_grad_(), {}, RuntimeError,
                 "The 0th input has a dimension with stride 0"),
    "shape changes": (growing, leaf(3), {}, AssertionError, "Expected `func` to return outputs with the same shape"),
    "dtype changes": (widening, leaf(3), {}, AssertionError, "Expected `func` to return outputs with the same .*dtype"),
    "no mode": (torch.sin, leaf(3), {"check_backward_ad": False}, AssertionError,
                "Expected at least one of check_forward_ad"),
    "batched without backward": (torch.sin, leaf(3),
                                 {"check_backward_ad": False, "check_forward_ad": True, "check_batched_grad": True},
                                 AssertionError, "Setting check_batched_grad=True requires check_backward_ad"),
    "batched forward alone": (torch.sin, leaf(3), {"check_batched_forward_grad": True}, AssertionError,
                              "Setting check_batched_forward_grad=True requires check_forward_ad"),
}  # fmt: skip


@CHECKS
@pytest.mark.parametrize("name", SITUATIONS)
def test_an_existing_expectation_of_type_and_phrase_still_holds(name, check):
    func, inputs, flags, kind, phrase = SITUATIONS[name]
    with pytest.raises(kind, match=phrase):
        check(func, inputs, **flags)


@CHECKS
def test_only_failed_checks_become_false_wrong_usage_is_raised(check):
    for func, inputs, flags, kind, _ in SITUATIONS.values():
        if kind is GradcheckError:
            assert check(func, inputs, raise_exception=False, **flags) is False
        elif kind is ValueError:
            with pytest.raises(ValueError):
                check(func, inputs, raise_exception=False, **flags)


@CHECKS
def test_low_precision_is_warned_of_in_the_words_that_suites_match(check):
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision floating point"):
        check(torch.sin, leaf(3, dtype=torch.float32), raise_exception=False)


@CHECKS
def test_nondeterminism_within_its_tolerance_passes(check):
    assert check(jitter, leaf(3), nondet_tol=1e-10)


@CHECKS
def test_every_way_of_right_functions_passes(check):
    flags = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert check(lambda x, y: (x @ y, x.sum() * y.sin()), (leaf(2, 3), leaf(3, 2)), **flags)
    z = leaf(3, dtype=torch.complex128)
    assert check(lambda z, x: (z * x).exp(), (z, leaf(3)), **flags)
    assert check(torch.tanh, leaf(40), fast_mode=True)


def test_our_error_is_torchs_and_carries_the_report():
    with pytest.raises(GradcheckError) as caught:
        gradcheck_widget.gradcheck(unscaled, leaf())
    assert isinstance(caught.value, gradcheck_widget.GradcheckError)
    assert caught.value.report.engine == "torch"
