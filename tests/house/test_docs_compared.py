"""docs/compared.md: versions, and facts that the installed packages show."""

import importlib.metadata
import inspect
import re
from pathlib import Path

import pytest

from support.fences import ROOT

TEXT = (ROOT / "docs" / "compared.md").read_text()
CLIENTS = ["samsarrow", "confluent-kafka", "kafka-python", "aiokafka"]


def cell(row: str, client: str) -> str:
    (found,) = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", TEXT, re.MULTILINE)
    return found.split("|")[CLIENTS.index(client)].strip()


@pytest.mark.parametrize("client", CLIENTS[1:])
def test_versions_are_the_installed_ones(client: str) -> None:
    pytest.importorskip(client.replace("-", "_").replace("kafka_python", "kafka"), reason=f"{client} is not installed")
    assert f"{client} {importlib.metadata.version(client)}" in TEXT
    needed = importlib.metadata.metadata(client)["Requires-Python"].removeprefix(">=")
    assert cell("Python", client).startswith(f"{needed} or later")


def test_confluent_kafka() -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    from confluent_kafka.admin import AdminClient

    assert f"librdkafka {confluent_kafka.libversion()[0]}" in TEXT
    options = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}
    confluent_kafka.Consumer(options | {"group.protocol": "consumer"}).close()
    with pytest.raises(confluent_kafka.KafkaException, match="No provider for SASL mechanism GSSAPI"):
        confluent_kafka.Producer(options | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})
    assert hasattr(confluent_kafka, "ShareConsumer")
    assert not [name for name in dir(AdminClient) if "quota" in name]
    assert (Path(confluent_kafka.__file__).parent / "py.typed").exists()


def test_kafka_python() -> None:
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed")
    producer, consumer = kafka.KafkaProducer.DEFAULT_CONFIG, kafka.KafkaConsumer.DEFAULT_CONFIG
    assert (producer["enable_idempotence"], producer["acks"]) == (True, -1)
    assert {"socks5_proxy", "proxy_url"} < set(producer)
    assert (consumer["isolation_level"], consumer["check_crcs"]) == ("read_uncommitted", True)
    assert "group_protocol" not in consumer
    assert "group_metadata" in inspect.signature(kafka.KafkaProducer.send_offsets_to_transaction).parameters
    assert not [name for name in dir(kafka.KafkaAdminClient) if "quota" in name]
    assert not (Path(kafka.__file__).parent / "py.typed").exists()


def test_aiokafka() -> None:
    aiokafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed")
    from aiokafka.admin import AIOKafkaAdminClient

    producer = inspect.signature(aiokafka.AIOKafkaProducer).parameters
    consumer = inspect.signature(aiokafka.AIOKafkaConsumer).parameters
    assert producer["enable_idempotence"].default is False
    assert (consumer["isolation_level"].default, consumer["check_crcs"].default) == ("read_uncommitted", True)
    assert "group_protocol" not in consumer
    assert "group_id" in inspect.signature(aiokafka.AIOKafkaProducer.send_offsets_to_transaction).parameters
    assert not hasattr(aiokafka.AIOKafkaConsumer, "metrics")
    assert not [name for name in dir(AIOKafkaAdminClient) if "acl" in name or "scram" in name]
    assert not (Path(aiokafka.__file__).parent / "py.typed").exists()
