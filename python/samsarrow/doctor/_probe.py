"""An ApiVersions request on a bare connection, which detects the protocol of a port.

Brokers respond to ApiVersions before the login, so the probe needs no credentials and sends none.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from samsarrow import _core
from samsarrow.doctor._certificate import Certificate, decode

# Correlation id 1, client id "samsarrow-doctor", ApiVersions version 0.
_CLIENT = b"samsarrow-doctor"
_BODY = struct.pack(">hhih", 18, 0, 1, len(_CLIENT)) + _CLIENT
_REQUEST = struct.pack(">i", len(_BODY)) + _BODY
# A response with every API of Kafka 4.4 has less than 1 KiB.
_MAX_RESPONSE = 1 << 16


class Speaks(Enum):
    """The protocol of a port."""

    KAFKA = "Kafka"
    TLS = "TLS"
    HTTP = "HTTP"
    OTHER = "another protocol"
    NOTHING = "nothing"
    CLOSES = "a closed connection"
    UNREACHABLE = "an unreachable port"


@dataclass(frozen=True, slots=True)
class Probe:
    """The result of a probe.

    Attributes:
        speaks: protocol of the port. With TLS, the protocol inside the TLS connection; `CLOSES` if the handshake fails.
        versions: lowest and highest version by API code.
        tls: version of TLS; empty without TLS.
        certificate: certificate of the server; None without TLS.
    """

    speaks: Speaks
    versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    tls: str = ""
    certificate: Certificate | None = None


def probe(host: str, port: int, *, tls: bool, timeout: float) -> Probe:
    """Connects and sends ApiVersions.

    Args:
        host: host name or address.
        port: the port.
        tls: use TLS, without a check of the certificate.
        timeout: seconds for the whole probe.
    """
    deadline = _core.Deadline(timeout)
    try:
        bare = socket.create_connection((host, port), timeout)
    except OSError:
        return Probe(Speaks.UNREACHABLE)
    with contextlib.closing(bare):
        version, certificate = "", None
        connection = bare
        if tls:
            try:
                secured = _context().wrap_socket(bare, server_hostname=host)
            except TimeoutError:
                return Probe(Speaks.NOTHING)
            except (OSError, ValueError):
                return Probe(Speaks.CLOSES)
            connection = secured
            version = secured.version() or ""
            certificate = decode(secured.getpeercert(binary_form=True) or b"")
        with contextlib.closing(connection):
            try:
                connection.sendall(_REQUEST)
                found = _response(connection, deadline)
            except TimeoutError:
                found = Speaks.NOTHING
            except OSError:
                found = Speaks.CLOSES
    if isinstance(found, Speaks):
        return Probe(found, {}, version, certificate)
    return Probe(Speaks.KAFKA, found, version, certificate)


def has_tls(host: str, port: int, timeout: float) -> bool:
    """Returns true if a TLS handshake succeeds, or fails with an alert."""
    try:
        with (
            contextlib.closing(socket.create_connection((host, port), timeout)) as bare,
            contextlib.closing(_context().wrap_socket(bare, server_hostname=host)),
        ):
            return True
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, ValueError):
        return False


def has_http(host: str, port: int, timeout: float) -> bool:
    """Returns true if the port responds to an HTTP request."""
    try:
        with contextlib.closing(socket.create_connection((host, port), timeout)) as bare:
            bare.settimeout(timeout)
            bare.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return bare.recv(4) == b"HTTP"
    except OSError:
        return False


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The probe only describes the server. The client verifies it, and no secrets are sent on this connection.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _response(connection: socket.socket, deadline: _core.Deadline) -> Mapping[int, tuple[int, int]] | Speaks:
    head = _read(connection, 4, deadline)
    if len(head) < 4:
        return Speaks.CLOSES
    if head[0] in (0x15, 0x16) and head[1] == 3:
        return Speaks.TLS
    if head.startswith((b"HTTP", b"<!DO", b"<htm")):
        return Speaks.HTTP
    (size,) = struct.unpack(">i", head)
    if not 10 <= size <= _MAX_RESPONSE:
        return Speaks.OTHER
    body = _read(connection, size, deadline)
    if len(body) < size:
        return Speaks.CLOSES
    correlation, error, count = struct.unpack_from(">ihi", body)
    if correlation != 1 or not 0 <= count <= (size - 10) // 6:
        return Speaks.OTHER
    if error:
        return {}
    return {api: (low, high) for api, low, high in struct.iter_unpack(">hhh", body[10 : 10 + 6 * count])}


def _read(connection: socket.socket, size: int, deadline: _core.Deadline) -> bytes:
    """Reads up to `size` bytes; fewer if the peer closes the connection."""
    data = bytearray()
    while len(data) < size:
        if deadline.passed():
            raise TimeoutError
        connection.settimeout(deadline.left())
        part = connection.recv(size - len(data))
        if not part:
            break
        data += part
    return bytes(data)
