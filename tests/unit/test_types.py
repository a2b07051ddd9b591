"""Value types of the public API."""

import dataclasses
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from samsarrow import NewTopic, OffsetAndMetadata, TopicPartition
from samsarrow.types import to_milliseconds, to_seconds


def test_topic_partition_is_a_hashable_tuple():
    tp = TopicPartition("t", 1)
    assert tp == ("t", 1)
    assert {tp: 1}[TopicPartition("t", 1)] == 1
    assert pickle.loads(pickle.dumps(tp)) == tp


def test_defaults():
    assert OffsetAndMetadata(5) == (5, "", None)
    assert NewTopic("t").replication_factor == -1


def test_values_are_immutable():
    with pytest.raises(AttributeError):
        TopicPartition("t", 1).partition = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        NewTopic("t").name = "u"


def test_time_conversion():
    assert to_seconds(timedelta(milliseconds=1500)) == 1.5
    assert to_seconds(2) == 2
    assert to_seconds(None) is None
    assert to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, 500000, tzinfo=UTC)) == 1500
    assert to_milliseconds(7) == 7
