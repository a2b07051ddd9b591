"""Tokens of an issuer, whose signatures Apache Kafka verifies; librdkafka uses the same options."""

import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.exceptions import AuthenticationError
from support.oidc import Issuer, private_pem
from support.secure import SecureKafka


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with Issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(scope="module")
def kafka(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    with SecureKafka(tmp_path_factory.mktemp("kafka"), issuer=issuer) as kafka:
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics(["t"])
        yield kafka


@pytest.fixture(autouse=True)
def good(issuer: Issuer) -> None:
    issuer.mode, issuer.life = "good", 3600
    issuer.asked.clear()


def options(kafka: SecureKafka, issuer: Issuer, listener: str = "SASL_SSL") -> dict[str, str]:
    return {
        **issuer.options,
        "bootstrap.servers": kafka.servers(listener),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(kafka.ca),
    }


def test_tokens_work_as_with_librdkafka(kafka: SecureKafka, issuer: Issuer) -> None:
    ours = options(kafka, issuer)
    with Producer(ours) as producer:
        receipt = producer.send("t", b"ours").result(20)
    assert len(issuer.asked) == 1, "one token a client"
    theirs = {("sasl.mechanisms" if name == "sasl.mechanism" else name): value for name, value in ours.items()}
    renamed = {"client.credentials.client.id": "client.id", "client.credentials.client.secret": "client.secret"}
    for long, short in renamed.items():
        theirs[f"sasl.oauthbearer.{short}"] = theirs.pop(f"sasl.oauthbearer.{long}")
    other = confluent_kafka.Producer({**theirs, "sasl.oauthbearer.method": "oidc"})
    other.produce("t", b"theirs")
    assert other.flush(20) == 0
    # librdkafka's option names are accepted.
    with Consumer({**theirs, "sasl.oauthbearer.method": "oidc"}) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), receipt.offset)
        values: list[bytes] = []
        end = time.monotonic() + 20
        while len(values) < 2 and time.monotonic() < end:
            values += consumer.poll(1).column("value").to_pylist()
    assert values == [b"ours", b"theirs"]


def test_signed_assertion_grant(kafka: SecureKafka, issuer: Issuer, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    issuer.trusted.append(key.public_key())
    file = tmp_path / "key.pem"
    file.write_text(private_pem(key))
    config = options(kafka, issuer)
    del config["sasl.oauthbearer.client.credentials.client.secret"]
    with Producer(config, sasl_oauthbearer_assertion_private_key_file=str(file)) as producer:
        producer.send("t", b"v").result(20)


def test_tokens_are_refreshed_before_they_expire(kafka: SecureKafka, issuer: Issuer) -> None:
    issuer.life = 3
    with Producer(options(kafka, issuer)) as producer:
        end = time.monotonic() + 8
        while time.monotonic() < end:
            producer.send("t", b"v").result(10)
            time.sleep(0.05)
    assert len(issuer.asked) >= 3
    # Only the refresh task requests tokens.
    assert len(issuer.asked) <= 8


def test_rejects_token_of_other_issuer(kafka: SecureKafka, issuer: Issuer, tmp_path: Path) -> None:
    with Issuer(tmp_path) as other:
        config = {**options(kafka, issuer), **other.options}
        with Producer(config) as producer, pytest.raises(AuthenticationError) as caught:
            producer.send("t", b"v").result(20)
    assert "invalid_token" in str(caught.value)
    assert "eyJ" not in str(caught.value)
