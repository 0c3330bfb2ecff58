"""The widget in real JupyterLab, Notebook and Voila, as a person sees and uses it."""

from __future__ import annotations

import base64
import hashlib

import pytest
from conftest import run_all, write_notebook
from playwright.sync_api import expect

expect.set_options(timeout=20_000)


class Ui:
    """What a person sees and touches of the first widget of a notebook."""

    def __init__(self, page):
        self.page = page
        box = page.locator(".gradcheck-widget").first
        self.box = box
        self.verdict = box.get_by_role("status")
        self.handles = box.get_by_role("slider")
        self.boxes = box.locator("input[type=text]")
        self.choice = box.get_by_role("combobox").first
        self.image = box.locator("img").first
        expect(self.verdict).to_be_visible()
        self.verdict.scroll_into_view_if_needed()
        expect(self.image).to_be_visible()

    def png(self):
        """Digest of the picture that the browser was last given, decoded and painted."""
        self.image.evaluate("""async img => { await img.decode();
            for (let i = 0; i < 2; i++) await new Promise(requestAnimationFrame); }""")
        data = base64.b64decode(self.image.get_attribute("src").split(",", 1)[1])
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        return hashlib.sha256(data).hexdigest()

    def expect_png(self, wanted, same=True):
        """Wait for the picture to be (or no longer to be) the wanted one: it arrives after the verdict."""
        for _ in range(100):
            if (self.png() == wanted) is same:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError("the picture did not follow the verdict")

    def value(self, k):
        return float(self.boxes.nth(k).input_value())


@pytest.fixture
def ui(page, jupyter):
    run_all(page, jupyter, "quickstart.ipynb")
    return Ui(page)


def test_verdict_and_picture_follow_a_slider_moved_by_keyboard(ui, jupyter):
    """A slider that moves and changes nothing, or a stale picture, would tell a lie about the tolerance."""
    expect(ui.verdict).to_contain_text("FAIL")
    expect(ui.verdict).to_contain_text("of 1,032 elements out of tolerance")
    before = ui.png()
    atol = ui.handles.nth(1)
    atol.press("End")  # 10: everything passes
    expect(ui.verdict).to_contain_text("PASS")
    expect(ui.verdict).to_contain_text("a 1 % error would be seen on 0 %")
    assert ui.value(1) == 10
    ui.expect_png(before, same=False)
    if jupyter.kind == "notebook":  # its command mode takes the arrow keys
        atol.press("Home")
        for _ in range(8):
            atol.press("PageUp")  # 5 steps of a quarter of a decade
    else:
        for _ in range(24):
            atol.press("ArrowLeft")
    expect(ui.boxes.nth(1)).to_have_value("1e-05")
    expect(ui.verdict).to_contain_text("FAIL")
    ui.expect_png(before)  # the very same picture again


def test_showing_the_widget_changes_no_value(ui):
    """Sliders send snapped values back when they are displayed; settings that change by looking at them are lost."""
    assert [ui.value(k) for k in range(3)] == [1e-6, 1e-5, 1e-3]


def test_a_box_takes_any_value_and_refuses_what_is_none(ui):
    box = ui.boxes.nth(0)
    box.fill("3e-7")
    box.press("Enter")
    expect(box).to_have_value("3e-07")
    box.fill("-1")
    box.press("Enter")
    expect(ui.box.get_by_role("alert")).to_contain_text("eps must be a finite number greater than 0")
    expect(box).to_have_value("3e-07")
    tolerance = ui.boxes.nth(2)
    tolerance.fill("0")
    tolerance.press("Enter")
    expect(tolerance).to_have_value("0.0")


def test_another_jacobian_can_be_chosen(ui):
    before = ui.png()
    ui.choice.select_option(label="output 0 <- input 2 'W2'")
    ui.expect_png(before, same=False)
    assert "input 2 'W2'" in ui.image.get_attribute("alt")
    assert "0 of 360 elements out of tolerance" in ui.image.get_attribute("alt")
    assert ui.value(1) == 1e-5


