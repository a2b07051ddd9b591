"""What the driver decides by itself: shares of a micro-batch, waiting, predicates."""

import datetime
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import datasource as spark

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.admission import Patience, share
from samsarrow.spark.errors import DataLossError
from samsarrow.spark.offsets import from_json, to_json
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.planner import StreamPlanner
from samsarrow.spark.pushdown import Predicates
from samsarrow.types import TopicPartition

A, B, C = (TopicPartition("t", p) for p in range(3))


def test_shares_follow_the_backlog_and_starve_nobody() -> None:
    assert share(10, {A: 0, B: 0}, {A: 90, B: 10}, {}) == {A: 9, B: 1}
    assert share(10, {A: 0, B: 0, C: 5}, {A: 10_000, B: 1, C: 5}, {}) == {A: 9, B: 1, C: 5}
    assert share(100, {A: 3}, {A: 10, B: 70}, {B: 60}) == {A: 10, B: 70}
    assert share(5, {A: 7}, {A: 7}, {}) == {A: 7}


def test_patience_ends() -> None:
    now = [0.0]
    patience = Patience(10, 60, lambda: now[0])
    assert not patience.wait({A: 0}, {A: 1}), "the first micro-batch takes what there is"
    now[0] = 59
    assert patience.wait({A: 1}, {A: 10})
    assert not patience.wait({A: 1}, {A: 11})
    now[0] = 100
    assert patience.wait({A: 11}, {A: 12})
    now[0] = 119
    assert not patience.wait({A: 11}, {A: 12})


def test_offsets_are_sorted_by_number() -> None:
    offsets = {TopicPartition("t", p): p for p in (10, 9, 0)} | {TopicPartition("a", 3): 7}
    assert str(to_json(offsets)) == "{'a': {'3': 7}, 't': {'0': 0, '9': 9, '10': 10}}"
    assert from_json(to_json(offsets)) == offsets


def test_offsets_of_another_source_are_told_apart() -> None:
    with pytest.raises(ConfigurationError, match="another source"):
        from_json({"logOffset": 3})


class Log:
    """Brokers that know one partition and what the test says of it."""

    def __init__(self, end: int) -> None:
        self.first, self.end = 0, end
        self.topic_ids: dict[str, UUID | None] = {"t": UUID(int=1)}

    def partitions(self, **_: bool) -> list[TopicPartition]:
        return [A]

    def resolve(self, *_: Any) -> dict[TopicPartition, int]:
        return {A: self.end}

    def earliest(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.first)

    def latest(self, partitions: list[TopicPartition], _: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.end)


def planner(log: Log, **options: str) -> StreamPlanner:
    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "failOnDataLoss": "false", **options}
    made = StreamPlanner(ReadOptions.parse(given, streaming=True))
    made.close()
    made._brokers = log  # type: ignore[assignment]
    return made


def spans(plan: StreamPlanner, start: int, end: int) -> list[tuple[int, int]]:
    return [(r.start, r.end) for r in plan.ranges({A: start}, {A: end})]


