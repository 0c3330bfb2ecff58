"""GradcheckWidget without a browser: traits, what runs when, and what is shown."""

from __future__ import annotations

import html

import ipywidgets
import numpy as np
import pytest
import traitlets

from gradcheck_widget import Function, GradcheckReport, GradcheckWidget, from_backward, gradcheck_report


class Counted:
    """tanh that counts how often it runs forward and backward."""

    def __init__(self, factor=1.0):
        self.forwards = self.backwards = 0
        self.factor = factor
        self.call = from_backward(self.forward, self.backward)

    def forward(self, x):
        self.forwards += 1
        y = np.tanh(x)
        return y, y

    def backward(self, g, y):
        self.backwards += 1
        return self.factor * g * (1 - y**2)


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(3, 2))


def models():
    return set(ipywidgets.widgets.widget._instances)


def slider(widget, name):
    return {s.name: s for s in widget._settings}[name].slider


def box(widget, name):
    return {s.name: s for s in widget._settings}[name].box


def test_report_is_the_one_that_gradcheck_report_gives(x):
    widget, report = GradcheckWidget(np.tanh, x), gradcheck_report(np.tanh, x)
    assert isinstance(widget.report, GradcheckReport)
    assert widget.report.to_dict(arrays=True) == report.to_dict(arrays=True)
    assert widget.passed is True


@pytest.mark.parametrize("factor", [1.0, 1.5], ids=["right", "wrong"])
def test_tolerances_are_judged_without_running_func(x, factor):
    f = Counted(factor)
    widget = GradcheckWidget(f.call, x)
    runs = f.forwards, f.backwards
    widget.atol = 1e-13
    widget.rtol = 0.0
    assert not widget.passed
    widget.atol = 10.0
    assert widget.passed
    # one confirmation of the first failure is the only run allowed: 2 evaluations an element
    assert f.forwards - runs[0] <= (2 * x.size if factor == 1.0 else 0)
    assert f.backwards == runs[1]
    runs = f.forwards, f.backwards
    for k in range(20):
        widget.atol = 10.0 ** -(k % 14)
    assert (f.forwards, f.backwards) == runs


def test_eps_runs_the_numerical_side_alone_and_only_once(x):
    f = Counted()
    widget = GradcheckWidget(f.call, x)
    runs = f.forwards, f.backwards
    widget.eps = 1e-4
    assert (f.forwards - runs[0], f.backwards - runs[1]) == (2 * x.size, 0)
    assert widget.report.eps == 1e-4
    widget.eps = 1e-6  # measured before
    assert f.forwards - runs[0] == 2 * x.size


def test_several_settings_at_once_give_one_report(x):
    f = Counted()
    widget = GradcheckWidget(f.call, x)
    seen = []
    widget.observe(seen.append, "report")
    with widget.hold_trait_notifications():
        widget.eps, widget.atol, widget.rtol = 1e-4, 1e-3, 1e-2
    assert len(seen) == 1
    assert (widget.report.eps, widget.report.atol, widget.report.rtol) == (1e-4, 1e-3, 1e-2)


def test_report_and_verdict_always_belong_to_each_other(x):
    """An observer of `passed` that reads `report` must not see the one before."""
    widget = GradcheckWidget(np.tanh, x)
    pairs = []
    widget.observe(lambda change: pairs.append((change["new"], widget.report.passed)), "passed")
    widget.observe(lambda change: pairs.append((widget.passed, change["new"].passed)), "report")
    for atol in (1e-15, 1e-5, 1e-15):
        widget.rtol, widget.atol = 0.0, atol
    assert pairs and all(a == b for a, b in pairs)


def test_results_are_read_only(x):
    widget = GradcheckWidget(np.tanh, x)
    for name, value in (("passed", False), ("report", None)):
        with pytest.raises(traitlets.TraitError):
            setattr(widget, name, value)


@pytest.mark.parametrize(("name", "value"), [("eps", 0), ("eps", -1e-6), ("atol", -1.0), ("rtol", float("nan"))])
def test_a_setting_that_is_none_is_refused_and_nothing_changes(x, name, value):
    widget = GradcheckWidget(np.tanh, x)
    before = widget.report
    with pytest.raises((ValueError, traitlets.TraitError), match=name):
        setattr(widget, name, value)
    assert widget.report is before


def test_settings_can_be_linked_between_two_widgets(x):
    one, two = GradcheckWidget(np.tanh, x), GradcheckWidget(np.sin, x)
    traitlets.link((one, "atol"), (two, "atol"))
    one.atol = 1e-3
    assert two.atol == 1e-3 and two.report.atol == 1e-3


