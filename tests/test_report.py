"""The report: as data, as text, as HTML and as JSON; judged again without a run."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest

from gradcheck_widget import Function, GradcheckReport, from_backward, gradcheck_report
from gradcheck_widget.comparison import Comparison
from gradcheck_widget.probes import Check
from gradcheck_widget.report import PairReport, number, ratio_text, tolerance_value


def wrong_square(w):
    return from_backward(lambda w: (w**2, w), lambda g, w: g * 2.1 * w)(w)


def pair(analytical, numerical, *, out=None, inp=None, part="", differentiable=True, unmoved=None, name="input 0 'x'"):
    analytical, numerical = np.atleast_2d(analytical), np.atleast_2d(numerical)
    m, n = analytical.shape
    inp = (n,) if inp is None else inp
    return PairReport(
        output="output 0",
        input=name,
        output_index=0,
        input_index=0,
        part=part,
        output_shape=(m,) if out is None else out,
        input_shape=inp,
        differentiable=differentiable,
        unmoved=np.zeros(inp, bool) if unmoved is None else np.asarray(unmoved),
        comparison=Comparison(analytical, numerical, 1e-5, 1e-3),
    )


def report(*pairs, checks=()):
    return GradcheckReport(pairs, tuple(checks), 1e-6, 1e-5, 1e-3, 0.0, "numpy")


def strict(text):
    """JSON as any other reader takes it: without NaN and Infinity."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def x():
    return np.random.default_rng(0).uniform(1, 2, size=(2, 3))


# -- data -------------------------------------------------------------------------------------------------------
def test_a_pair_tells_names_places_shapes_and_both_jacobians(x):
    r = gradcheck_report(lambda a, b: (a @ b.T, b.sum()), (x, x[:1].copy()))
    assert [(p.output_index, p.input_index) for p in r.pairs] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    p = r.pairs[1]
    assert (p.output, p.input, p.part) == ("output 0", "input 1 'b'", "")
    assert (p.output_shape, p.input_shape) == ((2, 1), (1, 3))
    assert p.analytical.shape == p.numerical.shape == p.error.shape == p.tolerance.shape == p.failing.shape == (2, 3)
    np.testing.assert_allclose(p.analytical, x)
    assert p.in_full_shape(p.analytical).shape == (2, 1, 1, 3)
    assert (p.failing.dtype, p.passed, p.size, p.failing_count) == (bool, True, 6, 0)
    assert p.name == "output 0 <- input 1 'b'"
    assert not p.unmoved.any()
    assert (r.eps, r.atol, r.rtol, r.nondet_tol, r.engine) == (1e-6, 1e-5, 1e-3, 0.0, "numpy")


def test_inputs_are_numbered_as_they_were_passed_not_as_they_are_checked(x):
    r = gradcheck_report(lambda scale, a: a * scale, (3, x))
    assert [p.input_index for p in r.pairs] == [1]
    assert r.pairs[0].input == "input 1 'a'"


def test_each_part_of_a_complex_output_has_its_pair():
    r = gradcheck_report(lambda z: z * z, np.array([1 + 2j]))
    assert [(p.part, p.name) for p in r.pairs] == [
        ("real", "output 0 (real) <- input 0 'z'"),
        ("imag", "output 0 (imag) <- input 0 'z'"),
    ]


def test_every_check_has_a_name_a_verdict_and_a_sentence(x):
    r = gradcheck_report(np.tanh, x, check_grad_dtypes=True)
    assert [c.name for c in r.checks] == [
        "gradient shapes",
        "backward is deterministic",
        "backward scales with grad_output",
        "undefined grad_outputs",
        "gradient dtypes",
        "input untouched",
    ]
    assert all(c.passed and c.message for c in r.checks)
    fewer = gradcheck_report(np.tanh, x, check_undefined_grad=False)
    assert "undefined grad_outputs" not in [c.name for c in fewer.checks]


def test_a_report_is_true_if_and_only_if_everything_passed(x):
    assert gradcheck_report(np.tanh, x)
    assert not gradcheck_report(wrong_square, x)
    good = pair([1.0], [1.0])
    assert report(good, checks=[Check("a", True, "")])
    assert not report(good, checks=[Check("a", False, "")])
    assert not report(good, pair([1.0], [2.0]), checks=[Check("a", True, "")])


# -- judging again ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("tolerances", [{"atol": 1.0}, {"rtol": 0.2}, {"atol": 0.0, "rtol": 0.0}, {}])
def test_judging_again_runs_nothing_and_equals_a_new_report(x, tolerances):
    runs = 0

    def func(w):
        nonlocal runs
        runs += 1
        return from_backward(lambda w: (w**2, w), lambda g, w: g * 2.1 * w)(w)

    first = gradcheck_report(func, x)
    before = runs
    again = first.judge(**tolerances)
    assert again.passed == (again.failing_count == 0)
    text = str(again)
    assert runs == before
    fresh = gradcheck_report(func, x, **{"atol": first.atol, "rtol": first.rtol, **tolerances})
    # findings are not judged again: that would run func
    again, fresh = (dataclasses.replace(report, diagnosis=(), cautions=()) for report in (again, fresh))
    assert str(again) == str(fresh) and text.startswith(str(fresh))
    assert again.to_json(arrays=True, worst=99) == fresh.to_json(arrays=True, worst=99)


