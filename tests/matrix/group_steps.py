"""Steps of the probe for groups, and for idempotent and transactional producers."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from typing import Any

from samsarrow import ConsumerGroupMetadata, TopicPartition
from samsarrow.exceptions import FencedInstanceIdError, GroupIdNotFoundError, KafkaError, ProducerFencedError

from .subject import PATIENCE, Probe, equal, place, plain, raises, rows, values, wait_for

# Groups


def _group(p: Probe, **options: Any) -> None:
    """Two members share two partitions. One leaves, and the other continues at the committed offsets."""
    topic, group = p.topic(), p.name()
    everything = {TopicPartition(topic, i) for i in range(2)}
    options = {"group_id": group, **options}
    with p.producer() as producer:
        for i in range(20):
            producer.send(topic, b"%d" % i, partition=i % 2).result(PATIENCE)
    with p.consumer(**options) as first:
        first.subscribe([topic])
        result = rows(first, 20)
        equal(sorted(int(r.value or b"-1") for r in result), list(range(20)))
        equal(first.assignment(), everything)
        with p.consumer(**options) as second:
            second.subscribe([topic])

            def shared() -> bool:
                result.extend(first.records(0.1))
                result.extend(second.records(0.1))
                return len(first.assignment()) == len(second.assignment()) == 1

            wait_for(shared, "both members have a partition")
            equal(first.assignment() | second.assignment(), everything)
            with p.producer() as producer:
                for i in range(20, 40):
                    producer.send(topic, b"%d" % i, partition=i % 2).result(PATIENCE)
            wait_for(lambda: shared() and len(result) >= 40, "both read")

        def alone() -> bool:
            result.extend(first.records(0.1))
            return first.assignment() == everything

        wait_for(alone, "one has both again")
        equal(sorted(int(r.value or b"-1") for r in result), list(range(40)))
        first.commit()
    with p.producer() as producer:
        producer.send(topic, b"last", partition=0).result(PATIENCE)
    with p.consumer(**options) as third:
        third.subscribe([topic])
        equal(values(rows(third, 1)), [b"last"])


def group_classic(p: Probe) -> None:
    # Members detect rebalances by heartbeats.
    _group(p, heartbeat_interval_ms=300)


def group_cooperative(p: Probe) -> None:
    _group(p, partition_assignment_strategy="cooperative-sticky", heartbeat_interval_ms=300)


def group_consumer(p: Probe) -> None:
    _group(p, group_protocol="consumer")


def _pattern(p: Probe, **options: Any) -> None:
    tp = p.filled(3)
    with p.consumer(group_id=p.name(), **options) as consumer:
        consumer.subscribe(pattern=f"{tp.topic[:-1]}[{tp.topic[-1]}]")
        equal({r.topic for r in rows(consumer, 3)}, {tp.topic})


def group_pattern(p: Probe) -> None:
    _pattern(p)


def consumer_pattern(p: Probe) -> None:
    _pattern(p, group_protocol="consumer")


def static_member(p: Probe) -> None:
    tp, group = p.filled(3), p.name()
    options = {"group_id": group, "group_instance_id": "one", "heartbeat_interval_ms": 300}
    with ExitStack() as stack:
        first = stack.enter_context(p.consumer(**options, enable_auto_commit=False))
        first.subscribe([tp.topic])
        rows(first, 3)
        second = stack.enter_context(p.consumer(**options, enable_auto_commit=False))
        second.subscribe([tp.topic])
        rows(second, 3)
        with raises(FencedInstanceIdError):
            wait_for(lambda: first.poll(0.2).num_rows > 0, "the first member is fenced")


# Groups from outside


def _described(p: Probe, kind: str, **options: Any) -> None:
    tp, group = p.filled(3), p.name()
    with p.admin() as admin, p.consumer(group_id=group, client_id="der-eine", **options) as consumer:
        consumer.subscribe([tp.topic])
        rows(consumer, 3)
        listed = admin.list_groups()[group]
        equal(listed.protocol_type, "consumer")
        equal(listed.state, "Stable" if p.at_least("2.6") else None)
        equal(listed.type, kind if p.at_least("3.8") else None)
        description = admin.describe_groups([group])[group]
        if isinstance(description, KafkaError):
            raise description
        equal((description.state, description.type, description.protocol_type), ("Stable", kind, "consumer"))
        [member] = description.members
        equal((member.client_id, set(member.assignment)), ("der-eine", {tp, TopicPartition(tp.topic, 1)}))


def list_groups(p: Probe) -> None:
    _described(p, "classic")
    with p.admin() as admin:
        # Older Kafka versions describe an unknown group as dead.
        unknown = admin.describe_groups(["unknown"])
        dead = [group.state for group in unknown.found.values()]
        equal(dead == ["Dead"] or isinstance(unknown.errors["unknown"], GroupIdNotFoundError), True)


def list_consumer_groups(p: Probe) -> None:
    _described(p, "consumer", group_protocol="consumer")


def delete_groups(p: Probe) -> None:
    tp, group = p.filled(3), p.name()
    with p.admin() as admin:
        admin.commit_offsets(group, {tp: 2})
        admin.delete_groups([group])
        equal(plain(admin.fetch_offsets(group, [tp])), {tp: None})


def delete_offsets(p: Probe) -> None:
    tp, group = p.filled(3), p.name()
    other = TopicPartition(tp.topic, 1)
    with p.admin() as admin:
        admin.commit_offsets(group, {tp: 2, other: 0})
        equal(admin.delete_offsets(group, [tp]), {tp: None})
        equal(plain(admin.fetch_offsets(group, [tp, other])), {tp: None, other: 0})


# Producers with an identity


def idempotence(p: Probe) -> None:
    topic = p.topic()
    with p.producer(enable_idempotence=True, linger_ms=1) as producer:
        sent = [producer.send(topic, b"%d" % i, partition=0) for i in range(200)]
        equal([d.result(PATIENCE).offset for d in sent], list(range(200)))
    equal(values(p.read(TopicPartition(topic, 0), 200)), [b"%d" % i for i in range(200)])


def transactions(p: Probe) -> None:
    topic = p.topic()
    tp = TopicPartition(topic, 0)
    with p.producer(transactional_id=p.name()) as producer:
        with producer.transaction():
            producer.send(topic, b"committed", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=0)
        producer.flush(PATIENCE)
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"too", partition=0)
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(PATIENCE)
        equal(values(p.read(tp, 2, isolation_level="read_committed")), [b"committed", b"too"])
        equal(values(p.read(tp, 4)), [b"committed", b"aborted", b"too", b"open"])
        with p.consumer(isolation_level="read_committed") as committed, p.consumer() as other:
            # Offset 6 is the record of the open transaction, which is not stable. The three transaction markers also
            # have offsets.
            equal((committed.end_offsets([tp])[tp], other.end_offsets([tp])[tp]), (6, 7))
        producer.commit_transaction()
    equal(values(p.read(tp, 3, isolation_level="read_committed")), [b"committed", b"too", b"open"])


def fencing(p: Probe) -> None:
    topic, who = p.topic(), p.name()
    first = p.producer(transactional_id=who)
    try:
        with first.transaction():
            first.send(topic, b"1", partition=0)
        with p.producer(transactional_id=who) as second, second.transaction():
            second.send(topic, b"2", partition=0)
        with raises(ProducerFencedError), first.transaction():
            first.send(topic, b"3", partition=0)
    finally:
        with suppress(KafkaError):
            first.close(5)
    equal(values(p.read(TopicPartition(topic, 0), 2, isolation_level="read_committed")), [b"1", b"2"])


def transaction_offsets(p: Probe) -> None:
    tp, group = p.filled(10), p.name()
    with p.producer(transactional_id=p.name()) as producer, p.admin() as admin:
        with producer.transaction():
            producer.send_offsets_to_transaction({tp: 5}, ConsumerGroupMetadata(group, "", -1, None))
        wait_for(lambda: plain(admin.fetch_offsets(group, [tp])) == {tp: 5}, "the offset is committed")
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: 9}, ConsumerGroupMetadata(group, "", -1, None))
        producer.abort_transaction()
        equal(plain(admin.fetch_offsets(group, [tp])), {tp: 5})


def transaction_member(p: Probe) -> None:
    tp, group, copy = p.filled(10), p.name(), p.topic()
    with p.consumer(group_id=group, enable_auto_commit=False) as consumer:
        consumer.subscribe([tp.topic])
        result = rows(consumer, 10)
        metadata = consumer.group_metadata()
        with p.producer(transactional_id=p.name()) as producer:
            with producer.transaction():
                for record in result:
                    producer.send(copy, record.value, partition=0)
                producer.send_offsets_to_transaction({tp: 10}, metadata)
            wait_for(lambda: place(consumer, tp) == (10, ""), "the offset is committed")
            stale = metadata._replace(generation=metadata.generation + 7)
            with raises(KafkaError), producer.transaction():
                producer.send_offsets_to_transaction({tp: 1}, stale)
        equal(place(consumer, tp), (10, ""))
    equal(values(p.read(TopicPartition(copy, 0), 10, isolation_level="read_committed")), values(result))
