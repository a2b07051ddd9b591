"""Import of settings of other clients and tools."""

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
# Options that only librdkafka has.
LIBRDKAFKA = (
    "metadata.broker.list", "sasl.mechanisms", "sasl.username", "sasl.password", "ssl.ca.location",
    "ssl.certificate.location", "ssl.key.location", "enable.partition.eof", "queue.buffering.max.ms", "debug",
    "statistics.interval.ms", "socket.keepalive.enable", "broker.address.family", "message.timeout.ms",
    "request.required.acks", "topic.metadata.refresh.interval.ms", "enable.ssl.certificate.verification",
)  # fmt: skip


class ImportFileError(click.ClickException):
    """The settings file cannot be read, or has an unexpected format."""


@dataclass
class ImportedSettings:
    """Settings read from a file.

    Attributes:
        kind: client or tool for which the file was written, one of `KINDS`.
        options: values of options, by samsarrow's or librdkafka's names.
        remarks: notes on settings that have no equivalent, by their names in the file.
    """

    kind: str
    options: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)


def read(path: Path, kind: str | None, section: str | None) -> ImportedSettings:
    """Reads a settings file.

    Args:
        path: path of the file.
        kind: client or tool for which the file was written; None to detect it.
        section: profile in a file of rpk, or cluster in a file of kaf; None for the current profile or cluster.

    Raises:
        ImportFileError: the file cannot be read, or has another format.
    """
    text = _text(path)
    if kind in ("rpk", "kaf") or (kind is None and path.suffix in (".yaml", ".yml")) or _looks_like_yaml(text):
        try:
            tree = parse(text)
        except YamlError as error:
            raise ImportFileError(f"{path}, {error}") from None
        if kind is None:
            kind = "kaf" if "clusters" in tree else "rpk"
        return (_kaf if kind == "kaf" else _rpk)(tree, path, section)
    if section is not None:
        raise ImportFileError(f"--section is for rpk and kaf; {path} has none")
    options = _json(text, path) if text.lstrip().startswith("{") else properties_file(path)
    if kind is None:
        kind = "librdkafka" if any(name in LIBRDKAFKA for name in options) else "java"
    imported = ImportedSettings(kind, options)
    if kind in ("librdkafka", "kcat"):
        _topic_options(imported)
    return imported


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise ImportFileError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ImportFileError(f"{path} is not UTF-8") from None


def _looks_like_yaml(text: str) -> bool:
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", "---"))]
    return any(line.rstrip() in ("clusters:", "profiles:", "rpk:") for line in lines)


def _json(text: str, path: Path) -> dict[str, str]:
    """Reads a JSON object of options, like the dict that applications pass to confluent-kafka."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        raise ImportFileError(f"{path} is not JSON") from None
    imported = {}
    for name, value in tree.items():
        if isinstance(value, bool):
            imported[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            imported[name] = str(value)
        elif isinstance(value, dict):
            imported.update({f"{name}.{inner}": str(text) for inner, text in value.items()})
        else:
            raise ImportFileError(f"{path}: {name} is neither text nor a number")
    return imported


def _topic_options(imported: ImportedSettings) -> None:
    """Removes the prefixes of librdkafka's topic options, because samsarrow has no separate topic options."""
    for name in list(imported.options):
        for prefix in ("default.topic.config.", "topic."):
            if name.startswith(prefix) and not name.startswith("topic.metadata."):
                imported.options[name.removeprefix(prefix)] = imported.options.pop(name)


def _named(items: Any, selected: str | None, kind: str, path: Path) -> Mapping[str, Any]:
    candidates = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    for item in candidates:
        if selected in (None, "", item.get("name")):
            return item
    names = ", ".join(str(item.get("name")) for item in candidates) or "none"
    raise ImportFileError(f"{path} has no {kind} {selected!r}; it has {names}")


