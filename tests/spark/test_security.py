"""Spark on a secured cluster: credentials passed to tasks, and no secrets in any output."""

import json
import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from samsarrow import Consumer, Producer
from samsarrow._core import option_table
from samsarrow.access import DelegationToken
from samsarrow.config import Secret
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark import hide_secrets, spark_cluster_options
from samsarrow.spark.clients import localize
from samsarrow.spark.datasource import KafkaDataSource
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.tokens import TokenIssuer
from samsarrow.spark.write_options import WriteOptions
from samsarrow.testing import Broker
from support.kafka import SUPPORT
from support.slow import WHOLE

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
LOGIN = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": "canary-password",
    "kafka.ssl.key.password": "canary-of-the-key",
    "kafka.ssl.ca.location": "/etc/ca.pem",
}
CANARIES = [value for value in LOGIN.values() if value.startswith("canary")]


# ---- options


def test_options_repr_has_no_secret() -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    config = {**BASE, **LOGIN, "kafka.sasl.pasword": "canary-misspelt", "topic": "t"}
    shown = repr(ReadOptions.parse(config)) + repr(
        WriteOptions.parse(config, StructType([StructField("value", StringType())]))
    )
    assert "canary" not in shown
    assert shown.count("[hidden]") == 6
    assert "SCRAM-SHA-512" in shown
    assert ReadOptions.parse(config).kafka["sasl.password"] == "canary-password"


def test_tasks_with_tokens_get_no_credentials() -> None:
    from pyspark.sql.types import StructType

    schema = KafkaDataSource(dict(BASE)).schema()
    assert isinstance(schema, StructType)
    for more, left in (({}, CANARIES), ({"delegationToken": "true"}, ["canary-of-the-key"])):
        source = KafkaDataSource({**BASE, **LOGIN, **more})
        assert all(c.encode() in pickle.dumps(source) for c in CANARIES), "the driver makes the reader from it"
        for reader in (source.reader(schema), source.streamReader(schema)):
            blob = pickle.dumps((reader, source))
            assert [c for c in CANARIES if c.encode() in blob] == left
            assert all(blob.count(c.encode()) == 1 for c in left)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafka.security.protocol": "SSL"}, "delegationToken=true needs kafka.security.protocol=SASL_SSL, not SSL"),
        ({"delegationTokenMechanism": "PLAIN"}, "delegationTokenMechanism must be one of SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"delegationToken": "yes"}, "delegationToken must be true or false"),
        ({"delegationTokens": "true"}, "did you mean delegationToken"),
        ({"kafka.config.providers": "env", "kafka.group.id": "${env:G}"}, "kafka.group.id cannot be a reference"),
    ],
)
def test_rejects_invalid_combinations(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ReadOptions.parse({**BASE, **LOGIN, "delegationToken": "true", **options})


# ---- files


def test_distributed_file_is_found_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "brought").mkdir()
    (tmp_path / "brought" / "ca.pem").touch()
    (tmp_path / "here.pem").touch()
    monkeypatch.setattr("samsarrow.spark.clients.SparkFiles.getRootDirectory", lambda: str(tmp_path / "brought"))
    monkeypatch.chdir(tmp_path)
    ssl = {"security.protocol": "ssl"}
    assert localize({**ssl, "ssl_cafile": "ca.pem"})["ssl_cafile"] == str(tmp_path / "brought" / "ca.pem")
    for value in ("here.pem", str(tmp_path / "here.pem"), str(tmp_path), "probe", ""):
        assert localize({**ssl, "ssl.ca.location": value})["ssl.ca.location"] == value
    referring = {**ssl, "ssl.ca.location": "${env:CA}", "config.providers": "env"}
    assert localize(referring) == referring
    ignored = {"ssl.ca.location": "no.pem"}
    assert localize(ignored) == ignored


