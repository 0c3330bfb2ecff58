"""A notebook that was run, saved, and is read where no kernel lives: re-opened untrusted, and exported to HTML."""

from __future__ import annotations

import nbclient
import nbconvert
import nbformat
import pytest
from playwright.sync_api import expect

CELL = """
import numpy as np
from gradcheck_widget import GradcheckWidget, gradcheck_report

def f(x):
    return np.tanh(x)

f.__name__ = f.__qualname__ = "<img src=x onerror=window.pwned=1>"
x = np.ones(3)
GradcheckWidget(f, x)
"""
REPORT = "gradcheck_report(f, x)"


@pytest.fixture(scope="session")
def notebook(tmp_path_factory):
    """Run as a whole, with its outputs, by nobody whom a reader's server trusts."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in (CELL, REPORT)])
    folder = tmp_path_factory.mktemp("saved")
    nbclient.NotebookClient(
        book, timeout=120, resources={"metadata": {"path": str(folder)}}, store_widget_state=False
    ).execute()
    return book


@pytest.mark.parametrize("jupyter", ["lab", "notebook"], indirect=True)
def test_a_reopened_untrusted_notebook_shows_the_last_state_and_runs_no_code(page, jupyter, notebook):
    (jupyter.root / "saved.ipynb").write_text(nbformat.writes(notebook))
    page.goto(jupyter.page.format("saved.ipynb"))
    outputs = page.locator(".jp-OutputArea-output")
    expect(outputs.get_by_text("9 of 9 elements within tolerance").first).to_be_visible()
    assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize("jupyter", ["lab"], indirect=True)
def test_an_exported_notebook_shows_the_pictures_in_a_browser_and_runs_no_code(page, jupyter, notebook):
    exporter = nbconvert.HTMLExporter(template_name="basic")  # without the CDN scripts of the full page
    body, _ = exporter.from_notebook_node(notebook)
    page.set_content(f"<!DOCTYPE html><html><body>{body}</body></html>")
    expect(page.get_by_text("9 of 9 elements within tolerance").first).to_be_visible()
    pictures = page.locator("img[alt^='Error map of'], img[alt^='Tolerance band of']")
    assert pictures.count() == 2
    for k in range(2):
        box = pictures.nth(k).bounding_box()
        assert box["width"] > 200 and box["height"] > 150
        assert pictures.nth(k).evaluate("img => img.naturalWidth") == 530
    assert page.evaluate("window.pwned") is None
