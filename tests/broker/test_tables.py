"""`read` and `write`: tables of several libraries, progress bars, transactions, and rows that were not written."""

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import samsarrow
from samsarrow import Producer, TopicPartition, aio, ranges
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from samsarrow.ranges import DataLoss
from samsarrow.testing import Broker

T0 = TopicPartition("t", 0)
ROWS = pa.table({"id": ["a", "b", "c"], "amount": [1, 2, 3]})
JSON = [b'{"id":"a","amount":1}', b'{"id":"b","amount":2}', b'{"id":"c","amount":3}']


def read(servers: str, topic: str = "t", **arguments: Any) -> pa.Table:
    return samsarrow.read(topic, bootstrap_servers=servers, **arguments)


def write(servers: str, data: Any, topic: str = "t", **arguments: Any) -> dict[TopicPartition, int]:
    return samsarrow.write(topic, data, bootstrap_servers=servers, **arguments)


def frames() -> Iterator[tuple[str, Any]]:
    yield "table", ROWS
    yield "batch", ROWS.to_batches()[0]
    yield "reader", ROWS.to_reader()


@pytest.mark.parametrize("name", ["table", "batch", "reader"])
def test_rows_of_arrow_data_are_json_objects(servers: str, name: str) -> None:
    data = dict(frames())[name]
    assert write(servers, data, key="id", value_format="json") == {T0: 3}
    table = read(servers, columns=["key", "value"])
    assert table["value"].to_pylist() == JSON
    assert table["key"].to_pylist() == [b"a", b"b", b"c"]


def test_frame_of_polars(servers: str) -> None:
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    frame = polars.from_arrow(ROWS)
    assert write(servers, frame, key="id", value_format="json") == {T0: 3}
    assert polars.from_arrow(read(servers, columns=["value"]))["value"].to_list() == JSON
    with pytest.raises(TypeError, match=r"not LazyFrame: collect\(\) it first"):
        write(servers, frame.lazy(), value_format="json")


def test_frame_of_pandas_without_its_index(servers: str) -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"id": ["a", "b", "c"], "amount": [1, 2, 3]}, index=[7, 8, 9])
    assert write(servers, frame, key="id", value_format="json") == {T0: 3}
    assert read(servers)["value"].to_pylist() == JSON


def test_relation_of_duckdb(servers: str) -> None:
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
    relation = duckdb.sql("select 'k' as id, range as amount from range(10000)")
    assert write(servers, relation, key="id", value_format="json", progress=True) == {T0: 10_000}
    assert read(servers).num_rows == 10_000


def test_older_interchange_protocol(servers: str) -> None:
    class Frame:
        def __dataframe__(self, *arguments: Any, **keywords: Any) -> Any:
            return ROWS.__dataframe__(*arguments, **keywords)

    assert write(servers, Frame(), value_format="json") == {T0: 3}
    assert read(servers)["value"].to_pylist() == JSON


