"""All rows passed to `send_batch` are acknowledged or reported as failed, for growing topics, new partitions and null
rows.
"""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.exceptions import ConfigurationError
from samsarrow.testing import Broker


def table(rows: int, keys: bool) -> pa.Table:
    columns = {"value": [b"%08d" % row + b"x" * 92 for row in range(rows)]}
    if keys:
        columns["key"] = [None if row % 3 == 0 else b"%d" % row for row in range(rows)]
    return pa.table(columns).combine_chunks()


def rows_of(servers: str, topic: str, partitions: int) -> int:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        tps = [TopicPartition(topic, partition) for partition in range(partitions)]
        return sum(consumer.end_offsets(tps).values())


@pytest.mark.parametrize("compression", ["none", "lz4"])
@pytest.mark.parametrize("keys", [False, True], ids=["no keys", "keys and nulls"])
def test_added_partitions_lose_no_row(broker: Broker, servers: str, compression: str, keys: bool) -> None:
    rows = table(200_000, keys)
    with (
        Admin(bootstrap_servers=servers) as admin,
        Producer(
            bootstrap_servers=servers,
            buffer_memory=1 << 20,
            metadata_max_age_ms=20,
            compression_type=compression,
        ) as producer,
    ):
        producer.send("t", b"first").result(10)

        def grow() -> None:
            for partitions in range(2, 12):
                time.sleep(0.02)
                admin.create_partitions({"t": partitions})

        # Produce responses are slow, so that the call waits for memory while partitions are added.
        broker.fail("Produce", delay=0.02, times=None)
        thread = threading.Thread(target=grow)
        thread.start()
        delivery = producer.send_batch("t", rows)
        assert len(delivery) == rows.num_rows
        assert sum(receipt.count for receipt in delivery.result()) == rows.num_rows
        thread.join()
    assert rows_of(servers, "t", 11) == rows.num_rows + 1


def test_added_partition_can_be_written_immediately(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"first").result(10)
        admin.create_partitions({"t": 4})
        assert producer.send("t", b"v", partition=2).result(10).partition == 2
        admin.create_partitions({"t": 5})
        rows = pa.table({"value": [b"a", b"b"], "p": pa.array([4, 0], pa.int32())})
        assert {receipt.partition for receipt in producer.send_batch("t", rows, partition="p").result()} == {0, 4}
        admin.create_partitions({"t": 6})
        assert len(producer.partitions_for("t")) == 6


def test_error_names_the_row_of_a_missing_partition(broker: Broker, servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"first").result(10)
        before = broker.requests("Metadata")
        with pytest.raises(ConfigurationError, match="topic t has no partition 7: it has only partition 0"):
            producer.send("t", b"v", partition=7)
        rows = pa.table({"value": [b"a", b"b"], "p": pa.array([0, 7], pa.int32())})
        with pytest.raises(ConfigurationError, match=r"row 1.*no partition 7"):
            producer.send_batch("t", rows, partition="p")
        with pytest.raises(ConfigurationError, match="no partition -1"):
            producer.send("t", b"v", partition=-1)
        assert broker.requests("Metadata") - before < 40
    assert rows_of(servers, "t", 1) == 1


@pytest.mark.parametrize("make", [lambda rows: rows, lambda rows: pa.chunked_array([rows])], ids=["array", "stream"])
def test_null_rows_of_a_struct_are_rejected(servers: str, make: object) -> None:
    rows = pa.array([{"value": b"a"}, None, {"value": b"c"}])
    with (
        Producer(bootstrap_servers=servers) as producer,
        pytest.raises((TypeError, ConfigurationError), match="null rows"),
    ):
        producer.send_batch("t", make(rows))  # type: ignore[operator]
    assert rows_of(servers, "t", 1) == 0


def test_stream_without_struct_rows_is_rejected(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer, pytest.raises(ValueError, match="stream of Int64"):
        producer.send_batch("t", pa.chunked_array([[1, 2]]))
    assert rows_of(servers, "t", 1) == 0


def test_duplicate_column_names_are_rejected(servers: str) -> None:
    one = pa.array([1])
    twice = pa.Table.from_arrays([one, one], ["a", "a"])
    values = pa.Table.from_arrays([pa.array([b"x"]), pa.array([b"y"])], ["value", "value"])
    with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(ConfigurationError, match='2 columns "value"'):
            producer.send_batch("t", values)
        with pytest.raises(ConfigurationError, match='2 columns "a"'):
            producer.send_batch("t", twice, value=["a"], value_format="json")
        with pytest.raises(ConfigurationError, match='2 columns "a"'):
            producer.send_batch("t", pa.table({"a": one}), value=["a", "a"], value_format="json")
    assert rows_of(servers, "t", 1) == 0
