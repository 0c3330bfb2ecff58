"""One thread that measures in the background. The newest job wins: what runs is stopped between two steps."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Job", "Worker"]

Job = Callable[[Callable[[], bool]], None]  # gets a function that tells whether to give up


class Worker:
    """The thread lives while there is something to do, so that an idle widget holds none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: Job | None = None
        self._stop = threading.Event()
        self._idle = threading.Event()
        self._idle.set()

    @property
    def busy(self) -> bool:
        return not self._idle.is_set()

    def submit(self, job: Job) -> None:
        """Run `job` next, instead of what runs or waits."""
        with self._lock:
            self._next = job
            self._stop.set()
            if self._idle.is_set():
                self._idle.clear()
                threading.Thread(target=self._run, name="gradcheck-widget", daemon=True).start()

    def stop(self) -> None:
        """Give up what runs and what waits."""
        with self._lock:
            self._next = None
            self._stop.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until nothing runs or waits; False after `timeout` seconds."""
        return self._idle.wait(timeout)

    def _run(self) -> None:
        while True:
            with self._lock:
                job, self._next = self._next, None
                if job is None:
                    self._idle.set()
                    return
                stop = self._stop = threading.Event()
            job(stop.is_set)
