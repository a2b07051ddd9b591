"""Options of the data source: the connector's names and rules, without Spark or a broker."""

from typing import Any

import pytest

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.options import EARLIEST, LATEST, ReadOptions
from samsarrow.spark.ranges import OffsetRange, split

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def parse(**options: str) -> ReadOptions:
    return ReadOptions.parse({**BASE, **options})


def test_defaults_are_the_connectors() -> None:
    o = parse()
    assert (o.topics, o.assigned, o.starting, o.ending) == (("t",), None, EARLIEST, LATEST)
    assert (o.include_headers, o.min_partitions, o.poll_timeout_s) == (False, None, 120.0)
    assert o.kafka == {"bootstrap.servers": "localhost:9092"}


def test_names_are_case_insensitive() -> None:
    o = parse(STARTINGOFFSETS='{"t":{"0":-2,"1":7}}', includeheaders="TRUE")
    assert o.starting == {"t": {0: -2, 1: 7}}
    assert o.include_headers


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
        ({"endingOffsets": '{"t":[1]}'}, "must map to offsets per partition"),
        ({"endingOffsets": '{"t":{"x":1}}'}, "not a partition and an offset"),
        ({"includeHeaders": "yes"}, "true or false"),
        ({"minPartitions": "0"}, "greater than 0"),
        ({"kafka.auto.offset.reset": "none"}, "use the option startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "never commits"),
        ({"subscribePattern": "t.*"}, "not available in this version"),
    ],
)
def test_bad_options_say_what_is_wrong(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse(**options)


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
