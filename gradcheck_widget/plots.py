"""Pictures of one Jacobian under its tolerances, each a reusable Figure: error map, tolerance band, one element.

Never pyplot and never mathtext: neither is safe in threads, and a library leaves no global figure behind. Axes are
linear in log10, with tick labels of our own. A change of tolerances moves the artists that are there already.
"""

from __future__ import annotations

import io
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.image import imsave
from matplotlib.patheffects import Normal, withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter

from .comparison import Element
from .report import PairReport

__all__ = ["BandFigure", "ElementFigure", "MapFigure", "decade", "reduce_blocks"]

Array = np.ndarray[Any, Any]

PASS, FAIL, FRAME, INK, FAINT = "#2b6c99", "#b3401a", "#3b0a08", "#24303c", "#6b7783"
FONT: dict[str, Any] = {"family": "DejaVu Sans", "size": 9, "color": INK, "parse_math": False}
BELOW, ABOVE = 8.0, 4.0  # decades of error / tolerance below and above 1 that the map's colours tell apart
FRAMES = 4000  # with more failing cells than this their colour has to do
CELLS = (150, 300)  # rows and columns that the map can show; larger Jacobians are reduced by blocks
LABELS = (12, 8)  # up to so many rows and columns, each cell bears its number
SEEN = 7  # pixels of the smallest frame around a failing cell
GRID = 400  # the band keeps one point for each cell of a GRID x GRID raster
FLOOR = -16.0  # errors of the band start at 1e-16, so that its axis stands still while sliders move

_drawing = threading.Lock()  # matplotlib's text and layout caches are shared by all figures


def decade(v: float) -> str:
    """Label of 10**v without mathtext: 1e-6, 0.01, 1, 100."""
    n = round(v)
    if abs(v - n) > 1e-9:
        return f"{10**v:.2g}"
    return f"1e{n}" if n < -2 or n > 3 else f"{10.0**n:g}"


def reduce_blocks(values: Array, rows: int, columns: int) -> Array:
    """`values` as at most rows x columns blocks, each its maximum, so that no large one disappears."""
    for axis, limit in ((0, rows), (1, columns)):
        n = values.shape[axis]
        if n > limit:
            starts = np.linspace(0, n, limit, endpoint=False).astype(int)
            values = np.maximum.reduceat(values, starts, axis=axis)
    return values


class _Picture:
    """A Figure of one panel whose artists are moved, and what draws it quickly.

    Parameters
    ----------
    width, height : float
        Inches.
    dpi : int
    """

    SIZE = (5.3, 4.0)
    DPI = 100

    def __init__(self, width: float | None = None, height: float | None = None, dpi: int = DPI) -> None:
        size = (width or self.SIZE[0], height or self.SIZE[1])
        with _drawing:
            self.figure = Figure(figsize=size, dpi=dpi, facecolor="white")
            FigureCanvasAgg(self.figure)
            self._canvas = _Canvas(self.figure, self._furnish())

    def _furnish(self) -> list[Any]:
        """Make the axes; the artists that move."""
        raise NotImplementedError

    def png(self) -> bytes:
        return self._canvas.png()

    @property
    def pixels(self) -> tuple[int, int]:
        """Width and height of the picture."""
        width, height = self.figure.get_size_inches() * self.figure.dpi
        return round(width), round(height)


class MapFigure(_Picture):
    """Error map of one `PairReport`: error / tolerance of every element."""

    def _furnish(self) -> list[Any]:
        self.map = _ErrorMap(
            self.figure.add_axes((0.15, 0.155, 0.69, 0.735)), self.figure.add_axes((0.86, 0.155, 0.026, 0.735))
        )
        return self.map.moving

    def update(self, pair: PairReport, chosen: Element | None = None) -> None:
        """Show `pair`, with `chosen` (by default the worst element) marked."""
        with _drawing, np.errstate(all="ignore"):
            if self.map.update(pair, chosen or _worst(pair)):
                self._canvas.forget()

    @staticmethod
    def alt(pair: PairReport) -> str:
        """What the picture shows, in a sentence."""
        worst = pair.worst(1)
        text = f"Error map of {pair.name}: {pair.failing_count} of {pair.size} elements out of tolerance"
        return text + (f"; the worst is {pair.describe(worst[0])}" if worst else "")


