"""Parts of plans that queries read: splits with the columns and rows that a query needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from samsarrow.ranges import OffsetRange, Split
from samsarrow.ranges.plans import cut

Condition = Any
"""A `pyarrow.compute.Expression`, which has no type in pyarrow's stubs."""

# Number of rows in the first block of a partition, maximum factor from one block to the next, maximum number of rows.
_FIRST_ROWS, _GROWTH, _MOST_ROWS = 64, 32, 1 << 16
# Size of a block.
_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class Part:
    """Rows and columns of a split that a query needs. Can be pickled.

    Attributes:
        split: the split.
        columns: columns of the result. Without columns, batches have only a number of rows.
        condition: condition on the rows of the result; None for all rows.
    """

    split: Split
    columns: tuple[str, ...]
    condition: Condition | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result."""
        return pa.schema([self.split.schema.field(name) for name in self.columns])

    def needed(self) -> Split:
        """Returns the split with the columns of the result and of the condition."""
        words = set() if self.condition is None else set(re.findall(r"\w+", str(self.condition)))
        others = [name for name in self.split.schema.names if name in words and name not in self.columns]
        # A read without columns would not have the number of rows.
        columns = [*self.columns, *others] or self.split.schema.names[-1:]
        return Split(self.split.ranges, self.split._source.select(columns))

    def result(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the result for a batch of `needed`."""
        if self.condition is not None:
            batches = pa.Table.from_batches([batch]).filter(self.condition).to_batches()
            batch = pa.concat_batches(batches) if batches else batch.slice(0, 0)
        return batch.select(list(self.columns))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the result."""
        return (found for batch in self.needed().read() if (found := self.result(batch)).num_rows)

    def repeatable_blocks(self) -> Iterator[pa.Table]:
        """Yields tables that are equal in each read of this part, for engines that skip what they already have.

        The first table of a partition has 64 rows. The number of rows in each next one follows from the size of the
        table before it, so that tables have about 16 MiB.
        """
        for one in self.split.ranges:
            # The order of partitions in a read is not fixed, so they are read one after another.
            pending: list[pa.RecordBatch] = []
            waiting, rows = 0, _FIRST_ROWS
            for batch in Part(Split((one,), self.split._source), self.columns, self.condition).batches():
                pending.append(batch)
                waiting += batch.num_rows
                while waiting >= rows:
                    table = pa.Table.from_batches(pending)
                    block, rest = _copy(table.slice(0, rows)), table.slice(rows)
                    yield block
                    pending, waiting = rest.to_batches(), rest.num_rows
                    rows = min(max(_BLOCK_BYTES * rows // max(block.nbytes, 1), 1), rows * _GROWTH, _MOST_ROWS)
            if waiting:
                yield _copy(pa.Table.from_batches(pending))


def merged(splits: tuple[Split, ...], limit: int) -> tuple[Split, ...]:
    """Returns at most a number of splits with the same rows, for engines that read all splits at the same time."""
    if len(splits) <= limit:
        return splits
    ranges: list[OffsetRange] = []
    for tp, start, end in (one for split in splits for one in split.ranges):
        joined = bool(ranges) and ranges[-1].partition == tp and ranges[-1].end == start
        ranges.append(OffsetRange(tp, ranges.pop().start if joined else start, end))
    return tuple(Split(part, splits[0]._source) for part in cut(ranges, limit))


def without_dictionaries(schema: pa.Schema) -> pa.Schema:
    """Returns a schema with plain columns, for engines that have no dictionaries."""
    dictionaries = [field for field in schema if pa.types.is_dictionary(field.type)]
    for field in dictionaries:
        schema = schema.set(schema.get_field_index(field.name), field.with_type(field.type.value_type))
    return schema


def _copy(table: pa.Table) -> pa.Table:
    """Returns a table whose buffers depend only on its rows, so that its size does."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return pa.ipc.open_stream(sink.getvalue()).read_all()
