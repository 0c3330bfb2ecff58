"""What a Tensor does and refuses to do. The rules themselves are in test_rules.py and test_reference.py."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcheck_widget import Tensor, gradcheck, gradgradcheck
from gradcheck_widget.tensor import CONSTANT, grad
from gradcheck_widget.tensor.core import _name


def leaf(*values: float) -> Tensor:
    return Tensor(np.array(values), requires_grad=True)


def derivative(y: Any, x: Tensor, *, create_graph: bool = False) -> Any:
    return grad([y], [x], [np.ones(y.shape, y.dtype)], create_graph=create_graph)[0]


# -- making one -----------------------------------------------------------------------------------------------
def test_a_tensor_shares_memory_with_the_callers_array() -> None:
    """gradcheck perturbs the caller's own array: a copy would hide what a closure sees."""
    x = np.arange(3.0)
    t = Tensor(x, requires_grad=True)
    assert t.data is x
    x[0] = 7.0
    assert t.item(0) == 7.0


def test_a_conversion_does_not_touch_the_callers_array() -> None:
    x = np.arange(3.0, dtype=np.float32)
    t = Tensor(x, dtype=np.float64)
    assert t.dtype == np.float64
    assert not np.shares_memory(t.data, x)


@pytest.mark.parametrize("values", [[1, 2], [True, False], ["a"], [None]], ids=["int", "bool", "str", "object"])
def test_requires_grad_is_refused_where_no_derivative_exists(values: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"needs a floating point or complex dtype, got .*dtype=np.float64"):
        Tensor(values, requires_grad=True)


def test_integers_can_be_converted_on_the_way_in() -> None:
    assert Tensor([1, 2], requires_grad=True, dtype=np.float64).requires_grad


def test_a_tensor_of_a_tensor_is_a_new_leaf_on_the_same_memory() -> None:
    x = leaf(1.0, 2.0)
    y = Tensor(x * 1.0, requires_grad=True)
    assert derivative(np.sum(y * y), y).data.tolist() == [2.0, 4.0]
    assert derivative(np.sum(y * y), x) is None
    assert np.shares_memory(Tensor(x).data, x.data)
    assert not Tensor(x).requires_grad


def test_a_list_of_tensors_is_not_silently_turned_into_an_array() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(TypeError, match="lose its gradient"):
        Tensor([x[0], x[1]])


# -- leaving the graph ----------------------------------------------------------------------------------------
def test_detach_keeps_the_memory_and_drops_the_gradient() -> None:
    x = leaf(1.0, 2.0)
    assert not x.detach().requires_grad
    assert x.detach().data is x.data
    assert derivative(np.sum(x * x.detach()), x).data.tolist() == [1.0, 2.0]


def test_item_and_tolist_give_python_numbers() -> None:
    assert type(leaf(1.5).item()) is float
    assert leaf(1.0, 2.5).item(1) == 2.5
    assert leaf(1.0, 2.5).tolist() == [1.0, 2.5]


@pytest.mark.parametrize(
    "lose",
    [
        np.asarray,
        np.array,
        lambda x: np.asarray([x[0], x[1]]),
        lambda x: np.array([[x, x]]),
        lambda x: x.numpy(),
        lambda x: float(x[0]),
        lambda x: complex(x[0]),
        lambda x: np.full(3, x[0]),
    ],
    ids=["asarray", "array", "asarray-list", "array-nested", "numpy", "float", "complex", "full"],
)
def test_a_gradient_is_never_lost_by_a_silent_conversion(lose: Callable[[Tensor], Any]) -> None:
    with pytest.raises(TypeError, match=r"Tensor that requires grad into a plain array and lose its gradient.*x\.data"):
        lose(leaf(1.0, 2.0))


