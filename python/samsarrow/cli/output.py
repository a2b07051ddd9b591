"""Output of commands: tables on a terminal, JSON lines in a pipe, or the format of `-o`."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from uuid import UUID

import click

from samsarrow.cli.commands import Option
from samsarrow.cli.errors import NotFound, PartialFailure
from samsarrow.cli.tables import table
from samsarrow.exceptions import KafkaError, KafkaTimeoutError
from samsarrow.results import PartialFailureError
from samsarrow.types import TopicPartition

K = TypeVar("K")
V = TypeVar("V")

FORMS = ("table", "json", "ndjson", "csv")


class FormatChoice(click.Choice[str]):
    """Names of output formats. The error about another text that looks like a file has a hint."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name, or raises an error with the possible names."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if "." in str(value) or "/" in str(value):
                names = {name for other in ctx.command.params for name in other.opts} if ctx is not None else set()
                file = f"-O {value}" if "--output-file" in names else f"> {value}"
                hint = f"{error.message} -o is the format of the output; {file} writes it to a file."
                raise click.BadParameter(hint, ctx, param) from None
            raise


def output_options(
    forms: Sequence[str], text: str, *, old: Sequence[str] = (), **settings: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns the option `-o`, `--output`.

    Args:
        forms: names of the formats.
        text: help text.
        old: other names of the option, which are accepted too.
        **settings: arguments of `Option`.
    """
    kind = FormatChoice(forms)
    return click.option(
        "-o", "--output", "form", cls=Option, old=old, type=kind, metavar="FORMAT", help=text, **settings
    )


output_option = output_options(
    FORMS, "table, json (an array), ndjson (a line each) or csv. By default table on a terminal, ndjson in a pipe."
)
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def if_exists_option(kind: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns the option `--if-exists`.

    Args:
        kind: kind of the items in the plural, such as `Topics`.
    """
    return click.option("--if-exists", is_flag=True, help=f"{kind} that do not exist are not an error.")


dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would be done.")


def show(form: str | None, names: Sequence[str], rows: Iterable[Sequence[Any]], empty: str = "") -> None:
    """Prints rows in a format.

    Without rows, only `json` and `csv` print something, `[]` and the names.

    Args:
        form: one of `FORMS`. None is `table` if stdout is a terminal, otherwise `ndjson`.
        names: names of the columns, which tables show in capitals.
        rows: one tuple per row with the values of the columns: text, numbers, None, lists and mappings.
        empty: line for standard error if there are no rows, such as `no topics`.
    """
    form = form or ("table" if sys.stdout.isatty() else "ndjson")
    rows = list(rows)
    if not rows and empty:
        click.echo(empty, err=True)
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
    elif rows:
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


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Returns true if a name matches one of the patterns, or if there are no patterns."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def check_names(kind: str, patterns: Sequence[str], existing: Collection[str], where: str) -> None:
    """Checks that names exist which are no patterns. A pattern may match nothing.

    Raises:
        NotFound: a name does not exist.
    """
    for name in patterns:
        if not set("*?[") & set(name) and name not in existing:
            raise NotFound(f"{kind} {name}", where)


def no_rows(kind: str, *selection: Sequence[str]) -> str:
    """Returns the line that `show` prints for a list without rows.

    Args:
        kind: kind of the items in the plural, such as `topics`.
        *selection: patterns, states and so on that select some of the items.
    """
    return f"no {kind}" + (" match" if any(selection) else "")


def states_option(states: Sequence[str], text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns the repeatable option `--state`, which also takes several states with commas, in any case.

    Args:
        states: Kafka's names of the states.
        text: help text, to which the names are added.
    """
    by_name = {state.lower(): state for state in states}

    def parse(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
        names = [name.strip() for value in values for name in value.split(",")]
        if unknown := [name for name in names if name.lower() not in by_name]:
            raise click.BadParameter(f"{unknown[0]!r} is not a state: use {', '.join(states)}")
        return tuple(dict.fromkeys(by_name[name.lower()] for name in names))

    return click.option(
        "--state", "states", multiple=True, callback=parse, metavar="STATE,...", help=f"{text}: {', '.join(states)}."
    )


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
