"""`samsarrow groups`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import click

from samsarrow.admin_types import OffsetSpec, RemovedMember
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.offsets_lookup import look_up
from samsarrow.cli.output import attempt, confirm, dry_run_option, listed, output_option, settle, show, told, yes_option
from samsarrow.cli.output import complain as complain_of
from samsarrow.cli.share_groups import check_not_share, explain, without_share_groups
from samsarrow.cli.times import seconds_option
from samsarrow.exceptions import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.types import GroupDescription, GroupListing, MemberDescription, TopicPartition


@click.group()
def groups() -> None:
    """Look at groups: their members, their offsets and their lag; put members out, delete groups.

    `samsarrow offsets` moves their offsets. Where names are taken, so are patterns: 'billing-*'.
    """


names_argument = click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
states_option = click.option("--state", "states", multiple=True, help="Only those in this state; repeatable.")


def chosen(
    connection: Connection, names: tuple[str, ...], states: tuple[str, ...] = (), *, share: bool = False
) -> list[str]:
    """The groups of these names and patterns; all where there are none.

    A name without a pattern is taken as it is: whether it exists, the coordinator says. Patterns match share groups
    only with `share`.

    Raises:
        click.UsageError: a pattern is no group's.
    """
    if names and not states and all(not set("*?[") & set(name) for name in names):
        return list(dict.fromkeys(names))
    wanted = {state.lower() for state in states}
    listed: Mapping[str, GroupListing] = connection.admin.list_groups()
    if not share:
        listed = without_share_groups(listed)
    there = [name for name, group in sorted(listed.items()) if not wanted or (group.state or "").lower() in wanted]
    found: dict[str, None] = {}
    for name in names or ("*",):
        its = [group for group in there if fnmatchcase(group, name)]
        if not its and name != "*" and not states:
            raise click.UsageError(f"there is no group {name} at {connection.servers}, or you may not see it")
        found.update(dict.fromkeys(its))
    return list(found)


@groups.command("list")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@connected
@states_option
@output_option
def list_groups(connection: Connection, patterns: tuple[str, ...], states: tuple[str, ...], form: str | None) -> None:
    """List groups: their state, type and protocol."""
    wanted = {state.lower() for state in states}
    rows = [
        (group.group, group.state, group.type, group.protocol_type)
        for name, group in sorted(connection.admin.list_groups().items())
        if (not wanted or (group.state or "").lower() in wanted)
        and (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
    ]
    show(form, ("group", "state", "type", "protocol_type"), rows)


@dataclass(frozen=True)
class Row:
    """A partition that a group has an offset of, or a member."""

    group: str
    partition: TopicPartition
    offset: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Offsets before the end."""
        return None if self.offset is None or self.end is None else max(self.end - self.offset, 0)


def lags(
    connection: Connection, names: list[str], owned: dict[str, set[TopicPartition]] | None = None
) -> tuple[list[Row], dict[str, KafkaError]]:
    """Offsets and ends of all groups: one request a coordinator, and one a leader.

    Args:
        connection: to the cluster.
        names: of the groups.
        owned: partitions to be there though the group has no offset of them.

    Returns:
        The rows, and what went wrong by group.
    """
    errors: dict[str, KafkaError] = {}
    offsets: dict[str, dict[TopicPartition, int | None]] = {}
    ends: dict[TopicPartition, int | None] = {}
    for name, found in told(connection.admin.group_lag(names)) if names else ():
        if isinstance(found, KafkaError):
            errors[name] = found
            continue
        offsets[name] = dict.fromkeys((owned or {}).get(name, ()))
        offsets[name] |= {one.partition: one.committed.offset for one in found.partitions}
        ends |= {one.partition: one.end for one in found.partitions}
        # Of topics that were deleted offsets stay for a while.
        lost = [one.error for one in found.partitions if not isinstance(one.error, UnknownTopicOrPartitionError)]
        if failed := [error for error in lost if isinstance(error, KafkaError)]:
            errors[name] = failed[0]
    # A group that does not exist has no offsets either.
    if silent := [name for name, of in offsets.items() if not of]:
        described = connection.admin.describe_groups(silent)
        errors |= {name: found for name, found in told(described) if isinstance(found, KafkaError)}
    unread = sorted({tp for of in offsets.values() for tp in of} - ends.keys())
    for tp, at in told(look_up(connection, unread, OffsetSpec.LATEST)):
        if isinstance(at, KafkaError):
            errors |= {name: at for name, of in offsets.items() if tp in of}
        elif at is not None:
            ends[tp] = at.offset
    rows = [Row(name, tp, at, ends.get(tp)) for name, of in offsets.items() for tp, at in sorted(of.items())]
    return rows, errors


