"""Plans without a broker: cutting, pickling, stored offsets, and arguments that are rejected."""

import json
import pickle
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import TopicPartition, ranges
from samsarrow._range_reader import DataLoss
from samsarrow.config import Secret
from samsarrow.exceptions import ConfigurationError
from samsarrow.ranges import OffsetRange, Offsets, Plan, plans
from samsarrow.ranges.bounds import Position

ID = UUID(int=7)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def planned(*found: OffsetRange, splits: int | None = None) -> Plan:
    options = (("bootstrap.servers", "nowhere:1"), ("sasl.password", Secret("opensesame")), ("client.id", "${env:ID}"))
    schema = pa.schema({"value": pa.binary()})
    source = plans.Source("t", ID, options, None, None, "raise", False, None, schema, "skip", 60.0)
    return plans.make(source, found, splits, [DataLoss(T0, 3, 5)])


def offsets_of(parts: list[tuple[OffsetRange, ...]]) -> list[tuple[TopicPartition, int]]:
    return [(one.partition, offset) for part in parts for one in part for offset in range(one.start, one.end)]


def test_parts_have_every_offset_once_and_similar_sizes() -> None:
    random_numbers = random.Random(1)
    for _ in range(300):
        starts = [random_numbers.randrange(100) for _ in range(random_numbers.randrange(1, 6))]
        found = [
            OffsetRange(TopicPartition("t", number), start, start + random_numbers.choice([0, 1, 7, 100]))
            for number, start in enumerate(starts)
        ]
        splits = random_numbers.randrange(1, 70)
        parts = plans.cut(found, splits)
        assert offsets_of(parts) == offsets_of([tuple(found)])
        sizes = [plans.count(part) for part in parts]
        assert len(parts) == min(splits, plans.count(found))
        assert not sizes or max(sizes) - min(sizes) <= 1
        assert all(len({one.partition for one in part}) == len(part) for part in parts)


def test_parts_are_partitions_by_default() -> None:
    found = [OffsetRange(T0, 0, 5), OffsetRange(T1, 2, 2), OffsetRange(T2, 1, 9)]
    assert plans.cut(found, None) == [(found[0],), (found[2],)]
    assert plans.cut([], 4) == plans.cut([found[1]], 4) == []


def test_plan_and_splits_pickle() -> None:
    plan = planned(OffsetRange(T0, 5, 9), OffsetRange(T1, 4, 4), OffsetRange(T2, 0, 60), splits=3)
    copied = pickle.loads(pickle.dumps(plan))
    assert copied == plan
    assert copied.schema == plan.schema
    assert copied.estimated_rows == 64
    assert copied.losses == (DataLoss(T0, 3, 5),)
    assert dict(copied.next_start()) == {T0: 9, T1: 4, T2: 60}
    assert pickle.loads(pickle.dumps(plan.splits[1])) == plan.splits[1]
    assert dict(copied._source.options)["client.id"] == "${env:ID}"
    password = dict(copied._source.options)["sasl.password"]
    assert password == "opensesame"
    assert isinstance(password, Secret)


def test_secrets_are_not_shown() -> None:
    plan = planned(OffsetRange(T0, 5, 9))
    for shown in (plan, plan.splits, plan._source, plan._source.options, plan.next_start()):
        assert "opensesame" not in repr(shown)
        assert "opensesame" not in str(shown)
    assert repr(plan) == "<Plan of t: 1 partitions, 4 offsets, 1 splits>"
    assert repr(plan.splits[0]) == "<Split t-0 5 to 9>"


def test_plan_is_frozen() -> None:
    plan = planned(OffsetRange(T0, 5, 9))
    with pytest.raises(AttributeError, match="cannot assign to field"):
        plan.splits = ()  # type: ignore[misc]


