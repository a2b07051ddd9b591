"""The command line: `samsarrow`."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

import click

from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.verbosity import add_verbosity
from samsarrow.exceptions import KafkaError

EXIT_CODES = """\b
Exit codes:
  0  done
  1  failed: nothing was done, or the output says what was done
  2  wrong usage: nothing was done
  3  failed in part: each failure is on standard error
  130, 143  interrupted by Ctrl-C or SIGTERM
"""


class LazyGroup(CommandGroup):
    """A group that imports a command only when the command is run, so that each command starts fast.

    Args:
        commands: one-line help texts by name of the command. The command `dump-log` is the function `dump_log` in the
            module `dump_log`.
        package: package that contains the modules of the commands.
        **settings: arguments of `click.Group`.
    """

    def __init__(self, *args: Any, commands: Mapping[str, str], package: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._summaries = dict(commands)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names of the commands in alphabetical order."""
        return sorted(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command."""
        if cmd_name not in self._summaries:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"{self._package}.{name}"), name)
        return add_verbosity(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands for the help, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._summaries.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command; handles closed pipes, interrupts and errors of the operating system."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _forget_output()
            sys.exit(141)
        except KeyboardInterrupt as interrupted:
            sys.exit(getattr(interrupted, "exit_code", 130))
        except KafkaError:
            # Must precede the handler of OSError, because KafkaTimeoutError is a TimeoutError and therefore an OSError.
            raise
        except OSError as error:
            # For example, the disk is full, or a file is not readable.
            _forget_output()
            file = f"{click.format_filename(error.filename)}: " if error.filename and error.strerror else ""
            raise click.ClickException(f"{file}{error.strerror or error}") from None


@click.group(
    cls=LazyGroup,
    package="samsarrow.cli",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
    commands={
        "acls": "List and change ACLs.",
        "backup": "Back up topics to a folder, with settings and group offsets.",
        "bench": "Measure throughput and latency of a cluster.",
        "broker": "Run the embedded broker until Ctrl-C.",
        "cluster": "Describe a cluster: brokers, controller, features, quorum.",
        "completion": "Print the completion script of a shell.",
        "config": "Show settings of clients, and import those of other clients.",
        "configs": "Show, change and compare settings of topics, brokers and groups.",
        "consume": "Read topics: to the terminal, a pipe or files.",
        "demo": "Write flights to Kafka, read them as Arrow, and aggregate them in PySpark.",
        "doctor": "Check the connection to a cluster, and print the cause and remedy of problems.",
        "dump-log": "Print log segments and their indexes.",
        "produce": "Write to a topic: files, or standard input.",
        "offsets": "Show, save, restore, reset and copy the offsets of groups.",
        "groups": "Show groups: members, offsets, lag; remove members, delete groups.",
        "options": "Print every client option, its type, default and meaning.",
        "quotas": "Show, set and delete quotas of users, clients and addresses.",
        "restore": "Restore topics of a backup.",
        "replicas": "Elect leaders, move replicas, show disks.",
        "schema": "Show, check and register schemas in a registry.",
        "top": "Show lag, rates, members and rebalances of groups, live.",
        "topics": "Show, create, change, trim and delete topics.",
        "txns": "Show transactions, find hanging ones, and end them.",
        "users": "List and change users that log in with SCRAM.",
    },
)
@click.version_option(package_name="samsarrow")
def cli() -> None:
    """Kafka for Python at Arrow speed."""


add_verbosity(cli)


def _prepare_streams() -> None:
    """Replaces standard streams that lose data or do not exist.

    Without buffers (`python -u`, `PYTHONUNBUFFERED`), a write to a pipe may be partial: rows that were not written
    would count as written, and be committed. Streams are missing if the parent process has closed them.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    out = sys.stdout
    if isinstance(getattr(out, "buffer", None), io.RawIOBase):
        sys.stdout = open(out.fileno(), "w", encoding=out.encoding, errors=out.errors, closefd=False)  # noqa: SIM115


class _UnusedModules(MetaPathFinder):
    """Makes imports of modules fail that no command needs."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        """Raises an error for NumPy and pandas, and leaves all other modules to the other finders."""
        if fullname in ("numpy", "pandas"):
            raise ModuleNotFoundError(f"commands do not import {fullname}", name=fullname)


def _block_imports() -> None:
    """Hides NumPy and pandas from pyarrow, which imports them if it can, although it works without them.

    The import of NumPy takes three quarters of the import of pyarrow, a third of the time in which a command starts.
    The first call of `pa.array` imports pandas, which takes a second.
    """
    sys.meta_path.insert(0, _UnusedModules())


def _forget_output() -> None:
    """Redirects stdout to the null device, so that the flush at exit does not fail after an error."""
    # In tests, stdout may be an object without a file descriptor.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point of the `samsarrow` command. Prints Kafka errors as one line to stderr.

    The exit code is then 1, or 3 if some operations of the command succeeded.
    """
    _prepare_streams()
    _block_imports()
    try:
        cli()
    except KafkaError as error:
        from samsarrow.results import PartialFailureError

        click.echo(f"samsarrow: {error}", err=True)
        for note in getattr(error, "__notes__", ()):
            click.echo(note, err=True)
        sys.exit(3 if isinstance(error, PartialFailureError) and error.succeeded else 1)
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            _forget_output()
