"""Extensions of our source that Spark's own connector does not have: column selection, text layout, cached clients."""

import datetime
import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Consumer, TopicPartition
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.client_cache import CONSUMERS, ClientCache, reading
from samsarrow.spark.fetch import read_range
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange
from support.kafka import KafkaServer
from support.parity import Topics
from support.streams import produce

Load = Callable[..., Any]


def test_columns_option_selects_and_orders(load: Load, topics: Topics) -> None:
    frame = load(subscribe="parity-times", columns="offset,value")
    assert frame.schema.simpleString() == "struct<offset:bigint,value:binary>"
    assert sorted(map(tuple, frame.collect())) == [(n, b"%d" % n) for n in range(6)]


def test_user_schema_selects_columns(spark: Any, kafka: KafkaServer, topics: Topics) -> None:
    reader = spark.read.format("samsarrow-python").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    frame = reader.option("subscribe", "parity-plain").schema(
        "headers array<struct<key:string,value:binary>>, value string, partition int"
    )
    rows = frame.load().where("partition = 2").collect()
    assert [row.value for row in rows] == ["v0", "v1", "v2"]
    assert all(row.headers is None for row in rows)
    for wrong in ("value int", "colour string", "offset int"):
        with pytest.raises(Exception, match="cannot be read: this source has"):
            reader.option("subscribe", "parity-plain").schema(wrong).load().collect()


def test_string_layout_keeps_invalid_utf8(load: Load, kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    produce(kafka, topic, {0: ["ü", b"\xff\xfe"]})  # type: ignore[list-item]
    text = load(subscribe=topic, layout="string")
    cast = load(subscribe=topic).selectExpr("cast(value as string) value")
    assert text.schema["value"].dataType.simpleString() == "string"
    for frame in (text, cast):
        assert sorted(row.h for row in frame.selectExpr("hex(value) h").collect()) == ["C3BC", "FFFE"]


def test_read_committed_skips_aborted_records(load: Load, topics: Topics) -> None:
    assert load(subscribe="parity-transactions", **{"isolation.level": "read_committed"}).count() == 10
    assert load(subscribe="parity-transactions").count() == 15


def options(kafka: KafkaServer, **more: str) -> ReadOptions:
    return ReadOptions.parse({"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": "parity-plain", **more})


def test_tasks_of_a_worker_share_a_consumer(kafka: KafkaServer, topics: Topics) -> None:
    read = options(kafka, columns="offset")
    before = set(CONSUMERS._idle)
    for start, end in ((0, 10), (10, 20), (30, 40)):
        batches = list(read_range(read, OffsetRange("parity-plain", 0, start, end)))
        assert pa.Table.from_batches(batches).column("offset").to_pylist() == list(range(start, end))
    assert len(set(CONSUMERS._idle) - before) == 1


def test_abandoned_task_closes_its_consumer(
    kafka: KafkaServer, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("samsarrow.spark.fetch.MIN_ROWS", 1)
    before = set(CONSUMERS._idle)
    reading = read_range(options(kafka, **{"kafka.max.poll.records": "5"}), OffsetRange("parity-plain", 0, 0, 40))
    assert next(reading).num_rows == 5
    reading.close()  # type: ignore[attr-defined]
    assert set(CONSUMERS._idle) <= before


def test_client_cache_is_bounded_and_expires(kafka: KafkaServer, topics: Topics) -> None:
    config = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "none"}
    place = TopicPartition("parity-plain", 0)
    cache = ClientCache(Consumer, capacity=2, idle_s=3600)
    for client in "abc":
        with reading({**config, "client.id": client}, place, 5, cache=cache) as consumer:
            assert consumer.position(place) == 5
    assert len(cache) == 2
    cache = ClientCache(Consumer, idle_s=0)
    with reading(config, place, 0, cache=cache):
        pass
    assert len(cache) == 0
    with pytest.raises(ConfigurationError), cache.lease({"fetch.min.bites": 1}):
        pass


def test_client_cache_is_not_used_after_fork(kafka: KafkaServer, topics: Topics) -> None:
    cache = ClientCache(Consumer)
    config = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "none"}
    place = TopicPartition("parity-plain", 0)
    with reading(config, place, 0, cache=cache):
        pass
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with reading(config, place, 3, cache=cache) as consumer:
                code = 0 if consumer.position(place) == 3 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_starting_timestamp_before_all_records(load: Load, topics: Topics) -> None:
    start = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
    assert load(subscribe="parity-plain", startingTimestamp=str(int(start.timestamp() * 1000))).count() == 58