@pytest.mark.parametrize("value", ["no.pem", "/no/such/ca.pem", "brought/ca.pem"])
def test_missing_file_error(value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        localize({"security.protocol": "SASL_SSL", "ssl.ca.location": value})
    text = str(caught.value)
    assert text.startswith(f"option kafka.ssl.ca.location: there is no file {value} on {socket.gethostname()}. ")
    assert "--files" in text
    assert "kafka.ssl.truststore.certificates" in text


# ---- tokens


def created(number: int, life_s: int) -> DelegationToken:
    times = (5_000, 5_000 + life_s * 1000, 10**12)
    return DelegationToken(f"token-{number}", bytes([number]) * 4, "User:alice", None, (), *times)


def test_token_is_shared_for_three_quarters_of_its_lifetime() -> None:
    now, made = [100.0], []

    def create() -> DelegationToken:
        made.append(created(len(made), 1000))
        return made[-1]

    mint = TokenIssuer(create, "SCRAM-SHA-256", lambda: now[0])
    tokens = []
    for passed in (0, 749, 1, 749, 1):
        now[0] += passed
        tokens.append(mint.token().id)
    assert tokens == ["token-0", "token-0", "token-1", "token-1", "token-2"]
    assert len(made) == 3


def test_tasks_authenticate_with_token_only() -> None:
    kafka = {name.removeprefix("kafka."): value for name, value in LOGIN.items() if "ssl" not in name}
    kafka |= {"sasl_jaas_config": "x", "enable.sasl.oauthbearer.unsecure.jwt": "true", "linger.ms": "5"}
    token = TokenIssuer(lambda: created(7, 1000), "SCRAM-SHA-256").token()
    config = localize({**kafka, "security.protocol": "SASL_PLAINTEXT"}, token)
    assert sorted(config) == ["linger.ms", "sasl.jaas.config", "sasl.mechanism", "security.protocol"]
    assert config["sasl.mechanism"] == "SCRAM-SHA-256"
    assert Secret.reveal(config["sasl.jaas.config"]).endswith(
        'ScramLoginModule required username="token-7" password="BwcHBw==" tokenauth="true";'
    )
    assert "BwcHBw" not in repr(token) + str(token) + repr(config) + str(config)


# ---- settings of the session


CLUSTER = {
    "auth.bootstrap.servers": "h:1",
    "ssl.truststore.location": "/t.jks",
    "ssl.truststore.password": "p",
    "sasl.token.mechanism": "SCRAM-SHA-256",
    "kafka.retries": "1",
}
AS_OPTIONS = {
    "kafka.bootstrap.servers": "h:1",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.ssl.truststore.location": "/t.jks",
    "kafka.ssl.truststore.password": "p",
    "kafka.retries": "1",
    "delegationToken": "true",
    "delegationTokenMechanism": "SCRAM-SHA-256",
}


def test_connector_settings_become_options(spark: Any) -> None:
    settings = {f"spark.kafka.clusters.here.{name}": value for name, value in CLUSTER.items()}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        assert spark_cluster_options(spark, "here") == AS_OPTIONS
        with pytest.raises(ConfigurationError, match="there are clusters here"):
            spark_cluster_options(spark, "there")
    finally:
        for name in settings:
            spark.conf.unset(name)


def test_spark_keytab_is_used() -> None:
    settings = {f"spark.kafka.clusters.here.{name}": value for name, value in CLUSTER.items()}
    settings |= {"spark.kerberos.keytab": "/k", "spark.kerberos.principal": "me"}
    session: Any = SimpleNamespace(conf=SimpleNamespace(getAll=settings))
    login = {"kafka.sasl.kerberos.keytab": "/k", "kafka.sasl.kerberos.principal": "me"}
    assert spark_cluster_options(session, "here") == AS_OPTIONS | login


def test_hide_secrets_extends_redaction(spark: Any) -> None:
    name = "spark.sql.redaction.options.regex"
    before = spark.conf.get(name)
    try:
        hide_secrets(spark)
        once = spark.conf.get(name)
        hide_secrets(spark)
        assert spark.conf.get(name) == once
        assert once.startswith(before)
        assert once != before
    finally:
        spark.conf.set(name, before)


# ---- complete queries


@pytest.fixture
def secured() -> Iterator[Broker]:
    config: dict[str, Any] = {"security": "SASL_SSL", "client_auth": "required", "users": {"alice": "canary-password"}}
    with Broker(topics={"come": 2, "gone": 2}, **config) as broker:
        with Producer(broker.client_options("alice")) as producer:
            for n in range(10):
                producer.send("come", str(n), str(n))
        yield broker


def run(broker: Broker, folder: Path, *, plain: bool) -> dict[str, Any]:
    """Reads and writes in a separate Spark application; returns the outputs in which secrets appeared."""
    shown = broker.client_certificate("alice")
    (folder / "files").mkdir()
    (folder / "files" / "ca.pem").write_text(broker.ca_pem)
    secrets = {"key": "".join(shown.key.splitlines()[1:-1])[:40], "env": "canary-password"}
    # Secret options that this application does not need to log in. They are passed to Spark, so they must not appear in
    # its output either.
    idle = {n: f"canary-{n}" for n, _, kind, _ in option_table() if kind == "secret" and n not in USED}
    secrets |= idle
    common = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.ssl.truststore.location": "ca.pem",
        "kafka.ssl.keystore.certificate.chain": shown.certificate,
        "kafka.ssl.keystore.key": shown.key,
        **{f"kafka.{name}": value for name, value in idle.items()},
    }
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required "
    jaas += 'username="alice" password="canary-password";'
    reference = {
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "${env:CANARY}",
        "kafka.config.providers": "env",
    }
    settings = {
        "read": {**common, "kafka.sasl.jaas.config": jaas, "subscribe": "come"},
        "write": {**common, **reference, "topic": "gone"},
        "files": [str(folder / "files" / "ca.pem")],
        "secrets": secrets,
        "plain": plain,
    }
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "spark_canary.py"), str(folder / "spark")], input=json.dumps(settings),
        env=os.environ | {"CANARY": "canary-password"}, cwd=folder,
        capture_output=True, text=True, timeout=360, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    *noise, report = done.stdout.splitlines()
    assert [name for name, secret in secrets.items() if secret in done.stderr + "".join(noise)] == []
    with Consumer(broker.client_options("alice"), auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for("gone"))
        values = sorted(int(v) for v in consumer.reader().read_all().column("value").to_pylist())
    assert values == sorted([*range(10)] * 2), "a batch and a stream wrote what they read"
    return dict(json.loads(report))


# Secrets that the application uses to authenticate, and secrets that cannot be combined with them.
USED = {
    "sasl.password",
    "sasl.jaas.config",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.truststore.password",
}


@pytest.mark.timeout(400)
def test_spark_outputs_have_no_secret(secured: Broker, tmp_path: Path) -> None:
    output = run(secured, tmp_path, plain=False)
    assert output["found"] == {}
    modes = {f"{what} {mode}" for what in ("explain", "sql explain") for mode in
             ("simple", "extended", "codegen", "cost", "formatted")}  # fmt: skip
    looked = modes | {"query explain", "progress", "error", "rest", "ui", "events", "checkpoint"}
    assert looked <= output["looked"].keys()
    assert all(output["looked"][where] for where in looked)


@WHOLE
@pytest.mark.timeout(400)
def test_unconfigured_spark_shows_keys(secured: Broker, tmp_path: Path) -> None:
    """Shows that `hide_secrets` is needed. It can be removed once Spark itself redacts these secrets."""
    output = run(secured, tmp_path, plain=True)
    assert {name for names in output["found"].values() for name in names} >= {"key"}
    assert {"events", "rest"} <= output["found"].keys()
