"""Consumer on the embedded broker."""

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from samsarrow import (
    Admin,
    AsyncConsumer,
    Consumer,
    ConsumerRecord,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from samsarrow.exceptions import (
    ClosedError,
    ConfigurationError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)

TP = TopicPartition("t", 0)
FOUR = [TopicPartition("four", p) for p in range(4)]


@pytest.fixture
def hundred_records(servers):
    """Sends 100 records to t-0. Record i has value i and timestamp 1000 * i."""
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(100):
            producer.send("t", str(i), timestamp=1000 * i)


def values(table):
    return [int(v) for v in table["value"].to_pylist()]


def test_poll_without_records_returns_an_empty_batch(consumer):
    batch = consumer.poll(0.05)
    assert isinstance(batch, pa.RecordBatch)
    assert batch.num_rows == 0
    assert batch.schema == consumer.schema
    assert consumer.poll(timedelta(milliseconds=10)).num_rows == 0
    assert consumer.poll(0).num_rows == 0


def test_poll_timeout(consumer):
    start = time.monotonic()
    consumer.poll(0.3)
    assert time.monotonic() - start >= 0.29


@pytest.mark.usefixtures("hundred_records")
def test_poll_returns_records_in_order(consumer, read):
    table = read(consumer, 100)
    assert values(table) == list(range(100))
    assert table["offset"].to_pylist() == list(range(100))
    assert set(table["topic"].to_pylist()) == {"t"}
    assert table["timestamp"].to_pylist()[7] == datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)
    assert set(table["timestamp_type"].to_pylist()) == {0}
    assert table.schema == consumer.schema


@pytest.mark.usefixtures("hundred_records")
def test_max_poll_records(servers):
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=30) as consumer:
        consumer.assign([TP])
        sizes = [consumer.poll(30).num_rows for _ in range(4)]
        assert sum(sizes) == 100
        assert max(sizes) <= 30
        assert consumer.position(TP) == 100


@pytest.mark.usefixtures("hundred_records")
@pytest.mark.parametrize("layout", ["binary", "view"])
def test_records(servers, layout):
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", layout=layout) as consumer:
        consumer.assign([TP])
        rows = []
        while len(rows) < 100:
            rows += consumer.records(30)
    assert rows[3] == ConsumerRecord("t", 0, 3, 3000, 0, None, b"3", [])


@pytest.mark.usefixtures("hundred_records")
def test_iteration_yields_non_empty_batches_until_close(servers):
    seen = 0
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=10) as consumer:
        consumer.assign([TP])
        for batch in consumer:
            assert batch.num_rows
            seen += batch.num_rows
            if seen == 100:
                consumer.close()
    assert seen == 100


@pytest.mark.usefixtures("hundred_records")
@pytest.mark.parametrize("layout", ["binary", "view"])
def test_reader_ends_at_the_end_offsets_of_its_start(servers, layout):
    with (
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", layout=layout) as consumer,
        Producer(bootstrap_servers=servers) as producer,
    ):
        consumer.assign([TP])
        reader = consumer.reader()
        producer.send("t", "late").result(10)
        table = reader.read_all()
        assert table["value"].to_pylist() == [str(i).encode() for i in range(100)]
        assert consumer.position(TP) == 100
        assert consumer.paused() == set()
        assert consumer.poll(30)["value"].to_pylist() == [b"late"]


@pytest.mark.usefixtures("hundred_records")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_reader_of_a_subscription_joins_the_group(servers, protocol):
    options = {"group_id": "reads", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.subscribe(["t"])
        assert consumer.reader().read_all().num_rows == 100
        assert consumer.reader().read_all().num_rows == 0
        assert consumer.lag() == {TP: 0}
    with Consumer(bootstrap_servers=servers, **options) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(KafkaTimeoutError, match=r"joining the group took longer than 0 s"):
            consumer.reader(timeout=0)


def test_calls_without_assignment_raise(servers):
    with Consumer(bootstrap_servers=servers, group_id="early") as consumer:
        calls = {
            "reader": consumer.reader,
            "lag": consumer.lag,
            "seek_to_beginning": consumer.seek_to_beginning,
            "seek_to_timestamp": lambda: consumer.seek_to_timestamp(0),
            "pause": consumer.pause,
        }
        for call in calls.values():
            with pytest.raises(ConfigurationError, match="call subscribe or assign first"):
                call()
        consumer.subscribe(["t"])
        for name in calls.keys() - {"reader"}:
            with pytest.raises(IllegalStateError, match=r"the group has not assigned any yet: call poll\(\)"):
                calls[name]()
        while not consumer.assignment():
            consumer.poll(0.1)
        for call in calls.values():
            call()
        assert consumer.paused() == {TP}
        consumer.resume()
        assert consumer.paused() == set()


@pytest.mark.usefixtures("hundred_records")
def test_reader_skips_partitions_paused_by_the_application(servers):
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TP])
        consumer.pause(TP)
        assert consumer.reader().read_all().num_rows == 0
        assert consumer.paused() == {TP}
        consumer.resume(TP)
        assert consumer.reader().read_all().num_rows == 100
        assert consumer.paused() == set()


