"""`Results` and partial failures: accessing a failed item raises its error, and one exception contains all failures."""

import copy

import pytest

from samsarrow import TopicPartition
from samsarrow.admin_types import GroupLag, PartitionLag
from samsarrow.cluster_types import BrokerDescription
from samsarrow.exceptions import InvalidConfigError, KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from samsarrow.results import PartialFailureError, Results, failure
from samsarrow.types import OffsetAndMetadata, OffsetAndTimestamp


def test_access_to_a_failed_item_raises_its_error():
    error = UnknownTopicOrPartitionError("topic b")
    results = Results({"a": 1}, {"b": error}, ["b", "a"], str, int)
    assert (list(results), len(results), "b" in results, "c" in results) == (["b", "a"], 2, True, False)
    assert results["a"] == 1
    with pytest.raises(UnknownTopicOrPartitionError) as raised:
        results["b"]
    assert raised.value is error
    with pytest.raises(UnknownTopicOrPartitionError):
        dict(results)
    with pytest.raises(KeyError):
        results["c"]
    assert results.get("c") is None
    assert (dict(results.found), dict(results.errors)) == ({"a": 1}, {"b": error})
    assert "1 failed" in repr(results)
    assert results != {"a": 1}
    assert Results({"a": 1}, {}, ["a"], str, int) == {"a": 1}
    with pytest.raises(TypeError):
        results.found["x"] = 1


def test_table_columns_of_keys_and_values():
    tp, broker = TopicPartition("t", 3), BrokerDescription(1, "h", 9, None, False)
    table = Results({tp: OffsetAndTimestamp(5, 7)}, {}, [tp], TopicPartition, OffsetAndTimestamp | None).table()
    assert table.to_pylist() == [{"topic": "t", "partition": 3, "offset": 5, "timestamp": 7, "leader_epoch": None}]
    empty = Results({}, {}, [], TopicPartition, OffsetAndTimestamp).table()
    assert empty.schema == table.schema
    several = Results({1: (broker, broker), 2: ()}, {}, [1, 2], int, tuple[BrokerDescription]).table()
    assert several.column("key").to_pylist() == [1, 1]
    assert str(several.schema.field("fenced").type) == "bool"
    lag = GroupLag("g", (PartitionLag(tp, OffsetAndMetadata(2, "m"), 9, None),))
    [row] = Results({"g": lag}, {"h": KafkaError("no")}, ["g", "h"], str, GroupLag).table().to_pylist()
    assert row["partitions"][0]["partition"] == {"topic": "t", "partition": 3}
    assert row["partitions"][0]["committed"]["metadata"] == "m"


def test_partial_failure_class_of_equal_errors():
    exists = {name: TopicAlreadyExistsError(f"topic {name}") for name in ("a", "b")}
    raised = failure(exists, {"c": None})
    assert isinstance(raised, TopicAlreadyExistsError)
    assert isinstance(raised, PartialFailureError)
    assert (str(raised), dict(raised.failures), dict(raised.succeeded)) == (
        "topic a (and 1 more: topic b)", exists, {"c": None}
    )  # fmt: skip
    assert type(raised) is type(failure(exists, {}))
    mixed = failure({"a": exists["a"], "b": InvalidConfigError("x")}, {})
    assert type(mixed) is PartialFailureError
    many = failure({n: KafkaError(f"e{n}") for n in range(500)}, {})
    assert "and 499 more" in str(many)
    assert len(str(many)) < 200
    assert copy.copy(exists) == exists
