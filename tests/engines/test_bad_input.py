"""What a stuck user reads: each refusal names the input or the output, and the rule."""

from __future__ import annotations

import subprocess
import sys

import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorplay
import torch

from gradcheck_widget import GradcheckError, Tensor, gradcheck

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def double_precision():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def play(values):
    return tensorplay.tensor(np.asarray(values).tolist(), dtype=tensorplay.float64, requires_grad=True)


# engine: (how to make a checked tensor, sin, keyword arguments, how to make one that is not checked)
ENGINES = {
    "numpy": (np.array, np.sin, {}, lambda v: Tensor(v)),
    "Tensor": (lambda v: Tensor(np.array(v), requires_grad=True), np.sin, {}, lambda v: Tensor(v)),
    "torch": (lambda v: torch.tensor(v, dtype=torch.float64, requires_grad=True), torch.sin, {},
              lambda v: torch.tensor(v, dtype=torch.float64)),
    "jax": (lambda v: jnp.array(v), jnp.sin, {}, lambda v: jnp.array(v, int)),
    "tensorplay": (play, tensorplay.sin, {}, lambda v: play(v).detach()),
    "autograd": (np.array, anp.sin, {"engine": "autograd"}, lambda v: np.array(v, int)),
}  # fmt: skip
EVERY = pytest.mark.parametrize("name", ENGINES)


@EVERY
def test_nothing_to_check_says_what_the_inputs_are_and_what_to_do(name):
    _, sin, flags, still = ENGINES[name]
    with pytest.raises(ValueError, match=r"expects at least one input tensor to require gradient.*input 0 is"):
        gradcheck(sin, still([1.0, 2.0]), **flags)


@EVERY
@pytest.mark.parametrize("result", [None, "text", [None], {"loss": "text"}], ids=repr)
def test_a_function_that_returns_no_tensor_is_told_which_output_it_is(name, result):
    make, sin, flags, _ = ENGINES[name]

    def func(x):
        sin(x)
        return result

    with pytest.raises(TypeError, match=r"func returned (NoneType|str|dict|list).* output"):
        gradcheck(func, make([1.0, 2.0]), **flags)


@EVERY
@pytest.mark.parametrize("change", ["shape", "number"])
def test_outputs_that_change_when_an_input_moves_are_named_with_the_element(name, change):
    make, sin, flags, _ = ENGINES[name]
    calls = iter(range(10**6))

    def func(x):
        y = sin(x)
        if next(calls) < 4:  # the recorded run and the looks at it; then x moves
            return y, y * 2
        return (y, y[0] * 2) if change == "shape" else (y,)

    with pytest.raises(GradcheckError, match=r"(outputs with the same shape and dtype|it must return the same)"):
        gradcheck(func, make([1.0, 2.0, 3.0]), **flags)


@pytest.mark.parametrize(
    "pair",
    [("Tensor", "torch"), ("torch", "jax"), ("jax", "tensorplay"), ("Tensor", "jax"), ("torch", "tensorplay")],
    ids="+".join,
)
def test_tensors_of_two_frameworks_are_refused_and_both_are_named(pair):
    a, b = (ENGINES[name][0]([1.0]) for name in pair)
    with pytest.raises(TypeError, match=r"of one framework, but input 0 is .* and input 1\['b'\] is "):
        gradcheck(lambda x, y: x, (a, {"b": b}))


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(1, dtype=torch.float64).expand(3).requires_grad_(),
        torch.arange(6, dtype=torch.float64).as_strided((4, 2), (1, 1)).requires_grad_(),
        torch.arange(6, dtype=torch.float64).unfold(0, 3, 1).requires_grad_(),
        np.broadcast_to(np.ones(1), (3,)),
        np.lib.stride_tricks.sliding_window_view(np.arange(6.0), 3),
        np.lib.stride_tricks.as_strided(np.arange(6.0), (4, 2), (8, 8)),
    ],
    ids=["torch expand", "torch as_strided", "torch unfold", "stride 0", "windows", "as_strided"],
)
def test_elements_that_share_memory_are_refused_before_func_runs(x):
    ran = []
    with pytest.raises(RuntimeError, match=r"The 0th input has .*stride|The 0th input has elements that share memory"):
        gradcheck(lambda v: ran.append(1), x)
    assert not ran


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_outputs_are_refused_with_the_way_out(layout):
    x = torch.eye(3, dtype=torch.float64).requires_grad_()
    with pytest.raises(ValueError, match=r"Sparse output is not supported.*output 0.*to_dense"):
        gradcheck(lambda v: v.to_sparse(layout=layout), x)


def test_an_engine_of_no_name_lists_those_there_are():
    with pytest.raises(ValueError, match=r"numpy, torch, jax, tensorplay, autograd.*'nope'"):
        gradcheck(np.sin, np.ones(3), engine="nope")


def test_an_engine_that_does_not_know_the_inputs_says_so():
    with pytest.raises(ValueError, match=r"input 0 is .*torch"):
        gradcheck(torch.sin, np.ones(3), engine="torch")


@pytest.mark.parametrize("name", ["torch", "jax", "tensorplay", "autograd"])
def test_an_engine_whose_framework_is_missing_says_what_to_install(name):
    code = f"""
import sys
sys.modules[{name!r}] = None  # importing it raises ImportError
import numpy as np
from gradcheck_widget import gradcheck
try:
    gradcheck(np.sin, np.ones(3), engine={name!r})
except ImportError as error:
    assert {name!r} in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
