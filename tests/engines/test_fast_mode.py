"""Fast mode: what it sees, what it says about what it would see, and who decides when it fails."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from gradcheck_widget import GradcheckError, gradcheck, gradcheck_report

N = 100
pytestmark = pytest.mark.filterwarnings("ignore")


def leaf(*shape, dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=g, dtype=dtype).requires_grad_()


class OneColumn(torch.autograd.Function):
    """``A @ x``, with the gradient of x[7] wrong by `share`."""

    @staticmethod
    def forward(ctx, x, A, share):
        ctx.save_for_backward(A)
        ctx.share = share
        return A @ x

    @staticmethod
    def backward(ctx, g):
        (A,) = ctx.saved_tensors
        back = A.T @ g
        back[7] *= 1 + ctx.share
        return back, None, None


@pytest.mark.parametrize(
    ("func", "inputs"),
    [
        (torch.tanh, (leaf(N),)),
        (torch.matmul, (leaf(4, 5), leaf(5, 3))),
        (lambda x: (x * x).sum(), (leaf(N),)),
        (lambda x, y: (x @ y, x.sin(), y.exp()), (leaf(3, 4), leaf(4, 2))),
        (lambda z: (z.exp(), z.abs()), (leaf(6, dtype=torch.complex128),)),
        (lambda z, x: (z * x).cos(), (leaf(6, dtype=torch.complex128), leaf(6))),
        (torch.sin, (leaf(),)),
        (torch.sin, (leaf(0),)),
    ],
    ids=["tanh", "matmul", "scalar", "several", "complex", "complex and real", "0-d", "empty"],
)
@pytest.mark.parametrize("forward", [False, True], ids=["reverse", "forward too"])
def test_right_functions_pass(func, inputs, forward):
    report = gradcheck_report(func, inputs, fast_mode=True, check_forward_ad=forward)
    assert report.passed and (report.fast or inputs[0].numel() == 0)


def test_a_sparse_input_is_moved_along_its_specified_elements():
    dense = torch.randn(4, 5, dtype=torch.float64)
    dense[dense.abs() < 0.5] = 0
    for masked in (True, False):
        x = dense.to_sparse().requires_grad_()
        assert gradcheck(lambda s, m=masked: s.to_dense(masked_grad=m) * 2, x, fast_mode=True, masked=masked)


def test_jax_has_it_too():
    jax = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        assert gradcheck_report(jax.numpy.tanh, jax.numpy.arange(5.0), fast_mode=True).fast
    finally:
        jax.config.update("jax_enable_x64", before)


def test_a_seed_gives_the_same_report_again_and_is_named():
    once, again = (gradcheck_report(torch.tanh, leaf(N), fast_mode=True, seed=3) for _ in "12")
    assert once.to_dict(arrays=True) == again.to_dict(arrays=True)
    assert "seed 3" in str(once) and once.seed == 3
    fresh = {gradcheck_report(torch.tanh, leaf(5), fast_mode=True).seed for _ in range(4)}
    assert len(fresh) == 4  # the same directions would miss the same column each time


def test_a_failure_is_decided_and_told_by_the_slow_mode():
    A = torch.randn(N, N, dtype=torch.float64)
    with pytest.raises(GradcheckError, match=r"100 of 10,000 elements.*input 0 'x' \[7\]|100 of 10,000") as caught:
        gradcheck(lambda x: OneColumn.apply(x, A, 0.1) * 3, leaf(N), fast_mode=True, seed=0)
    report = caught.value.report
    assert not report.fast and report.pairs[0].analytical.shape == (N, N)
    assert set(np.flatnonzero(report.pairs[0].failing.any(axis=0))) == {7}


def test_a_failure_that_the_slow_mode_does_not_share_is_a_pass():
    """Along a direction all elements move at once; a kink between them is none of a single element's."""
    x = torch.arange(50, dtype=torch.float64).mul_(2e-7).requires_grad_()
    for seed in range(5):
        fast = gradcheck_report(lambda x: x.sort().values, x, eps=1e-8, fast_mode=True, seed=seed)
        slow = gradcheck_report(lambda x: x.sort().values, x, eps=1e-8)
        assert fast.passed == slow.passed


@pytest.mark.parametrize("share", [0.1, 0.01])
def test_what_it_says_it_would_see_is_what_it_sees(share, capsys):
    """Plant a column wrong by `share` in random 100 x 100 maps: as many seeds catch it as reports say."""
    caught, claimed = 0, []
    seeds = 150
    for seed in range(seeds):
        g = torch.Generator().manual_seed(seed)
        A = torch.randn((N, N), generator=g, dtype=torch.float64)
        x = leaf(N, seed=seed)
        right = gradcheck_report(lambda x, A=A: A @ x, x, fast_mode=True, seed=seed)
        seen, total = right.columns_seen(share)
        claimed.append(seen / total)
        if share == 0.1:
            text = re.search(r"wrong by 10 % would be seen for (\S+) % of 100 columns", str(right))
            assert float(text[1]) == pytest.approx(100 * seen / total, abs=0.11)
        wrong = lambda x, A=A: OneColumn.apply(x, A, share)  # noqa: E731
        caught += not gradcheck(wrong, x, fast_mode=True, seed=seed, raise_exception=False)
    got, said = caught / seeds, float(np.mean(claimed))
    with capsys.disabled():
        print(f"\na column wrong by {share:.0%} at n = {N}: caught by {got:.0%} of seeds, {said:.0%} claimed")
    assert abs(got - said) < 4 * np.sqrt(said * (1 - said) / seeds) + 0.01
    assert got > 0.9 or share < 0.1  # torch's fast mode misses 15 of 20


def test_gradients_of_the_wrong_shape_and_backwards_that_vary_are_still_caught():
    count = iter(range(10**6))

    class Varies(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * (2 + 1e-9 * next(count))

    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(Varies.apply, leaf(5), fast_mode=True)