def test_judging_again_leaves_the_first_report_as_it_was(x):
    first = gradcheck_report(wrong_square, x)
    text = str(first)
    assert first.judge(atol=1e9).passed
    assert not first.passed
    assert str(first) == text


def test_a_detached_output_stays_a_failure_whatever_the_tolerances(x):
    r = gradcheck_report(lambda v: v.data * 2, x)
    assert not r.judge(atol=1e9, rtol=1e9).passed


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf, "1e-3", 1j, [1e-3], np.array([1e-3]), True], ids=repr)
@pytest.mark.parametrize("name", ["atol", "rtol"])
def test_judging_again_refuses_a_tolerance_that_is_none_and_names_it(x, name, value):
    with pytest.raises(
        ValueError, match=rf"^{name} must be a finite number, 0 or greater, got {re.escape(repr(value))}"
    ):
        gradcheck_report(np.tanh, x).judge(**{name: value})


@pytest.mark.parametrize("value", [1e-3, 1, np.float32(0.5), np.float64(0.5), np.int64(1), np.array(0.5)], ids=repr)
def test_numbers_of_every_kind_are_tolerances(value):
    assert tolerance_value("atol", value) == float(value)


# -- text -------------------------------------------------------------------------------------------------------
def test_the_text_says_verdict_place_values_and_checks(x):
    text = str(gradcheck_report(wrong_square, x))
    assert text.startswith("FAIL  6 of 36 elements out of tolerance")
    assert "output 0 <- input 0 'w'" in text
    assert re.search(r"output 0 \[\d, \d\] <- input 0 'w' \[\d, \d\]: analytical \S+, numerical \S+, error", text)
    assert "a 1 % error would be seen on 100 % of 6 nonzero elements" in text
    assert "eps=1e-06, atol=1e-05, rtol=0.001" in text
    for check in ("backward is deterministic", "undefined grad_outputs", "input untouched"):
        assert f"pass  {check}: " in text


def test_a_pass_says_what_it_is_worth(x):
    assert str(gradcheck_report(np.tanh, x)).startswith("PASS  36 of 36 elements within tolerance")
    blind = gradcheck_report(lambda v: 1e-7 * np.sin(v), x)
    assert "a 1 % error would be seen on 0 % of 6 nonzero elements" in str(blind)
    nothing = gradcheck_report(lambda v: 0 * v, x)
    assert "every element is 0 on both sides: nothing was tested" in str(nothing)


def test_a_share_is_never_rounded_to_all_or_nothing():
    J = np.full((1, 3000), 1e-9)
    J[0, 0] = 1.0
    assert "on 0.1 % of 3,000" in report(pair(J, J)).power_text
    J = np.full((1, 3000), 1.0)
    J[0, 0] = 1e-9
    assert "on 99.9 % of 3,000" in report(pair(J, J)).power_text


def test_a_check_that_failed_alone_is_what_the_verdict_names():
    r = report(pair([1.0], [1.0]), checks=[Check("gradient dtypes", False, "why")])
    assert r.verdict.startswith("FAIL  gradient dtypes")
    assert r.error_text() == "why"
    assert "0 of 1 pass" in r.checks_text


def test_an_empty_report_does_not_claim_to_have_tested_anything():
    assert "nothing was tested" in gradcheck_report(lambda v: v, np.ones((0, 3))).verdict
    assert gradcheck_report(lambda v: v, np.ones((0, 3))).passed


def test_the_representation_is_the_verdict(x):
    r = gradcheck_report(np.tanh, x)
    assert repr(r) == f"<GradcheckReport: {r.verdict}>"


def test_the_error_text_gives_the_first_failure_in_full_and_the_others_in_a_line():
    wrong = [pair(np.diag([2.0, 2.0]), np.eye(2), name=f"input {i} 'w{i}'") for i in range(9)]
    text = report(
        *wrong, checks=[Check("backward scales with grad_output", False, "backward not multiplied")]
    ).error_text()
    assert text.count("worst:") == 1
    assert text.count("Also: ") == 5
    assert text.splitlines()[-1] == "  ... and 4 more"


def test_at_most_four_elements_of_a_mismatch_are_shown():
    rng = np.random.default_rng(0)
    text = report(pair(rng.normal(size=(30, 30)), rng.normal(size=(30, 30)))).error_text()
    assert len(text.splitlines()) == 5


def test_values_that_differ_in_a_late_digit_are_printed_with_it():
    element = pair([1.0 + 3e-12], [1.0]).worst(1)[0]
    assert "analytical 1.000000000003, numerical 1," in pair([1.0 + 3e-12], [1.0]).describe(element)
    same = pair([0.1], [0.1])
    assert "analytical 0.1, numerical 0.1," in same.describe(same.worst(1)[0])


