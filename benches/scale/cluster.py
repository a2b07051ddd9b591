"""A server with a prepared Metadata response, which simulates a cluster of a million partitions."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter

PARTITIONS_OF_A_TOPIC = 1000
# Version ranges by API. The server responds only to ApiVersions and Metadata. It closes the connection when a consumer
# sends any other request.
VERSIONS = {18: (0, 4), 3: (12, 12), 1: (4, 13), 2: (1, 7), 10: (0, 4)}
ANSWERED = {18, 3}


def _varint(n: int) -> bytes:
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def _text(text: str) -> bytes:
    return _varint(len(text) + 1) + text.encode()


def metadata(partitions: int, port: int) -> bytes:
    """Returns the body of a Metadata response v12: three replicas, one live broker."""
    broker = struct.pack(">i", 0) + _text("127.0.0.1") + struct.pack(">i", port) + b"\0\0"
    replicas = _varint(4) + struct.pack(">iii", 0, 1, 2)
    one = b"".join(
        struct.pack(">hiii", 0, index, 0, 5) + replicas + replicas + b"\1" + b"\0"
        for index in range(min(partitions, PARTITIONS_OF_A_TOPIC))
    )
    count = -(-partitions // PARTITIONS_OF_A_TOPIC)
    partitions_field = _varint(min(partitions, PARTITIONS_OF_A_TOPIC) + 1) + one + struct.pack(">i", -(2**31)) + b"\0"
    topics = b"".join(
        struct.pack(">h", 0) + _text(f"topic-{i}") + struct.pack(">QQ", 1, i) + b"\0" + partitions_field
        for i in range(count)
    )
    head = struct.pack(">i", 0) + _varint(2) + broker + _text("scale") + struct.pack(">i", 0)
    return head + _varint(count + 1) + topics + b"\0"


class Cluster:
    """A server that listens until it is closed, and counts requests like the embedded broker."""

    def __init__(self, partitions: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        port = self._listener.getsockname()[1]
        self.bootstrap_servers = f"127.0.0.1:{port}"
        self._metadata = metadata(partitions, port)
        self.size = len(self._metadata)
        self._counted: Counter[str] = Counter()
        threading.Thread(target=self._listen, daemon=True).start()

    def requests(self) -> dict[str, int]:
        return dict(self._counted)

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                while size := connection.recv(4, socket.MSG_WAITALL):
                    request = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                    api, _version, correlation = struct.unpack(">hhi", request[:8])
                    self._counted[str(api)] += 1
                    if api not in ANSWERED:
                        return
                    # The response header of ApiVersions has no tagged fields in any version.
                    body = self._versions() if api == 18 else b"\0" + self._metadata
                    connection.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)
            except OSError:
                return

    def _versions(self) -> bytes:
        known = b"".join(struct.pack(">hhh", api, *versions) + b"\0" for api, versions in VERSIONS.items())
        return struct.pack(">h", 0) + _varint(len(VERSIONS) + 1) + known + struct.pack(">i", 0) + b"\0"

    def close(self) -> None:
        self._listener.close()
