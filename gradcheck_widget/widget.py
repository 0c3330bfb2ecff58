"""GradcheckWidget: the checker with sliders for eps, atol and rtol, and pictures of what they do."""

from __future__ import annotations

import base64
import html
import math
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import traitlets
from ipywidgets import HTML, Dropdown, FloatLogSlider, HBox, Layout, Text, VBox, Widget

from .check import Settings, build_report, run_checks
from .comparison import Element
from .engines import Engine
from .jacobians import element_name
from .measurement import Measurement
from .probes import Check
from .report import GradcheckReport, PairReport, badge, ratio_text, tolerance_value

__all__ = ["GradcheckWidget"]

STEP = 0.25  # decades
EXPLAIN = {
    "eps": "step of the finite difference: each element is moved by minus and plus eps, in the input's units",
    "atol": "absolute tolerance, in the derivative's units: the error that is accepted where the derivative is 0",
    "rtol": "relative tolerance: the error that is accepted as a share of the numerical value",
}
RANGE = {"eps": (-12, 0), "atol": (-15, 1), "rtol": (-15, 0)}  # decades of the sliders; the boxes take any value


class _Setting:
    """A log slider and a box with the exact value of one trait.

    The value lives in the trait. The slider stands at the nearest step and changes the trait only when it reports
    another step: a browser that sends a snapped value back, as it does on display, changes nothing.
    """

    def __init__(self, owner: GradcheckWidget, name: str) -> None:
        self.owner, self.name = owner, name
        low, high = RANGE[name]
        self.slider = FloatLogSlider(
            base=10, min=low, max=high, step=STEP, description=name, readout=False, continuous_update=True,
            layout=Layout(width="auto", flex="1 1 auto", min_width="120px"), style={"description_width": "34px"},
        )  # fmt: skip
        self.box = Text(
            continuous_update=False, tooltip=f"{name}: {EXPLAIN[name]}", layout=Layout(width="96px", flex="0 0 auto")
        )
        self.slider.tooltip = f"{name}: {EXPLAIN[name]}"
        self.show(getattr(owner, name))
        self.slider.observe(self._moved, "value")
        self.box.observe(self._typed, "value")
        self.view = HBox([self.slider, self.box], layout=Layout(width="100%", align_items="center"))

    def _place(self, value: float) -> int:
        low, high = RANGE[self.name]
        exponent = math.log10(value) if value > 0 else low
        return round((min(max(exponent, low), high) - low) / STEP)

    def show(self, value: float) -> None:
        self.place = self._place(value)
        self.slider.value = 10.0 ** (RANGE[self.name][0] + STEP * self.place)
        self.box.value = repr(value)

    def _moved(self, change: Any) -> None:
        if self._place(change["new"]) != self.place:
            setattr(self.owner, self.name, float(f"{change['new']:.3g}"))

    def _typed(self, change: Any) -> None:
        value = getattr(self.owner, self.name)
        if change["new"] == repr(value):
            return
        try:
            setattr(
                self.owner, self.name, tolerance_value(self.name, _number(change["new"]), positive=self.name == "eps")
            )
        except ValueError as error:
            self.owner._say(str(error))
        self.box.value = repr(getattr(self.owner, self.name))


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


