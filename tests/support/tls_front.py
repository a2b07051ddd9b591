"""A TLS server of Python's standard library in front of a plaintext broker, with any certificate and TLS version.

    with Broker(topics={"t": 1}) as broker, Front(issued, broker.bootstrap_servers) as front:
        Admin(bootstrap_servers=front.address, security_protocol="SSL", ...)

Only the first connection passes through this server, since the broker's metadata contains its own address.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from support.certificates import Issued


class Front:
    """Accepts connections until it is closed. `handshakes` counts successful handshakes, `faults` has the errors of
    failed ones.
    """

    def __init__(
        self, own: Issued, broker: str, *, context: ssl.SSLContext | None = None, client_ca: str | None = None
    ) -> None:
        self._context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Permits weak ciphers too, which clients must reject.
        self._context.set_ciphers("ALL:@SECLEVEL=0")
        with tempfile.TemporaryDirectory() as folder:
            self._context.load_cert_chain(own.write(Path(folder) / "own.pem"))
        if client_ca is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(cadata=client_ca)
        host, port = broker.rsplit(":", 1)
        self._broker = host, int(port)
        self.handshakes = 0
        self.resumed = 0
        self.faults: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                accepted, _ = self._listener.accept()
                # The TLS wrapper takes over the socket, so a duplicate handle is kept to close it.
                handle = accepted.dup()
                self._open.append(handle)
                threading.Thread(target=self._serve, args=(accepted, handle), daemon=True).start()

    def _serve(self, accepted: socket.socket, handle: socket.socket) -> None:
        try:
            accepted.settimeout(20)
            inside = self._context.wrap_socket(accepted, server_side=True)
        except OSError as fault:
            self.faults.append(str(fault))
            with contextlib.suppress(OSError):
                handle.shutdown(socket.SHUT_RDWR)
            accepted.close()
            return
        # `resumed` is set before `handshakes`, so that a test that waits for a handshake sees the right value.
        self.resumed += bool(inside.session_reused)
        self.handshakes += 1
        with contextlib.suppress(OSError), inside, socket.create_connection(self._broker) as broker:
            while question := self._frame(inside):
                broker.sendall(question)
                answer = self._frame(broker)
                inside.sendall(answer)

    @staticmethod
    def _frame(stream: socket.socket) -> bytes:
        def exactly(count: int) -> bytes:
            parts = bytearray()
            while len(parts) < count and (part := stream.recv(count - len(parts))):
                parts += part
            return bytes(parts)

        head = exactly(4)
        return head + exactly(int.from_bytes(head, "big")) if len(head) == 4 else b""

    def drop(self) -> None:
        """Ends all connections."""
        for accepted in self._open:
            with contextlib.suppress(OSError):
                accepted.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()

    def __enter__(self) -> Front:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
