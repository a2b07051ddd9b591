"""`samsarrow doctor`: what is wrong between this machine and a cluster, and how to fix it."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING

import click

from samsarrow.cli.commands import Command
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, reads_and_writes_topics
from samsarrow.cli.settings import REGISTRY

if TYPE_CHECKING:
    from samsarrow.doctor import Finding

_MARKS = {"ok": "✓", "warning": "!", "failed": "✗", "skipped": "-"}
_PLAIN = {"ok": "ok  ", "warning": "warn", "failed": "FAIL", "skipped": "skip"}
_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "bright_black"}


@click.command(cls=Command)
@reads_and_writes_topics
@click.option("-t", "--topic", metavar="TOPIC", shell_complete=complete_topics, help="Also check this topic.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Also check this group; by default the option group.id.",
)
@click.option("--write", is_flag=True, help="Also write one record to the topic, with the key 'samsarrow doctor'.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per check.")
@click.pass_context
def doctor(
    context: click.Context, connection: Connection, topic: str | None, group: str | None, write: bool, as_json: bool
) -> None:
    """Check the connection to a cluster step by step, and print the cause and remedy of each problem.

    Checks options, DNS, TCP, TLS, login, API versions, advertised addresses and clocks; with --topic also leaders,
    replicas, ACLs and a read, with --group also the coordinator, members, stuck rebalances, offsets and lag. Changes
    nothing unless --write is passed. --timeout applies to each check, 10s by default. The exit code is 1 if a check
    failed; warnings do not count.
    """
    from samsarrow.doctor import findings

    if write and topic is None:
        raise click.UsageError("--write needs --topic TOPIC")
    for option, name in (("--topic", topic), ("--group", group)):
        if name == "":
            raise click.UsageError(f"{option} is empty: pass a name, or leave it out")
    _quiet()
    counts: Counter[str] = Counter()
    # Profiles and files may also have options of the schema registry.
    options = {name: value for name, value in connection.options.items() if not name.startswith(REGISTRY)}
    found = findings(options, topic=topic, group=group, write=write, timeout=connection.timeout or 10)
    for finding in found:
        counts[finding.status.value] += 1
        if as_json:
            click.echo(json.dumps(finding.as_dict(), ensure_ascii=False))
        else:
            _print(finding)
        sys.stdout.flush()
    if not as_json:
        click.echo(_summary(counts))
    if counts["failed"]:
        context.exit(1)


def _quiet() -> None:
    """Hides log lines of clients unless logging is configured: findings contain the same errors."""
    logger = logging.getLogger("samsarrow")
    if not logger.hasHandlers():
        logger.addHandler(logging.NullHandler())


def _print(finding: Finding) -> None:
    status = finding.status.value
    mark = (_MARKS if _is_pretty() else _PLAIN)[status]
    subject = f"{finding.subject}: " if finding.subject else ""
    click.echo(f"{_styled(mark, status)} {finding.check:<11} {subject}{finding.detail} ({finding.seconds:.2f} s)")
    if finding.remedy:
        indent = " " * (len(mark) + 1)
        click.echo(f"{indent}{'':<11} {_styled('hint:' if status == 'skipped' else 'fix:', status)} {finding.remedy}")


def _summary(counts: Counter[str]) -> str:
    parts = [f"{counts[status]} {status}" for status in ("failed", "warning", "skipped", "ok") if counts[status]]
    return ", ".join(parts).replace("warning", "warnings" if counts["warning"] > 1 else "warning")


def _is_pretty() -> bool:
    return sys.stdout.isatty() and (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _styled(text: str, status: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, fg=_COLOURS[status], bold=status == "failed" or None)