def test_an_element_is_chosen_by_its_indices(ui):
    box = ui.boxes.nth(3)
    box.fill("1,0 <- 2")
    box.press("Enter")
    expect(ui.box.get_by_text("output 0 [1, 0] <- input 1 'b1' [2]")).to_be_visible()
    box.fill("9,9 <- 9")
    box.press("Enter")
    expect(ui.box.get_by_role("alert")).to_contain_text("shape (8, 3)")


def test_the_call_and_reset_buttons_do_what_they_say(ui):
    box = ui.boxes.nth(1)
    box.fill("0.5")
    box.press("Enter")
    ui.box.get_by_role("button", name="Copy call").click()
    expect(ui.box.locator("code")).to_have_text("gradcheck(forward, inputs, eps=1e-06, atol=0.5, rtol=0.001)")
    ui.box.get_by_role("button", name="Reset").click()
    expect(box).to_have_value("1e-05")
    expect(ui.box.locator("code")).to_contain_text("atol=1e-05")


def test_every_control_has_a_name_that_a_screen_reader_can_say(ui):
    for role, names in (
        ("textbox", ("eps", "atol", "rtol", "indices")),
        ("combobox", ("Jacobian", "element")),
        ("button", ("Reset", "Copy call", "Save report")),
    ):
        for name in names:
            expect(ui.box.get_by_role(role, name=name).first).to_be_visible()
    for k in range(2):
        assert ui.box.locator("img").nth(k).get_attribute("alt")


SLOW = """
import time, numpy as np
from gradcheck_widget import GradcheckWidget

delay = 0.0

def slow_tanh(x):
    time.sleep(delay)
    return np.tanh(x)

x = np.linspace(-1, 1, 200)
widget = GradcheckWidget(slow_tanh, x)
delay = 0.02
widget
"""


def test_a_slow_function_shows_progress_and_can_be_stopped(page, jupyter):
    """Moving eps takes 8 s here; without a way out a person restarts the kernel."""
    write_notebook(jupyter, "slow.ipynb", SLOW)
    run_all(page, jupyter, "slow.ipynb")
    ui = Ui(page)
    expect(ui.verdict).to_contain_text("PASS")
    box = ui.boxes.nth(0)
    box.fill("1e-4")
    box.press("Enter")
    expect(ui.box.get_by_text("of 400")).to_be_visible()
    expect(ui.verdict).to_contain_text("measuring at the new settings")
    tolerance = ui.boxes.nth(1)  # the notebook stays usable meanwhile
    tolerance.fill("1e-7")
    tolerance.press("Enter")
    expect(tolerance).to_have_value("1e-07")
    ui.box.get_by_role("button", name="Stop").click()
    expect(ui.verdict).to_contain_text("stopped; this is the last result")
    expect(ui.box.get_by_text("of 400")).to_be_hidden()


TWO = """
import numpy as np, traitlets
from IPython.display import display
from gradcheck_widget import GradcheckWidget

one, two = GradcheckWidget(np.tanh, np.ones((2, 2))), GradcheckWidget(np.sin, np.ones(3))
traitlets.link((one, "atol"), (two, "atol"))
display(one, two, one)
"""


def test_two_linked_widgets_and_one_shown_twice_agree(page, jupyter):
    write_notebook(jupyter, "two.ipynb", TWO)
    run_all(page, jupyter, "two.ipynb")
    boxes = [page.locator(".gradcheck-widget").nth(k).locator("input[type=text]").nth(1) for k in range(3)]
    expect(boxes[2]).to_be_visible()
    boxes[0].fill("0.25")
    boxes[0].press("Enter")
    for box in boxes:
        expect(box).to_have_value("0.25")


ERROR = """
import numpy as np
from gradcheck_widget import GradcheckWidget

def broken(x):
    raise ValueError("<img src=x onerror=window.pwned=1>")

GradcheckWidget(broken, np.ones(3))
"""


def test_an_exception_is_shown_with_its_traceback_and_runs_no_code(page, jupyter):
    write_notebook(jupyter, "error.ipynb", ERROR)
    run_all(page, jupyter, "error.ipynb")
    alert = page.locator(".gradcheck-widget").get_by_role("alert")
    expect(alert).to_contain_text("func raised ValueError")
    expect(alert).to_contain_text("<img src=x onerror=window.pwned=1>")
    assert page.evaluate("window.pwned") is None