def test_a_tensor_without_gradient_converts_as_an_array_does() -> None:
    x = Tensor([1.0, 2.0])
    assert np.shares_memory(np.asarray(x), x.data)
    assert np.shares_memory(x.numpy(), x.data)
    assert not np.shares_memory(np.array(x), x.data)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert float(Tensor(2.5)) == 2.5
    assert complex(Tensor(2.5)) == 2.5
    assert int(Tensor(2.5)) == 2


@pytest.mark.parametrize("index", [slice(0, 1), [0], np.array([True, False])], ids=["slice", "list", "mask"])
def test_assigning_a_tensor_into_an_array_is_refused(index: Any) -> None:
    a = np.zeros(2)
    with pytest.raises(TypeError, match=r"lose its gradient.*np\.stack.*instead of assigning into an array"):
        a[index] = leaf(1.0)
    assert a.tolist() == [0.0, 0.0]


def test_assigning_a_tensor_to_one_element_is_refused() -> None:
    """NumPy puts its own ValueError on top; ours is its cause, and shown with it."""
    a = np.zeros(2)
    with pytest.raises(ValueError) as caught:
        a[0] = leaf(1.0)[0]
    assert "instead of assigning into an array" in str(caught.value.__cause__)
    assert a.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda a, x: a.__iadd__(x),
        lambda a, x: a.__imul__(x),
        lambda a, x: np.add(a, x, out=a),
        lambda a, x: np.sum(x, out=a[0]),
        lambda a, x: np.take(x, [0, 1], out=a),
        lambda a, x: np.concatenate([x, x], out=np.zeros(4)),
        lambda a, x: np.clip(x, 0, 1, out=a),
    ],
    ids=["iadd", "imul", "ufunc", "sum", "take", "concatenate", "clip"],
)
def test_writing_results_into_an_array_is_refused_with_a_way_out(write: Callable[..., Any]) -> None:
    a = np.full(2, 5.0)
    with pytest.raises(TypeError, match=r"^np\.\w+ with out=.*records nothing; use the result instead"):
        write(a, leaf(1.0, 2.0))
    assert a.tolist() == [5.0, 5.0]


def test_out_none_is_no_out() -> None:
    x = leaf(1.0, 2.0)
    assert np.sum(x, out=None).item() == 3.0
    assert np.add(x, 1.0, out=None).data.tolist() == [2.0, 3.0]


def test_item_assignment_is_refused_with_a_way_out() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(TypeError, match=r"does not support item assignment.*np\.where"):
        x[0] = 3.0
    assert x.data.tolist() == [1.0, 2.0]


def test_in_place_operators_rebind_and_leave_the_input_alone() -> None:
    x = leaf(1.0, 2.0)
    y = x
    y /= 2
    assert y is not x
    assert x.data.tolist() == [1.0, 2.0]
    assert derivative(np.sum(y), x).data.tolist() == [0.5, 0.5]


# -- functions without a rule ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda x: np.interp(0.5, [0.0, 1.0], x), "np.interp"),
        (lambda x: np.fft.fft(x), "np.fft.fft"),
        (lambda x: np.linalg.svd(x * x[:, None]), "np.linalg.svd"),
        (lambda x: np.quantile(x, 0.5), "np.quantile"),
        (lambda x: np.polyval([1.0, 2.0], np.polyfit(x, x, 1)), "np.polyfit"),
        (lambda x: np.nextafter(x, 1.0), "np.nextafter"),
        (lambda x: np.modf(x), "np.modf"),
        (lambda x: np.ldexp(1.5, x.astype(int)) * np.spacing(1.0) + np.frexp(x)[0], "np.frexp"),
        (lambda x: np.subtract.reduce(x), "np.subtract.reduce"),
        (lambda x: np.add.reduceat(x, [0, 1]), "np.add.reduceat"),
        (lambda x: np.add.at(np.zeros(2), [0, 1], x), "np.add.at"),
        (lambda x: np.add(x, 1.0, where=np.array([True, False])), r"np.add with where="),
        (lambda x: np.sum(x, where=np.array([True, False])), r"np.sum with these arguments \(.*'where'\)"),
        (lambda x: x.mean(dtype=np.float32), r"np.mean with these arguments \(.*'dtype'\)"),
        (lambda x: np.copyto(np.zeros(2), x), "np.copyto"),
        (lambda x: np.putmask(np.zeros(2), [True, False], x), "np.putmask"),
        (lambda x: np.linalg.norm(x, 0), "np.linalg.norm with ord=0"),
        (lambda x: np.linalg.norm(x * x[:, None], "nuc"), "np.linalg.norm with ord='nuc'"),
        (lambda x: np.pad(x, 1, mode="linear_ramp"), "np.pad with mode='linear_ramp'"),
        (lambda x: np.pad(x, 1, constant_values=x[0]), "np.pad with a Tensor as constant_values"),
        (lambda x: np.median(x * 1j), "np.median of complex values"),
    ],
)
def test_a_function_without_a_rule_is_refused_by_name(call: Callable[[Tensor], Any], name: str) -> None:
    with pytest.raises(NotImplementedError, match=rf"^{name}.*\bhas no derivative rule\b"):
        call(leaf(1.0, 2.0))


