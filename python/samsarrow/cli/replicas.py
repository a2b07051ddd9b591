"""`samsarrow replicas`: leader elections, reassignments and disks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, TextIO

import click

from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.consume.range import partitions_of, partitions_option
from samsarrow.cli.names import chosen_topics
from samsarrow.cli.numbers import Size, size_or_none
from samsarrow.cli.output import (
    confirm,
    dry_run_option,
    each_result,
    named,
    output_option,
    print_outcomes,
    report_errors,
    run_batch,
    show,
    yes_option,
)
from samsarrow.cli.times import seconds_option
from samsarrow.cluster_types import ElectionType
from samsarrow.exceptions import KafkaError
from samsarrow.types import TopicPartition

Plan = dict[TopicPartition, tuple[int, ...]]


@click.group(cls=CommandGroup)
def replicas() -> None:
    """Elect leaders, move replicas to other brokers, show moves in progress and disks.

    `samsarrow topics describe` has the replicas of topics.
    """


topics_argument = click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
partition_option = click.option(
    "-p", "--partition", "numbers", multiple=True, callback=partitions_option, metavar="N",
    help="Only these partitions: 3, 0,2 or 5-7; repeatable.",
)  # fmt: skip


def _tps(connection: Connection, names: tuple[str, ...], numbers: frozenset[int]) -> list[TopicPartition]:
    """Returns the partitions of topics with these names or that match these patterns.

    Without names, returns the partitions of all topics except internal topics.

    Raises:
        click.UsageError: partitions are selected without a topic.
        click.ClickException: a topic or partition does not exist.
    """
    if numbers and not names:
        raise click.UsageError("--partition needs a topic")
    if names:
        return partitions_of(connection, chosen_topics(connection, names), numbers)
    listed = connection.admin.list_topics()
    return partitions_of(connection, sorted(name for name in listed if not listed[name].internal), numbers)


@replicas.command()
@topics_argument
@connected
@partition_option
@click.option(
    "--unclean", is_flag=True, help="Any live replica may lead a partition without a leader: RECORDS MAY BE LOST."
)
@yes_option
@dry_run_option
@output_option
def elect(
    connection: Connection,
    names: tuple[str, ...],
    numbers: frozenset[int],
    unclean: bool,
    yes: bool,
    dry_run: bool,
    form: str | None,
) -> None:
    """Elect the preferred replicas, which are listed first, as leaders, for all topics or for some (KIP-183).

    With --unclean partitions without a leader get one, even if it lacks records (KIP-460). Prints the elected leaders.
    """
    if unclean and not names:
        raise click.UsageError("--unclean needs topics, because it may lose their records")
    tps = _tps(connection, names, numbers)
    now: dict[TopicPartition, tuple[int | None, tuple[int, ...]]] = {}
    for _, topic in each_result(connection.admin.describe_topics(dict.fromkeys(tp.topic for tp in tps))):
        if isinstance(topic, KafkaError):
            raise topic
        now |= {TopicPartition(topic.name, p.partition): (p.leader, p.replicas) for p in topic.partitions}
    selected = [tp for tp in tps if tp in now and (now[tp][0] is None if unclean else now[tp][1][:1] != (now[tp][0],))]
    heads = ("topic", "partition", "leader", "replicas")
    if dry_run:
        show(form, heads, [(*tp, *now[tp]) for tp in selected], "no election is needed")
        click.echo("dry run: nothing is elected", err=True)
        return
    if not selected:
        click.echo("no election is needed", err=True)
        return
    if unclean:
        confirm(f"Electing leaders that may miss records, of {len(selected)} partitions,", yes)
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    outcomes = run_batch(selected, lambda: connection.admin.elect_leaders(selected, election=kind))
    print_outcomes(((named(tp), error) for tp, error in outcomes.items()), "elected")


@replicas.command("list")
@topics_argument
@connected
@partition_option
@output_option
def list_moves(connection: Connection, names: tuple[str, ...], numbers: frozenset[int], form: str | None) -> None:
    """List replicas that are being moved to other brokers (KIP-455, Kafka 2.4), of all topics or some."""
    tps = _tps(connection, names, numbers) if names or numbers else None
    found = connection.admin.list_reassignments(tps)
    rows = [(*tp, move.replicas, move.adding, move.removing) for tp, move in sorted(found.items())]
    heads = ("topic", "partition", "replicas", "adding", "removing")
    show(form, heads, rows, "no replicas are being moved")


def _targets(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> dict[int, tuple[int, ...]]:
    """Parses `--to 0=1:2`."""
    targets: dict[int, tuple[int, ...]] = {}
    for value in values:
        match = re.fullmatch(r"(\d{1,6})=(\d{1,9}(?::\d{1,9})*)", value.strip())
        if match is None:
            raise click.BadParameter(
                f"{value!r} is not PARTITION=BROKER:BROKER, for example 0=1:2 for partition 0 on the brokers 1 and 2"
            )
        if int(match[1]) in targets:
            raise click.BadParameter(f"partition {match[1]} is given twice")
        targets[int(match[1])] = tuple(map(int, match[2].split(":")))
    return targets


def plan_of(file: TextIO) -> Plan:
    """Reads a plan in the format of kafka-reassign-partitions.sh.

    Raises:
        click.UsageError: the file is not a valid plan.
    """
    try:
        parsed = json.load(file)
        plan: Plan = {}
        for item in parsed["partitions"]:
            tp = TopicPartition(item["topic"], item["partition"])
            brokers = tuple(item["replicas"])
            numbers = all(type(number) is int and number >= 0 for number in (tp.partition, *brokers))
            if not (isinstance(tp.topic, str) and brokers and numbers):
                raise ValueError(f"{item} names no partition and its brokers")
            if tp in plan:
                raise ValueError(f"{named(tp)} is in it twice")
            plan[tp] = brokers
    except KeyError as error:
        raise click.UsageError(f"the file is not a reassignment plan: {error} is missing") from None
    except (ValueError, TypeError) as error:
        raise click.UsageError(f"the file is not a reassignment plan: {error}") from None
    if not plan:
        raise click.UsageError("the file has no partitions")
    return plan


@replicas.command()
@click.argument("topic", required=False)
@connected
@click.option(
    "--to", "targets", multiple=True, callback=_targets, metavar="P=B:B",
    help="The brokers of a partition, the preferred leader first: 0=1:2; repeatable.",
)  # fmt: skip
@click.option(
    "--file", "file", type=click.File("r", encoding="utf-8"),
    help='Instead of TOPIC, a plan as kafka-reassign-partitions.sh takes it; - for standard input.',
)  # fmt: skip
@click.option(
    "--cancel", is_flag=True, help="Cancel moves in progress: of TOPIC, which may be a pattern, or of the file."
)
@click.option("--wait", is_flag=True, help="Wait until the replicas have moved.")
@click.option(
    "--interval", default="1s", show_default=True, callback=seconds_option, metavar="SECONDS",
    help="With --wait: the interval between checks.",
)  # fmt: skip
@dry_run_option
@output_option
def reassign(
    connection: Connection,
    topic: str | None,
    targets: Mapping[int, tuple[int, ...]],
    file: TextIO | None,
    cancel: bool,
    wait: bool,
    interval: float,
    dry_run: bool,
    form: str | None,
) -> None:
    """Move replicas to other brokers (KIP-455, Kafka 2.4), by copying. `replicas list` shows moves in progress.

    \b
      samsarrow replicas reassign orders --to 0=1:2 --to 1=2:3 --wait
      samsarrow replicas reassign --file plan.json --dry-run
      samsarrow replicas reassign orders --cancel
    """  # noqa: D301 - click needs the character
    if topic is not None and file is not None:
        raise click.UsageError("pass a TOPIC or --file, not both")
    if cancel and (targets or wait):
        raise click.UsageError("--cancel cancels moves in progress: omit --to and --wait")
    plan = plan_of(file) if file is not None else {}
    if cancel and topic is None and file is None:
        raise click.UsageError("--cancel needs TOPIC, which may be a pattern, or --file")
    if cancel:
        tps = list(plan) if topic is None else _tps(connection, (topic,), frozenset())
        _cancel(connection, tps, dry_run, form)
        return
    if file is None and (topic is None or not targets):
        raise click.UsageError("pass TOPIC and --to, or --file")
    if file is not None and targets:
        raise click.UsageError("the file has the plan: omit --to")
    if topic is not None:
        plan = {tp: targets[tp.partition] for tp in partitions_of(connection, [topic], frozenset(targets))}
    if dry_run:
        _show_plan(connection, plan, form)
        return
    outcomes = run_batch(plan, lambda: connection.admin.alter_reassignments(plan))
    begun = [tp for tp, error in outcomes.items() if error is None]
    while wait and begun and (moving := connection.admin.list_reassignments(begun)):
        click.echo(f"{len(moving)} of {len(begun)} partitions are still moving", err=True)
        time.sleep(interval)
    print_outcomes(((named(tp), error) for tp, error in outcomes.items()), "moved" if wait else "moving")


def _show_plan(connection: Connection, plan: Plan, form: str | None) -> None:
    known = {broker.id for broker in connection.admin.describe_cluster().brokers}
    rows: list[tuple[Any, ...]] = []
    errors: dict[str, KafkaError] = {}
    now: dict[TopicPartition, tuple[int, ...]] = {}
    for name, found in each_result(connection.admin.describe_topics(dict.fromkeys(tp.topic for tp in plan))):
        if isinstance(found, KafkaError):
            errors[f"topic {name}"] = found
        else:
            now |= {TopicPartition(found.name, p.partition): p.replicas for p in found.partitions}
    for tp, brokers in plan.items():
        if unknown := [broker for broker in brokers if broker not in known]:
            raise click.ClickException(f"{named(tp)}: there is no broker {unknown[0]} at {connection.servers}")
        if tp in now:
            rows.append((*tp, now[tp], brokers))
        elif f"topic {tp.topic}" not in errors:
            raise click.ClickException(f"topic {tp.topic} has no partition {tp.partition}")
    show(form, ("topic", "partition", "replicas", "target"), rows)
    click.echo("dry run: nothing moves", err=True)
    report_errors(errors, len({tp.topic for tp in plan}), "topics")


def _cancel(connection: Connection, tps: list[TopicPartition], dry_run: bool, form: str | None) -> None:
    moving = connection.admin.list_reassignments(tps)
    if dry_run:
        rows = [(*tp, move.replicas, move.adding, move.removing) for tp, move in sorted(moving.items())]
        show(form, ("topic", "partition", "replicas", "adding", "removing"), rows)
        click.echo("dry run: nothing is cancelled", err=True)
        return
    if not moving:
        click.echo("no replicas are being moved", err=True)
        return
    outcomes = run_batch(moving, lambda: connection.admin.alter_reassignments(dict.fromkeys(moving)))
    print_outcomes(((named(tp), error) for tp, error in outcomes.items()), "cancelled")


@replicas.command("log-dirs")
@topics_argument
@connected
@click.option("--broker", "brokers", type=click.IntRange(0), multiple=True, help="Only this broker's; repeatable.")
@click.option("--replicas", "each", is_flag=True, help="Each replica, instead of sums of disks; TOPICs choose.")
@output_option
def log_dirs(
    connection: Connection, names: tuple[str, ...], brokers: tuple[int, ...], each: bool, form: str | None
) -> None:
    """Show the disks of brokers with their used and free space (KIP-113).

    With TOPICs or --replicas, shows each replica with its size and lag, and whether it is an incomplete copy. Sizes in
    JSON and CSV are bytes.
    """
    topics = chosen_topics(connection, names) if names else None
    found = connection.admin.log_dirs(list(dict.fromkeys(brokers)) or None)
    errors: dict[str, KafkaError] = {}
    rows: list[tuple[Any, ...]] = []
    total = 0
    for broker, dirs in each_result(found):
        if isinstance(dirs, KafkaError):
            errors[f"broker {broker}"] = dirs
            total += 1
            continue
        for disk in dirs:
            total += 1
            if isinstance(disk.error, KafkaError):
                errors[f"broker {broker}, {disk.path}"] = disk.error
            elif each or topics is not None:
                rows += [
                    (broker, disk.path, *replica.partition, Size(replica.size), replica.offset_lag, replica.future)
                    for replica in sorted(disk.replicas, key=lambda replica: replica.partition)
                    if topics is None or replica.partition.topic in topics
                ]
            else:
                size = Size(sum(replica.size for replica in disk.replicas))
                rows.append((
                    broker, disk.path, len(disk.replicas), size, size_or_none(disk.total_bytes),
                    size_or_none(disk.usable_bytes), disk.cordoned
                ))  # fmt: skip
    if each or topics is not None:
        heads: tuple[str, ...] = ("broker", "path", "topic", "partition", "size", "offset_lag", "future")
    else:
        heads = ("broker", "path", "replicas", "size", "total", "usable", "cordoned")
    show(form, heads, rows, "" if errors else "no replicas")
    report_errors(errors, total, "disks")
