"""torch's own operator database: our verdict is torch's, right or sabotaged, and inputs are left alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.autograd.gradcheck import gradcheck as torch_gradcheck
from torch.autograd.gradcheck import gradgradcheck as torch_gradgradcheck
from torch.testing._internal.common_methods_invocations import op_db

from gradcheck_widget import gradcheck, gradgradcheck

LARGEST = 40  # elements of the inputs of a sample
SAMPLES = 1  # of each operator and dtype; two took CI too long on a slow machine
OPS = [op for op in op_db if op.supports_autograd]
DTYPES = [torch.float64, torch.complex128]
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def one_thread_and_its_own_random_numbers():
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)


def verdict(check: Callable[..., bool], *args: Any, **kwargs: Any) -> Any:
    """True, False, or the kind of what is raised."""
    try:
        return check(*args, raise_exception=False, **kwargs)
    except Exception as error:
        return type(error).__name__


def problems(op: Any, dtype: torch.dtype) -> Iterator[tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions of the tensors that require grad, as torch's own tests of its operators make them."""
    if dtype not in op.supported_backward_dtypes("cpu"):
        return
    found = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=True):
        several = isinstance(sample.input, list | tuple)
        head = tuple(sample.input) if several else (sample.input,)
        args = (*head, *sample.args)
        places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad]
        if not places or sum(a.numel() for a in args if isinstance(a, torch.Tensor)) > LARGEST:
            continue

        def run(*tensors, args=args, places=places, head=head, several=several, sample=sample):
            count = len(head)
            given = list(args)
            for i, t in zip(places, tensors, strict=True):
                given[i] = t
            first = given[:count] if several else given[0]
            out = op.gradcheck_wrapper(op.op, first, *given[count:], **sample.kwargs)
            if sample.output_process_fn_grad is not None:
                out = sample.output_process_fn_grad(out)
            return out if isinstance(out, tuple | list) else (out,)

        inputs = tuple(args[i] for i in places)
        # forward mode has no requires_grad to choose the outputs by
        kept = [k for k, o in enumerate(run(*inputs)) if isinstance(o, torch.Tensor) and o.requires_grad]
        yield (lambda *tensors, run=run, kept=kept: tuple(run(*tensors)[k] for k in kept)), inputs
        found += 1
        if found == SAMPLES:
            return


class Sabotage(torch.autograd.Function):
    """The identity, with the last entry of its gradient 10 % too large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        g = g.clone(memory_format=torch.contiguous_format)
        if g.numel():
            g.view(-1)[-1] *= 1.1
        return g


def compare(ops: list[Any], ours: Any, theirs: Any, wrap: Any = None, **flags: Any) -> tuple[int, list[Any]]:
    compared, differing = 0, []
    for op in ops:
        for dtype in DTYPES:
            for func, inputs in problems(op, dtype):
                tested = func if wrap is None else wrap(func)
                before = [x.detach().clone() for x in inputs]
                settings = {"nondet_tol": op.gradcheck_nondet_tol, **flags}
                a, b = (verdict(check, tested, inputs, **settings) for check in (theirs, ours))
                compared += 1
                if a != b:
                    differing.append((op.name, op.variant_test_name, dtype, f"torch {a}", f"ours {b}"))
                for x, kept in zip(inputs, before, strict=True):
                    same = torch.equal(*(torch.nan_to_num(t.to_dense()) for t in (x.detach(), kept)))
                    assert same, f"{op.name} {dtype}: an input was changed"
    return compared, differing


def sabotaged(func: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *tensors: func(*(Sabotage.apply(t) for t in tensors))


def quiet_compare(capsys: Any, what: str, ops: list[Any], *args: Any, **kwargs: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compared, differing = compare(ops, *args, **kwargs)
    with capsys.disabled():
        print(f"\n{what}: {compared} verdicts on {len({op.name for op in ops})} operators compared")
    assert compared > len(ops) / 2
    assert differing == []


def test_right_gradients_get_torchs_verdict(capsys):
    quiet_compare(capsys, "as they are", OPS, gradcheck, torch_gradcheck)


def test_sabotaged_gradients_get_torchs_verdict(capsys):
    quiet_compare(capsys, "sabotaged", OPS[::2], gradcheck, torch_gradcheck, sabotaged)


def test_forward_mode_gets_torchs_verdict(capsys):
    ops = [op for op in OPS if op.supports_forward_ad][::5]
    quiet_compare(capsys, "forward mode", ops, gradcheck, torch_gradcheck, check_forward_ad=True)


def test_batched_gradients_get_torchs_verdict(capsys):
    ops = [op for op in OPS if op.check_batched_grad][::7]
    quiet_compare(capsys, "batched", ops, gradcheck, torch_gradcheck, check_batched_grad=True)


def test_second_derivatives_get_torchs_verdict(capsys):
    ops = [op for op in OPS if op.supports_gradgrad][::9]
    quiet_compare(capsys, "second derivatives", ops, gradgradcheck, torch_gradgradcheck)
