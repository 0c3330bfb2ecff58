"""Where no kernel lives (GitHub, exported notebooks): a picture and a text stand in for the widget and the report."""

from __future__ import annotations

import nbclient
import nbconvert
import nbformat
import pytest

CELL = """
import numpy as np
from gradcheck_widget import GradcheckWidget, gradcheck_report

def f(x):
    return np.tanh(x)

f.__name__ = "<scr" + "ipt>alert(1)</script>"
GradcheckWidget(f, np.ones(3))
"""
REPORT = "gradcheck_report(f, np.ones(3), atol=0, rtol=0)"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in (CELL, REPORT)])
    folder = tmp_path_factory.mktemp("export")
    client = nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(folder)}}, store_widget_state=False
    )
    client.execute()
    return notebook


@pytest.mark.parametrize("exporter", [nbconvert.HTMLExporter, nbconvert.MarkdownExporter], ids=["html", "markdown"])
def test_an_exported_notebook_shows_picture_verdict_and_no_script(executed, exporter):
    body, _ = exporter().from_notebook_node(executed)
    assert "data:image/png;base64," in body and "Error map of" in body and "Tolerance band of" in body
    assert ">PASS</span>" in body and ">FAIL</span>" in body
    assert "<script>alert(1)" not in body


def test_plain_text_is_the_report(executed):
    texts = [cell.outputs[-1].data["text/plain"] for cell in executed.cells]
    assert texts[0].startswith("PASS  9 of 9 elements within tolerance")
    assert texts[1].startswith("<GradcheckReport: FAIL")
