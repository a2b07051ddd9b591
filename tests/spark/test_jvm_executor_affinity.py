"""Executor affinity of JVM tasks: each partition prefers the same executor."""

from collections.abc import Callable
from typing import Any

import pytest

EXECUTORS = ["executor_a_1", "executor_a_2", "executor_b_3"]

Locations = Callable[[list[tuple[str, int]], list[str]], list[list[str]]]


@pytest.fixture
def preferred_locations(built: None, spark: Any) -> Locations:
    """Returns the preferred locations of ranges of these partitions on these executors."""
    gateway, jvm = spark.sparkContext._gateway, spark._jvm
    ranges = (
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass("io.github.samsarrow.spark.KafkaRange")
    )
    kinds = gateway.new_array(jvm.java.lang.Class, 2)
    kinds[0], kinds[1] = (jvm.java.lang.Class.forName(f"java.util.{name}") for name in ("Map", "List"))
    method = ranges.getDeclaredMethod("all", kinds)
    method.setAccessible(True)

    def find(partitions: list[tuple[str, int]], executors: list[str]) -> list[list[str]]:
        listed = jvm.java.util.ArrayList()
        for topic, partition in partitions:
            item = jvm.java.util.HashMap()
            for name, value in (("topic", topic), ("partition", partition), ("start", 0), ("end", 9)):
                item.put(name, value)
            listed.add(item)
        plan, names = jvm.java.util.HashMap(), jvm.java.util.ArrayList()
        plan.put("ranges", listed)
        for executor in executors:
            names.add(executor)
        given = gateway.new_array(jvm.java.lang.Object, 2)
        given[0], given[1] = plan, names
        return [list(item.preferredLocations()) for item in method.invoke(None, given)]

    return find


def test_partition_prefers_same_executor(preferred_locations: Locations) -> None:
    partitions = [("t", number) for number in range(30)] + [("u", 0)]
    result = preferred_locations(partitions, EXECUTORS)
    assert [len(item) for item in result] == [1] * len(partitions)
    assert {executor for [executor] in result} == set(EXECUTORS), "all have some"
    assert preferred_locations(partitions[::-1], EXECUTORS)[::-1] == result, "whatever else is read"


def test_split_partition_has_no_preference(preferred_locations: Locations) -> None:
    locations = preferred_locations([("t", 0), ("t", 1), ("t", 1), ("t", 1)], EXECUTORS)
    assert [len(executors) for executors in locations] == [1, 0, 0, 0]
    assert preferred_locations([("t", 0)], []) == [[]]
