"""First derivatives against others' code: HIPS autograd, or complex-step differentiation. No check of ours is used.

autograd's convention for complex numbers is the conjugate of PyTorch's, which is ours: its cotangents and gradients are
conjugated here.
"""

from __future__ import annotations

from typing import Any

import autograd
import autograd.numpy
import numpy as np
import pytest

from gradcheck_widget import Tensor
from gradcheck_widget.tensor import grad

from .cases import CASES, Array, Case, Kind

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Output seems independent of input"),  # of one of several
]


def outputs_of(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def by_autograd(case: Case, inputs: tuple[Array, ...], cotangents: list[Array]) -> tuple[list[Any], list[Array]]:
    formula = case.call if case.reference == "autograd" else case.reference
    assert callable(formula)

    many = isinstance(case(*inputs), tuple | list)

    def output(k: int, *xs: Any) -> Any:
        result = formula(autograd.numpy, *xs)
        return result[k] if many else result

    values: list[Any] = []
    gradients: list[Array] = []
    for i, x in enumerate(inputs):
        total = np.zeros(x.shape, x.dtype)
        for k, g in enumerate(cotangents):
            vjp, value = autograd.make_vjp(lambda *xs, k=k: output(k, *xs), i)(*inputs)
            back = np.conj(vjp(np.conj(g).astype(np.asarray(value).dtype)))
            total = total + (back if np.iscomplexobj(x) else np.real(back))
            if i == 0:
                values.append(value)
        gradients.append(total)
    return values, gradients


def by_complex_step(case: Case, inputs: tuple[Array, ...], cotangents: list[Array]) -> tuple[list[Any], list[Array]]:
    """Im f(x + ih) / h, to rounding."""
    h = 1e-30
    gradients = []
    for i, x in enumerate(inputs):
        found = np.zeros(x.size)
        for j in range(x.size):
            moved = x.astype(complex)
            moved.reshape(-1)[j] += 1j * h
            result = outputs_of(case(*inputs[:i], moved, *inputs[i + 1 :]))
            found[j] = sum(float(np.sum(g * np.imag(o))) / h for g, o in zip(cotangents, result, strict=True))
        gradients.append(found.reshape(x.shape))
    return list(outputs_of(case(*inputs))), gradients


RUNS = [
    pytest.param(c, kind, id=f"{kind}-{c.name}")
    for c in CASES
    for kind in (("real", "complex") if c.complex and c.reference != "step" else ("real",))
]


@pytest.mark.parametrize("create_graph", [False, True], ids=["arrays", "recorded"])
@pytest.mark.parametrize(("case", "kind"), RUNS)
def test_first_derivative_is_that_of_independent_code(case: Case, kind: Kind, create_graph: bool) -> None:
    """A pass on arrays and one that is recorded for second derivatives must both give it."""
    inputs = case.inputs(kind)
    tensors = [Tensor(x, requires_grad=True) for x in inputs]
    outputs = outputs_of(case(*tensors))
    rng = np.random.default_rng(1)
    cotangents = [
        np.asarray(rng.standard_normal(o.shape) + (1j * rng.standard_normal(o.shape) if o.dtype.kind == "c" else 0))
        for o in outputs
    ]
    reference = by_complex_step if case.reference == "step" else by_autograd
    values, expected = reference(case, inputs, cotangents)
    for o, value in zip(outputs, values, strict=True):
        np.testing.assert_allclose(
            o.data, value, rtol=1e-9, atol=1e-12, err_msg="the reference computes something else"
        )
    gradients = grad(outputs, tensors, cotangents, create_graph=create_graph)
    for got, want in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(0 * want if got is None else got.data, want, rtol=1e-8, atol=1e-11)
