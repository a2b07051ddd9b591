"""Servers that are no Kafka, partitions that are not there, signals in each call that waits."""

import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.exceptions import ConfigurationError, KafkaError
from samsarrow.testing import Broker


def hang_up(connection):
    connection.close()


def say_nothing(connection):
    while connection.recv(1000):
        pass


def speak_http(connection):
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def claim_much(connection):
    connection.recv(1000)
    connection.sendall(b"\x7f\xff\xff\xff" + bytes(100))


@pytest.fixture
def impostor(request):
    """A server that does `request.param` with each connection; its address."""
    server = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=treat, args=(connection,), daemon=True).start()

    def treat(connection):
        try:
            request.param(connection)
        except OSError:
            pass
        finally:
            connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    for connection in connections:
        connection.close()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("impostor", [hang_up, say_nothing, speak_http, claim_much], indirect=True)
def test_what_is_not_kafka_is_an_error_with_its_address_in_every_client(impostor):
    quick = {"bootstrap_servers": impostor, "request_timeout_ms": 400}
    calls = []
    with Admin(**quick) as admin:
        with pytest.raises(KafkaError, match=impostor) as raised:
            admin.list_topics(timeout=1)
        calls.append(raised.value)
    with Producer(**quick, max_block_ms=1000) as producer:
        with pytest.raises(KafkaError, match=impostor) as raised:
            producer.send("t", b"x")
        calls.append(raised.value)
        with pytest.raises(KafkaError, match=impostor):
            producer.send_batch("t", pa.table({"value": [b"x"]}))
    with Consumer(**quick, default_api_timeout_ms=1000) as consumer:
        with pytest.raises(KafkaError, match=impostor) as raised:
            consumer.partitions_for("t", timeout=1)
        calls.append(raised.value)
    assert all(len(str(error)) > len(impostor) + 10 for error in calls)


@pytest.mark.parametrize(
    "missing", [TopicPartition("nowhere", 0), TopicPartition("t", 7), TopicPartition("four", 2**31 - 1)], ids=str
)
def test_polling_what_is_not_there_is_an_error_not_silence(servers, missing):
    with Consumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        allow_auto_create_topics=False,
        default_api_timeout_ms=1000,
    ) as consumer:
        consumer.assign([missing])
        with pytest.raises(KafkaError, match=missing.topic):
            consumer.poll(10)


@pytest.mark.parametrize("partition", [-1, 1, 2**31 - 1])
def test_sending_to_a_partition_that_is_not_there_names_it(servers, partition):
    with Producer(bootstrap_servers=servers, max_block_ms=1000) as producer:
        with pytest.raises((ConfigurationError, KafkaError), match=str(partition)):
            producer.send("t", b"x", partition=partition).result(10)
        rows = pa.table({"value": [b"x"], "p": pa.array([partition], pa.int32())})
        with pytest.raises((ConfigurationError, KafkaError), match=str(partition)):
            producer.send_batch("t", rows, partition="p").result(10)
        assert producer.send("t", b"x").result(10).offset == 0


def test_a_lone_broker_that_restarts_under_a_batch_and_a_reader_loses_and_repeats_nothing():
    rows = 20_000
    table = pa.table({"value": [str(i) for i in range(rows)]})
    tp = TopicPartition("t", 0)
    with (
        Broker(topics={"t": 1}) as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=2000, retry_backoff_ms=20) as producer,
        Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([tp])
        stop = threading.Event()

        def restart():
            while not stop.wait(0.1):
                broker.stop_broker(0)
                time.sleep(0.1)
                broker.start_broker(0)

        seen = []

        def take(count, until):
            while len(seen) < count and time.monotonic() < until:
                batch = consumer.poll(0.2)
                seen.extend(zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True))

        deliveries = []
        restarting = threading.Thread(target=restart)
        restarting.start()
        try:
            for start in range(0, rows, 1000):
                deliveries.append(producer.send_batch("t", table.slice(start, 1000)))
                take(start, time.monotonic() + 0.1)
        finally:
            stop.set()
            restarting.join()
        producer.flush(60)
        assert sum(r.count for d in deliveries for r in d.result(0)) == rows
        take(rows, time.monotonic() + 60)
        assert consumer.poll(0.2).num_rows == 0
    assert seen == [(i, str(i).encode()) for i in range(rows)]


@pytest.mark.parametrize(
    "call",
    [
        "consumer.position(tp, timeout=60)",
        "consumer.commit({tp: 1}, timeout=60)",
        "list(consumer.records(60))",
        "consumer.reader()",
        "producer.send('t', b'x')",
        "producer.partitions_for('t')",
        "admin.list_topics(timeout=60)",
    ],
)
@pytest.mark.parametrize("impostor", [say_nothing], indirect=True)
def test_ctrl_c_ends_each_call_that_waits(impostor, call):
    code = f"""
        import sys, time
        from samsarrow import Admin, Consumer, Producer, TopicPartition
        where = {{"bootstrap.servers": sys.argv[1]}}
        consumer, producer, admin = Consumer(where, group_id="g"), Producer(where), Admin(where)
        tp = TopicPartition("t", 0)
        consumer.assign([tp])
        try:
            print("ready", flush=True)
            {call}
        except KeyboardInterrupt:
            print(time.time(), flush=True)
        """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), impostor],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stdout.readline() == "ready\n"
        time.sleep(0.3)
        sent = time.time()
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, err) == (0, "")
    # 200 ms is the promise; a busy machine gets a few seconds. The call would take a minute.
    assert float(out) - sent < 10.0