def test_the_refusal_tells_the_ways_out() -> None:
    with pytest.raises(NotImplementedError, match=r"np\.interp .*Ways out:.*Function.*from_backward"):
        np.interp(0.5, [0.0, 1.0], leaf(1.0, 2.0))


def test_a_foreign_ufunc_is_refused_by_name() -> None:
    special = pytest.importorskip("scipy.special")
    with pytest.raises(NotImplementedError, match="the ufunc erf"):
        special.erf(leaf(1.0))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: np.reshape(x, (3, 5)), ValueError),
        (lambda x: np.sum(x, axis=4), ValueError),
        (lambda x: x @ np.ones(7), ValueError),
        (lambda x: x[9], IndexError),
        (lambda x: x[1.5], IndexError),
        (lambda x: np.stack([x, np.ones(3)]), ValueError),
        (lambda x: np.diff(x, n=-1), ValueError),
        (lambda x: np.diag(x[0]), ValueError),
        (lambda x: np.einsum("ij->i", x), ValueError),
        (lambda x: np.einsum("i,i->", x), ValueError),
        (lambda x: np.einsum("...i->i", x[None]), ValueError),
        (lambda x: np.average(x, axis=0, weights=[1.0, 2.0, 3.0]), ValueError),
        (lambda x: np.linalg.inv(np.zeros((2, 2)) * x), np.linalg.LinAlgError),
        (lambda x: np.linalg.norm(x, "fro"), ValueError),
        (lambda x: np.linalg.norm(x[None, None], 1), ValueError),
        (lambda x: x.sum(axis="0"), TypeError),
        (lambda x: len(x[0]), TypeError),
        (lambda x: iter(x[0]), TypeError),
        (lambda x: bool(x), ValueError),
    ],
)
def test_wrong_arguments_fail_as_they_do_in_numpy(call: Callable[[Any], Any], error: type[Exception]) -> None:
    """Not with NotImplementedError, which would send the user to write a derivative."""
    for x in (leaf(1.0, 2.0), np.array([1.0, 2.0])):
        with pytest.raises(error):
            call(x)