@pytest.mark.usefixtures("hundred_records")
def test_commit(consumer, servers, read):
    assert consumer.committed([TP]) == {TP: None}
    batch = consumer.poll(30)
    consumer.commit(batch.slice(0, 10))
    assert consumer.committed([TP])[TP].offset == 10
    read(consumer, 100 - batch.num_rows)
    consumer.commit()
    assert consumer.committed([TP])[TP].offset == 100
    consumer.commit({TP: 42})
    assert consumer.committed([TP])[TP].offset == 42
    consumer.commit({TP: OffsetAndMetadata(43, "why", None)}, timeout=5)
    assert consumer.committed([TP])[TP][:2] == (43, "why")
    with Consumer(bootstrap_servers=servers, group_id="g") as other:
        other.assign([TP])
        assert values(read(other, 57))[0] == 43


@pytest.mark.usefixtures("hundred_records")
def test_commit_excludes_prefetched_records(servers):
    with Consumer(
        bootstrap_servers=servers, group_id="given", auto_offset_reset="earliest", max_poll_records=7
    ) as consumer:
        consumer.assign([TP])
        returned = consumer.poll(30).num_rows
        time.sleep(0.2)
        consumer.commit()
        assert consumer.committed([TP])[TP].offset == returned == consumer.position(TP)


@pytest.mark.parametrize(("age", "first"), [("PT1H", 1), ("P2D", 0), ("PT1S", 2)])
def test_auto_offset_reset_by_duration(servers, age, first):
    """KIP-1106: one record is a day old, the other ten minutes. If both are older than the duration, reading starts at
    the end.
    """
    now = int(time.time() * 1000)
    with Producer(bootstrap_servers=servers) as producer:
        for minutes in (24 * 60, 10):
            producer.send("t", b"x", partition=0, timestamp=now - minutes * 60_000)
    with Consumer(bootstrap_servers=servers, auto_offset_reset=f"by_duration:{age}") as consumer:
        consumer.assign([TP])
        assert consumer.position(TP) == first
    with pytest.raises(ConfigurationError, match="by_duration:PT24H"):
        Consumer(bootstrap_servers=servers, auto_offset_reset="by_duration:1h")


def test_commit_without_a_group_is_an_error(servers):
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([TP])
        with pytest.raises(ConfigurationError, match=r"group\.id"):
            consumer.commit({TP: 1})


@pytest.mark.usefixtures("hundred_records")
def test_seek(consumer, read):
    consumer.seek(TP, 90)
    assert values(read(consumer, 10)) == list(range(90, 100))
    consumer.seek_to_beginning()
    assert values(consumer.poll(30))[0] == 0
    consumer.seek_to_end(TP)
    assert consumer.position(TP) == 100
    assert consumer.poll(0.1).num_rows == 0
    consumer.seek_to_timestamp(50_001, TP)
    assert values(consumer.poll(30))[0] == 51
    consumer.seek_to_timestamp(datetime(1970, 1, 1, 0, 1, 0, tzinfo=UTC))
    assert values(consumer.poll(30))[0] == 60
    consumer.commit({TP: 20})
    consumer.seek_to_committed()
    assert values(consumer.poll(30))[0] == 20


