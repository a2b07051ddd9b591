"""Settings of other clients and tools, as ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from samsarrow.cli.config.yaml import YamlError, parse
from samsarrow.cli.settings import properties_file

KINDS = ("java", "librdkafka", "kcat", "rpk", "kaf")
# Names that only librdkafka has.
LIBRDKAFKA = (
    "metadata.broker.list", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location",
    "ssl.certificate.location", "ssl.key.location", "enable.partition.eof", "queue.buffering.max.ms", "debug",
    "statistics.interval.ms", "socket.keepalive.enable", "broker.address.family", "message.timeout.ms",
    "request.required.acks", "topic.metadata.refresh.interval.ms", "enable.ssl.certificate.verification",
)  # fmt: skip


class ForeignError(click.ClickException):
    """The file is not what it should be."""


@dataclass
class Foreign:
    """What a file says.

    Attributes:
        kind: whose it is, one of `KINDS`.
        options: ours, or theirs by the same names.
        remarks: what has no equal here, by what it is called there.
    """

    kind: str
    options: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)


def read(path: Path, kind: str | None, section: str | None) -> Foreign:
    """Reads a file.

    Args:
        path: of it.
        kind: whose it is; None to find out.
        section: profile of rpk or cluster of kaf; None for the current one.

    Raises:
        ForeignError: it cannot be read so.
    """
    text = _text(path)
    if kind in ("rpk", "kaf") or (kind is None and path.suffix in (".yaml", ".yml")) or _looks_like_yaml(text):
        try:
            tree = parse(text)
        except YamlError as error:
            raise ForeignError(f"{path}, {error}") from None
        if kind is None:
            kind = "kaf" if "clusters" in tree else "rpk"
        return (_kaf if kind == "kaf" else _rpk)(tree, path, section)
    if section is not None:
        raise ForeignError(f"--section is for rpk and kaf; {path} has none")
    options = _json(text, path) if text.lstrip().startswith("{") else properties_file(path)
    if kind is None:
        kind = "librdkafka" if any(name in LIBRDKAFKA for name in options) else "java"
    found = Foreign(kind, options)
    if kind in ("librdkafka", "kcat"):
        _topic_options(found)
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise ForeignError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ForeignError(f"{path} is not UTF-8") from None


def _looks_like_yaml(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "---"))]
    return any(line.rstrip() in ("clusters:", "profiles:", "rpk:") for line in lines)


def _json(text: str, path: Path) -> dict[str, str]:
    """A dictionary of options, as programs with confluent-kafka keep it."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise ForeignError(f"{path} is no JSON") from None
    found = {}
    for name, value in tree.items():
        if isinstance(value, bool):
            found[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[name] = str(value)
        elif isinstance(value, dict):
            found.update({f"{name}.{inner}": str(one) for inner, one in value.items()})
        else:
            raise ForeignError(f"{path}: {name} is neither text nor a number")
    return found


def _topic_options(found: Foreign) -> None:
    """Librdkafka has had topics' options apart: they are options like others here."""
    for name in list(found.options):
        for before in ("default.topic.config.", "topic."):
            if name.startswith(before) and not name.startswith("topic.metadata."):
                found.options[name.removeprefix(before)] = found.options.pop(name)


def _named(items: Any, wanted: str | None, what: str, path: Path) -> Mapping[str, Any]:
    there = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    for item in there:
        if wanted in (None, "", item.get("name")):
            return item
    names = ", ".join(str(item.get("name")) for item in there) or "none"
    raise ForeignError(f"{path} has no {what} {wanted!r}; it has {names}")


def _rpk(tree: Mapping[str, Any], path: Path, section: str | None) -> Foreign:
    found = Foreign("rpk")
    if "profiles" in tree:
        profile = _named(tree["profiles"], section or tree.get("current_profile"), "profile", path)
    else:
        profile = tree.get("rpk") or {}
    api = profile.get("kafka_api") if isinstance(profile, dict) else None
    if not isinstance(api, dict):
        raise ForeignError(f"{path} has no kafka_api: is it a file of rpk's?")
    tls = api.get("tls")
    sasl = api.get("sasl")
    _connection(found, api.get("brokers"), tls is not None and tls is not False, isinstance(sasl, dict) and bool(sasl))
    _files(found, tls if isinstance(tls, dict) else {}, {
        "ca_file": "ssl.ca.location", "truststore_file": "ssl.ca.location", "cert_file": "ssl.certificate.location",
        "key_file": "ssl.key.location",
    }, "insecure_skip_verify")  # fmt: skip
    if isinstance(sasl, dict):
        _login(found, sasl, {"user": "sasl.username", "password": "sasl.password", "mechanism": "sasl.mechanism"})
    for name in ("admin_api", "schema_registry", "cloud_auth"):
        if profile.get(name):
            found.remarks[name] = "not for Kafka: ignored"
    return found


def _kaf(tree: Mapping[str, Any], path: Path, section: str | None) -> Foreign:
    found = Foreign("kaf")
    cluster = _named(tree.get("clusters"), section or tree.get("current-cluster"), "cluster", path)
    sasl, tls = cluster.get("SASL"), cluster.get("TLS")
    protocol = str(cluster.get("security-protocol") or "").upper()
    _connection(
        found, cluster.get("brokers"), "SSL" in protocol or bool(tls), protocol.startswith("SASL") or bool(sasl)
    )
    _files(found, tls if isinstance(tls, dict) else {}, {
        "cafile": "ssl.ca.location", "clientfile": "ssl.certificate.location", "clientkeyfile": "ssl.key.location",
    }, "insecure")  # fmt: skip
    if isinstance(sasl, dict):
        _login(found, sasl, {
            "mechanism": "sasl.mechanism", "username": "sasl.username", "password": "sasl.password",
            "clientID": "sasl.oauthbearer.client.id", "clientSecret": "sasl.oauthbearer.client.secret",
            "tokenURL": "sasl.oauthbearer.token.endpoint.url",
        })  # fmt: skip
    if cluster.get("schema-registry-url"):
        found.options["schema.registry.url"] = str(cluster["schema-registry-url"])
    if cluster.get("version"):
        found.remarks["version"] = "not needed: brokers report the versions they support"
    return found


def _connection(found: Foreign, brokers: Any, tls: bool, sasl: bool) -> None:
    hosts = [str(one) for one in brokers] if isinstance(brokers, list) else [str(brokers)] if brokers else []
    if hosts:
        found.options["bootstrap.servers"] = ",".join(hosts)
    if tls or sasl:
        found.options["security.protocol"] = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")


def _files(found: Foreign, tls: Mapping[str, Any], names: Mapping[str, str], unchecked: str) -> None:
    for theirs, value in tls.items():
        if theirs in names:
            if value:
                found.options[names[theirs]] = str(value)
        elif theirs == unchecked:
            if value is True:
                found.options["enable.ssl.certificate.verification"] = "false"
        elif theirs != "enabled":
            found.remarks[f"tls: {theirs}"] = "not known here"


def _login(found: Foreign, sasl: Mapping[str, Any], names: Mapping[str, str]) -> None:
    for theirs, value in sasl.items():
        if theirs in names:
            if value:
                found.options[names[theirs]] = str(value)
        elif value:
            found.remarks[f"sasl: {theirs}"] = "not known here"
