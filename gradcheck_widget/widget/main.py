"""The widget itself: when to measure, when to judge, what to show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import traitlets
from ipywidgets import HTML, Button, Dropdown, FloatProgress, HBox, Layout, Text, VBox, Widget

from ..check import Settings, report_steps
from ..comparison import Element
from ..engines import Engine
from ..jacobians import Progress
from ..measurement import Measurement
from ..probes import Check
from ..report import GradcheckReport, PairReport, ratio_text, tolerance_value
from ..sweep import Slopes, ladder
from . import views
from .settings import Setting
from .worker import Worker

__all__ = ["GradcheckWidget"]

PATIENCE = 0.15  # seconds that a callback measures before it goes on in the background
FIRST = 1.0  # seconds for the first measurement, in the user's own cell: what is displayed then is complete
WORST = 12  # elements in the list


class GradcheckWidget(VBox):
    """Check a gradient and tune the check, in a notebook.

    Displays the verdict in words, sliders with exact boxes for `eps`, `atol` and `rtol`, the error map and the
    tolerance band of one Jacobian, one element in detail, and the side checks. A change of `atol` or `rtol` judges what
    was measured; only a change of `eps` runs `func` again, and then the numerical side alone. What takes longer than a
    moment goes on in the background, on copies of the inputs; the newest value wins.

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
        Trait, read-only: the verdict of `report`. False while there is none.
    report : GradcheckReport or None
        Trait, read-only: the last result; None before the first, and if `func` raised.

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
    passed = traitlets.Bool(False, read_only=True, help="The verdict at the settings of the report.")
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
        self._worker = Worker()
        self._ready = self._filling = False
        super().__init__(layout=Layout(width="100%", max_width="1100px"))
        self._arguments = {
            "func": func, "inputs": inputs, "eps": eps, "atol": atol, "rtol": rtol, "engine": engine, **settings
        }  # fmt: skip
        self._start()
        self._build()
        self._ready = True
        self._refresh(FIRST)

    def _start(self) -> None:
        """Take `_arguments`: validate them and make the measurement; nothing changes if they are refused."""
        given = dict(self._arguments)
        func, inputs, engine = (given.pop(name) for name in ("func", "inputs", "engine"))
        settings = Settings(**given)
        measurement = Measurement(
            func, inputs, engine=engine, masked=bool(settings.masked), backward=settings.check_backward_ad, stacklevel=3
        )
        settings.refuse_unsupported(measurement.engine)
        self._worker.stop()
        self._func, self._given_settings = func, settings
        self._measurement = measurement.isolated(settings.eps)
        self._checks: tuple[Check, ...] | None = None
        self._wanted: object = None  # identifies the newest measurement
        self._trouble = ""  # why the last result is not that of the present settings
        self._pair = 0
        self._element: tuple[int, int] | None = None  # row and column; None: the worst becomes it when shown
        self._slopes: dict[tuple[int, int], tuple[Slopes, ...]] = {}
        self._figures: tuple[Any, Any, Any] | None = None
        with self.hold_trait_notifications():
            self.eps, self.atol, self.rtol = settings.eps, settings.atol, settings.rtol

    def _build(self) -> None:
        wide, none = Layout(width="auto"), Layout(display="none")
        self._verdict = HTML(layout=wide)
        self._settings = [Setting(self, name, self._say) for name in ("eps", "atol", "rtol")]
        self._choice = Dropdown(
            description="Jacobian", layout=Layout(width="auto"), style={"description_width": "62px"},
            tooltip="which output with respect to which input the pictures show",
        )  # fmt: skip
        self._worst = Dropdown(
            description="element", layout=Layout(width="auto"), style={"description_width": "62px"},
            tooltip="the worst elements of this Jacobian, the worst first; the chosen one is ringed in the pictures",
        )  # fmt: skip
        self._index = Text(
            description="indices", continuous_update=False,
            layout=Layout(width="auto"), style={"description_width": "62px"},
            tooltip="choose an element by its indices: those of the output, an arrow, those of the input",
        )  # fmt: skip
        self._buttons = [
            self._button("Reset", "back to the settings that the widget was made with", self._reset),
            self._button("Copy call", "the gradcheck(...) line with these settings", self._show_call),
            self._button("Save report", "write the report as HTML and JSON beside the notebook", self._save_clicked),
        ]
        self._call = HTML(layout=Layout(display="none", width="auto"))
        self._bar = FloatProgress(min=0, max=1, layout=Layout(width="180px", height="14px", flex="0 0 auto"))
        self._left = HTML(layout=Layout(flex="1 1 auto", margin="0 0 0 8px"))
        self._stop = self._button("Stop", "give up this measurement and keep the last result", self._stopped)
        self._progress = HBox(
            [self._bar, self._left, self._stop],
            layout=Layout(width="auto", height="32px", align_items="center", visibility="hidden"),
        )
        self._message = HTML(layout=none)
        self._picture, self._detail, self._curve, self._side = (HTML(layout=Layout(width="auto")) for _ in range(4))
        sliders = VBox([s.view for s in self._settings], layout=Layout(flex="5 1 300px"))
        beside = VBox(
            [self._choice, self._worst, self._index, HBox(self._buttons, layout=Layout(flex_flow="row wrap"))],
            layout=Layout(flex="5 1 340px", overflow="hidden"),
        )
        self.children = (
            self._verdict,
            HBox([sliders, beside], layout=Layout(flex_flow="row wrap")),
            self._call,
            self._progress,
            self._message,
            self._picture,
            HBox(
                [
                    VBox([self._detail, self._side], layout=Layout(flex="5 1 340px", overflow="hidden")),
                    VBox([self._curve], layout=Layout(flex="5 1 340px", overflow="hidden")),
                ],
                layout=Layout(flex_flow="row wrap"),
            ),
        )
        self.add_class("gradcheck-widget")
        self._choice.observe(self._jacobian_chosen, "value")
        self._worst.observe(self._element_chosen, "value")
        self._index.observe(self._index_typed, "value")
        self.observe(self._changed, ["eps", "atol", "rtol"])

    @staticmethod
    def _button(text: str, tip: str, action: Callable[[], None]) -> Button:
        button = Button(description=text, tooltip=tip, layout=Layout(width="auto"))
        button.on_click(lambda _: action())
        return button

    @traitlets.validate("eps", "atol", "rtol")
    def _valid(self, proposal: Any) -> float:
        name = proposal["trait"].name
        return tolerance_value(name, proposal["value"], positive=name == "eps")

    # -- measuring and judging ------------------------------------------------------------------------------
    def _changed(self, change: Any) -> None:
        with self._lock:
            if self._ready:
                for setting in self._settings:
                    setting.show()
                self._refresh()

    def _refresh(self, patience: float = PATIENCE) -> None:
        """Bring the report and what is shown up to the present settings: nothing to do if they are."""
        with self._lock:
            old = self.report
            now = self._now()
            if old is not None and not self._trouble and (old.eps, old.atol, old.rtol) == (now.eps, now.atol, now.rtol):
                return
            self._say("")
            self._show_call(refresh=True)
            if old is not None and old.eps == now.eps:
                judged = old.judge(atol=now.atol, rtol=now.rtol)
                if not judged.failing_count or self._measurement.settled or judged.fast:
                    self._finish(judged)
                    return
            self._wanted = wanted = object()
            steps = report_steps(self._measurement, now, self._checks)
            if not self._advance(steps, wanted, time.perf_counter() + patience):
                self._trouble = "measuring at the new settings"
                self._show_verdict()
                self._worker.submit(lambda stopped: self._measure(steps, wanted, stopped))

    def _now(self) -> Settings:
        return Settings(**{**vars(self._given_settings), "eps": self.eps, "atol": self.atol, "rtol": self.rtol})

    def _advance(
        self,
        steps: Generator[Progress, None, tuple[GradcheckReport, tuple[Check, ...]]],
        wanted: object,
        deadline: float,
        progress: Callable[[Progress], None] | None = None,
    ) -> bool:
        """Measure until `deadline`; True if there is nothing left to do. Results are shown if still wanted."""
        try:
            while True:
                step = next(steps)
                if progress is not None:
                    progress(step)
                if time.perf_counter() > deadline:
                    return False
        except StopIteration as end:
            report, checks = end.value
            with self._lock:
                if self._wanted is wanted:
                    self._checks = checks
                    self._finish(self._judged(report))
        except (Exception, SystemExit) as error:
            with self._lock:
                if self._wanted is wanted:
                    self._finish(None, error)
        except KeyboardInterrupt:  # of the cell or the slider that waits for the measurement
            with self._lock:
                self._wanted = object()
                self._give_up("interrupted")
            raise
        return True

    def _judged(self, report: GradcheckReport) -> GradcheckReport:
        """atol and rtol may have moved on while it was measured."""
        return report if (report.atol, report.rtol) == (self.atol, self.rtol) else report.judge(
            atol=self.atol, rtol=self.rtol
        )  # fmt: skip

    def _measure(self, steps: Any, wanted: object, stopped: Callable[[], bool]) -> None:
        """On the worker's thread: go on until done, stopped or no longer wanted."""
        begin = time.perf_counter()
        shown = first = None

        def report(step: Progress) -> None:
            nonlocal shown, first
            clock = time.perf_counter()
            if first is None or step.total != first[1].total or step.done < first[1].done:
                first = (clock, step)
            if shown is None or clock - shown > 0.1:
                shown = clock
                rate = (step.done - first[1].done) / (clock - first[0]) if clock > first[0] else 0
                left = (step.total - step.done) / rate if rate > 0 else 0.0
                with self._lock:
                    if self._wanted is wanted:
                        self._show_progress(step, left if rate > 0 else clock - begin)

        try:
            while not stopped() and self._wanted is wanted:
                if self._advance(steps, wanted, time.perf_counter(), report):
                    break
        finally:
            steps.close()
            with self._lock:
                if self._wanted is wanted:
                    self._progress.layout.visibility = "hidden"

    def _show_progress(self, step: Progress, left: float) -> None:
        self._bar.value = step.done / max(step.total, 1)
        self._left.value = views.progress_html(step, left)
        self._progress.layout.visibility = "visible"

    def _stopped(self) -> None:
        with self._lock:
            self._worker.stop()
            self._wanted = object()
            self._progress.layout.visibility = "hidden"
            if self._trouble:
                self._give_up("stopped")

    def _give_up(self, why: str) -> None:
        self._trouble = f"{why}; this is the last result" if self.report is not None else why
        self._show_verdict()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the report is that of the present settings (or was stopped); False after `timeout` seconds.

        For scripts and tests: a notebook goes on while the widget measures.
        """
        return self._worker.wait(timeout)

    def _finish(self, report: GradcheckReport | None, error: BaseException | None = None) -> None:
        """Publish a result: `report`, or None and the `error` of func."""
        self._trouble = ""
        with self.hold_trait_notifications():
            self.set_trait("report", report)
            self.set_trait("passed", report is not None and report.passed)
        if error is not None:
            self._trouble = "func raised an exception, see below"
            self._say(views.trace(error), title=f"func raised {type(error).__name__} at eps={self.eps:g}")
        self._show()

    def update(self, **changes: Any) -> None:
        """Change `func`, `inputs` or any other argument; what is not named stays. The same as making the widget anew.

        Raises
        ------
        TypeError
            For an argument that the widget does not have. Further errors are those of the constructor; the widget
            stays as it was.
        """
        with self._lock:
            before = self._arguments
            self._arguments = {**before, "eps": self.eps, "atol": self.atol, "rtol": self.rtol, **changes}
            self._ready = False
            try:
                self._start()
            except BaseException:
                self._arguments = before
                raise
            finally:
                self._ready = True
            self.set_trait("report", None)
            self._choice.options = ()
            for setting in self._settings:
                setting.show()
            self._refresh(FIRST)

    # -- choosing -----------------------------------------------------------------------------------------
    def _jacobian_chosen(self, change: Any) -> None:
        with self._lock:
            if change["new"] is not None and change["new"] != self._pair:
                self._pair, self._element = change["new"], None
                self._show()

    def _element_chosen(self, change: Any) -> None:
        with self._lock:
            pair = self._shown
            if change["new"] is not None and pair is not None and not self._filling:
                self._element = divmod(change["new"], pair.ratio.shape[1])
                self._show()

    def _index_typed(self, change: Any) -> None:
        with self._lock:
            pair = self._shown
            if self._filling or pair is None:
                return
            try:
                self._element = _parse_place(change["new"], pair)
            except ValueError as error:
                self._say(str(error))
                self._fill(self._index, value=change["old"])
                return
            self._say("")
            self._show()

    def select(self, output: tuple[int, ...] | int, input: tuple[int, ...] | int) -> None:
        """Show one element of the present Jacobian, by its indices in the output and in the input.

        Raises
        ------
        ValueError
            If there is no such element.
        """
        with self._lock:
            pair = self._shown
            if pair is None:
                raise ValueError("there is no Jacobian to choose an element of")
            self._element = _flat(output, pair.output_shape, "output"), _flat(input, pair.input_shape, "input")
            self._show()

    def _reset(self) -> None:
        with self._lock, self.hold_trait_notifications():
            given = self._given_settings
            self.eps, self.atol, self.rtol = given.eps, given.atol, given.rtol
            self._element = None

    # -- showing ------------------------------------------------------------------------------------------
    @property
    def _shown(self) -> PairReport | None:
        pairs = self.report.pairs if self.report is not None else ()
        return pairs[self._pair] if self._pair < len(pairs) else None

    def _show_verdict(self) -> None:
        self._verdict.value = views.verdict_html(self.report, self._trouble)

    def _show(self) -> None:
        report = self.report
        self._show_verdict()
        self._show_choices()
        if report is None:
            return
        names = [(p.name, k) for k, p in enumerate(report.pairs)]
        if [tuple(o) for o in self._choice.options] != names:
            ratios = [p.comparison.largest_ratio for p in report.pairs]
            self._pair = ratios.index(max(ratios)) if ratios else 0  # start with the worst
            self._choice.options = names
            if names:
                self._choice.value = self._pair
        self._side.value = views.checks_html(report)
        pair = self._shown
        if pair is None or pair.size == 0:
            self._picture.value = self._detail.value = self._curve.value = ""
            self._worst.options = ()
            return
        # the worst at first; then it stays, so that a change of tolerances neither jumps nor runs func
        if self._element is None:
            self._element = next((e.row, e.column) for e in pair.worst(1))
        element = pair.comparison.element(*self._element)
        listed = list(pair.worst(WORST))
        if (element.row, element.column) not in [(e.row, e.column) for e in listed]:
            listed.append(element)
        columns = pair.ratio.shape[1]
        options = [
            (
                f"{'✗' if e.failing else '✓'} {views.place_text(pair, e)}  {ratio_text(e.ratio)}",
                e.row * columns + e.column,
            )
            for e in listed
        ]
        self._fill(self._worst, options=options)
        self._fill(self._worst, value=element.row * columns + element.column)
        if pair.shares is None:
            self._fill(self._index, value=_indices(pair, element))
        *figures, curve = self._made_figures()
        for figure in figures:
            figure.update(pair, element)
        images = [views.image_html(figure.png(), figure.alt(pair), *figure.pixels) for figure in figures]
        self._picture.value = views.side_by_side_html(images)
        self._show_element(pair, element, curve)

    def _fill(self, view: Any, **traits: Any) -> None:
        """Change a view without choosing: new options, for instance, choose the first of them."""
        self._filling = True
        try:
            view.set_trait(*traits.popitem())
        finally:
            self._filling = False

    def _show_choices(self) -> None:
        """Without a result there is nothing to choose or to see; the room is kept, so that nothing jumps."""
        report, pair = self.report, self._shown
        views = (self._picture, self._detail, self._curve, self._side)
        for view in (self._choice, self._worst, self._index, *views):
            view.layout.visibility = "hidden" if report is None else "visible"
        self._choice.layout.display = "" if report is not None and len(report.pairs) > 1 else "none"
        self._worst.layout.display = "" if pair is not None and pair.size else "none"
        self._index.layout.display = "" if pair is not None and pair.size and pair.shares is None else "none"

    def _made_figures(self) -> tuple[Any, Any, Any]:
        if self._figures is None:
            from ..plots import BandFigure, ElementFigure, MapFigure  # matplotlib: only once there is something to draw

            self._figures = MapFigure(), BandFigure(), ElementFigure()
        return self._figures

    def _show_element(self, pair: PairReport, element: Element, curve: Any) -> None:
        key = (pair.key[1], element.column)
        slopes = self._slopes.get(key)
        if slopes is None and pair.shares is None and not self._worker.busy:
            slopes = self._measured_slopes(*key)
        eps = self.report.eps
        self._detail.value = views.element_html(pair, element, slopes or (), eps)
        if not slopes:
            self._curve.value = ""
            return
        points = {s.eps: s.central[pair.key][element.row].item() for s in slopes} | {eps: element.numerical}
        curve.update(element.analytical, element.tolerance, eps, list(points.items()))
        alt = f"Error of {pair.place(element)} against eps; the tolerance is {element.tolerance:.3g}"
        self._curve.value = views.image_html(curve.png(), alt, *curve.pixels)

    def _measured_slopes(self, i: int, column: int) -> tuple[Slopes, ...] | None:
        """The ladder of steps of one element, if it can be had in a moment; None if func is too slow for that."""
        steps = ladder(self._measurement, i, column)
        deadline = time.perf_counter() + PATIENCE
        try:
            while time.perf_counter() < deadline:
                next(steps)
        except StopIteration as end:
            found: tuple[Slopes, ...] = end.value
            self._slopes[i, column] = found
            return found
        except Exception:  # func's trouble at other steps is not this element's
            return None
        finally:
            steps.close()
        return None

    def _say(self, text: str, title: str = "") -> None:
        """A message in the widget: of an exception, or of a value that cannot be taken. '' removes it."""
        self._message.value = views.message_html(text, title)
        self._message.layout.display = "" if text else "none"

    # -- taking it along ------------------------------------------------------------------------------------
    @property
    def call(self) -> str:
        """The ``gradcheck(...)`` line with the present settings."""
        name = getattr(self._func, "__name__", "func")
        name = name if name.isidentifier() else "func"
        given, default = vars(self._now()), vars(Settings())
        extra = [f"{k}={v!r}" for k, v in given.items() if k not in ("eps", "atol", "rtol") and v != default[k]]
        if self._arguments["engine"] is not None and isinstance(self._arguments["engine"], str):
            extra.append(f"engine={self._arguments['engine']!r}")
        settings = ", ".join([f"eps={self.eps!r}", f"atol={self.atol!r}", f"rtol={self.rtol!r}", *extra])
        return f"gradcheck({name}, inputs, {settings})"

    def _show_call(self, refresh: bool = False) -> None:
        if refresh and self._call.layout.display == "none":
            return
        if not refresh and self._call.layout.display != "none":
            self._call.layout.display = "none"
            return
        self._call.value = views.call_html(self.call)
        self._call.layout.display = ""

    def save(self, path: str | Path) -> tuple[Path, Path]:
        """Write the report as one HTML file with its picture and as JSON: `path` with ``.html`` and ``.json``.

        Raises
        ------
        ValueError
            If there is no report.
        FileExistsError
            If one of the files is there already: nothing is overwritten.
        """
        report = self.report
        if report is None:
            raise ValueError("there is no report to save")
        page, data = Path(path).with_suffix(".html"), Path(path).with_suffix(".json")
        for file in (page, data):
            if file.exists():
                raise FileExistsError(f"{file} is there already")
        body = f"{self._picture.value}{self._curve.value}{report._repr_html_()}"
        page.write_text(
            "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'><title>gradcheck report</title></head>"
            f"<body style='font-family:sans-serif'>{body}</body></html>\n",
            encoding="utf-8",
        )
        data.write_text(report.to_json(indent=1) + "\n", encoding="utf-8")
        return page, data

    def _save_clicked(self) -> None:
        try:
            number = next(n for n in range(1, 10_000) if not Path(f"gradcheck_report_{n}.html").exists())
            page, data = self.save(f"gradcheck_report_{number}")
        except (OSError, ValueError) as error:
            self._say(str(error))
        else:
            self._say(f"saved {page} and {data}")

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Where no kernel lives, a picture and a text of the last state stand in for the widget."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None and self.report is not None:
            data["text/plain"] = str(self.report)
            data["text/html"] = f"{self._picture.value}{self.report._repr_html_()}"
        return bundle

    def __repr__(self) -> str:
        name = getattr(self._func, "__name__", repr(self._func))
        return f"GradcheckWidget({name}, ..., eps={self.eps!r}, atol={self.atol!r}, rtol={self.rtol!r})"

    # -- life ---------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Stop measuring, and close every model of the widget, its parts' layouts and styles included."""
        self._worker.stop()
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


