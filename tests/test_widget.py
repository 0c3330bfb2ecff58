"""GradcheckWidget without a browser: traits, what runs when, and what is shown."""

from __future__ import annotations

import html
import json

import ipywidgets
import numpy as np
import pytest
import traitlets

import gradcheck_widget
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


class TestElement:
    def marked(self, widget):
        """Column and row of the marked cell of the map; the band rings the same element."""
        figure, band, _ = widget._figures
        (cell,) = figure.map.cell.get_paths()
        column, row = cell.vertices[:-1].mean(axis=0)
        pair = widget._shown
        (ring,) = band.band.ring.get_offsets()
        at = int(row) * pair.ratio.shape[1] + int(column)
        assert ring.tolist() == [band.band.x[at], band.band.y[at]]
        return [column, row]

    def test_chosen_from_the_list_or_by_indices_it_is_ringed_everywhere(self, x):
        widget = GradcheckWidget(np.tanh, x)
        widget._index.value = "2,1 <- 0,1"
        assert widget._element == (5, 1) and "output 0 [2, 1] &lt;- input 0" in widget._detail.value
        assert self.marked(widget) == [1, 5]
        assert "[2, 1] <- [0, 1]" in widget._worst.label
        widget._worst.value = widget._worst.options[0][1]
        assert self.marked(widget) != [1, 5]

    def test_shows_one_sided_differences_that_tell_a_kink(self):
        widget = GradcheckWidget(lambda x: np.maximum(x, 0.2 * x), np.zeros(1))
        assert "from below" in widget._detail.value
        assert ">0.2<" in widget._detail.value and ">1<" in widget._detail.value

    @pytest.mark.parametrize("text", ["7,0 <- 0,0", "0 <- 0", "x <- y", "0,0", "0,0 <- 0,-1"])
    def test_indices_that_are_none_are_refused_with_the_rule(self, x, text):
        widget = GradcheckWidget(np.tanh, x)
        before = widget._element
        widget._index.value = text
        assert widget._element == before and widget._message.value

    def test_stays_while_tolerances_and_eps_move(self, x):
        widget = GradcheckWidget(np.tanh, x)
        widget.select((1, 0), (1, 0))
        widget.atol = 1e-3
        widget.eps = 1e-4
        assert widget._element == (2, 2) and "[1, 0]" in widget._detail.value
        with pytest.raises(ValueError, match=r"shape \(3, 2\)"):
            widget.select(5, 0)


class TestTakingItAlong:
    def test_the_call_gives_the_verdict_of_the_widget(self, x):
        widget = GradcheckWidget(np.tanh, x, check_grad_dtypes=True)
        widget.atol, widget.rtol = 1e-14, 0.0
        assert widget.call == "gradcheck(tanh, inputs, eps=1e-06, atol=1e-14, rtol=0.0, check_grad_dtypes=True)"
        with pytest.raises(gradcheck_widget.GradcheckError):
            eval(widget.call, {"gradcheck": gradcheck_widget.gradcheck, "tanh": np.tanh, "inputs": x})
        widget._buttons[1].click()
        assert "atol=1e-14" in widget._call.value
        widget.atol = 1e-5
        assert "atol=1e-05" in widget._call.value

    def test_a_saved_report_is_one_file_with_its_picture_and_one_with_its_data(self, x, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        widget = GradcheckWidget(np.tanh, x)
        widget._buttons[2].click()
        widget._buttons[2].click()  # overwrites nothing
        assert sorted(p.name for p in tmp_path.iterdir()) == [
            "gradcheck_report_1.html", "gradcheck_report_1.json", "gradcheck_report_2.html", "gradcheck_report_2.json"
        ]  # fmt: skip
        page = (tmp_path / "gradcheck_report_1.html").read_text()
        assert "data:image/png;base64," in page and "<table>" in page and "http" not in page
        assert json.loads((tmp_path / "gradcheck_report_1.json").read_text()) == widget.report.to_dict()
        with pytest.raises(FileExistsError):
            widget.save(tmp_path / "gradcheck_report_1")

    def test_reset_goes_back_to_the_settings_it_was_made_with(self, x):
        widget = GradcheckWidget(np.tanh, x, atol=1e-7)
        widget.eps, widget.atol, widget.rtol = 1e-3, 1.0, 0.5
        widget._buttons[0].click()
        assert (widget.eps, widget.atol, widget.rtol) == (1e-6, 1e-7, 1e-3)
        assert widget.report.atol == 1e-7


class TestUpdate:
    def shown(self, widget):
        views = ("_verdict", "_picture", "_detail", "_curve", "_side", "_message")
        return [getattr(widget, v).value for v in views] + [widget._choice.options, widget._worst.options, widget.eps,
                widget.atol, widget.rtol, widget.passed, widget.report.to_dict(arrays=True)]  # fmt: skip

    @pytest.mark.parametrize(
        "changes",
        [
            {"func": np.sin},
            {"inputs": np.ones((2, 2))},
            {"func": lambda a, b: a @ b, "inputs": (np.ones((2, 3)), np.ones((3, 2)))},
            {"eps": 1e-3, "atol": 0.0},
            {"check_grad_dtypes": True},
        ],
        ids=["func", "inputs", "both", "settings", "flag"],
    )
    def test_equals_making_it_anew(self, x, changes):
        widget = GradcheckWidget(np.tanh, x)
        widget._index.value = "2,1 <- 0,1"
        widget.update(**changes)
        assert self.shown(widget) == self.shown(GradcheckWidget(**{"func": np.tanh, "inputs": x, **changes}))

    @pytest.mark.parametrize("changes", [{"func": 3}, {"inputs": 3}, {"eps": -1}, {"nope": 1}])
    def test_refused_it_leaves_the_widget_as_it_was(self, x, changes):
        widget = GradcheckWidget(np.tanh, x)
        before = self.shown(widget)
        with pytest.raises((TypeError, ValueError)):
            widget.update(**changes)
        assert self.shown(widget) == before
        widget.atol = 1e-3
        assert widget.passed


def test_a_traceback_begins_in_the_users_function_and_is_not_buried_under_ours():
    def broken(x):
        raise ZeroDivisionError("here")

    message = html.unescape(GradcheckWidget(broken, np.ones(3))._message.value)
    assert "in broken" in message and "ZeroDivisionError: here" in message
    first = next(line for line in message.splitlines() if "File " in line)
    assert __file__ in first and "in broken" in first


def test_the_example_of_indices_is_one_that_this_jacobian_has(x):
    widget = GradcheckWidget(np.sum, x)
    widget.select((), (0, 0))
    assert widget._index.value.strip() == "<- 0,0"
    widget._index.value = "<- 2,1"
    assert widget._message.value == "" and widget._element == (0, 5)
    widget._index.value = "nonsense"
    assert html.escape("such as  <- ") in widget._message.value and widget._index.value.strip() == "<- 2,1"
