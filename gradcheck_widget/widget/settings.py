"""A log slider and a box with the exact value of one setting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ipywidgets import FloatLogSlider, HBox, Layout, Text

from ..report import tolerance_value

__all__ = ["EXPLAIN", "Setting"]

STEP = 0.25  # decades
RANGE = {"eps": (-12, 0), "atol": (-15, 1), "rtol": (-15, 0)}  # decades of the sliders; the boxes take any value
EXPLAIN = {
    "eps": "step of the finite difference: each element is moved by minus and plus eps, in the input's units",
    "atol": "absolute tolerance, in the derivative's units: the error that is accepted where the derivative is 0",
    "rtol": "relative tolerance: the error that is accepted as a share of the numerical value",
}


class Setting:
    """The value lives in the trait `name` of `owner`; slider and box are views of it.

    The slider stands at the nearest step and changes the trait only when it reports another step: a browser that sends
    a snapped value back, as it does on display, changes nothing.
    """

    def __init__(self, owner: Any, name: str, complain: Callable[[str], None]) -> None:
        self.owner, self.name, self.complain = owner, name, complain
        low, high = RANGE[name]
        tip = f"{name}: {EXPLAIN[name]}"
        self.slider = FloatLogSlider(
            base=10, min=low, max=high, step=STEP, readout=False, continuous_update=True,
            layout=Layout(width="auto", flex="1 1 auto", min_width="120px"), tooltip=tip,
        )  # fmt: skip
        # the box has the label: a slider cannot be named for a screen reader
        self.box = Text(
            description=name, continuous_update=False, tooltip=tip, style={"description_width": "34px"},
            layout=Layout(width="136px", flex="0 0 auto"),
        )  # fmt: skip
        self.show()
        self.slider.observe(self._moved, "value")
        self.box.observe(self._typed, "value")
        self.view = HBox([self.box, self.slider], layout=Layout(width="auto", align_items="center"))

    @property
    def value(self) -> float:
        value: float = getattr(self.owner, self.name)
        return value

    def _place(self, value: float) -> int:
        low, high = RANGE[self.name]
        exponent = math.log10(value) if value > 0 else low
        return round((min(max(exponent, low), high) - low) / STEP)

    def show(self) -> None:
        """Bring slider and box to the trait's value."""
        self.place = self._place(self.value)
        self.slider.value = 10.0 ** (RANGE[self.name][0] + STEP * self.place)
        self.box.value = repr(self.value)

    def _moved(self, change: Any) -> None:
        if self._place(change["new"]) != self.place:
            setattr(self.owner, self.name, float(f"{change['new']:.3g}"))

    def _typed(self, change: Any) -> None:
        if change["new"] == repr(self.value):
            return
        try:
            setattr(
                self.owner, self.name, tolerance_value(self.name, _number(change["new"]), positive=self.name == "eps")
            )
        except ValueError as error:
            self.complain(str(error))
        self.box.value = repr(self.value)


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
