"""Secured clusters in the JVM: files distributed by Spark, and tasks that authenticate with delegation tokens."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Admin, Consumer, Producer
from samsarrow.testing import Broker
from support.parity import JVM
from support.secure import SecureKafka
from support.streams import wait_until

# A task has at least a quarter of the token lifetime to authenticate.
LIFE_S = 20
PASSWORD = "canary-password"


def read(spark: Any, servers: str, topic: str, **options: str) -> Any:
    frame = spark.read.format(JVM).option("kafka.bootstrap.servers", servers)
    return frame.options(subscribe=topic, **options).load().select("key", "value")


def write(frame: Any, servers: str, topic: str, **options: str) -> None:
    writer = frame.write.format(JVM).option("kafka.bootstrap.servers", servers).options(topic=topic, **options)
    writer.mode("append").save()


def values(config: Any, topic: str) -> list[int]:
    with Consumer(config, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return sorted(int(value) for value in consumer.reader().read_all().column("value").to_pylist())


def test_distributed_file_is_found_by_name(built: None, spark: Any, tmp_path: Path) -> None:
    """The driver and tasks find the file by its name, for reads and for writes."""
    name = "ca-for-the-jvm.pem"
    tls = {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": name}
    with Broker(topics={"come": 1, "gone": 1}, security="SSL") as broker:
        with Producer(broker.client_options()) as producer:
            for n in range(10):
                producer.send("come", str(n))
        missing = rf"option kafka.ssl.truststore.location: there is no file {name} on .* Ship it with --files"
        with pytest.raises(Exception, match=missing):
            read(spark, broker.bootstrap_servers, "come", **tls).collect()
        with pytest.raises(Exception, match=missing):
            write(spark.range(1).selectExpr("string(id) value"), broker.bootstrap_servers, "gone", **tls)
        (tmp_path / name).write_text(broker.ca_pem)
        spark.sparkContext.addFile(str(tmp_path / name))
        write(read(spark, broker.bootstrap_servers, "come", **tls), broker.bootstrap_servers, "gone", **tls)
        assert values(broker.client_options(), "gone") == list(range(10))


def serialized(spark: Any, thing: Any) -> bytes:
    """Serializes an object with Java serialization, as Spark does before sending it to executors."""
    io = spark._jvm.java.io
    out = io.ByteArrayOutputStream()
    objects = io.ObjectOutputStream(out)
    objects.writeObject(thing)
    objects.close()
    return bytes(out.toByteArray())


@pytest.mark.parametrize("by_token", [False, True])
def test_tasks_with_tokens_get_no_credentials(built: None, spark: Any, by_token: bool) -> None:
    login = {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl_plain_username": "alice",
        "kafka.sasl.password": PASSWORD,
        "kafka.sasl.oauthbearer.client.secret": PASSWORD,
        "delegationToken": str(by_token).lower(),
    }
    users: Any = {"alice": PASSWORD}
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT", users=users) as broker:
        frame = read(spark, broker.bootstrap_servers, "t", **login)
        scan = frame._jdf.queryExecution().sparkPlan().collectLeaves().head()
        sent = serialized(spark, scan.readerFactory())
        with Admin(broker.client_options("alice")) as admin:
            made = admin.describe_delegation_tokens()
        assert len(made) == by_token
        assert (PASSWORD.encode() in sent) is not by_token
        assert [token.token_id.encode() in sent for token in made] == [True] * len(made)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    short = {"delegation.token.expiry.time.ms": str(LIFE_S * 1000), "delegation.token.expiry.check.interval.ms": "1000"}
    with SecureKafka(tmp_path_factory.mktemp("secure"), properties=short) as kafka:
        yield kafka


@pytest.mark.timeout(400)
def test_tasks_authenticate_with_tokens(built: None, spark: Any, secure: SecureKafka, tmp_path: Path) -> None:
    """A query that outlives a token gets a new token, which its tasks use for reads and writes."""
    config = dict(secure.password("SCRAM-SHA-512").ours)
    servers = config["bootstrap.servers"]
    options = {f"kafka.{name}": value for name, value in config.items() if name != "bootstrap.servers"}
    options |= {"delegationToken": "true", "delegationTokenMechanism": "SCRAM-SHA-256"}
    with Admin(config) as admin, Producer(config) as producer:
        admin.create_topics(["come", "gone", "batch"], num_partitions=2)
        numbers = itertools.count()
        seen: set[str] = set()

        def produce(count: int) -> int:
            for _ in range(count):
                last = next(numbers)
                producer.send("come", str(last), str(last))
            producer.flush()
            return last + 1

        def tokens() -> set[str]:
            seen.update(token.token_id for token in admin.describe_delegation_tokens())
            return seen

        assert produce(100) == 100
        write(read(spark, servers, "come", **options), servers, "batch", **options)
        assert values(config, "batch") == list(range(100))
        assert len(tokens()) == 1, "reads and writes with the same login share a token"
        stream = spark.readStream.format(JVM).options(subscribe="come", startingOffsets="earliest", **options)
        stream = stream.option("kafka.bootstrap.servers", servers).load().select("key", "value")
        sink = stream.writeStream.format(JVM).options(topic="gone", checkpointLocation=str(tmp_path), **options)
        query = sink.option("kafka.bootstrap.servers", servers).trigger(processingTime="500 milliseconds").start()
        try:
            wait_until(lambda: values(config, "gone") == list(range(100)), 90)
            before = len(tokens())
            wait_until(lambda: produce(10) > 0 and len(tokens()) > before + 1, 120)
            count = produce(10)
            wait_until(lambda: values(config, "gone") == list(range(count)), 60)
        finally:
            query.stop()
