"""Checks of the options: unknown names, values that are rejected, contradictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from samsarrow.config import kafka_name, kind_of, merge, options_of, rejection
from samsarrow.doctor._finding import Check, Finding
from samsarrow.doctor._texts import split
from samsarrow.exceptions import ConfigurationError

# Options whose values are Python objects. The diagnosis joins no group and calls no listener.
_OBJECTS = ("on.event", "partition.assignment.strategy")
_CLIENTS = ("admin", "consumer", "producer")


def check_options(
    config: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[list[Finding], dict[str, Any] | None]:
    """Checks options.

    Returns:
        The findings, and the known options by Kafka's names; None if no client can be created with them.
    """
    check = Check("options")
    try:
        pairs = merge(config, keywords)
    except ConfigurationError as error:
        return [check.failed(*_parts(str(error)))], None
    options: dict[str, Any] = {}
    findings, usable = [], True
    for name, value in pairs:
        known = kafka_name(name)
        if known in _OBJECTS and not isinstance(value, str):
            continue
        if known in options:
            findings.append(check.failed(f"option {known} is given twice", "remove one of them"))
            usable = False
        options[known] = value
    known_options = {name: value for name, value in options.items() if kind_of(name) != "unknown"}
    unknown = [rejection("consumer", {name: options[name]}) for name in options if name not in known_options]
    findings += [check.failed(*_parts(text)) for text in unknown if text]
    if rejected := dict.fromkeys(filter(None, (rejection(c, options_of(c, known_options)) for c in _CLIENTS))):
        findings += [check.failed(*_parts(text)) for text in rejected]
        usable = False
    elif "bootstrap.servers" not in known_options:
        findings.append(check.failed("bootstrap.servers is missing", "set it to host:port of one or more brokers"))
        usable = False
    else:
        findings += list(_contradictions(check, known_options))
    if not findings:
        findings.append(check.ok(f"{len(options)} options" if len(options) != 1 else "1 option"))
    return findings, known_options if usable else None


def _parts(text: str) -> tuple[str, str]:
    return split(text, "correct it; `samsarrow options` prints all options with their types and meanings")


def _contradictions(check: Check, options: Mapping[str, Any]) -> Iterator[Finding]:
    protocol = str(options.get("security.protocol", "PLAINTEXT")).upper()
    tls, login = protocol in ("SSL", "SASL_SSL"), protocol.startswith("SASL_")
    for prefix, used, protocols in (
        ("sasl.", login, ("SASL_SSL", "SASL_PLAINTEXT")),
        ("ssl.", tls, ("SSL", "SASL_SSL")),
    ):
        ignored = sorted(name for name in options if name.startswith(prefix))
        if ignored and not used:
            names, verb = ", ".join(ignored), "is" if len(ignored) == 1 else "are"
            yield check.warning(
                f"with security.protocol={protocol}, {names} {verb} ignored",
                f"set security.protocol={' or '.join(protocols)}, or remove {'it' if len(ignored) == 1 else 'them'}",
            )
    if protocol == "SASL_PLAINTEXT" and options.get("sasl.mechanism") == "PLAIN":
        yield check.warning("the password is sent in the clear (SASL_PLAINTEXT with PLAIN)", "use SASL_SSL, or SCRAM")
    if login and "sasl.username" in options and str(options.get("sasl.mechanism", "GSSAPI")).upper() == "GSSAPI":
        yield check.warning(
            "sasl.username is ignored by the login with Kerberos (sasl.mechanism=GSSAPI, the default)",
            "set sasl.mechanism=SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN to log in with a password",
        )
    if tls and str(options.get("ssl.endpoint.identification.algorithm", "https")).lower() in ("", "none"):
        yield check.warning(
            "host names are not compared with certificates (ssl.endpoint.identification.algorithm=none)",
            "remove the option, and connect by a name in the brokers' certificates",
        )
    if str(options.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        yield check.warning(
            "certificates are not verified (enable.ssl.certificate.verification=false)",
            "set ssl.truststore.location to the certificate of the brokers' authority instead",
        )
