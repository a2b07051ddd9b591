"""What commands print: tables for people on a terminal, JSON lines in a pipe, or as `-o` says."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar
from uuid import UUID

import click

from samsarrow.cli.partial_failure import PartialFailure
from samsarrow.cli.tables import table
from samsarrow.exceptions import KafkaError, KafkaTimeoutError
from samsarrow.results import PartialFailureError
from samsarrow.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

FORMS = ("table", "json", "ndjson", "csv")

output_option = click.option(
    "-o", "--output", "form", type=click.Choice(FORMS), help="By default table on a terminal and ndjson in a pipe."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


def show(form: str | None, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints rows.

    Args:
        form: of `FORMS`; None to decide by where it goes.
        names: of the columns, as JSON has them; tables have them in capitals.
        rows: their values: text, numbers, None, and lists and mappings, which are JSON in tables.
    """
    form = form or ("table" if sys.stdout.isatty() else "ndjson")
    if form == "ndjson":
        for row in rows:
            click.echo(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=_plain))
    elif form == "json":
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        click.echo(json.dumps(objects, ensure_ascii=False, default=_plain, indent=2))
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(value) for value in row] for row in rows)
    else:
        heads = [name.upper().replace("_", " ") for name in names]
        for line in table(heads, ([_cell(value) for value in row] for row in rows)):
            click.echo(line)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _cell(value: Any) -> Any:
    """One cell: what has parts is written as people write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(_cell(one)) for one in value)
    if isinstance(value, dict):
        return ",".join(f"{key}={one}" for key, one in value.items())
    return _plain(value) if isinstance(value, Enum | UUID) else value


def told(found: Mapping[K, V | KafkaError]) -> Iterator[tuple[K, V | KafkaError]]:
    """Each item with what is known of it, or its error, be that in the mapping or raised by looking there."""
    for key in found:
        try:
            yield key, found[key]
        except KafkaError as error:
            yield key, error


def named(partition: TopicPartition) -> str:
    """A partition for a sentence: orders-0."""
    return f"{partition.topic}-{partition.partition}"


def listed(names: Sequence[str]) -> str:
    """Names for a sentence, the first ten of many."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def confirm(what: str, yes: bool, why: str = "cannot be undone") -> None:
    """Asks before what cannot be undone.

    Args:
        what: is about to be done.
        yes: whether the answer is known.
        why: it is asked.

    Raises:
        click.UsageError: there is nobody to ask.
        click.Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what} {why}, and there is no terminal to confirm: pass --yes")
    click.confirm(f"{what} {why}. Continue?", abort=True, err=True)


def settle(outcomes: Iterable[tuple[str, KafkaError | None]], done: str) -> None:
    """Prints what was done and what failed, each as it comes.

    Args:
        outcomes: names with None or the error.
        done: what happened to those without one: `created`.

    Raises:
        PartialFailure: some failed, some did not.
        click.ClickException: all failed.
    """
    failed, succeeded = 0, 0
    for name, error in outcomes:
        if error is None:
            succeeded += 1
            click.echo(f"{name}: {done}", err=not sys.stdout.isatty())
        else:
            failed += 1
            click.echo(f"{name}: {error}", err=True)
    if failed and succeeded:
        raise PartialFailure(f"{failed} of {failed + succeeded} failed")
    if failed:
        raise click.ClickException("nothing was done" if failed == 1 else f"all {failed} failed")


def attempt(keys: Iterable[K], write: Callable[[], object]) -> dict[K, KafkaError | None]:
    """What became of each of several things that one call writes: None, or its error.

    Args:
        keys: of the things, in the order in which they are shown.
        write: the call. What fails as a whole is raised.
    """
    try:
        write()
    except PartialFailureError as some:
        return {key: some.failures.get(key) for key in keys}
    return dict.fromkeys(keys)


def one_by_one(names: Sequence[str], work: Callable[[str], object], what: str) -> None:
    """Does the same for each of several things. What fails with one of them keeps no other from it.

    Args:
        names: of the things.
        work: what is done. It says itself what became of it.
        what: they are: `group`.

    Raises:
        PartialFailure: some failed.
        Exception: what the only one failed with.
    """
    if len(names) == 1:
        work(names[0])
        return
    failed, done = 0, 0
    for number, name in enumerate(names):
        try:
            work(name)
            done += 1
        except click.UsageError:
            raise
        except (KafkaError, click.ClickException) as error:
            text = error.message if isinstance(error, click.ClickException) else error
            click.echo(f"{what} {name}: {text}", err=True)
            failed += 1
            done += bool(isinstance(error, PartialFailureError) and error.succeeded)
            # A cluster that does not answer would keep the rest waiting as long each.
            if isinstance(error, KafkaTimeoutError) and names[number + 1 :]:
                click.echo(f"not tried: {what} {listed(names[number + 1 :])}", err=True)
                failed = len(names) - number
                break
    if failed and done:
        raise PartialFailure(f"{failed} of {len(names)} failed")
    if failed:
        raise click.ClickException(f"all {failed} failed")


def complain(errors: Mapping[str, KafkaError], asked: int, what: str) -> None:
    """Says what could not be found out.

    Args:
        errors: by what they concern: `group g`.
        asked: how many things there are, with those that failed.
        what: they are: `groups`.

    Raises:
        PartialFailure: some failed.
        click.ClickException: all did.
    """
    for name, error in errors.items():
        click.echo(f"{name}: {error}", err=True)
    if errors and len(errors) < asked:
        raise PartialFailure(f"{len(errors)} of {asked} {what} failed")
    if errors:
        raise click.ClickException(f"{asked} of {asked} {what} failed")
