"""Pushdown to the JVM reader: predicates on offsets and partitions, columns, limits."""

from collections.abc import Callable
from typing import Any

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker

Jvm = Callable[..., Any]
T0 = 1_700_000_000_000


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic of 40, 15 and 3 records in three partitions, one second apart."""
    broker.create_topic("pushed", 3)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for partition, count in ((0, 40), (1, 15), (2, 3)):
            for i in range(count):
                producer.send("pushed", b"v%d" % i, partition=partition, timestamp=T0 + i * 1000)
    return "pushed"


def plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.mark.parametrize(
    ("where", "tasks", "rows", "exact"),
    [
        ("partition = 1", 1, 15, True),
        ("1 = partition", 1, 15, True),
        ("partition <=> 1 and topic = 'pushed'", 1, 15, True),
        ("partition in (0, 2) and offset < 2", 2, 4, True),
        ("offset >= 20", 1, 20, True),
        ("20 <= offset", 1, 20, True),
        ("offset between 14 and 15", 2, 3, True),
        ("offset > 9223372036854775806", 0, 0, True),
        ("offset < -3", 0, 0, True),
        ("topic = 'another'", 0, 0, True),
        ("topic in ('another', 'pushed', null)", 3, 58, True),
        ("offset in (1, 14, 39)", 3, 6, False),
        (f"timestamp >= timestamp_millis({T0 + 20_000})", 1, 20, False),
        (f"timestamp > timestamp_millis({T0 + 13_000}) and partition = 1", 1, 1, False),
        (f"timestamp < timestamp_millis({T0 + 2_000})", 3, 6, False),
        ("partition = 1 or offset = 0", 3, 17, False),
        ("value = 'v2'", 3, 3, False),
    ],
)
def test_predicates_are_pushed_down(jvm: Jvm, topic: str, where: str, tasks: int, rows: int, exact: bool) -> None:
    frame = jvm(subscribe=topic).where(where)
    assert len(frame.collect()) == rows
    assert frame.rdd.getNumPartitions() == tasks
    assert ("Filter " not in plan(frame)) == exact


def test_only_selected_columns_are_read(jvm: Jvm, topic: str) -> None:
    frame = jvm(subscribe=topic).selectExpr("sum(offset)", "max(partition)")
    assert "[partition#" in plan(frame)
    assert "value#" not in plan(frame)
    assert tuple(frame.first()) == (sum(range(40)) + sum(range(15)) + sum(range(3)), 2)


@pytest.mark.parametrize(("limit", "where", "rows"), [(7, "true", 7), (7, "partition = 2", 3), (50, "offset < 9", 21)])
def test_limit_is_pushed_down(jvm: Jvm, topic: str, limit: int, where: str, rows: int) -> None:
    frame = jvm(subscribe=topic).where(where).limit(limit)
    assert f"limit {limit}" in plan(frame)
    assert len(frame.collect()) == rows


def test_limit_applies_after_filter(jvm: Jvm, topic: str) -> None:
    frame = jvm(subscribe=topic).where("length(value) = 3").limit(20)
    assert "limit 20" not in plan(frame)
    assert len(frame.collect()) == 20


def test_statistics_are_estimated_without_reading(jvm: Jvm, topic: str) -> None:
    statistics = (
        jvm(subscribe=topic).where("partition = 1")._jdf.queryExecution().optimizedPlan().collectLeaves().head().stats()
    )
    # The estimate is much larger than the actual size, so that Spark does not broadcast a topic by mistake.
    assert int(str(statistics.sizeInBytes())) == 15 * 4096
