"""Secrets are redacted: clients authenticate with secrets that appear in no log, repr, or error."""

import base64
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from samsarrow import Admin, Consumer, Producer
from samsarrow.exceptions import AuthenticationError
from samsarrow.testing import Broker
from support.waiting import until

CANARY = 'canary "7f3a" + \\ ä'
WRONG = "canary-of-a-wrong-password"
# Forms in which a secret may appear in output: plain, in a PLAIN message, in a URL, or escaped.
SHAPES = [CANARY, WRONG, *(base64.b64encode(s.encode()).decode().rstrip("=") for s in (CANARY, WRONG)), quote(CANARY)]
SHAPES += [base64.b64encode(f"\0alice\0{s}".encode()).decode().rstrip("=") for s in (CANARY, WRONG)]
SHAPES += [repr(CANARY)[1:-1], CANARY.replace("\\", "\\\\").replace('"', '\\"')]
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def hits(text: str, *more: str) -> list[str]:
    return [shape for shape in (*SHAPES, *more) if shape in text]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    config: dict[str, Any] = {"security": "SASL_SSL", "users": {"alice": CANARY}, "client_auth": "requested"}
    with Broker(topics={"t": 1}, **config) as served:
        yield served


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def as_options(mechanism: str, password: str, _: Path) -> dict[str, Any]:
    return {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}


def as_jaas(mechanism: str, password: str, _: Path) -> dict[str, Any]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    entry = f'org.apache.kafka.common.security.{module} required username="alice" password={quoted(password)};'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": entry}


def as_a_reference(mechanism: str, password: str, folder: Path) -> dict[str, Any]:
    (folder / "password").write_text(password)
    reference = f"${{directory:{folder}:password}}"
    return {**as_options(mechanism, reference, folder), "config.providers": "directory"}


GIVEN = [as_options, as_jaas, as_a_reference]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("give", GIVEN)
def test_successful_login_reveals_no_secret(
    give: Callable[..., dict[str, Any]],
    mechanism: str,
    broker: Broker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = broker.client_certificate("alice")
    config = {
        **give(mechanism, CANARY, tmp_path),
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": broker.ca_pem,
        "ssl.certificate.pem": shown.certificate,
        "ssl.key.pem": shown.key,
    }
    with (
        Producer(config) as producer,
        Consumer(config, auto_offset_reset="earliest") as consumer,
        Admin(config) as admin,
    ):
        producer.send("t", "value").result(20)
        consumer.assign(consumer.partitions_for("t"))
        assert consumer.poll(20).num_rows
        assert "t" in admin.list_topics()
        texts = [repr(c) + str(c) + repr(vars(c)) for c in (producer, consumer, admin)]
    settle()
    until(
        lambda: any(record.name.startswith("samsarrow") for record in caplog.records),
        lambda: "nothing was logged at all",
    )
    key = "".join(shown.key.splitlines()[1:-1])[:40]
    assert hits("\n".join(texts) + caplog.text, key, shown.key[30:60]) == []
    assert hits(repr(shown) + repr(broker), shown.key[30:60]) == []


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("give", GIVEN)
def test_failed_login_reveals_no_secret(
    give: Callable[..., dict[str, Any]],
    mechanism: str,
    broker: Broker,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    config = {
        **give(mechanism, WRONG, tmp_path),
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": broker.ca_pem,
    }
    with Admin(config) as admin, pytest.raises(AuthenticationError) as caught:
        admin.list_topics(timeout=20)
    settle()
    trace = traceback.TracebackException.from_exception(caught.value, capture_locals=False)
    text = "".join(trace.format()) + repr(caught.value) + repr(caught.value.__dict__)
    assert hits(text + caplog.text) == []


@pytest.mark.parametrize("give", GIVEN)
def test_secrets_in_broker_messages_are_masked(
    give: Callable[..., dict[str, Any]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Broker(security="SASL_PLAINTEXT", users={"alice": CANARY}) as broker:
        broker.alter_logins(message=f"no user alice with {WRONG} here", times=None)
        config = {
            **give("PLAIN", WRONG, tmp_path),
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
        }
        with Admin(config) as admin, pytest.raises(AuthenticationError, match="no user alice with") as caught:
            admin.list_topics(timeout=20)
    settle()
    assert hits(str(caught.value) + caplog.text) == []


def settle() -> None:
    """Waits for log lines of the Rust client, which another thread writes."""
    time.sleep(0.2)
