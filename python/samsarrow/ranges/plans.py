"""Plans of bounded reads: offset ranges that are cut into splits, which any process can read."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from uuid import UUID

import pyarrow as pa

from samsarrow._range_reader import DataLoss, name_of
from samsarrow.config import HIDDEN
from samsarrow.exceptions import ConfigurationError, OffsetOutOfRangeError
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow.values.decode import Format

OnDataLoss = Literal["raise", "skip"]
"""Effect of offsets that retention or `delete_records` removes before they are read."""

OnLoss = Callable[[DataLoss], object]
"""Called with offsets that are skipped."""


class AsyncBatches(Protocol):
    """Async iterator over record batches, which `aclose` ends early."""

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]: ...

    async def __anext__(self) -> pa.RecordBatch: ...

    async def aclose(self) -> None:
        """Ends the read, and closes its consumer."""


# Version of pickled plans and splits, and of the JSON form of `Offsets`.
FORMAT = 1
# Columns for which options are set, and left out if the column is not read.
OPTIONAL_COLUMNS = {"headers": "include.headers", "leader_epoch": "include.leader.epoch"}
# Maximum number of ranges in the `repr` of a split.
_SHOWN = 5
_log = logging.getLogger("samsarrow.consumer")


class OffsetRange(NamedTuple):
    """Offsets of one partition.

    Attributes:
        partition: the partition.
        start: first offset.
        end: offset after the last offset; equal to `start` if the range is empty.
    """

    partition: TopicPartition
    start: int
    end: int


class Offsets(Mapping[TopicPartition, int]):
    """Offsets of the partitions of one topic, at which a read starts. They belong to one topic id.

    `plan` and `read` take them as `start`, and raise an error if the topic was deleted and created again since. Store
    them as text with `to_json`; `start` takes the text, too.
    """

    __slots__ = ("_offsets", "topic", "topic_id")

    topic: str
    """Name of the topic."""
    topic_id: UUID | None
    """Id of the topic; None if the brokers do not support topic ids."""

    def __init__(self, topic: str, offsets: Mapping[TopicPartition, int], topic_id: UUID | None = None) -> None:
        """Keeps a copy of the offsets.

        Args:
            topic: name of the topic.
            offsets: the next offset to read, by partition.
            topic_id: id of the topic, if it is known.
        """
        self.topic, self.topic_id, self._offsets = topic, topic_id, dict(offsets)

    def __getitem__(self, partition: TopicPartition) -> int:
        return self._offsets[partition]

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{tp.partition}: {offset}" for tp, offset in self._offsets.items())
        return f"<Offsets of {self.topic} {{{numbers}}}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_offsets, (self.to_json(),)

    def to_json(self) -> str:
        """Returns the offsets as one line of JSON."""
        return json.dumps(
            {
                "format": FORMAT,
                "topic": self.topic,
                "topic_id": None if self.topic_id is None else str(self.topic_id),
                "offsets": {str(tp.partition): offset for tp, offset in self._offsets.items()},
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Offsets:
        """Reads the result of `to_json`.

        Raises:
            ConfigurationError: the text is not such a result, or a newer version has written it.
        """
        try:
            fields = json.loads(text)
            check_format(fields["format"], "these offsets")
            topic, found = fields["topic"], fields["topic_id"]
            offsets = {TopicPartition(topic, int(number)): int(at) for number, at in fields["offsets"].items()}
            return cls(topic, offsets, None if found is None else UUID(found))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, ConfigurationError):
                raise
            raise ConfigurationError(f"{text[:100]!r} is not the JSON text of Offsets.to_json()") from None


def _restore_offsets(text: str) -> Offsets:
    return Offsets.from_json(text)


@dataclass(frozen=True, eq=False)
class Source:
    """Topic of a plan, and the options for reading its splits."""

    topic: str
    topic_id: UUID | None
    # Options of the consumer as pairs. References to config providers are not resolved.
    options: tuple[tuple[str, Any], ...]
    key_format: Format | None
    value_format: Format | None
    on_decode_error: Literal["raise", "null"]
    raw_values: bool
    columns: tuple[str, ...] | None
    schema: pa.Schema
    on_data_loss: OnDataLoss
    timeout: float

    def __repr__(self) -> str:
        return f"<topic {self.topic}, options {HIDDEN}>"

    def lose(self, loss: DataLoss, on_loss: OnLoss | None) -> None:
        """Skips lost offsets, or raises an error, as `on_data_loss` defines."""
        if self.on_data_loss == "raise":
            raise OffsetOutOfRangeError(
                f"{loss} cannot be read: retention or delete_records removed them; on_data_loss='skip' reads the rest"
            )
        _log.warning("%s cannot be read, and are skipped: retention or delete_records removed them", loss)
        if on_loss is not None:
            on_loss(loss)

    def select(self, columns: Sequence[str]) -> Source:
        """Returns the source with only these of its columns. Other keys and values are not decoded."""
        missing = [name for name in columns if name not in self.schema.names]
        if missing:
            raise ConfigurationError(
                f"the plan of topic {self.topic} has no column {missing[0]!r}: columns are "
                f"{', '.join(self.schema.names)}"
            )
        left_out = {option for name, option in OPTIONAL_COLUMNS.items() if name not in columns}
        key_format = self.key_format if uses(columns, "key") else None
        value_format = self.value_format if uses(columns, "value") else None
        decodes = key_format is not None or value_format is not None
        return replace(
            self,
            options=tuple(pair for pair in self.options if pair[0] not in left_out),
            key_format=key_format,
            value_format=value_format,
            on_decode_error=self.on_decode_error if decodes else "raise",
            raw_values=self.raw_values and decodes,
            columns=tuple(columns),
            schema=pa.schema([self.schema.field(name) for name in columns]),
        )

    def state(self) -> dict[str, Any]:
        """Returns the fields for a pickle."""
        return dict(vars(self))


@dataclass(frozen=True)
class Split:
    """A part of a plan, which any process can read. It pickles, and contains all options.

    Attributes:
        ranges: offsets to read, one range for each partition.
    """

    ranges: tuple[OffsetRange, ...]
    _source: Source = field(compare=False)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name_of(tp)} {start} to {end}" for tp, start, end in self.ranges[:_SHOWN])
        return f"<Split {shown}{f', {more} more' if (more := len(self.ranges) - _SHOWN) > 0 else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_split, (FORMAT, self._source.state(), [_row(one) for one in self.ranges])

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return self._source.topic

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._source.schema

    @property
    def estimated_rows(self) -> int:
        """The number of offsets, as in `Plan.estimated_rows`."""
        return count(self.ranges)

    def read(self, *, on_loss: OnLoss | None = None) -> pa.RecordBatchReader:
        """Returns a reader of the rows, which ends exactly at the end offsets.

        It reads without a group and commits nothing. Rows of a partition are in the order of their offsets. The reader
        has a consumer of its own, which it closes at the end, after an error, and when it is garbage collected.

        Args:
            on_loss: with `on_data_loss="skip"`, called with each `DataLoss`.

        Raises:
            ConfigurationError: an option is invalid on this machine.
            OffsetOutOfRangeError: raised by the reader if retention removed offsets that are not read yet, unless the
                plan has `on_data_loss="skip"`; if the log was truncated; or if the topic was deleted and recreated.
            UnknownTopicOrPartitionError: raised by the reader if the topic was deleted.
            KafkaTimeoutError: raised by the reader if no offset was read for `timeout` seconds. The message names the
                partitions.
            BadValueError: raised by the reader if a value cannot be decoded.
        """
        from samsarrow.ranges.split_read import BlockingBatches

        return pa.RecordBatchReader.from_batches(self.schema, BlockingBatches(self._source, self.ranges, on_loss))

    def aread(self, *, on_loss: OnLoss | None = None) -> AsyncBatches:
        """Reads the rows in an event loop, as `read` does: `async for batch in split.aread()`.

        If you leave the loop early, close the iterator, for example with `aclosing` of contextlib.

        Args:
            on_loss: as in `read`.

        Raises:
            KafkaError: as in `read`.
        """
        from samsarrow.ranges.split_read import AwaitedBatches

        return AwaitedBatches(self._source, self.ranges, on_loss)


@dataclass(frozen=True)
class Plan:
    """A bounded read of one topic, made by `plan`. It is frozen, and later records are not part of it.

    A plan can be pickled, for example for workers. The pickle contains the options with their passwords; references to
    config providers are not resolved in it. `repr` shows no options.

    Attributes:
        topic: name of the topic.
        topic_id: id of the topic; None from brokers before Kafka 2.8. If the topic is deleted and created again, the
            splits raise `OffsetOutOfRangeError`.
        ranges: the offsets of each partition, including empty ranges.
        splits: parts of similar size. Empty partitions are in no split, so an empty topic has no splits.
        losses: offsets after `start` that were already removed when the plan was made, with `on_data_loss="skip"`.
    """

    topic: str
    topic_id: UUID | None
    ranges: tuple[OffsetRange, ...]
    splits: tuple[Split, ...]
    losses: tuple[DataLoss, ...]
    _source: Source = field(compare=False)

    def __repr__(self) -> str:
        return (
            f"<Plan of {self.topic}: {len(self.ranges)} partitions, {self.estimated_rows:,} offsets, "
            f"{len(self.splits)} splits>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        splits = [[_row(one) for one in split.ranges] for split in self.splits]
        rows = [_row(one) for one in self.ranges]
        losses = [(*loss.partition, loss.start, loss.end) for loss in self.losses]
        return _restore_plan, (FORMAT, self._source.state(), rows, splits, losses)

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch, with decoded keys and values."""
        return self._source.schema

    @property
    def estimated_rows(self) -> int:
        """The number of offsets, which is at least the number of rows.

        It is exact for topics that are neither compacted nor written by transactions.
        """
        return count(self.ranges)

    def next_start(self) -> Offsets:
        """Returns the offsets at which the next run begins: pass them as its `start`.

        If every run starts at the `next_start` of the run before, every record is read exactly once. Store the offsets
        together with the results of the run. Partitions that are added later are read from their beginning.
        """
        return Offsets(self.topic, {tp: end for tp, _, end in self.ranges}, self.topic_id)


