"""The quickstart notebook in a real JupyterLab, as a person sees and uses it."""

from __future__ import annotations

import base64
import hashlib

import pytest
from conftest import run_all
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


def test_verdict_and_picture_follow_a_slider_moved_by_keyboard(ui):
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
