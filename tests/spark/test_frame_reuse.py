"""Reuse of a DataFrame by later queries and by several scans of a query. All scans share one table object of Spark."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
# Ten records in each of two partitions.
COUNT, EACH = 20, 10


@pytest.fixture(scope="module")
def served() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n in range(COUNT):
            producer.send("t", b"%d" % n, partition=n % 2, timestamp=1000 + n)
        producer.flush()
        yield broker


@pytest.fixture
def pushdown(spark: Any) -> Iterator[None]:
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    yield
    spark.conf.set(PUSHDOWN, before)


Load = Callable[..., Any]


@pytest.fixture
def load(spark: Any, served: Broker) -> Load:
    def read(**options: str) -> Any:
        config = {"kafka.bootstrap.servers": served.bootstrap_servers, "subscribe": "t", **options}
        return spark.read.format("samsarrow-python").options(**config).load()

    return read


@pytest.mark.parametrize(
    "options",
    [
        {"minPartitions": "5"},
        {"maxRecordsPerPartition": "3"},
        {"columns": "offset,partition,timestamp,topic"},
        {"layout": "string", "includeHeaders": "true", "isolation.level": "read_committed"},
        {"startingTimestamp": "1000", "endingTimestamp": "1020"},
        {"startingOffsets": '{"t":{"0":0,"1":-2}}', "endingOffsets": '{"t":{"0":10,"1":-1}}'},
    ],
    ids=",".join,
)
def test_reused_frame_with_options(load: Load, pushdown: None, options: dict[str, str]) -> None:
    frame = load(**options)
    assert frame.where("offset < 3").union(frame.where("partition = 1 and offset >= 3")).count() == 6 + 7
    assert sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect()) == [
        (partition, offset) for partition in (0, 1) for offset in range(EACH)
    ]


def test_later_uses_have_all_rows(load: Load, pushdown: None) -> None:
    frame = load()
    for where, count in (
        ("partition = 1", EACH),
        ("partition = 0 and offset < 3", 3),
        ("topic = 'other'", 0),
        ("timestamp >= timestamp_millis(1010)", 10),
    ):
        assert frame.where(where).count() == count, where
        assert frame.count() == COUNT, where


def test_scans_of_one_query_have_all_rows(load: Load, spark: Any, pushdown: None) -> None:
    frame = load()
    one, other = frame.where("partition = 0"), frame.where("partition = 1")
    assert one.union(other).count() == COUNT
    assert one.alias("x").join(other.alias("y"), "offset").count() == EACH
    low, high = frame.alias("a").where("a.offset < 3"), frame.alias("b").where("b.offset >= 3")
    assert low.crossJoin(high).count() == 6 * 14
    frame.createOrReplaceTempView("twice")
    for where, count in (
        ("partition = 1 and offset >= (select min(offset) from twice where offset > 4)", 5),
        ("offset in (select offset from twice where partition = 0 and offset < 2)", 4),
        ("true", COUNT),
    ):
        assert spark.sql(f"select count(*) n from twice where {where}").first().n == count, where


def test_cached_frame_has_all_rows(load: Load, pushdown: None) -> None:
    frame = load()
    few = frame.where("offset < 2").cache()
    try:
        assert few.count() == 4
        assert frame.count() == COUNT
    finally:
        few.unpersist()
    everything = frame.cache()
    try:
        assert everything.where("partition = 0").count() == EACH
        assert everything.count() == COUNT
    finally:
        everything.unpersist()


def test_stream_used_twice(spark: Any, served: Broker, tmp_path: Path) -> None:
    config = {"kafka.bootstrap.servers": served.bootstrap_servers, "subscribe": "t", "startingOffsets": "earliest"}
    frame = spark.readStream.format("samsarrow-python").options(**config).load().select("partition", "offset")
    queries = {
        "union": frame.where("partition = 0").union(frame.where("partition = 1")),
        "join": frame.alias("a").join(frame.alias("b"), "partition").selectExpr("partition", "a.offset"),
        "again": frame.where("offset < 3"),
    }
    results: dict[str, list[Any]] = {name: [] for name in queries}
    for name, query in queries.items():

        def keep(batch: Any, _: int, name: str = name) -> None:
            results[name].extend(map(tuple, batch.collect()))

        writer = query.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / name))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(results["union"]) == [(p, offset) for p in (0, 1) for offset in range(EACH)]
    assert len(results["join"]) == 2 * EACH * EACH
    assert sorted(results["again"]) == [(p, offset) for p in (0, 1) for offset in range(3)]
