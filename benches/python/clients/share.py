"""Reads a whole topic as the only member of a new share group; the time and CPU are those from the first row on.

python -m clients.share CLIENT MODE BOOTSTRAP GROUP TOPIC COUNT
"""

import json
import struct
import sys
import time
from collections.abc import Callable

import confluent_kafka

from samsarrow import ShareConsumer
from support.shares import ShareMember

from .watch import Measured, Watch

# Default of `ShareConsumer`. The limit is soft: brokers return whole record batches.
POLL_RECORDS = 2_000
FETCH_BYTES = 52_428_800
SHARE_FETCH, VERSION = 78, 2
ACCEPT = 1


def ours(mode: str, bootstrap: str, group: str, topic: str, count: int) -> Measured:
    explicit = mode == "explicit"
    with ShareConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        acknowledgement="explicit" if explicit else "implicit",
        max_poll_records=POLL_RECORDS,
    ) as consumer:
        began = time.perf_counter()
        consumer.subscribe([topic])
        batch = consumer.poll(30)
        first, watch = time.perf_counter() - began, Watch()
        skipped = rows = batch.num_rows
        polls = 0
        while True:
            if explicit:
                consumer.acknowledge(batch)
            if rows >= count:
                break
            batch = consumer.poll(30)
            polls += 1
            if not batch.num_rows:
                raise RuntimeError(f"nothing came after {rows} of {count} records")
            rows += batch.num_rows
        outcomes = consumer.commit(30)
        if any(outcomes.values()):
            raise RuntimeError(f"rows were not acknowledged: {outcomes}")
        return watch.found(rows - skipped, first=first, polls=polls, read=rows)


def confluent(mode: str, bootstrap: str, group: str, topic: str, count: int) -> Measured:
    explicit = mode == "explicit"
    consumer = confluent_kafka.ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": mode,
            "max.poll.records": POLL_RECORDS,
            "log_level": 3,
        }
    )
    try:
        began = time.perf_counter()
        consumer.subscribe([topic])
        messages = list(consumer.poll(30.0))
        first, watch = time.perf_counter() - began, Watch()
        skipped = rows = len(messages)
        polls = 0
        while True:
            if explicit:
                for message in messages:
                    consumer.acknowledge(message)
            if rows >= count:
                break
            messages = list(consumer.poll(30.0))
            polls += 1
            if not messages:
                raise RuntimeError(f"nothing came after {rows} of {count} records")
            rows += len(messages)
        outcomes = consumer.commit_sync(30.0)
        if any(outcomes.values()):
            raise RuntimeError(f"records were not acknowledged: {outcomes}")
        return watch.found(rows - skipped, first=first, polls=polls, read=rows)
    finally:
        consumer.close()


def raw(_mode: str, bootstrap: str, group: str, topic: str, count: int) -> Measured:
    """Sends one ShareFetch after the other, each of which accepts the records of the one before. Decodes no record."""
    began = time.perf_counter()
    member = ShareMember(bootstrap, group, "bare-loop", topic)
    answer = member.heartbeat([topic])
    while (
        time.perf_counter() < began + 30 and not (answer["assignment"] or {"topic_partitions": []})["topic_partitions"]
    ):
        time.sleep(0.05)
        answer = member.heartbeat([topic] if member.epoch == 0 else None)
    connection, uuid = member.raw._socket, member.topic_id.bytes
    buffer = memoryview(bytearray(FETCH_BYTES + (1 << 20)))
    acquired: list[tuple[int, int]] = []
    first, watch, rows, skipped, epoch, polls = 0.0, Watch(), 0, 0, 0, 0
    while rows < count and polls < count:
        connection.sendall(_fetch(group, "bare-loop", uuid, epoch, acquired))
        acquired = _acquired(buffer[: _receive(connection.recv_into, buffer)])
        epoch += 1
        polls += 1
        rows += sum(last - first + 1 for first, last in acquired)
        if not skipped and rows:
            first, watch, skipped, polls = time.perf_counter() - began, Watch(), rows, 0
    # Closes the session, with the last acknowledgements.
    ranges = [(first_offset, last, [ACCEPT]) for first_offset, last in acquired]
    member.acknowledge(*ranges, session=-1)
    result = watch.found(rows - skipped, first=first, polls=polls, read=rows)
    member.close()
    return result


def _fetch(group: str, member: str, topic: bytes, epoch: int, accepted: list[tuple[int, int]]) -> bytes:
    """Encodes a request with the acknowledgements of ranges of offsets."""
    body = struct.pack(">hhihb", SHARE_FETCH, VERSION, epoch, -1, 0)
    for text in (group, member):
        body += bytes([len(text) + 1]) + text.encode()
    # Wait, minimum and maximum of bytes, records, size of acquired batches, acquire mode, and no renewal.
    body += struct.pack(">iiiiiibb", epoch, 500, 1, FETCH_BYTES, POLL_RECORDS, POLL_RECORDS, 0, 0)
    if epoch == 0 or accepted:
        body += b"\x02" + topic + b"\x02" + struct.pack(">i", 0) + _varint(len(accepted) + 1)
        body += b"".join(struct.pack(">qqbbb", first, last, 2, ACCEPT, 0) for first, last in accepted) + b"\x00\x00"
    else:
        body += b"\x01"
    body += b"\x01\x00"
    return struct.pack(">i", len(body)) + body


def _receive(receive: Callable[[memoryview, int], int], buffer: memoryview) -> int:
    """Reads a response into the buffer, and returns its length."""
    read = 0
    while read < 4:
        read += _some(receive(buffer[read:4], 4 - read))
    (length,) = struct.unpack_from(">i", buffer)
    read = 0
    while read < length:
        read += _some(receive(buffer[read:length], length - read))
    return int(length)


def _some(count: int) -> int:
    if not count:
        raise ConnectionError("the broker closed the connection")
    return count


def _acquired(answer: memoryview) -> list[tuple[int, int]]:
    """Returns the acquired ranges of the response for one partition, without reading the records."""
    # Correlation id, tags, throttle time.
    (error,) = struct.unpack_from(">h", answer, 9)
    at = _after_text(answer, 11) + 4
    if error:
        raise RuntimeError(f"ShareFetch failed with error {error}")
    topics, at = _read_varint(answer, at)
    if topics <= 1:
        return []
    # Topic id, one partition, its index.
    at += 16 + 1 + 4
    for _ in range(2):
        (error,) = struct.unpack_from(">h", answer, at)
        if error:
            raise RuntimeError(f"ShareFetch failed with error {error} of the partition")
        at = _after_text(answer, at + 2)
    # Leader and tags.
    length, at = _read_varint(answer, at + 9)
    count, at = _read_varint(answer, at + max(length - 1, 0))
    return [struct.unpack_from(">qq", answer, at + 19 * number) for number in range(count - 1)]


def _after_text(answer: memoryview, at: int) -> int:
    length, at = _read_varint(answer, at)
    return at + max(length - 1, 0)


def _varint(number: int) -> bytes:
    done = bytearray()
    while number >= 0x80:
        done.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*done, number])


def _read_varint(answer: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = answer[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


if __name__ == "__main__":
    client, mode, bootstrap, group, topic, count = sys.argv[1:7]
    print(
        json.dumps(
            {"ours": ours, "confluent": confluent, "raw": raw}[client](mode, bootstrap, group, topic, int(count))
        )
    )
