"""The pictures: what must not disappear from them, and what they must not touch."""

from __future__ import annotations

import io
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest

from gradcheck_widget import from_jacobian, gradcheck_report
from gradcheck_widget.plots import CELLS, BandFigure, MapFigure, _brief, decade, reduce_blocks


def pair_of(analytical, numerical=None, atol=1e-5, rtol=1e-3):
    """A report's pair with these Jacobians: a linear map and a `jac` that may differ from it."""
    analytical = np.asarray(analytical, float)
    A = analytical if numerical is None else np.asarray(numerical, float)
    f = from_jacobian(lambda x: A @ x, lambda x: analytical)
    return gradcheck_report(f, np.ones(A.shape[1]), atol=atol, rtol=rtol).pairs[0]


def both(pair):
    figures = MapFigure(), BandFigure()
    for figure in figures:
        figure.update(pair)
    return figures


def pixels(figure):
    return matplotlib.image.imread(io.BytesIO(figure.png()))


def test_block_maximum_keeps_a_single_failing_element():
    values = np.zeros((1000, 3001))
    values[777, 2999] = 5.0
    reduced = reduce_blocks(values, 150, 300)
    assert reduced.shape == (150, 300) and reduced.max() == 5.0 and (reduced == 5.0).sum() == 1
    assert reduced[777 * 150 // 1000, -1] == 5.0


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), CELLS, (CELLS[0] + 1, CELLS[1] - 1)])
def test_small_jacobians_are_not_reduced_more_than_needed(shape):
    values = np.random.default_rng(0).random(shape)
    reduced = reduce_blocks(values, *CELLS)
    assert reduced.shape == (min(shape[0], CELLS[0]), min(shape[1], CELLS[1]))
    if reduced.shape == shape:
        assert (reduced == values).all()


def test_one_failing_element_of_a_million_is_framed_on_the_map():
    A = np.random.default_rng(0).normal(size=(700, 900))
    wrong = A.copy()
    wrong[411, 33] += 1
    figure, band = both(pair_of(wrong, A))
    (outline,) = figure.map.frames.get_paths()
    x, y = outline.vertices[:-1].mean(axis=0)
    assert abs(x - 33) <= 2 and abs(y - 411) <= 3
    corners = figure.map.axes.transData.transform(outline.vertices[:-1])
    assert (np.ptp(corners, axis=0) > 6.9).all()  # pixels: a cell of a million would not be seen
    assert band.band.failing.get_xydata().shape == (1, 2)


def test_the_band_shows_failing_points_above_its_line():
    A = np.random.default_rng(1).normal(size=(6, 5))
    wrong = A.copy()
    wrong[2] *= 1.1
    pair = pair_of(wrong, A)
    band = both(pair)[1].band
    line = band.line.get_xydata()
    for points, above in ((band.failing, True), (band.passing, False)):
        xy = points.get_xydata()
        assert len(xy) == (5 if above else 25)
        assert ((xy[:, 1] > np.interp(xy[:, 0], *line.T)) == above).all()


def test_axes_stand_still_while_tolerances_move():
    pair = pair_of(np.random.default_rng(2).normal(size=(4, 4)))
    figures = both(pair)
    axes = [a for figure in figures for a in figure.figure.axes]
    limits = [(a.get_xlim(), a.get_ylim()) for a in axes]
    for atol, rtol in ((0.0, 0.0), (1e-14, 0.0), (10.0, 1.0), (0.0, 1e-3)):
        for figure in figures:
            figure.update(pair.judge(atol, rtol))
            figure.png()
        assert [(a.get_xlim(), a.get_ylim()) for a in axes] == limits


@pytest.mark.parametrize("kind", [MapFigure, BandFigure])
def test_the_same_state_gives_the_same_picture_whatever_was_shown_before(kind):
    good, bad = pair_of(np.eye(3)), pair_of(np.eye(3) * 2, np.eye(3))
    fresh, used = kind(), kind()
    fresh.update(bad)
    for pair in (good, bad.judge(10, 0), pair_of([[1.0]]), pair_of(np.eye(20)), bad):
        used.update(pair)
    assert (pixels(fresh) == pixels(used)).all()