@pytest.mark.parametrize("what", ["plan", "split"])
def test_pickle_of_another_version_is_an_error(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(OffsetRange(T0, 5, 9))
    monkeypatch.setattr(plans, "FORMAT", 99)
    pickled = pickle.dumps(plan if what == "plan" else plan.splits[0])
    monkeypatch.undo()
    with pytest.raises(ConfigurationError, match=f"the pickled {what}: format 99 is unknown .* use the same version"):
        pickle.loads(pickled)


def test_offsets_are_stored_as_text() -> None:
    offsets = Offsets("t", {T0: 5, T2: 0}, ID)
    for copied in (Offsets.from_json(offsets.to_json()), pickle.loads(pickle.dumps(offsets))):
        assert (dict(copied), copied.topic, copied.topic_id) == ({T0: 5, T2: 0}, "t", ID)
    assert dict(Position.of("start", offsets.to_json(), "t").offsets) == {T0: 5, T2: 0}
    later = json.dumps(json.loads(offsets.to_json()) | {"format": 2})
    with pytest.raises(ConfigurationError, match="these offsets: format 2 is unknown"):
        Offsets.from_json(later)
    for text in ("{}", "[]", "null", "{", '{"format": 1, "topic": "t", "topic_id": null, "offsets": {"x": 1}}'):
        with pytest.raises(ConfigurationError, match="is not the JSON text"):
            Offsets.from_json(text)


def test_times_in_all_forms() -> None:
    at = datetime(2026, 11, 1, tzinfo=UTC)
    for bound in (at, "2026-11-01T00:00Z", "2026-11-01T01:00:00+01:00"):
        assert Position.of("start", bound, "t").time == at.timestamp() * 1000
    assert Position.of("start", "2026-11-01", "t").time == datetime(2026, 11, 1).timestamp() * 1000
    hour = Position.of("start", timedelta(hours=1), "t").time / 1000
    assert hour == pytest.approx(datetime.now(UTC).timestamp() - 3600, abs=60)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"start": "yesterday"}, "start is 'earliest', 'latest', 'group:NAME'.*not 'yesterday'"),
        ({"end": "group:"}, "end is 'earliest'.*not 'group:'"),
        ({"start": 5}, "start is 'earliest', 'latest', a datetime, .* not int"),
        ({"start": timedelta(-1)}, "must not be negative"),
        ({"start": timedelta(days=200_000)}, "start .* is not between 1970 and 9999"),
        ({"start": "2026-11-02T00:00Z", "end": "2026-11-01T00:00Z"}, "start 2026-11-02.* is later than end 2026-11-01"),
        ({"start": {T0: -1}}, "start has offset -1 of t-0: offsets start at 0"),
        ({"start": {T0: "5"}}, "start has '5' as the offset of t-0: offsets are int"),
        ({"start": {T0: True}}, "start has True as the offset of t-0: offsets are int"),
        ({"start": {0: 5}}, "expected a TopicPartition, got 0"),
        ({"end": {TopicPartition("other", 0): 5}}, "end has an offset of topic other, but topic t is read"),
        ({"splits": 0}, "splits is a number of at least 1, not 0"),
        ({"splits": True}, "splits is a number of at least 1, not True"),
        ({"columns": "key"}, r"columns is a list of names: \['key'\]"),
        ({"columns": []}, "columns is a list of one or more names"),
        ({"columns": ["key", "key"]}, "columns has a name twice: key, key"),
        ({"partitions": 3}, "partitions is a list of partition numbers, not 3"),
        ({"partitions": []}, "partitions is empty"),
        ({"on_data_loss": "ignore"}, "on_data_loss is 'raise' or 'skip', not 'ignore'"),
        ({"on_decode_error": object()}, "on_decode_error of a bounded read is 'raise' or 'null'"),
        ({"timeout": 0}, "timeout is a number of seconds above 0, not 0"),
        ({"group_id": "g"}, "not a member of a group and commits nothing: omit group.id"),
        ({"auto_offset_reset": "latest"}, "auto.offset.reset does not apply"),
        ({"value_format": "jsn"}, "value_format must be Avro.* not 'jsn'"),
        ({"config": {"client.id": "a"}, "client_id": "b"}, "option client.id is given twice"),
        ({"klient_id": "b"}, "klient.id"),
    ],
)
def test_arguments_are_rejected_at_the_call(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises((ConfigurationError, TypeError), match=text):
        ranges.plan("t", **{"bootstrap_servers": "localhost:1", **arguments})


@pytest.mark.parametrize("topic", ["", None, ["t"]])
def test_topic_is_one_name(topic: Any) -> None:
    with pytest.raises(ConfigurationError, match="topic is the name of one topic"):
        ranges.plan(topic, bootstrap_servers="localhost:1")
