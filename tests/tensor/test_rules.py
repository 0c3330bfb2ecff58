"""Every rule of the embedded engine against central differences, to second order, and every value against NumPy's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradcheck_widget import Tensor, gradcheck, gradgradcheck
from gradcheck_widget.tensor import core, grad

from .cases import CASES, Case, Kind

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # 1/0 and log(0) on the sides np.where discards


def runs(second: bool = False) -> list[Any]:
    return [pytest.param(c, kind, id=f"{kind}-{c.name}") for c in CASES if c.second or not second for kind in c.kinds]


def outputs_of(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


@pytest.mark.parametrize(("case", "kind"), runs())
def test_first_derivative(case: Case, kind: Kind) -> None:
    assert gradcheck(case, case.inputs(kind))


@pytest.mark.parametrize(("case", "kind"), runs(second=True))
def test_second_derivative(case: Case, kind: Kind) -> None:
    assert gradgradcheck(case, case.inputs(kind))


@pytest.mark.parametrize(("case", "kind"), runs())
def test_value_is_numpys_to_the_bit(case: Case, kind: Kind) -> None:
    """Recorded or not: a rounding of its own would make every evaluation of the checker slow."""
    arrays = case.inputs(kind)
    expected = outputs_of(case(*arrays))
    for requires_grad in (True, False):
        result = outputs_of(case(*(Tensor(a, requires_grad=requires_grad) for a in arrays)))
        assert len(result) == len(expected)
        for got, want in zip(result, expected, strict=True):
            assert isinstance(got, Tensor)
            assert got.requires_grad == requires_grad
            assert (got.shape, got.dtype) == (np.shape(want), want.dtype)
            assert got.data.tobytes() == np.asarray(want).tobytes()


@pytest.mark.parametrize("case", CASES, ids=[c.name for c in CASES])
def test_single_precision_is_kept_as_numpy_keeps_it(case: Case) -> None:
    """Dtype of the value as NumPy has it; of the gradient, that of the input."""
    precision: Any = {"real": np.float32, "complex": np.complex64}
    for kind in case.kinds[:2]:
        _single(case, [a.astype(precision[kind]) for a in case.inputs(kind)])


def _single(case: Case, arrays: list[Any]) -> None:
    expected = outputs_of(case(*arrays))
    tensors = [Tensor(a, requires_grad=True) for a in arrays]
    result = outputs_of(case(*tensors))
    assert [o.dtype for o in result] == [np.asarray(o).dtype for o in expected]
    gradients = grad(result, tensors, [np.ones(o.shape, o.dtype) for o in result])
    assert [g.dtype for g in gradients if g is not None] == [a.dtype for a in arrays]


# -- the table is complete ------------------------------------------------------------------------------------
class Spy(dict[Any, Any]):
    """A dict that remembers which of its values were asked for."""

    def __init__(self, of: dict[Any, Any]) -> None:
        super().__init__(of)
        self.used: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        self.used.add(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.used.add(key)
        return super().get(key, default)


@pytest.fixture(scope="module")
def exercised() -> Iterator[set[str]]:
    """What is registered but used by no case, after the forward and backward passes of all of them."""
    rules = {primitive: Spy(of) for primitive, of in core.RULES.items()}
    variadic, handlers = Spy(core.VARIADIC), Spy(core.HANDLERS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "VARIADIC", variadic)
        patch.setattr(core, "HANDLERS", handlers)
        for primitive, spy in rules.items():
            patch.setitem(core.RULES, primitive, spy)
        for case in CASES:
            tensors = [Tensor(a, requires_grad=True) for a in case.inputs(case.kinds[-1])]
            result = outputs_of(case(*tensors))
            ones = [Tensor(np.ones(o.shape, o.dtype), requires_grad=True) for o in result]
            first = [g for g in grad(result, tensors, ones, create_graph=True) if g is not None]
            grad(first, [*tensors, *ones], [np.ones(g.shape, g.dtype) for g in first])
    name = core._name
    yield (
        {f"argument {k} of {name(p)}" for p, spy in rules.items() for k in spy.keys() - spy.used}
        | {name(p) for p in variadic.keys() - variadic.used}
        | {name(f) for f in handlers.keys() - handlers.used}
    )


def test_no_registered_function_is_missing_from_the_table(exercised: set[str]) -> None:
    assert exercised == set()
