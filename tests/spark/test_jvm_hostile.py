"""Malformed record batches through the JVM reader fail tasks but not executors.

A man-in-the-middle proxy mutates Fetch responses. SAMSARROW_HOSTILE=2000 sets the number of rounds.
"""

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker
from support.jvm import about
from support.mitm import Middle, framed
from support.streams import wait_until

ROUNDS = int(os.environ.get("SAMSARROW_HOSTILE", "40"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 40
FETCH, METADATA = 1, 3
HEADER = 61
# Offsets and sizes of the batch header's fields after the magic byte, except the checksum.
FIELDS = ((8, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))
EDGES = (0, 1, -1, 7, 255, 2**15 - 1, 2**16, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63))


@dataclass
class Mutator:
    """Mutates batches in Fetch responses, depending on a seed; without a seed, leaves them unchanged."""

    broker: str
    seed: int | None = None
    address: str = ""
    changed: int = field(default=0)

    def __call__(self, api: int | None, body: bytes) -> bytes:
        if api == METADATA:
            old, new = (int(address.rsplit(":", 1)[1]).to_bytes(4, "big") for address in (self.broker, self.address))
            host = b"127.0.0.1"
            assert host + old in body, "metadata names the broker"
            body = body.replace(host + old, host + new)
        if api == FETCH and self.seed is not None:
            answer = bytearray(body)
            for start in self.batches(body):
                self.change(answer, start, random.Random(f"{self.seed} {start}"))
                self.changed += 1
            body = bytes(answer)
        return framed(body)

    @staticmethod
    def batches(body: bytes) -> Iterator[int]:
        """Yields the positions at which a record batch starts. Its base offset, length and magic byte identify it."""
        at = 0
        while at + HEADER <= len(body):
            length = int.from_bytes(body[at + 8 : at + 12], "big")
            small = body[at : at + 4] == bytes(4)
            if small and body[at + 16] == 2 and HEADER - 12 < length <= len(body) - at - 12:
                yield at
                at += 12 + length
            else:
                at += 1

    @staticmethod
    def change(answer: bytearray, start: int, dice: random.Random) -> None:
        end = start + 12 + int.from_bytes(answer[start + 8 : start + 12], "big")
        match dice.randrange(4):
            case 0:
                for _ in range(dice.choice((1, 2, 8))):
                    answer[dice.randrange(start + HEADER, end)] = dice.randrange(256)
            case 1:
                at, size = dice.choice(FIELDS)
                edge = dice.choice((*EDGES, RECORDS, RECORDS - 1)) % 256**size
                answer[start + at : start + at + size] = edge.to_bytes(size, "big")
            case 2:
                at = dice.randrange(start + HEADER, end)
                answer[at:end] = dice.randbytes(end - at)
            case _:
                # Writes the record count in both fields of the header that contain it, so that the header is
                # consistent.
                count = dice.choice((1, RECORDS + 1, 10_000, 2**31 - 1))
                answer[start + 23 : start + 27] = (count - 1).to_bytes(4, "big")
                answer[start + 57 : start + 61] = count.to_bytes(4, "big")


@pytest.fixture
def mutator(broker: Broker) -> Iterator[Mutator]:
    for codec in CODECS:
        broker.create_topic(f"hostile-{codec}")
        with Producer(bootstrap_servers=broker.bootstrap_servers, compression_type=codec, linger_ms=500) as producer:
            for i in range(RECORDS):
                headers = [("name", b"%d" % i), ("none", None)] if i % 3 else []
                producer.send(f"hostile-{codec}", b"value %d" % i, None if i % 4 == 0 else b"key", headers=headers)
    mutator = Mutator(broker.bootstrap_servers)
    with Middle(broker.bootstrap_servers, answer=mutator) as middle:
        mutator.address = middle.address
        yield mutator


@pytest.mark.timeout(120 + 2 * ROUNDS)
def test_malformed_batches_fail_tasks_only(built: None, spark: Any, mutator: Mutator) -> None:
    def read(codec: str, **options: str) -> Any:
        config = {"kafka.bootstrap.servers": mutator.address, "subscribe": f"hostile-{codec}", "includeHeaders": "true"}
        # A mutated response may contain no valid records, so the reader waits only briefly for records.
        config |= {"kafkaConsumer.pollTimeoutMs": "60000" if mutator.seed is None else "1000", **options}
        return spark.read.format("samsarrow-jvm").options(**config).load()

    ways: dict[str, Callable[[Any], int]] = {
        "rows": lambda frame: len(frame.collect()),
        "columns": lambda frame: frame.selectExpr("sum(length(value) + size(headers))", "max(key)").collect()[0][0],
        "count": lambda frame: frame.count(),
    }
    right = {(codec, way): run(read(codec)) for codec in CODECS for way, run in ways.items()}
    assert right["zstd", "count"] == right["none", "rows"] == RECORDS
    outcomes = {"failed": 0, "read": 0}
    before = mutator.changed
    for seed in range(ROUNDS):
        mutator.seed = seed
        codec, way = CODECS[seed % len(CODECS)], list(ways)[seed % len(ways)]
        # With checksums, almost all mutations are rejected early.
        crcs = {"kafka.check.crcs": "true" if seed % 10 == 9 else "false"}
        failure = ""
        try:
            ways[way](read(codec, **crcs))
        except Exception as error:
            failure = str(error)
        outcomes["failed" if failure else "read"] += 1
        assert not failure or "SamsarrowException" in failure, f"seed {seed}: {failure}"
        assert "PanicError" not in failure, f"seed {seed}: {failure}"
    assert mutator.changed - before >= ROUNDS
    assert outcomes["failed"] > ROUNDS / 4, outcomes
    # The same process reads valid data again, and has released all memory.
    mutator.seed = None
    assert {(codec, way): run(read(codec)) for codec in CODECS for way, run in ways.items()} == right
    wait_until(lambda: (now := about(spark))["made"] == now["freed"] and now["readers"] == 0)
