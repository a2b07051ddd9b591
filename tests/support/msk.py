"""The parts of an AWS MSK broker that an AWS_MSK_IAM login uses: TLS, ApiVersions, SaslHandshake and one token."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import trustme

API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class Msk:
    """Accepts any signature, records the payload, and closes the connection after its response.

    Attributes:
        payloads: payloads sent by clients.
        answer: response to each of them.
    """

    def __init__(self, folder: Path) -> None:
        self.payloads: list[dict[str, Any]] = []
        self.answer = b'{"version":"2020_10_22","request-id":"1"}'
        authority = trustme.CA()
        self.ca = folder / "msk-ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(self._context)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.servers = f"localhost:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(20)
        try:
            with self._context.wrap_socket(connection, server_side=True) as stream, stream.makefile("rwb") as file:
                while size := file.read(4):
                    request = file.read(struct.unpack(">i", size)[0])
                    key, version, correlation, client = struct.unpack_from(">hhih", request)
                    body = self._response(key, version, request[10 + max(client, 0) :])
                    if body is None:
                        return
                    file.write(struct.pack(">ii", len(body) + 4, correlation) + body)
                    file.flush()
        except (OSError, ssl.SSLError):
            return

    def _response(self, key: int, version: int, body: bytes) -> bytes | None:
        if key == API_VERSIONS and version == 0:
            known = [(API_VERSIONS, 0, 0), (HANDSHAKE, 0, 1), (AUTHENTICATE, 0, 1)]
            return struct.pack(">hi", 0, len(known)) + b"".join(struct.pack(">hhh", *row) for row in known)
        if key == HANDSHAKE:
            return struct.pack(">hi", 0, 1) + _text("AWS_MSK_IAM")
        if key == AUTHENTICATE:
            self.payloads.append(json.loads(body[4:]))
            answer = struct.pack(">hh", 0, -1) + struct.pack(">i", len(self.answer)) + self.answer
            return answer + (struct.pack(">q", 0) if version > 0 else b"")
        return None
