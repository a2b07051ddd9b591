"""The queries that the bench compares. Each query checks its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa

from samsarrow import Admin, NewTopic, Producer

PARTITIONS = 2
VALUE_BYTES = 100
KEYS = 100_000
PYTHON, JVM, KAFKA = "samsarrow-python", "samsarrow-jvm", "kafka"
# Sources that show Spark's upper limits: for batches from Python, and for columns in its JVM.
PREBUILT, VECTORS = "prebuilt", "vectors"


@dataclass(frozen=True)
class Shape:
    """One query that is measured.

    Attributes:
        run: runs the query with a reader of a topic: `run(frame, records)`.
        python: minimum speed of the Python source relative to the connector, unless it is at Spark's limit; 0 for none.
        jvm: minimum speed of the source in the JVM relative to the connector.
        topics: topics that the query reads.
        limits: further sources to compare with.
    """

    run: Callable[[Callable[..., Any], int], None]
    python: float
    jvm: float
    topics: tuple[str, ...] = ("plain",)
    limits: tuple[str, ...] = ()


def fill(servers: str, records: int) -> None:
    """Writes the topics: 100-byte records plain, compressed, and with 100,000 distinct keys; and a fifth as many of 1
    KB.
    """
    numbers = range(records)
    values = pa.table({"value": pa.array([b'{"id":%093d}' % i for i in numbers], pa.binary())})
    keyed = values.append_column("key", pa.array([b"%06d" % (i * 7919 % KEYS) for i in numbers], pa.binary()))
    large = pa.table({"value": pa.array([b"%01024d" % i for i in range(records // 5)], pa.binary())})
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(f"bench-{name}", PARTITIONS, 1) for name in ("plain", "lz4", "keyed", "large")])
    for name, codec, rows in (
        ("plain", "none", values),
        ("lz4", "lz4", values),
        ("keyed", "none", keyed),
        ("large", "none", large),
    ):
        with Producer(bootstrap_servers=servers, compression_type=codec, batch_size=131_072) as producer:
            columns = {"key": "key"} if name == "keyed" else {}
            producer.send_batch(f"bench-{name}", rows, **columns).result(300)


def equal(actual: Any, expected: Any) -> None:
    assert actual == expected, f"{actual} instead of {expected}"


def noop(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def count_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"n": pa.array([rows], pa.int64())})


def lengths(values: pd.Series) -> pd.Series:
    return values.str.len()


def _two(read: Callable[..., Any], records: int) -> None:
    noop(read("value", "offset"))


def _sum(read: Callable[..., Any], records: int) -> None:
    equal(read().selectExpr("sum(length(value)) s").collect()[0].s, records * VALUE_BYTES)


def _arrow(read: Callable[..., Any], records: int) -> None:
    frame = read().select("value", "offset").mapInArrow(count_batches, "n bigint")
    equal(frame.selectExpr("sum(n) n").collect()[0].n, records)


def _pandas(read: Callable[..., Any], records: int) -> None:
    from pyspark.sql.functions import pandas_udf

    frame = read("value").select(pandas_udf(lengths, "bigint")("value").alias("n"))
    equal(frame.selectExpr("sum(n) n").collect()[0].n, records * VALUE_BYTES)


def _by_partition(read: Callable[..., Any], records: int) -> None:
    result = read().groupBy("partition").agg({"value": "max", "*": "count"}).collect()
    equal((len(result), sum(row["count(1)"] for row in result)), (PARTITIONS, records))


def _by_key(read: Callable[..., Any], records: int) -> None:
    counts = read("key").groupBy("key").count().selectExpr("count(*) n", "sum(count) s")
    equal(tuple(counts.collect()[0]), (min(KEYS, records), records))


def _filtered(read: Callable[..., Any], records: int) -> None:
    each = records // PARTITIONS // 100
    equal(read().where(f"offset < {each}").selectExpr("count(value) n").collect()[0].n, each * PARTITIONS)


def _limited(read: Callable[..., Any], records: int) -> None:
    equal(len(read().limit(10).collect()), 10)


BOTH = ("plain", "lz4")
LIMITS = (PREBUILT, VECTORS)
SHAPES = {
    "noop": Shape(lambda read, records: noop(read()), 1.5, 5, BOTH, LIMITS),
    "count": Shape(lambda read, records: equal(read().count(), records), 1.5, 8, BOTH, (PREBUILT,)),
    "sum": Shape(_sum, 1.5, 7, BOTH, LIMITS),
    "two columns": Shape(_two, 1.8, 6, BOTH, LIMITS),
    "mapInArrow": Shape(_arrow, 1.0, 2.2, BOTH, LIMITS),
    "pandas_udf": Shape(_pandas, 0, 1.3, limits=LIMITS),
    "by partition": Shape(_by_partition, 0, 6, limits=(VECTORS,)),
    "by key": Shape(_by_key, 0, 3, ("keyed",)),
    "noop of 1 KB": Shape(lambda read, records: noop(read()), 0, 4, ("large",)),
    "1 % of offsets": Shape(_filtered, 0, 20),
    # The minimum is only 1, because the connector's tasks also stop at ten rows, so that planning takes most of the
    # time.
    "limit 10": Shape(_limited, 0, 1, limits=(PREBUILT,)),
}