@groups.command()
@names_argument
@connected
@states_option
@output_option
def describe(connection: Connection, names: tuple[str, ...], states: tuple[str, ...], form: str | None) -> None:
    """Describe groups: each partition with offset, end, lag and member; members without partitions, too."""
    wanted = chosen(connection, names, states)
    described = connection.admin.describe_groups(wanted) if wanted else {}
    known: dict[str, GroupDescription] = {}
    errors: dict[str, KafkaError] = {}
    for name, found in told(described):
        if isinstance(found, KafkaError):
            errors[name] = found
        else:
            known[name] = found
    owners: dict[tuple[str, TopicPartition], MemberDescription] = {
        (name, tp): member for name, group in known.items() for member in group.members for tp in member.assignment
    }
    owned = {name: {tp for member in group.members for tp in member.assignment} for name, group in known.items()}
    rows, failed = lags(connection, list(known), owned)
    by_group = _by_group(rows)
    lines: list[tuple[Any, ...]] = []
    for name, group in known.items():
        its = by_group.get(name, [])
        lines += [_line(group, row, owners.get((name, row.partition))) for row in its]
        lines += [_line(group, None, member) for member in group.members if not member.assignment]
        if not its and not group.members and name not in failed:
            lines.append(_line(group, None, None))
    show(
        form,
        (
            "group",
            "state",
            "topic",
            "partition",
            "offset",
            "end",
            "lag",
            "client_id",
            "host",
            "member_id",
            "instance_id",
        ),
        lines,
    )
    complain(connection, {**errors, **failed}, len(wanted))


def _line(group: GroupDescription, row: Row | None, member: MemberDescription | None) -> tuple[Any, ...]:
    place = (None, None) if row is None else tuple(row.partition)
    numbers = (None, None, None) if row is None else (row.offset, row.end, row.lag)
    who = (None,) * 4 if member is None else (member.client_id, member.host, member.member_id, member.instance_id)
    return (group.group, group.state, *place, *numbers, *who)


def complain(connection: Connection, errors: dict[str, KafkaError], asked: int) -> None:
    """Says which groups failed, and ends the command if any did."""
    errors = explain(connection.admin, errors)
    complain_of({f"group {name}": error for name, error in errors.items()}, asked, "groups")


@groups.command()
@names_argument
@connected
@states_option
@click.option("--partitions", "each", is_flag=True, help="Each partition, instead of sums.")
@output_option
def lag(connection: Connection, names: tuple[str, ...], states: tuple[str, ...], each: bool, form: str | None) -> None:
    """How far groups are behind: offsets between theirs and the ends, all groups or some."""
    wanted = chosen(connection, names, states)
    rows, errors = lags(connection, wanted)
    if each:
        lines = [(row.group, *row.partition, row.offset, row.end, row.lag) for row in rows]
        show(form, ("group", "topic", "partition", "offset", "end", "lag"), lines)
    else:
        show(form, ("group", "topics", "partitions", "lag"), _sums(wanted, rows, errors))
    complain(connection, errors, len(wanted))