# -- constants: plain arrays out --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "compare",
    [
        lambda x: x > 1.5,
        lambda x: x >= 2.0,
        lambda x: x < np.array([0.0, 5.0]),
        lambda x: x <= x,
        lambda x: x == 1.0,
        lambda x: x != 1.0,
        lambda x: np.float64(1.5) < x,
        lambda x: np.array([0.0, 5.0]) > x,
        lambda x: np.isnan(x),
        lambda x: np.logical_and(x, x > 1),
        lambda x: np.logical_and.reduce(x),
        lambda x: np.greater.outer(x, x),
        lambda x: np.argsort(x),
        lambda x: x.argmax(),
        lambda x: np.sign(x) > 0,
        lambda x: np.floor(x),
        lambda x: x // 0.3,
        lambda x: 7 // x,
        lambda x: np.round(x, 1),
        lambda x: x.round(1),
        lambda x: np.zeros_like(x),
        lambda x: np.full_like(x, 3.0),
        lambda x: np.nonzero(x)[0],
        lambda x: x.nonzero()[0],
        lambda x: np.searchsorted(x, 1.5),
        lambda x: np.any(x > 1),
        lambda x: x.all(),
        lambda x: np.allclose(x, x),
        lambda x: x.astype(np.int64),
    ],
)
def test_what_has_no_derivative_is_a_plain_array_equal_to_numpys(compare: Callable[[Any], Any]) -> None:
    x = np.array([1.0, 2.0])
    got, want = compare(Tensor(x, requires_grad=True)), compare(x)
    assert not isinstance(got, Tensor)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    assert np.array_equal(got, want)


def test_shapes_and_dtypes_are_asked_for_without_a_detour() -> None:
    x = Tensor(np.zeros((2, 3), np.float32), requires_grad=True)
    assert (x.shape, x.ndim, x.size, len(x)) == ((2, 3), 2, 6, 2)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 3), 2, 6)
    assert np.result_type(x, np.float64) == np.float64
    assert not np.iscomplexobj(x)


def test_constant_functions_and_rules_do_not_overlap() -> None:
    """A function in both would give a gradient or none, depending on who asks first."""
    from gradcheck_widget.tensor import HANDLERS, RULES

    assert {_name(f) for f in CONSTANT & (HANDLERS.keys() | RULES.keys())} == set()


# -- being an object --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("x", "text"),
    [
        (leaf(1.0, 2.5), "Tensor([1. , 2.5], requires_grad=True)"),
        (Tensor(1.5), "Tensor(1.5)"),
        (Tensor([1.0], dtype=np.float32), "Tensor([1.], dtype=float32)"),
        (Tensor([1 + 2j]), "Tensor([1.+2.j])"),
        (Tensor([1, 2]), "Tensor([1, 2], dtype=int64)"),
        (Tensor(np.zeros((0, 3))), "Tensor([])"),
    ],
)
def test_repr_shows_values_dtype_and_gradient(x: Tensor, text: str) -> None:
    assert repr(x) == text


def test_repr_of_a_large_tensor_stays_short() -> None:
    assert len(repr(Tensor(np.zeros((1000, 1000)), requires_grad=True))) < 1000


def test_a_loss_can_be_printed_with_a_format() -> None:
    assert f"{leaf(1.0, 2.0).sum():.2f}" == "3.00"
    assert f"{leaf(1.5)}" == "Tensor([1.5], requires_grad=True)"


def test_tensors_are_hashed_by_identity() -> None:
    x, y = leaf(1.0), leaf(1.0)
    assert {x: "x", y: "y"}[x] == "x"
    assert len({x, y, x}) == 2


def test_truth_of_one_element_is_that_of_numpy() -> None:
    assert bool(leaf(1.0))
    assert not Tensor(0.0)


def test_iteration_and_unpacking_keep_the_gradient() -> None:
    x = leaf(2.0, 3.0)
    a, b = x
    assert derivative(a * b, x).data.tolist() == [3.0, 2.0]
    assert [v.item() for v in x] == [2.0, 3.0]


def test_membership_compares_values() -> None:
    assert 2.0 in leaf(1.0, 2.0)
    assert 5.0 not in leaf(1.0, 2.0)


def test_a_copied_tensor_is_independent() -> None:
    x = leaf(1.0, 2.0)
    y = copy.deepcopy(x)
    y.data[0] = 9.0
    assert x.data.tolist() == [1.0, 2.0]
    assert derivative(np.sum(y), x) is None


def test_an_object_that_declines_ufuncs_takes_over() -> None:
    """``__array_ufunc__ = None`` is how a class says that its own operators are to be used."""

    class Other:
        __array_ufunc__ = None

        def __radd__(self, other: Any) -> str:
            return "mine"

        def __rpow__(self, other: Any) -> str:
            return "mine"

    x = leaf(1.0)
    assert x + Other() == "mine"
    assert x ** Other() == "mine"