class BandFigure(_Picture):
    """Tolerance band of one `PairReport`: its errors under the line atol + rtol * |numerical|."""

    def _furnish(self) -> list[Any]:
        self.band = _ToleranceBand(self.figure.add_axes((0.135, 0.155, 0.84, 0.735)))
        return self.band.moving

    def update(self, pair: PairReport, chosen: Element | None = None) -> None:
        """Show `pair`, with `chosen` (by default the worst element) ringed."""
        with _drawing, np.errstate(all="ignore"):
            if self.band.update(pair, chosen or _worst(pair)):
                self._canvas.forget()

    @staticmethod
    def alt(pair: PairReport) -> str:
        """What the picture shows, in a sentence."""
        zeros = int(np.count_nonzero(pair.error == 0))
        return (
            f"Tolerance band of {pair.name}: {pair.failing_count} of {pair.size} errors lie above the line "
            f"{pair.comparison.atol:g} + {pair.comparison.rtol:g} * |numerical|; {zeros} are exactly 0"
        )


def _worst(pair: PairReport) -> Element | None:
    return next((e for e in pair.worst(1) if e.ratio > 0), None)


class ElementFigure(_Picture):
    """One element: its error against eps, where the tolerance lies, and which eps is set."""

    SIZE = (5.3, 2.9)

    def _furnish(self) -> list[Any]:
        axes: Any = self.figure.add_axes((0.135, 0.185, 0.845, 0.69))
        self.axes = axes
        _plain_axes(axes, "error against eps")
        axes.grid(True, color="#e3e7eb", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel("eps", **FONT)
        axes.set_ylabel("|analytical - numerical|", labelpad=2, **FONT)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: decade(v)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: "0" if v == self.zero else decade(v)))
        self.fill = axes.axhspan(-20, -5, color=PASS, alpha=0.1, lw=0, zorder=0.5)
        (self.tolerance,) = axes.plot([], [], color=PASS, linewidth=1.8)
        (self.now,) = axes.plot([], [], color="black", linewidth=1.2)
        (self.errors,) = axes.plot([], [], color=FAIL, linewidth=1.4, marker="o", markersize=4)
        self.words = axes.text(0, 0, "tolerance", **{**FONT, "color": PASS, "size": 8.5})
        self.zero = 0.0
        self._limits: tuple[Any, ...] = ()
        return [self.fill, self.tolerance, self.now, self.errors, self.words]

    def update(
        self, analytical: complex, tolerance: float, eps: float, points: Sequence[tuple[float, complex]]
    ) -> None:
        """`points` are (eps, difference quotient); `tolerance` is that of the element at the present `eps`."""
        with _drawing, np.errstate(all="ignore"):
            steps = np.array([np.log10(h) for h, _ in points])
            errors = np.array([abs(analytical - d) for _, d in points])
            y = np.log10(errors)
            finite = np.isfinite(y)
            low = math.floor(min(y[finite].min(initial=-10), math.log10(max(tolerance, 1e-15))) - 0.5)
            high = math.ceil(max(y[finite].max(initial=0), math.log10(max(tolerance, 1e-15))) + 0.5)
            self.zero = low - 0.8
            y = np.where(errors == 0, self.zero, y)
            order = np.argsort(steps)
            self.errors.set_data(steps[order], y[order])
            left = min(steps.min(initial=-12), math.log10(eps)) - 0.4
            right = max(steps.max(initial=-1), math.log10(eps)) + 0.4
            limits = (left, right, low, high, bool((errors == 0).any()))
            if limits != self._limits:
                self._limits = limits
                self._canvas.forget()
            self.axes.set_xlim(left, right)
            self.axes.set_ylim(low - 1.4, high)
            self.axes.xaxis.set_major_locator(FixedLocator(_decades(left, right, 6)))
            zeros = [self.zero] if (errors == 0).any() else []
            self.axes.yaxis.set_major_locator(FixedLocator(zeros + _decades(low, high, 6)))
            level = math.log10(tolerance) if tolerance > 0 else low - 2
            self.tolerance.set_data([left, right], [level, level])
            self.fill.set_y(low - 2)
            self.fill.set_height(level - low + 2)
            self.now.set_data([math.log10(eps)] * 2, [low - 1.4, high])
            self.words.set_position((left + 0.15, level + 0.12 * (high - low) / 6))


