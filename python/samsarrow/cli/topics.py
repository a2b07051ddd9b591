"""`samsarrow topics`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping

import click

from samsarrow.admin_types import ConfigResource, ConfigSource, NewPartitions, OffsetSpec, PartitionDescription
from samsarrow.cli.commands import CommandGroup, Option
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.config_ops import changes_of, unset_option
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.consume.range import partitions_of, partitions_option
from samsarrow.cli.names import chosen_topics
from samsarrow.cli.offsets_lookup import at, beginnings, ends, look_up
from samsarrow.cli.output import (
    check_names,
    confirm,
    dry_run_option,
    each_result,
    if_exists_option,
    listed,
    matches,
    named,
    no_rows,
    output_option,
    print_outcomes,
    report_errors,
    run_batch,
    show,
    yes_option,
)
from samsarrow.cli.times import TIME_HELP, instant_option
from samsarrow.exceptions import (
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from samsarrow.types import NewTopic, TopicListing, TopicPartition


@click.group(cls=CommandGroup)
def topics() -> None:
    """Show, create, change, trim and delete topics.

    Names may be patterns: 'orders-*'. Quote patterns, because otherwise the shell expands them.
    """


names_argument = click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)


@topics.command("list")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@connected
@click.option("--internal", is_flag=True, help="Include Kafka's internal topics.")
@output_option
def list_topics(connection: Connection, patterns: tuple[str, ...], internal: bool, form: str | None) -> None:
    """List all topics, or those that match patterns, with their numbers of partitions."""
    listed = sorted(connection.admin.list_topics().values())
    rows = [
        (t.name, t.partitions, t.internal, t.topic_id)
        for t in listed
        if (internal or not t.internal) and matches(t.name, patterns)
    ]
    check_names("topic", patterns, {t.name for t in listed}, connection.servers)
    show(form, ("topic", "partitions", "internal", "id"), rows, no_rows("topics", patterns))


@topics.command()
@names_argument
@connected
@click.option("--settings", "settings_only", is_flag=True, help="Instead, the settings that are not Kafka's defaults.")
@click.option("--under-replicated", is_flag=True, help="Only partitions with a replica that is not in sync.")
@output_option
def describe(
    connection: Connection, names: tuple[str, ...], settings_only: bool, under_replicated: bool, form: str | None
) -> None:
    """Describe partitions: leader, replicas, in-sync replicas, first and end offset, and number of records.

    MAX RECORDS is the number of offsets between BEGINNING and END. There may be fewer records, because compaction
    removes records and transactions write markers. A partition without a leader has no offsets.
    """
    if settings_only and under_replicated:
        raise click.UsageError("--settings and --under-replicated contradict each other: settings are of whole topics")
    found = chosen_topics(connection, names)
    if settings_only:
        _describe_settings(connection, list(found), form)
        return
    errors: dict[str, KafkaError] = {}
    partitions: dict[TopicPartition, PartitionDescription] = {}
    for name, topic in each_result(connection.admin.describe_topics(found)):
        if isinstance(topic, KafkaError):
            errors[f"topic {name}"] = topic
        else:
            partitions |= {TopicPartition(topic.name, p.partition): p for p in topic.partitions}
    if under_replicated:
        partitions = {tp: p for tp, p in partitions.items() if len(p.isr) < len(p.replicas)}
    led = [tp for tp, p in partitions.items() if p.leader is not None]
    offsets: list[dict[TopicPartition, int]] = []
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
        known: dict[TopicPartition, int] = {}
        for tp, offset in each_result(look_up(connection, led, spec)):
            if isinstance(offset, KafkaError):
                errors[named(tp)] = offset
            elif offset is not None:
                known[tp] = offset.offset
        offsets.append(known)
    first, last = offsets
    rows = [
        (
            *tp, p.leader, p.replicas, p.isr, first.get(tp), last.get(tp),
            last[tp] - first[tp] if tp in first and tp in last else None,
        )
        for tp, p in partitions.items()
    ]  # fmt: skip
    empty = "" if errors else "no partitions" if not under_replicated else "no under-replicated partitions"
    show(form, ("topic", "partition", "leader", "replicas", "isr", "beginning", "end", "max_records"), rows, empty)
    report_errors(errors, len(partitions) + sum(name.startswith("topic ") for name in errors), "partitions")


def _describe_settings(connection: Connection, names: list[str], form: str | None) -> None:
    rows, errors = [], {}
    for resource, entries in each_result(
        connection.admin.describe_configs([ConfigResource.topic(name) for name in names])
    ):
        if isinstance(entries, KafkaError):
            errors[f"topic {resource.name}"] = entries
            continue
        differ = [entries[name] for name in sorted(entries) if entries[name].source is not ConfigSource.DEFAULT]
        rows += [(resource.name, entry.name, entry.value, entry.source.name) for entry in differ]
    show(form, ("topic", "name", "value", "source"), rows, "" if errors else "no settings differ from the defaults")
    report_errors(errors, len(names), "topics")


@topics.command()
@names_argument
@connected
@click.option(
    "--at", "when", callback=instant_option, metavar="TIME", help=f"The first offset at or after {TIME_HELP}."
)
@output_option
def offsets(connection: Connection, names: tuple[str, ...], when: int | None, form: str | None) -> None:
    """List the end offsets of partitions, or with --at their offsets at a time.

    If a partition has no record at or after the time, its end offset is listed.
    """
    tps = _partitions(chosen_topics(connection, names))
    found = ends(connection, tps)
    if when is not None:
        found |= at(connection, tps, when)
    show(form, ("topic", "partition", "offset"), [(*tp, found[tp]) for tp in tps])


def _partitions(found: dict[str, TopicListing]) -> list[TopicPartition]:
    return [TopicPartition(name, number) for name, topic in found.items() for number in range(topic.partitions)]


def settings(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parses `--config NAME=VALUE`."""
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE, for example cleanup.policy=compact")
        found[name.strip()] = text.strip()
    return found


