"""Progress bars on standard error, if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import click


@contextlib.contextmanager
def progress(label: str, length: int, *, enabled: bool = True, force: bool = False) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on stderr if that is a terminal; yields a function that advances it.

    Args:
        label: text before the bar.
        length: sum of all advances when the bar is complete.
        enabled: False to show no bar, because other lines are printed to the same terminal.
        force: True to show the bar even if stderr is not a terminal, for example in a notebook.
    """
    if not enabled or not (force or sys.stderr.isatty()):
        yield lambda _: None
        return
    file: Any = sys.stderr if sys.stderr.isatty() else _Shown(sys.stderr)
    with click.progressbar(length=length, label=label, file=file) as bar:
        yield bar.update


class _Shown:
    """Stream that is treated as a terminal, because click shows no bar elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.write, self.flush, self.encoding = stream.write, stream.flush, stream.encoding

    def isatty(self) -> bool:
        return True
