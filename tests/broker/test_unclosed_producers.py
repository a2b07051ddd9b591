"""Producers that are not closed deliver their records, or report the undelivered ones."""

import logging
import subprocess
import sys
import textwrap
import time

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.testing import Broker

ONLY = TopicPartition("t", 0)
HEAD = """
import asyncio, os, sys, time
import pyarrow as pa
from samsarrow import AsyncProducer, Producer
SERVERS = {"bootstrap.servers": sys.argv[1]}
def send(producer, **options):
    for i in range(1000):
        producer.send("t", str(i), **options)
"""

WAYS = {
    "local variable": """
        def f():
            send(Producer(SERVERS))
        f()
        """,
    "local variable, and a program that goes on": """
        def f():
            send(Producer(SERVERS))
        f()
        time.sleep(1)
        """,
    "module level": """
        producer = Producer(SERVERS)
        send(producer)
        """,
    "module level, lingering": """
        producer = Producer(SERVERS, linger_ms=60_000)
        send(producer)
        """,
    "sys.exit": """
        producer = Producer(SERVERS, linger_ms=60_000)
        send(producer)
        sys.exit(0)
        """,
    "send_batch": """
        def f():
            Producer(SERVERS).send_batch("t", pa.table({"value": [str(i) for i in range(1000)]}))
        f()
        """,
    "callbacks": """
        producer, called = Producer(SERVERS, linger_ms=60_000), []
        def call(metadata, error):
            called.append(metadata.offset)
            if len(called) == 1000:
                print("called", flush=True)
        send(producer, on_delivery=call)
        """,
    "a loop that is closed": """
        async def main():
            producer = AsyncProducer(SERVERS)
            for i in range(1000):
                await producer.send("t", str(i))
        asyncio.run(main())
        """,
    "a loop that is closed, module level": """
        async def main():
            global producer
            producer = AsyncProducer(SERVERS, linger_ms=60_000)
            for i in range(1000):
                await producer.send("t", str(i))
        asyncio.run(main())
        """,
    "a close that is cancelled": """
        async def main():
            producer = AsyncProducer(SERVERS, linger_ms=0)
            for i in range(1000):
                await producer.send("t", str(i))
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(0)
            closing.cancel()
        asyncio.run(main())
        """,
    "the parent of a fork": """
        producer = Producer(SERVERS, linger_ms=60_000)
        send(producer)
        if os.fork() == 0:
            # The child exits normally; the producer belongs to the parent.
            sys.exit(0)
        os.wait()
        """,
}


def run_to_exit(text: str, servers: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", HEAD + textwrap.dedent(text), servers]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def count(servers: str, **options: object) -> int:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([ONLY])
        return consumer.reader().read_all().num_rows


@pytest.mark.parametrize("way", WAYS)
def test_unclosed_producer_delivers_its_records(way, servers):
    ended = run_to_exit(WAYS[way], servers)
    assert ended.returncode == 0, ended.stderr
    assert count(servers) == 1000, ended.stderr
    warned = "unclosed AsyncProducer: call close()" if "loop" in way else "unclosed Producer: call close()"
    assert way == "a close that is cancelled" or ended.stderr.count(warned) == 1, ended.stderr
    assert "not delivered" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert way != "callbacks" or ended.stdout == "called\n"


def test_undelivered_records_at_exit_are_one_error(broker, servers):
    broker.fail("Produce", delay=60.0, times=None)
    started = time.monotonic()
    ended = run_to_exit(
        """
        first, second = Producer(SERVERS), Producer(SERVERS)
        send(first)
        second.send("t", b"v", on_delivery=lambda metadata, error: print(type(error).__name__, flush=True))
        second.send("t", b"v")
        """,
        servers,
    )
    # The flush at exit takes up to 5 s; the start of a process on a busy machine takes additional time.
    assert time.monotonic() - started < 40.0
    assert ended.returncode == 0
    lines = [line for line in ended.stderr.splitlines() if line.startswith("a producer was not closed")]
    assert sorted(line.split(": the producer (")[0] for line in lines) == [
        "a producer was not closed, and 1 records were not delivered: 1 to topic t (ClosedError)",
        "a producer was not closed, and 1000 records were not delivered: 1000 to topic t (ClosedError)",
    ], ended.stderr
    assert ended.stdout == "ClosedError\n"


def test_failures_of_a_collected_producer_are_logged(broker, servers, caplog):
    broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED", times=None)
    caplog.set_level(logging.ERROR)

    def forget():
        producer = Producer(bootstrap_servers=servers)
        for _ in range(10):
            producer.send("t", b"v")

    with pytest.warns(ResourceWarning, match="unclosed Producer"):
        forget()
    deadline = time.monotonic() + 30
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "a producer was not closed, and 10 records were not delivered: 10 to topic t (TopicAuthorizationFailedError): "
    )


def test_delivery_keeps_its_producer_alive(servers):
    delivery = Producer(bootstrap_servers=servers, linger_ms=60_000).send("t", b"v")
    assert delivery.result(30).offset == 0


def test_open_transaction_of_an_unclosed_producer_is_aborted(servers):
    ended = run_to_exit(
        """
        producer = Producer(SERVERS, transactional_id="x")
        producer.begin_transaction()
        producer.send("t", b"v").result()
        producer.send("t", b"v")
        """,
        servers,
    )
    assert ended.returncode == 0
    assert ended.stderr.count("a producer was not closed while a transaction of transactional.id x was open") == 1
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.list_transactions()["x"].state == "CompleteAbort"
    assert count(servers, isolation_level="read_committed") == 0


def test_closed_producer_emits_no_warning(servers, recwarn):
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"v")
    del producer
    ended = run_to_exit(
        """
        with Producer(SERVERS) as producer:
            send(producer)
        """,
        servers,
    )
    assert ended.stderr == ""
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]


@pytest.fixture
def broker():
    with Broker(topics={"t": 1}) as broker:
        yield broker


@pytest.fixture
def servers(broker):
    return broker.bootstrap_servers


def test_forked_child_of_multiprocessing_delivers_its_records(servers: str) -> None:
    program = """
import multiprocessing, sys
from samsarrow import Producer

def send(servers):
    global producer
    producer = Producer(bootstrap_servers=servers, linger_ms=100)
    for i in range(1000):
        producer.send("t", str(i))

child = multiprocessing.get_context("fork").Process(target=send, args=(sys.argv[1],))
child.start()
child.join()
sys.exit(child.exitcode)
"""
    subprocess.run([sys.executable, "-c", program, servers], check=True, timeout=120)
    with Consumer(bootstrap_servers=servers) as consumer:
        assert consumer.end_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 1000}
