"""Every state of the widget in JupyterLab, at two widths and in both themes: nothing is clipped.

    SHOTS=/tmp/gallery python -m pytest tests/browser/test_gallery.py

leaves the pictures of each state, to be looked at.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import run_all, write_notebook
from playwright.sync_api import expect

HEAD = """
import numpy as np
from gradcheck_widget import GradcheckWidget, from_jacobian

rng = np.random.default_rng(0)

def linear(m, n, wrong=()):
    a = rng.normal(size=(m, n))
    jacobian = a.copy()
    for at, factor in wrong:
        jacobian[at] = jacobian[at] * factor
    return GradcheckWidget(from_jacobian(lambda x: a @ x, lambda x: jacobian), rng.normal(size=n))
"""
STATES = {
    "scalar": "GradcheckWidget(lambda x: x * x, np.array(2.0))",
    "one-by-one-wrong": "linear(1, 1, [(0, 1.1)])",
    "all-pass": "linear(6, 4)",
    "all-fail": "linear(6, 4, [(slice(None), -1)])",
    "one-wrong-column": "linear(100, 100, [((slice(None), 33), 1.1)])",
    "many-jacobians": "GradcheckWidget(lambda x, w, b: (np.tanh(x @ w + b), np.sum(w * w)), "
    "(rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=2)))",
    "complex": "GradcheckWidget(lambda z: z * z, rng.normal(size=4) + 1j * rng.normal(size=4))",
    "not-a-number": "linear(5, 5, [((1, 2), np.nan), ((3, 4), np.inf)])",
    "large": "linear(600, 400, [((123, 321), 1.1)])",
    "raises": "GradcheckWidget(lambda x: 1 / 0, np.ones(3))",
}


@pytest.mark.parametrize("jupyter", ["lab"], indirect=True)
@pytest.mark.parametrize("state", STATES)
def test_nothing_is_clipped_at_any_width_or_theme(page, jupyter, state):
    write_notebook(jupyter, "state.ipynb", HEAD + STATES[state])
    page.set_viewport_size({"width": 1400, "height": 1300})
    run_all(page, jupyter, "state.ipynb")
    widget = page.locator(".gradcheck-widget").first
    expect(widget.get_by_role("status")).to_be_visible()
    if state != "raises":
        expect(widget.locator("img").first).to_be_visible(timeout=120_000)  # the large one takes a while
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", theme)
        page.wait_for_function(f"document.body.dataset.jpThemeName === '{theme}'")
        for width in (1400, 900):
            page.set_viewport_size({"width": width, "height": 1300})
            page.wait_for_timeout(300)
            widget.scroll_into_view_if_needed()
            if "SHOTS" in os.environ:
                name = f"gallery-{state}-{theme.split()[1].lower()}-{width}.png"
                widget.screenshot(path=Path(os.environ["SHOTS"]) / name)
            wide = widget.evaluate("""box => [...box.querySelectorAll('*')]
                .filter(e => !e.closest('select, pre') && e.scrollWidth > e.clientWidth + 2 && e.clientWidth > 0
                    && getComputedStyle(e).overflowX !== 'visible')
                .map(e => `${e.tagName} ${e.className}: ${e.scrollWidth} > ${e.clientWidth}`)""")
            assert wide == [], (theme, width)
