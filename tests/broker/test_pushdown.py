"""Pushdown of conditions to plans, as engines use it: the rows equal those of a filter over all rows."""

import datetime as dt
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import samsarrow
from samsarrow import Admin, NewTopic, ranges
from samsarrow.exceptions import ConfigurationError, OffsetOutOfRangeError
from samsarrow.integrations.parts import Part, merged
from samsarrow.integrations.pushdown import matching
from samsarrow.ranges import Plan
from samsarrow.testing import Broker

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROWS, PARTITIONS = 900, 3
partition, offset, timestamp, value = map(pc.field, ("partition", "offset", "timestamp", "value"))


def second(number: int) -> dt.datetime:
    return START + number * dt.timedelta(seconds=1)


def write(servers: str, topic: str, late: int = 0) -> None:
    """Writes a record per second; every tenth is `late` seconds earlier than its neighbours."""
    times = [second(number - late * (number % 10 == 9)) for number in range(ROWS)]
    table = pa.table(
        {
            "value": [b"%d" % number for number in range(ROWS)],
            "partition": [number % PARTITIONS for number in range(ROWS)],
            "at": pa.array(times, pa.timestamp("ms", "UTC")),
        }
    )
    samsarrow.write(topic, table, bootstrap_servers=servers, partition="partition", timestamp="at", value="value")


@pytest.fixture(scope="module")
def plan() -> Iterator[Plan]:
    with Broker(topics={"t": PARTITIONS}, auto_create_topics=False) as broker:
        write(broker.bootstrap_servers, "t", late=60)
        yield ranges.plan("t", splits=7, bootstrap_servers=broker.bootstrap_servers)


@pytest.fixture(scope="module")
def everything(plan: Plan) -> pa.Table:
    return pa.concat_tables([split.read().read_all() for split in plan.splits])


def rows(plan: Plan, condition: Any, lateness: dt.timedelta | None = None) -> list[tuple[int, int]]:
    found = []
    for split in matching(plan, condition, lateness):
        for batch in Part(split, ("partition", "offset"), condition).batches():
            assert batch.schema.names == ["partition", "offset"]
            found += zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
    return sorted(found)


def expected(everything: pa.Table, condition: Any) -> list[tuple[int, int]]:
    table = everything.filter(condition)
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def a_condition(chance: random.Random, depth: int = 3) -> Any:
    if depth and chance.random() < 0.6:
        one, other = a_condition(chance, depth - 1), a_condition(chance, depth - 1)
        return chance.choice([one & other, one | other, ~one])
    number = chance.randrange(-5, 305)
    time = second(chance.randrange(-100, ROWS + 100))
    return chance.choice(
        [
            offset < number, offset >= number, offset == number, offset != number, number <= offset,
            offset.isin([number, number + 7]), partition == chance.randrange(4), partition.isin([0, 2]),
            timestamp < time, timestamp >= time, timestamp > time, timestamp == time, timestamp.is_null(),
            value == b"%d" % number, value.is_valid(), offset + 1 > number, (offset > number) & (offset < number + 20),
        ]
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_random_conditions(plan: Plan, everything: pa.Table, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(5):
        condition = a_condition(chance)
        found = expected(everything, condition)
        assert rows(plan, condition) == found, condition
        # Records of a partition are up to 60 s late.
        assert rows(plan, condition, dt.timedelta(seconds=60)) == found, condition


@pytest.mark.parametrize(
    ("condition", "offsets"),
    [
        (offset < 10, 30),
        ((partition == 1) & (offset == 17), 1),
        ((partition == 0) & (offset < 5) | (partition == 2) & (offset >= 297), 8),
        ((partition == 5), 0),
        (offset < 0, 0),
        (offset > 1000, 0),
        (timestamp >= second(ROWS + 1), 0),
        (offset.is_null(), 0),
        (value == b"7", ROWS),
    ],
)
def test_offsets_that_are_fetched(plan: Plan, condition: Any, offsets: int) -> None:
    assert sum(split.estimated_rows for split in matching(plan, condition)) == offsets


def test_times_end_a_read_only_with_a_lateness(plan: Plan) -> None:
    condition = (timestamp >= second(300)) & (timestamp < second(390))
    without = sum(split.estimated_rows for split in matching(plan, condition))
    within = sum(split.estimated_rows for split in matching(plan, condition, dt.timedelta(seconds=60)))
    assert within < without < ROWS


def test_merged_splits_have_the_same_rows(plan: Plan) -> None:
    for limit in (1, 2, 3, 50):
        parts = merged(plan.splits, limit)
        assert len(parts) == min(limit, 7)
        found = [one for split in parts for one in split.read().read_all()["offset"].to_pylist()]
        assert len(found) == ROWS


def test_only_needed_values_are_decoded(plan: Plan) -> None:
    source = plan.splits[0]._source
    assert source.select(["offset"]).schema.names == ["offset"]
    with pytest.raises(ConfigurationError, match="the plan of topic t has no column 'headers': columns are key, value"):
        source.select(["headers"])
    part = Part(plan.splits[0], (), offset >= 0)
    assert sum(batch.num_rows for batch in part.batches()) == plan.splits[0].estimated_rows
    assert part.needed().schema.names == ["offset"]


def test_blocks_are_equal_in_each_read(plan: Plan) -> None:
    [one] = merged(plan.splits, 1)
    part = Part(one, ("value", "offset"))
    first, again = ([*part.repeatable_blocks()] for _ in range(2))
    assert [block.num_rows for block in first] == [64, 236] * PARTITIONS
    assert all(one.equals(other) and one.nbytes == other.nbytes for one, other in zip(first, again, strict=True))


def test_blocks_have_a_bounded_size(monkeypatch: pytest.MonkeyPatch, plan: Plan) -> None:
    monkeypatch.setattr("samsarrow.integrations.parts._BLOCK_BYTES", 100)
    [one] = merged(plan.splits, 1)
    sizes = [block.num_rows for block in Part(one, ("offset",)).repeatable_blocks()]
    # Offsets have 8 bytes.
    assert sizes == [64, *[12] * 19, 8] * PARTITIONS


def test_times_of_a_topic_that_was_created_again() -> None:
    with Broker(topics={"t": PARTITIONS}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        write(broker.bootstrap_servers, "t")
        found = ranges.plan("t", bootstrap_servers=broker.bootstrap_servers)
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])
        # Without the check, the query would find nothing.
        with pytest.raises(OffsetOutOfRangeError, match="topic t was deleted and recreated"):
            matching(found, timestamp >= second(0))