def uses(columns: Collection[str], part: Literal["key", "value"]) -> bool:
    """Returns true if columns with decoded keys, or values, are among the columns."""
    return not {part, f"raw_{part}", f"{part}_error"}.isdisjoint(columns)


def count(ranges: Sequence[OffsetRange]) -> int:
    """Returns the number of offsets in ranges."""
    return sum(end - start for _, start, end in ranges)


def cut(ranges: Sequence[OffsetRange], splits: int | None) -> list[tuple[OffsetRange, ...]]:
    """Cuts ranges into parts with similar numbers of offsets.

    Args:
        ranges: the ranges, which may be empty.
        splits: number of parts, which is reached unless there are fewer offsets; None for one part per partition.
    """
    filled = [one for one in ranges if one.start < one.end]
    if splits is None:
        return [(one,) for one in filled]
    total = count(filled)
    parts = min(splits, total)
    # The bounds of the parts, in offsets counted over all ranges.
    bounds = [total * number // parts for number in range(1, parts + 1)] if parts else []
    found: list[tuple[OffsetRange, ...]] = []
    part: list[OffsetRange] = []
    before = 0
    for tp, start, end in filled:
        while start < end:
            stop = min(end, start + bounds[len(found)] - before)
            part.append(OffsetRange(tp, start, stop))
            before += stop - start
            start = stop
            if before == bounds[len(found)]:
                found.append(tuple(part))
                part = []
    return found


def make(source: Source, ranges: Sequence[OffsetRange], splits: int | None, losses: Sequence[DataLoss]) -> Plan:
    """Returns the plan of ranges."""
    parts = tuple(Split(part, source) for part in cut(ranges, splits))
    return Plan(source.topic, source.topic_id, tuple(ranges), parts, tuple(losses), source)


def check_format(number: object, what: str) -> None:
    """Raises an error if another version of samsarrow has written a plan in a format that this one cannot read.

    Raises:
        ConfigurationError: the format is unknown.
    """
    if number != FORMAT:
        raise ConfigurationError(
            f"{what}: format {number!r} is unknown to this version of samsarrow, which reads format {FORMAT}; use the "
            "same version where plans are made and where they are read"
        )


Row = tuple[str, int, int, int]


def _row(one: OffsetRange) -> Row:
    (topic, partition), start, end = one
    return topic, partition, start, end


def _range(row: Row) -> OffsetRange:
    topic, partition, start, end = row
    return OffsetRange(TopicPartition(topic, partition), start, end)


def _restore_split(number: int, state: Any, rows: Any) -> Split:
    check_format(number, "the pickled split")
    return Split(tuple(map(_range, rows)), Source(**state))


def _restore_plan(number: int, state: Any, rows: Any, splits: Any, losses: Any) -> Plan:
    check_format(number, "the pickled plan")
    source = Source(**state)
    parts = tuple(Split(tuple(map(_range, part)), source) for part in splits)
    return Plan(
        source.topic,
        source.topic_id,
        tuple(map(_range, rows)),
        parts,
        tuple(DataLoss(*_range(row)) for row in losses),
        source,
    )