class _Canvas:
    """Draws a figure quickly: what moves is drawn anew over a kept picture of what stays (axes, ticks, labels)."""

    def __init__(self, figure: Figure, moving: Sequence[Any]) -> None:
        self._canvas: Any = figure.canvas
        self._moving = moving  # may grow
        self._still: Any = None

    def forget(self) -> None:
        """The axes have changed: the next picture is drawn in full."""
        self._still = None

    def png(self) -> bytes:
        buffer = io.BytesIO()
        with _drawing:
            moving = sorted(self._moving, key=lambda artist: artist.zorder)
            if self._still is None:
                for artist in moving:
                    artist.set_animated(True)  # left out of a full draw
                self._canvas.draw()
                self._still = self._canvas.copy_from_bbox(self._canvas.figure.bbox)
            else:
                self._canvas.restore_region(self._still)
            for artist in moving:
                artist.axes.draw_artist(artist)
            imsave(buffer, np.asarray(self._canvas.buffer_rgba()), format="png", pil_kwargs={"compress_level": 1})
        return buffer.getvalue()


def _plain_axes(axes: Any, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=10.5, color=INK, fontfamily=FONT["family"], parse_math=False, pad=7)
    axes.tick_params(labelsize=8.5, labelcolor=INK, color=FAINT, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9aa5b1")


def _ring(axes: Any) -> Any:
    """Marks the element in question: black, with a white edge that shows on dark colours."""
    edge = [withStroke(linewidth=4.0, foreground="white"), Normal()]
    return axes.scatter(
        [], [], marker="o", s=150, facecolors="none", edgecolors="black", linewidths=1.8, zorder=5, path_effects=edge
    )


def _ticks(shape: tuple[int, ...], count: int) -> list[int]:
    """About `count` flat positions; for a matrix or more they start rows (or planes) where that is possible."""
    size = math.prod(shape)
    if not shape or size == 0:
        return []
    step = max(1, math.ceil(size / count))
    units = [math.prod(shape[k:]) for k in range(len(shape), 0, -1)]  # 1, last axis, last two axes, ...
    unit = next((u for u in units if step <= u <= 3 * step), max(u for u in units if u <= step))
    factor = next(f * 10**e for e in range(20) for f in (1, 2, 5) if f * 10**e * unit >= step)
    return list(range(0, size, factor * unit))


def _flat_label(shape: tuple[int, ...]) -> Callable[[float, Any], str]:
    """Tick labels in the tensor's own indices: 7 for a vector, 1,2 for a matrix."""
    size = math.prod(shape)

    def label(v: float, _: Any) -> str:
        n = round(v)
        if abs(v - n) > 1e-6 or not 0 <= n < size:
            return ""
        return ",".join(str(int(a)) for a in np.unravel_index(n, shape)) if shape else ""

    return label


class _ErrorMap:
    """log10(error / tolerance) of every element; 1 (the limit) is the neutral middle, failing elements are framed."""

    def __init__(self, axes: Any, colour_axes: Any) -> None:
        from matplotlib import colormaps

        self.axes = axes
        _plain_axes(axes, "error / tolerance  (1 = at the limit)")
        axes.set_facecolor("white")
        colours = colormaps["RdBu_r"].with_extremes(bad="#f1f3f5")  # bad: error exactly 0
        self.image = axes.imshow(
            np.zeros((1, 1)), cmap=colours, vmin=-1, vmax=1, aspect="auto", interpolation="nearest", origin="upper"
        )
        self.frames = PolyCollection([], facecolors="none", edgecolors=FRAME, linewidths=0.9, zorder=3)
        axes.add_collection(self.frames, autolim=False)
        dark = [withStroke(linewidth=3.0, foreground="black"), Normal()]
        self.odd = axes.scatter([], [], marker="x", c="white", linewidths=1.4, zorder=4, path_effects=dark)
        self.ring = _ring(axes)
        edge = [withStroke(linewidth=4.5, foreground="white"), Normal()]
        self.cell = PolyCollection(
            [], facecolors="none", edgecolors="black", linewidths=2.2, zorder=5, path_effects=edge
        )
        axes.add_collection(self.cell, autolim=False)
        self.labels: list[Any] = []
        self.note = axes.text(0.5, 0.5, "", transform=axes.transAxes, ha="center", va="center", **FONT)
        bar = axes.figure.colorbar(self.image, cax=colour_axes)
        bar.outline.set_visible(False)
        marks = {-1: "≤ 1e-8", -0.75: "1e-6", -0.5: "1e-4", -0.25: "0.01", 0: "1", 0.5: "100", 1: "≥ 1e4"}
        bar.ax.yaxis.set_major_locator(FixedLocator(list(marks)))
        bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda v, _: marks.get(v, "")))
        bar.ax.tick_params(labelsize=8.5, labelcolor=INK, length=0, pad=3)
        self.layout: tuple[Any, ...] = ()
        self.moving = [self.image, self.frames, self.odd, self.ring, self.cell, self.note]

    def update(self, pair: PairReport, chosen: Element | None) -> bool:
        """Move the artists; True if the axes had to change."""
        m, n = pair.ratio.shape
        layout = (pair.output_shape, pair.input_shape, pair.output, pair.input)
        laid_out = layout != self.layout
        if laid_out:
            self.layout = layout
            self._lay_out(pair, m, n)
        self.note.set_text("" if pair.size else "no elements")
        if pair.size == 0:
            return laid_out
        reduced = reduce_blocks(pair.ratio, *CELLS)
        decades = np.log10(np.clip(reduced, 1e-300, 1e300))
        shades = decades / np.where(decades < 0, BELOW, ABOVE)
        self.image.set_data(np.ma.masked_where(reduced == 0, shades))
        rows, columns = reduced.shape
        centre = np.array([m / rows, n / columns])
        failing = reduced > 1 if pair.size != reduced.size else pair.failing
        places = np.argwhere(failing)
        self.frames.set_verts(_outlines(places[:0] if len(places) > FRAMES else places, centre, self._least(m, n)))
        labelled = m <= LABELS[0] and n <= LABELS[1]
        if labelled or self.labels:
            self._label(
                np.where(np.isfinite(pair.error), pair.ratio, pair.error) if labelled else reduced, shades, labelled
            )
        unknown = reduce_blocks(1.0 * ~np.isfinite(pair.error), *CELLS) > 0
        self.odd.set_offsets(_cells(np.argwhere(unknown)[: 0 if labelled else 4000], centre))
        at = [] if chosen is None else [[chosen.row, chosen.column]]
        ones = np.ones(2)
        self.cell.set_verts(_outlines(np.array(at if labelled else [], int).reshape(-1, 2), ones, 0 * ones))
        self.ring.set_offsets(_cells(np.array([] if labelled else at, int).reshape(-1, 2), ones))
        return laid_out

    def _least(self, m: int, n: int) -> Array:
        """Rows and columns that a frame needs at least to be seen."""
        box = self.axes.get_position().size * self.axes.figure.get_size_inches() * self.axes.figure.dpi
        return np.array([m / box[1], n / box[0]]) * SEEN

    def _label(self, ratios: Array, shades: Array, shown: bool) -> None:
        """Numbers in the cells of a small map."""
        cells = list(np.ndindex(ratios.shape)) if shown else []
        while len(self.labels) < len(cells):
            style = {**FONT, "size": 8, "ha": "center", "va": "center", "zorder": 4.5}
            self.labels.append(self.axes.text(0, 0, "", **style))
            self.labels[-1].set_animated(True)
            self.moving.append(self.labels[-1])
        for k, label in enumerate(self.labels):
            label.set_visible(k < len(cells))
            if k < len(cells):
                row, column = cells[k]
                label.set_position((column, row))
                label.set_text(_brief(float(ratios[row, column])))
                label.set_color("white" if ratios[row, column] and abs(shades[row, column]) > 0.6 else INK)

    def _lay_out(self, pair: PairReport, m: int, n: int) -> None:
        self.image.set_extent((-0.5, max(n, 1) - 0.5, max(m, 1) - 0.5, -0.5))
        self.axes.set_xlim(-0.5, max(n, 1) - 0.5)
        self.axes.set_ylim(max(m, 1) - 0.5, -0.5)
        for axis, shape, name, bins in (
            (self.axes.xaxis, pair.input_shape, pair.input, 8),
            (self.axes.yaxis, pair.output_shape, pair.output, 12),
        ):
            axis.set_major_locator(FixedLocator(_ticks(shape, bins)))
            axis.set_major_formatter(FuncFormatter(_flat_label(shape)))
            kind = "scalar" if not shape else f"index, shape {' x '.join(map(str, shape))}"
            axis.set_label_text(f"{_short(name)}  ({kind})", **FONT)


