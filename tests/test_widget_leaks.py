"""A long session leaves no model, figure, thread or memory behind, and many threads at once break nothing."""

from __future__ import annotations

import gc
import resource
import threading
from pathlib import Path

import ipywidgets
import matplotlib.figure
import numpy as np
import pytest

from gradcheck_widget import GradcheckWidget


def census():
    gc.collect()
    return (
        len(ipywidgets.widgets.widget._instances),
        sum(isinstance(o, matplotlib.figure.Figure) for o in gc.get_objects()),
        threading.active_count(),
    )


def resident():
    """Bytes of memory that the process holds (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def move(widget, k):
    setattr(widget, ("atol", "rtol")[k % 2], 10.0 ** -(k % 13))


def test_a_thousand_moves_leave_no_model_figure_thread_or_memory_behind():
    widget = GradcheckWidget(np.tanh, np.random.default_rng(0).normal(size=5))
    for k in range(30):
        move(widget, k)
    before = census()
    memory = resident()
    for k in range(1000):
        move(widget, k)
    assert census() == before
    assert resident() - memory < 20e6  # bytes; the kept pictures of every move would be 60 million


def test_closed_and_forgotten_a_widget_frees_its_jacobians():
    widget = GradcheckWidget(np.tanh, np.ones(4))
    before = census()
    for _ in range(5):
        GradcheckWidget(np.tanh, np.ones(4)).close()
    after = census()
    assert after[0] == before[0] and after[2] == before[2]
    assert after[1] <= before[1]
    widget.close()


@pytest.mark.parametrize("delay", [0.0, 0.02], ids=["quick", "slow"])
def test_settings_from_many_threads_end_in_one_consistent_state(delay):
    pause = threading.Event()

    def f(x):
        if delay:
            pause.wait(delay)
        return np.tanh(x)

    widget = GradcheckWidget(f, np.linspace(-1, 1, 3))
    errors = []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(15):
                name = rng.choice(["eps", "atol", "rtol"])
                setattr(widget, name, float(10.0 ** -rng.integers(3, 9)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert widget.wait(60) and not errors
    report = widget.report
    assert (report.eps, report.atol, report.rtol) == (widget.eps, widget.atol, widget.rtol)
    assert report.passed == widget.passed
    assert ("PASS" if widget.passed else "FAIL") in widget._verdict.value
    assert [s.box.value for s in widget._settings] == [repr(widget.eps), repr(widget.atol), repr(widget.rtol)]


def test_ctrl_c_keeps_the_last_result_and_the_widget_goes_on():
    trouble = []

    def f(x):
        if trouble:
            raise KeyboardInterrupt
        return np.tanh(x)

    widget = GradcheckWidget(f, np.ones(3))
    last = widget.report
    trouble.append(1)
    with pytest.raises(KeyboardInterrupt):
        widget.eps = 1e-4
    assert widget.report is last and "interrupted; this is the last result" in widget._verdict.value
    trouble.clear()
    widget.eps = 1e-5
    assert widget.report.eps == 1e-5 and widget.passed and "interrupted" not in widget._verdict.value


def test_a_function_that_exits_in_the_background_does_not_hang_the_widget():
    """sys.exit in a thread ends it silently: whoever waits would wait forever."""
    trouble, pause = [], threading.Event()

    def f(x):
        if trouble:
            pause.wait(0.05)
            if len(trouble) > 5:
                raise SystemExit("out of patience")
            trouble.append(1)
        return np.tanh(x)

    widget = GradcheckWidget(f, np.ones(9))
    trouble.append(1)
    widget.eps = 1e-4
    assert widget.wait(30) and widget.report is None and "out of patience" in widget._message.value


def test_without_a_result_there_is_nothing_to_choose():
    def broken(x):
        raise ValueError("no")

    widget = GradcheckWidget(broken, np.ones(3))
    assert {v.layout.display for v in (widget._choice, widget._worst, widget._index)} == {"none"}
