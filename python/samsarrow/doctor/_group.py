"""Checks of a group: coordinator, state, members, committed offsets, lag."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from samsarrow.access import AclOperation
from samsarrow.admin import Admin
from samsarrow.admin_types import OffsetSpec, PartitionLag
from samsarrow.doctor._finding import Check, Finding
from samsarrow.doctor._run import Run
from samsarrow.doctor._stopwatch import Stopwatch
from samsarrow.doctor._texts import cause_of, split, text_of
from samsarrow.exceptions import (
    AuthorizationError,
    ConfigurationError,
    GroupIdNotFoundError,
    KafkaError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from samsarrow.group_types import ShareGroupDescription, StreamsGroupDescription
from samsarrow.types import GroupDescription, MemberDescription, TopicPartition

_OFFSETS_TOPIC = "__consumer_offsets"
# Seconds between two looks at a group, in which members commit at least once at the default interval of 5 s.
_WATCH = 6.0
_INTERVAL = 0.25
_REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_AGAIN = "run the command again, or pass a longer --timeout"


def check_group(run: Run, admin: Admin, group: str, good: set[int]) -> Iterator[Finding]:
    """Yields findings about a group. `good` are the ids of usable brokers."""
    subject = f"group {group}"
    check = Check("coordinator", subject)
    if not _may_look_up(run, admin, group):
        # A lookup of a coordinator would create the topic for committed offsets.
        yield check.skipped("the cluster has no groups yet: brokers create __consumer_offsets with the first group")
        yield from _no_offsets(run, Check("lag", subject))
        return
    try:
        node = admin.find_coordinator(group, timeout=run.timeout)
    except AuthorizationError:
        yield _denied(run, group, "describe")
        return
    except KafkaError as error:
        yield check.failed(
            f"the group has no coordinator: {cause_of(error)}",
            f"check that {_OFFSETS_TOPIC} has leaders ({run.command('topics', 'describe', _OFFSETS_TOPIC)}); with "
            "fewer brokers than offsets.topic.replication.factor (3 by default) brokers cannot create it",
        )
        return
    if node.id not in good:
        yield check.failed(
            f"the coordinator is broker {node.id}, which cannot be used from here",
            "fix the advertised address of this broker (above)",
        )
        return
    yield check.ok(f"broker {node.id} ({node.host}:{node.port})")
    yield from _described(run, admin, group)


def _may_look_up(run: Run, admin: Admin, group: str) -> bool:
    try:
        if group in admin.list_groups(timeout=run.timeout):
            return True
        admin.describe_topics([_OFFSETS_TOPIC], timeout=run.timeout)[_OFFSETS_TOPIC]
    except UnknownTopicOrPartitionError:
        return False
    except KafkaError:
        return True
    return True


def _denied(run: Run, group: str, operation: str) -> Finding:
    words = ["acls", "add", "--principal", run.principal, "--group", group]
    words += ["--topic", run.topic, "--consumer"] if run.topic else ["--operation", "read"]
    remedy = f"let an administrator run {run.command(*words)}"
    return Check("acl", f"group {group}").failed(f"this client may not {operation} the group", remedy)


def _described(run: Run, admin: Admin, group: str) -> Iterator[Finding]:
    check = Check("group", f"group {group}")
    try:
        first = _describe(run, admin, group)
    except AuthorizationError:
        yield _denied(run, group, "describe")
        return
    except GroupIdNotFoundError:
        if other := _other_type(run, admin, group):
            yield _of_other_type(run, admin, check, group, other)
            return
        yield check.ok("the group does not exist yet: it is created when its first member joins")
        yield from _lag(run, admin, group, None, None)
        return
    except UnsupportedVersionError as error:
        yield check.skipped(text_of(error))
        return
    except KafkaError as error:
        yield check.failed(*split(text_of(error), _AGAIN))
        return
    operations = first.authorized_operations
    if operations is not None:
        if AclOperation.READ not in operations:
            yield _denied(run, group, "read")
        else:
            names = ", ".join(sorted(operation.name.lower() for operation in operations))
            yield Check("acl", f"group {group}").ok(f"permitted: {names}")
    before = _committed(run, admin, group)
    later, rebalancing = _watch(run, admin, group, first)
    yield _state(run, check, group, first, later, rebalancing)
    if run.topic is not None and later.state == "Stable" and later.members:
        yield from _unassigned(run, admin, group, run.topic, later)
    yield from _lag(run, admin, group, later, before)


def _describe(run: Run, admin: Admin, group: str) -> GroupDescription:
    try:
        return admin.describe_groups([group], include_authorized_operations=True, timeout=run.timeout)[group]
    except UnsupportedVersionError:
        return admin.describe_groups([group], timeout=run.timeout)[group]


def _other_type(run: Run, admin: Admin, group: str) -> str:
    """Returns `share` or `streams` if the group is of this type."""
    try:
        listed = admin.list_groups(timeout=run.timeout).get(group)
    except KafkaError:
        return ""
    return listed.type if listed is not None and listed.type in ("share", "streams") else ""


def _of_other_type(run: Run, admin: Admin, check: Check, group: str, kind: str) -> Finding:
    found: ShareGroupDescription | StreamsGroupDescription
    try:
        if kind == "share":
            found = admin.describe_share_groups([group], timeout=run.timeout)[group]
        else:
            found = admin.describe_streams_groups([group], timeout=run.timeout)[group]
    except KafkaError as error:
        return check.failed(*split(text_of(error), _AGAIN))
    members = f"{len(found.members)} member{'s' * (len(found.members) != 1)}"
    return check.ok(f"a {kind} group, {found.state}, {members}; its lag is not checked")


def _watch(run: Run, admin: Admin, group: str, first: GroupDescription) -> tuple[GroupDescription, float]:
    """Watches a group while it rebalances, otherwise until members should have committed.

    Returns:
        The last description, and the seconds for which the group was seen rebalancing.
    """
    watch = Stopwatch()
    rebalancing, last = 0.0, first
    limit = min(run.timeout, _WATCH) if first.state == "Stable" and first.members else run.timeout
    while (elapsed := watch.seconds) < limit:
        if last.state in _REBALANCING:
            rebalancing = elapsed
        elif not last.members or (rebalancing and last.state == "Stable"):
            break
        time.sleep(min(_INTERVAL, max(0.0, limit - elapsed)))
        try:
            last = admin.describe_groups([group], timeout=run.timeout)[group]
        except KafkaError:
            break
    if last.state in _REBALANCING:
        rebalancing = watch.seconds
    return last, rebalancing


def _state(
    run: Run, check: Check, group: str, first: GroupDescription, last: GroupDescription, rebalancing: float
) -> Finding:
    members = f"{len(last.members)} member{'s' * (len(last.members) != 1)}"
    if last.state in _REBALANCING:
        slow = [m for m in last.members if m.target is not None and set(m.target) != set(m.assignment)]
        if slow:
            return check.failed(
                f"a rebalance is stuck: {last.state} for {rebalancing:.0f} s, because {_named(slow)} did not take over "
                "the new assignment",
                f"check that each member calls poll() more often than max.poll.interval.ms; restart it, or run "
                f"{run.command('groups', 'kick', group, '--member', slow[0].member_id)}",
            )
        return check.failed(
            f"a rebalance is stuck: {last.state} for {rebalancing:.0f} s, because a member does not rejoin; members: "
            f"{_named(last.members)}",
            "find the member that does not call poll(), which delays the rebalance by its max.poll.interval.ms (5 "
            f"minutes by default), and restart it; or run {run.command('groups', 'kick', group, '--member', 'ID')}",
        )
    before, after = {m.member_id for m in first.members}, {m.member_id for m in last.members}
    if rebalancing or (before and before != after):
        return check.warning(
            f"the group rebalanced during the check, it is {last.state} with {members} now",
            "if it rebalances all the time, see docs/troubleshooting.md#it-rebalances-all-the-time",
        )
    if not last.members:
        return check.ok(f"{last.state}, no member reads")
    return check.ok(f"{last.state}, {members}: {_named(last.members)}")


def _named(members: Sequence[MemberDescription]) -> str:
    names = [f"{m.client_id} at {m.host.lstrip('/')} ({m.member_id})" for m in members[:3]]
    return ", ".join(names) + (f" and {len(members) - 3} more" if len(members) > 3 else "")


def _unassigned(run: Run, admin: Admin, group: str, topic: str, found: GroupDescription) -> Iterator[Finding]:
    check = Check("assignment", f"group {group}")
    owned = {tp.partition for member in found.members for tp in member.assignment if tp.topic == topic}
    try:
        existing = {p.partition for p in admin.describe_topics([topic], timeout=run.timeout)[topic].partitions}
    except KafkaError:
        return
    if not owned:
        yield check.failed(
            f"no member is subscribed to {topic}", "check the topics that the members pass to subscribe()"
        )
    elif missing := sorted(existing - owned):
        text = ", ".join(map(str, missing[:10]))
        yield check.failed(
            f"partitions {text} of {topic} are assigned to no member",
            "subscribe all members to the topic; if partitions were added lately, members see them after "
            "metadata.max.age.ms (5 minutes by default)",
        )
    else:
        idle = sum(not member.assignment for member in found.members)
        more = f"; {idle} members have no partition, because there are more members than partitions" if idle else ""
        yield check.ok(f"all {len(existing)} partitions of {topic} are assigned{more}")


def _committed(run: Run, admin: Admin, group: str) -> Mapping[TopicPartition, int]:
    try:
        found = admin.group_lag([group], timeout=run.timeout)[group]
    except KafkaError:
        return {}
    return {lag.partition: lag.committed.offset for lag in found.partitions}


def _lag(
    run: Run,
    admin: Admin,
    group: str,
    described: GroupDescription | None,
    before: Mapping[TopicPartition, int] | None,
) -> Iterator[Finding]:
    check = Check("lag", f"group {group}")
    try:
        found = admin.group_lag([group], timeout=run.timeout)[group]
    except AuthorizationError:
        yield _denied(run, group, "read")
        return
    except (UnsupportedVersionError, ConfigurationError) as error:
        # OffsetFetch before Kafka 0.10.2 needs the names of the partitions.
        yield check.skipped(text_of(error))
        return
    except KafkaError as error:
        yield check.failed(*split(text_of(error), _AGAIN))
        return
    rows = [row for row in found.partitions if run.topic is None or row.partition.topic == run.topic]
    yield from _out_of_range(run, admin, group, rows)
    if not rows:
        yield from _no_offsets(run, check)
        return
    known = [row for row in rows if row.lag is not None]
    total = sum(row.lag or 0 for row in known)
    text = f"lag {total} in {len(known)} partitions"
    if len(known) < len(rows):
        missing = [row for row in rows if row.lag is None]
        text += f", unknown in {len(missing)} (such as {missing[0].partition.topic}-{missing[0].partition.partition})"
    active = described is not None and bool(described.members)
    moved = before is None or any(before.get(row.partition) != row.committed.offset for row in rows)
    if total and not active:
        yield check.warning(f"{text}, and the group has no member", "start a consumer of the group")
    elif total and not moved:
        yield check.warning(
            f"{text}, and no offset was committed during {min(run.timeout, _WATCH):.0f} s",
            "check that the members process rows and commit: see docs/troubleshooting.md#lag-grows",
        )
    else:
        yield check.ok(text)


def _no_offsets(run: Run, check: Check) -> Iterator[Finding]:
    what = f"no offset for topic {run.topic}" if run.topic else "no offset"
    reset = str(run.options.get("auto.offset.reset", "latest"))
    if reset in ("latest", "largest", "end"):
        yield check.warning(
            f"the group has committed {what}, and auto.offset.reset={reset}: it starts at the end and does not read "
            "the records that exist now",
            "set auto.offset.reset=earliest to read them",
        )
    elif reset == "none":
        yield check.warning(
            f"the group has committed {what}, and auto.offset.reset=none: its consumers raise an error",
            "set auto.offset.reset, or commit offsets with `samsarrow offsets reset`",
        )
    else:
        yield check.ok(f"the group has committed {what}: it starts by auto.offset.reset={reset}")


def _out_of_range(run: Run, admin: Admin, group: str, rows: Sequence[PartitionLag]) -> Iterator[Finding]:
    check = Check("offsets", f"group {group}")
    try:
        first = admin.list_offsets({row.partition: OffsetSpec.EARLIEST for row in rows}, timeout=run.timeout)
    except KafkaError:
        return
    beginnings: dict[TopicPartition, int] = {}
    for partition in first:
        try:
            at = first[partition]
        except KafkaError:
            continue
        if at is not None:
            beginnings[partition] = at.offset
    removed = [row for row in rows if row.committed.offset < beginnings.get(row.partition, 0)]
    beyond = [row for row in rows if row.end is not None and row.committed.offset > row.end]
    for selected, what in (
        (removed, "records that the group has not read were removed by retention: it is behind the beginning of"),
        (beyond, "the group has committed offsets after the end, as after a topic was created again:"),
    ):
        if selected:
            row = selected[0]
            names = ", ".join(f"{r.partition.topic}-{r.partition.partition}" for r in selected[:5])
            bounds = f"committed {row.committed.offset}, available {beginnings.get(row.partition, '?')} to {row.end}"
            yield check.failed(
                f"{what} {names} ({bounds}): consumers continue by auto.offset.reset="
                f"{run.options.get('auto.offset.reset', 'latest')}",
                "run "
                + run.command("offsets", "reset", group, "--to-earliest", "--topic", row.partition.topic, "--dry-run")
                + ", then without --dry-run, while the group has no members",
            )
