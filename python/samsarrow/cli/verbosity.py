"""Option `-v` of every command: log lines on standard error."""

from __future__ import annotations

import logging

import click

_KEY = "samsarrow.verbosity"
# Level 5 is TRACE.
_LEVELS = {1: logging.INFO, 2: logging.DEBUG, 3: 5}
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _StderrHandler(logging.Handler):
    """Writes to the current standard error, which tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line."""
        try:
            click.echo(self.format(record), err=True)
        except Exception:
            self.handleError(record)


_handler = _StderrHandler()
_handler.setFormatter(logging.Formatter(_FORMAT))


def _count(ctx: click.Context, _param: click.Parameter, value: int) -> None:
    if not value or ctx.resilient_parsing:
        return
    # Options before and after the names of commands add up, so that `samsarrow -v topics list -v` is `-vv`.
    ctx.meta[_KEY] = count = ctx.meta.get(_KEY, 0) + value
    logger = logging.getLogger("samsarrow")
    logger.setLevel(_LEVELS[min(count, 3)])
    logger.addHandler(_handler)
    # In tests, several commands run in one process.
    ctx.find_root().call_on_close(_stop)


def _stop() -> None:
    from samsarrow import _core

    # Another thread writes the lines of the Rust client.
    if (written := _core.log_lines_written()) is not None:
        written.wait()
    logger = logging.getLogger("samsarrow")
    logger.setLevel(logging.NOTSET)
    logger.removeHandler(_handler)


def is_verbose() -> bool:
    """Returns True if the command prints log lines, which would break a progress bar."""
    context = click.get_current_context(silent=True)
    return context is not None and _KEY in context.meta


def add_verbosity(command: click.Command) -> click.Command:
    """Adds option `-v` to a command and to the commands of its group, unless they have it."""
    if not any("-v" in param.opts for param in command.params):
        text = "Log to standard error: -v for events, -vv for details, -vvv for each request."
        command.params.append(
            click.Option(["-v", "--verbose"], count=True, expose_value=False, callback=_count, help=text)
        )
    for nested in getattr(command, "commands", {}).values():
        add_verbosity(nested)
    return command
