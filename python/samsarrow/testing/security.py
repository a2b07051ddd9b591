"""Types for connection and login counts of an embedded broker, and for client certificates."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ClientCertificate:
    """A client's certificate and key.

    Attributes:
        certificate: the certificate as PEM, for `ssl.keystore.certificate.chain`.
        key: its private key as PEM, for `ssl.keystore.key`.
    """

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class Connections:
    """Counts of client connections so far.

    Attributes:
        accepted: accepted connections, including connections whose TLS handshake failed later.
        refused: failed TLS handshakes.
        resumed: TLS handshakes that resumed an earlier session.
        with_certificate: clients that presented a valid certificate.
    """

    accepted: int
    refused: int
    resumed: int
    with_certificate: int


@dataclass(frozen=True)
class Logins:
    """Counts of logins so far.

    Attributes:
        succeeded: first logins of connections.
        failed: rejected logins, and requests that were sent before a login.
        repeated: reauthentications on the same connection (KIP-368).
        expired: connections closed because they had not reauthenticated in time.
    """

    succeeded: int
    failed: int
    repeated: int
    expired: int
