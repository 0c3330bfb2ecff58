"""What the widget shows, as HTML. All that comes from the user's function is escaped here."""

from __future__ import annotations

import base64
import functools
import html
import math
import traceback
from collections.abc import Sequence
from pathlib import Path

from ..comparison import Element
from ..jacobians import Progress, element_name
from ..report import GradcheckReport, PairReport, badge, number, ratio_text
from ..sweep import Slopes

__all__ = [
    "call_html",
    "checks_html",
    "element_html",
    "image_html",
    "message_html",
    "place_text",
    "progress_html",
    "side_by_side_html",
    "trace",
    "verdict_html",
]

CELL = "padding:1px 10px 1px 0;text-align:left;white-space:nowrap"
PACKAGE = Path(__file__).parents[1]


def _is_ours(file: str) -> bool:
    """A frame of this package, or of the cached properties through which it calls itself."""
    return PACKAGE in Path(file).parents or file == functools.__file__


def trace(error: BaseException) -> str:
    """The traceback from where it leaves this package for the user's function; in full if it never does."""
    theirs = error.__traceback__
    while theirs is not None and _is_ours(theirs.tb_frame.f_code.co_filename):
        theirs = theirs.tb_next
    return "".join(traceback.format_exception(type(error), error, theirs or error.__traceback__)).rstrip()


def message_html(text: str, title: str = "") -> str:
    """A message or a traceback; '' for none."""
    if not text:
        return ""
    head = f"<b>{html.escape(title)}</b>" if title else ""
    lines = f"<pre style='margin:2px 0;max-height:240px;overflow:auto'>{html.escape(text)}</pre>"
    return f"<div role='alert'>{head}{lines}</div>"


def verdict_html(report: GradcheckReport | None, stale: str = "") -> str:
    """The verdict in words; `stale` says why it is not that of the present settings."""
    style = "line-height:1.5;font-size:14px;min-height:47px"
    note = f" <i>({html.escape(stale)})</i>" if stale else ""
    if report is None:
        return f"<div role='status' style='{style}'><b>no result</b>{note}</div>"
    text = html.escape(report.verdict[4:].strip())
    seen, total = report.detected_count()
    power = html.escape(report.power_text)
    weak = report.passed and seen < 0.5 * total and not report.fast
    return (
        f"<div role='status' style='{style}'>"
        f"<span style='font-size:17px'>{badge('PASS' if report.passed else 'FAIL')}</span> <b>{text}</b>{note}<br>"
        f"{'<b>' + power + '</b>' if weak else power} &nbsp;·&nbsp; {html.escape(report.checks_text)}</div>"
    )


def place_text(pair: PairReport, e: Element) -> str:
    """``[2, 1] <- [0, 3]``: the names stand in the choice of the Jacobian."""
    if pair.shares is not None:
        return f"projection {e.row}"
    out = element_name("", pair.output_shape, e.row).strip() or "output"
    return f"{out} <- {element_name('', pair.input_shape, e.column).strip() or 'input'}"


def element_html(pair: PairReport, e: Element, slopes: Sequence[Slopes], eps: float) -> str:
    """One element: both values, error against tolerance, and the one-sided differences at the step nearest to `eps`."""
    rows = [
        ("analytical", number(e.analytical, 8)),
        ("numerical", number(e.numerical, 8)),
        ("error / tolerance", f"{e.error:.3g} / {e.tolerance:.3g} = {ratio_text(e.ratio)}"),
    ]
    if slopes:
        s = min(slopes, key=lambda s: abs(math.log(s.eps / eps)))
        rows += [
            (f"from below, eps={s.eps:g}", number(s.backward[pair.key][e.row].item(), 8)),
            (f"from above, eps={s.eps:g}", number(s.forward[pair.key][e.row].item(), 8)),
        ]
    body = "".join(f"<tr><th style='{CELL}'>{k}</th><td style='{CELL}'>{html.escape(v)}</td></tr>" for k, v in rows)
    head = f"{'✗' if e.failing else '✓'} {html.escape(pair.place(e))}"
    return (
        f"<div style='min-height:132px'><b>{head}</b>"
        f"<table style='line-height:1.35;font-size:12px'><tbody>{body}</tbody></table></div>"
    )


def checks_html(report: GradcheckReport) -> str:
    rows = "".join(
        f"<div>{'✓' if c.passed else badge('FAIL')} <b>{html.escape(c.name)}</b>: {html.escape(c.message)}</div>"
        for c in report.checks
    )
    return f"<div style='line-height:1.5;font-size:12px'>{rows}</div>"


def progress_html(step: Progress, left: float) -> str:
    return f"<span style='white-space:nowrap'>measuring: {step.done:,} of {step.total:,}, {duration(left)} left</span>"


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def image_html(png: bytes, alt: str, width: int, height: int) -> str:
    """A picture whose room is kept while it loads, on a white ground in dark themes too."""
    return (
        f"<img alt='{html.escape(alt, quote=True)}' src='data:image/png;base64,{base64.b64encode(png).decode()}' "
        f"style='width:100%;max-width:{width}px;aspect-ratio:{width}/{height};background:#ffffff;border-radius:4px;"
        "display:block'>"
    )


def side_by_side_html(images: Sequence[str]) -> str:
    """Pictures in a row where there is room, and below each other where there is not."""
    boxes = "".join(f"<div style='flex:1 1 400px;min-width:0'>{image}</div>" for image in images)
    return f"<div style='display:flex;flex-wrap:wrap;gap:4px'>{boxes}</div>"


def call_html(call: str) -> str:
    """The call as text, with a button that copies it."""
    text = html.escape(call, quote=True)
    action = "navigator.clipboard.writeText(this.dataset.call);this.textContent='Copied'"
    return (
        f"<code style='user-select:all;white-space:pre-wrap'>{text}</code> "
        f"<button class='jupyter-button' style='width:auto' data-call='{text}' onclick=\"{action}\">Copy</button>"
    )