def test_a_start_that_moves_is_fixed_by_an_empty_first_batch(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(100)
    plan = planner(log, startingOffsets="latest", failOnDataLoss="true")
    start = plan.initial()
    log.end = 103
    assert plan.latest(start, None, False) == start == {A: 100}
    assert spans(plan, 100, 100) == []
    assert plan.latest(start, None, False) == {A: 103}
    # Restarted before the first micro-batch was finished, after five more records.
    log.end = 105
    again = planner(log, startingOffsets="latest", failOnDataLoss="true")
    assert again.initial() == {A: 105}
    assert [spans(again, 105, 100) for _ in range(2)] == [[], []], "Spark may plan a micro-batch more than once"
    assert again.latest({A: 100}, None, False) == {A: 105}
    assert spans(again, 100, 105) == [(100, 105)]
    with pytest.raises(DataLossError, match="went from offset 105 back to 101"):
        spans(again, 105, 101)
    assert not caplog.records


def test_a_start_that_stays_needs_no_empty_batch() -> None:
    for start in ("earliest", '{"t":{"0":3}}'):
        plan = planner(Log(9), startingOffsets=start)
        assert plan.latest(plan.initial(), None, False) == {A: 9}


def test_an_end_before_its_start_is_read_again_only_from_another_topic(caplog: pytest.LogCaptureFixture) -> None:
    log = Log(1_000)
    plan = planner(log, startingOffsets="earliest")
    assert plan.latest({A: 0}, None, False) == {A: 1_000}
    assert spans(plan, 0, 1_000) == [(0, 1_000)]
    log.end = 990
    assert spans(plan, 1_000, plan.latest({A: 1_000}, None, False)[A]) == []
    assert "went from offset 1000 back to 990" in caplog.text
    log.end, log.topic_ids = 7, {"t": UUID(int=2)}
    end = plan.latest({A: 990}, None, False)[A]
    assert [spans(plan, 990, end) for _ in range(2)] == [[(0, 7)]] * 2
    assert "topic t was deleted and made again" in caplog.text
    # From now on it is the topic that is read.
    log.end = 9
    assert spans(plan, 7, plan.latest({A: 7}, None, False)[A]) == [(7, 9)]
    log.end, log.topic_ids = 50, {"t": UUID(int=3)}
    end = plan.latest({A: 9}, 20, False)[A]
    assert (end, spans(plan, 9, end)) == (20, [(0, 20)]), "the limit counts from its first record"


def test_available_now_ends_where_the_log_ended_at_first() -> None:
    log = Log(10)
    plan = planner(log, startingOffsets="earliest", maxOffsetsPerTrigger="6")
    plan.freeze()
    log.end = 12
    assert plan.latest({A: 0}, 6, False) == {A: 6}
    log.end = 20
    assert plan.latest({A: 6}, 6, False) == {A: 12}
    assert plan.latest({A: 12}, 6, False) == {A: 12}


def at(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)


@pytest.mark.parametrize(
    ("filters", "allowed", "clipped"),
    [
        ([], [A, B, C], (0, 100)),
        ([spark.EqualTo(("partition",), 1)], [B], (0, 100)),
        ([spark.In(("partition",), (0, 2, None))], [A, C], (0, 100)),
        ([spark.EqualTo(("topic",), "u")], [], (0, 100)),
        ([spark.GreaterThan(("offset",), 7), spark.LessThanOrEqual(("offset",), 9)], [A, B, C], (8, 10)),
        ([spark.EqualTo(("offset",), 7)], [A, B, C], (7, 8)),
        ([spark.In(("offset",), (7, 20))], [A, B, C], (7, 21)),
        ([spark.LessThan(("offset",), -3)], [A, B, C], (0, 0)),
        ([spark.Not(spark.EqualTo(("partition",), 1))], [A, B, C], (0, 100)),
        ([spark.EqualTo(("value", "field"), 1), spark.IsNotNull(("offset",))], [A, B, C], (0, 100)),
    ],
)
def test_predicates(filters: list[Any], allowed: list[TopicPartition], clipped: tuple[int, int]) -> None:
    predicates = Predicates()
    predicates.take(filters)
    assert [tp for tp in (A, B, C) if predicates.allow(tp)] == allowed
    assert predicates.clip(0, 100) == clipped


def test_only_lower_bounds_of_time_help() -> None:
    predicates = Predicates()
    predicates.take([spark.GreaterThanOrEqual(("timestamp",), at(5_000)), spark.LessThan(("timestamp",), at(9_000))])
    assert predicates.since_ms == 5_000
    predicates.take([spark.GreaterThan(("timestamp",), at(7_000).replace(tzinfo=None))])
    assert predicates.since_ms == 7_000


def test_earlier_versions_of_spark_have_no_limits() -> None:
    from samsarrow.spark.stream_earlier import EarlierStreamReader

    given = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t", "maxOffsetsPerTrigger": "5"}
    with pytest.raises(ConfigurationError, match=r"maxOffsetsPerTrigger needs Spark 4\.2"):
        EarlierStreamReader(ReadOptions.parse(given, streaming=True))


def test_rows_of_earlier_versions_become_arrow() -> None:
    import pyarrow as pa
    from pyspark.sql import Row
    from pyspark.sql.types import DoubleType

    from samsarrow.spark.schema import spark_schema
    from samsarrow.spark.stream_writer_earlier import to_batches

    header = [Row(key="h", value=b"1")]
    when = datetime.datetime(2024, 5, 6, 7, 8, 9)
    names = ("key", "value", "headers", "timestamp", "size")
    rows = [Row(*names)(*values) for values in (("k", b"v", header, when, 1.5), (None,) * 5)]
    schema = spark_schema(("key", "value", "headers", "timestamp"), ("key",)).add("size", DoubleType())
    (batch,) = to_batches(iter(rows), schema)
    assert batch.schema.names == ["key", "value", "headers", "timestamp"]
    assert batch.column("timestamp").type == pa.timestamp("us", "UTC")
    assert batch.to_pylist() == [
        {
            "key": "k",
            "value": b"v",
            "headers": [{"key": "h", "value": b"1"}],
            "timestamp": when.astimezone(datetime.UTC),
        },
        {"key": None, "value": None, "headers": None, "timestamp": None},
    ]
