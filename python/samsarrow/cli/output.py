"""Output of commands: tables on a terminal, JSON lines in a pipe, or the format of `-o`."""

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
    """Prints rows in a format.

    Args:
        form: one of `FORMS`. None is `table` if stdout is a terminal, otherwise `ndjson`.
        names: names of the columns, which tables show in capitals.
        rows: one tuple per row with the values of the columns: text, numbers, None, lists and mappings.
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
    """Returns the text of a table cell. Items of lists and mappings are joined with commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(str(_cell(item)) for item in value)
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return _plain(value) if isinstance(value, Enum | UUID) else value


def each_result(found: Mapping[K, V | KafkaError]) -> Iterator[tuple[K, V | KafkaError]]:
    """Yields each key with its result or error, which may be a value or raised when the key is looked up."""
    for key in found:
        try:
            yield key, found[key]
        except KafkaError as error:
            yield key, error


def named(partition: TopicPartition) -> str:
    """Returns a partition as text: orders-0."""
    return f"{partition.topic}-{partition.partition}"


def listed(names: Sequence[str]) -> str:
    """Returns names as one text, with at most the first ten names."""
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def confirm(action: str, yes: bool, reason: str = "cannot be undone") -> None:
    """Asks the user to confirm an action.

    Args:
        action: the action, as the beginning of a sentence.
        yes: whether to skip the prompt.
        reason: reason for the prompt, as the rest of the sentence.

    Raises:
        click.UsageError: standard input is not a terminal.
        click.Abort: the user declined.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{action} {reason}, and there is no terminal to confirm: pass --yes")
    click.confirm(f"{action} {reason}. Continue?", abort=True, err=True)


def print_outcomes(outcomes: Iterable[tuple[str, KafkaError | None]], done: str) -> None:
    """Prints the outcome of each item when it becomes available.

    Args:
        outcomes: names of items, each with its error or None.
        done: word for success, such as `created`.

    Raises:
        PartialFailure: some items failed, some succeeded.
        click.ClickException: all items failed.
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


def run_batch(keys: Iterable[K], write: Callable[[], object]) -> dict[K, KafkaError | None]:
    """Runs a call that writes several items. Returns the error of each item, or None.

    Args:
        keys: keys of the items. The result has the same order.
        write: the call. Errors other than PartialFailureError are raised.
    """
    try:
        write()
    except PartialFailureError as some:
        return {key: some.failures.get(key) for key in keys}
    return dict.fromkeys(keys)


def one_by_one(names: Sequence[str], work: Callable[[str], object], kind: str) -> None:
    """Processes several items one after the other. Continues after a failure, except after a timeout.

    Args:
        names: names of the items.
        work: function that processes one item and prints its outcome.
        kind: kind of the items, such as `group`.

    Raises:
        PartialFailure: some items failed.
        Exception: the error of the item, if there is only one item.
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
            click.echo(f"{kind} {name}: {text}", err=True)
            failed += 1
            done += bool(isinstance(error, PartialFailureError) and error.succeeded)
            # If the cluster does not respond, all further items would also time out.
            if isinstance(error, KafkaTimeoutError) and names[number + 1 :]:
                click.echo(f"not tried: {kind} {listed(names[number + 1 :])}", err=True)
                failed = len(names) - number
                break
    if failed and done:
        raise PartialFailure(f"{failed} of {len(names)} failed")
    if failed:
        raise click.ClickException(f"all {failed} failed")


def report_errors(errors: Mapping[str, KafkaError], total: int, kind: str) -> None:
    """Prints errors of lookups, and raises an error if any item failed.

    Args:
        errors: errors by item, such as `group g`.
        total: number of items, including those that failed.
        kind: kind of the items, such as `groups`.

    Raises:
        PartialFailure: some items failed.
        click.ClickException: all items failed.
    """
    for name, error in errors.items():
        click.echo(f"{name}: {error}", err=True)
    if errors and len(errors) < total:
        raise PartialFailure(f"{len(errors)} of {total} {kind} failed")
    if errors:
        raise click.ClickException(f"{total} of {total} {kind} failed")
