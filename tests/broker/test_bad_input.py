"""Servers of other protocols, missing partitions, and signals during blocking calls."""

import asyncio
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from math import nan

import pyarrow as pa
import pytest

from samsarrow import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    AsyncShareConsumer,
    Avro,
    Consumer,
    Json,
    Producer,
    Protobuf,
    ShareConsumer,
    TopicPartition,
)
from samsarrow.exceptions import ConfigurationError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.testing import Broker, Registry


def close_connection(connection):
    connection.close()


def never_respond(connection):
    while connection.recv(1000):
        pass


def respond_with_http(connection):
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def respond_with_a_huge_length(connection):
    connection.recv(1000)
    connection.sendall(b"\x7f\xff\xff\xff" + bytes(100))


@pytest.fixture
def impostor(request):
    """Starts a server that calls `request.param` for each connection, and yields its address."""
    server = socket.create_server(("127.0.0.1", 0))
    connections = []

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connections.append(connection)
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    def handle(connection):
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


@pytest.mark.parametrize(
    "impostor", [close_connection, never_respond, respond_with_http, respond_with_a_huge_length], indirect=True
)
def test_server_that_is_not_kafka_is_an_error_with_its_address(impostor):
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
def test_poll_of_a_missing_partition_raises(servers, missing):
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
def test_send_to_a_missing_partition_names_it(servers, partition):
    with Producer(bootstrap_servers=servers, max_block_ms=1000) as producer:
        with pytest.raises((ConfigurationError, KafkaError), match=str(partition)):
            producer.send("t", b"x", partition=partition).result(10)
        rows = pa.table({"value": [b"x"], "p": pa.array([partition], pa.int32())})
        with pytest.raises((ConfigurationError, KafkaError), match=str(partition)):
            producer.send_batch("t", rows, partition="p").result(10)
        assert producer.send("t", b"x").result(10).offset == 0


def test_lookups_of_a_missing_topic_fail_at_once():
    missing = TopicPartition("missing", 0)
    with (
        Broker(auto_create_topics=False) as broker,
        Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer,
    ):
        for look_up in (
            lambda: consumer.end_offsets(missing),
            lambda: consumer.beginning_offsets(missing),
            lambda: consumer.offsets_for_times({missing: 0}),
        ):
            began = time.monotonic()
            with pytest.raises(UnknownTopicOrPartitionError, match="topic missing"):
                look_up()
            # The timeout is a minute.
            assert time.monotonic() - began < 20


@pytest.mark.parametrize(("timeout", "error"), [(-1, ConfigurationError), (nan, ConfigurationError), ("1", TypeError)])
@pytest.mark.parametrize("kind", [Producer, Consumer, ShareConsumer])
def test_close_with_an_invalid_timeout_leaves_the_client_open(kind, timeout, error):
    with Broker(topics=["t"]) as broker:
        group = {} if kind is Producer else {"group_id": "g"}
        client = kind(bootstrap_servers=broker.bootstrap_servers, **group)
        with pytest.raises(error, match="a timeout"):
            client.close(timeout)
        assert not client.closed
        if kind is not Producer:
            client.subscribe(["t"])
            client.poll(2)
            assert client.assignment()
        client.close()
        # The member has left the group, so nothing delays its deletion.
        if kind is not Producer:
            with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                admin.delete_groups(["g"])


@pytest.mark.parametrize("kind", [AsyncProducer, AsyncConsumer, AsyncShareConsumer])
def test_async_close_can_be_called_after_an_invalid_timeout(kind):
    async def main(servers):
        client = kind(bootstrap_servers=servers, **({} if kind is AsyncProducer else {"group_id": "g"}))
        with pytest.raises(ConfigurationError, match="a timeout of -1 seconds"):
            await client.close(-1)
        assert not client.closed
        await asyncio.wait_for(client.close(), 20)
        assert client.closed

    with Broker() as broker:
        asyncio.run(main(broker.bootstrap_servers))


def test_none_is_no_topic():
    with Broker(topics=["t"]) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for call in (admin.delete_topics, admin.describe_topics):
            with pytest.raises(TypeError, match=r"topics\[1\] must be str or UUID, not NoneType"):
                call(["t", None])
        assert "t" in admin.list_topics()


def test_error_of_a_missing_partition_says_how_long_it_was_awaited():
    with Broker(topics={"t": 2}) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        text = r"^topic t has no partition 9: its 2 partitions are 0 to 1 \(a new partition was awaited for 2 s\)$"
        with pytest.raises(ConfigurationError, match=text):
            producer.send("t", b"x", partition=9)


def test_invalid_port_of_the_registry():
    with pytest.raises(TypeError, match=r"^port must be an int, not str$"):
        Registry(port="8081")
    with pytest.raises(ValueError, match=r"^port=70000: it must be from 0 to 65535$"):
        Registry(port=70_000)


@pytest.mark.parametrize("kind", [Avro, Json, Protobuf])
def test_url_in_place_of_a_registry(kind):
    for arguments in (["http://ann:secret@localhost:8081"], []):
        with pytest.raises(
            ConfigurationError, match=r"^a URL is no schema: for a registry, pass SchemaRegistry\(url\)$"
        ):
            kind(*arguments, **({} if arguments else {"schema": "https://localhost:8081"}))


def test_keys_and_values_of_other_types_name_the_formats():
    rows = pa.table({"id": [1], "value": ["x"]})
    with Broker(topics={"t": 1}) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for role in ("key", "value"):
            text = rf'cast it first, for example to string, or pass a {role}_format such as "long"$'
            with pytest.raises(ConfigurationError, match=text):
                producer.send_batch("t", rows, **{role: "id"})
        assert producer.send_batch("t", rows, key="id", key_format="long").result(10)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"port": -1}, ValueError("port=-1: it must be from 0 to 65535")),
        ({"port": "x"}, TypeError("port must be an int, not str")),
        ({"brokers": 0}, ValueError("brokers=0: it must be from 1 to 1000")),
        ({"brokers": 1.5}, TypeError("brokers must be an int, not float")),
    ],
    ids=repr,
)
def test_invalid_arguments_of_the_broker(arguments, error):
    with pytest.raises(type(error), match=f"^{error}$"):
        Broker(**arguments)


def test_restarts_of_the_only_broker_lose_and_repeat_no_record():
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
@pytest.mark.parametrize("impostor", [never_respond], indirect=True)
def test_ctrl_c_ends_blocking_calls(impostor, call):
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
    # The documented limit is 200 ms. The test allows 10 s on a busy machine; without the signal, the call would take a
    # minute.
    assert float(out) - sent < 10.0
