"""The controls by keyboard and mouse, as a person works them, and what a screen reader is told of them."""

from __future__ import annotations

import pytest
from conftest import run_all, write_notebook
from playwright.sync_api import expect
from test_front_ends import Ui

WIDGET = """
import numpy as np
from gradcheck_widget import GradcheckWidget, from_jacobian

a = np.random.default_rng(0).normal(size=(6, 5))
wrong = a.copy()
wrong[2, 3] *= 1.1
widget = GradcheckWidget(from_jacobian(lambda x: a @ x, lambda x: wrong), np.ones(5))
widget
"""


@pytest.fixture
def ui(page, jupyter):
    write_notebook(jupyter, "by_hand.ipynb", WIDGET)
    run_all(page, jupyter, "by_hand.ipynb")
    return Ui(page)


def test_home_end_and_page_keys_move_a_slider_to_its_ends_and_by_large_steps(ui):
    eps, box = ui.handles.nth(0), ui.boxes.nth(0)
    eps.press("Home")
    expect(box).to_have_value("1e-12")
    values = [1e-12]
    for key in ("PageUp", "PageUp", "PageDown"):
        eps.press(key)
        expect(box).not_to_have_value(repr(values[-1]))
        values.append(ui.value(0))
    assert values[0] < values[1] == values[3] < values[2]
    eps.press("End")
    expect(box).to_have_value("1.0")


def test_the_mouse_drags_a_slider_and_a_click_on_its_track_moves_it(ui):
    """A handle that jumps back after the drag shows another value than the one that is used."""
    handle, box = ui.handles.nth(1), ui.boxes.nth(1)
    start = handle.bounding_box()
    y = start["y"] + start["height"] / 2
    ui.page.mouse.move(start["x"] + start["width"] / 2, y)
    ui.page.mouse.down()
    for k in range(1, 6):
        ui.page.mouse.move(start["x"] + start["width"] / 2 + 12 * k, y)
    ui.page.mouse.up()
    expect(box).not_to_have_value("1e-05")
    ui.page.wait_for_timeout(1000)
    dragged = ui.value(1)
    assert dragged > 1e-5 and abs(handle.bounding_box()["x"] - start["x"] - 60) < 12
    ui.page.wait_for_timeout(500)
    assert ui.value(1) == dragged
    track = ui.box.locator(".noUi-target").nth(1).bounding_box()
    ui.page.mouse.click(track["x"] + 0.1 * track["width"], y)
    expect(box).not_to_have_value(repr(dragged))
    assert ui.value(1) < 1e-10


@pytest.mark.parametrize("jupyter", ["lab"], indirect=True)
@pytest.mark.parametrize(("k", "name"), [(1, "atol"), (2, "rtol")])
def test_a_tolerance_takes_an_exact_number_and_zero(ui, k, name):
    box = ui.boxes.nth(k)
    for text, shown in (("3e-7", "3e-07"), ("0", "0.0")):
        box.fill(text)
        box.press("Enter")
        expect(box).to_have_value(shown)
    ui.box.get_by_role("button", name="Copy call").click()
    expect(ui.box.locator("code")).to_contain_text(f"{name}=0.0")


@pytest.mark.parametrize("jupyter", ["lab"], indirect=True)
def test_an_element_is_chosen_from_the_list_and_shown_by_its_indices(ui):
    worst = ui.box.get_by_role("combobox", name="element")
    expect(ui.boxes.nth(3)).to_have_value("2 <- 3")
    other = worst.locator("option").nth(4)
    text = other.text_content().replace("\xa0", " ")
    before = ui.png()
    worst.select_option(index=4)
    ui.expect_png(before, same=False)
    place = text.split("  ")[0].strip("✓✗ ")
    expect(ui.boxes.nth(3)).to_have_value(place.replace("[", "").replace("]", ""))
    row, column = place.split(" <- ")
    expect(ui.box.get_by_text(f"output 0 {row} <- input 0 'x' {column}")).to_be_visible()


@pytest.mark.parametrize("jupyter", ["lab"], indirect=True)
@pytest.mark.parametrize("width", [1400, 900])
def test_nothing_jumps_while_sliders_move(ui, width):
    """Controls that move away from under the pointer are not usable."""
    ui.page.set_viewport_size({"width": width, "height": 1100})
    ui.page.wait_for_timeout(300)
    measure = """box => [...box.querySelectorAll('input, select, button, img, .noUi-target')]
        .filter(e => e.getClientRects().length)
        .map(e => [e.tagName, ...['x', 'y', 'width', 'height'].map(k =>
            Math.round(e.getBoundingClientRect()[k] - (k == 'x' || k == 'y' ? box.getBoundingClientRect()[k] : 0)))])"""
    places = ui.box.evaluate(measure)
    assert len(places) > 10
    for k in range(3):
        for key in ("End", "Home", "PageUp"):
            before = ui.value(k)
            ui.handles.nth(k).press(key)
            expect(ui.boxes.nth(k)).not_to_have_value(repr(before))
            ui.page.wait_for_timeout(150)
            assert ui.box.evaluate(measure) == places, (k, key)


@pytest.mark.parametrize("jupyter", ["lab"], indirect=True)
def test_a_screen_reader_is_told_the_name_and_the_value_of_every_control(ui):
    session = ui.page.context.new_cdp_session(ui.page)
    session.send("Accessibility.enable")
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    told = {
        (n["role"]["value"], n["name"]["value"].strip()): n.get("value", {}).get("value")
        for n in nodes
        if not n.get("ignored") and "role" in n and "name" in n
    }
    for name, value in (("eps", "1e-06"), ("atol", "1e-05"), ("rtol", "0.001"), ("indices", "2 <- 3")):
        assert told["textbox", name] == value
    assert told["combobox", "element"].replace("\xa0", " ").startswith("✗ [2] <- [3]")
    for name in ("Reset", "Copy call", "Save report"):
        assert ("button", name) in told
    images = [name for role, name in told if role in ("image", "img")]
    assert any(n.startswith("Error map of") for n in images)
    assert any(n.startswith("Tolerance band of") for n in images)
    assert any(n.startswith("Error of") for n in images)


INTERACT = """
import numpy as np
from ipywidgets import FloatLogSlider, interact
from gradcheck_widget import GradcheckWidget

widget = GradcheckWidget(np.tanh, np.ones((2, 2)))

@interact(tolerance=FloatLogSlider(value=1e-5, min=-12, max=0, description="tolerance"))
def both(tolerance):
    widget.atol = tolerance

widget
"""


def test_the_widget_follows_an_interact_of_the_notebook(page, jupyter):
    write_notebook(jupyter, "interact.ipynb", INTERACT)
    run_all(page, jupyter, "interact.ipynb")
    ui = Ui(page)
    page.locator(".widget-interact").get_by_role("slider").press("End")
    expect(ui.boxes.nth(1)).to_have_value("1.0")
    expect(ui.verdict).to_contain_text("a 1 % error would be seen on 0 %")
