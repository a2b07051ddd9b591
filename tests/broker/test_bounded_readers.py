"""Readers with an end: errors, closed consumers, and arguments that are wrong."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from samsarrow.exceptions import BadValueError, ClosedError, IllegalStateError, WakeupError
from samsarrow.testing import Broker
from support.waiting import until

T0 = TopicPartition("t", 0)


def produce(broker: Broker, *values: bytes) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("t", value)


def consumer(broker: Broker, **options: Any) -> Consumer:
    made = Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", max_poll_records=10, **options
    )
    made.assign([T0])
    return made


def test_reader_of_a_closed_consumer_raises(broker: Broker) -> None:
    produce(broker, *(b"%d" % number for number in range(100)))
    with consumer(broker) as reading:
        reader = reading.reader()
        assert reader.read_next_batch().num_rows == 10
    for _ in range(2):
        with pytest.raises(ClosedError):
            reader.read_all()


def test_async_reader_of_a_closed_consumer_raises(broker: Broker) -> None:
    produce(broker, *(b"%d" % number for number in range(100)))

    async def read() -> int:
        reading = AsyncConsumer(
            bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", max_poll_records=10
        )
        reading.assign([T0])
        rows = 0
        async for batch in reading.reader():
            rows += batch.num_rows
            if rows == 30:
                await reading.close()
        return rows

    with pytest.raises(ClosedError):
        asyncio.run(read())


def test_reader_continues_after_a_value_that_cannot_be_decoded(broker: Broker) -> None:
    good = [(number).to_bytes(8, "big") for number in range(4)]
    produce(broker, good[0], b"bad", *good[1:])
    with consumer(broker, value_format="long") as reading:
        reader = reading.reader()
        assert reader.read_next_batch().column("value").to_pylist() == [0]
        with pytest.raises(BadValueError) as caught:
            reader.read_next_batch()
        assert caught.value.offset == 1
        reading.seek(T0, 2)
        assert reader.read_all().column("value").to_pylist() == [1, 2, 3]
        with pytest.raises(StopIteration):
            reader.read_next_batch()


def test_reader_continues_after_a_wakeup(broker: Broker) -> None:
    produce(broker, *(b"%d" % number for number in range(30)))
    with consumer(broker) as reading:
        reader = reading.reader()
        assert reader.read_next_batch().num_rows == 10
        reading.wakeup()
        with pytest.raises(WakeupError):
            reader.read_next_batch()
        assert reader.read_all().num_rows == 20


def test_async_reader_continues_after_an_error(broker: Broker) -> None:
    good = [(number).to_bytes(8, "big") for number in range(4)]
    produce(broker, good[0], b"bad", *good[1:])

    async def read() -> list[int]:
        async with AsyncConsumer(
            bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", value_format="long"
        ) as reading:
            reading.assign([T0])
            batches = reading.reader()
            values = (await anext(batches)).column("value").to_pylist()
            with pytest.raises(BadValueError):
                await anext(batches)
            reading.seek(T0, 2)
            async for batch in batches:
                values += batch.column("value").to_pylist()
            return values

    assert asyncio.run(read()) == [0, 1, 2, 3]


def test_iterator_of_batches_continues_after_an_error(broker: Broker) -> None:
    good = [(number).to_bytes(8, "big") for number in range(3)]
    produce(broker, good[0], b"bad", *good[1:])
    with consumer(broker, value_format="long") as reading:
        batches = iter(reading)
        assert next(batches).column("value").to_pylist() == [0]
        with pytest.raises(BadValueError):
            next(batches)
        reading.seek(T0, 2)
        assert next(batches).column("value").to_pylist() == [1, 2]
    with pytest.raises(StopIteration):
        next(batches)


def test_reader_of_two_threads_is_an_error_that_ends_neither(broker: Broker) -> None:
    produce(broker, b"0")
    with consumer(broker) as reading:
        reader = reading.reader()
        broker.fail("Fetch", delay=1.0, times=1)
        rows: list[int] = []
        thread = threading.Thread(target=lambda: rows.append(reader.read_all().num_rows))
        thread.start()
        until(lambda: broker.requests("Fetch") > 0)
        with pytest.raises(IllegalStateError, match="only one thread or task"):
            reader.read_next_batch()
        thread.join(30)
    assert rows == [1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"partition": 0}, "send_batch: partition must be str or None, not int"),
        ({"timestamp": 1000}, "send_batch: timestamp must be str or None, not int"),
        ({"headers": [("a", b"b")]}, "send_batch: headers must be str or None, not list"),
        ({"value": 0}, "send_batch: value must be str or an iterable of str or None, not int"),
        ({"value": [0]}, "send_batch: value[0] must be str, not int"),
    ],
)
def test_arguments_of_send_batch_are_named(broker: Broker, arguments: dict[str, Any], text: str) -> None:
    data = pa.table({"value": [b"x"]})
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer, pytest.raises(TypeError) as caught:
        producer.send_batch("t", data, **arguments)
    assert str(caught.value) == text

    async def send() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_batch("t", data, **arguments)

    with pytest.raises(TypeError) as caught:
        asyncio.run(send())
    assert str(caught.value) == text


@pytest.mark.parametrize("group", ["my-group", None, ("g", "m")])
def test_group_metadata_of_another_type_is_rejected(broker: Broker, group: Any) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        with pytest.raises(TypeError, match=r"result of Consumer\.group_metadata\(\)"):
            producer.send_offsets_to_transaction({T0: 1}, group)
        producer.abort_transaction()


@pytest.fixture
def command(broker: Broker) -> Callable[..., subprocess.Popen[bytes]]:
    def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "samsarrow", *arguments, "-b", broker.bootstrap_servers]
        return subprocess.Popen(program, env={**os.environ, "PYTHONUNBUFFERED": "1"}, **options)

    return start


def test_rows_that_a_closed_pipe_did_not_take_are_not_committed(
    broker: Broker, command: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """Without a buffer, the operating system takes a part of a write, and Python reports only its length."""
    count = 50_000
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_batch("t", pa.table({"value": [b"%09d" % number for number in range(count)]})).result(30)
    with command("consume", "t", "-g", "g", stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert len(os.read(process.stdout.fileno(), 1000)) == 1000
        process.stdout.close()
        assert process.wait(30) == 141
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="g") as reading:
        committed = reading.committed([T0])[T0]
    # A pipe holds 64 KiB.
    assert committed is None or committed.offset <= (65536 + 1000) // 10


def test_closed_standard_streams(broker: Broker, command: Callable[..., subprocess.Popen[bytes]]) -> None:
    produce(broker, b"x")
    quoted = f"{sys.executable} -m samsarrow {{}} -b {broker.bootstrap_servers}"
    for text, code, error in [
        ("topics list >&-", 0, b""),
        ("consume t -g g >&-", 1, b"standard output is closed"),
        ("produce t <&-", 0, b""),
    ]:
        name, _, redirection = text.rpartition(" ")
        line = f"{quoted.format(name)} {redirection}"
        done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, timeout=60, check=False)
        assert (done.returncode, b"Traceback" in done.stderr) == (code, False), (text, done.stderr)
        assert error in done.stderr