def test_table_that_was_read_is_written_unchanged(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(10):
            producer.send("t", None if number == 3 else b"%d" % number, key=b"k", headers={"h": b"x"})
    columns = ["key", "value", "headers", "timestamp"]
    table = read(servers, columns=columns)
    counts = write(servers, table, "four", timestamp="timestamp")
    assert sum(counts.values()) == 10
    assert read(servers, "four", columns=columns).equals(table)


def test_counts_by_partition(servers: str) -> None:
    table = pa.table({"value": ["x"] * 10, "to": pa.array([0, 1, 1, 3, 3, 3, 3, 0, 1, 1])})
    counts = write(servers, table, "four", partition="to")
    assert counts == {TopicPartition("four", 0): 2, TopicPartition("four", 1): 4, TopicPartition("four", 3): 4}
    assert list(counts) == sorted(counts)
    assert read(servers, "four", partitions=[1])["partition"].to_pylist() == [1] * 4


def test_empty_topic_and_empty_table(servers: str) -> None:
    assert write(servers, ROWS.slice(0, 0), key="id", value_format="json") == {}
    table = read(servers)
    assert table.num_rows == 0
    assert table.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type"]


def test_since(servers: str) -> None:
    write(servers, ROWS, value="id")
    assert read(servers, since=timedelta(hours=1)).num_rows == 3
    assert read(servers, since=timedelta(0)).num_rows == 0
    assert read(servers, since="2026-01-01", end="2026-01-02").num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"since": timedelta(hours=1), "start": "earliest"}, "since and start contradict each other"),
        ({"since": "earliest"}, "since is a time, not 'earliest': pass it as start"),
        ({"since": "yesterday"}, "since is a datetime, a timedelta before now, or a time such as"),
        ({"since": timedelta(days=999_999_999)}, "since .* reaches before the year 1"),
        ({"group_id": "g"}, "omit group.id"),
        ({"auto_offset_reset": "latest"}, "auto.offset.reset does not apply"),
        ({"value_format": "json"}, r"value_format='json' needs a schema: pass Json\(schema\)"),
        ({"topic": ""}, "topic is the name of one topic, not an empty text"),
    ],
)
def test_arguments_of_read_are_rejected(servers: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        read(servers, **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"since": 3600}, "since is a datetime, a timedelta before now, or ISO 8601 text, not int"),
        ({"partitions": ["0"]}, "partitions is a list of partition numbers, which are int: got '0'"),
        ({"partitions": [0.0]}, "partitions is a list of partition numbers, which are int: got 0.0"),
    ],
)
def test_arguments_of_other_types_are_rejected(servers: str, arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        read(servers, **arguments)


def test_offsets_of_numpy(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(3):
            producer.send("t", b"x", partition=0)
    assert read(servers, start={T0: np.int64(1)}, partitions=[0]).num_rows == 2


def test_errors_do_not_show_an_argument_in_place_of_the_topic() -> None:
    config: Any = {"bootstrap.servers": "localhost:1", "sasl.password": "hunter2"}
    calls: list[Callable[[], object]] = [
        lambda: samsarrow.read(config),
        lambda: samsarrow.write(config, ROWS),
        lambda: ranges.plan(config),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match=r"topic is the name of one topic, not dict$"):
            call()


@pytest.mark.parametrize(
    ("data", "arguments", "kind", "text"),
    [
        ([{"id": 1}], {}, TypeError, r"data is a table, frame or reader .* not list: pass pyarrow.Table.from_pylist"),
        ({"id": [1]}, {}, TypeError, r"not dict: pass pyarrow.table\(data\)"),
        (
            ROWS,
            {},
            ConfigurationError,
            "no column 'value' among id, amount: name the column in value=, or pass value_f",
        ),
        (ROWS, {"key": "idd", "value": "id"}, ConfigurationError, "key: there is no column 'idd' among id, amount"),
        (ROWS, {"partition": 0, "value": "id"}, TypeError, "partition is the name of a column, not int"),
        (ROWS, {"value": "amount"}, ConfigurationError, "amount"),
        (ROWS, {"value_format": "jsn"}, ConfigurationError, "one of json, ipc, .* not 'jsn'; did you mean json"),
        (ROWS, {"value": "id", "linger_mss": 1}, ConfigurationError, "linger.ms"),
    ],
)
def test_arguments_of_write_are_rejected(
    servers: str, data: Any, arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        write(servers, data, **arguments)
    assert read(servers).num_rows == 0


def test_error_has_the_written_and_unwritten_rows(broker: Broker, servers: str) -> None:
    table = pa.table({"value": ["x" * 200_000] * 10, "to": [0] * 4 + [1] * 6})
    broker.fail("Produce", error="INVALID_RECORD", times=1)
    with pytest.raises(KafkaError) as caught:
        write(servers, table, "four", partition="to", enable_idempotence=False)
    error = caught.value
    written = sum(one.count for one in error.outcomes if one.error is None)
    assert 0 < written < 10
    assert sum(one.count for one in error.outcomes) == 10
    assert read(servers, "four").num_rows == written
    assert any(f"{written} of 10 rows were written to topic four (" in note for note in error.__notes__)


def test_rows_before_a_value_that_cannot_be_encoded_are_reported(servers: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([1, 2], pa.int64())})
        raise BadValueError("the source failed")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"value": pa.int64()}), batches())
    with pytest.raises(BadValueError, match="the source failed") as caught:
        write(servers, reader, value_format="long")
    assert "2 rows were written to topic t (t-0 2), the others were not" in caught.value.__notes__
    assert sum(one.count for one in caught.value.outcomes) == read(servers).num_rows == 2


