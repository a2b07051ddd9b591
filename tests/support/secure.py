"""Apache Kafka behind TLS and logins, for tests: one node with a listener for each security protocol.

    with SecureKafka(folder) as kafka:
        Producer(**kafka.password("SCRAM-SHA-512").ours)

Clients of the listener that every `KafkaServer` has are super users. The other listeners are SSL, which requires a
client certificate, SASL_SSL, SASL_PLAINTEXT, and EXPIRING, which is SASL_SSL with logins that expire after five
seconds. GSSAPI is enabled if a KDC is given. If a token issuer is given, SASL_SSL and EXPIRING accept its tokens;
otherwise they accept unsigned tokens, as SASL_PLAINTEXT always does. Other users than super users may do everything
that no ACL restricts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from samsarrow import Admin
from support.certificates import Authority
from support.kafka import (
    QUICK_COMPILER,
    KafkaServer,
    KafkaUnavailableError,
    free_ports,
    new_cluster_id,
    write_properties,
)
from support.kdc import REALM, Kdc
from support.oidc import ID, SECRET, Issuer
from support.waiting import until

HOST = "localhost"
# User of the broker itself, named as in Kafka's documentation. Tests do not log in as `admin`.
USERS = {"alice": "alice-secret", "admin": "admin-secret"}
LISTENERS = {"SSL": "SSL", "SASL_SSL": "SASL_SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "EXPIRING": "SASL_SSL"}
# Lifetime of a login on the listener EXPIRING, in milliseconds.
LIFETIME_MS = 5000
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER", "GSSAPI")
_BEARER = "org.apache.kafka.common.security.oauthbearer"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_BEARER}.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}


def jaas(mechanism: str, **options: str) -> str:
    """Returns a value for `sasl.jaas.config`."""
    entries = "".join(f' {name}="{value}"' for name, value in options.items())
    return f"{_MODULES[mechanism]} required{entries};"


@contextmanager
def where_java_is() -> Iterator[None]:
    """Skips tests that cannot run on this machine, and states the reason. In CI a missing requirement is an error."""
    try:
        yield
    except KafkaUnavailableError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))


@dataclass(frozen=True)
class Login:
    """A way to log in, with the options of each client that supports it.

    Attributes:
        ours: options of samsarrow, mostly equal to those of Java's client.
        java: options of Java's client.
        librdkafka: options of librdkafka; None if it does not support the login.
    """

    ours: Mapping[str, str]
    java: Mapping[str, str]
    librdkafka: Mapping[str, str] | None


class SecureKafka(KafkaServer):
    """A node that is broker and controller, with a listener for each security protocol.

    Args:
        folder: folder for the certificates.
        kdc: KDC for GSSAPI logins.
        issuer: token issuer for OAUTHBEARER logins.
        properties: further broker settings.
    """

    def __init__(
        self,
        folder: Path,
        *,
        kdc: Kdc | None = None,
        issuer: Issuer | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self.authority = folder, Authority()
        self.ca = folder / "ca.pem"
        self.ca.write_text(self.authority.pem)
        self._kdc, self._issuer = kdc, issuer
        *ports, self._jmx = free_ports(len(LISTENERS) + 1)
        self._ports = dict(zip(LISTENERS, ports, strict=True))
        super().__init__(heap="512m", jvm=[*QUICK_COMPILER, *self._management()])
        self._properties |= self._addresses() | self._stores() | self._logins() | self._rights() | (properties or {})

    def servers(self, listener: str) -> str:
        """Returns the address of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    def java(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        """Returns the command line of the base class with Java's options for the KDC and the issuer."""
        options = list(jvm)
        if self._kdc is not None:
            options.append(f"-Djava.security.krb5.conf={self._kdc.krb5_conf()}")
        if self._issuer is not None:
            allowed = ",".join([self._issuer.jwks.as_uri(), *self._issuer.allowed_urls])
            options.append(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}")
        return super().java(main, *arguments, jvm=options)

    def _management(self) -> list[str]:
        settings = {
            "port": self._jmx, "rmi.port": self._jmx, "authenticate": "false", "ssl": "false", "host": "127.0.0.1"
        }  # fmt: skip
        named = [f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in settings.items()]
        return [*named, "-Djava.rmi.server.hostname=127.0.0.1"]

    def _addresses(self) -> dict[str, str]:
        own = f"PLAINTEXT://127.0.0.1:{self._port}"
        others = [f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()]
        advertised = [f"{name}://{self.servers(name)}" for name in self._ports]
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
        return {
            "listeners": ",".join([own, f"CONTROLLER://127.0.0.1:{self._other_port}", *others]),
            "advertised.listeners": ",".join([own, *advertised]),
            "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def _stores(self) -> dict[str, str]:
        store = self.authority.issue("broker", names=[HOST, "127.0.0.1"]).write(self.folder / "broker.pem")
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            # The name of the principal is only the CN of the certificate.
            "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
        }

    def _logins(self) -> dict[str, str]:
        mechanisms = [name for name in MECHANISMS if name != "GSSAPI" or self._kdc is not None]
        entries = {
            "PLAIN": jaas("PLAIN", **{f"user_{name}": password for name, password in USERS.items()}),
            **{mechanism: jaas(mechanism) for mechanism in SCRAM},
            "OAUTHBEARER": jaas("OAUTHBEARER", unsecuredLoginStringClaim_sub="broker"),
        }
        settings = {"sasl.enabled.mechanisms": ",".join(mechanisms)}
        if self._kdc is not None:
            settings["sasl.kerberos.service.name"] = "kafka"
            keytab = self._kdc.keytab(f"kafka/{HOST}")
            entries["GSSAPI"] = jaas(
                "GSSAPI", useKeyTab="true", storeKey="true", keyTab=str(keytab), principal=f"kafka/{HOST}@{REALM}"
            )
        for listener, protocol in LISTENERS.items():
            if protocol.startswith("SASL"):
                prefix = f"listener.name.{listener.lower()}"
                for mechanism, entry in entries.items():
                    settings[f"{prefix}.{mechanism.lower()}.sasl.jaas.config"] = entry
                if self._issuer is not None and protocol == "SASL_SSL":
                    settings |= self._tokens(f"{prefix}.oauthbearer", self._issuer)
        settings["listener.name.expiring.connections.max.reauth.ms"] = str(LIFETIME_MS)
        # The response to a wrong password is not delayed.
        settings["connection.failed.authentication.delay.ms"] = "0"
        return settings

    def _tokens(self, prefix: str, issuer: Issuer) -> dict[str, str]:
        return {
            f"{prefix}.sasl.jaas.config": jaas("OAUTHBEARER"),
            f"{prefix}.sasl.server.callback.handler.class": f"{_BEARER}.OAuthBearerValidatorCallbackHandler",
            f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": issuer.jwks.as_uri(),
            f"{prefix}.sasl.oauthbearer.expected.issuer": issuer.issuer,
            f"{prefix}.sasl.oauthbearer.expected.audience": issuer.audience,
        }

    def _rights(self) -> dict[str, str]:
        return {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "allow.everyone.if.no.acl.found": "true",
            "delegation.token.secret.key": "secret of the brokers",
        }

    def _prepare(self, config: Path) -> None:
        users = [(mechanism, name, password) for mechanism in SCRAM for name, password in USERS.items()]
        named = [f"{mechanism}=[name={name},password={password}]" for mechanism, name, password in users]
        added = [part for one in named for part in ("--add-scram", one)]
        self.format(config, new_cluster_id(), *added)

    # The following methods return ways to log in.

    def _trust(self, listener: str) -> tuple[dict[str, str], dict[str, str]]:
        """Returns the options of Java's client and of librdkafka that a listener requires."""
        protocol = LISTENERS[listener]
        common = {"bootstrap.servers": self.servers(listener), "security.protocol": protocol}
        if not protocol.endswith("SSL"):
            return common, dict(common)
        java = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        return common | java, common | {"ssl.ca.location": str(self.ca)}

    def mutual_tls(self, name: str = "alice") -> Login:
        """Returns a login with a client certificate."""
        issued = self.authority.issue(name, names=())
        store = issued.write(self.folder / f"{name}.pem")
        java, librdkafka = self._trust("SSL")
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
        librdkafka |= {"ssl.certificate.location": str(store), "ssl.key.location": str(store)}
        return Login(java, java, librdkafka)

    def password(self, mechanism: str, listener: str = "SASL_SSL", name: str = "alice", password: str = "") -> Login:
        """Returns a login with PLAIN or SCRAM. By default the password is right."""
        password = password or USERS[name]
        java, librdkafka = self._trust(listener)
        java |= {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism, username=name, password=password)}
        librdkafka |= {"sasl.mechanism": mechanism, "sasl.username": name, "sasl.password": password}
        return Login(java, java, librdkafka)

    def unsecured_token(self, listener: str = "SASL_PLAINTEXT", name: str = "alice") -> Login:
        """Returns a login with an unsigned token."""
        java, librdkafka = self._trust(listener)
        claim = jaas("OAUTHBEARER", unsecuredLoginStringClaim_sub=name)
        java |= {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": claim}
        librdkafka |= {
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={name}",
        }
        return Login(java, java, librdkafka)

    def issued_token(self, listener: str = "SASL_SSL") -> Login:
        """Returns a login with a token that the client requests from the issuer with a client secret."""
        assert self._issuer is not None
        java, librdkafka = self._trust(listener)
        store = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self._issuer.ca)}
        java |= {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{_BEARER}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": self._issuer.url,
            # Java reads the trusted CAs for HTTPS from the JAAS entry.
            "sasl.jaas.config": jaas("OAUTHBEARER", clientId=ID, clientSecret=SECRET, **store),
        }
        librdkafka |= {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": self._issuer.url,
            "sasl.oauthbearer.client.id": ID,
            "sasl.oauthbearer.client.secret": SECRET,
            "https.ca.location": str(self._issuer.ca),
        }
        return Login(self._trust(listener)[0] | self._issuer.options, java, librdkafka)

    def kerberos(self, name: str = "alice", listener: str = "SASL_PLAINTEXT") -> Login:
        """Returns a login with a Kerberos ticket. librdkafka's options are None, since confluent-kafka's wheel has no
        GSSAPI.
        """
        assert self._kdc is not None
        java, _ = self._trust(listener)
        keytab, principal = str(self._kdc.keytab(name)), f"{name}@{REALM}"
        entry = jaas("GSSAPI", useKeyTab="true", storeKey="true", keyTab=keytab, principal=principal)
        java |= {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka", "sasl.jaas.config": entry}
        return Login(java, java, None)

    def delegation_token(self, owner: str = "alice", listener: str = "SASL_SSL") -> Login:
        """Returns a login with a delegation token (KIP-48), which Java's tool creates for its owner. librdkafka does
        not support such logins.
        """
        config = self.folder / f"{owner}.properties"
        write_properties(config, self.password("PLAIN", "SASL_PLAINTEXT", owner).java)
        output = self.tool(
            "org.apache.kafka.tools.DelegationTokenCommand", "--bootstrap-server", self.servers("SASL_PLAINTEXT"),
            "--command-config", str(config), "--create", "--max-life-time-period", "-1",
        ).stdout.decode()  # fmt: skip
        found = re.search(r"^(\S{22})\s+(\S{20,}={0,2})\s", output, re.MULTILINE)
        assert found is not None, output
        # The tool ends when the controller has stored the token. Brokers get the token with their next metadata update.
        with Admin(self.password("PLAIN", "SASL_PLAINTEXT", owner).ours) as admin:
            until(lambda: any(token.token_id == found[1] for token in admin.describe_delegation_tokens()))
        java, _ = self._trust(listener)
        entry = jaas("SCRAM-SHA-256", username=found[1], password=found[2], tokenauth="true")
        java |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": entry}
        return Login(java, java, None)

    # Counters.

    def counted(self, listener: str) -> dict[str, float]:
        """Returns Kafka's metrics of the connections and logins of a listener since the broker started."""
        output = self.tool(
            "org.apache.kafka.tools.JmxTool", "--one-time", "--report-format", "properties",
            "--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self._jmx}/jmxrmi",
            "--object-name", f"kafka.server:type=socket-server-metrics,listener={listener},networkProcessor=*",
        ).stdout.decode()  # fmt: skip
        # A listener has a single network thread.
        lines = re.findall(r"networkProcessor=\d+:([\w-]+)=(\S+)$", output, re.MULTILINE)
        return {name: float(value) for name, value in lines}
