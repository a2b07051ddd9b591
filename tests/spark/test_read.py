"""Batch reads of Spark from Apache Kafka."""

import datetime
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Consumer, Producer
from support.kafka import KafkaServer

T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def topic(kafka: KafkaServer) -> str:
    """A topic with 30 records in partition 0 and 10 in partition 1. One record has headers, and one is a tombstone."""
    from samsarrow import Admin, NewTopic

    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("spark-read", 2, 1)])
    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type="zstd") as producer:
        for partition, count in ((0, 30), (1, 10)):
            for i in range(count):
                headers = [("a", b"1"), ("a", None)] if i == 3 else []
                value = None if i == 4 else b"v%d" % i
                producer.send("spark-read", value, b"k%d" % i, headers=headers, partition=partition, timestamp=T0 + i)
    return "spark-read"


def test_whole_topic(load: Callable[..., Any], topic: str) -> None:
    frame = load(subscribe=topic, includeHeaders="true")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    rows = sorted(frame.collect(), key=lambda r: (r.partition, r.offset))
    assert [(r.partition, r.offset) for r in rows] == [(0, i) for i in range(30)] + [(1, i) for i in range(10)]
    for r in rows:
        i = r.offset
        assert bytes(r.key) == b"k%d" % i
        assert r.value is None if i == 4 else bytes(r.value) == b"v%d" % i
        assert r.topic == topic
        assert r.timestamp.replace(tzinfo=None) == datetime.datetime(2023, 11, 14, 22, 13, 20, i * 1000)
        assert r.timestampType == 0
        if i == 3:
            assert [(h.key, h.value and bytes(h.value)) for h in r.headers] == [("a", b"1"), ("a", None)]
        else:
            assert r.headers is None


def test_offset_ranges(load: Callable[..., Any], topic: str) -> None:
    frame = load(
        subscribe=topic,
        startingOffsets=json.dumps({topic: {"0": 5, "1": -2}}),
        endingOffsets=json.dumps({topic: {"0": 9, "1": -1}}),
    )
    assert "headers" not in frame.columns
    result = sorted((r.partition, r.offset) for r in frame.select("partition", "offset").collect())
    assert result == [(0, i) for i in range(5, 9)] + [(1, i) for i in range(10)]


def test_assign_reads_only_given_partitions(load: Callable[..., Any], topic: str) -> None:
    frame = load(assign=json.dumps({topic: [1]}))
    assert {r.partition for r in frame.select("partition").distinct().collect()} == {1}
    assert frame.count() == 10


def test_min_partitions_splits_ranges(load: Callable[..., Any], topic: str) -> None:
    assert load(subscribe=topic).rdd.getNumPartitions() == 2
    frame = load(subscribe=topic, minPartitions="8")
    assert 8 <= frame.rdd.getNumPartitions() <= 9
    assert frame.count() == 40


def test_empty_range(load: Callable[..., Any], topic: str) -> None:
    frame = load(assign=json.dumps({topic: [0]}), startingOffsets=json.dumps({topic: {"0": 30}}))
    assert frame.collect() == []
    everything = load(assign=json.dumps({topic: [0]}), startingOffsets=json.dumps({topic: {"0": 30}}), columns="offset")
    assert everything.count() == 0


def test_large_topic_is_complete(load: Callable[..., Any], kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    name = new_topic(3)
    count = 200_000
    values = pa.array([b"%0100d" % i for i in range(count)], pa.binary())
    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4") as producer:
        producer.send_batch(name, pa.table({"v": values}), value="v").result(60)
    frame = load(subscribe=name)
    total = frame.selectExpr("count(*) n", "sum(cast(cast(value as string) as bigint)) s").collect()[0]
    assert (total.n, total.s) == (count, count * (count - 1) // 2)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "no-such-topic"}, "no-such-topic"),
        ({"assign": '{"spark-read":[7]}'}, "spark-read-7"),
        ({"subscribe": "spark-read", "startingOffsets": '{"spark-read":{"0":1}}'}, "for every partition"),
        ({"subscribe": "spark-read", "assign": "{}"}, "exactly one"),
        ({"subscribe": "spark-read", "kafka.fetch.min.bites": "1"}, "fetch.min.bytes"),
    ],
)
def test_read_errors(load: Callable[..., Any], topic: str, options: dict[str, str], text: str) -> None:
    quick = {"kafka.default.api.timeout.ms": "3000", **options}
    with pytest.raises(Exception, match=text):
        load(**quick).collect()


def test_unreadable_offsets_are_named(load: Callable[..., Any], topic: str) -> None:
    with pytest.raises(Exception, match=r"spark-read.*99|99.*spark-read"):
        load(
            assign=json.dumps({topic: [0]}),
            startingOffsets=json.dumps({topic: {"0": 99}}),
            endingOffsets=json.dumps({topic: {"0": 120}}),
        ).collect()


def test_group_offsets_are_not_changed(load: Callable[..., Any], kafka: KafkaServer, topic: str) -> None:
    assert load(subscribe=topic, **{"kafka.group.id": "spark-group"}).count() == 40
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id="spark-group") as consumer:
        assert set(consumer.committed(consumer.partitions_for(topic)).values()) == {None}