@pytest.mark.parametrize(
    ("analytical", "numerical"),
    [
        ([[1.0]], [[1.0]]),
        ([[0.0]], [[0.0]]),
        ([[np.nan, 1.0]], [[1.0, 1.0]]),
        ([[np.inf, 1.0]], [[1.0, 1.0]]),
        (np.zeros((3, 4)), np.zeros((3, 4))),
        (np.full((3, 4), 1e-300), np.zeros((3, 4))),
        (np.full((3, 4), 1e200), np.zeros((3, 4))),
        (np.empty((0, 3)), np.empty((0, 3))),
    ],
    ids=["scalar", "zero", "nan", "inf", "zeros", "tiny", "huge", "empty"],
)
def test_odd_values_are_drawn_without_a_warning(analytical, numerical, recwarn):
    pair = pair_of(analytical, numerical)
    for figure in both(pair):
        assert pixels(figure).shape[1::-1] == figure.pixels == (530, 400)
        assert figure.alt(pair)
    assert not recwarn.list


@pytest.mark.parametrize("n", [3, 30], ids=["labels", "marks"])
def test_nan_has_a_sign_of_its_own(n):
    wrong = np.ones((1, n))
    wrong[0, [0, 2]] = np.nan, np.inf
    figure, band = both(pair_of(wrong, np.ones((1, n))))
    if n == 3:
        assert [t.get_text() for t in figure.map.labels][::2] == ["NaN", "inf"]
    else:
        assert sorted(figure.map.odd.get_offsets()[:, 0]) == [0, 2]
    assert "NaN, inf" in [t.get_text() for t in band.band.axes.get_yticklabels()]


def test_cells_of_a_small_map_bear_their_ratios_and_large_ones_none():
    A = np.ones((2, 2))
    figure, _ = both(pair_of([[1, 1.1], [1, 1.001 + 1e-5]], A))
    assert [t.get_text() for t in figure.map.labels][1] == "99"
    assert figure.map.labels[3].get_text() == "1"
    figure.update(pair_of(np.eye(20)))
    assert not any(t.get_visible() for t in figure.map.labels)


def test_numbers_in_cells_fit_them():
    values = np.r_[10.0 ** np.arange(-300, 300), np.nextafter(1000, 0), 9.99e-4, 0.99999, np.inf, np.nan, 0]
    assert max(map(len, map(_brief, values))) <= 6
    assert [_brief(v) for v in (0.5, 999.0, 4.2e6, 3e-9, 1e-3)] == ["0.5", "1e3", "4e6", "3e-9", "0.001"]


def test_names_with_dollar_signs_are_text_and_not_formulas():
    pair = pair_of(np.eye(2))
    object.__setattr__(pair, "input", "input 0 '$\\frac{'")
    for figure in both(pair):
        figure.png()  # mathtext would raise


@pytest.mark.parametrize(("v", "text"), [(-6, "1e-6"), (-2, "0.01"), (0, "1"), (2, "100"), (4, "1e4"), (3, "1000")])
def test_tick_labels_are_plain_text(v, text):
    assert decade(v) == text


def test_pyplot_and_the_backend_are_left_alone():
    code = (
        "import sys, numpy as np, matplotlib; matplotlib.use('svg');"
        "from gradcheck_widget import GradcheckWidget;"
        "w = GradcheckWidget(np.tanh, np.ones(3)); assert '<img' in w._picture.value;"
        "assert 'matplotlib.pyplot' not in sys.modules; assert matplotlib.get_backend().lower() == 'svg'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_words_of_the_band_never_hide_a_failing_element_or_the_ring():
    band = BandFigure().band
    below = min(band.failing.get_zorder(), band.ring.get_zorder())
    assert all(word.get_zorder() < below for word in band.words)