# -- dtypes -----------------------------------------------------------------------------------------------------
DTYPES = [np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.clongdouble]


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_gradients_keep_the_dtype_of_the_input(dtype: Any) -> None:
    x = Tensor(np.array([0.5, 1.5]), requires_grad=True, dtype=dtype)
    y = np.sum(np.exp(x) * 2 + x / 3 - x**2)
    assert y.dtype == dtype
    assert derivative(y, x).dtype == dtype
    graph = derivative(y, x, create_graph=True)
    assert graph.dtype == dtype
    assert derivative(np.sum(graph), x).dtype == dtype


def test_longdouble_derivatives_are_better_than_double() -> None:
    if np.finfo(np.longdouble).eps == np.finfo(float).eps:
        pytest.skip("longdouble is double here")
    x = Tensor(np.array([0.5]), requires_grad=True, dtype=np.longdouble)
    error = derivative(np.sin(x) * np.exp(x), x).data - (np.sin(x.data) + np.cos(x.data)) * np.exp(x.data)
    assert abs(error[0]) < 1e-18


def test_each_of_two_dtypes_gets_its_own_gradient_back() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True, dtype=np.float32)
    z = Tensor([1.0 + 1j, 2.0], requires_grad=True)
    y = x * z
    assert y.dtype == np.complex128
    gx, gz = grad([y], [x, z], [np.array([1.0, 1j])])
    assert gx is not None and gz is not None
    assert (gx.dtype, gz.dtype) == (np.float32, np.complex128)
    assert gx.data.tolist() == [1.0, 0.0]  # Re(g conj(z))
    assert gz.data.tolist() == [1.0, 2j]


def test_a_gradient_passes_through_a_change_of_precision() -> None:
    x = leaf(1.0, 2.0)
    y = np.sum((x.astype(np.float32) ** 2).astype(np.complex128, copy=False))
    assert derivative(y, x).data.tolist() == [2.0, 4.0]
    assert derivative(y, x).dtype == np.float64


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_the_real_part_taken_by_astype_is_differentiated_as_such() -> None:
    z = Tensor([1.0 + 2j], requires_grad=True)
    assert derivative(z.astype(np.float64) ** 2, z).data.tolist() == [2.0]


# -- grad -------------------------------------------------------------------------------------------------------
def test_third_derivative_of_sin() -> None:
    x = leaf(0.3, 1.2)
    y = np.sin(x)
    for expected in (np.cos, lambda t: -np.sin(t), lambda t: -np.cos(t), np.sin):
        y = derivative(y, x, create_graph=True)
        np.testing.assert_allclose(y.data, expected(x.data), rtol=1e-14)


def test_without_create_graph_the_gradient_is_a_constant() -> None:
    x = leaf(0.3)
    assert not derivative(x**2, x).requires_grad
    assert derivative(x**2, x, create_graph=True).requires_grad


def test_create_graph_gives_tensors_even_where_the_gradient_is_constant() -> None:
    x = Tensor(np.diag([1.0, 2.0]), requires_grad=True)
    sign, _ = np.linalg.slogdet(x)
    g = derivative(sign, x, create_graph=True)
    assert isinstance(g, Tensor)
    assert g.data.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_gradients_of_inputs_that_are_not_leaves() -> None:
    x = leaf(0.5)
    y = x**2
    z = np.sin(y) * x
    gx, gy, gz = grad([z], [x, y, z], [np.ones(1)])
    assert gx is not None and gy is not None and gz is not None
    t = x.data
    np.testing.assert_allclose(gx.data, np.cos(t**2) * 2 * t * t + np.sin(t**2))
    np.testing.assert_allclose(gy.data, np.cos(t**2) * t)
    assert gz.data.tolist() == [1.0]


