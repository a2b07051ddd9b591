"""The command line: `samsarrow`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click

from samsarrow.exceptions import KafkaError

EXIT_CODES = """\b
Exit codes:
  0  done
  1  failed: nothing was done, or what was done is said
  2  wrong usage: nothing was done
  3  failed in part: each failure is on standard error
  130, 143  interrupted by Ctrl-C or SIGTERM
"""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run: none pays for the others.

    Args:
        commands: what each does, in a line, by its name. The command `dump-log` is `dump_log` in `dump_log`.
        package: where the modules are.
        **settings: of click.
    """

    def __init__(self, *args: Any, commands: Mapping[str, str], package: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._lines = dict(commands)
        self._package = package

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in order."""
        return sorted(self._lines)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command."""
        if cmd_name not in self._lines:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"{self._package}.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in the help, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._lines.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command; what reads our output may stop reading, and the user may interrupt."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _forget_output()
            sys.exit(141)
        except KeyboardInterrupt as interrupted:
            sys.exit(getattr(interrupted, "exit_code", 130))
        except KafkaError:
            # One of them is a TimeoutError, which is an OSError.
            raise
        except OSError as error:
            # A disk that is full, a file that may not be read.
            _forget_output()
            raise click.ClickException(str(error)) from None


@click.group(
    cls=LazyGroup,
    package="samsarrow.cli",
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
    commands={
        "acls": "List and change ACLs.",
        "bench": "Measure throughput and latency of a cluster.",
        "broker": "Run the embedded broker until Ctrl-C.",
        "cluster": "Describe a cluster: brokers, controller, features, quorum.",
        "config": "Show settings of clients, and import those of other clients.",
        "configs": "Show, change and compare settings of topics, brokers and groups.",
        "consume": "Read topics: to the terminal, a pipe or files.",
        "demo": "Flights into Kafka, back as Arrow, committed, and through PySpark.",
        "dump-log": "Print log segments and their indexes.",
        "produce": "Write to a topic: files, or standard input.",
        "offsets": "Show, save, restore, reset and copy the offsets of groups.",
        "groups": "Show groups: members, offsets, lag; remove members, delete groups.",
        "options": "Print every client option, its type, default and meaning.",
        "quotas": "Show, set and delete quotas of users, clients and addresses.",
        "replicas": "Elect leaders, move replicas, show disks.",
        "schema": "Show, check and register schemas in a registry.",
        "topics": "Show, create, change, trim and delete topics.",
        "txns": "Show transactions, find hanging ones, and end them.",
        "users": "List and change users that log in with SCRAM.",
    },
)
@click.version_option(package_name="samsarrow")
def cli() -> None:
    """Kafka for Python at Arrow speed."""


def _forget_output() -> None:
    """Nobody takes it any more: not even the interpreter's last flush may fail."""
    # What stands for it in a test has no descriptor.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    """Entry point of the `samsarrow` command: a Kafka error is one line on stderr and exit code 1."""
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
