"""Slow functions: the notebook stays usable, the newest value wins, the user's tensors are left alone."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from gradcheck_widget import GradcheckWidget, gradcheck_report


class Slow:
    """tanh that takes `delay` seconds a call and remembers what it was called with."""

    def __init__(self, delay=0.0):
        self.delay = delay
        self.calls = 0
        self.threads = set()

    def __call__(self, x):
        self.calls += 1
        self.threads.add(threading.current_thread().name)
        if self.delay:
            time.sleep(self.delay)
        return np.tanh(x)


@pytest.fixture
def x():
    return np.linspace(-1.0, 1.0, 40)


@pytest.fixture
def slow(x):
    """A widget that was made quickly and whose function then became slow: measuring at another eps takes 0.8 s."""
    f = Slow()
    widget = GradcheckWidget(f, x)
    f.delay = 0.01
    yield widget, f
    widget.close()
    assert widget.wait(10)


def test_a_slow_measurement_returns_at_once_and_ends_in_the_background(slow):
    widget, f = slow
    begin = time.perf_counter()
    widget.eps = 1e-4
    assert time.perf_counter() - begin < 0.6  # 80 calls take 0.8 s at least
    assert widget.report.eps == 1e-6 and "measuring" in widget._verdict.value
    assert widget.wait(20)
    assert widget.report.eps == 1e-4 and "measuring" not in widget._verdict.value
    assert "gradcheck-widget" in f.threads
    assert widget._progress.layout.visibility == "hidden"


def test_the_first_measurement_of_a_slow_function_does_not_block_the_cell(x):
    f = Slow(0.05)  # 80 calls take 4 s
    begin = time.perf_counter()
    widget = GradcheckWidget(f, x)
    assert time.perf_counter() - begin < 3
    assert widget.report is None and not widget.passed and "no result" in widget._verdict.value
    assert widget.wait(20)
    assert widget.passed
    assert widget.report.to_dict(arrays=True) == gradcheck_report(np.tanh, x).to_dict(arrays=True) | {}
    widget.close()


def test_the_newest_of_many_values_wins_and_stale_work_stops(slow):
    widget, f = slow
    calls = f.calls
    for k in range(10):
        widget.eps = 10.0 ** -(3 + k % 5)
    widget.eps = 2e-5
    assert widget.wait(30)
    assert widget.report.eps == 2e-5
    assert f.calls - calls < 5 * 80  # of 11 * 80


def test_tolerances_move_at_once_while_it_measures(slow):
    widget, _ = slow
    widget.eps = 1e-4
    widget.atol, widget.rtol = 0.0, 0.0
    assert widget.wait(20)
    assert (widget.report.eps, widget.report.atol, widget.report.rtol) == (1e-4, 0.0, 0.0)
    assert not widget.passed


def test_stop_keeps_the_last_result_and_says_so(slow):
    widget, f = slow
    before = widget.report
    widget.eps = 1e-4
    widget._stop.click()
    assert widget.wait(10)
    assert widget.report is before and "stopped" in widget._verdict.value
    assert widget._progress.layout.visibility == "hidden"
    f.delay = 0
    widget.eps = 1e-5
    assert widget.report.eps == 1e-5 and "stopped" not in widget._verdict.value


def test_progress_is_shown_with_the_time_that_is_left(slow):
    widget, _ = slow
    widget.eps = 1e-4
    seen = set()
    end = time.perf_counter() + 10
    while not widget.wait(0.02) and time.perf_counter() < end:
        if widget._progress.layout.visibility == "visible":
            seen.add(widget._left.value)
    assert any("of 80" in text and "left" in text for text in seen)


def test_the_users_array_is_never_seen_perturbed_while_it_measures(slow, x):
    widget, _ = slow
    bits = x.tobytes()
    widget.eps = 1e-4
    while not widget.wait(0.0005):
        assert x.tobytes() == bits
    assert x.tobytes() == bits


def test_an_array_that_the_user_changes_meanwhile_stays_as_the_user_left_it(slow, x):
    widget, _ = slow
    widget.eps = 1e-4
    x[:] = 7.0
    assert widget.wait(20)
    assert (x == 7.0).all()
    assert widget.passed  # of the values that the widget was made with


def test_a_function_that_reads_its_input_from_elsewhere_gets_the_plain_verdict(x):
    """On a copy of x this would have half of its derivative, on both sides, and pass for the wrong reason."""
    widget = GradcheckWidget(lambda y: y * x, x)
    assert not widget.passed  # the analytical side sees one factor, the numerical side both
    assert widget.passed == gradcheck_report(lambda y: y * x, x).passed
    widget.eps = 1e-4
    assert widget.report.eps == 1e-4 and not widget.passed


def test_an_exception_in_the_background_is_shown_and_the_widget_recovers(slow):
    widget, f = slow

    class Trouble(Exception):
        pass

    calls, call = f.calls, Slow.__call__

    def late(x):
        if f.calls > calls + 50:
            raise Trouble("sensor lost")
        return call(f, x)

    f.__class__ = type("Late", (Slow,), {"__call__": lambda self, x: late(x)})
    widget.eps = 1e-4
    assert widget.wait(20)
    assert "sensor lost" in widget._message.value and widget.report is None and not widget.passed
    f.__class__ = Slow
    f.delay = 0
    widget.eps = 1e-5
    assert widget.passed and widget._message.value == ""


def test_callbacks_from_many_threads_end_at_the_newest_value(x):
    widget = GradcheckWidget(np.tanh, x)
    seen = []
    widget.observe(lambda change: seen.append(change["new"]), "report")

    def move(k):
        for n in range(20):
            widget.atol = 10.0 ** -(3 + (n + k) % 8)
            widget.eps = 10.0 ** -(4 + (n + k) % 4)

    threads = [threading.Thread(target=move, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert widget.wait(20)
    assert (widget.report.eps, widget.report.atol) == (widget.eps, widget.atol)
    assert all(r is not None for r in seen)


def test_an_idle_widget_holds_no_thread(slow):
    widget, _ = slow
    widget.eps = 1e-4
    assert widget.wait(20)
    time.sleep(0.1)
    assert not [t for t in threading.enumerate() if t.name == "gradcheck-widget"]