def test_an_input_used_twice_gets_the_sum() -> None:
    x = leaf(2.0, 3.0)
    assert derivative(x * x + x, x).data.tolist() == [5.0, 7.0]
    assert derivative(np.concatenate([x, x]), x).data.tolist() == [2.0, 2.0]


def test_an_input_given_twice_gets_its_gradient_twice() -> None:
    x = leaf(2.0)
    first, second = grad([x * x], [x, x], [np.ones(1)])
    assert first is not None and second is not None
    assert first.item() == second.item() == 4.0


def test_an_unused_input_has_no_gradient() -> None:
    x, unused = leaf(2.0), leaf(1.0)
    g, none = grad([x * 2], [x, unused], [np.ones(1)])
    assert g is not None and g.item() == 2.0
    assert none is None
    assert grad([x * 2], [Tensor(1.0)], [np.ones(1)]) == [None]


def test_a_piece_cut_out_by_a_constant_function_has_no_gradient() -> None:
    x = leaf(2.6)
    assert derivative(x * np.floor(x), x).item() == 2.0


def test_several_outputs_are_weighed_by_their_cotangents() -> None:
    x = leaf(1.0, 2.0)
    (g,) = grad([x * 3, np.sum(x), Tensor(5.0)], [x], [np.array([1.0, 10.0]), np.array(100.0), np.array(7.0)])
    assert g is not None and g.data.tolist() == [103.0, 130.0]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("grad_outputs", [[np.ones(3)], [1.0], [], [np.ones(2), np.ones(2)]])
def test_grad_outputs_of_a_wrong_shape_are_refused(grad_outputs: list[Any], create_graph: bool) -> None:
    """NumPy would broadcast them, and the gradient would be a wrong number."""
    x = leaf(1.0, 2.0)
    with pytest.raises(ValueError, match=r"grad_outputs must be .*expected \[\(2,\)\], got"):
        grad([x * 2], [x], grad_outputs, create_graph=create_graph)


def test_a_gradient_can_be_asked_for_many_times() -> None:
    x = leaf(1.0, 2.0)
    y = np.prod(x) * x
    assert [derivative(y, x).data.tolist() for _ in range(3)] == [[8.0, 5.0]] * 3


def test_only_the_way_to_the_inputs_is_walked() -> None:
    """A rule that would fail is not run for a branch that no asked-for input is on."""
    x, other = leaf(1.0), leaf(0.0)
    with np.errstate(all="raise"):
        assert derivative(x * 2 + np.sqrt(other), x).item() == 2.0


def test_a_long_chain_needs_no_recursion() -> None:
    code = (
        "import numpy as np\nfrom gradcheck_widget import Tensor\nfrom gradcheck_widget.tensor import grad\n"
        "x = y = Tensor(1.0, requires_grad=True)\n"
        "for _ in range(50_000): y = y + 1.0\n"
        "print(grad([y], [x], [1.0])[0].item())\ndel y, x\nprint('freed')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["1.0", "freed"], done.stderr


def test_the_callers_array_is_not_written_into_by_a_backward_pass() -> None:
    x = leaf(1.0, 2.0)
    cotangent = np.ones(2)
    before = x.data.copy()
    grad([x + x[::-1] * x], [x], [cotangent])
    assert cotangent.tolist() == [1.0, 1.0]
    assert np.array_equal(x.data, before)


def test_numpys_error_state_is_left_alone() -> None:
    before = np.geterr()
    derivative(np.linalg.norm(leaf(0.0, 0.0)), leaf(1.0))
    assert np.geterr() == before


# -- derivatives that are easily lost ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("values", "expected"),
    [([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]), ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0]), ([0.0], [1.0])],
)
def test_prod_with_zero_factors_keeps_its_gradient(values: list[float], expected: list[float]) -> None:
    x = leaf(*values)
    assert derivative(np.prod(x), x).data.tolist() == expected


