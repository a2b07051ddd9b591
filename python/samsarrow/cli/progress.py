"""Progress bars: on a terminal only, and on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

import click


@contextlib.contextmanager
def progress(label: str, length: int, *, wanted: bool = True) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if that is a terminal; called with how many more are done.

    Args:
        label: stands before it.
        length: how many there are in all.
        wanted: False where it would be among other lines.
    """
    if not wanted or not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update