def _by_group(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return found


def _sums(names: list[str], rows: list[Row], errors: dict[str, KafkaError]) -> list[tuple[Any, ...]]:
    found = []
    by_group = _by_group(rows)
    for name in (name for name in names if name not in errors):
        its = by_group.get(name, [])
        found.append((name, len({row.partition.topic for row in its}), len(its), sum(row.lag or 0 for row in its)))
    return found


@groups.command()
@names_argument
@connected
@click.option(
    "-i",
    "--interval",
    default="2s",
    show_default=True,
    callback=seconds_option,
    metavar="SECONDS",
    help="The interval between checks.",
)
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Exit after this many checks.")
@output_option
def watch(
    connection: Connection, names: tuple[str, ...], interval: float, count: int | None, form: str | None
) -> None:  # fmt: skip
    """Watch the lag of groups until Ctrl-C: a table that is drawn anew, or a line of JSON a group and look."""
    drawn = (form or ("table" if sys.stdout.isatty() else "ndjson")) == "table"
    before: dict[str, tuple[float, int]] = {}
    looks = 0
    while True:
        wanted = chosen(connection, names)
        rows, errors = lags(connection, wanted)
        now, at = time.time(), time.monotonic()
        lines = []
        by_group = _by_group(rows)
        for name, topics, partitions, behind in _sums(wanted, rows, errors):
            done = sum(row.offset or 0 for row in by_group.get(name, []))
            was = before.get(name)
            rate = None if was is None or at <= was[0] else round((done - was[1]) / (at - was[0]), 1)
            before[name] = (at, done)
            lines.append((round(now, 3), name, topics, partitions, behind, rate))
        if drawn and sys.stdout.isatty():
            click.clear()
            click.echo(time.strftime("%H:%M:%S", time.localtime(now)))
        heads = ("time", "group", "topics", "partitions", "lag", "offsets_per_second")
        cut = 1 if drawn else 0
        show(form, heads[cut:], [line[cut:] for line in lines])
        sys.stdout.flush()
        for name, error in explain(connection.admin, errors).items():
            click.echo(f"group {name}: {error}", err=True)
        looks += 1
        if looks == count:
            return
        time.sleep(interval)


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@connected
@yes_option
@dry_run_option
def delete(connection: Connection, names: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Delete groups with their offsets; they must have no members."""
    found = chosen(connection, names, share=True)
    if dry_run:
        there = connection.admin.list_groups()
        share = [name for name in found if name in there and name not in without_share_groups(there)]
        rest = [name for name in found if name not in share]
        rows, errors = lags(connection, rest)
        lines = _sums(rest, rows, errors) + [(name, None, None, None) for name in share]
        show(None, ("group", "topics", "partitions", "lag"), lines)
        click.echo("dry run: nothing is deleted", err=True)
        complain(connection, errors, len(found))
        return
    confirm(f"Deleting {listed(found)}", yes)

    outcomes = attempt(found, lambda: connection.admin.delete_groups(found))
    settle(outcomes.items(), "deleted")


@groups.command()
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@connected
@click.option("--member", "ids", multiple=True, metavar="ID", help="A member, by its id; repeatable.")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="ID",
    help="A static member, by its group.instance.id; repeatable.",
)
@click.option("--all", "everyone", is_flag=True, help="All members.")
@click.option(
    "--reason", default="removed by an administrator", show_default=True, help="The reason for the broker's log."
)
@yes_option
@dry_run_option
@output_option
def kick(
    connection: Connection,
    name: str,
    ids: tuple[str, ...],
    instances: tuple[str, ...],
    everyone: bool,
    reason: str,
    yes: bool,
    dry_run: bool,
    form: str | None,
) -> None:
    """Put members out of a group: a consumer that hangs, a static member that does not come back (KIP-345).

    Those that still run join again. `groups describe` has the ids. -o is how --dry-run prints who would go.
    """
    if bool(ids or instances) == everyone:
        raise click.UsageError("select members with --member and --instance, or pass --all")
    try:
        found = connection.admin.describe_groups([name])[name].members
    except GroupIdNotFoundError:
        check_not_share(connection.admin, name)
        raise
    wanted = [member for member in found if everyone or member.member_id in ids or member.instance_id in instances]
    for given, there in ((ids, {m.member_id for m in found}), (instances, {m.instance_id for m in found})):
        if missing := [one for one in given if one not in there]:
            raise click.ClickException(f"group {name} has no member {missing[0]}: nothing was done")
    if dry_run:
        rows = [(m.member_id, m.instance_id, m.client_id, m.host, len(m.assignment)) for m in wanted]
        show(form, ("member_id", "instance_id", "client_id", "host", "partitions"), rows)
        click.echo("dry run: no member is removed", err=True)
        return
    if not wanted:
        click.echo(f"group {name} has no members", err=True)
        return
    confirm(f"Removing {len(wanted)} of {len(found)} members from {name}", yes, "makes the group rebalance")
    # Brokers take a static member by its instance, and one that has rejoined with it.
    removed = {
        RemovedMember(instance_id=m.instance_id) if m.instance_id else RemovedMember(m.member_id): m for m in wanted
    }
    outcomes = attempt(removed, lambda: connection.admin.remove_members(name, list(removed), reason=reason))
    settle(((removed[one].member_id, error) for one, error in outcomes.items()), "removed")