class GradcheckWidget(VBox):
    """Check a gradient and tune the check, in a notebook.

    Displays the verdict in words, sliders with exact boxes for `eps`, `atol` and `rtol`, the error map and the
    tolerance band of one Jacobian, its worst elements and the side checks. A change of `atol` or `rtol` judges what
    was measured; only a change of `eps` runs `func` again, and then the numerical side alone.

    Parameters
    ----------
    func : callable
    inputs : tensor or tuple (list) of them
        As in `gradcheck`.
    eps, atol, rtol : float
        Initial settings, as in `gradcheck`; also traits.
    engine, nondet_tol, check_undefined_grad, check_grad_dtypes, check_forward_ad, ...
        The other arguments of `gradcheck_report`.

    Attributes
    ----------
    eps, atol, rtol : float
        Traits: set, observe and link them. Under ``hold_trait_notifications`` several changes give one update.
    passed : bool
        Trait, read-only: the verdict. False while there is no report.
    report : GradcheckReport or None
        Trait, read-only: None if `func` raised.

    Raises
    ------
    ValueError, TypeError, RuntimeError, NotImplementedError, UsageError
        For wrong usage, as `gradcheck` does. An exception of `func` itself is shown in the widget instead.

    Examples
    --------
    >>> GradcheckWidget(np.tanh, np.random.rand(4, 3))  # doctest: +SKIP
    """

    # public: settings
    eps = traitlets.Float(1e-6, help="Step of the finite difference, in the units of the inputs.")
    atol = traitlets.Float(1e-5, help="Absolute tolerance, in the units of the derivative.")
    rtol = traitlets.Float(1e-3, help="Relative tolerance.")
    # public: results
    passed = traitlets.Bool(False, read_only=True, help="The verdict at the present settings.")
    report = traitlets.Instance(GradcheckReport, allow_none=True, read_only=True, help="All that was found.")

    def __init__(
        self,
        func: Callable[..., Any],
        inputs: Any,
        *,
        eps: float = 1e-6,
        atol: float = 1e-5,
        rtol: float = 1e-3,
        engine: str | Engine | None = None,
        **settings: Any,
    ) -> None:
        self._lock = threading.RLock()  # callbacks may arrive on any thread
        self._ready = False
        self._figure: Any = None
        self._pair = 0
        super().__init__(layout=Layout(width="100%", max_width="1100px"))
        self._check_settings = Settings(eps=eps, atol=atol, rtol=rtol, **settings)
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self._measurement = Measurement(
            func,
            inputs,
            engine=engine,
            masked=bool(self._check_settings.masked),
            backward=self._check_settings.check_backward_ad,
            stacklevel=2,
        )
        self._check_settings.refuse_unsupported(self._measurement.engine)
        self._checks: tuple[Check, ...] | None = None

        self._verdict = HTML(layout=Layout(width="100%"))
        self._settings = [_Setting(self, name) for name in ("eps", "atol", "rtol")]
        self._choice = Dropdown(
            description="Jacobian", layout=Layout(width="auto"), style={"description_width": "62px"},
            tooltip="which output with respect to which input the pictures show",
        )  # fmt: skip
        self._choice.observe(self._chosen, "value")
        self._message = HTML(layout=Layout(display="none"))
        self._picture = HTML(layout=Layout(width="100%"))
        self._worst = HTML(layout=Layout(width="100%"))
        self._side = HTML(layout=Layout(width="100%"))
        sliders = VBox([s.view for s in self._settings], layout=Layout(flex="5 1 300px"))
        self._beside = VBox([self._choice, self._worst], layout=Layout(flex="5 1 340px", overflow="hidden"))
        controls = HBox([sliders, self._beside], layout=Layout(width="100%", flex_flow="row wrap"))
        self.children = (self._verdict, controls, self._message, self._picture, self._side)
        self.add_class("gradcheck-widget")
        self.observe(self._changed, ["eps", "atol", "rtol"])
        self._ready = True
        self._refresh()

    @traitlets.validate("eps", "atol", "rtol")
    def _valid(self, proposal: Any) -> float:
        name = proposal["trait"].name
        return tolerance_value(name, proposal["value"], positive=name == "eps")

    # -- measuring and judging ------------------------------------------------------------------------------
    def _changed(self, change: Any) -> None:
        with self._lock:
            for setting in self._settings:
                setting.show(getattr(self, setting.name))
            if self._ready:
                self._refresh()

    def _refresh(self) -> None:
        """Bring the report and what is shown up to the present settings: nothing to do if they are."""
        with self._lock:
            now = (self.eps, self.atol, self.rtol)
            old = self.report
            if old is not None and (old.eps, old.atol, old.rtol) == now:
                return
            self._say("")
            if old is not None and old.eps == self.eps and self._confirmed(old, now):
                return
            settings = Settings(**{**vars(self._check_settings), "eps": now[0], "atol": now[1], "rtol": now[2]})
            try:
                if self._checks is None:
                    self._checks = run_checks(self._measurement, settings)
                report = build_report(self._measurement, settings, self._checks)
            except Exception as error:
                self._publish(None)
                self._say(_traceback(error), title=f"func raised {type(error).__name__} at eps={self.eps:g}")
                return
            self._publish(report)

    def _confirmed(self, old: GradcheckReport, now: tuple[float, float, float]) -> bool:
        """Judge the Jacobians at hand; False if a first failure must be measured the plain way (see `build_report`)."""
        report = old.judge(atol=now[1], rtol=now[2])
        if report.failing_count and not self._measurement.settled:
            return False
        self._publish(report)
        return True

    def _publish(self, report: GradcheckReport | None) -> None:
        with self.hold_trait_notifications():
            self.set_trait("report", report)
            self.set_trait("passed", report is not None and report.passed)
        self._show()

    def _chosen(self, change: Any) -> None:
        with self._lock:
            if change["new"] is not None and change["new"] != self._pair:
                self._pair = change["new"]
                self._show()

    # -- showing ------------------------------------------------------------------------------------------
    @property
    def _shown(self) -> PairReport | None:
        pairs = self.report.pairs if self.report is not None else ()
        return pairs[self._pair] if self._pair < len(pairs) else None

    def _show(self) -> None:
        report = self.report
        if report is None:
            self._verdict.value = (
                f"<div role='status'>{badge('FAIL')} no result: func raised an exception, see below</div>"
            )
            return
        names = [(p.name, k) for k, p in enumerate(report.pairs)]
        if [tuple(o) for o in self._choice.options] != names:
            ratios = [p.comparison.largest_ratio for p in report.pairs]
            self._pair = ratios.index(max(ratios)) if ratios else 0  # start with the worst
            self._choice.options = names
            if names:
                self._choice.value = self._pair
        self._choice.layout.display = "none" if len(names) < 2 else ""
        self._verdict.value = _verdict_html(report)
        self._side.value = _checks_html(report)
        pair = self._shown
        if pair is None:
            self._picture.value = self._worst.value = ""
            return
        self._worst.value = _worst_html(pair)
        if self._figure is None:
            from .plots import CheckFigure  # matplotlib: only once there is something to draw

            self._figure = CheckFigure()
        self._figure.update(pair)
        self._picture.value = self._image()

    def _image(self) -> str:
        pair = self._shown
        if pair is None or self._figure is None:
            return ""
        data = base64.b64encode(self._figure.png()).decode()
        alt = html.escape(self._figure.alt(pair), quote=True)
        return (
            f"<img alt='{alt}' src='data:image/png;base64,{data}' "
            "style='width:100%;max-width:1060px;aspect-ratio:2.65;background:#ffffff;border-radius:4px;display:block'>"
        )

    def _say(self, text: str, title: str = "") -> None:
        """A message in the widget: of an exception, or of a value that cannot be taken. '' removes it."""
        head = f"<b>{html.escape(title)}</b>" if title else ""
        lines = f"<pre style='margin:2px 0;max-height:240px;overflow:auto'>{html.escape(text)}</pre>"
        self._message.value = f"<div role='alert'>{head}{lines}</div>" if text else ""
        self._message.layout.display = "" if text else "none"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Where no kernel lives, a picture and a text of the last state stand in for the widget."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None and self.report is not None:
            data["text/plain"] = str(self.report)
            data["text/html"] = f"{self._image()}{self.report._repr_html_()}"
        return bundle

    def __repr__(self) -> str:
        name = getattr(self._measurement.func, "__name__", repr(self._measurement.func))
        return f"GradcheckWidget({name}, ..., eps={self.eps!r}, atol={self.atol!r}, rtol={self.rtol!r})"

    # -- life ---------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Close every model of the widget, its parts' layouts and styles included."""
        for widget in _parts(self):
            super(GradcheckWidget, widget).close() if widget is self else widget.close()


