"""The loop of `samsarrow top` on a terminal: a thread takes samples, the main thread draws and reads keys."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Iterator, Sequence

from samsarrow.cli.signals import Signals
from samsarrow.cli.top.history import History
from samsarrow.cli.top.layout import BARS
from samsarrow.cli.top.sampler import Sample, Sampler
from samsarrow.cli.top.terminal import Terminal
from samsarrow.cli.top.view import View
from samsarrow.exceptions import KafkaError


class SamplingThread(threading.Thread):
    """Takes samples at an interval. A daemon thread, since a request to a lost broker may take its whole timeout.

    Attributes:
        visible: groups that each sample contains.
        paused: whether no samples are taken.
    """

    def __init__(self, sampler: Sampler, terminal: Terminal) -> None:
        super().__init__(name="samsarrow-top", daemon=True)
        self.visible: Sequence[str] = ()
        self.paused = False
        self._sampler, self._terminal = sampler, terminal
        self._results: list[Sample | Exception] = []
        self._lock = threading.Lock()
        self._change = threading.Event()
        self._over = False

    def run(self) -> None:
        """Takes samples until `stop`."""
        due = time.monotonic()
        while not self._over:
            remaining = due - time.monotonic()
            if self.paused or remaining > 0:
                self._change.wait(None if self.paused else remaining)
                self._change.clear()
                continue
            due = time.monotonic() + self._sampler.interval
            result: Sample | Exception
            try:
                result = self._sampler.sample(self.visible)
            except Exception as error:
                # The main thread raises it, after it has restored the terminal.
                result = error
            with self._lock:
                self._results.append(result)
                if self._over:
                    return
                self._terminal.wake()

    def take(self) -> list[Sample | Exception]:
        """Returns new samples and errors."""
        with self._lock:
            results, self._results = self._results, []
        return results

    def follow(self, visible: Sequence[str], paused: bool) -> None:
        """Sets the groups on the screen, and whether samples are taken."""
        self.visible = visible
        if paused != self.paused:
            self.paused = paused
            self._change.set()

    def stop(self) -> None:
        """Ends the thread after its current request. It does not use the terminal any more."""
        with self._lock:
            self._over = True
        self._change.set()


def run(sampler: Sampler, servers: str, history: History, sort: str = "lag") -> None:
    """Shows groups until the user quits.

    Raises:
        KafkaError: the first sample failed.
        Interrupted: Ctrl-C or SIGTERM, after the terminal was restored.
    """
    ascii_only = not _can_print(BARS + "▼▲…")
    view = View(history, servers, sampler.interval, ascii_only, sort=sort)
    terminal = Terminal()
    thread = SamplingThread(sampler, terminal)
    with Signals() as signals:
        signals.wake = terminal.wake
        try:
            with _quiet_log(), terminal:
                thread.start()
                _loop(view, terminal, thread, signals)
        finally:
            signals.wake = None
            thread.stop()
            terminal.close()
    signals.raise_received()


def _loop(view: View, terminal: Terminal, thread: SamplingThread, signals: Signals) -> None:
    sampled = False
    while not (view.quit or terminal.closed or signals.received):
        for result in thread.take():
            if isinstance(result, Sample):
                view.add(result)
                sampled = True
            elif sampled and isinstance(result, KafkaError):
                view.fail(str(result), time.monotonic())
            else:
                raise result
        size = terminal.size
        terminal.draw(view.lines(*size, time.monotonic()), size)
        thread.follow(view.visible(), view.paused)
        # Redraws each second for the clock.
        for key in terminal.keys(timeout=1.0):
            if key == "redraw":
                terminal.redraw()
            else:
                view.press(key)


@contextlib.contextmanager
def _quiet_log() -> Iterator[None]:
    """Keeps log lines off the screen; the screen shows errors itself. A stderr that is not a terminal gets them."""
    logger = logging.getLogger("samsarrow")
    if not sys.stderr.isatty():
        yield
        return
    handler, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