def assignment_option(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> tuple[tuple[int, ...], ...]:
    """Parses `--assignment`: `0:1,1:2` puts the first partition on brokers 0 and 1, the second on 1 and 2."""
    if value is None:
        return ()
    found = []
    for part in value.split(","):
        if not re.fullmatch(r"\d{1,9}(:\d{1,9})*", part.strip()):
            raise click.BadParameter(
                f"{part!r} names no brokers: give their ids with colons between them, and commas between partitions, "
                "for example 0:1,1:2"
            )
        brokers = tuple(map(int, part.strip().split(":")))
        if len(set(brokers)) < len(brokers):
            raise click.BadParameter(f"{part!r} names a broker twice")
        found.append(brokers)
    return tuple(found)


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@connected
@click.option(
    "--partitions",
    cls=Option,
    old=("-p",),
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="The number of partitions; by default the brokers' num.partitions.",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1, 32767),
    metavar="N",
    help="The number of replicas; by default the brokers' default.replication.factor.",
)
@click.option(
    "--config",
    "configs",
    cls=Option,
    old=("--set",),
    multiple=True,
    callback=settings,
    metavar="NAME=VALUE",
    help="A setting of the topics, such as retention.ms=86400000; repeatable.",
)
@click.option(
    "--assignment", callback=assignment_option, metavar="B:B,B:B",
    help="The brokers of each partition, the preferred leader first: 0:1,1:2 are two partitions.",
)  # fmt: skip
@click.option("--if-not-exists", is_flag=True, help="Topics that exist already are not an error, and stay unchanged.")
@dry_run_option
def create(
    connection: Connection,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: dict[str, str],
    assignment: tuple[tuple[int, ...], ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics. With --dry-run the controller only checks whether the topics could be created."""
    if assignment and (partitions or replication_factor):
        raise click.UsageError("--assignment says how many partitions and replicas there are: omit --partitions and -r")
    new_topics = {
        name: NewTopic(name, configs=configs, assignment=assignment)
        if assignment
        else NewTopic(name, partitions or -1, replication_factor or -1, configs)
        for name in names
    }
    create_topics = connection.admin.create_topics
    outcomes = run_batch(new_topics, lambda: create_topics(list(new_topics.values()), validate_only=dry_run))
    existing = [name for name, error in outcomes.items() if isinstance(error, TopicAlreadyExistsError)]
    if if_not_exists:
        for name in existing:
            click.echo(f"{name}: exists already, unchanged", err=not sys.stdout.isatty())
            del outcomes[name]
    print_outcomes(outcomes.items(), "would be created" if dry_run else "created")


@topics.command()
@names_argument
@connected
@if_exists_option("Topics")
@click.option(
    "--partitions",
    cls=Option,
    old=("-p",),
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="The new number of partitions, never fewer than now.",
)
@click.option(
    "--assignment",
    callback=assignment_option,
    metavar="B:B,B:B",
    help="With --partitions: the brokers of each new partition.",
)
@click.option(
    "--config",
    "sets",
    cls=Option,
    old=("--set",),
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting; NAME+=VALUE adds to a list, NAME-=VALUE removes from it; repeatable.",
)
@unset_option
@dry_run_option
def alter(
    connection: Connection,
    names: tuple[str, ...],
    if_exists: bool,
    partitions: int | None,
    assignment: tuple[tuple[int, ...], ...],
    sets: tuple[str, ...],
    unset: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Add partitions to topics, and change their settings. With --dry-run brokers only check the changes.

    With more partitions, keys map to other partitions.
    """
    if assignment and partitions is None:
        raise click.UsageError("--assignment is for new partitions: set the number of partitions with --partitions")
    if partitions is None and not sets and not unset:
        raise click.UsageError("no change given: use --partitions, --config NAME=VALUE or --unset NAME")
    changes = changes_of(sets, unset)
    found = chosen_topics(connection, names, if_exists)
    if not found:
        click.echo("nothing to change", err=True)
        return

    def outcomes() -> Iterator[tuple[str, KafkaError | None]]:
        if partitions is not None:
            new = NewPartitions(partitions, assignment or None)
            create = connection.admin.create_partitions
            created = run_batch(found, lambda: create(dict.fromkeys(found, new), validate_only=dry_run))
            yield from ((f"{name}, partitions", error) for name, error in created.items())
        if sets or unset:
            resources = [ConfigResource.topic(name) for name in found]
            change = connection.admin.alter_configs
            set_ = run_batch(resources, lambda: change(dict.fromkeys(resources, changes), validate_only=dry_run))
            yield from ((f"{resource.name}, settings", error) for resource, error in set_.items())

    print_outcomes(outcomes(), "would be changed" if dry_run else "changed")


@topics.command()
@names_argument
@connected
@click.option("--before", type=click.IntRange(0), metavar="OFFSET", help="Records before an offset.")
@click.option("--before-time", "when", callback=instant_option, metavar="TIME", help=f"Records before {TIME_HELP}.")
@click.option("--all", "everything", is_flag=True, help="All current records.")
@click.option(
    "-p",
    "--partition",
    "numbers",
    multiple=True,
    callback=partitions_option,
    metavar="N",
    help="Only these partitions: 3, 0,2 or 5-7; repeatable.",
)
@yes_option
@dry_run_option
@output_option
def trim(
    connection: Connection,
    names: tuple[str, ...],
    before: int | None,
    when: int | None,
    everything: bool,
    numbers: frozenset[int],
    yes: bool,
    dry_run: bool,
    form: str | None,
) -> None:
    """Delete the oldest records of topics up to an offset or a time, or all records (KIP-107).

    A time stands for the first record at or after this time. Older records that follow this record are kept, and so are
    records that arrive while the command runs. Topics that are only compacted cannot be trimmed.
    """
    if (before is not None) + (when is not None) + everything != 1:
        raise click.UsageError("pass one of --before OFFSET, --before-time TIME and --all")
    tps = partitions_of(connection, chosen_topics(connection, names), numbers)
    first, last = beginnings(connection, tps), ends(connection, tps)
    until = last if when is None else last | _since(connection, tps, when, last)
    if before is not None:
        until = dict.fromkeys(tps, before)
    if beyond := [tp for tp in tps if until[tp] > last[tp] and before is not None]:
        end = f"{named(beyond[0])} ends at {last[beyond[0]]}"
        raise click.ClickException(f"{end}, before offset {before}: nothing was deleted")
    selected = {tp: min(until[tp], last[tp]) for tp in tps if until[tp] > first[tp]}
    heads = ("topic", "partition", "beginning", "new_beginning", "max_records")
    if dry_run:
        rows = [(*tp, first[tp], to, to - first[tp]) for tp, to in selected.items()]
        show(form, heads, rows, "nothing to delete")
        click.echo("dry run: nothing is deleted", err=True)
        return
    if not selected:
        click.echo("nothing to delete", err=True)
        return
    count = sum(to - first[tp] for tp, to in selected.items())
    confirm(f"Deleting up to {count:,} records in {len(selected)} partitions of {listed(list(names))}", yes)
    done: dict[TopicPartition, int] = {}
    outcomes = run_batch(selected, lambda: done.update(connection.admin.delete_records(selected)))
    deleted = [tp for tp, error in outcomes.items() if error is None]
    rows = [(*tp, first[tp], done.get(tp, selected[tp]), done.get(tp, selected[tp]) - first[tp]) for tp in deleted]
    show(form, heads, rows)
    report_errors(
        {named(tp): error for tp, error in outcomes.items() if error is not None}, len(selected), "partitions"
    )


def _since(
    connection: Connection, tps: list[TopicPartition], time: int, last: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Returns the offset of the first record at or after a time, for partitions with such a record.

    A second lookup confirms that a partition has no such record, because a wrong result would delete all its records.

    Raises:
        click.ClickException: the two lookups of a partition disagree.
    """
    found = at(connection, tps, time)
    newest = look_up(connection, [tp for tp in tps if tp not in found], OffsetSpec.MAX_TIMESTAMP)
    for tp, record in each_result(newest):
        # Brokers before Kafka 3.0 do not support this lookup. Records after the ends that were looked up are kept in
        # any case.
        if isinstance(record, UnsupportedVersionError) or record is None:
            continue
        if isinstance(record, KafkaError):
            raise record
        if record.timestamp >= time and record.offset < last[tp]:
            raise click.ClickException(
                f"{named(tp)}: its leader returns no record at or after the time, but has one at offset "
                f"{record.offset}: nothing was done. Pass the offset as --before"
            )
    return found


@topics.command()
@names_argument
@connected
@if_exists_option("Topics")
@yes_option
@dry_run_option
def delete(connection: Connection, names: tuple[str, ...], if_exists: bool, yes: bool, dry_run: bool) -> None:
    """Delete topics with all their records."""
    found = chosen_topics(connection, names, if_exists)
    if not found:
        click.echo("nothing to delete", err=True)
        return
    if dry_run:
        show(None, ("topic", "partitions"), [(topic.name, topic.partitions) for topic in found.values()])
        click.echo("dry run: nothing is deleted", err=True)
        return
    confirm(f"Deleting {listed(list(found))}", yes)
    outcomes = run_batch(found, lambda: connection.admin.delete_topics(list(found)))
    if if_exists:
        # Another client may have deleted a topic since it was listed.
        gone = [name for name, error in outcomes.items() if isinstance(error, UnknownTopicOrPartitionError)]
        outcomes |= dict.fromkeys(gone)
    print_outcomes(outcomes.items(), "deleted")
