"""Batch reads through Spark's own connector and our two sources return equal rows, schemas and kinds of errors.

`DIFFERENT` lists intended differences, which docs/spark.md explains to users.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Admin, TopicPartition
from support.kafka import KafkaServer
from support.parity import FORMATS, JVM, T0, Ahead, Topics, outcome, rows
from support.spark import built_jar
from support.streams import Stream, produce

PLAIN = {"subscribe": "parity-plain"}
ALL = [0, 1, 2]
# If the jar is required but missing, the fixture `built` fails.
SOURCES = (*FORMATS, JVM) if built_jar() else FORMATS


def offsets(topic: str, *numbers: int) -> str:
    return json.dumps({f"parity-{topic}": {str(p): n for p, n in enumerate(numbers)}})


CASES: dict[str, dict[str, str]] = {
    "subscribe": PLAIN,
    "subscribe two topics": {"subscribe": "parity-plain, parity-times"},
    "subscribe with blanks": {"subscribe": " parity-plain ,,"},
    "subscribe an empty topic": {"subscribe": "parity-empty"},
    "assign": {"assign": '{"parity-plain":[2,0]}'},
    "assign two topics": {"assign": '{"parity-plain":[1],"parity-times":[0]}'},
    "pattern": {"subscribePattern": "parity-(plain|times)"},
    "pattern must match whole names": {"subscribePattern": "parity-pla"},
    "pattern of nothing": {"subscribePattern": "no-such-.*"},
    "headers": PLAIN | {"includeHeaders": "true"},
    "no headers": PLAIN | {"includeHeaders": "false"},
    "names in other cases": {"SUBSCRIBE": "parity-plain", "INCLUDEHEADERS": "true"},
    "earliest to latest": PLAIN | {"startingOffsets": "earliest", "endingOffsets": "latest"},
    "words in other cases": PLAIN | {"startingOffsets": "EARLIEST", "endingOffsets": "Latest"},
    "offsets": PLAIN | {"startingOffsets": offsets("plain", 3, 4, 0), "endingOffsets": offsets("plain", 9, 15, 2)},
    "symbols": PLAIN | {"startingOffsets": offsets("plain", -2, 5, -2), "endingOffsets": offsets("plain", 9, -1, -1)},
    "nothing between": PLAIN
    | {"startingOffsets": offsets("plain", 9, 15, 2), "endingOffsets": offsets("plain", 9, 15, 2)},
    "end before start": PLAIN
    | {"startingOffsets": offsets("plain", 9, 15, 3), "endingOffsets": offsets("plain", 4, 15, 3)},
    "start beyond the end": PLAIN | {"startingOffsets": offsets("plain", 90, 0, 0)},
    "one time": PLAIN | {"startingTimestamp": str(T0 + 2000)},
    "one time between records": PLAIN | {"startingTimestamp": str(T0 + 1500), "endingTimestamp": str(T0 + 9500)},
    "no record at one time": PLAIN | {"startingTimestamp": str(T0 + 20_000)},
    "no record at one time, latest": PLAIN
    | {"startingTimestamp": str(T0 + 20_000), "startingOffsetsByTimestampStrategy": "latest"},
    "strategy in other case": PLAIN
    | {"startingTimestamp": str(T0 + 20_000), "startingOffsetsByTimestampStrategy": "LATEST"},
    "times": PLAIN
    | {
        "startingOffsetsByTimestamp": offsets("plain", T0 + 5000, T0 + 2000, T0),
        "endingOffsetsByTimestamp": offsets("plain", T0 + 9000, T0 + 3000, T0 + 90_000),
    },
    "times and symbols": PLAIN
    | {
        "startingOffsetsByTimestamp": offsets("plain", T0 + 5000, -2, -2),
        "endingOffsetsByTimestamp": offsets("plain", T0 + 9000, T0 + 3000, -1),
    },
    "times of some partitions": PLAIN | {"startingOffsetsByTimestamp": offsets("plain", T0)},
    "one time beats times": PLAIN
    | {"startingTimestamp": str(T0 + 2000), "startingOffsetsByTimestamp": offsets("plain", T0, T0, T0)},
    "times beat offsets": PLAIN
    | {"startingOffsetsByTimestamp": offsets("plain", T0 + 2000, T0 + 2000, T0 + 2000), "startingOffsets": "earliest"},
    "ending one time beats": PLAIN | {"endingTimestamp": str(T0 + 3000), "endingOffsets": offsets("plain", 1, 1, 1)},
    "one time beats offsets": PLAIN
    | {"startingTimestamp": str(T0 + 2000), "startingOffsets": offsets("plain", 30, 14, 2)},
    "ending times beat offsets": PLAIN
    | {
        "endingOffsetsByTimestamp": offsets("plain", T0 + 3000, T0 + 2000, T0 + 1000),
        "endingOffsets": offsets("plain", 9, 9, 2),
    },
    "ending one time beats times": PLAIN
    | {
        "endingTimestamp": str(T0 + 2000),
        "endingOffsetsByTimestamp": offsets("plain", T0 + 9000, T0 + 9000, T0 + 9000),
    },
    "no record at the time of one partition": PLAIN
    | {"startingOffsetsByTimestamp": offsets("plain", T0 + 5000, T0 + 2000, T0 + 90_000)},
    "no record at the time of one partition, latest": PLAIN
    | {
        "startingOffsetsByTimestamp": offsets("plain", T0 + 5000, T0 + 2000, T0 + 90_000),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "starts by time, ends by offset": PLAIN
    | {"startingTimestamp": str(T0 + 1000), "endingOffsets": offsets("plain", 9, -1, 2)},
    "ending time after everything": PLAIN | {"endingTimestamp": str(T0 + 999_000)},
    "times that do not rise": {"subscribe": "parity-times", "startingTimestamp": str(T0 + 4000)},
    "min partitions": PLAIN | {"minPartitions": "9"},
    "max records per partition": PLAIN | {"maxRecordsPerPartition": "4"},
    "min partitions and max records": PLAIN | {"minPartitions": "20", "maxRecordsPerPartition": "10"},
    "codecs": {"subscribe": "parity-compressed"},
    "uncommitted": {"subscribe": "parity-transactions"},
    "committed": {"subscribe": "parity-transactions", "kafka.isolation.level": "read_committed"},
    "trimmed": {"subscribe": "parity-trimmed"},
    "trimmed, from an offset that is gone": {"subscribe": "parity-trimmed", "startingOffsets": offsets("trimmed", 3)},
    "trimmed, without failing": {
        "subscribe": "parity-trimmed",
        "startingOffsets": offsets("trimmed", 3),
        "failOnDataLoss": "false",
    },
    "trimmed, all of it gone": {
        "subscribe": "parity-trimmed",
        "startingOffsets": offsets("trimmed", 3),
        "endingOffsets": offsets("trimmed", 8),
        "failOnDataLoss": "false",
    },
    "group": PLAIN | {"kafka.group.id": "parity-group"},
    "group prefix": PLAIN | {"groupIdPrefix": "parity"},
    "group and prefix": PLAIN | {"kafka.group.id": "parity-group", "groupIdPrefix": "parity"},
    "poll timeout": PLAIN | {"kafkaConsumer.pollTimeoutMs": "20000"},
    "options of the consumer": PLAIN | {"kafka.max.poll.records": "7", "kafka.fetch.max.bytes": "1000"},
    "data loss that cannot be": PLAIN | {"failOnDataLoss": "FALSE"},
    "retries": PLAIN | {"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "5"},
    "stream limits are ignored": PLAIN | {"maxOffsetsPerTrigger": "3", "maxTriggerDelay": "1m"},
    # Invalid options.
    "nothing to read": {},
    "two things to read": PLAIN | {"assign": '{"parity-plain":[0]}'},
    "empty subscribe": {"subscribe": " , "},
    "empty pattern": {"subscribePattern": " "},
    "assign is no JSON": {"assign": "parity-plain"},
    "unknown topic": {"subscribe": "no-such-topic"},
    "start at latest": PLAIN | {"startingOffsets": "latest"},
    "start at -1": PLAIN | {"startingOffsets": offsets("plain", -1, 0, 0)},
    "end at earliest": PLAIN | {"endingOffsets": "earliest"},
    "end at -2": PLAIN | {"endingOffsets": offsets("plain", -2, 0, 0)},
    "offsets of some partitions": PLAIN | {"startingOffsets": offsets("plain", 1)},
    "offsets of too many": PLAIN | {"startingOffsets": offsets("plain", 1, 1, 1, 1)},
    "offsets are no JSON": PLAIN | {"startingOffsets": "yesterday"},
    "min partitions 0": PLAIN | {"minPartitions": "0"},
    "max records -1": PLAIN | {"maxRecordsPerPartition": "-1"},
    "min partitions many": PLAIN | {"minPartitions": "many"},
    "poll timeout that is none": PLAIN | {"kafkaConsumer.pollTimeoutMs": "soon"},
    "retries that are none": PLAIN | {"fetchOffset.numRetries": "often"},
    "data loss maybe": PLAIN | {"failOnDataLoss": "maybe"},
    "times are no JSON": PLAIN | {"startingOffsetsByTimestamp": "noon"},
    "headers maybe": PLAIN | {"includeHeaders": "maybe"},
    "time that is none": PLAIN | {"startingTimestamp": "noon"},
    "unknown strategy": PLAIN | {"startingTimestamp": str(T0), "startingOffsetsByTimestampStrategy": "guess"},
    "assign a partition that is not there": {"assign": '{"parity-plain":[0,7]}'},
    "a misspelt option": PLAIN | {"startingOffset": "earliest"},
    "auto.offset.reset": PLAIN | {"kafka.auto.offset.reset": "earliest"},
    "key.deserializer": PLAIN | {"kafka.key.deserializer": "x"},
    "value.deserializer": PLAIN | {"kafka.value.deserializer": "x"},
    "enable.auto.commit": PLAIN | {"kafka.enable.auto.commit": "true"},
    "interceptor.classes": PLAIN | {"kafka.interceptor.classes": "x"},
}

# Intended differences from the connector; docs/spark.md has the reasons.
DIFFERENT = {"assign a partition that is not there": "error: unknown topic", "a misspelt option": "error: option"}


@pytest.fixture(scope="module")
def ahead(request: pytest.FixtureRequest, spark: Any, topics: Topics) -> Iterator[Ahead]:
    def run(name: str, source: str) -> Any:
        options = {"kafka.bootstrap.servers": topics.kafka.bootstrap_servers, **CASES[name]}
        return outcome(lambda: rows(spark.read.format(source).options(**options).load()))

    cases = Ahead(request, "test_batch_read_matches_connector", run, SOURCES)
    yield cases
    cases.close()


@pytest.mark.parametrize("name", CASES)
def test_batch_read_matches_connector(ahead: Ahead, name: str) -> None:
    theirs, *ours = (ahead.result_of(name)[source] for source in SOURCES)
    if name in DIFFERENT:
        assert theirs != DIFFERENT[name], "no difference any more: is docs/spark.md still true?"
    assert ours == [DIFFERENT.get(name, theirs)] * len(ours)


def test_comparison_includes_the_jar(built: None) -> None:
    assert JVM in SOURCES


def test_reused_frame(spark: Any, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path) -> None:
    """Spark keeps the plan of a Python source for a DataFrame, views on it, and static sides of joins."""
    topic, facts = new_topic(1), new_topic(1)
    produce(kafka, topic, {0: ["a", "b"]})
    produce(kafka, facts, {0: ["c"]})
    config = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    frames = {source: spark.read.format(source).options(**config).load() for source in SOURCES}
    for source, frame in frames.items():
        frame.createOrReplaceTempView(f"used_{source.replace('-', '_')}")
        assert frame.count() == 2
    produce(kafka, topic, {0: ["c"]})
    for source, frame in frames.items():
        now = 2 if source == "samsarrow-python" else 3
        assert frame.count() == now, source
        assert spark.table(f"used_{source.replace('-', '_')}").count() == now, source
        assert spark.read.format(source).options(**config).load().count() == 3, "loaded again"
        stream = Stream(spark, kafka, tmp_path / source, source, subscribe=facts, startingOffsets="earliest")
        known = frame.selectExpr("string(value) word")
        stream.shape = lambda rows: rows.selectExpr("string(value) word").join(known, "word")  # noqa: B023
        stream.drain()
        results = [row.word for rows in stream.batches.values() for row in rows]
        assert results == ([] if source == "samsarrow-python" else ["c"]), source
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 1})
    for source, frame in frames.items():
        assert outcome(frame.count) == ("error: data loss" if source == "samsarrow-python" else 2), source


def test_unreachable_brokers(spark: Any) -> None:
    for source in SOURCES:
        assert outcome(lambda: rows(spark.read.format(source).options(**PLAIN).load())) == "error: option"  # noqa: B023


@pytest.mark.parametrize(
    "options",
    [
        {"minPartitions": "9"},
        {"minPartitions": "4"},
        # Without minPartitions, the connector ignores maxRecordsPerPartition in batches, but our sources do not.
        {"maxRecordsPerPartition": "11", "minPartitions": "12"},
    ],
)
def test_task_ranges_match_connector(spark: Any, topics: Topics, options: dict[str, str]) -> None:
    """Ranges are split at the connector's offsets, so a stream that switches sources keeps its tasks."""
    from pyspark.sql.functions import spark_partition_id

    outcomes = []
    for source in SOURCES:
        config = {"kafka.bootstrap.servers": topics.kafka.bootstrap_servers, **PLAIN, **options}
        frame = spark.read.format(source).options(**config).load()
        tasks: dict[int, set[tuple[int, int]]] = {}
        for row in frame.select(spark_partition_id().alias("task"), "partition", "offset").collect():
            tasks.setdefault(row.task, set()).add((row.partition, row.offset))
        outcomes.append(sorted(map(sorted, tasks.values())))
    assert outcomes[1:] == [outcomes[0]] * (len(SOURCES) - 1)