def _parse_place(text: str, pair: PairReport) -> tuple[int, int]:
    """``2,1 <- 0,3`` as row and column."""
    parts = text.replace("[", "").replace("]", "").split("<-")
    example = _indices(pair, pair.worst(1)[0])
    rule = f"an element is written as output indices <- input indices, such as {example}; got {text!r}"
    if len(parts) != 2:
        raise ValueError(rule)
    try:
        out, into = (tuple(int(n) for n in part.split(",") if n.strip()) for part in parts)
    except ValueError:
        raise ValueError(rule) from None
    return _flat(out, pair.output_shape, "output"), _flat(into, pair.input_shape, "input")


def _indices(pair: PairReport, element: Element) -> str:
    """Row and column as ``2,1 <- 0,3``."""
    places = (np.unravel_index(element.row, pair.output_shape), np.unravel_index(element.column, pair.input_shape))
    return " <- ".join(",".join(str(int(k)) for k in place) for place in places)


def _flat(index: tuple[int, ...] | int, shape: tuple[int, ...], which: str) -> int:
    """Flat position of `index` in `shape`."""
    indices = (index,) if isinstance(index, int) else tuple(index)
    if len(indices) != len(shape) or any(not 0 <= k < n for k, n in zip(indices, shape, strict=False)):
        raise ValueError(f"the {which} has shape {shape}: it has no element {indices}")
    flat = 0
    for k, n in zip(indices, shape, strict=True):
        flat = flat * n + k
    return flat
