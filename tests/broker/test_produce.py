"""Producer on the embedded broker."""

import asyncio
import threading
import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from samsarrow import Consumer, PartitionReceipt, Producer, TopicPartition, encode_batches
from samsarrow.exceptions import (
    ClosedError,
    ConfigurationError,
    InvalidRecordError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
)


def test_send_result(servers):
    when = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
    with Producer(bootstrap_servers=servers) as producer:
        first = producer.send("t", b"a", timestamp=when)
        second = producer.send("t", b"b", timestamp=123)
        assert first.result(10) == ("t", 0, 0, int(when.timestamp() * 1000))
        assert second.result(10)[1:] == (0, 1, 123)
        assert first.done()
        assert first.result().offset == 0


def test_payload_types(servers, read):
    with Producer(bootstrap_servers=servers) as producer:
        for value in (
            b"bytes",
            bytearray(b"array"),
            memoryview(b"view"),
            memoryview(b"xaxb")[1::2],
            "text é",
            b"",
            None,
        ):
            producer.send("t", value)
        producer.send("t", None, key="", headers=[("h", b"1"), ("h", None), ("other", "text")])
        producer.send("t", b"v", headers={"m": b"2"})
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", include_headers=True) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        table = read(consumer, 9)
    assert table["value"].to_pylist()[:7] == [b"bytes", b"array", b"view", b"ab", "text é".encode(), b"", None]
    assert table["key"].to_pylist()[6:8] == [None, b""]
    headers = [[(h["key"], h["value"]) for h in row] for row in table["headers"].to_pylist()]
    assert headers[7:] == [[("h", b"1"), ("h", None), ("other", b"text")], [("m", b"2")]]
    assert headers[0] == []


@pytest.mark.parametrize("payload", [1, 1.5, object(), ["x"]], ids=repr)
def test_unsupported_payloads_are_a_type_error(servers, payload):
    with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(TypeError, match="value must be bytes"):
            producer.send("t", payload)
        with pytest.raises(TypeError, match="key must be bytes"):
            producer.send("t", b"", payload)


def test_partition_by_key_and_by_argument(servers):
    with Producer(bootstrap_servers=servers) as producer:
        same = {producer.send("four", b"v", b"key").result(10).partition for _ in range(5)}
        named = [producer.send("four", b"v", b"key", partition=p).result(10).partition for p in range(4)]
    assert len(same) == 1
    assert named == [0, 1, 2, 3]


def test_await_and_callbacks(servers):
    called = []
    with Producer(bootstrap_servers=servers) as producer:

        async def main():
            one, two = producer.send("t", b"1"), producer.send("t", b"2")
            return [await two, await one]

        landed = asyncio.run(main())
        main_thread = threading.get_ident()
        producer.send("t", b"3", on_delivery=lambda m, e: called.append((m, e, threading.get_ident())))
        producer.flush(10)
    assert [m.offset for m in landed] == [1, 0]
    ((metadata, error, thread),) = called
    assert (metadata.offset, error) == (2, None)
    assert thread != main_thread


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_callback_exceptions_are_reported(servers, monkeypatch):
    reported = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    with Producer(bootstrap_servers=servers) as producer:

        def bad(metadata, error):
            raise RuntimeError("my own mistake")

        producer.send("t", b"1", on_delivery=bad).result(10)
        assert producer.send("t", b"2").result(10).offset == 1
    assert [str(r.exc_value) for r in reported] == ["my own mistake"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_failure_with_a_raising_callback_is_logged(broker, servers, monkeypatch, caplog):
    reported = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    broker.fail("Produce", error="INVALID_RECORD", times=None)

    def bad(*arguments):
        raise RuntimeError("my own mistake")

    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"1", on_delivery=bad).exception(30)
        delivery = producer.send("t", b"2")
        delivery.add_done_callback(bad)
        delivery.exception(30)
        batch = producer.send_batch("t", pa.table({"value": [b"3"]}))
        batch.add_done_callback(bad)
        batch.exception(30)
    assert [str(r.exc_value) for r in reported] == ["my own mistake"] * 3
    lines = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert len(lines) == 3
    for line in lines:
        assert "callback raised RuntimeError('my own mistake')" in line
        assert "INVALID_RECORD" in line


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_send_batch_and_read_back(servers, read, codec):
    rows = 10_000
    keys = [None if i % 7 == 0 else str(i % 100).encode() for i in range(rows)]
    table = pa.table({"key": pa.array(keys, pa.binary()), "value": [f"value {i}" for i in range(rows)]})
    with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
        delivery = producer.send_batch("four", table)
        receipts = delivery.result(30)
    assert len(delivery) == rows
    assert delivery.done()
    assert sum(r.count for r in receipts) == rows
    assert all(isinstance(r, PartitionReceipt) and r.base_offset == 0 for r in receipts)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for("four"))
        back = read(consumer, rows)
    assert back.num_rows == rows
    pairs = zip(back["key"].to_pylist(), back["value"].to_pylist(), strict=True)
    assert sorted(pairs, key=str) == sorted(
        zip(keys, [f"value {i}".encode() for i in range(rows)], strict=True), key=str
    )
    partition_of = set(zip(back["key"].to_pylist(), back["partition"].to_pylist(), strict=True))
    assert len([k for k, _ in partition_of if k is not None]) == len({k for k, _ in partition_of if k is not None})