def _short(name: str, limit: int = 24) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


def _brief(ratio: float) -> str:
    """A number in at most five characters."""
    if not np.isfinite(ratio):
        return "NaN" if np.isnan(ratio) else "inf"
    if ratio == 0:
        return "0"
    text = f"{ratio:.2g}" if 0.001 <= ratio < 1000 else f"{ratio:.0e}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def _outlines(places: Array, size: Array, least: Array) -> list[Array]:
    """Corners of reduced cells (row, column) in element coordinates (x, y), `least` high and wide at least."""
    corners = np.array([(0, 0), (0, 1), (1, 1), (1, 0)])
    half = np.maximum(size, least) / 2
    return list((((places[:, None, :] + 0.5) * size - 0.5) + (2 * corners - 1) * half)[:, :, ::-1])


def _cells(places: Array, size: Array) -> Array:
    """Centres of reduced cells (row, column) in element coordinates (x, y)."""
    return ((places + 0.5) * size - 0.5)[:, ::-1] if len(places) else np.empty((0, 2))


class _ToleranceBand:
    """|error| of every element against |numerical|, under the line atol + rtol * |numerical|."""

    def __init__(self, axes: Any) -> None:
        self.axes = axes
        _plain_axes(axes, "tolerance band  (failing elements lie above the line)")
        axes.grid(True, color="#e3e7eb", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_xlabel("|numerical|", **FONT)
        axes.set_ylabel("|analytical - numerical|", labelpad=2, **FONT)
        axes.yaxis.set_major_formatter(FuncFormatter(self._error_label))
        axes.xaxis.set_major_formatter(FuncFormatter(self._size_label))
        (self.fill,) = axes.fill([0], [0], color=PASS, alpha=0.1, lw=0, zorder=0.5)
        (self.line,) = axes.plot([], [], color=PASS, linewidth=1.8, zorder=2)
        (self.corner,) = axes.plot([], [], color=PASS, linewidth=0.8, linestyle=":", zorder=1)
        (self.passing,) = axes.plot([], [], linestyle="", marker="o", markersize=3, color=PASS, alpha=0.75, mew=0)
        (self.failing,) = axes.plot([], [], linestyle="", marker="x", markersize=6, color=FAIL, mew=1.5, zorder=4)
        self.ring = _ring(axes)
        halo = [withStroke(linewidth=2.5, foreground="white")]
        style = {**FONT, "color": PASS, "size": 8.5, "path_effects": halo, "zorder": 2.5}
        self.words = [axes.text(0, 0, w, **style) for w in ("atol decides", "rtol decides")]
        self.rails = axes.text(0.99, 0.07, "", transform=axes.transAxes, ha="right", va="bottom",
                               **{**FONT, "color": FAINT, "size": 8})  # fmt: skip
        self.source: Any = None
        self.layout: tuple[Any, ...] = ()
        self.moving = [
            self.fill, self.line, self.corner, self.passing, self.failing, self.ring, *self.words, self.rails
        ]  # fmt: skip
        self.x = self.y = np.empty(0)

    def _error_label(self, v: float, _: Any) -> str:
        return "0" if v == self.zero_y else "NaN, inf" if v == self.odd_y else decade(v)

    def _size_label(self, v: float, _: Any) -> str:
        return "0" if v == self.zero_x else decade(v)

    def update(self, pair: PairReport, chosen: Element | None) -> bool:
        """Move the artists; True if the axes had to change."""
        laid_out = self.source is not pair.numerical and self._place(pair)
        self.source = pair.numerical
        failing = pair.failing.ravel()
        self.passing.set_data(*self._thinned(~failing))
        self.failing.set_data(*self._thinned(failing))
        self._draw_line(pair.comparison.atol, pair.comparison.rtol)
        at = 0 if chosen is None else chosen.row * pair.ratio.shape[1] + chosen.column
        self.ring.set_offsets(np.empty((0, 2)) if chosen is None else [[self.x[at], self.y[at]]])
        return laid_out

    def _place(self, pair: PairReport) -> bool:
        """Positions of the points and limits of the axes; True if the limits changed.

        They depend on the measurement, not on the tolerances.
        """
        size, error = abs(pair.numerical).ravel(), pair.error.ravel()
        x, y = np.log10(size), np.log10(error)
        finite = np.isfinite(x)
        low, high = (x[finite].min(), x[finite].max()) if finite.any() else (-1.0, 1.0)
        low, high = math.floor(low - 0.3), math.ceil(high + 0.3)
        if high - low < 4:
            low, high = low - (4 - high + low) // 2 - 1, high + 1
        top = math.ceil(max(1.0, *(y[np.isfinite(y)].max(initial=1.0),)) + 0.2)
        bottom = min(FLOOR, math.floor(y[np.isfinite(y)].min(initial=FLOOR)))
        # exact zeros, and what is not a number, have rails of their own outside the decades
        self.zero_x, self.zero_y, self.odd_y = low - 1.0, bottom - 1.5, top + 1.5
        has_zero_x, has_odd = bool((size == 0).any()), bool((~np.isfinite(error)).any())
        self.x = np.where(size == 0, self.zero_x, np.where(finite, x, high))
        self.y = np.where(error == 0, self.zero_y, np.where(np.isfinite(error), y, self.odd_y))
        layout = (low, high, bottom, top, has_zero_x, has_odd)
        zeros = int(np.count_nonzero(error == 0))
        self.rails.set_text(f"error exactly 0: {zeros:,} of {error.size:,}" if zeros else "")
        if layout == self.layout:
            return False
        self.layout = layout
        self.axes.set_xlim(low - (1.5 if has_zero_x else 0), high)
        self.axes.set_ylim(bottom - 2.3, top + (2.3 if has_odd else 0))
        self.axes.xaxis.set_major_locator(FixedLocator(([self.zero_x] if has_zero_x else []) + _decades(low, high, 6)))
        self.axes.yaxis.set_major_locator(
            FixedLocator([self.zero_y, *_decades(bottom, top, 9)] + ([self.odd_y] if has_odd else []))
        )
        return True

    def _thinned(self, chosen: Array) -> tuple[Array, Array]:
        """The chosen points, one for each cell of a fine raster: the picture is the same, and quick."""
        x, y = self.x[chosen], self.y[chosen]
        if x.size <= 2000:
            return x, y
        (x0, x1), (y0, y1) = self.axes.get_xlim(), self.axes.get_ylim()
        cell = (np.clip((x - x0) / (x1 - x0), 0, 0.999) * GRID).astype(int) * GRID
        cell += (np.clip((y - y0) / (y1 - y0), 0, 0.999) * GRID).astype(int)
        first = np.full(GRID * GRID, -1)
        first[cell] = np.arange(cell.size)
        keep = first[first >= 0]
        return x[keep], y[keep]

    def _draw_line(self, atol: float, rtol: float) -> None:
        left, right = self.axes.get_xlim()
        bottom, top = self.axes.get_ylim()
        x = np.linspace(left, right, 120)
        with np.errstate(divide="ignore"):
            y = np.maximum(np.log10(atol + rtol * 10**x), bottom - 1)
        self.line.set_data(x, y)
        self.fill.set_xy(np.column_stack([np.r_[x, right, left], np.r_[y, bottom, bottom]]))
        corner = math.log10(atol / rtol) if atol > 0 and rtol > 0 else None
        inside = corner is not None and left < corner < right
        self.corner.set_data(([corner] * 2, [bottom, top]) if inside else ([], []))
        for word, (a, b) in zip(
            self.words,
            (
                (left, min(corner, right) if corner is not None else (right if atol > 0 else left)),
                (max(corner, left) if corner is not None else (left if rtol > 0 else right), right),
            ),
            strict=True,
        ):
            middle = (a + b) / 2
            height = np.log10(max(atol + rtol * 10**middle, 1e-300)) + 0.35
            word.set_visible(b - a > 0.24 * (right - left) and bottom < height < top - 1)
            word.set_position((middle, height))
            word.set_ha("center" if b < right else "right")
            if b >= right and a > left:
                word.set_position((right - 0.02 * (right - left), np.log10(atol + rtol * 10**right) + 0.35))


def _decades(low: float, high: float, count: int) -> list[float]:
    step = max(1, math.ceil((high - low) / count))
    return [float(v) for v in range(math.ceil(low), math.floor(high) + 1) if v % step == 0]
