"""Rows for `spark_shapes.py`: writes them to a topic, gives them to Spark directly, and compares results."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame

from samsarrow import Producer

TOPIC = "shapes"
PARTITIONS = 3
COUNT = 600
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)


def produced(servers: str) -> list[tuple[Any, ...]]:
    """Writes rows with nulls, empty values, headers and every codec to the topic, and returns them."""
    chance = random.Random(11)
    rows: list[tuple[Any, ...]] = []
    ends = [0] * PARTITIONS
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=servers, compression_type=codec) as producer:
            for _ in range(COUNT // 5):
                key = chance.choice([None, b"", b"a", b"bb", b"ccc", b"dddd"])
                value = chance.choice([None, b"", chance.randbytes(chance.randrange(1, 60))])
                headers = [
                    (chance.choice(["", "ä", "n"]), chance.choice([None, b"x"])) for _ in range(chance.randrange(3))
                ]
                when = START + timedelta(milliseconds=chance.randrange(10_000_000))
                place = chance.randrange(PARTITIONS)
                ms = (when - START) // timedelta(milliseconds=1) + int(START.timestamp() * 1000)
                producer.send(TOPIC, value, key, headers=headers, partition=place, timestamp=ms)
                rows.append((key, value, TOPIC, place, ends[place], when, 0, headers or None))
                ends[place] += 1
    return rows


def plain(value: Any) -> Any:
    """Converts a value of Spark, pandas or Arrow to a form that can be compared."""
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, dict):
        return tuple(plain(part) for part in value.values())
    if isinstance(value, (list, tuple)):
        return tuple(plain(part) for part in value)
    return value


def rows_of(found: Any) -> list[str]:
    """Returns each row as text. Rows of a DataFrame are sorted. Rows that the shape has already collected keep their
    order.
    """
    if isinstance(found, DataFrame):
        return sorted(repr(plain(row)) for row in found.collect())
    return [repr(plain(row)) for row in found]