def test_send_batch_with_named_columns(servers, read):
    batch = pa.record_batch(
        {
            "k": pa.array(["AA", "UA", None]).dictionary_encode(),
            "v": pa.array([b"1", None, b"3"]),
            "p": pa.array([3, 1, 2], pa.int32()),
            "at": pa.array([1000, 2000, 3000], pa.timestamp("ms", "UTC")),
        }
    )
    with Producer(bootstrap_servers=servers) as producer:
        receipts = producer.send_batch("four", batch, key="k", value="v", partition="p", timestamp="at").result(10)
    assert [(r.topic, r.partition, r.base_offset, r.count) for r in receipts] == [
        ("four", 1, 0, 1),
        ("four", 2, 0, 1),
        ("four", 3, 0, 1),
    ]
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for("four"))
        rows = sorted(read(consumer, 3).to_pylist(), key=lambda r: r["timestamp"])
    assert [(r["key"], r["value"], r["partition"]) for r in rows] == [
        (b"AA", b"1", 3),
        (b"UA", None, 1),
        (None, b"3", 2),
    ]


def test_empty_data_is_delivered_immediately(servers):
    with Producer(bootstrap_servers=servers) as producer:
        delivery = producer.send_batch("t", pa.table({"value": pa.array([], pa.binary())}))
        assert delivery.result(5) == []
        assert len(delivery) == 0


def test_invalid_data_sends_nothing(servers):
    with Producer(bootstrap_servers=servers, max_request_size=1000) as producer:
        with pytest.raises(TypeError, match="__arrow_c_array__"):
            producer.send_batch("t", [b"x"])
        with pytest.raises(ConfigurationError, match="nope"):
            producer.send_batch("t", pa.table({"value": [b"x"]}), key="nope")
        with pytest.raises(ConfigurationError, match="value"):
            producer.send_batch("t", pa.table({"value": [1]}))
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
            producer.send_batch("t", pa.table({"value": [b"x", b"y" * 2000]}))
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
            producer.send("t", b"y" * 2000)
        assert producer.send("t", b"first").result(10).offset == 0


def test_missing_topic_or_partition(servers):
    with Producer(bootstrap_servers=servers, max_block_ms=1000) as producer:
        with pytest.raises((UnknownTopicOrPartitionError, KafkaTimeoutError), match="nowhere"):
            producer.send("nowhere", b"x")
        with pytest.raises(KafkaError, match="nowhere"):
            producer.send_batch("nowhere", pa.table({"value": [b"x"]}))
        with pytest.raises(KafkaError, match="7"):
            producer.send("t", b"x", partition=7).result(10)
        assert producer.send("t", b"x").result(10).offset == 0
        assert producer.partitions_for("four") == [("four", p) for p in range(4)]


