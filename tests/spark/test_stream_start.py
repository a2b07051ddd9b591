"""The start of a stream whose first micro-batch fails, after restarts with changed options, partitions or records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Admin, NewTopic, TopicPartition
from samsarrow.testing import Broker
from support.parity import JVM
from support.spark import built_jar
from support.streams import Stream, produce

SOURCES = ["samsarrow-python", *([JVM] if built_jar() else [])]
Query = Callable[..., Stream]


def numbers(start: int, end: int) -> list[str]:
    return [str(n) for n in range(start, end)]


@pytest.fixture(scope="module")
def earlier(spark: Any) -> str:
    """The source as used in Spark 4.0 and 4.1. Newer versions of Spark still call its `latestOffset` without a
    start.
    """
    from samsarrow.spark.datasource import KafkaDataSource
    from samsarrow.spark.stream_spark40 import Spark40StreamReader

    # Local classes are pickled by value, so workers need not import this module.
    class EarlierSource(KafkaDataSource):
        @classmethod
        def name(cls) -> str:
            return "samsarrow-earlier"

        def streamReader(self, schema: Any) -> Any:
            return Spark40StreamReader(self._options(schema, streaming=True))

    spark.dataSource.register(EarlierSource)
    return EarlierSource.name()


@pytest.fixture(params=SOURCES)
def query(request: pytest.FixtureRequest, spark: Any, broker: Broker, tmp_path: Path) -> Query:
    def make(**options: str) -> Stream:
        return Stream(spark, broker, tmp_path / "checkpoint", request.param, **options)  # type: ignore[arg-type]

    return make


@pytest.fixture
def topic(request: pytest.FixtureRequest, broker: Broker) -> str:
    """A topic with 26 records."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    broker.create_topic(name, 1)
    produce(broker, name, {0: numbers(0, 26)})  # type: ignore[arg-type]
    return name


def fail(stream: Stream, number: int) -> None:
    stream.fail_in = number
    with pytest.raises(StreamingQueryException, match="on purpose"):
        stream.drain()
    assert max(stream.offsets()) == number


def test_added_partitions_and_topics(query: Query, broker: Broker, topic: str) -> None:
    options = {"subscribePattern": f"^{topic}.*", "startingOffsets": "earliest", "failOnDataLoss": "true"}
    fail(query(**options), 0)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: 2})
        admin.create_topics([NewTopic(f"{topic}-more", 1, 1)])
    produce(broker, topic, {1: ["a"]})  # type: ignore[arg-type]
    produce(broker, f"{topic}-more", {0: ["b"]})  # type: ignore[arg-type]
    again = query(**options)
    again.drain()
    assert again.values() == [*numbers(0, 26), "a", "b"]


def test_spark40(spark: Any, broker: Broker, topic: str, earlier: str, tmp_path: Path) -> None:
    """If the first micro-batch has records, a partition added before its repetition is not lost."""
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": "true"}
    runs = [Stream(spark, broker, tmp_path / "checkpoint", earlier, **options) for _ in range(3)]  # type: ignore[arg-type]
    fail(runs[0], 0)
    assert runs[0].offsets() == {0: {topic: {"0": 26}}}
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_partitions({topic: 2})
    produce(broker, topic, {1: ["a"]})  # type: ignore[arg-type]
    for run in runs[1:]:
        run.drain()
    # In its second run, Trigger.AvailableNow only repeats the failed micro-batch. The next run reads the new partition.
    assert [run.values() for run in runs] == [[], numbers(0, 26), ["a"]]


def test_spark40_at_latest(spark: Any, broker: Broker, topic: str, earlier: str, tmp_path: Path) -> None:
    """The first micro-batch is empty if `latest` has moved, because its end is then before its start."""
    runs = [Stream(spark, broker, tmp_path / "checkpoint", earlier, subscribe=topic) for _ in range(3)]  # type: ignore[arg-type]
    fail(runs[0], 0)
    produce(broker, topic, {0: ["new"]})  # type: ignore[arg-type]
    for run in runs[1:]:
        run.drain()
    assert [run.values() for run in runs] == [[], [], ["new"]]


def test_changed_options(query: Query, broker: Broker, topic: str) -> None:
    fail(query(subscribe=topic, startingOffsets="earliest"), 0)
    again = query(subscribe=topic, startingOffsets="latest")
    again.drain()
    assert again.values() == numbers(0, 26)


def test_latest_start_precedes_new_records(query: Query, broker: Broker, topic: str) -> None:
    fail(query(subscribe=topic, startingOffsets="latest"), 0)
    produce(broker, topic, {0: ["new"]})  # type: ignore[arg-type]
    again = query(subscribe=topic, startingOffsets="latest")
    again.drain()
    assert again.values() == ["new"]


@pytest.mark.parametrize("strict", ["true", "false"])
def test_deleted_records(query: Query, broker: Broker, topic: str, strict: str) -> None:
    options = {"subscribe": topic, "startingOffsets": "earliest", "failOnDataLoss": strict}
    fail(query(**options), 0)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 8})
    again = query(**options)
    if strict == "true":
        with pytest.raises(StreamingQueryException, match=r"DataLossError|failOnDataLoss=false"):
            again.drain()
        assert again.values() == []
    else:
        again.drain()
        assert again.values() == numbers(8, 26)
