"""What an embedded broker counts of connections and logins, and gives to its clients."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ClientCertificate:
    """What a client shows to a broker.

    Attributes:
        certificate: as PEM, for `ssl.keystore.certificate.chain`.
        key: its private key as PEM, for `ssl.keystore.key`.
    """

    certificate: str
    key: str = field(repr=False)


@dataclass(frozen=True)
class Connections:
    """How clients connected so far.

    Attributes:
        accepted: connections that were made, those that were refused too.
        refused: TLS handshakes that failed.
        resumed: TLS handshakes that went on with a session of before.
        with_certificate: clients that showed a certificate, which was good.
    """

    accepted: int
    refused: int
    resumed: int
    with_certificate: int


@dataclass(frozen=True)
class Logins:
    """How logins went so far.

    Attributes:
        succeeded: first logins of connections.
        failed: logins that were refused, and requests that came before one.
        repeated: logins again on the same connection (KIP-368).
        expired: connections that were closed as they had not logged in again in time.
    """

    succeeded: int
    failed: int
    repeated: int
    expired: int