def _parts(widget: Widget) -> Iterator[Widget]:
    for child in getattr(widget, "children", ()):
        yield from _parts(child)
    for name in ("layout", "style"):
        part = getattr(widget, name, None)
        if isinstance(part, Widget):
            yield part
    yield widget


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


def _verdict_html(report: GradcheckReport) -> str:
    text = html.escape(report.verdict[4:].strip())
    weak = report.passed and report.detected_count()[1] * 0.5 > report.detected_count()[0]
    power = html.escape(report.power_text)
    return (
        "<div role='status' style='line-height:1.5;font-size:14px'>"
        f"<span style='font-size:17px'>{badge('PASS' if report.passed else 'FAIL')}</span> <b>{text}</b><br>"
        f"{'<b>' + power + '</b>' if weak else power} &nbsp;·&nbsp; {html.escape(report.checks_text)}</div>"
    )


def _worst_html(pair: PairReport) -> str:
    cell = "padding:1px 10px 1px 0;text-align:left;white-space:nowrap"
    rows = "".join(
        f"<tr><td style='{cell}'>{'✗' if e.failing else '✓'} {html.escape(_where(pair, e))}</td>"
        f"<td style='{cell}'>{e.analytical:.5g}</td><td style='{cell}'>{e.numerical:.5g}</td>"
        f"<td style='{cell}'>{ratio_text(e.ratio)}</td></tr>"
        for e in pair.worst(4)
    )
    head = "".join(
        f"<th style='{cell}'>{h}</th>" for h in ("worst elements", "analytical", "numerical", "error / tol.")
    )
    table = (
        f"<table style='line-height:1.35;font-size:12px'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
    return f"<div style='overflow-x:auto'>{table}</div>"


def _where(pair: PairReport, e: Element) -> str:
    """``[2, 1] <- [0, 3]``: the names stand in the choice above."""
    out = element_name("", pair.output_shape, e.row).strip() or "output"
    return f"{out} <- {element_name('', pair.input_shape, e.column).strip() or 'input'}"


def _checks_html(report: GradcheckReport) -> str:
    rows = "".join(
        f"<div>{'✓' if c.passed else badge('FAIL')} <b>{html.escape(c.name)}</b>: {html.escape(c.message)}</div>"
        for c in report.checks
    )
    return f"<div style='line-height:1.5;font-size:12px'>{rows}</div>"