@pytest.mark.usefixtures("hundred_records")
def test_offsets_for_times_and_ends(consumer):
    assert consumer.offsets_for_times({TP: 50_000})[TP][:2] == (50, 50_000)
    assert consumer.offsets_for_times({TP: datetime(1970, 1, 1, 0, 0, 50, 1000, tzinfo=UTC)})[TP].offset == 51
    assert consumer.offsets_for_times({TP: 10**12}) == {TP: None}
    assert consumer.beginning_offsets([TP]) == {TP: 0}
    assert consumer.end_offsets([TP, FOUR[2]]) == {TP: 100, FOUR[2]: 0}


@pytest.mark.usefixtures("hundred_records")
def test_lag(consumer, read):
    assert consumer.lag() == {TP: 100}
    consumer.seek(TP, 40)
    assert consumer.lag() == {TP: 60}
    read(consumer, 60)
    assert consumer.lag() == {TP: 0}


@pytest.mark.usefixtures("hundred_records")
def test_paused_partitions_are_not_returned(consumer):
    consumer.pause(TP)
    assert consumer.paused() == {TP}
    assert consumer.poll(0.3).num_rows == 0
    consumer.resume(TP)
    assert consumer.paused() == set()
    assert consumer.poll(30).num_rows > 0


def test_reader_batches_of_two_topics_fit_one_arrow_file(servers, tmp_path):
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(300):
            producer.send("t" if i % 3 else "four", str(i), partition=0)
    options = {"bootstrap_servers": servers, "auto_offset_reset": "earliest", "max_poll_records": 70}
    with Consumer(options) as consumer:
        consumer.assign([FOUR[0], TP])
        first = consumer.poll(0.0)
        reader = consumer.reader()
        path = tmp_path / "rows.arrow"
        # An Arrow file can hold only one dictionary per column, so all batches must share it.
        with pa.ipc.new_file(path, reader.schema) as file:
            file.write_batch(first)
            for batch in reader:
                file.write_batch(batch)
        table = pa.ipc.open_file(path).read_all()
        assert sorted(values(table)) == list(range(300))
        assert table["topic"].to_pylist().count("t") == 200
        assert {len(chunk.dictionary) for chunk in table["topic"].chunks} == {2}


@pytest.mark.usefixtures("hundred_records")
def test_seek_to_a_committed_offset_keeps_its_leader_epoch(consumer, read):
    read(consumer, 30)
    consumer.commit({TP: OffsetAndMetadata(20, leader_epoch=0)})
    committed = consumer.committed([TP])[TP]
    consumer.seek(TP, committed)
    assert consumer.position(TP) == 20
    assert values(read(consumer, 80)) == list(range(20, 100))


def test_assignment_changes(consumer, servers, read):
    with Producer(bootstrap_servers=servers) as producer:
        for tp in FOUR:
            producer.send("four", str(tp.partition), partition=tp.partition)
    assert consumer.partitions_for("four") == FOUR
    consumer.assign(FOUR[:2])
    assert consumer.assignment() == set(FOUR[:2])
    assert sorted(values(read(consumer, 2))) == [0, 1]
    consumer.assign(FOUR)
    assert sorted(values(read(consumer, 2))) == [2, 3]


@pytest.mark.usefixtures("hundred_records")
def test_auto_offset_reset(servers):
    with Consumer(bootstrap_servers=servers) as latest:
        latest.assign([TP])
        assert latest.position(TP) == 100
    with Consumer(bootstrap_servers=servers, auto_offset_reset="none") as none:
        none.assign([TP])
        with pytest.raises(KafkaError, match=r"t-0|t"):
            none.poll(30)
        none.seek(TP, 5)
        assert values(none.poll(30))[0] == 5
        none.seek(TP, 5000)
        with pytest.raises(OffsetOutOfRangeError):
            none.poll(30)


def test_missing_topic_or_partition_is_an_error(servers):
    with Consumer(bootstrap_servers=servers, allow_auto_create_topics=False, default_api_timeout_ms=1500) as consumer:
        with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
            consumer.partitions_for("nowhere", timeout=30)
        with pytest.raises(KafkaError, match="nowhere"):
            consumer.end_offsets([TopicPartition("nowhere", 0)])
        with pytest.raises(KafkaError, match="9"):
            consumer.end_offsets([TopicPartition("t", 9)])
        with pytest.raises(KafkaError):
            consumer.position(TP)


