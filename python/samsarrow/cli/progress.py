"""Progress bars on standard error, if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click


@contextlib.contextmanager
def progress(label: str, length: int, *, enabled: bool = True) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on stderr if that is a terminal; yields a function that advances it.

    Args:
        label: text before the bar.
        length: sum of all advances when the bar is complete.
        enabled: False to show no bar, because other lines are printed to the same terminal.
    """
    if not enabled or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
