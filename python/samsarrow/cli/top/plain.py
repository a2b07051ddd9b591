"""Output of group samples without a screen: one table, or lines of JSON, for each sample."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from samsarrow.cli.output import no_rows, report_errors, show
from samsarrow.cli.top.history import History, Row, sorted_rows
from samsarrow.cli.top.sampler import Sample, Sampler
from samsarrow.exceptions import KafkaError
from samsarrow.types import TopicPartition

FIELDS = (
    "time", "group", "type", "state", "members", "topics", "partitions", "lag", "produced_per_second",
    "consumed_per_second", "rebalances", "eta_seconds",
)  # fmt: skip
PARTITION_FIELDS = (
    "time", "group", "topic", "partition", "offset", "end", "lag", "produced_per_second", "consumed_per_second",
    "eta_seconds", "member",
)  # fmt: skip


def samples(sampler: Sampler, history: History, count: int | None) -> Iterator[Sample | KafkaError]:
    """Takes samples at the sampler's interval, adds them to the history, and yields them.

    An error after the first sample is yielded instead, and sampling continues.

    Args:
        sampler: the sampler.
        history: the history.
        count: number of samples; None to continue until an exception.

    Raises:
        KafkaError: the first sample failed.
    """
    due = time.monotonic()
    taken = 0
    sampled = False
    while count is None or taken < count:
        time.sleep(max(due - time.monotonic(), 0))
        due = time.monotonic() + sampler.interval
        try:
            sample: Sample | KafkaError = sampler.sample()
        except KafkaError as error:
            if not sampled:
                raise
            sample = error
        if isinstance(sample, Sample):
            history.add(sample)
            sampled = True
        taken += 1
        yield sample


def errors_of(sample: Sample | KafkaError) -> dict[str, KafkaError]:
    """Returns the errors of a sample by item, such as `group g`."""
    if isinstance(sample, KafkaError):
        return {"groups": sample}
    errors = {"list of groups": sample.error} if sample.error is not None else {}
    return errors | {f"group {name}": group.error for name, group in sample.groups.items() if group.error is not None}


def report(sample: Sample | KafkaError, last: bool) -> None:
    """Prints the errors of a sample to stderr, and raises an error if it is the last sample.

    Raises:
        PartialFailure: some groups failed in the last sample.
        click.ClickException: all groups failed in the last sample.
        KafkaError: the last sample failed.
    """
    if last:
        if isinstance(sample, KafkaError):
            raise sample
        report_errors(errors_of(sample), len(sample.groups), "groups")
    elif isinstance(sample, KafkaError):
        click.echo(str(sample), err=True)
    else:
        for name, error in errors_of(sample).items():
            click.echo(f"{name}: {error}", err=True)


def print_time(now: float) -> None:
    """Prints the time of a sample above its table, after clearing the screen if stdout is a terminal."""
    if sys.stdout.isatty():
        click.clear()
    click.echo(time.strftime("%H:%M:%S", time.localtime(now)))


def run(
    sampler: Sampler, history: History, form: str | None, sort: str, count: int | None, skip: int, by_partition: bool
) -> None:
    """Prints the groups, or their partitions, after each sample. Prints errors to stderr.

    Args:
        sampler: the sampler.
        history: the history.
        form: one of `FORMS`; None for tables.
        sort: column of `Row` by which rows are sorted. Numbers begin with the largest.
        count: number of samples; None to continue until an exception.
        skip: samples at the beginning that are not printed.
        by_partition: whether to print partitions instead of groups.

    Raises:
        PartialFailure: some groups failed in the last sample.
        click.ClickException: all groups failed in the last sample.
        KafkaError: the last sample failed.
    """
    names = PARTITION_FIELDS if by_partition else FIELDS
    as_table = form in (None, "table")
    for number, sample in enumerate(samples(sampler, history, count)):
        if number < skip:
            continue
        now = round(time.time(), 3)
        if isinstance(sample, Sample):
            rows = sorted_rows(history.rows(), sort, descending=sort != "key")
            if by_partition:
                lines = [_partition(now, row.key, each) for row in rows for each in _partitions(history, row, sort)]
            else:
                lines = [_group(now, row) for row in rows]
            if as_table and (count is None or count - skip > 1):
                print_time(now)
            empty = "" if errors_of(sample) else no_rows("groups", sampler.patterns, sampler.topics)
            show("table" if as_table else form, names[as_table:], [line[as_table:] for line in lines], empty)
            sys.stdout.flush()
        report(sample, last=number + 1 == count)


def _partitions(history: History, row: Row, sort: str) -> list[Row]:
    rows = history.partition_rows(str(row.key))
    return sorted_rows(rows, sort if sort in ("lag", "consumed", "produced") else "key", descending=sort != "key")


def _group(now: float, row: Row) -> tuple[Any, ...]:
    counts = (row.members, row.topics, row.partitions, row.lag)
    return (now, row.key, row.type or None, row.state or None, *counts, *_rates(row), row.rebalances, _eta(row))


def _partition(now: float, group: object, row: Row) -> tuple[Any, ...]:
    topic, partition = row.key if isinstance(row.key, TopicPartition) else (row.key, None)
    numbers = (row.offset, row.end, row.lag)
    return (now, group, topic, partition, *numbers, *_rates(row), _eta(row), row.member or None)


def _rates(row: Row) -> tuple[float | None, float | None]:
    made, read = row.produced, row.consumed
    return (None if made is None else round(made, 1), None if read is None else round(read, 1))


def _eta(row: Row) -> float | None:
    """Returns the seconds until the lag is 0; None if they are unknown, and if the lag does not fall."""
    return None if row.eta is None or math.isinf(row.eta) else round(row.eta, 1)
