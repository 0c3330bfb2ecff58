"""Judging: the verdict of `np.isclose`, the worst elements, and what a check would have caught."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gradcheck_widget.comparison import Comparison

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=4)
REALS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.001, 1.0011, -1.0, 1e-5, 1e-300, 1e308, -1e308, np.inf, -np.inf, np.nan]),
    st.floats(allow_nan=True, allow_infinity=True, width=64),
)
NUMBERS = {np.float64: REALS, np.complex128: st.builds(complex, REALS, REALS)}
TOLERANCES = st.sampled_from([0.0, 1e-12, 1e-5, 1e-3, 1.0, 10.0])


@st.composite
def jacobians(draw, dtype):
    shape = draw(SHAPES)
    numerical = draw(hnp.arrays(dtype, shape, elements=NUMBERS[dtype]))
    other = draw(hnp.arrays(dtype, shape, elements=NUMBERS[dtype]))
    near = draw(hnp.arrays(bool, shape))
    with np.errstate(all="ignore"):
        return np.where(near, numerical * (1 + draw(st.sampled_from([0.0, 1e-9, 9e-4, 1.1e-3]))), other), numerical


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_the_verdict_is_that_of_isclose_with_the_numerical_side_as_reference(dtype):
    @settings(max_examples=300, deadline=None, derandomize=True)
    @given(jacobians(dtype), TOLERANCES, TOLERANCES)
    def verdicts_agree(pair, atol, rtol):
        analytical, numerical = pair
        with np.errstate(all="ignore"):
            expected = np.isclose(analytical, numerical, atol=atol, rtol=rtol)
        comparison = Comparison(analytical, numerical, atol, rtol)
        np.testing.assert_array_equal(comparison.failing, ~expected)
        assert comparison.passed == expected.all()
        assert comparison.failing_count == np.count_nonzero(~expected)

    verdicts_agree()


def test_a_nan_never_passes_however_loose_the_tolerance():
    nan = np.array([[np.nan]])
    for a, n in [(nan, nan), (nan, np.ones((1, 1))), (np.ones((1, 1)), nan), (nan * 1j, nan * 1j)]:
        assert not Comparison(a, n, 1e300, 1e300).passed


def test_equal_infinities_pass_and_opposite_ones_do_not():
    inf = np.array([[np.inf]])
    assert Comparison(inf, inf, 0.0, 0.0).passed
    assert not Comparison(-inf, inf, 1e300, 1e300).passed
    assert not Comparison(np.ones((1, 1)), inf, 1e300, 1e300).passed


def test_the_tolerance_grows_with_the_numerical_side_not_with_the_analytical_one():
    small, large = np.array([[1.0]]), np.array([[2.0]])
    assert Comparison(small, large, 0.0, 0.5).passed
    assert not Comparison(large, small, 0.0, 0.5).passed


def test_error_tolerance_and_ratio_are_the_documented_formulas():
    analytical, numerical = np.array([[1.0, 2.0, -3.0]]), np.array([[1.5, 2.0, 3.0]])
    c = Comparison(analytical, numerical, 0.25, 0.5)
    np.testing.assert_array_equal(c.error, [[0.5, 0.0, 6.0]])
    np.testing.assert_array_equal(c.tolerance, [[1.0, 1.25, 1.75]])
    np.testing.assert_array_equal(c.ratio, [[0.5, 0.0, 6.0 / 1.75]])
    assert c.largest_ratio == 6.0 / 1.75


def test_a_complex_error_is_the_distance_in_the_plane():
    c = Comparison(np.array([[3 + 4j]]), np.array([[0j]]), 1.0, 0.0)
    assert c.error[0, 0] == 5.0
    assert c.worst(1)[0].analytical == 3 + 4j


def test_zero_tolerance_passes_exact_equality_only():
    c = Comparison(np.array([[0.0, 1.0, 1.0]]), np.array([[-0.0, 1.0, np.nextafter(1.0, 2)]]), 0.0, 0.0)
    np.testing.assert_array_equal(c.failing, [[False, False, True]])
    np.testing.assert_array_equal(c.ratio, [[0.0, 0.0, np.inf]])


def test_judging_infinities_and_nan_warns_of_nothing_even_if_numpy_is_set_to_raise():
    values = np.array([[np.inf, -np.inf, np.nan, 1e308, -1e308, 0.0]])
    pairs = [(values, values[:, ::-1]), (values, values), (values.astype(complex), values[:, ::-1].astype(complex))]
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for a, n in pairs:
            c = Comparison(a, n, 1e-5, 10.0)
            assert not c.passed
            c.worst(6)
            c.detection_power(0.01)


# -- the worst elements ---------------------------------------------------------------------------------------
def brute_order(c):
    """All positions, by the rule: largest ratio first, NaN before infinity, then by error, then in reading order."""

    def key(at):
        error = c.error[at]
        return (-c.ratio[at], 0 if np.isnan(error) else 1, 0.0 if np.isnan(error) else -error, at)

    return sorted(np.ndindex(*c.ratio.shape), key=key)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 11, 12, 13, 100])
def test_worst_gives_exactly_the_k_largest_ratios_in_order(k):
    rng = np.random.default_rng(1)
    analytical = rng.normal(size=(3, 4))
    numerical = analytical + rng.normal(size=(3, 4)) * 1e-4
    c = Comparison(analytical, numerical, 1e-6, 1e-4)
    assert [(e.row, e.column) for e in c.worst(k)] == brute_order(c)[:k]


def test_worst_puts_nan_before_infinity_before_large_errors():
    analytical = np.array([[1.0, np.inf, 5.0, np.nan, 1e300]])
    c = Comparison(analytical, np.ones((1, 5)), 1e-5, 1e-3)
    assert [e.column for e in c.worst(5)] == [3, 1, 4, 2, 0]


def test_worst_breaks_ties_in_reading_order_also_when_only_some_of_them_fit():
    c = Comparison(np.full((4, 4), 2.0), np.ones((4, 4)), 1e-5, 1e-3)
    assert [(e.row, e.column) for e in c.worst(5)] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]


@pytest.mark.parametrize("k", [0, -1])
def test_worst_of_nothing_is_empty(k):
    assert Comparison(np.ones((2, 2)), np.ones((2, 2)), 0.0, 0.0).worst(k) == ()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_an_empty_jacobian_passes_and_has_no_worst_element(shape):
    c = Comparison(np.ones(shape), np.ones(shape), 1e-5, 1e-3)
    assert c.passed
    assert c.worst(3) == ()
    assert c.largest_ratio == 0.0
    assert c.detection_power() == 0.0


def test_an_element_tells_where_it_is_and_both_values():
    analytical = np.zeros((2, 3))
    analytical[1, 2] = 4.0
    (e,) = Comparison(analytical, np.zeros((2, 3)), 0.5, 0.0).worst(1)
    assert (e.row, e.column, e.analytical, e.numerical) == (1, 2, 4.0, 0.0)
    assert (e.error, e.tolerance, e.ratio, e.failing) == (4.0, 0.5, 8.0, True)


# -- detection power ------------------------------------------------------------------------------------------
def brute_power(analytical, numerical, atol, rtol, share):
    seen = total = 0
    for a, n in zip(analytical.ravel(), numerical.ravel(), strict=True):
        passes = bool(np.isclose(a, n, atol=atol, rtol=rtol))
        if a == 0 and passes:
            continue
        total += 1
        with np.errstate(invalid="ignore"):
            seen += not any(np.isclose(a * factor, n, atol=atol, rtol=rtol) for factor in (1 + share, 1 - share))
    return seen / total if total else 0.0


@pytest.mark.parametrize("share", [1e-4, 0.01, 0.5, 3.0])
@pytest.mark.parametrize(("atol", "rtol"), [(0.0, 0.0), (1e-5, 1e-3), (1e-2, 0.0), (0.0, 0.02), (5.0, 0.0)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_detection_power_is_exactly_the_share_of_elements_where_the_error_would_have_failed(share, atol, rtol, dtype):
    rng = np.random.default_rng(3)
    numerical = rng.normal(size=(6, 5)) * 10.0 ** rng.integers(-8, 3, size=(6, 5))
    if dtype is complex:
        numerical = numerical * np.exp(1j * rng.normal(size=(6, 5)))
    numerical[0] = 0.0
    analytical = numerical * (1 + 1e-4 * rng.normal(size=(6, 5)))
    analytical[1, :2], analytical[2, 0], numerical[3, 0] = 0.0, np.nan, np.inf
    analytical[3, 0] = np.inf
    c = Comparison(analytical, numerical, atol, rtol)
    assert c.detection_power(share) == brute_power(analytical, numerical, atol, rtol, share)


def test_detection_power_is_0_where_all_is_zero_because_nothing_was_tested():
    assert Comparison(np.zeros((3, 3)), np.zeros((3, 3)), 1e-5, 1e-3).detection_power() == 0.0


def test_detection_power_is_0_where_the_values_lie_below_atol():
    tiny = np.full((2, 2), 1e-7)
    c = Comparison(3 * tiny, tiny, 1e-5, 1e-3)
    assert c.passed
    assert c.detection_power(0.01) == 0.0


def test_detection_power_does_not_count_zero_elements_that_pass():
    J = np.diag([1.0, 2.0, 3.0])
    assert Comparison(J, J, 1e-5, 1e-3).detection_power(0.01) == 1.0


def test_loosening_a_tolerance_never_raises_the_detection_power_and_at_last_takes_all_of_it():
    rng = np.random.default_rng(4)
    J = rng.normal(size=(5, 5))
    for loosen in (lambda t: (t, 0.0), lambda t: (0.0, t)):
        powers = [Comparison(J, J, *loosen(t)).detection_power(0.01) for t in np.logspace(-9, 2, 34)]
        assert powers == sorted(powers, reverse=True)
        assert powers[0] == 1.0
        assert powers[-1] == 0.0


@pytest.mark.parametrize("share", [0, -0.01, np.nan, np.inf])
def test_a_share_that_is_no_share_is_refused_with_an_example(share):
    with pytest.raises(ValueError, match=r"0\.01 for 1 %"):
        Comparison(np.ones((1, 1)), np.ones((1, 1)), 0.0, 0.0).detection_power(share)
