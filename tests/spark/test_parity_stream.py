"""Streams through Spark's own connector and our two sources return equal rows, offsets and kinds of errors."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kafka import KafkaServer
from support.parity import FORMATS, JVM, T0, Ahead, Topics, outcome
from support.spark import built_jar
from support.streams import Stream, produce

EARLIEST = {"startingOffsets": "earliest"}
PLAIN = {"subscribe": "parity-plain"} | EARLIEST
SOURCES = (*FORMATS, JVM) if built_jar() else FORMATS


def offsets(topic: str, *numbers: int) -> str:
    return json.dumps({f"parity-{topic}": {str(p): n for p, n in enumerate(numbers)}})


CASES: dict[str, dict[str, str]] = {
    "earliest": PLAIN,
    "latest by default": {"subscribe": "parity-plain"},
    "offsets": PLAIN | {"startingOffsets": offsets("plain", 30, -2, -1)},
    "one time": PLAIN | {"startingTimestamp": str(T0 + 2000)},
    "times": PLAIN | {"startingOffsetsByTimestamp": offsets("plain", T0 + 5000, T0 + 2000, T0)},
    "no record at one time, latest": PLAIN
    | {"startingTimestamp": str(T0 + 20_000), "startingOffsetsByTimestampStrategy": "latest"},
    "no record at one time": PLAIN | {"startingTimestamp": str(T0 + 20_000)},
    "one time beats times and offsets": PLAIN
    | {"startingTimestamp": str(T0 + 2000), "startingOffsetsByTimestamp": offsets("plain", T0, T0, T0)},
    "times beat offsets": PLAIN | {"startingOffsetsByTimestamp": offsets("plain", T0 + 2000, T0 + 2000, T0 + 2000)},
    "least": PLAIN | {"minOffsetsPerTrigger": "1000", "maxTriggerDelay": "1m"},
    "least and most": PLAIN | {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "40"},
    "group and retries": PLAIN | {"groupIdPrefix": "parity", "fetchOffset.numRetries": "1"},
    "assign": {"assign": '{"parity-plain":[2,0],"parity-empty":[1]}'} | EARLIEST,
    "pattern": {"subscribePattern": "parity-(plain|times)"} | EARLIEST,
    "shares of a limit": PLAIN | {"maxOffsetsPerTrigger": "20"},
    "shares of a small limit": {"subscribe": "parity-plain,parity-times", "maxOffsetsPerTrigger": "25"} | EARLIEST,
    "tasks": PLAIN | {"minPartitions": "5", "maxRecordsPerPartition": "15"},
    "committed": {"subscribe": "parity-transactions", "kafka.isolation.level": "read_committed"} | EARLIEST,
    "trimmed": {"subscribe": "parity-trimmed"} | EARLIEST,
    "trimmed, from an offset that is gone": {"subscribe": "parity-trimmed", "startingOffsets": offsets("trimmed", 3)},
    "trimmed, without failing": {
        "subscribe": "parity-trimmed",
        "startingOffsets": offsets("trimmed", 3),
        "failOnDataLoss": "false",
    },
    # Invalid options.
    "an end": PLAIN | {"endingOffsets": "latest"},
    "an ending time": PLAIN | {"endingTimestamp": str(T0)},
    "ending times": PLAIN | {"endingOffsetsByTimestamp": offsets("plain", T0, T0, T0)},
    "unknown topic": {"subscribe": "no-such-topic"} | EARLIEST,
    "offsets of some partitions": PLAIN | {"startingOffsets": offsets("plain", 1)},
    "least above most": PLAIN | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
    "limit that is none": PLAIN | {"maxOffsetsPerTrigger": "many"},
    "delay that is none": PLAIN | {"minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"},
    "refused": PLAIN | {"kafka.enable.auto.commit": "true"},
    "limit of 0": PLAIN | {"maxOffsetsPerTrigger": "0"},
}


# Options that our sources reject and the connector ignores: an end of a stream, and a limit of zero.
REFUSED = ("an ending time", "limit of 0")


@pytest.fixture(scope="module")
def ahead(
    request: pytest.FixtureRequest, spark: Any, topics: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ahead]:
    def run(name: str, source: str) -> Any:
        stream = Stream(spark, topics.kafka, tmp_path_factory.mktemp("checkpoint"), source, **CASES[name])
        error = outcome(stream.drain)
        if isinstance(error, str):
            return error
        return {number: sorted(map(tuple, found)) for number, found in stream.batches.items()}, stream.offsets()

    cases = Ahead(request, "test_stream_matches_connector", run, SOURCES)
    yield cases
    cases.close()


@pytest.mark.parametrize("name", CASES)
def test_stream_matches_connector(ahead: Ahead, name: str) -> None:
    results = ahead.result_of(name)
    by_jvm = results.pop(JVM, None)
    if by_jvm is not None:
        assert by_jvm == ("error: option" if name in REFUSED else results["kafka"])
    if name in REFUSED:
        assert results["samsarrow-python"] == "error: option"
        assert results["kafka"] != "error: option", "is docs/spark.md still true?"
    elif isinstance(results["samsarrow-python"], str):
        assert results["samsarrow-python"] == results["kafka"]
    else:
        # The Python source begins with an empty micro-batch, which stores the start of the query.
        (empty, *ours), ours_end = _in_order(results["samsarrow-python"])
        theirs, theirs_end = _in_order(results["kafka"])
        assert empty == []
        # No other micro-batch follows if the start is the end of the log.
        assert ours == (theirs if any(theirs) else [])
        assert ours_end == theirs_end


def test_trigger_once(spark: Any, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path) -> None:
    """The first run of the Python source is the empty micro-batch that stores the start."""
    topic = new_topic(1)
    produce(kafka, topic, {0: ["a", "b"]})
    for source in SOURCES:
        runs = [Stream(spark, kafka, tmp_path / source, source, subscribe=topic, **EARLIEST) for _ in range(2)]
        for run in runs:
            run.drain(once=True)
        results = [run.values() for run in runs]
        assert results == ([[], ["a", "b"]] if source == "samsarrow-python" else [["a", "b"], []]), source


def _in_order(results: Any) -> tuple[list[Any], Any]:
    """Returns the rows of each micro-batch in order, and the end offsets of the last one."""
    batches, ends = results
    return [batches[number] for number in sorted(batches)], ends[max(ends)]
