"""Steps of the probe on topics, records and offsets."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa

from samsarrow import Admin, NewTopic, OffsetAndMetadata, TopicPartition
from samsarrow.exceptions import KafkaError, MessageTooLargeError, TopicAlreadyExistsError
from support.kafka_releases import RELEASES
from support.peers import Sent, confluent

from .subject import HOUR, LONG_AGO, PATIENCE, Probe, equal, place, plain, raises, rows, values, wait_for

# Topics


def metadata(p: Probe) -> None:
    topic = p.topic()
    with p.admin() as admin:
        listed = admin.list_topics()
        equal((listed[topic].partitions, listed[topic].internal), (2, False))
        equal(set(admin.list_topics([topic])), {topic})
        equal(listed[topic].topic_id is not None, p.at_least("2.8"))
    with p.consumer() as consumer:
        equal(consumer.partitions_for(topic), [TopicPartition(topic, i) for i in range(2)])


def created_by_use(p: Probe) -> None:
    topic = p.name()
    with p.producer() as producer:
        equal(producer.send(topic, b"first", partition=1).result(PATIENCE).offset, 0)
    equal(values(p.read(TopicPartition(topic, 1), 1)), [b"first"])


def create_topics(p: Probe) -> None:
    name = p.name()
    with p.admin() as admin:
        admin.create_topics([NewTopic(name, 3, 1, {"cleanup.policy": "compact"})])
        equal(_partitions(admin, name), 3)
        with raises(TopicAlreadyExistsError):
            admin.create_topics([NewTopic(name, 3, 1)])
        admin.delete_topics([name])
        wait_for(lambda: name not in admin.list_topics(), "the deleted topic is gone")


def broker_defaults(p: Probe) -> None:
    name = p.name()
    with p.admin() as admin:
        admin.create_topics([name], num_partitions=-1)
        equal(_partitions(admin, name), 2)


def _partitions(admin: Admin, name: str) -> int:
    """Returns the partitions of a new topic, which brokers apply later than the controller."""
    wait_for(lambda: name in admin.list_topics([name]), "the new topic is listed")
    return admin.list_topics([name])[name].partitions


# Records

_ODD = ((b"k", b"v"), (None, b"v"), (b"k", None), (b"", b""), (None, None), ("schlüssel".encode(), b"\x00" * 5000))


def send(p: Probe) -> None:
    topic = p.topic()
    # Even without acknowledgements no record may be lost, because the leader is ready.
    for turn, acks in enumerate(("all", "1", "0")):
        tp, base = TopicPartition(topic, 0), turn * len(_ODD)
        with p.producer(acks=acks, linger_ms=20) as producer:
            sent = [producer.send(topic, value, key, partition=0) for key, value in _ODD]
            results = [d.result(PATIENCE).offset for d in sent]
            equal(results, [-1] * len(_ODD) if acks == "0" else list(range(base, base + len(_ODD))))
            # Reads before the producer closes its connection, because brokers up to 0.10 then drop unprocessed
            # requests.
            read = p.read(tp, base + len(_ODD))[base:]
        equal([(r.key, r.value, r.offset) for r in read], [(k, v, base + i) for i, (k, v) in enumerate(_ODD)])


def send_batch(p: Probe) -> None:
    topic, count = p.topic(), 3000
    table = pa.table(
        {
            "key": [None if i % 7 == 0 else f"k{i}" for i in range(count)],
            "value": [None if i % 5 == 0 else b"%d" % i for i in range(count)],
            "partition": pa.array([i % 2 for i in range(count)], pa.int32()),
        }
    )
    with p.producer() as producer:
        receipts = producer.send_batch(topic, table, partition="partition").result(PATIENCE)
    equal(sum(r.count for r in receipts), count)
    for partition in range(2):
        expected = [
            (None if i % 7 == 0 else b"k%d" % i, None if i % 5 == 0 else b"%d" % i) for i in range(partition, count, 2)
        ]
        actual = p.read(TopicPartition(topic, partition), count // 2)
        equal([(r.key, r.value) for r in actual], expected)
        equal([r.offset for r in actual], list(range(count // 2)))


def bulk(p: Probe) -> None:
    tp, count = TopicPartition(p.topic(), 0), 20_000
    data = pa.table({"value": [b"%08d" % i + b"x" * 92 for i in range(count)], "p": pa.array([0] * count, pa.int32())})
    with p.producer(compression_type="lz4") as producer:
        producer.send_batch(tp.topic, data, partition="p").result(PATIENCE)
    equal(values(p.read(tp, count)), data["value"].to_pylist())


def _codec(p: Probe, codec: str) -> None:
    topic, count = p.topic(), 300
    expected = [(b"k%d" % (i % 9), b"value %d " % i * 20) for i in range(count)]
    with p.producer(compression_type=codec) as producer:
        table = pa.table(
            {"key": [k for k, _ in expected], "value": [v for _, v in expected], "p": pa.array([0] * count)}
        )
        producer.send_batch(topic, table, partition="p").result(PATIENCE)
    equal([(r.key, r.value) for r in p.read(TopicPartition(topic, 0), count)], expected)
    # Another client reads our records, and we read its records.
    read = confluent.consume(p.bootstrap_servers, topic, count, **p.peer_options)
    equal([(r.key, r.value) for r in read], expected)
    sent = [Sent(key, value) for key, value in expected]
    confluent.produce(p.bootstrap_servers, topic, codec, sent, partition=1, **p.peer_options)
    equal([(r.key, r.value) for r in p.read(TopicPartition(topic, 1), count)], expected)


def codec_none(p: Probe) -> None:
    _codec(p, "none")


def codec_gzip(p: Probe) -> None:
    _codec(p, "gzip")


def codec_snappy(p: Probe) -> None:
    _codec(p, "snappy")


def codec_lz4(p: Probe) -> None:
    _codec(p, "lz4")


def codec_zstd(p: Probe) -> None:
    _codec(p, "zstd")


def timestamps(p: Probe) -> None:
    topic = p.topic()
    times = [LONG_AGO, LONG_AGO + 5, LONG_AGO - 1, LONG_AGO + HOUR]
    before = int(time.time() * 1000)
    with p.producer(linger_ms=20) as producer:
        sent = [producer.send(topic, b"v", partition=0, timestamp=t) for t in [*times, None]]
        timestamps = [d.result(PATIENCE).timestamp for d in sent]
    read = p.read(TopicPartition(topic, 0), len(times) + 1)
    if not p.at_least("0.10"):
        # Records of format v0 have no time.
        equal({(r.timestamp, r.timestamp_type) for r in read}, {(None, None)})
        return
    equal([r.timestamp for r in read][:-1], times)
    equal({r.timestamp_type for r in read}, {0})
    equal([r.timestamp for r in read], timestamps)
    now = read[-1].timestamp
    if now is None or not before <= now <= time.time() * 1000:
        raise AssertionError(f"a record of now has the time {now}")


def log_append_time(p: Probe) -> None:
    tp = TopicPartition(p.topic(message_timestamp_type="LogAppendTime"), 0)
    with p.producer() as producer:
        timestamp = producer.send(tp.topic, b"v", partition=0, timestamp=LONG_AGO).result(PATIENCE).timestamp
    [record] = p.read(tp, 1)
    equal((record.timestamp_type, record.timestamp), (1, timestamp))
    equal(record.timestamp is not None and record.timestamp > LONG_AGO + HOUR, True)


def headers(p: Probe) -> None:
    topic = p.topic()
    expected: list[list[tuple[str, bytes | None]]]
    expected = [[("a", b"1"), ("b", None), ("a", b"")], [], [("ü", b"\x00")]]
    with p.producer(linger_ms=20) as producer:
        for some in expected:
            producer.send(topic, b"v", partition=0, headers=some).result(PATIENCE)
    equal([r.headers for r in p.read(TopicPartition(topic, 0), 3, include_headers=True)], expected)
    read = confluent.consume(p.bootstrap_servers, topic, 3, **p.peer_options)
    equal([list(r.headers) for r in read], expected)


def too_large(p: Probe) -> None:
    topic = p.topic()
    with p.producer(max_request_size=3_000_000) as producer:
        delivery = producer.send(topic, os.urandom(2_000_000), partition=0)
        with raises(MessageTooLargeError):
            delivery.result(PATIENCE)
        equal(producer.send(topic, b"small", partition=0).result(PATIENCE).offset, 0)


# Offsets in the log


def ends(p: Probe) -> None:
    tp = p.filled(10)
    other = TopicPartition(tp.topic, 1)
    with p.consumer() as consumer:
        equal(consumer.beginning_offsets([tp, other]), {tp: 0, other: 0})
        equal(consumer.end_offsets([tp, other]), {tp: 10, other: 0})
        consumer.assign([tp, other])
        rows(consumer, 10)
        equal(consumer.position(tp), 10)
        equal(consumer.lag(), {tp: 0, other: 0})
        consumer.seek(tp, 4)
        equal(consumer.lag()[tp], 6)


def seek(p: Probe) -> None:
    tp = p.filled(10)
    with p.consumer(group_id=p.name(), enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        rows(consumer, 10)
        consumer.seek(tp, 7)
        equal([r.offset for r in rows(consumer, 3)], [7, 8, 9])
        consumer.seek_to_beginning(tp)
        equal([r.offset for r in rows(consumer, 10)], list(range(10)))
        consumer.seek_to_end(tp)
        equal(consumer.position(tp), 10)
        consumer.commit({tp: 8})
        consumer.seek_to_committed(tp)
        equal([r.offset for r in rows(consumer, 2)], [8, 9])
    with p.consumer(auto_offset_reset="latest") as consumer:
        consumer.assign([tp])
        equal(consumer.position(tp), 10)


def by_time(p: Probe) -> None:
    tp = p.filled(10)
    with p.consumer() as consumer:
        for time_, expected in ((LONG_AGO, 0), (LONG_AGO + 3 * HOUR, 3), (LONG_AGO + 3 * HOUR + 1, 4)):
            actual = consumer.offsets_for_times({tp: time_})[tp]
            equal(actual and (actual.offset, actual.timestamp), (expected, LONG_AGO + expected * HOUR))
        equal(consumer.offsets_for_times({tp: LONG_AGO + 10 * HOUR})[tp], None)
        consumer.assign([tp])
        consumer.seek_to_timestamp(LONG_AGO + 6 * HOUR, tp)
        equal([r.offset for r in rows(consumer, 4)], [6, 7, 8, 9])


def reader(p: Probe) -> None:
    tp = p.filled(10)
    with p.consumer() as consumer:
        consumer.assign([tp])
        equal(consumer.reader().read_all()["value"].to_pylist(), [b"%d" % i for i in range(10)])
        equal(consumer.reader().read_all().num_rows, 0)


# Committed offsets


def commit(p: Probe) -> None:
    tp, group = p.filled(10), p.name()
    done: list[object] = []
    with p.consumer(group_id=group, enable_auto_commit=False) as consumer:
        consumer.assign([tp])
        equal(consumer.committed([tp]), {tp: None})
        rows(consumer, 10)
        consumer.commit()
        equal(place(consumer, tp), (10, ""))
        consumer.commit({tp: OffsetAndMetadata(4, "bis hier: ü")})
        equal(place(consumer, tp), (4, "bis hier: ü"))
        consumer.commit_async({tp: 6}, lambda offsets, error: done.append((offsets, error)))
        consumer.commit_async({tp: 5}, lambda offsets, error: done.append((offsets, error)))
        wait_for(lambda: consumer.poll(0.05).num_rows == 0 and len(done) == 2, "both callbacks are called")
        equal(done, [({tp: OffsetAndMetadata(6)}, None), ({tp: OffsetAndMetadata(5)}, None)])
    with p.consumer(group_id=group, enable_auto_commit=True) as consumer:
        consumer.assign([tp])
        equal([r.offset for r in rows(consumer, 5)], [5, 6, 7, 8, 9])
    with p.consumer(group_id=group) as consumer:
        # Closing the consumer commits the offsets of the records it has read.
        equal(place(consumer, tp), (10, ""))


def commit_epoch(p: Probe) -> None:
    tp = p.filled(10)
    with p.consumer(group_id=p.name(), enable_auto_commit=False, include_leader_epoch=True) as consumer:
        consumer.assign([tp])
        batch = consumer.poll(PATIENCE)
        # Records have a leader epoch since Kafka 0.11. Groups store the epoch since 2.1. Older versions drop it, even
        # if it comes from Java's client.
        equal(set(batch["leader_epoch"].to_pylist()), {0 if p.at_least("0.11") else -1})
        consumer.commit({tp: OffsetAndMetadata(3, "", 0)})
        equal(consumer.committed([tp]), {tp: OffsetAndMetadata(3, "", 0 if p.at_least("2.1") else None)})


def outside(p: Probe) -> None:
    tp, group = p.filled(10), p.name()
    other = TopicPartition(tp.topic, 1)
    with p.admin() as admin:
        equal(admin.commit_offsets(group, {tp: 7, other: OffsetAndMetadata(0, "m")}), {tp: None, other: None})
        offsets = admin.fetch_offsets(group, [tp, other])
        equal({at: o and (o.offset, o.metadata) for at, o in offsets.items()}, {tp: (7, ""), other: (0, "m")})
    with p.consumer(group_id=group) as consumer:
        consumer.assign([tp])
        equal([r.offset for r in rows(consumer, 3)], [7, 8, 9])


def all_offsets(p: Probe) -> None:
    tp, groups = p.filled(10), [p.name(), p.name()]
    with p.admin() as admin:
        for offset, group in enumerate(groups):
            equal(admin.commit_offsets(group, {tp: offset}), {tp: None})
        equal(plain(admin.fetch_offsets(groups[1])), {tp: 1})
        many = admin.fetch_offsets_many(groups)
        equal({group: plain(found) for group, found in many.items()}, {groups[0]: {tp: 0}, groups[1]: {tp: 1}})


def require_stable(p: Probe) -> None:
    tp, group = p.filled(3), p.name()
    with p.admin() as admin:
        admin.commit_offsets(group, {tp: 2})
        equal(plain(admin.fetch_offsets(group, [tp], require_stable=True)), {tp: 2})
    if not p.at_least("2.5"):
        raise AssertionError("offsets that should be stable were asked for where the broker cannot say so")


def offset_versions(p: Probe) -> None:
    """Each version that the broker supports works; all others are rejected with an error that names the version."""
    tp = p.filled(3)
    commits, fetches = p.offset_versions()
    with p.admin() as admin:

        def commits_in(version: int) -> None:
            equal(admin.commit_offsets(p.name(), {tp: 2}, api_version=version), {tp: None})

        def fetches_in(version: int) -> None:
            group = p.name()
            if version == 0:
                # OffsetFetch v0 reads from ZooKeeper, to which only OffsetCommit v0 writes.
                with suppress(KafkaError):
                    admin.commit_offsets(group, {tp: 2}, api_version=0)
            else:
                admin.commit_offsets(group, {tp: 2})
            equal(plain(admin.fetch_offsets(group, [tp], api_version=version)), {tp: 2})

        for version in range(11):
            _versioned(p, "OffsetCommit", version, commits, commits_in)
            _versioned(p, "OffsetFetch", version, fetches, fetches_in)


def _versioned(p: Probe, api: str, version: int, spoken: tuple[int, int], call: Callable[[int], None]) -> None:
    works = spoken[0] <= version <= spoken[1] and (version > 0 or RELEASES[p.version_text].zookeeper)
    try:
        call(version)
    except Exception as error:
        text = str(error)
        named = isinstance(error, KafkaError) and (f"{api} v{version}" in text or "ZooKeeper" in text)
        if works or not named:
            raise AssertionError(f"{api} v{version}, and the broker speaks {spoken}: {error!r}") from error
    else:
        if not works:
            raise AssertionError(f"{api} v{version} went well, and the broker speaks {spoken}")
