"""Tasks that read a range, on the embedded broker and without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.exceptions import KafkaTimeoutError
from samsarrow.spark.client_cache import ADMINS
from samsarrow.spark.errors import DataLossError
from samsarrow.spark.fetch import OLD_PLAN_S, read_range
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange
from samsarrow.spark.reader import KafkaReader
from samsarrow.testing import Broker
from support.proxy import Network

TP = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as broker:
        yield broker


def produce(broker: Broker, batches: int, rows: int = 10) -> None:
    # Each batch ends with a flush, even if records are produced slowly.
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=30_000) as producer:
        for _ in range(batches):
            for _ in range(rows):
                producer.send("t", b"v")
            producer.flush()


def read_of(broker: Broker, **more: str) -> ReadOptions:
    return ReadOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", **more})


def offsets(servers: str, start: int, end: int, **more: str) -> list[int]:
    options = ReadOptions.parse(
        {"kafka.bootstrap.servers": servers, "subscribe": "t", "columns": "offset", "failOnDataLoss": "false", **more}
    )
    batches = list(read_range(options, OffsetRange("t", 0, start, end)))
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_fetch_stops_at_range_end(broker: Broker) -> None:
    produce(broker, 10)
    with (
        Network(broker.bootstrap_servers) as network,
        Consumer(bootstrap_servers=network.bootstrap_servers) as consumer,
    ):
        consumer.assign([TP])
        consumer._read_until(TP, 25)
        consumer.seek(TP, 3)
        results = []
        while consumer.position(TP) < 25:
            results += consumer.poll(5).column("offset").to_pylist()
        assert results == list(range(3, 25))
        requests = network.requests()["Fetch"]
        assert consumer.poll(0.2).num_rows == 0
        assert network.requests()["Fetch"] == requests
        consumer._read_until(TP, None)
        while consumer.position(TP) < 100:
            results += consumer.poll(5).column("offset").to_pylist()
        assert results == list(range(3, 100))


def test_consecutive_ranges_return_each_record_once(broker: Broker) -> None:
    produce(broker, 10)
    cuts = [0, 5, 7, 10, 38, 40, 99, 100]
    results = [offsets(broker.bootstrap_servers, a, b) for a, b in pairwise(cuts)]
    assert results == [list(range(a, b)) for a, b in pairwise(cuts)]


@pytest.mark.parametrize("fail", ["true", "false"])
def test_waits_for_leader_behind_requested_offset(broker: Broker, fail: str) -> None:
    produce(broker, 2)
    broker.fail("Fetch", error="OFFSET_OUT_OF_RANGE", times=3)
    assert offsets(broker.bootstrap_servers, 4, 20, failOnDataLoss=fail) == list(range(4, 20))


def test_records_deleted_during_offset_lookup(broker: Broker) -> None:
    from samsarrow import Admin

    produce(broker, 3)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TP: 12})
    broker.fail("Fetch", error="OFFSET_OUT_OF_RANGE", times=2)
    assert offsets(broker.bootstrap_servers, 4, 30) == list(range(12, 30))
    assert offsets(broker.bootstrap_servers, 4, 9) == []
    with pytest.raises(DataLossError, match="the log starts at 12 now"):
        offsets(broker.bootstrap_servers, 4, 30, failOnDataLoss="true")


def test_waiting_read_committed_uses_one_admin(broker: Broker) -> None:
    produce(broker, 1)
    before = set(ADMINS._idle)
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="open") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"v")
        producer.flush()
        accepted = broker.connections().accepted
        waiting = {"isolation.level": "read_committed", "kafkaConsumer.pollTimeoutMs": "4000"}
        with pytest.raises(KafkaTimeoutError, match="at offset 10, reading up to 11"):
            offsets(broker.bootstrap_servers, 0, 11, **waiting)
        # A consumer and an admin client each open one connection to the bootstrap server and one to the leader.
        assert broker.connections().accepted - accepted <= 4
        producer.abort_transaction()
    assert len(set(ADMINS._idle) - before) == 1
    assert offsets(broker.bootstrap_servers, 0, 12, **{"isolation.level": "read_committed"}) == list(range(10))


def test_old_plan_is_reported_once(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    produce(broker, 1)
    read = read_of(broker, columns="offset", minPartitions="2")
    ranges = [item for item in KafkaReader(read).partitions() if isinstance(item, OffsetRange)]
    assert len(ranges) == 2
    assert all(item.planned is not None and abs(item.planned - time.time()) < 60 for item in ranges)
    now = time.time()
    for age, reported in ((0.0, 0), (OLD_PLAN_S - 60, 0), (OLD_PLAN_S + 20, 1), (7200.0, 2)):
        for item in ranges:
            assert sum(batch.num_rows for batch in read_range(read, replace(item, planned=now - age))) == 5
        warnings = [item for item in caplog.records if "Load it again" in item.getMessage()]
        assert len(warnings) == reported, age
    assert "topic t is read as it was 120 minutes ago" in caplog.text
    stream = [replace(item, planned=None) for item in ranges]
    assert [sum(batch.num_rows for batch in read_range(read, item)) for item in stream] == [5, 5]


def test_data_loss_error_has_planning_time(broker: Broker) -> None:
    from samsarrow import Admin

    produce(broker, 1)
    read = read_of(broker)
    [one] = KafkaReader(read).partitions()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TP: 4})
    with pytest.raises(DataLossError, match=r"the DataFrame was planned .* s ago: load it again"):
        list(read_range(read, one))  # type: ignore[arg-type]