def _rpk(tree: Mapping[str, Any], path: Path, section: str | None) -> ImportedSettings:
    imported = ImportedSettings("rpk")
    if "profiles" in tree:
        profile = _named(tree["profiles"], section or tree.get("current_profile"), "profile", path)
    else:
        profile = tree.get("rpk") or {}
    api = profile.get("kafka_api") if isinstance(profile, dict) else None
    if not isinstance(api, dict):
        raise ImportFileError(f"{path} has no kafka_api: is it a file of rpk's?")
    tls = api.get("tls")
    sasl = api.get("sasl")
    _connection(
        imported, api.get("brokers"), tls is not None and tls is not False, isinstance(sasl, dict) and bool(sasl)
    )
    _files(imported, tls if isinstance(tls, dict) else {}, {
        "ca_file": "ssl.ca.location", "truststore_file": "ssl.ca.location", "cert_file": "ssl.certificate.location",
        "key_file": "ssl.key.location",
    }, "insecure_skip_verify")  # fmt: skip
    if isinstance(sasl, dict):
        _login(imported, sasl, {"user": "sasl.username", "password": "sasl.password", "mechanism": "sasl.mechanism"})
    for name in ("admin_api", "schema_registry", "cloud_auth"):
        if profile.get(name):
            imported.remarks[name] = "not for Kafka: ignored"
    return imported


def _kaf(tree: Mapping[str, Any], path: Path, section: str | None) -> ImportedSettings:
    imported = ImportedSettings("kaf")
    cluster = _named(tree.get("clusters"), section or tree.get("current-cluster"), "cluster", path)
    sasl, tls = cluster.get("SASL"), cluster.get("TLS")
    protocol = str(cluster.get("security-protocol") or "").upper()
    _connection(
        imported, cluster.get("brokers"), "SSL" in protocol or bool(tls), protocol.startswith("SASL") or bool(sasl)
    )
    _files(imported, tls if isinstance(tls, dict) else {}, {
        "cafile": "ssl.ca.location", "clientfile": "ssl.certificate.location", "clientkeyfile": "ssl.key.location",
    }, "insecure")  # fmt: skip
    if isinstance(sasl, dict):
        _login(imported, sasl, {
            "mechanism": "sasl.mechanism", "username": "sasl.username", "password": "sasl.password",
            "clientID": "sasl.oauthbearer.client.id", "clientSecret": "sasl.oauthbearer.client.secret",
            "tokenURL": "sasl.oauthbearer.token.endpoint.url",
        })  # fmt: skip
    if cluster.get("schema-registry-url"):
        imported.options["schema.registry.url"] = str(cluster["schema-registry-url"])
    if cluster.get("version"):
        imported.remarks["version"] = "not needed: brokers report the versions they support"
    return imported


def _connection(imported: ImportedSettings, brokers: Any, tls: bool, sasl: bool) -> None:
    hosts = [str(broker) for broker in brokers] if isinstance(brokers, list) else [str(brokers)] if brokers else []
    if hosts:
        imported.options["bootstrap.servers"] = ",".join(hosts)
    if tls or sasl:
        imported.options["security.protocol"] = ("SASL_" if sasl else "") + ("SSL" if tls else "PLAINTEXT")


def _files(imported: ImportedSettings, tls: Mapping[str, Any], names: Mapping[str, str], unchecked: str) -> None:
    for theirs, value in tls.items():
        if theirs in names:
            if value:
                imported.options[names[theirs]] = str(value)
        elif theirs == unchecked:
            if value is True:
                imported.options["enable.ssl.certificate.verification"] = "false"
        elif theirs != "enabled":
            imported.remarks[f"tls: {theirs}"] = "not known here"


def _login(imported: ImportedSettings, sasl: Mapping[str, Any], names: Mapping[str, str]) -> None:
    for theirs, value in sasl.items():
        if theirs in names:
            if value:
                imported.options[names[theirs]] = str(value)
        elif value:
            imported.remarks[f"sasl: {theirs}"] = "not known here"