class TestSliders:
    def test_stand_at_the_nearest_step_and_change_nothing(self, x):
        widget = GradcheckWidget(np.tanh, x, eps=3e-7, atol=0.0)
        assert widget.eps == 3e-7 and box(widget, "eps").value == "3e-07"
        assert abs(np.log10(slider(widget, "eps").value / 3e-7)) <= 0.126
        assert widget.atol == 0.0 and box(widget, "atol").value == "0.0"

    def test_a_snapped_value_sent_back_by_the_browser_is_ignored(self, x):
        widget = GradcheckWidget(np.tanh, x, eps=3e-7)
        slider(widget, "eps").value = slider(widget, "eps").value * (1 + 1e-9)
        slider(widget, "eps").value = 10.0**-6.5 * 1.02
        assert widget.eps == 3e-7

    def test_moved_by_a_person_they_set_the_trait(self, x):
        widget = GradcheckWidget(np.tanh, x)
        slider(widget, "eps").value = 1e-3
        assert widget.eps == 1e-3 and widget.report.eps == 1e-3 and box(widget, "eps").value == "0.001"

    @pytest.mark.parametrize("text", ["3e-7", "0.00000030", " 3E-07 "])
    def test_boxes_take_exact_values(self, x, text):
        widget = GradcheckWidget(np.tanh, x)
        box(widget, "eps").value = text
        assert widget.eps == 3e-7 and box(widget, "eps").value == "3e-07"

    @pytest.mark.parametrize("text", ["", "abc", "-1", "nan", "inf", "0", "<b>"])
    def test_boxes_refuse_what_is_no_step_and_say_why(self, x, text):
        widget = GradcheckWidget(np.tanh, x)
        box(widget, "eps").value = text
        assert widget.eps == 1e-6 and box(widget, "eps").value == "1e-06"
        assert "eps must be a finite number greater than 0" in widget._message.value
        assert html.escape(repr(text) if text not in ("-1", "nan", "inf", "0") else text) in widget._message.value
        widget.atol = 1e-4
        assert widget._message.value == ""


class TestShown:
    def test_starts_with_the_worst_jacobian_and_keeps_the_chosen_one(self, x):
        class Second(Function):
            @staticmethod
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                return g * b, -g * a

        widget = GradcheckWidget(Second.apply, (x, x + 1))
        assert widget._choice.value == 1 and widget._shown.input_index == 1
        widget._choice.value = 0
        assert widget._shown.input_index == 0
        widget.atol = 1e-3
        widget.eps = 1e-5
        assert widget._choice.value == 0

    def test_choice_is_hidden_when_there_is_one_jacobian(self, x):
        assert GradcheckWidget(np.tanh, x)._choice.layout.display == "none"

    def test_names_of_a_function_are_escaped(self, x):
        def f(x):
            raise ValueError("<img src=x onerror=alert(1)>")

        widget = GradcheckWidget(f, x)
        assert "<img src=x" not in widget._message.value
        assert "&lt;img src=x" in widget._message.value

    def test_no_elements_no_crash(self):
        widget = GradcheckWidget(np.tanh, np.empty((0, 3)))
        assert widget.passed and "nothing was tested" in widget._verdict.value

    def test_a_wrong_shape_is_shown_as_a_failed_check(self, x):
        widget = GradcheckWidget(from_backward(lambda x: (np.tanh(x), x), lambda g, x: g.T), x)
        assert not widget.passed and "gradient of shape (2, 3)" in widget._side.value
        assert widget._picture.value == ""

    def test_where_no_kernel_lives_a_picture_and_a_text_stand_in(self, x):
        widget = GradcheckWidget(np.tanh, x)
        bundle = widget._repr_mimebundle_()
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        assert "application/vnd.jupyter.widget-view+json" in data
        assert data["text/plain"].startswith("PASS  36 of 36 elements")
        assert "<img alt='Error map" in data["text/html"] and "<table>" in data["text/html"]


class TestExceptions:
    def test_of_func_are_shown_and_the_widget_recovers(self, x):
        trouble = {"on": False}

        def f(x):
            if trouble["on"]:
                raise RuntimeError("disk full")
            return np.tanh(x)

        widget = GradcheckWidget(f, x)
        trouble["on"] = True
        widget.eps = 1e-4
        assert widget.report is None and widget.passed is False
        assert "disk full" in widget._message.value and "Traceback" in widget._message.value
        trouble["on"] = False
        widget.eps = 1e-5
        assert widget.passed and widget._message.value == ""

    def test_wrong_usage_is_raised_where_the_widget_is_made(self, x):
        with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
            GradcheckWidget(np.tanh, 3)
        with pytest.raises(NotImplementedError, match="fast_mode"):
            GradcheckWidget(np.tanh, x, fast_mode=True)
        with pytest.raises(ValueError, match="eps"):
            GradcheckWidget(np.tanh, x, eps=0)
        with pytest.raises(TypeError):
            GradcheckWidget(np.tanh, x, epsilon=1)


def test_close_leaves_no_model_alive(x):
    before = models()
    widget = GradcheckWidget(np.tanh, x)
    assert len(models() - before) > 10
    widget.close()
    assert models() == before


def test_repr_reads_as_the_call(x):
    assert repr(GradcheckWidget(np.tanh, x)) == "GradcheckWidget(tanh, ..., eps=1e-06, atol=1e-05, rtol=0.001)"