def test_outcomes_of_a_partly_failed_send_batch(broker, servers):
    table = pa.table({"value": [b"x" * 1000] * 3000, "to": [0, 1, 2] * 1000})
    with Producer(bootstrap_servers=servers, max_in_flight_requests_per_connection=1) as producer:
        producer.send("four", b"x").result(10)
        good = producer.send_batch("four", table, partition="to")
        assert sum(part.count for part in good.outcomes()) <= 3000
        good.result(10)
        parts = good.outcomes()
        assert {(part.topic, part.error) for part in parts} == {("four", None)}
        assert sum(part.count for part in parts) == 3000
        broker.fail("Produce", error="INVALID_RECORD", times=1)
        chunks = pa.chunked_array([[b"a" * 600] * 2000, [b"b" * 600] * 2000])
        failed = producer.send_batch("t", pa.table({"value": chunks}))
        with pytest.raises(InvalidRecordError, match=r"of 4000 rows were not delivered") as raised:
            failed.result(10)
        outcomes = raised.value.outcomes
        assert sum(part.count for part in outcomes) == 4000
        assert any(part.error is not None for part in outcomes)
        assert all((part.base_offset is None) == (part.error is not None) for part in outcomes)
        assert {part.rows for part in outcomes} == {(0, 2000), (2000, 4000)}
    with Consumer(bootstrap_servers=servers) as consumer:
        end = consumer.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]
    assert sum(part.count for part in outcomes if part.error is None) == end


def test_error_in_a_later_chunk_names_the_row_and_keeps_deliveries(servers):
    chunks = [[b"a"] * 1000, [b"b"] * 1000, [b"c", b"d" * 20_000]]
    with Producer(bootstrap_servers=servers, max_request_size=10_000) as producer:
        with pytest.raises(MessageTooLargeError, match=r"stopped at row 2000: .*row 2001 for topic t") as large:
            producer.send_batch("t", pa.table({"value": pa.chunked_array(chunks)}))
        assert len(large.value.delivery) == sum(receipt.count for receipt in large.value.delivery.result(10)) == 2000
        times = pa.chunked_array([[1, 2], [3, -5]])
        table = pa.table({"value": pa.chunked_array([[b"x"] * 2, [b"y"] * 2]), "at": times})
        with pytest.raises(ConfigurationError, match="row 3") as before:
            producer.send_batch("t", table, timestamp="at")
        assert len(before.value.delivery) == 2
        with pytest.raises(ConfigurationError, match="row 0") as first:
            producer.send_batch("t", pa.table({"value": [b"x"], "at": [-5]}), timestamp="at")
        assert first.value.delivery is None


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("ms", "UTC")])
def test_timestamp_minus_one(servers, consumer, read, kind):
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"one", timestamp=-1).result(10)
        table = pa.table({"value": [b"none", b"now", b"first"], "at": pa.array([-1, None, 0], kind)})
        producer.send_batch("t", table, timestamp="at").result(10)
        with pytest.raises(ConfigurationError, match="row 0: timestamp -2 ms is before 1970"):
            producer.send_batch("t", pa.table({"value": [b""], "at": pa.array([-2], kind)}), timestamp="at")
        one, none, now, first = read(consumer, 4).column("timestamp").cast(pa.int64()).to_pylist()
        assert (one, none, first) == (None, None, 0)
        assert now > 1_000_000_000_000


@pytest.mark.parametrize("value_format", [None, "json"])
def test_failed_stream_keeps_deliveries_of_earlier_batches(servers, value_format):
    schema = pa.schema([("value", pa.string())])

    def batches():
        yield pa.record_batch([["a"] * 3], schema)
        yield pa.record_batch([["b"] * 4], schema)
        raise ValueError("the source is gone")

    with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(ValueError, match="the source is gone") as raised:
            producer.send_batch("t", pa.RecordBatchReader.from_batches(schema, batches()), value_format=value_format)
        assert sum(receipt.count for receipt in raised.value.delivery.result(10)) == 7


