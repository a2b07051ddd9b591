"""Options of the data source: the connector's names and rules, without Spark or a broker."""

from typing import Any

import pytest

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.bounds import EARLIEST, LATEST
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange, split

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def parse(**options: str) -> ReadOptions:
    return ReadOptions.parse({**BASE, **options})


def test_defaults_are_the_connectors() -> None:
    o = parse()
    assert o.ending is not None
    assert (o.topics, o.assigned, o.pattern) == (("t",), None, None)
    assert (o.starting.everywhere, o.ending.everywhere) == (EARLIEST, LATEST)
    assert o.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert (o.min_partitions, o.poll_timeout_s, o.fail_on_data_loss, o.retries) == (None, 120.0, True, 3)
    assert o.kafka == {"bootstrap.servers": "localhost:9092", "client.id": "samsarrow-spark"}
    stream = ReadOptions.parse(BASE, streaming=True)
    assert (stream.starting.everywhere, stream.ending, stream.max_delay_s) == (LATEST, None, 900.0)


def test_names_are_case_insensitive() -> None:
    o = parse(STARTINGOFFSETS='{"t":{"0":-2,"1":7}}', includeheaders="TRUE")
    assert o.starting.offsets == {("t", 0): -2, ("t", 1): 7}
    assert "headers" in o.columns


def test_subscribe_splits_and_strips() -> None:
    assert parse(subscribe=" a, b,a,").topics == ("a", "b")


def test_assign_is_json() -> None:
    o = ReadOptions.parse({"kafka.bootstrap.servers": "h:1", "assign": '{"t":[2,0,2]}'})
    assert o.assigned == {"t": (0, 2)}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers must be given"),
        ({"assign": '{"t":[0]}'}, "exactly one of the options"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be 'latest'"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be 'earliest'"),
        ({"startingOffsets": "yesterday"}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, r"-1 \(latest\) of t-0"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, r"-2 \(earliest\) of t-0"),
        ({"endingOffsets": '{"t":[1]}'}, "must map to numbers per partition"),
        ({"endingOffsets": '{"t":{"x":1}}'}, "not a partition and an offset"),
        ({"includeHeaders": "yes"}, "true or false"),
        ({"minPartitions": "0"}, "greater than 0"),
        ({"kafka.auto.offset.reset": "none"}, "use the option startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "never commits"),
        ({"kafka.key.deserializer": "x"}, "layout=string"),
        ({"kafka.interceptor.classes": "x"}, "Java classes"),
        ({"subscribePattern": "t.*"}, "exactly one of the options"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"columns": "key,colour"}, "there is no column 'colour'"),
        ({"columns": "key,KEY"}, "names a column twice"),
        ({"layout": "text"}, "layout must be binary, string"),
        ({"layout": "offset:string"}, "layout must be binary, string"),
        ({"maxRecordsPerPartition": "-1"}, "greater than 0"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp must be a whole number"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, "a time in milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"endingOffsets": "group"}, "only startingOffsets can"),
        ({"startingOffsets": "group"}, "needs the option kafka.group.id"),
        ({"commitOffsets": "true", "kafka.group.id": "g"}, "for streaming queries"),
        ({"maxTriggerDelay": "soon"}, "a time such as 15m"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "cannot be larger"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
    ],
)
def test_bad_options_say_what_is_wrong(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse(**options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} cannot be used in a streaming query"):
        ReadOptions.parse({**BASE, name: "latest"}, streaming=True)


def test_times_beat_offsets_and_one_time_beats_many() -> None:
    o = parse(startingOffsets="earliest", startingOffsetsByTimestamp='{"t":{"0":5}}', startingTimestamp="7")
    assert (o.starting.time, o.starting.times) == (7, None)
    o = parse(endingOffsets="latest", endingOffsetsByTimestamp='{"t":{"0":5}}')
    assert o.ending is not None
    assert o.ending.times == {("t", 0): 5}


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("2 min", 120), ("250ms", 0.25), ("3", 0.003), ("1h", 3600)]
)
def test_durations_are_spark_s(text: str, seconds: float) -> None:
    assert parse(maxTriggerDelay=text).max_delay_s == pytest.approx(seconds)


def test_columns_and_layout() -> None:
    o = parse(columns="offset, VALUE", layout="value:string", includeHeaders="true")
    assert (o.columns, o.text) == (("offset", "value"), {"value"})
    assert parse(layout="string").text == {"key", "value"}


def test_the_isolation_level_goes_to_the_consumer() -> None:
    assert parse(**{"isolation.level": "read_committed"}).kafka["isolation.level"] == "read_committed"


def test_split_covers_each_range_once() -> None:
    ranges = [OffsetRange("t", 0, 10, 110), OffsetRange("t", 1, 0, 3)]
    parts = split(ranges, 7)
    assert 7 <= len(parts) <= 8
    for r in ranges:
        mine = [p for p in parts if p.partition == r.partition]
        assert [o for p in mine for o in range(p.start, p.end)] == list(range(r.start, r.end))
        assert all(len(p) > 0 for p in mine)


def test_split_leaves_enough_partitions_alone() -> None:
    ranges = [OffsetRange("t", p, 0, 5) for p in range(3)]
    assert split(ranges, 3) == ranges
    assert split(ranges, None) == ranges
    assert split([], 4) == []


def test_split_is_the_connectors() -> None:
    """Numbers from the rules of its calculator: small ranges stay whole, the large ones share the rest."""
    sizes = {0: 2, 1: 1, 2: 1000}
    parts = split([OffsetRange("t", p, 0, n) for p, n in sizes.items()], 6)
    assert [(p.partition, len(p)) for p in parts] == [(0, 2), (1, 1), (2, 250), (2, 250), (2, 250), (2, 250)]
    parts = split([OffsetRange("t", 0, 0, 7)], None, 3)
    assert [(p.start, p.end) for p in parts] == [(0, 2), (2, 4), (4, 7)]
    assert split([OffsetRange("t", 0, 5, 5), OffsetRange("t", 1, 9, 3)], 4, 2) == []
