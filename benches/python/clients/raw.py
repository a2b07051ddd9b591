"""No client at all: one prepared Produce request, sent again and again on one connection. What the broker can take."""

import socket
import struct
import threading

import pyarrow as pa

from samsarrow import encode_batches

# As many rows as fit into the broker's largest batch, 1 MiB.
ROWS = 9_000
PRODUCE, VERSION, ALL_REPLICAS = 0, 7, -1


def produce(bootstrap: str, topic: str, table: pa.Table) -> int:
    batch = encode_batches(table.slice(0, ROWS), value="value", batch_size=2 << 20)
    count = table.num_rows // ROWS
    name = topic.encode()
    # Header with a null client id, then a null transactional id, acks and timeout.
    body = struct.pack(">hhihhhi", PRODUCE, VERSION, 1, -1, -1, ALL_REPLICAS, 30_000)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iii", 1, 0, len(batch)) + batch
    frame = struct.pack(">i", len(body)) + body
    # In the answer: correlation id, topics, name, partitions, partition, then the error.
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
