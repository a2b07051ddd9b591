"""Creation of plans, for blocking and async clients."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import index
from typing import Any, Literal, NamedTuple, get_args

import pyarrow as pa

from samsarrow import _core
from samsarrow._consumer import ConsumerBase
from samsarrow._range_reader import DataLoss, name_of, recreated
from samsarrow.config import Secret, kafka_name, kind_of, merge
from samsarrow.exceptions import ConfigurationError, OffsetOutOfRangeError
from samsarrow.ranges.bounds import Bound, Position, check_end, check_start
from samsarrow.ranges.lookup import TopicIds, committed, schema_of
from samsarrow.ranges.plans import OPTIONAL_COLUMNS, OffsetRange, Offsets, OnDataLoss, Plan, Source, make, uses
from samsarrow.types import Seconds, TopicPartition, check_topic, to_seconds
from samsarrow.values.decode import Format, check_format

# Options that a bounded read sets itself.
_FIXED = {"auto.offset.reset": "none", "allow.auto.create.topics": False, "enable.auto.commit": False}
_DEFAULTS = {"isolation.level": "read_committed"}
_NOT_FOR_READS = ("group.id", "group.instance.id", *_FIXED)


class Request(NamedTuple):
    """Checked arguments of `plan` and `read`."""

    topic: str
    options: tuple[tuple[str, Any], ...]
    start: Position
    end: Position
    splits: int | None
    partitions: tuple[int, ...] | None
    columns: tuple[str, ...] | None
    key_format: Format | None
    value_format: Format | None
    on_decode_error: Literal["raise", "null"]
    raw_values: bool
    on_data_loss: OnDataLoss
    timeout: float | None

    def consumer(self, kind: type[ConsumerBase]) -> ConsumerBase:
        """Creates a consumer with the options and formats."""
        return kind(
            dict(self.options),
            key_format=self.key_format,
            value_format=self.value_format,
            on_decode_error=self.on_decode_error,
            raw_values=self.raw_values,
        )


def check_request(
    topic: str,
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    start: Bound,
    end: Bound,
    splits: int | None = None,
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    key_format: Format | None = None,
    value_format: Format | None = None,
    on_decode_error: Literal["raise", "null"] = "raise",
    raw_values: bool = False,
    on_data_loss: OnDataLoss = "raise",
    timeout: Seconds | None = None,
    start_name: str = "start",
) -> Request:
    """Checks the arguments of `plan` and `read`.

    Raises:
        ConfigurationError: an argument or option is invalid.
        TypeError: an argument has the wrong type.
    """
    check_topic(topic)
    if splits is not None and (not hasattr(splits, "__index__") or isinstance(splits, bool) or splits < 1):
        raise ConfigurationError(f"splits is a number of at least 1, not {splits!r}")
    if on_data_loss not in get_args(OnDataLoss):
        raise ConfigurationError(f"on_data_loss is 'raise' or 'skip', not {on_data_loss!r}")
    if on_decode_error not in ("raise", "null"):
        raise ConfigurationError(
            f"on_decode_error of a bounded read is 'raise' or 'null', not {on_decode_error!r}: use a Consumer for a "
            "DeadLetter"
        )
    seconds = to_seconds(timeout)
    if seconds is not None and not seconds > 0:
        raise ConfigurationError(f"timeout is a number of seconds above 0, not {timeout!r}")
    for argument, found in (("key_format", key_format), ("value_format", value_format)):
        if found is not None:
            check_format(found, argument)
    names = _column_names(columns)
    positions = Position.of(start_name, start, topic), Position.of("end", end, topic)
    check_start(*positions)
    if names is not None:
        # Decodes only keys and values that are read. A column of errors or raw values also needs the format.
        key_format = key_format if uses(names, "key") else None
        value_format = value_format if uses(names, "value") else None
        if key_format is None and value_format is None:
            on_decode_error, raw_values = "raise", False
    return Request(
        topic,
        _consumer_options(config, options, names),
        *positions,
        None if splits is None else index(splits),
        _numbers(partitions),
        names,
        key_format,
        value_format,
        on_decode_error,
        raw_values,
        on_data_loss,
        seconds,
    )


async def make_plan(consumer: ConsumerBase, request: Request) -> Plan:
    """Looks up the offsets of a plan.

    Args:
        consumer: consumer that `request.consumer` has created.
        request: arguments of the plan.

    Raises:
        UnknownTopicOrPartitionError: the topic does not exist.
        OffsetOutOfRangeError: an offset does not exist in the log, or offsets belong to a deleted topic.
        KafkaTimeoutError: no broker responded in time.
    """
    topic, run = request.topic, consumer._run
    limit = consumer._open.default_timeout() if request.timeout is None else request.timeout
    deadline = _core.Deadline(limit)
    partitions = _chosen(await consumer._partitions_for(topic, limit), request)
    listing = await TopicIds(run, request.options, topic).listing(deadline.left())
    topic_id = None if listing is None else listing.topic_id
    for position in (request.start, request.end):
        stored = position.offsets.topic_id if isinstance(position.offsets, Offsets) else None
        if stored is not None and topic_id is not None and stored != topic_id:
            raise recreated(topic)
    schema = _selected(await schema_of(consumer, topic), request)
    # Ends are looked up first: a record that is appended before the next lookup is part of the next read.
    ends = await consumer._end_offsets((partitions,), deadline.left())
    begins = await consumer._beginning_offsets((partitions,), deadline.left())
    bounds = []
    for position in (request.start, request.end):
        found: Mapping[TopicPartition, int | None] = {}
        if position.kind == "time":
            times = await consumer._offsets_for_times(dict.fromkeys(partitions, position.time), deadline.left())
            found = {tp: None if at is None else at.offset for tp, at in times.items()}
        elif position.kind == "group":
            found = await committed(run, request.options, position.group, partitions, deadline.left())
        bounds.append(position.at(begins, ends, found))
    source = Source(
        topic,
        topic_id,
        request.options,
        request.key_format,
        request.value_format,
        request.on_decode_error,
        request.raw_values,
        request.columns,
        schema,
        request.on_data_loss,
        limit,
    )
    ranges, losses = [], []
    beyond = [tp for tp in partitions if bounds[0][tp] > ends[tp]]
    log_ends = await _log_ends(consumer, request, beyond, deadline.left()) if beyond else {}
    for tp in partitions:
        start, end = bounds[0][tp], bounds[1][tp]
        if start > ends[tp] and start > log_ends[tp]:
            raise OffsetOutOfRangeError(
                f"{name_of(tp)} ends at offset {log_ends[tp]}, before {request.start.name} {start}: the log was "
                "truncated, or the topic was deleted and recreated; start at 'earliest' or at a time"
            )
        if request.end.kind != "latest":
            check_end(tp, end, max(ends[tp], log_ends.get(tp, 0)))
        if start < begins[tp]:
            loss = DataLoss(tp, start, min(begins[tp], max(start, end)))
            if loss.count:
                source.lose(loss, None)
                losses.append(loss)
            start = loss.end
        ranges.append(OffsetRange(tp, start, max(start, end)))
    return make(source, ranges, request.splits, losses)


async def _log_ends(
    consumer: ConsumerBase, request: Request, partitions: list[TopicPartition], timeout: float
) -> dict[TopicPartition, int]:
    """Returns high watermarks. With `read_committed`, a start may be past the last stable offset."""
    options = dict(request.options) | {"isolation.level": "read_uncommitted"}
    other = type(consumer)(options)
    try:
        return await other._end_offsets((partitions,), timeout)
    finally:
        await other._close(False, 0)


def _chosen(existing: list[TopicPartition], request: Request) -> list[TopicPartition]:
    if request.partitions is None:
        return existing
    numbers = {tp.partition: tp for tp in existing}
    if missing := [number for number in request.partitions if number not in numbers]:
        raise ConfigurationError(
            f"topic {request.topic} has {len(existing)} partitions, from 0 to {len(existing) - 1}: partitions has "
            f"{missing[0]}"
        )
    return [numbers[number] for number in request.partitions]


def _selected(schema: pa.Schema, request: Request) -> pa.Schema:
    if request.columns is None:
        return schema
    if missing := [name for name in request.columns if name not in schema.names]:
        raise ConfigurationError(
            f"topic {request.topic} has no column {missing[0]!r}: columns are {', '.join(schema.names)}"
        )
    return pa.schema([schema.field(name) for name in request.columns])


def _consumer_options(
    config: Mapping[str, Any] | None, options: Mapping[str, Any], columns: Collection[str] | None
) -> tuple[tuple[str, Any], ...]:
    """Returns the options of the consumer as pairs with Kafka's names, in which secrets are hidden from `repr`."""
    pairs = [(kafka_name(name), value) for name, value in merge(config, options)]
    given = [name for name, _ in pairs]
    for name in _NOT_FOR_READS:
        if name in given:
            if name == "auto.offset.reset":
                raise ConfigurationError(
                    "option auto.offset.reset does not apply to a bounded read: pass start= instead"
                )
            raise ConfigurationError(f"a bounded read is not a member of a group and commits nothing: omit {name}")
    if repeated := next((name for name in given if given.count(name) > 1), None):
        raise ConfigurationError(f"option {repeated} is given twice")
    merged = _DEFAULTS | dict(pairs) | _FIXED
    for column, option in OPTIONAL_COLUMNS.items():
        if columns is not None and column in columns:
            merged[option] = True
        elif columns is not None:
            merged.pop(option, None)
    return tuple(
        (name, Secret(value) if kind_of(name) == "secret" and isinstance(value, str) else value)
        for name, value in merged.items()
    )


def _column_names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names: [{columns!r}]")
    names = tuple(columns)
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(f"columns is a list of one or more names, not {columns!r}")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"columns has a name twice: {', '.join(names)}")
    return names


def _numbers(partitions: Iterable[int] | None) -> tuple[int, ...] | None:
    if partitions is None:
        return None
    if isinstance(partitions, int | str):
        raise TypeError(f"partitions is a list of partition numbers, not {partitions!r}")
    found = {number.partition if isinstance(number, TopicPartition) else number for number in partitions}
    for number in found:
        if not hasattr(number, "__index__"):
            raise TypeError(f"partitions is a list of partition numbers, which are int: got {number!r}")
    numbers = tuple(sorted(index(number) for number in found))
    if not numbers:
        raise ConfigurationError("partitions is empty: pass None to read all partitions")
    return numbers