def test_invalid_arguments_are_rejected(consumer):
    with pytest.raises(ConfigurationError, match="timeout"):
        consumer.poll(-1)
    with pytest.raises(ConfigurationError, match="timeout"):
        consumer.poll(float("nan"))
    with pytest.raises(KafkaError):
        consumer.seek(TP, -5)
    with pytest.raises(KafkaError):
        consumer.seek(TopicPartition("t", 3), 0)
    with pytest.raises(TypeError, match="TopicPartition"):
        consumer.assign(["t0"])
    with pytest.raises(TypeError):
        consumer.commit(5)
    with pytest.raises(TypeError, match="OffsetAndMetadata"):
        consumer.commit({TP: "5"})


def test_close_is_final_and_wakes_waiting_calls(servers):
    consumer = Consumer(bootstrap_servers=servers)
    consumer.assign([TP])
    outcome = []

    def wait():
        try:
            outcome.append(consumer.poll(30))
        except ClosedError as error:
            outcome.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    consumer.close()
    waiting.join(60)
    assert isinstance(outcome[0], ClosedError)
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.poll(0)
    with pytest.raises(ClosedError):
        consumer.commit()
    with pytest.raises(ClosedError):
        consumer.seek(TP, 0)


def test_concurrent_poll_is_an_error(servers):
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign([TP])
        ended = []
        thread = threading.Thread(target=lambda: ended.append(consumer.poll(60)))
        thread.start()
        deadline = time.monotonic() + 60
        while consumer._polling.acquire(blocking=False):
            consumer._polling.release()
            assert time.monotonic() < deadline
        with pytest.raises(IllegalStateError, match="only one thread, task, listener or callback may poll"):
            consumer.poll(0)
        with pytest.raises(IllegalStateError, match="only one thread, task, listener or callback may poll"):
            list(consumer.records(0))
        # While one thread polls, other threads may call all other methods.
        assert consumer.assignment() == {TP}
        consumer.seek_to_beginning()
        assert consumer.position(TP) == 0
        with Producer(bootstrap_servers=servers) as producer:
            producer.send("t", b"v", partition=0).result(30)
        thread.join(60)
        assert [batch.num_rows for batch in ended] == [1]
        assert consumer.poll(0).num_rows == 0


def test_listener_may_call_methods_other_than_poll(servers):
    calls = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            calls.append(consumer.position(TP))
            consumer.commit({TP: 3})
            consumer.commit_async({TP: 4}, lambda offsets, error: calls.append(error))
            with pytest.raises(IllegalStateError, match="only one thread, task, listener or callback may poll"):
                consumer.poll(0)

    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"], listener=Listener())
        deadline = time.monotonic() + 60
        while len(calls) < 2 and time.monotonic() < deadline:
            consumer.poll(0.1)
        assert calls == [0, None]
        assert consumer.committed([TP])[TP].offset == 4


def test_commit_result_before_its_callback_is_registered(servers):
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.assign([TP])
        calls = []
        # Simulates that another thread polls after the commit has completed, but before `commit_async` has stored the
        # callback.
        consumer._completed.append((1, [], None))
        consumer.poll(0)
        consumer._callbacks[1] = (lambda offsets, error: calls.append(error), None)
        consumer.poll(0)
        assert calls == [None]


@pytest.mark.parametrize("when", ["2026-01-01", "beginning", 1_700_000_005_000.0, None])
def test_invalid_timestamp_is_a_type_error(servers, when):
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.assign([TP])
        with pytest.raises(TypeError, match=r"a time is an int, .* or a datetime: got "):
            consumer.seek_to_timestamp(when, TP)
        with pytest.raises(TypeError, match=r"a time is an int, .* or a datetime: got "):
            consumer.offsets_for_times({TP: when})


def test_iteration_ends_only_on_its_own_closed_error(servers):
    producer = Producer(bootstrap_servers=servers)
    producer.send("t", b"v", partition=0).result(30)
    producer.close()

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            producer.send("t", b"v")

    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"], listener=Listener())
        with pytest.raises(ClosedError, match="producer"):
            list(consumer)
        rows = 0
        for batch in consumer:
            rows += batch.num_rows
            consumer.close()
        assert rows == 1


def test_async_iteration_ends_only_on_its_own_closed_error(servers):
    producer = Producer(bootstrap_servers=servers)
    producer.send("t", b"v", partition=0).result(30)
    producer.close()

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            producer.send("t", b"v")

    async def read():
        async with AsyncConsumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"], listener=Listener())
            with pytest.raises(ClosedError, match="producer"):
                [batch async for batch in consumer]
            rows = 0
            async for batch in consumer:
                rows += batch.num_rows
                await consumer.close()
            return rows

    assert asyncio.run(read()) == 1


