"""The command line: output and exit codes."""

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from samsarrow import Admin, Consumer, Producer, SchemaRegistry, TopicPartition
from samsarrow.exceptions import KafkaError, UnsupportedVersionError

COMMAND = [sys.executable, "-m", "samsarrow.cli"]


def run(*args):
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_broker_command(sign):
    command = [*COMMAND, "broker", "--port", "0", "--topic", "a:2", "--topic", "b"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as broker:
        servers = broker.stdout.readline().removeprefix("listening on ").strip()
        with Admin(bootstrap_servers=servers) as admin:
            assert {name: t.partitions for name, t in admin.list_topics().items()} == {"a": 2, "b": 1}
        with Producer(bootstrap_servers=servers) as producer:
            assert producer.send("a", b"x", partition=1).result(10).offset == 0
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("a", 1)])
            assert consumer.poll(10)["value"].to_pylist() == [b"x"]
        broker.send_signal(sign)
        out, err = broker.communicate(timeout=60)
    assert (broker.returncode, out, err) == (0, "stopped\n", "")


def test_broker_command_with_a_registry():
    command = [*COMMAND, "broker", "--port", "0", "--registry-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout.readline().startswith("listening on ")
            url = broker.stdout.readline().removeprefix("schema registry at ").strip()
            with SchemaRegistry(url) as registry:
                assert registry.register("orders-value", '"long"') == 1
            taken = [*command[:-1], url.rpartition(":")[2]]
            done = subprocess.run(taken, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stdout) == (1, "")
            assert "choose another --registry-port" in done.stderr
        finally:
            broker.terminate()


def test_broker_command_with_security_and_an_old_version(tmp_path):
    ca = tmp_path / "ca.pem"
    options = ["--security", "sasl_ssl", "--user", "ann:secret", "--ca-file", ca, "--kafka-version", "2.8"]
    command = [*COMMAND, "broker", "--port", "0", "--topic", "a:2", "--no-auto-create", *map(str, options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        try:
            servers = broker.stdout.readline().removeprefix("listening on ").strip()
            options = {
                "bootstrap.servers": servers, "security.protocol": "SASL_SSL", "ssl.ca.location": str(ca),
                "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "ann", "sasl.password": "secret",
            }  # fmt: skip
            with Admin(options) as admin:
                assert list(admin.list_topics()) == ["a"]
                # Kafka 2.8 has no transactions API (KIP-664).
                with pytest.raises(UnsupportedVersionError):
                    admin.list_transactions()
            limits = {"delivery.timeout.ms": 1000, "request.timeout.ms": 500, "max.block.ms": 500}
            with Producer({**options, **limits}) as producer, pytest.raises(KafkaError):
                producer.send("missing", b"x").result(10)
            with Admin(options) as admin:
                assert list(admin.list_topics()) == ["a"]
        finally:
            broker.terminate()


def test_options_by_name():
    done = run("options", "linger.ms", "sasl_username")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("linger.ms\n  producer: milliseconds")
    assert "\nsasl.username\n" in done.stdout
    assert "|" not in done.stdout
    names = [line for line in run("options", "isolation").stdout.splitlines() if not line.startswith(" ")]
    assert names == ["isolation.level"]
    for name, text in (
        ("lingerms", "no option matches 'lingerms'; did you mean linger.ms?"),
        ("value_serializer", "option value_serializer is not supported by this client: "),
        ("qqqq", "no option matches 'qqqq'"),
    ):
        done = run("options", name)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"Error: {text}")


def test_a_web_server_is_reported_once():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = server.accept()
                    with client:
                        client.recv(1024)
                        client.sendall(b"<!DOCTYPE HTML><html>400</html>")

        threading.Thread(target=serve, daemon=True).start()
        done = run("topics", "list", "-b", f"127.0.0.1:{server.getsockname()[1]}", "--timeout", "5")
    (line,) = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (1, "")
    assert line.endswith("does not speak Kafka: it responds with HTTP")


@pytest.mark.parametrize(
    ("args", "texts"),
    [
        (["--help"], ["broker", "demo", "options"]),
        (["-h"], ["broker", "demo", "options"]),
        (["broker", "--help"], ["--port", "--topic", "--brokers", "9092"]),
        (["--version"], ["version"]),
    ],
    ids=" ".join,
)
def test_help(args, texts):
    done = run(*args)
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in texts)


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["brokker"], "No such command"),
        (["-b", "h:1", "topics", "list"], "No such option '-b' here: options follow the command, as in `"),
        (["topics", "-b", "h:1", "list"], " topics COMMAND -b …`"),
        (["broker", "--prot", "0"], "No such option"),
        (["broker", "--port", "70000"], "70000"),
        (["broker", "--port", "many"], "many"),
        (["broker", "--brokers", "0"], "brokers"),
        (["broker", "--topic", "a:0"], "'a:0' is not NAME:PARTITIONS"),
        (["broker", "--topic", "a:x"], "'a:x' is not NAME:PARTITIONS"),
        (["broker", "--topic", ":2"], "':2' is not NAME:PARTITIONS"),
        (["broker", "--kafka-version", "0.1", "--port", "0"], "0.1"),
        (["broker", "--security", "TLS"], "TLS"),
        (["broker", "--security", "SSL"], "--security SSL needs --ca-file FILE"),
        (["broker", "--security", "SASL_PLAINTEXT"], "needs a --user NAME:PASSWORD"),
        (["broker", "--user", "a:b"], "need --security SASL_PLAINTEXT or SASL_SSL"),
        (["broker", "--user", "a", "--security", "SASL_PLAINTEXT"], "'a' is not NAME:PASSWORD"),
        (["broker", "--ca-file", "ca.pem"], "--ca-file needs --security SSL or SASL_SSL"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_options_are_named(args, text):
    done = run(*args)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_used_port_is_an_error_without_traceback():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run("broker", "--port", port)
    assert done.returncode == 1
    assert port in done.stderr
    assert "Traceback" not in done.stderr
