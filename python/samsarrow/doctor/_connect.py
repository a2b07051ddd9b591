"""Checks of one server: protocol of the port, TLS, login, API versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from samsarrow.cluster_types import ClusterDescription
from samsarrow.doctor._certificate import Certificate
from samsarrow.doctor._finding import Check, Finding, Status
from samsarrow.doctor._network import Server
from samsarrow.doctor._parallel import map_until
from samsarrow.doctor._probe import Probe, Speaks, has_http, has_tls, probe
from samsarrow.doctor._releases import release_of
from samsarrow.doctor._run import Run
from samsarrow.doctor._texts import split, text_of
from samsarrow.exceptions import AuthenticationError, KafkaError, KafkaTimeoutError, TlsError

# A certificate is reported if less than this, and less than a third of its lifetime, remains. Many authorities renew
# certificates after two thirds of their lifetime.
_DAYS_LEFT = 30


@dataclass(frozen=True)
class Connected:
    """Result of the checks of a server.

    Attributes:
        findings: the findings.
        cluster: the cluster as described by the server; None if a client cannot use the server.
    """

    findings: Sequence[Finding]
    cluster: ClusterDescription | None

    @property
    def failure(self) -> Finding | None:
        """The finding that explains why the server cannot be used; None if it can be used."""
        return next((found for found in self.findings if found.status is Status.FAILED), None)


def check_servers(run: Run, servers: Sequence[Server]) -> dict[Server, Connected]:
    """Checks servers that accept TCP connections, in parallel."""
    late = Check("versions")

    def one(server: Server) -> Connected:
        return _check(run, server)

    checked = {}
    for server, found in zip(servers, map_until(one, servers, run.timeout), strict=True):
        if found is None:
            failed = late.failed(f"no result within {run.timeout:g} s", "pass a longer --timeout")
            findings = [Finding("versions", str(server), failed.status, failed.detail, failed.remedy, failed.seconds)]
            found = Connected(findings, None)
        checked[server] = found
    return checked


def _check(run: Run, server: Server) -> Connected:
    tls, versions = Check("tls", str(server)), Check("versions", str(server))
    # The client gets the larger part of the time, because it resolves names and connects again.
    found = probe(server.host, server.port, tls=run.uses_tls, timeout=run.timeout * 0.2)
    if fault := _fault(run, server, found, tls, versions):
        return Connected([fault], None)
    from samsarrow import Admin

    login = Check("login", str(server))
    try:
        with Admin(run.client("admin", {"bootstrap.servers": str(server)}, ("bootstrap.controllers",))) as admin:
            cluster = admin.describe_cluster(timeout=run.timeout * 0.5)
    except KafkaError as error:
        return Connected(list(_rejections(run, server, found, error, tls, login, versions)), None)
    findings = list(_secured(run, found, tls, login))
    if found.versions:
        detail = f"API versions of Kafka {release_of(found.versions)}"
    elif run.uses_tls and found.speaks is not Speaks.KAFKA:
        detail = "unknown release, because the listener requires a client certificate"
    elif cluster.cluster_id is None:
        # Cluster ids exist since 0.10.1, ApiVersions since 0.10.
        detail = "older than Kafka 0.10"
    else:
        detail = "unknown release, because ApiVersions without a client got no response"
    return Connected([*findings, versions.ok(detail)], cluster)


def _fault(run: Run, server: Server, found: Probe, tls: Check, versions: Check) -> Finding | None:
    """Returns a finding if the port has another protocol than the client."""
    plain, secured = ("SASL_PLAINTEXT", "SASL_SSL") if run.uses_login else ("PLAINTEXT", "SSL")
    limit = run.timeout * 0.1
    silent = found.speaks is Speaks.NOTHING and not found.tls
    if found.speaks is Speaks.HTTP or (silent and has_http(server.host, server.port, limit)):
        return versions.failed("the port belongs to an HTTP server, not to a Kafka broker", _PORTS)
    if not run.uses_tls:
        closed = found.speaks in (Speaks.CLOSES, Speaks.NOTHING, Speaks.OTHER)
        if found.speaks is Speaks.TLS or (closed and has_tls(server.host, server.port, limit)):
            return tls.failed(
                f"the listener uses TLS, but security.protocol={run.protocol} does not",
                f"set security.protocol={secured}{_TRUST}; or use the port of a listener without TLS",
            )
    elif found.speaks in (Speaks.CLOSES, Speaks.NOTHING) and not found.tls:
        bare = probe(server.host, server.port, tls=False, timeout=limit)
        if bare.speaks is Speaks.KAFKA:
            return tls.failed(
                f"the listener does not use TLS, but security.protocol={run.protocol} does",
                f"use the port of a listener with TLS, or set security.protocol={plain} to connect without encryption",
            )
        if bare.speaks is Speaks.HTTP or (not silent and has_http(server.host, server.port, limit)):
            return versions.failed("the port belongs to an HTTP server, not to a Kafka broker", _PORTS)
    if found.speaks is Speaks.OTHER:
        return versions.failed("the response is not Kafka's: the port belongs to another program", _PORTS)
    return None


_PORTS = "use the port of the broker's `listeners`: 9092 by default, often 9093 with TLS"
_TRUST = ", and ssl.truststore.location to the certificate of the brokers' authority if it is private"


def _rejections(
    run: Run, server: Server, found: Probe, error: KafkaError, tls: Check, login: Check, versions: Check
) -> Iterator[Finding]:
    """Yields findings for the error of a client, and for the steps before it that succeeded."""
    text = text_of(error)
    if isinstance(error, TlsError):
        yield tls.failed(*split(text, "see docs/troubleshooting.md#tls", str(server)))
    elif isinstance(error, AuthenticationError):
        if run.uses_tls:
            yield _tls(found, tls)
        yield login.failed(*split(text, _login_remedy(run, text), str(server)))
    elif "uses TLS" in text:
        yield tls.failed(*split(text, f"set security.protocol=SSL{_TRUST}", str(server)))
    elif found.speaks is Speaks.NOTHING and not found.tls and isinstance(error, KafkaTimeoutError):
        yield versions.failed(
            "the port accepts connections, but does not respond: not a Kafka broker, or one that hangs", _PORTS
        )
    else:
        yield versions.failed(*split(text, _PORTS, str(server)))


def _login_remedy(run: Run, text: str) -> str:
    mechanism = str(run.options.get("sasl.mechanism", "GSSAPI"))
    if mechanism == "GSSAPI":
        return "run kinit, or set sasl.kerberos.keytab; compare the clocks of client, KDC and broker"
    if mechanism == "OAUTHBEARER":
        return "check the token's issuer, audience, expiry and scope against the broker's configuration"
    credential = f" and has a credential for {mechanism}" if mechanism.startswith("SCRAM") else ""
    return (
        "check sasl.username and sasl.password (spaces, shell quotes, another cluster's), and that the user "
        f"{run.user or 'NAME'} exists{credential}: an administrator's `samsarrow users list` shows the users of SCRAM"
    )


def _secured(run: Run, found: Probe, tls: Check, login: Check) -> Iterator[Finding]:
    if run.uses_tls:
        yield _tls(found, tls)
    if run.uses_login:
        mechanism = run.options.get("sasl.mechanism", "GSSAPI")
        yield login.ok(f"logged in with {mechanism}" + (f" as {run.user}" if run.user else ""))


def _tls(found: Probe, check: Check) -> Finding:
    version, certificate = found.tls or "TLS", found.certificate
    if certificate is None:
        return check.ok(f"{version}, the certificate is accepted")
    name = f' "{certificate.subject}"' if certificate.subject else ""
    issuer = f' of "{certificate.issuer}"' if certificate.issuer else ""
    left = certificate.end - datetime.now(UTC)
    detail = f"{version}, certificate{name}{issuer}, valid until {certificate.end:%Y-%m-%d %H:%M} UTC"
    if _ends_soon(certificate):
        hours = int(left.total_seconds() // 3600)
        return check.warning(
            f"the certificate{name} expires in {f'{hours // 24} days' if hours >= 48 else f'{hours} hours'} ({detail})",
            "renew the broker's certificate: clients cannot connect after it has expired",
        )
    return check.ok(detail)


def _ends_soon(certificate: Certificate) -> bool:
    left = certificate.end - datetime.now(UTC)
    return left.days < _DAYS_LEFT and left < (certificate.end - certificate.start) / 3
