"""Progress bars on standard error, if that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import click

from samsarrow.cli.numbers import rate_text
from samsarrow.cli.verbosity import is_verbose


@contextlib.contextmanager
def progress(
    label: str, length: int, unit: str, *, enabled: bool = True, force: bool = False
) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar with a rate on stderr if that is a terminal; yields a function that advances it.

    Args:
        label: text before the bar.
        length: sum of all advances when the bar is complete.
        unit: unit of the length for the rate: `B` for bytes, or a plural such as `records`.
        enabled: False to show no bar, because other lines are printed to the same terminal.
        force: True to show the bar even if stderr is not a terminal, for example in a notebook.
    """
    if not enabled or is_verbose() or not (force or sys.stderr.isatty()):
        yield lambda _: None
        return

    def rate(_item: int | None) -> str | None:
        # `time_per_iteration` is an average over the last updates, and 0 before the first.
        return rate_text(1 / bar.time_per_iteration, unit) if bar.time_per_iteration else None

    file: Any = sys.stderr if sys.stderr.isatty() else _Shown(sys.stderr)
    bar = click.progressbar(length=length, label=label, file=file, item_show_func=rate)
    with bar:
        yield bar.update


class _Shown:
    """Stream that is treated as a terminal, because click shows no bar elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.write, self.flush, self.encoding = stream.write, stream.flush, stream.encoding

    def isatty(self) -> bool:
        return True
