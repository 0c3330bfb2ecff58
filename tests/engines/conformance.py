"""What every engine must do, as one class of tests: subclass `Conformance` with an `Adapter` for a new engine.

The suite knows a framework by its `Adapter` alone: how to make a tensor, a few operations, and how to write a
derivative by hand, since only derivatives that are known to be wrong tell whether the checker sees them.

    class TestMine(Conformance):
        make = staticmethod(lambda: Adapter(engine=MyEngine(), name="mine", ...))
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from gradcheck_widget import GradcheckError, GradcheckWidget, gradcheck, gradcheck_report, gradgradcheck
from gradcheck_widget.engines import Engine, find_engine
from gradcheck_widget.engines.base import Evaluator
from gradcheck_widget.jacobians import Template, drain, numerical_columns

FLAGS = {
    "check_forward_ad": {"check_forward_ad": True},
    "check_batched_grad": {"check_batched_grad": True},
    "check_batched_forward_grad": {"check_batched_forward_grad": True, "check_forward_ad": True},
    "fast_mode": {"fast_mode": True},
}
X = np.array([0.7, -1.1, 0.4])
Y = np.array([-0.3, 0.9, 1.3])
Z = np.array([0.3 + 0.5j, -0.8 + 0.1j, 0.6 - 0.9j])
SLICED = MappingProxyType({"a slice": lambda x: x[:, 1:], "a row": lambda x: x[1], "transposed": lambda x: x.T})


@dataclass(frozen=True)
class Adapter:
    """One framework.

    Attributes
    ----------
    engine : str, Engine or None
        What to pass as ``engine=``; None: the checker finds it from the tensors.
    name : str
        The name of the engine.
    tensor : callable
        A tensor that requires grad, with a copy of the values of an array.
    constant : callable
        One that requires none, of floating point numbers, complex numbers or integers.
    values : callable
        The values of a tensor as an array.
    tanh, exp, absolute, conj, real, angle, total : callable
        Of one tensor; `total` is the sum of all elements. Products are written ``x * y``, also with a number.
    detach : callable
        The values of a tensor without its derivative.
    custom : callable
        ``custom(forward, vjp, jvp=None)``: a function whose derivative is written by hand. All are written in the
        operations above: ``forward(x)``, ``vjp(x, g)`` for the cotangent `g` in PyTorch's convention, and, for engines
        with forward mode, ``jvp(x, t)`` for the tangent `t`.
    tells_detached : bool
        Whether the engine can tell a detached output from one whose derivative is 0.
    views : mapping
        Functions that return views of a matrix, written so that they run on NumPy arrays too.
    memory : bool
        Whether a tensor is memory that can be written into: given twice, it is then one variable.
    second : bool
        Whether the engine supports `gradgradcheck`.
    complex : bool
        Whether it knows complex numbers.
    surroundings : callable
        A context manager in which the tests of this engine run.
    """

    engine: str | Engine | None
    name: str
    tensor: Callable[[np.ndarray], Any]
    constant: Callable[[np.ndarray], Any]
    values: Callable[[Any], np.ndarray]
    tanh: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    absolute: Callable[[Any], Any]
    conj: Callable[[Any], Any]
    real: Callable[[Any], Any]
    angle: Callable[[Any], Any]
    total: Callable[[Any], Any]
    detach: Callable[[Any], Any]
    custom: Callable[..., Callable[..., Any]]
    tells_detached: bool = True
    views: Mapping[str, Callable[[Any], Any]] = field(default_factory=lambda: SLICED)
    memory: bool = True
    second: bool = True
    complex: bool = True
    surroundings: Callable[[], AbstractContextManager[Any]] = nullcontext

    def check(self, func: Callable[..., Any], inputs: Any, **settings: Any) -> bool:
        return gradcheck(func, inputs, engine=self.engine, **settings)

    def report(self, func: Callable[..., Any], inputs: Any, **settings: Any) -> Any:
        return gradcheck_report(func, inputs, engine=self.engine, **settings)

    def plain(self, func: Callable[..., Any], inputs: tuple[Any, ...]) -> Evaluator:
        """The plain way of running func on inputs that are all checked."""
        engine = find_engine(inputs, self.engine)
        *_, evaluator = engine.evaluators(func, inputs, range(len(inputs)))
        return evaluator

    def found(self) -> Engine:
        """The engine, as the checker finds it."""
        return find_engine((self.tensor(X),), self.engine)

    @property
    def supports(self) -> frozenset[str]:
        return self.found().supports


class Counted:
    """A function that counts its calls, and from call number `after` on does `then` first."""

    def __init__(self, func: Callable[..., Any], after: int = 0, then: Callable[[], Any] | None = None) -> None:
        self.func, self.after, self.then, self.calls = func, after, then, 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        if self.then is not None and self.calls >= self.after:
            self.then()
        return self.func(x)


class Mine(Exception):
    """What a function of the user raises."""


def throw(error: BaseException) -> Callable[[], Any]:
    def then() -> None:
        raise error

    return then


def jacobian(report: Any, output: int = 0, index: int = 0, part: str = "") -> np.ndarray:
    (pair,) = [p for p in report.pairs if (p.output_index, p.key[1], p.part) == (output, index, part)]
    np.testing.assert_allclose(pair.numerical, pair.analytical, rtol=1e-6, atol=1e-8)
    return pair.analytical


def same(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


class Conformance:
    make: Callable[[], Adapter]

    @pytest.fixture
    def a(self):
        adapter = type(self).make()
        with adapter.surroundings():
            yield adapter

    # -- right derivatives pass, and are the right ones -------------------------------------------------------------
    def test_a_right_gradient_passes_and_its_jacobian_is_the_closed_form(self, a):
        for func, slope in (
            (a.tanh, 1 - np.tanh(X) ** 2),
            (a.exp, np.exp(X)),
            (a.absolute, np.sign(X)),
            (lambda x: x * x, 2 * X),
            (lambda x: 3.0 * x, np.full(3, 3.0)),
        ):
            report = a.report(func, a.tensor(X))
            assert report.passed, report.error_text()
            same(jacobian(report), np.diag(slope))
        same(jacobian(a.report(a.total, a.tensor(X))), np.ones((1, 3)))

    def test_a_hand_written_right_derivative_is_not_refused(self, a):
        assert a.check(a.custom(a.exp, lambda x, g: g * a.exp(x)), a.tensor(X))

    def test_scalars_empty_tensors_and_matrices_are_checked(self, a):
        matrix = np.linspace(-1, 1.5, 6).reshape(2, 3)
        for values in (np.array(0.7), np.zeros((0, 3)), np.zeros(0), matrix, np.asfortranarray(matrix)):
            report = a.report(a.tanh, a.tensor(values))
            assert report.passed, report.error_text()
            assert report.pairs[0].input_shape == report.pairs[0].output_shape == values.shape
            same(jacobian(report), np.diag((1 - np.tanh(values) ** 2).reshape(-1)))
        assert a.check(a.total, a.tensor(np.zeros((0, 3))))
        assert not a.check(a.custom(a.tanh, lambda x, g: g), a.tensor(np.array(0.7)), raise_exception=False)

    def test_every_output_is_checked_against_every_input(self, a):
        report = a.report(lambda x, y: (x * y, a.total(a.exp(y))), (a.tensor(X), a.tensor(Y)))
        assert report.passed, report.error_text()
        assert len(report.pairs) == 4
        same(jacobian(report, 0, 0), np.diag(Y))
        same(jacobian(report, 0, 1), np.diag(X))
        same(jacobian(report, 1, 0), np.zeros((1, 3)))
        same(jacobian(report, 1, 1), np.exp(Y)[None])

    def test_one_tensor_given_twice_is_one_variable_where_tensors_are_memory(self, a):
        x = a.tensor(X)
        report = a.report(lambda p, q: p * q, (x, x))
        assert report.passed, report.error_text()
        same(jacobian(report, 0, 0), np.diag(2 * X if a.memory else X))

    # -- wrong ones fail --------------------------------------------------------------------------------------------
    @pytest.mark.parametrize("factor", [1.5, -1.0, 0.0, 1.01])
    def test_a_wrong_factor_or_sign_fails_at_its_worst_element(self, a, factor):
        report = a.report(a.custom(a.exp, lambda x, g: g * a.exp(x) * factor), a.tensor(X))
        assert not report.passed
        (worst,) = report.pairs[0].worst(1)
        assert (worst.row, worst.column) == (0, 0)
        same(worst.analytical, factor * np.exp(X[0]))
        np.testing.assert_allclose(worst.numerical, np.exp(X[0]), rtol=1e-6)
        with pytest.raises(GradcheckError, match=r"Jacobian mismatch for output 0 with respect to input 0"):
            a.check(a.custom(a.exp, lambda x, g: g * a.exp(x) * factor), a.tensor(X))

    def test_a_missing_term_fails_at_its_worst_element(self, a):
        func = a.custom(lambda x: x * a.exp(x), lambda x, g: g * a.exp(x))
        report = a.report(func, a.tensor(X))
        slope = (1 + X) * np.exp(X)
        expected = np.argmax(abs(X * np.exp(X)) / (1e-5 + 1e-3 * abs(slope)))
        (worst,) = report.pairs[0].worst(1)
        assert not report.passed and (worst.row, worst.column) == (expected, expected)
        np.testing.assert_allclose(worst.numerical, slope[expected], rtol=1e-6)

    def test_one_wrong_element_of_a_matrix_is_named_by_its_indices(self, a):
        factor = np.ones((2, 3))
        factor[1, 2] = 1.1
        func = a.custom(lambda x: x * x, lambda x, g: g * x * a.constant(2 * factor))
        report = a.report(func, a.tensor(np.linspace(0.5, 1.5, 6).reshape(2, 3)))
        assert report.failing_count == 1
        assert "[1, 2]" in report.error_text()

    def test_a_wrong_gradient_of_the_second_input_is_not_hidden_by_the_first(self, a):
        wrong = a.custom(a.exp, lambda x, g: g * a.exp(x) * 1.5)
        report = a.report(lambda x, y: (x * x, wrong(y)), (a.tensor(X), a.tensor(Y)))
        assert [(p.output_index, p.input_index) for p in report.pairs if not p.passed] == [(1, 1)]

    # -- arguments and results of all kinds -------------------------------------------------------------------------
    def test_arguments_that_are_no_tensors_arrive_as_the_same_objects(self, a):
        given = (object(), "name", 2.5, None, {"mode": "fast"}, [1, 2])
        seen = []
        assert a.check(lambda x, *more: seen.append(more) or x * more[2], (a.tensor(X), *given))
        assert seen
        assert all(m is g for more in seen for m, g in zip(more, given, strict=True))

    def test_integer_tensors_pass_through_unchecked_and_unchanged(self, a):
        index, seen = a.constant(np.array([2, 0])), []
        report = a.report(lambda x, i: seen.append(a.values(i).tolist()) or x * x, (a.tensor(X), index))
        assert report.passed and [p.input_index for p in report.pairs] == [0]
        assert seen and all(values == [2, 0] for values in seen)

    def test_nested_inputs_name_their_jacobians_by_path(self, a):
        inputs = ({"w": a.tensor(X), "b": [a.tensor(Y), (a.tensor(X),)]}, a.tensor(Y))
        report = a.report(lambda p, y: p["w"] * p["b"][0] * p["b"][1][0] * y, inputs)
        assert report.passed, report.error_text()
        assert {p.input for p in report.pairs} == {
            "input 0 p['w']", "input 0 p['b'][0]", "input 0 p['b'][1][0]", "input 1 'y'"
        }  # fmt: skip

    def test_a_wrong_gradient_deep_in_nested_parameters_is_named_by_its_path(self, a):
        wrong = a.custom(a.exp, lambda x, g: g * a.exp(x) * 1.5)
        params = {"dense": {"kernel": a.tensor(X), "bias": a.tensor(Y)}, "name": "mlp"}
        report = a.report(lambda params: wrong(params["dense"]["kernel"]) * params["dense"]["bias"], params)
        assert {p.input for p in report.pairs if not p.passed} == {"input 0 params['dense']['kernel']"}
        assert "params['dense']['kernel']" in report.error_text()

    def test_the_input_itself_and_views_of_it_can_be_outputs(self, a):
        values = np.linspace(-1, 1.5, 6).reshape(2, 3)
        units = np.eye(6).reshape(6, 2, 3)
        for func in (lambda x: x, *a.views.values()):
            report = a.report(func, a.tensor(values))
            assert report.passed, report.error_text()
            same(jacobian(report), np.stack([np.asarray(func(u)).reshape(-1) for u in units], 1))
        assert a.check(lambda x: (x, x * x, x), a.tensor(values))

    def test_an_input_or_an_output_that_nothing_depends_on_has_a_jacobian_of_zeros(self, a):
        report = a.report(lambda x, y: (x * x, a.constant(Y)), (a.tensor(X), a.tensor(Y)))
        assert report.passed, report.error_text()
        for output, index in ((0, 1), (1, 0), (1, 1)):
            same(jacobian(report, output, index), np.zeros((3, 3)))

    def test_an_output_that_lost_its_derivative_fails(self, a):
        for func in (lambda x: a.detach(x * x), lambda x: (x * x, a.exp(a.detach(x)))):
            report = a.report(func, a.tensor(X))
            assert not report.passed
            assert not report.pairs[-1].passed
            if a.tells_detached:
                assert not report.pairs[-1].differentiable
                assert "Numerical gradient for function expected to be zero" in report.error_text()

    # -- complex numbers in PyTorch's convention --------------------------------------------------------------------
    @pytest.fixture
    def c(self, a):
        if not a.complex:
            pytest.skip(f"{a.name} has no complex numbers")
        return a

    def test_complex_gradients_follow_pytorch(self, c):
        same(jacobian(c.report(lambda z: c.real(z * c.conj(z)), c.tensor(Z))), np.diag(2 * Z))
        report = c.report(c.exp, c.tensor(Z))
        same(jacobian(report, part="real"), np.diag(np.exp(Z).conj()))
        same(jacobian(report, part="imag"), np.diag(1j * np.exp(Z).conj()))
        report = c.report(c.conj, c.tensor(Z))
        same(jacobian(report, part="real"), np.eye(3))
        same(jacobian(report, part="imag"), -1j * np.eye(3))
        same(jacobian(c.report(c.absolute, c.tensor(Z))), np.diag(Z / abs(Z)))
        same(jacobian(c.report(c.angle, c.tensor(Z))), np.diag(1j * Z / abs(Z) ** 2))
        same(jacobian(c.report(c.total, c.tensor(Z)), part="imag"), np.full((1, 3), 1j))

    def test_a_complex_function_of_a_real_input_has_a_real_gradient(self, c):
        report = c.report(lambda x: c.exp(x * 1j), c.tensor(X))
        assert report.passed, report.error_text()
        same(jacobian(report, part="real"), np.diag(-np.sin(X)))
        same(jacobian(report, part="imag"), np.diag(np.cos(X)))

    def test_real_and_complex_outputs_stand_beside_each_other(self, c):
        report = c.report(lambda z, x: (c.real(z) * x, z * x, c.total(x)), (c.tensor(Z), c.tensor(X)))
        assert report.passed, report.error_text()
        same(jacobian(report, 0, 0), np.diag(X))
        same(jacobian(report, 0, 1), np.diag(Z.real))
        same(jacobian(report, 1, 1, "imag"), np.diag(Z.imag))
        same(jacobian(report, 2, 0), np.zeros((1, 3)))

    def test_a_derivative_without_its_conjugate_fails(self, c):
        assert c.check(c.custom(c.exp, lambda z, g: g * c.conj(c.exp(z))), c.tensor(Z))
        assert not c.check(c.custom(c.exp, lambda z, g: g * c.exp(z)), c.tensor(Z), raise_exception=False)

    @pytest.mark.parametrize("first", ["real", "complex"])
    def test_a_real_input_is_checked_beside_a_complex_one_in_both_orders(self, c, first):
        inputs = (c.tensor(X), c.tensor(Z)) if first == "real" else (c.tensor(Z), c.tensor(X))
        x, z = (0, 1) if first == "real" else (1, 0)
        report = c.report(lambda p, q: p * q, inputs)
        assert report.passed, report.error_text()
        same(jacobian(report, 0, x, "real"), np.diag(Z.real))
        same(jacobian(report, 0, x, "imag"), np.diag(Z.imag))
        same(jacobian(report, 0, z, "real"), np.diag(X))
        same(jacobian(report, 0, z, "imag"), np.diag(1j * X))
        wrong = c.custom(lambda x: x * 2.0, lambda x, g: g * 3.0)
        report = c.report(lambda *v: wrong(v[x]) * v[z], inputs)
        assert {p.input_index for p in report.pairs if not p.passed} == {x}

    # -- what else the contract promises ----------------------------------------------------------------------------
    def test_second_derivatives_are_checked_where_the_engine_has_them(self, a):
        if not a.second:
            with pytest.raises(NotImplementedError):
                gradgradcheck(lambda x: x * x, a.tensor(X), engine=a.engine)
            return
        x = a.tensor(X)
        assert gradgradcheck(lambda x: x * x * x, x, engine=a.engine)
        assert gradgradcheck(lambda x, y: a.total(a.exp(x) * y), (x, a.tensor(Y)), engine=a.engine)
        assert a.values(x).tobytes() == X.tobytes()
        assert gradgradcheck(a.custom(lambda x: x * x * x, lambda x, g: g * x * x * 3.0), x, engine=a.engine)
        square = a.custom(lambda x: x * x, lambda x, g: g * x)
        wrong = a.custom(lambda x: x * x * x, lambda x, g: g * square(x) * 3.0)
        assert a.check(wrong, x)
        assert not gradgradcheck(wrong, x, engine=a.engine, raise_exception=False)

    def test_the_side_checks_pass_on_a_right_derivative_and_see_a_careless_one(self, a):
        assert a.check(a.tanh, a.tensor(X), check_grad_dtypes=True)
        ignores = a.custom(lambda x: x * 2.0, lambda x, g: a.constant(np.full(3, 2.0)))
        report = a.report(ignores, a.tensor(X), check_undefined_grad=False)
        assert "backward not multiplied by grad_output" in report.error_text()
        count = itertools.count()
        unsteady = a.custom(a.exp, lambda x, g: g * a.exp(x) * (1.0 + 1e-9 * next(count)))
        report = a.report(unsteady, a.tensor(X), check_undefined_grad=False)
        assert "Backward is not reentrant" in report.error_text()
        assert a.check(unsteady, a.tensor(X), check_undefined_grad=False, nondet_tol=1e-3)

    def test_a_right_check_in_double_precision_warns_of_nothing(self, a):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert a.check(lambda x, y: a.total(a.tanh(x) * y), (a.tensor(X), a.tensor(Y)))

    def test_single_precision_warns_of_rounding(self, a):
        with pytest.warns(UserWarning, match=r"not a double precision.*float32"):
            assert a.check(lambda x: x * x, a.tensor(X.astype(np.float32)), eps=5e-3, atol=1e-2, rtol=1e-2)

    def test_an_exception_of_func_reaches_the_user_with_the_place_where_it_happened(self, a):
        error = Mine("the user's own words")
        with pytest.raises(Mine, match="the user's own words") as caught:
            a.check(Counted(lambda x: x * x, 6, throw(error)), a.tensor(X))
        assert caught.value is error
        assert any("evaluating func at x" in n and "input 0 'x' [" in n for n in error.__notes__)

    def test_an_exception_in_a_derivative_reaches_the_user(self, a):
        func = a.custom(a.exp, lambda x, g: throw(Mine("in the derivative"))())
        with pytest.raises(Mine, match="in the derivative"):
            a.check(func, a.tensor(X), check_undefined_grad=False)

    def test_inputs_keep_every_bit_after_a_pass_a_failure_an_exception_and_ctrl_c(self, a):
        values = np.array([-0.0, 5e-324, 1.5, 1e300, -2.5])
        x = a.tensor(values)
        held = a.values(x).tobytes()
        assert held == values.tobytes()
        assert a.check(lambda x: x * 2.0, x, raise_exception=False) is not None
        assert a.values(x).tobytes() == held
        assert not a.check(a.custom(lambda x: x * 2.0, lambda x, g: g * 3.0), x, raise_exception=False)
        assert a.values(x).tobytes() == held
        for error in (Mine(), KeyboardInterrupt()):
            for after in range(1, 9):
                with pytest.raises(type(error)):
                    a.check(Counted(lambda x: x * 2.0, after, throw(error)), x)
                assert a.values(x).tobytes() == held

    def test_inputs_that_func_overwrites_have_their_bits_again_whatever_follows(self, a):
        if not a.memory:
            pytest.skip(f"nobody can write into the tensors of {a.name}")
        x = a.tensor(X)

        def spoil():
            a.values(x)[...] = 7.0

        def spoil_and_raise():
            spoil()
            raise KeyboardInterrupt

        for after in range(1, 2 * X.size + 2):  # recorded, and moved down and up
            assert not a.check(Counted(lambda x: x * 2.0, after, spoil), x, raise_exception=False)
            assert a.values(x).tobytes() == X.tobytes()
            with pytest.raises(KeyboardInterrupt):
                a.check(Counted(lambda x: x * 2.0, after, spoil_and_raise), x)
            assert a.values(x).tobytes() == X.tobytes()

    @pytest.mark.parametrize("values", [X, Z], ids=["real", "complex"])
    def test_func_runs_twice_for_each_direction_of_each_element_and_not_more(self, a, values):
        if values.dtype.kind == "c" and not a.complex:
            pytest.skip(f"{a.name} has no complex numbers")
        func, x = Counted(a.exp), a.tensor(values)
        template, runs = Template(values.shape, values.dtype, "x"), 2 * values.view(float).size
        drain(numerical_columns(a.plain(func, (x,)), (template,), (template,), 1e-6))
        assert func.calls == runs
        func.calls = 0
        a.check(func, x)
        assert func.calls <= runs + 5  # recorded once, and up to 4 runs to choose a quick way

    def test_the_widget_measures_copies_that_are_tensors_of_their_own(self, a):
        engine, x = a.found(), a.tensor(X)
        for copy in (engine.copy(x), engine.tensor(X.copy(), like=x)):
            assert engine.is_tensor(copy) and engine.requires_grad(copy)
            assert engine.array(copy).tobytes() == X.tobytes() and engine.array(copy).dtype == X.dtype
            assert not np.shares_memory(engine.array(copy), engine.array(x))

    def test_only_tensors_are_taken_for_tensors_and_only_known_flags_are_claimed(self, a):
        engine = a.found()
        assert not any(map(engine.is_tensor, (None, 1.5, "x", [1.0], {"w": 1.0}, object())))
        assert engine.supports <= set(FLAGS)
        assert engine.is_tensor(a.tensor(X)) and engine.requires_grad(a.tensor(X))

    @pytest.mark.parametrize("flag", FLAGS)
    def test_a_flag_works_or_is_refused_by_name(self, a, flag):
        x, wrong = a.tensor(X), a.custom(a.exp, lambda x, g: g * a.exp(x) * 1.5)
        if flag not in a.supports:
            refused = pytest.raises(NotImplementedError, match=rf"{flag}=True is not supported by the {a.name} engine")
            quiet, widget = partial(a.check, raise_exception=False), partial(GradcheckWidget, engine=a.engine)
            for call in (a.check, quiet, a.report, widget):
                with refused:
                    call(a.tanh, x, **{flag: True})
            return
        assert a.check(a.tanh, x, **FLAGS[flag])
        assert a.check(lambda x, y: (x * y, a.total(x)), (x, a.tensor(Y)), **FLAGS[flag])
        if flag in ("fast_mode", "check_batched_grad"):
            assert not a.check(wrong, x, **FLAGS[flag], raise_exception=False)

    def test_a_wrong_rule_of_forward_mode_is_seen_though_the_values_are_right(self, a):
        if "check_forward_ad" not in a.supports:
            pytest.skip(f"{a.name} has no forward mode")
        alone = {"check_forward_ad": True, "check_backward_ad": False}
        for factor in (1.0, 1.5):
            func = a.custom(a.exp, lambda x, g: g * a.exp(x), lambda x, t: t * a.exp(x) * factor)
            assert a.check(func, a.tensor(X), **alone, raise_exception=False) == (factor == 1.0)
        with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
            a.check(func, a.tensor(X), **alone)

    def test_the_report_names_the_engine(self, a):
        assert a.report(a.tanh, a.tensor(X)).engine == a.name

    def test_the_widget_judges_without_running_func_and_measures_again_for_eps_alone(self, a):
        func = Counted(a.exp)
        widget = GradcheckWidget(func, a.tensor(X), engine=a.engine)
        widget.wait(60)
        assert widget.passed and widget.report.engine == a.name
        calls = func.calls
        widget.atol = 1e-3
        widget.wait(60)
        assert widget.report.atol == 1e-3 and func.calls == calls
        widget.eps = 1e-5
        widget.wait(60)
        assert widget.report.eps == 1e-5 and func.calls == calls + 2 * X.size
        widget.close()

    def test_the_widget_shows_a_wrong_derivative_as_failed(self, a):
        widget = GradcheckWidget(a.custom(a.exp, lambda x, g: g * a.exp(x) * 1.5), a.tensor(X), engine=a.engine)
        widget.wait(60)
        assert widget.report is not None and not widget.passed
        widget.close()