@pytest.mark.parametrize(("acks", "offset"), [(0, -1), (1, 0), ("all", 0)])
def test_acks(servers, acks, offset):
    with Producer(bootstrap_servers=servers, acks=acks) as producer:
        assert producer.send("t", b"x").result(10).offset == offset


def test_close_delivers_queued_records(servers, read, consumer):
    producer = Producer(bootstrap_servers=servers, linger_ms=5000)
    deliveries = [producer.send("t", str(i)) for i in range(100)]
    producer.close()
    producer.close()
    assert all(d.done() for d in deliveries)
    assert deliveries[-1].result().offset == 99
    with pytest.raises(ClosedError):
        producer.send("t", b"x")
    with pytest.raises(ClosedError):
        producer.flush()
    assert read(consumer, 100).num_rows == 100


def test_result_timeout(servers):
    with Producer(bootstrap_servers=servers, linger_ms=3000) as producer:
        delivery = producer.send("t", b"x")
        with pytest.raises(KafkaTimeoutError):
            delivery.result(0.05)
        producer.flush(10)
        assert delivery.result(0).offset == 0


def test_many_threads(servers, read, consumer):
    with Producer(bootstrap_servers=servers) as producer:

        def work(n):
            for i in range(500):
                producer.send("t", f"{n}-{i}")

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        producer.flush(30)
    values = read(consumer, 2000)["value"].to_pylist()
    assert len(values) == 2000
    for n in range(4):
        own = [int(v.decode().split("-")[1]) for v in values if v.startswith(f"{n}-".encode())]
        assert own == list(range(500))


def test_python_partitioner(servers):
    topic = "four"
    seen = []

    def by_length(topic, key, value, partitions):
        seen.append((topic, key, value, partitions))
        return len(value or b"") % partitions

    with Producer(bootstrap_servers=servers, partitioner=by_length) as producer:
        assert producer.send(topic, "abc", "é").result(10).partition == 3
        assert producer.send(topic, b"abc", partition=1).result(10).partition == 1
        assert seen == [(topic, "é".encode(), b"abc", 4)]
        table = pa.table({"value": ["a" * n for n in range(6)], "to": pa.array([None, None, 0, None, None, 0])})
        receipts = producer.send_batch(topic, table, partition="to").result(10)
        assert [(r.partition, r.count) for r in receipts] == [(0, 4), (1, 1), (3, 1)]
        assert seen[1:] == [(topic, None, b"a" * n, 4) for n in (0, 1, 3, 4)]


def test_partitioner_errors_are_raised_by_send(servers):
    topic = "four"

    class OddError(Exception):
        pass

    def failing_partitioner(topic, key, value, partitions):
        if value == b"odd":
            raise OddError
        return {b"far": 4, b"text": "1"}.get(value, 0)

    with Producer({"bootstrap.servers": servers, "partitioner": failing_partitioner}) as producer:
        table = pa.table({"value": ["even", "odd"]})
        for send in (lambda: producer.send(topic, b"odd"), lambda: producer.send_batch(topic, table)):
            with pytest.raises(OddError):
                send()
        with pytest.raises(ConfigurationError, match="no partition 4"):
            producer.send(topic, b"far")
        with pytest.raises(ConfigurationError, match="no partition 4"):
            producer.send_batch(topic, pa.table({"value": ["far"]}))
        with pytest.raises(TypeError):
            producer.send(topic, b"text")
        with pytest.raises(TypeError):
            producer.send_batch(topic, pa.table({"value": ["text"]}))
        assert producer.send(topic, b"even").result(10).partition == 0
    with pytest.raises(ConfigurationError, match="given twice"):
        Producer({"bootstrap.servers": servers, "partitioner": failing_partitioner}, partitioner="murmur2")