def test_numbers_are_short_and_complex_ones_readable():
    assert number(1.23456789) == "1.23457"
    assert number(1.5 - 0.25j) == "1.5-0.25j"
    assert number(complex(np.nan, np.inf)) == "nan+infj"
    assert ratio_text(0.314159) == "0.314 x"
    assert ratio_text(np.inf) == "infinitely many times"


def test_a_stuck_element_says_that_the_step_is_too_small_and_what_to_do():
    p = pair([[3.0]], [[np.nan]], unmoved=[True])
    assert "step too small for this value: x + eps == x; use a larger eps" in p.describe(p.worst(1)[0])


def test_a_scalar_has_no_index():
    p = pair([[3.0]], [[1.0]], out=(), inp=(), unmoved=False)
    assert p.place(p.worst(1)[0]) == "output 0 <- input 0 'x'"


# -- the worst elements and the detection power over all pairs ---------------------------------------------------
def test_worst_of_a_pair_is_that_of_its_comparison(x):
    p = gradcheck_report(wrong_square, x).pairs[0]
    assert p.worst(3) == p.comparison.worst(3)
    assert len(p.worst()) == 5
    assert p.worst(0) == ()
    assert len(p.worst(10**6)) == 36


def test_detection_power_of_the_report_weighs_elements_not_pairs():
    seen, unseen = np.ones((1, 9)), np.full((1, 1), 1e-9)
    r = report(pair(seen, seen), pair(unseen, unseen))
    assert r.detection_power(0.01) == 0.9
    assert r.detected_count(0.01) == (9, 10)
    assert r.judge(atol=1.0).detection_power(0.01) == 0.0
    assert report().detection_power() == 0.0


# -- JSON -------------------------------------------------------------------------------------------------------
def test_the_json_is_strict_and_complete(x):
    r = gradcheck_report(wrong_square, x)
    data = strict(r.to_json(worst=2, arrays=True))
    assert data == r.to_dict(worst=2, arrays=True)
    assert data["passed"] is False
    assert data["verdict"] == r.verdict
    (p,) = data["pairs"]
    assert (p["failing"], p["elements"], p["output_shape"], p["input_shape"]) == (6, 36, [2, 3], [2, 3])
    np.testing.assert_array_equal(p["analytical"], r.pairs[0].analytical)
    np.testing.assert_array_equal(p["numerical"], r.pairs[0].numerical)
    worst = r.pairs[0].worst(2)
    assert [e["ratio"] for e in p["worst"]] == [e.ratio for e in worst]
    assert p["worst"][0]["output_element"] == list(np.unravel_index(worst[0].row, (2, 3)))
    assert {c["name"] for c in data["checks"]} == {c.name for c in r.checks}
    assert "analytical" not in strict(r.to_json())["pairs"][0]


def test_nan_infinity_and_complex_numbers_survive_in_the_json():
    numerical = np.array([[np.nan, np.inf, -np.inf, 1.0]])
    data = strict(report(pair(numerical, numerical)).to_json(arrays=True))
    assert data["pairs"][0]["numerical"] == [["nan", "inf", "-inf", 1.0]]
    assert data["pairs"][0]["largest_ratio"] == "inf"
    assert data["pairs"][0]["worst"][0]["error"] == "nan"
    z = np.array([[1 - 2j, complex(np.nan, np.inf)]])
    data = strict(report(pair(z, z)).to_json(arrays=True))
    assert data["pairs"][0]["analytical"] == [[{"re": 1.0, "im": -2.0}, {"re": "nan", "im": "inf"}]]


@pytest.mark.parametrize("shape", [(), (0,), (2, 0)])
def test_scalar_and_empty_inputs_have_a_json(shape):
    data = strict(gradcheck_report(np.tanh, np.ones(shape)).to_json(arrays=True))
    assert data["passed"] is True
    assert data["pairs"][0]["input_shape"] == list(shape)


def test_indent_only_changes_the_layout(x):
    r = gradcheck_report(np.tanh, x)
    assert strict(r.to_json(indent=2)) == strict(r.to_json())


# -- HTML -------------------------------------------------------------------------------------------------------
BAD = "<script>alert('x')</script>&\""


def test_html_escapes_what_comes_from_the_user():
    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if g is None:
                raise RuntimeError(BAD)
            return g

    r = gradcheck_report(Fails.apply, np.ones(2))
    assert BAD in str(r)
    page = r._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_html_escapes_names_and_the_engine():
    r = GradcheckReport((pair([1.0], [2.0], name=BAD),), (Check(BAD, False, BAD),), 1e-6, 1e-5, 1e-3, 0.0, BAD)
    assert "<script>" not in r._repr_html_()


def test_html_shows_the_verdict_in_words_with_the_worst_elements(x):
    page = gradcheck_report(wrong_square, x)._repr_html_()
    assert ">FAIL</span> 6 of 36 elements out of tolerance" in page
    assert "analytical" in page
    assert ">PASS</span> 36 of 36 elements within tolerance" in gradcheck_report(np.tanh, x)._repr_html_()
    assert page.count("<td>") + page.count("<td ") == page.count("</td>")
    assert "nothing was tested" in report()._repr_html_()
