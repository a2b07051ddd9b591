"""Value types, results and errors can be pickled and copied."""

import collections.abc
import copy
import dataclasses
import enum
import importlib
import pickle
import types
import typing
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import Avro, Json, KafkaError, PartialFailureError, Producer, Results, TopicPartition
from samsarrow.exceptions import TopicAlreadyExistsError, UnknownTopicOrPartitionError
from samsarrow.results import failure
from samsarrow.types import OffsetAndTimestamp
from support.raising import raise_partial_failure

MODULES = (
    "samsarrow",
    "samsarrow.exceptions",
    "samsarrow.results",
    "samsarrow.types",
    "samsarrow.access",
    "samsarrow.admin_types",
    "samsarrow.cluster_types",
    "samsarrow.group_types",
    "samsarrow.group",
    "samsarrow.metrics",
    "samsarrow.offsets",
    "samsarrow.registry",
    "samsarrow.spark",
    "samsarrow.testing",
)
WAYS = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def public() -> dict[str, type]:
    """Returns the public classes by their qualified names."""
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        for one in (getattr(module, name) for name in names):
            if isinstance(one, type) and one.__module__.startswith("samsarrow"):
                found[f"{one.__module__}.{one.__qualname__}"] = one
    return found


def sample(kind: typing.Any) -> typing.Any:
    """Builds a sample value for a type annotation."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return sample(inner[0])
    if origin is tuple:
        return tuple(sample(one) for one in inner if one is not Ellipsis)
    if origin in (list, collections.abc.Sequence):
        return [sample(inner[0])]
    if origin in (dict, collections.abc.Mapping):
        return {sample(inner[0]): sample(inner[1])}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)[-1]
    if isinstance(kind, type) and issubclass(kind, Exception):
        return None
    if kind is UUID:
        return UUID(int=7)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        hints = typing.get_type_hints(kind, localns={"KafkaError": KafkaError})
        names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
        return kind(**{name: sample(hints[name]) for name in names})
    return kind("1") if kind in (str, int, float) else b"1" if kind is bytes else True if kind is bool else None


def is_record(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or hasattr(kind, "_fields") or issubclass(kind, enum.Enum)


RECORDS = {name: kind for name, kind in public().items() if is_record(kind)}
ERRORS = {
    name: kind
    for name, kind in public().items()
    if issubclass(kind, BaseException) and not issubclass(kind, PartialFailureError)
}


@pytest.mark.parametrize("way", WAYS)
def test_records_can_be_copied(way):
    for name, kind in RECORDS.items():
        value = sample(kind)
        again = WAYS[way](value)
        assert type(again) is type(value), name
        assert again == value


@pytest.mark.parametrize("way", WAYS)
def test_errors_can_be_copied(way):
    for name, kind in ERRORS.items():
        error = kind("why")
        error.note = {TopicPartition("t", 0): 1}
        error.add_note("more")
        again = WAYS[way](error)
        assert type(again) is type(error), name
        assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kinds", [(TopicAlreadyExistsError,), (TopicAlreadyExistsError, KafkaError), (KafkaError,)])
def test_partial_failures_can_be_copied(kinds, way):
    error = failure({kind.__name__: kind(f"why {kind.__name__}") for kind in kinds}, {"b": OffsetAndTimestamp(1, 2)})
    error.add_note("more")
    again = WAYS[way](error)
    assert type(again) is type(error)
    assert isinstance(again, kinds[0] if len(kinds) == 1 else KafkaError)
    assert (str(again), again.code, again.name, again.retriable) == (
        str(error),
        error.code,
        error.name,
        error.retriable,
    )
    assert again.succeeded == error.succeeded
    assert {k: (type(e), str(e)) for k, e in again.failures.items()} == {
        k: (type(e), str(e)) for k, e in error.failures.items()
    }
    assert again.__notes__ == ["more"]
    with pytest.raises(TypeError):
        again.failures["x"] = 1


@pytest.mark.parametrize("way", WAYS)
def test_results_can_be_copied(way):
    tp, other = TopicPartition("t", 0), TopicPartition("u", 0)
    results = Results(
        {tp: OffsetAndTimestamp(5, 7)},
        {other: UnknownTopicOrPartitionError("u")},
        [other, tp],
        TopicPartition,
        OffsetAndTimestamp | None,
    )
    again = WAYS[way](results)
    assert again == results
    assert list(again) == [other, tp]
    assert again.table() == results.table()
    with pytest.raises(UnknownTopicOrPartitionError, match=r"^u$"):
        again[other]


@pytest.mark.parametrize("way", WAYS)
def test_errors_with_circular_references_can_be_copied(way):
    error = KafkaError("first")
    error.partitions = {TopicPartition("t", 0): error, TopicPartition("t", 1): KafkaError("second")}
    again = WAYS[way](error)
    assert again.partitions.keys() == error.partitions.keys()
    assert str(again.partitions[TopicPartition("t", 1)]) == "second"


@pytest.mark.parametrize("way", WAYS)
def test_pickle_drops_a_pending_delivery(way):
    with Producer(bootstrap_servers="127.0.0.1:1") as producer:
        error = KafkaError("why")
        error.delivery = producer.send_batch("t", pa.table({"value": pa.array([], pa.binary())}))
        again = WAYS[way](error)
    assert again.delivery is (None if way == "pickle" else error.delivery)


@pytest.mark.parametrize("value", [Avro('"string"'), Json({"type": "object", "properties": {}})], ids=["avro", "json"])
def test_formats_can_be_pickled(value):
    assert type(pickle.loads(pickle.dumps(value))) is type(value)


def test_process_pool_raises_the_original_error():
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(TopicAlreadyExistsError, match="topic t exists") as raised,
    ):
        pool.submit(raise_partial_failure).result(60)
    assert isinstance(raised.value, PartialFailureError)
    assert dict(raised.value.succeeded) == {"u": None}
