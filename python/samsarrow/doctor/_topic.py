"""Checks of a topic: existence, leaders, replicas, permissions, offsets, a read."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from samsarrow.access import AclOperation
from samsarrow.admin import Admin
from samsarrow.admin_types import ConfigResource, OffsetSpec, PartitionDescription, TopicDescription
from samsarrow.doctor import _cluster
from samsarrow.doctor._finding import Check, Finding
from samsarrow.doctor._run import Run
from samsarrow.doctor._texts import cause_of, split, text_of
from samsarrow.exceptions import (
    AuthorizationError,
    InvalidTopicError,
    KafkaError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from samsarrow.types import TopicPartition

_CONSUMER_OPTIONS = {"auto.offset.reset": "latest", "enable.auto.commit": "false", "fetch.max.wait.ms": "100"}
_READ_SECONDS = 0.5
# Timestamps less far in the future may be due to unsynchronised clocks.
_FUTURE_SECONDS = 60


def check_topic(run: Run, admin: Admin, topic: str, good: set[int]) -> Iterator[Finding]:
    """Yields findings about a topic. `good` are the ids of usable brokers."""
    subject = f"topic {topic}"
    check = Check("topic", subject)
    try:
        described = _describe(run, admin, topic)
    except AuthorizationError:
        yield Check("acl", subject).failed("this client may not describe the topic", grant_topic(run, topic))
        return
    except (UnknownTopicOrPartitionError, InvalidTopicError) as error:
        yield check.failed(*_missing(run, admin, topic, error))
        return
    except KafkaError as error:
        yield check.failed(*split(text_of(error), "run the command again, or pass a longer --timeout"))
        return
    yield from _partitions(run, check, described, good, _min_insync(run, admin, topic))
    permitted = _permissions(run, described)
    if permitted is not None:
        yield permitted
    led = [TopicPartition(topic, p.partition) for p in described.partitions if p.leader in good]
    if led:
        yield from _offsets(run, admin, subject, led)
        yield from _timestamps(run, admin, subject, led)
        if described.authorized_operations is None or AclOperation.READ in described.authorized_operations:
            yield _read(run, subject, led)


def _describe(run: Run, admin: Admin, topic: str) -> TopicDescription:
    try:
        return admin.describe_topics([topic], include_authorized_operations=True, timeout=run.timeout)[topic]
    except UnsupportedVersionError:
        return admin.describe_topics([topic], timeout=run.timeout)[topic]


def grant_topic(run: Run, topic: str) -> str:
    """Returns the remedy for a missing permission on a topic."""
    role = "--producer" if run.write else "--consumer"
    words = ["acls", "add", "--principal", run.principal, "--topic", topic, role]
    if run.group is not None and not run.write:
        words += ["--group", run.group]
    return f"let an administrator run {run.command(*words)}"


def _missing(run: Run, admin: Admin, topic: str, error: KafkaError) -> tuple[str, str]:
    if isinstance(error, InvalidTopicError):
        return f"{topic!r} is not a valid name", "use at most 249 letters, digits, '.', '_' and '-'"
    try:
        existing = list(admin.list_topics(timeout=run.timeout))
    except KafkaError:
        existing = []
    similar = difflib.get_close_matches(topic, existing, n=3, cutoff=0.7)
    create = run.command("topics", "create", topic)
    if similar:
        return "the topic does not exist", f"did you mean {' or '.join(similar)}? Otherwise create it: {create}"
    return "the topic does not exist", f"check the name with {run.command('topics', 'list')}, or run {create}"


def _min_insync(run: Run, admin: Admin, topic: str) -> int | None:
    """Returns `min.insync.replicas` of a topic; None if it cannot be read."""
    try:
        resource = ConfigResource.topic(topic)
        entries = admin.describe_configs([resource], timeout=run.timeout)[resource]
        value = entries["min.insync.replicas"].value
        return None if value is None else int(value)
    except (KafkaError, KeyError, ValueError):
        return None


def _partitions(
    run: Run, check: Check, described: TopicDescription, good: set[int], min_insync: int | None
) -> Iterator[Finding]:
    partitions = described.partitions
    replicas = run.command("topics", "describe", described.name)

    def those(selected: Sequence[PartitionDescription]) -> str:
        numbers = ", ".join(str(p.partition) for p in selected[:10]) + (" …" if len(selected) > 10 else "")
        return f"partition{'s' * (len(selected) != 1)} {numbers} of {len(partitions)}"

    leaderless = [p for p in partitions if p.leader is None]
    elsewhere = [p for p in partitions if p.leader is not None and p.leader not in good]
    too_few = [p for p in partitions if p.leader is not None and min_insync is not None and len(p.isr) < min_insync]
    behind = [p for p in partitions if len(p.isr) < len(p.replicas) and p not in too_few and p not in leaderless]
    if leaderless:
        brokers = sorted({replica for p in leaderless for replica in p.replicas})
        yield check.failed(
            f"{those(leaderless)} have no leader: they cannot be read or written",
            f"start the brokers with their replicas ({', '.join(map(str, brokers))}); {replicas} shows them",
        )
    if elsewhere:
        leaders = ", ".join(map(str, sorted({p.leader for p in elsewhere if p.leader is not None})))
        yield check.failed(
            f"the leaders of {those(elsewhere)} are brokers that cannot be used from here ({leaders})",
            "fix the advertised addresses of these brokers (above)",
        )
    if too_few:
        yield check.failed(
            f"{those(too_few)} have fewer in-sync replicas than min.insync.replicas={min_insync}: producers with "
            "acks=all get NOT_ENOUGH_REPLICAS",
            f"start the brokers of the missing replicas; {replicas} shows them",
        )
    if behind:
        yield check.warning(
            f"{those(behind)} are under-replicated: replicas are not in sync",
            f"check the brokers of the missing replicas; {replicas} shows them",
        )
    if not (leaderless or elsewhere or too_few or behind):
        copies = sorted({len(p.replicas) for p in partitions})
        text = f"{len(partitions)} partition{'s' * (len(partitions) != 1)}, all with a leader, replicas "
        yield check.ok(f"{text}{'-'.join(map(str, copies))}, all in sync")


def _permissions(run: Run, described: TopicDescription) -> Finding | None:
    check = Check("acl", f"topic {described.name}")
    operations = described.authorized_operations
    if operations is None:
        return check.skipped("brokers before Kafka 2.3 do not report the permitted operations")
    allowed = set(operations)
    read, write = AclOperation.READ in allowed, AclOperation.WRITE in allowed
    text = f"permitted: {', '.join(sorted(operation.name.lower() for operation in allowed)) or 'nothing'}"
    if run.write and not write:
        return check.failed(f"this client may not write to the topic; {text}", grant_topic(run, described.name))
    if not read and (run.group is not None or not write):
        return check.failed(f"this client may not read the topic; {text}", grant_topic(run, described.name))
    if not read:
        return check.warning(
            f"this client may write to the topic, but not read it; {text}", grant_topic(run, described.name)
        )
    return check.ok(text)


def _offsets(run: Run, admin: Admin, subject: str, partitions: Sequence[TopicPartition]) -> Iterator[Finding]:
    check = Check("offsets", subject)
    try:
        first = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.EARLIEST), timeout=run.timeout / 3)
        last = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST), timeout=run.timeout / 3)
        beginnings = {tp: at.offset for tp in first if (at := first[tp]) is not None}
        ends = {tp: at.offset for tp in last if (at := last[tp]) is not None}
    except AuthorizationError:
        # Reported by the check of permissions.
        return
    except KafkaError as error:
        yield check.failed(*split(text_of(error), "run the command again, or pass a longer --timeout"))
        return
    try:
        stable = admin.list_offsets(
            dict.fromkeys(partitions, OffsetSpec.LATEST), read_committed=True, timeout=run.timeout / 3
        )
        held = {tp: ends[tp] - at.offset for tp in stable if (at := stable[tp]) is not None and at.offset < ends[tp]}
    except KafkaError:
        # Brokers before 0.11 have no transactions.
        held = {}
    if held:
        worst = max(held, key=lambda tp: held[tp])
        yield check.warning(
            f"open transactions hold back {sum(held.values())} offsets, {held[worst]} of them in partition "
            f"{worst.partition}: consumers with isolation.level=read_committed do not get them",
            "end the transaction in its producer; for a producer that has crashed, "
            + run.command("txns", "hanging", subject.removeprefix("topic ")),
        )
    count = sum(max(0, ends[tp] - beginnings.get(tp, 0)) for tp in ends)
    yield check.ok(f"{count} offsets from beginning to end" if count else "the topic is empty")


def _timestamps(run: Run, admin: Admin, subject: str, partitions: Sequence[TopicPartition]) -> Iterator[Finding]:
    """Yields a finding if the topic has records from the future."""
    check = Check("timestamps", subject)
    try:
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.MAX_TIMESTAMP), timeout=run.timeout)
        times = [at.timestamp for at in (found[tp] for tp in found) if at is not None and at.timestamp is not None]
    except KafkaError:
        # The lookup needs Kafka 3.0.
        return
    ahead = max(times, default=0) / 1000 - _cluster.now()
    if ahead > _FUTURE_SECONDS:
        yield check.warning(
            f"the newest record is {_cluster.span(ahead)} in the future: the clock of its producer, or of this "
            "machine, is wrong",
            "synchronise the clocks with NTP; time-based retention and reads by time depend on the timestamps",
        )


def _read(run: Run, subject: str, partitions: Sequence[TopicPartition]) -> Finding:
    """Fetches from the end of the partitions, without a group and without a commit."""
    from samsarrow import Consumer

    check = Check("read", subject)
    without = ("group.id", "group.instance.id", "group.protocol", "group.remote.assignor")
    consumer = Consumer(run.client("consumer", _CONSUMER_OPTIONS, without))
    try:
        consumer.assign(partitions)
        consumer.seek_to_end(*partitions)
        consumer.position(partitions[0], timeout=run.timeout)
        consumer.poll(min(_READ_SECONDS, run.timeout))
    except AuthorizationError:
        return check.failed("this client may not read the topic", grant_topic(run, partitions[0].topic))
    except KafkaError as error:
        return check.failed(*split(text_of(error), f"see the broker's log: {cause_of(error)}"))
    finally:
        consumer.close(run.timeout)
    return check.ok(f"fetched from {len(partitions)} partition{'s' * (len(partitions) != 1)}")
