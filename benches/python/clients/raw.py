"""A loop without a client, which measures the broker's limits with a prepared Produce request and with Fetch."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

from samsarrow import encode_batches

from . import security

# Number of rows that fit into the broker's largest batch, 1 MiB.
ROWS = 9_000
PRODUCE, VERSION, ALL_REPLICAS = 0, 7, -1
FETCH, FETCH_BYTES, RECEIVE = 1, 16 << 20, 1 << 20


def produce(bootstrap: str, topic: str, table: pa.Table, codec: str) -> int:
    batch = encode_batches(table.slice(0, ROWS), value="value", compression=codec, batch_size=2 << 20)
    count = table.num_rows // ROWS
    name = topic.encode()
    # Request header with a null client id; then a null transactional id, acks, and the timeout.
    body = struct.pack(">hhihhhi", PRODUCE, VERSION, 1, -1, -1, ALL_REPLICAS, 30_000)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, 0, len(batch)) + batch
    frame = struct.pack(">i", len(body)) + body
    # Position of the error code in the response, which follows correlation id, topics, name, partitions and partition.
    error_at = 4 + 4 + 2 + len(name) + 4 + 4
    host, _, port = bootstrap.partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender = threading.Thread(target=lambda: [connection.sendall(frame) for _ in range(count)])
        sender.start()
        with connection.makefile("rb") as answers:
            for _ in range(count):
                (length,) = struct.unpack(">i", answers.read(4))
                (error,) = struct.unpack_from(">h", answers.read(length), error_at)
                if error:
                    raise RuntimeError(f"the broker answered with error {error}")
        sender.join()
    return count * ROWS


class Answer(NamedTuple):
    """A response, and the number of its records."""

    data: memoryview
    num_rows: int


def consume(bootstrap: str, topic: str, count: int) -> Iterator[range]:
    """Fetches the whole topic, 16 MiB per request, without decoding. This measures the limit of the broker and the
    socket.
    """
    buffer = fresh()
    for answer in answers(bootstrap, topic, count, lambda: buffer):
        yield range(answer.num_rows)


def batches(bootstrap: str, topic: str, count: int) -> Iterator[Answer]:
    """Like `consume`, with a new buffer for each response."""
    yield from answers(bootstrap, topic, count, fresh)


def fresh() -> memoryview:
    """Returns a new response buffer."""
    return memoryview(bytearray(FETCH_BYTES + (1 << 20)))


def answers(bootstrap: str, topic: str, count: int, room: Callable[[], memoryview]) -> Iterator[Answer]:
    with connect(bootstrap) as connection:
        offset = 0
        while offset < count:
            buffer = room()
            length = fetch(connection, topic, offset, buffer)
            following = end_of_records(buffer[:length], len(topic))
            yield Answer(buffer[:length], following - offset)
            offset = following


def connect(bootstrap: str) -> socket.socket:
    """Connects in plaintext, or with OpenSSL's TLS."""
    host, _, port = bootstrap.partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if trusted := security.options().get("ssl.truststore.location"):
        return ssl.create_default_context(cafile=trusted).wrap_socket(connection, server_hostname=host)
    return connection


def fetch(connection: socket.socket, topic: str, offset: int, buffer: memoryview) -> int:
    """Fetches from partition 0 with Fetch v4 into `buffer`; returns the length of the response."""
    name = topic.encode()
    body = struct.pack(">hhihiiiibi", FETCH, 4, 1, -1, -1, 500, 1, FETCH_BYTES, 0, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iiqi", 1, 0, offset, FETCH_BYTES)
    connection.sendall(struct.pack(">i", len(body)) + body)
    read = 0
    while read < 4:
        read += connection.recv_into(buffer[read:4], 4 - read)
    (length,) = struct.unpack_from(">i", buffer)
    read = 0
    while read < length:
        read += connection.recv_into(buffer[read:length], min(length - read, RECEIVE))
    return int(length)


def end_of_records(answer: memoryview, name: int) -> int:
    """Returns the offset after the last complete batch, found by batch lengths alone."""
    # Skip the fields before the records: correlation id, throttle time, topic count, topic name, partition count,
    # partition index, error code, high watermark, last stable offset, aborted transaction count and record length.
    at = 4 + 4 + 4 + 2 + name + 4 + 4 + 2 + 16 + 4 + 4
    following = 0
    while at + 61 <= len(answer):
        offset, length = struct.unpack_from(">qi", answer, at)
        if at + 12 + length > len(answer):
            break
        (delta,) = struct.unpack_from(">i", answer, at + 23)
        following = offset + delta + 1
        at += 12 + length
    return following