def test_cumprod_with_a_zero_keeps_its_gradient() -> None:
    x = leaf(2.0, 0.0, 3.0)
    assert derivative(np.cumprod(x), x).data.tolist() == [1.0, 8.0, 0.0]


def test_repeated_indices_add_up() -> None:
    x = leaf(1.0, 2.0)
    assert derivative(x[[0, 0, 1, 0]], x).data.tolist() == [3.0, 1.0]
    assert derivative(np.take(x, [1, 1]), x).data.tolist() == [0.0, 2.0]


def test_ties_of_max_share_the_gradient() -> None:
    x = leaf(3.0, 1.0, 3.0)
    assert derivative(np.max(x), x).data.tolist() == [0.5, 0.0, 0.5]
    assert derivative(np.maximum(x, 3.0), x).data.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(
    "f",
    [np.abs, np.linalg.norm, np.std, lambda x: np.linalg.norm(x, 3), lambda x: np.hypot(x, 0.0)],
    ids=["abs", "norm", "std", "norm-3", "hypot"],
)
@pytest.mark.filterwarnings("error")
def test_at_the_tip_of_a_cone_the_gradient_is_zero_not_nan(f: Callable[[Tensor], Tensor]) -> None:
    """One zero vector in a batch would spoil the gradient of all."""
    x = leaf(0.0, 0.0)
    assert derivative(f(x), x).data.tolist() == [0.0, 0.0]


@pytest.mark.filterwarnings("error")
def test_power_at_a_zero_base_has_finite_derivatives() -> None:
    x, p = leaf(0.0, 2.0), leaf(2.0, 2.0)
    gx, gp = grad([x**p], [x, p], [np.ones(2)])
    assert gx is not None and gp is not None
    assert gx.data.tolist() == [0.0, 4.0]
    np.testing.assert_allclose(gp.data, [0.0, 4 * np.log(2)])


def test_det_of_a_numerically_singular_matrix_keeps_both_derivatives() -> None:
    """Rounding leaves 7e-18 of det = 0, and an inverse of 1e16 in which second derivatives cancel to noise."""
    x = Tensor(np.arange(1.0, 10.0).reshape(3, 3) / 10, requires_grad=True)
    cofactors = derivative(np.linalg.det(x), x, create_graph=True)
    expected = [[-0.03, 0.06, -0.03], [0.06, -0.12, 0.06], [-0.03, 0.06, -0.03]]
    np.testing.assert_allclose(cofactors.data, expected, rtol=1e-12)
    second = derivative(cofactors[0, 0], x)  # of x11 x22 - x12 x21
    np.testing.assert_allclose(second.data, np.array([[0, 0, 0], [0, 0.9, -0.8], [0, -0.6, 0.5]]), atol=1e-12)


@pytest.mark.parametrize("ddof", [1, 2])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_var_with_too_few_values_is_nan_as_in_numpy_and_does_not_raise(ddof: int) -> None:
    x = leaf(2.0)
    assert np.isnan(derivative(np.var(x, ddof=ddof), x).item())


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_nan_among_the_values_reaches_the_median_as_in_numpy() -> None:
    x = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    got = np.median(Tensor(x, requires_grad=True), axis=1)
    assert np.array_equal(got.data, np.median(x, axis=1), equal_nan=True)


@pytest.mark.parametrize(
    "x",
    [[1.0, np.nan, np.inf], [1 + 1j, complex(np.nan, 2.0), complex(2.0, np.inf)]],
    ids=["real", "complex"],
)
def test_nan_to_num_passes_the_gradient_of_finite_parts_alone(x: list[Any]) -> None:
    t = Tensor(x, requires_grad=True)
    g = np.array([1 + 1j] * 3) if t.dtype.kind == "c" else np.ones(3)
    expected = [1 + 1j, 1j, 1.0] if t.dtype.kind == "c" else [1.0, 0.0, 0.0]
    y: Any = np.nan_to_num(t)
    (got,) = grad([y], [t], [g])
    assert got is not None and got.data.tolist() == expected


