"""Queries that switch between Spark's connector and our two sources, in both directions, and keep their checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Producer
from support.kafka import KafkaServer
from support.parity import FORMATS, JVM, T0, outcome
from support.slow import WHOLE
from support.spark import need_jar
from support.streams import Stream, produce

NewTopicName = Callable[..., str]
Pair = tuple[str, str]
CONNECTOR, PYTHON = FORMATS
SOURCES = (*FORMATS, JVM)
PAIRS = [(one, other) for one in SOURCES for other in SOURCES if one != other]
# Pairs of sources in which each source starts a query once, and continues one once.
FEW = [(CONNECTOR, JVM), (JVM, PYTHON), (PYTHON, CONNECTOR)]
BOTH = pytest.mark.parametrize(
    "failing", [pytest.param(0, id="first-batch", marks=WHOLE), pytest.param(2, id="third-batch")]
)


def params(pairs: list[Pair]) -> list[Any]:
    return [pytest.param(pair, id="-to-".join(pair), marks=[] if pair in FEW else WHOLE) for pair in pairs]


@pytest.fixture(params=params(PAIRS))
def pair(request: pytest.FixtureRequest) -> Pair:
    """The source that starts a query, and the source that continues it."""
    if JVM in request.param:
        need_jar()
    first, second = request.param
    return first, second


def fails(stream: Stream, number: int) -> None:
    """Runs the query until a micro-batch fails. The checkpoint then has its end offsets, but not its commit."""
    stream.fail_in = number
    with pytest.raises(StreamingQueryException, match="on purpose"):
        stream.drain()
    stream.fail_in = None
    assert max(stream.offsets()) == number
    assert not (stream.checkpoint / "commits" / str(number)).exists()


def numbered(letter: str, *numbers: int) -> list[str]:
    return [f"{letter}{number:02}" for number in range(*numbers)]


@BOTH
def test_query_continues_with_other_source(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path, pair: Pair, failing: int
) -> None:
    """Runs several micro-batches with one source, fails one, continues with the other, and returns to the first."""
    topic = new_topic(2)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    # The Python source begins a query with an empty micro-batch.
    first = int(pair[0] == PYTHON)
    failing += first if failing else 0
    one, two, three = (Stream(spark, kafka, tmp_path, source, **options) for source in (*pair, pair[0]))
    produce(kafka, topic, {0: numbered("a", 15), 1: numbered("b", 5)})
    fails(one, failing)
    planned = one.offsets()
    two.drain()
    assert two.offsets()[failing] == planned[failing]
    produce(kafka, topic, {0: numbered("a", 15, 20), 1: numbered("b", 5, 10)})
    three.drain()
    assert [sorted(stream.batches) for stream in (one, two, three)] == [
        list(range(failing)),
        list(range(failing, 5 + first)),
        [5 + first, 6 + first, 7 + first],
    ]
    assert sorted(one.values() + two.values() + three.values()) == numbered("a", 20) + numbered("b", 10)
    ends = three.offsets()
    for stream in (one, two, three):
        for number, rows in stream.batches.items():
            begin = ends[number - 1][topic] if number else {"0": 0, "1": 0}
            expected = {(p, at) for p in (0, 1) for at in range(begin[str(p)], ends[number][topic][str(p)])}
            assert {(row.partition, row.offset) for row in rows} == expected, number


def windows(frame: Any) -> Any:
    """Counts values in windows of ten seconds, emitted after the watermark."""
    from pyspark.sql.functions import window

    frame = frame.withWatermark("timestamp", "1 second").selectExpr("timestamp", "cast(value as string) value")
    counts = frame.groupBy(window("timestamp", "10 seconds"), "value").count()
    return counts.selectExpr(f"cast(unix_millis(window.start) - {T0} as int) start", "value", "count")


def duplicates(frame: Any) -> Any:
    """Drops duplicate values."""
    frame = frame.withWatermark("timestamp", "1 hour").selectExpr("timestamp", "cast(value as string) value")
    return frame.dropDuplicatesWithinWatermark(["value"]).select("value")


# For each kind of state: the query, the (second, value) records sent in each part, and the expected output of all
# parts.
STATES: dict[str, tuple[Callable[[Any], Any], list[list[tuple[int, str]]], list[tuple[Any, ...]]]] = {
    "windows": (
        windows,
        [[(0, "x"), (1, "x"), (2, "y")], [(3, "x"), (12, "y")], [(13, "y"), (14, "x"), (25, "x")]],
        [(0, "x", 3), (0, "y", 1), (10_000, "x", 1), (10_000, "y", 2)],
    ),
    "duplicates": (
        duplicates,
        [[(0, "x"), (1, "y"), (2, "x")], [(3, "x"), (4, "z"), (5, "z")], [(6, "y"), (7, "z"), (8, "w")]],
        [("w",), ("x",), ("y",), ("z",)],
    ),
}


@pytest.mark.parametrize("state", [pytest.param(name, marks=[] if name == "windows" else WHOLE) for name in STATES])
def test_state_continues_with_other_source(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path, pair: Pair, state: str
) -> None:
    """Windows that one source opened are closed with the other source, which also drops values that the first one has
    seen.
    """
    topic = new_topic(1)
    shape, parts, expected = STATES[state]
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "2"}
    streams = [Stream(spark, kafka, tmp_path, source, **options) for source in (*pair, pair[0])]
    for stream, part in zip(streams, parts, strict=True):
        stream.shape = shape
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for second, value in part:
                producer.send(topic, value, timestamp=T0 + second * 1000)
        if stream is streams[0]:
            fails(stream, 1)
        else:
            stream.drain()
    batches = [stream.batches for stream in streams]
    assert len(batches[1]) > 1
    assert len({number for numbers in batches for number in numbers}) == sum(map(len, batches)), "each is done once"
    actual = [tuple(row) for numbers in batches for rows in numbers.values() for row in rows]
    assert sorted(actual) == expected


def test_repeated_first_batch_at_latest(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path, pair: Pair
) -> None:
    """The offset of `latest` has moved since the query started."""
    topic = new_topic(1)
    produce(kafka, topic, {0: ["a0", "a1"]})
    fails(Stream(spark, kafka, tmp_path, pair[0], subscribe=topic), 0)
    produce(kafka, topic, {0: ["b0", "b1"]})
    two = Stream(spark, kafka, tmp_path, pair[1], subscribe=topic)
    if pair == (PYTHON, CONNECTOR):
        # Spark does not store the start of Python sources in the folder that the connector reads.
        assert outcome(two.drain) == "error: data loss"
        two = Stream(spark, kafka, tmp_path, pair[1], subscribe=topic, failOnDataLoss="false")
    two.drain()
    assert two.values() == ["b0", "b1"]


@pytest.mark.parametrize("pair", params([pair for pair in PAIRS if pair[0] != PYTHON]), indirect=True)
def test_records_before_first_batch_is_planned(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path, pair: Pair
) -> None:
    """The first batch is repeated with records between its start and its end. Only the JVM source reads the start from
    the checkpoint.
    """
    topic = new_topic(1)
    produce(kafka, topic, {0: ["a0", "a1"]})
    kept = tmp_path / "sources" / "0" / "0"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b'\0v1\n{"%s":{"0":1}}' % topic.encode())
    fails(Stream(spark, kafka, tmp_path, pair[0], subscribe=topic), 0)
    produce(kafka, topic, {0: ["b0"]})
    two = Stream(spark, kafka, tmp_path, pair[1], subscribe=topic)
    two.drain()
    assert two.values() == (["b0"] if pair[1] == PYTHON else ["a1", "b0"])