def test_producer_metrics(broker, servers):
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        empty = producer.metrics()
        assert (empty.records, empty.queued_records, empty.request_latency.count) == (0, 0, 0)
        for number in range(10):
            producer.send("t", b"%d" % number).result(10)
        producer.send_batch("four", pa.table({"value": ["x" * 100] * 5000})).result(10)
        done = producer.metrics()
        assert done.records == done.delivery_latency.count == 5010
        assert dict(done.topics) == {"t": 10, "four": 5000}
        assert (done.queued_records, done.queued_bytes, done.failed_records, done.retries) == (0, 0, 0, 0)
        assert 11 <= done.batches <= 30
        assert done.produce_requests == done.request_latency.count
        assert done.requests > done.produce_requests, "all requests count there"
        assert done.bytes > 500_000
        latency = done.request_latency
        assert 0 < latency.p50 <= latency.p95 <= latency.p99 <= latency.max < 10
        # The record counts as queued while its batch is retried.
        broker.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", delay=1.0)
        waiting = producer.send("t", b"again")
        assert producer.metrics().queued_records == 1
        assert producer.metrics().queued_bytes > 0
        waiting.result(30)
        assert producer.metrics().retries == 1
        broker.fail("Produce", error="INVALID_TOPIC_EXCEPTION")
        with pytest.raises(KafkaError):
            producer.send("t", b"refused").result(10)
        assert (producer.metrics().failed_records, producer.metrics().queued_records) == (1, 0)
    assert done.records == 5010


def test_late_acknowledgement_is_counted_once(broker, servers):
    options = {"request_timeout_ms": 900, "delivery_timeout_ms": 1000, "linger_ms": 0}
    with Producer(bootstrap_servers=servers, **options) as producer:
        producer.send("t", b"v").result(30)
        broker.fail("Produce", delay=0.5, error="NOT_ENOUGH_REPLICAS")
        broker.fail("Produce", delay=0.8)
        assert isinstance(producer.send("t", b"late").exception(30), KafkaTimeoutError)
        # The response arrives after the delivery has failed.
        producer.send("t", b"next").exception(30)
        counted = producer.metrics()
        assert counted.records + counted.failed_records == 3
        broker.fail("Produce", delay=0.3)
        producer.send("t", b"waits")
        assert producer.metrics().queued_records == 1
        producer.flush(30, errors="log")
        assert producer.metrics().queued_records == 0


def test_delivery_of_an_empty_batch_is_true(servers):
    with Producer(bootstrap_servers=servers) as producer:
        delivery = producer.send_batch("t", pa.table({"value": pa.array([], pa.binary())}))
        assert delivery
        assert len(delivery) == 0
        assert delivery.result(10) == []


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_without_a_time_zone_send_nothing(servers, unit):
    rows = pa.table({"value": [b"x"], "at": pa.array([1], pa.timestamp(unit))})
    text = rf'column at has timestamps without a time zone, .* cast the column to pa.timestamp\("{unit}", "UTC"\)'
    with (
        Producer(bootstrap_servers=servers, partitioner=lambda *_: 0) as own,
        Producer(bootstrap_servers=servers) as producer,
    ):
        for client, options in [(producer, {}), (own, {}), (producer, {"value_format": "json"})]:
            with pytest.raises(ConfigurationError, match=text):
                client.send_batch("t", rows, timestamp="at", **options)
        assert producer.send("t", b"first").result(10).offset == 0
        with pytest.raises(ConfigurationError, match=text):
            encode_batches(rows, timestamp="at")


def test_datetimes_without_a_time_zone_are_local_time(servers, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        with Producer(bootstrap_servers=servers) as producer:
            assert producer.send("t", b"x", timestamp=datetime(2026, 11, 2)).result(10).timestamp == 1793595600000
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(("value", "remedy"), [({"a": 1}, "json.dumps"), ([1], "json.dumps"), (5, "str"), (1.5, "str")])
def test_unencoded_values_name_a_function_that_encodes(servers, value, remedy):
    with (
        Producer(bootstrap_servers=servers) as producer,
        pytest.raises(TypeError, match=f"encode it, .* with {remedy}"),
    ):
        producer.send("t", value)