@pytest.mark.parametrize("how", ["commit", "commit_async", "store_offsets"])
def test_commit_of_a_record_is_the_next_offset(servers, how):
    with Producer(bootstrap_servers=servers) as producer:
        for n in range(10):
            producer.send("t", str(n))
    stores = how == "store_offsets"
    options = {"enable_auto_offset_store": False} if stores else {"enable_auto_commit": False}
    tp = TopicPartition("t", 0)
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([tp])
        record = next(record for record in consumer.records(10.0) if record.offset == 3)
        if how == "commit_async":
            notified = []
            consumer.commit_async(record, lambda offsets, error: notified.append((offsets, error)))
            consumer.commit({})
            assert notified == [({tp: OffsetAndMetadata(4)}, None)]
        else:
            getattr(consumer, how)(record)
            consumer.commit({} if how == "commit" else None)
        assert consumer.committed([tp])[tp].offset == 4
        for wrong in ("t", 5, [record]):
            with pytest.raises(TypeError, match="a ConsumerRecord, or a mapping of TopicPartition"):
                consumer.commit(wrong)


def test_commit_accepts_numpy_integers(servers):
    numpy = pytest.importorskip("numpy")
    tp = TopicPartition("t", 0)
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.assign([tp])
        consumer.commit({tp: numpy.int64(7)})
        assert consumer.committed([tp])[tp].offset == 7
        with pytest.raises(TypeError, match=r"expected an offset or OffsetAndMetadata, got 7\.5"):
            consumer.commit({tp: 7.5})


def test_subscribe_rejects_listeners_of_other_types(servers):
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        for wrong in (lambda partitions: None, RebalanceListener, {"on_partitions_assigned": print}):
            with pytest.raises(TypeError, match="listener must be a RebalanceListener"):
                consumer.subscribe(["t"], listener=wrong)
        assert consumer.subscription() is None


def test_poll_raises_for_invalid_topic_names(servers):
    with (
        Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer,
        Producer(bootstrap_servers=servers) as producer,
    ):
        consumer.subscribe(["t", "a b"])
        with pytest.raises(InvalidTopicError, match='subscription to "a b"; other topics are read'):
            consumer.poll(30.0)
        producer.send("t", "x").result(10)
        deadline = time.monotonic() + 30
        while not consumer.poll(1.0).num_rows:
            assert time.monotonic() < deadline


def test_out_of_range_reset_logs_the_skipped_offsets(servers, caplog):
    tp = TopicPartition("t", 0)
    with (
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
        Admin(bootstrap_servers=servers) as admin,
        Producer(bootstrap_servers=servers) as producer,
    ):
        for n in range(50):
            producer.send("t", str(n))
        producer.flush()
        admin.delete_records({tp: 40})
        consumer.assign([tp])
        consumer.seek(tp, 10)
        assert consumer.poll(10.0)["offset"][0].as_py() == 40
    deadline = time.monotonic() + 10
    text = "offset 10 is not in the log: 30 offsets are skipped, reading continues at 40 (auto.offset.reset=earliest)"
    while not any(text in record.getMessage() for record in caplog.records):
        assert time.monotonic() < deadline, caplog.text
        time.sleep(0.02)
    assert "-1 to -1" not in caplog.text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_subscribed_topic_that_does_not_exist_is_one_warning(servers, caplog, protocol):
    with Consumer(bootstrap_servers=servers, group_id="g", group_protocol=protocol) as consumer:
        consumer.subscribe(["absent"])
        for _ in range(4):
            assert not consumer.poll(0.7).num_rows
    lines = [
        record.getMessage() for record in caplog.records if "subscribed topics do not exist" in record.getMessage()
    ]
    assert len(lines) == 1, caplog.text
    assert "absent" in lines[0]


def test_failures_of_background_commits_without_a_callback_are_logged(servers, caplog):
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.subscribe(["t"])
        consumer.commit_async({TopicPartition("t", 0): 5})
        consumer.commit({})
    assert "commit_async failed, and has no callback" in caplog.text
    assert "has not joined the group yet" in caplog.text