def test_transaction_writes_all_rows_or_none(servers: str) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": pa.array([1, 2], pa.int64())})
        raise ValueError("the source failed")

    reader = pa.RecordBatchReader.from_batches(pa.schema({"value": pa.int64()}), batches())
    with pytest.raises(ValueError, match="the source failed") as caught:
        write(servers, reader, value_format="long", transactional_id="x")
    assert any("the transaction was not committed: no row is visible in t" in note for note in caught.value.__notes__)
    assert read(servers).num_rows == 0
    assert write(servers, ROWS, value="id", transactional_id="x") == {T0: 3}
    assert read(servers)["value"].to_pylist() == [b"a", b"b", b"c"]


def test_commit_whose_outcome_is_unknown(broker: Broker, servers: str) -> None:
    broker.fail("EndTxn", delay=4.0, times=1)
    with pytest.raises(KafkaTimeoutError) as caught:
        write(servers, ROWS, value="id", transactional_id="x", max_block_ms=1000)
    assert any("it is unknown whether the transaction was committed" in note for note in caught.value.__notes__)
    assert not any("not committed" in note for note in caught.value.__notes__)


def test_transaction_that_cannot_begin(broker: Broker, servers: str) -> None:
    broker.fail("InitProducerId", error="TRANSACTIONAL_ID_AUTHORIZATION_FAILED", times=1)
    with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED") as caught:
        write(servers, ROWS, value="id", transactional_id="x")
    assert not hasattr(caught.value, "__notes__")


def test_lost_offsets_are_reported(servers: str) -> None:
    write(servers, ROWS, value="id")
    with samsarrow.Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({T0: 2})
    with pytest.raises(OffsetOutOfRangeError, match=r"t-0: offsets 0 to 1 \(2\)"):
        read(servers, start={T0: 0})
    losses: list[DataLoss] = []
    assert read(servers, start={T0: 0}, on_data_loss="skip", on_loss=losses.append)["value"].to_pylist() == [b"c"]
    assert losses == [DataLoss(T0, 0, 2)]


def test_missing_topic_and_missing_brokers(servers: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="nosuch"):
        read(servers, "nosuch", timeout=5)
    with pytest.raises(KafkaTimeoutError, match="topic t took longer than 1 s"):
        read("127.0.0.1:1", timeout=1)
    with pytest.raises(KafkaTimeoutError, match="topic t"):
        write("127.0.0.1:1", ROWS, value="id", max_block_ms=1000)


def test_progress_bar_only_if_requested_or_on_a_terminal(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(servers, ROWS, value="id")
    read(servers)
    assert capsys.readouterr() == ("", "")
    write(servers, ROWS, value="id", progress=True)
    assert "writing t" in (err := capsys.readouterr().err)
    assert "100%" in err
    read(servers, progress=True)
    assert "reading t" in (err := capsys.readouterr().err)
    assert "100%" in err


def test_progress_bar_on_a_terminal(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(servers, ROWS, value="id")
    text: list[str] = []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(sys.stderr, "write", lambda part: text.append(part) or len(part))
    read(servers, progress=False)
    assert text == []
    read(servers)
    assert "reading t" in "".join(text)


def test_async_read_and_write(servers: str) -> None:
    async def main() -> pa.Table:
        assert await aio.write("t", ROWS, bootstrap_servers=servers, key="id", value_format="json") == {T0: 3}
        with pytest.raises(ConfigurationError, match="not a member of a group"):
            await aio.read("t", bootstrap_servers=servers, group_id="g")
        return await aio.read("t", bootstrap_servers=servers, columns=["value"])

    assert asyncio.run(main())["value"].to_pylist() == JSON


def test_cancelled_read_leaves_nothing_behind(broker: Broker, servers: str) -> None:
    write(servers, ROWS, value="id")
    before = len(samsarrow._unclosed._consumers)  # type: ignore[attr-defined]

    async def main() -> None:
        broker.fail("Fetch", delay=5.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await aio.read("t", bootstrap_servers=servers)
        broker.heal()

    asyncio.run(main())
    assert len(samsarrow._unclosed._consumers) == before  # type: ignore[attr-defined]


def test_progress_bar_is_imported_only_if_it_is_shown() -> None:
    code = "import samsarrow, sys; samsarrow.read; samsarrow.aio; assert 'click' not in sys.modules, 'click'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
