"""Kerberos authentication with Apache Kafka, a test KDC and MIT's library, by keytab and by ticket cache."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import (
    AuthenticationError,
    ConfigurationError,
    KafkaConnectionError,
    KafkaTimeoutError,
)
from support.kafka import KafkaUnavailableError
from support.kdc import REALM, Kdc, KerberosKafka, gssapi_library, kinit, with_other_keys
from support.peers import Sent
from support.peers.java_api import JavaPeer
from support.waiting import until

RECORDS = 100_000


@pytest.fixture(scope="module")
def kdc() -> Iterator[Kdc]:
    try:
        gssapi_library()
        server = Kdc()
    except KafkaUnavailableError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))
    with server:
        yield server


@pytest.fixture(scope="module")
def kafka(kdc: Kdc) -> Iterator[KerberosKafka]:
    with KerberosKafka(kdc) as server:
        yield server


@pytest.fixture(scope="module")
def alice(kdc: Kdc) -> Path:
    """The keytab of a permitted principal."""
    return kdc.keytab("alice")


@pytest.fixture(autouse=True)
def surroundings(kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Environment of the Kerberos library: no ticket cache, and a reachable KDC."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf()))
    monkeypatch.setenv("KRB5CCNAME", str(tmp_path / "cache"))
    monkeypatch.setenv("SAMSARROW_GSSAPI", gssapi_library())
    yield
    kdc.gate.unlock()


def options(kafka: KerberosKafka, keytab: Path | None = None, **more: Any) -> dict[str, Any]:
    config = {} if keytab is None else {"sasl_kerberos_keytab": str(keytab)}
    # GSSAPI is the default mechanism, as in Java.
    return {"bootstrap_servers": kafka.kerberos_servers, "security_protocol": "SASL_PLAINTEXT"} | config | more


def log_in(kafka: KerberosKafka, keytab: Path | None = None, timeout: float = 30, **more: Any) -> None:
    with Admin(**options(kafka, keytab, **more)) as admin:
        admin.list_topics(timeout=timeout)


def refusal(kafka: KerberosKafka, keytab: Path | None = None, **more: Any) -> str:
    """Returns the text of the authentication error, which must be immediate and not retriable."""
    started = time.monotonic()
    with pytest.raises(AuthenticationError) as raised:
        log_in(kafka, keytab, **more)
    assert time.monotonic() - started < 15
    assert not raised.value.retriable
    assert raised.value.fatal
    assert str(raised.value).startswith(f"{kafka.kerberos_servers}: ")
    return str(raised.value)


def test_all_operations_with_a_keytab(kafka: KerberosKafka, kdc: Kdc, alice: Path) -> None:
    before = kdc.gate.asked.copy()
    config = options(kafka, alice, sasl_kerberos_principal="alice")
    with Admin(**config) as admin:
        admin.create_topics([NewTopic("all", 2, 1)])
        until(lambda: "all" in admin.list_topics())
    values = pa.array([b"%d" % i for i in range(RECORDS)], pa.binary())
    zeros = pa.array([0] * RECORDS, pa.int32())
    with Producer(**config, transactional_id="all") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_batch("all", pa.record_batch({"value": values, "to": zeros}), partition="to")
        producer.commit_transaction()
        producer.begin_transaction()
        producer.send("all", b"never", partition=1)
        producer.flush()
        producer.abort_transaction()
    with Consumer(**config, group_id="all", isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("all", 0), TopicPartition("all", 1)])
        seen: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(seen) < RECORDS and time.monotonic() < deadline:
            seen += consumer.poll(1.0).column("value").to_pylist()
        assert seen == values.to_pylist()
        consumer.commit()
        committed = consumer.committed([TopicPartition("all", 0)])[TopicPartition("all", 0)]
        # The transaction marker also has an offset.
        assert committed is not None
        assert committed.offset in (RECORDS, RECORDS + 1)
    # Each of the three clients requests one ticket, regardless of the number of its connections.
    assert kdc.gate.asked["initial"] - before["initial"] == 3
    assert kdc.gate.asked["service"] - before["service"] == 3


def test_interoperates_with_java(kafka: KerberosKafka, kdc: Kdc, alice: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={kdc.krb5_conf()}")
    login = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    java_options = {
        "bootstrap_servers": kafka.kerberos_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_kerberos_service_name": "kafka",
        "sasl_jaas_config": f'{login} keyTab="{alice}" principal="alice@{REALM}";',
    }
    with Admin(**options(kafka, alice)) as admin:
        admin.create_topics([NewTopic("both", 1, 1)])
    with JavaPeer(kafka) as java:
        java.open("p", **java_options)
        java.send("p", "both", [Sent(b"k", b"from Java", (), None)])
        with Producer(**options(kafka, alice)) as producer:
            producer.send("both", b"from us").result(30)
        polls = java.polls("both", [0], [2], **java_options)
    expected = [b"from Java", b"from us"]
    assert [record.value for poll in polls for _, record in poll.records] == expected
    with Consumer(**options(kafka, alice)) as consumer:
        consumer.assign([TopicPartition("both", 0)])
        consumer.seek_to_beginning()
        seen: list[bytes] = []
        deadline = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < deadline:
            seen += consumer.poll(1.0).column("value").to_pylist()
    assert seen == expected


def test_ticket_cache_is_read_at_each_login(kafka: KerberosKafka, kdc: Kdc, alice: Path, tmp_path: Path) -> None:
    message = refusal(kafka)
    assert "the ticket cache has no ticket: run kinit, or set sasl.kerberos.keytab" in message
    assert str(tmp_path / "cache") in message
    kinit("alice", alice, tmp_path / "cache")
    before = kdc.gate.asked.copy()
    log_in(kafka)
    log_in(kafka, sasl_kerberos_principal="alice")
    log_in(kafka, sasl_kerberos_principal=f"alice@{REALM}")
    # The first login requested the service's ticket; the others found it in the cache.
    assert kdc.gate.asked - before == {"service": 1}
    assert "the ticket cache has no ticket of bob: run kinit" in refusal(kafka, sasl_kerberos_principal="bob")
    with Admin(**options(kafka, connections_max_idle_ms=50)) as admin:
        # A KDC rejects a request that it processes after the end of the lifetime. Under load, a lifetime of one second
        # is too short.
        kinit("alice", alice, tmp_path / "cache", life_s=5)
        time.sleep(6)
        with pytest.raises(AuthenticationError, match="the ticket cache's ticket has expired: run kinit"):
            admin.list_topics(timeout=30)
    kinit("alice", alice, tmp_path / "cache")
    log_in(kafka)


def test_invalid_keytab_fails_in_the_constructor(kafka: KerberosKafka, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(
        ConfigurationError, match=r"keytab .*missing of option sasl.kerberos.keytab cannot be read: No such"
    ):
        Admin(**options(kafka, missing))
    (tmp_path / "text").write_text("no keytab at all")
    with pytest.raises(ConfigurationError, match=r"keytab .*text of option sasl.kerberos.keytab is no keytab"):
        Producer(**options(kafka, tmp_path / "text"))
    with pytest.raises(ConfigurationError, match=r"sasl.kerberos.service.name must be the first part"):
        Consumer(**options(kafka, sasl_kerberos_service_name="kafka/broker"))


def test_outdated_keytab_is_rejected_despite_other_tickets(
    kafka: KerberosKafka, kdc: Kdc, alice: Path, tmp_path: Path
) -> None:
    """Clients do not share tickets. With a shared cache, these logins would succeed."""
    with Admin(**options(kafka, alice)) as admin:
        admin.list_topics()
        message = refusal(kafka, alice, sasl_kerberos_principal="bob")
        assert f"the keytab {alice} has no key of bob: klist -kt {alice} lists what it has" in message
        message = refusal(kafka, with_other_keys(alice, tmp_path / "old"))
        assert "the KDC has other keys: was the password changed since the keytab was written?" in message
        message = refusal(kafka, kdc.keytab("bob"), sasl_kerberos_principal="alice")
        assert "has no key of alice" in message
        admin.list_topics()


def test_error_names_unknown_service(kafka: KerberosKafka, alice: Path) -> None:
    message = refusal(kafka, alice, sasl_kerberos_service_name="queue")
    assert "the KDC knows no service queue/localhost: look at sasl.kerberos.service.name" in message
    message = refusal(kafka, alice, sasl_kerberos_domain_name="elsewhere")
    assert "the KDC knows no service kafka/elsewhere" in message
    address = kafka.kerberos_servers.replace(kafka.host, "127.0.0.1")
    with pytest.raises(AuthenticationError, match=r"the KDC knows no service kafka/127\.0\.0\.1"):
        log_in(kafka, alice, bootstrap_servers=address)
    log_in(kafka, alice, bootstrap_servers=address, sasl_kerberos_domain_name="localhost")


def test_broker_without_the_service_key_is_rejected(kafka: KerberosKafka, kdc: Kdc, alice: Path) -> None:
    """The KDC knows the requested service, but the broker has a different key."""
    kdc.keytab("kafka/other")
    message = refusal(kafka, alice, sasl_kerberos_domain_name="other")
    assert "the login with GSSAPI failed" in message


def test_waits_for_unreachable_kdc(
    kafka: KerberosKafka, kdc: Kdc, alice: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    with Admin(**options(kafka, alice)) as admin:
        kdc.gate.shut()
        started = time.monotonic()
        with pytest.raises(
            (KafkaTimeoutError, KafkaConnectionError), match=r"waits for a KDC .*Cannot contact any KDC"
        ) as raised:
            admin.list_topics(timeout=2)
        assert raised.value.retriable
        assert time.monotonic() - started < 10
        kdc.gate.unlock()
        kdc.gate.silence()
        started = time.monotonic()
        with pytest.raises((KafkaTimeoutError, KafkaConnectionError)) as raised:
            admin.list_topics(timeout=4)
        assert raised.value.retriable
        assert time.monotonic() - started < 15
        # Waits, because another thread writes the log lines.
        until(lambda: any("waits for a response of the KDC" in record.getMessage() for record in caplog.records))
        kdc.gate.unlock()
        admin.list_topics(timeout=30)


def test_tickets_are_renewed_before_they_expire(
    kafka: KerberosKafka, kdc: Kdc, alice: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.krb5_conf(life="50s")))
    soon: dict[str, Any] = {
        # Tickets are renewed after two seconds, which is longer than a call takes.
        "sasl_kerberos_ticket_renew_window_factor": 0.04,
        "sasl_kerberos_ticket_renew_jitter": 0,
        "sasl_kerberos_min_time_before_relogin": 0,
    }
    # Each call opens a new connection and authenticates again, because idle connections are closed after 50 ms.
    config = options(kafka, alice, connections_max_idle_ms=50)
    with Admin(**config | soon) as admin, Admin(**config) as patient:
        before = kdc.gate.asked["initial"]

        def call(of: Admin) -> int:
            """Lists topics, waits until the ticket is due for renewal, and returns the number of initial tickets
            requested so far.
            """
            of.list_topics(timeout=30)
            # The wait is longer than two seconds, because the Kerberos library counts whole seconds.
            time.sleep(2.5)
            return kdc.gate.asked["initial"] - before

        assert call(admin) == 1
        assert call(admin) == 2
        kdc.gate.shut()
        assert call(admin) == 2
        until(lambda: any("the previous ones are used until they expire" in r.getMessage() for r in caplog.records))
        kdc.gate.unlock()
        assert call(admin) == 3
        assert call(patient) == 4
        assert call(patient) == 4


def test_missing_library_error_names_the_package(kafka: KerberosKafka) -> None:
    program = (
        "import samsarrow, sys; samsarrow.Admin(bootstrap_servers=sys.argv[1], security_protocol='SASL_PLAINTEXT')"
    )

    def run(library: str) -> str:
        surroundings = os.environ | {"SAMSARROW_GSSAPI": library}
        command = [sys.executable, "-c", program, kafka.kerberos_servers]
        done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1
        return done.stderr.splitlines()[-1]

    output = run("/nowhere/libgssapi_krb5.so.2")
    assert "ConfigurationError: sasl.mechanism=GSSAPI: /nowhere/libgssapi_krb5.so.2, set by the environment" in output
    assert "libc.so.6 is no GSSAPI library" in run("libc.so.6")