def test_full_like_of_a_tensor_keeps_its_gradient() -> None:
    x, fill = leaf(1.0, 2.0), leaf(3.0)
    assert derivative(np.full_like(x, fill), fill).data.tolist() == [2.0]


def test_a_rearrangement_finds_its_array_wherever_it_stands() -> None:
    x = leaf(1.0, 2.0, 3.0)
    assert derivative(np.compress([True, False, True], x), x).data.tolist() == [1.0, 0.0, 1.0]
    assert derivative(np.roll(shift=1, a=x) * np.arange(3), x).data.tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("call", [np.take, np.repeat, np.delete])
def test_a_tensor_of_floats_is_no_index(call: Callable[..., Any]) -> None:
    with pytest.raises((TypeError, IndexError)):
        call(np.arange(3.0), leaf(1.0))
    with pytest.raises((TypeError, IndexError)):
        call(leaf(1.0, 2.0), leaf(1.0))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_mean_of_nothing_has_an_empty_gradient_and_poisons_no_other() -> None:
    x, y = Tensor(np.zeros((0, 3)), requires_grad=True), leaf(2.0)
    weight = y * 1.0
    gx = derivative(np.mean(x) * weight, x, create_graph=True)
    assert gx.shape == (0, 3)
    assert derivative(np.sum(gx), y).data.tolist() == [0.0]


def test_integer_tensors_serve_as_indices() -> None:
    x, i = leaf(1.0, 2.0, 3.0), Tensor([2, 2, 0])
    assert x[i].data.tolist() == [3.0, 3.0, 1.0]
    assert derivative(x[i], x).data.tolist() == [1.0, 0.0, 2.0]
    assert derivative(x[i,], x, create_graph=True).data.tolist() == [1.0, 0.0, 2.0]
    assert derivative(x[Tensor([True, False, False])], x).data.tolist() == [1.0, 0.0, 0.0]


def test_where_with_a_condition_of_any_kind() -> None:
    x = leaf(1.0, 2.0)
    for condition in ([True, False], np.array([1, 0]), Tensor([True, False]), np.array([True, True, False])[::2]):
        assert derivative(np.where(condition, x, 0.0), x).data.tolist() == [1.0, 0.0]


def test_values_of_tensors_without_gradient_are_numpys_for_functions_without_rules_too() -> None:
    x = Tensor([0.5, 2.0])
    assert isinstance(np.quantile(x, 0.3), Tensor)
    assert np.quantile(x, 0.3).item() == np.quantile(x.data, 0.3)
    assert np.subtract.reduce(x).item() == -1.5
    fraction, whole = np.modf(x)
    assert isinstance(fraction, Tensor)
    assert whole.data.tolist() == [0.0, 2.0]


# -- whole functions --------------------------------------------------------------------------------------------
def softmax_cross_entropy(x: Any, w: Any, b: Any) -> Any:
    logits = np.tanh(x @ w + b)
    shifted = logits - np.max(logits, axis=1, keepdims=True)
    log_probability = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.mean(log_probability[np.arange(4), [0, 2, 1, 1]])


def layer_norm(x: Any, w: Any, b: Any) -> Any:
    y = x @ w
    return (y - y.mean(axis=1, keepdims=True)) / np.sqrt(y.var(axis=1, keepdims=True) + 1e-5) * b


def attention(x: Any, w: Any, b: Any) -> Any:
    q = (x @ w).reshape(2, 2, 3)
    scores = np.einsum("hid,hjd->hij", q, q) / np.sqrt(3)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ q + b


def convolution(x: Any, w: Any, b: Any) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1), (2, 3))
    return np.einsum("ijkl,kl->ij", windows, w) + b[0]


@pytest.mark.parametrize("f", [softmax_cross_entropy, layer_norm, attention, convolution])
def test_what_users_check_passes_to_second_order(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    inputs = (rng.standard_normal((4, 2)), rng.standard_normal((2, 3)), rng.standard_normal(3))
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)
