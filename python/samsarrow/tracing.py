"""Tracing of batches: producers send the OpenTelemetry context in headers, and consumers link to it in spans.

    producer.send("t", value, headers=tracing.inject())
    producer.send_batch("t", tracing.inject_batch(table))

    batch = consumer.poll()                        # with include_headers
    with tracing.span(batch, group="g"):
        work(batch)

Names follow OpenTelemetry's semantic conventions for messaging, which are in development; docs/metrics.md states the
version in use. Install `opentelemetry-api` and configure an exporter of spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import samsarrow
from samsarrow import _core
from samsarrow.partitioner import reader_of
from samsarrow.types import ConsumerRecord

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, TracerProvider

__all__ = ["context_of", "inject", "inject_batch", "span", "traceparents"]

MOST_LINKS = 128
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)
_HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])


def traceparents(batch: pa.RecordBatch) -> list[bytes]:
    """Returns up to 128 distinct `traceparent` headers in a batch, in the order of their first rows.

    Reads the column `headers` without creating row objects.

    Args:
        batch: batch of a consumer with `include_headers`; without the column `headers` the result is empty.
    """
    if "headers" not in batch.schema.names or not batch.num_rows:
        return []
    values, _ = _named(batch, "traceparent")
    return [value for value in values.unique().slice(0, MOST_LINKS).to_pylist() if value is not None]


def _named(batch: pa.RecordBatch, name: str) -> tuple[pa.BinaryArray, pa.IntegerArray]:
    """Returns the values of all headers with a name, and the numbers of their rows."""
    column = batch.column("headers")
    headers = column.flatten()
    matches = pc.equal(headers.field("key"), name)
    return headers.field("value").filter(matches), pc.list_parent_indices(column).filter(matches)


def _tracestates(batch: pa.RecordBatch, parents: list[bytes]) -> list[bytes | None]:
    """Returns, for each `traceparent`, the `tracestate` of the first record with this `traceparent`."""
    if not parents:
        return []
    states, rows_of_states = _named(batch, "tracestate")
    values, rows = _named(batch, "traceparent")
    first = pc.index_in(pa.array(parents, values.type), values)
    indices = pc.index_in(rows.take(first), rows_of_states)
    result: list[bytes | None] = states.take(indices).to_pylist()
    return result


def _links(batch: pa.RecordBatch) -> list[Link]:
    from opentelemetry.trace import Link, SpanContext, TraceFlags, TraceState

    links = []
    parents = traceparents(batch)
    for value, state in zip(parents, _tracestates(batch, parents), strict=True):
        match = _TRACEPARENT.fullmatch(value)
        # Version ff is invalid, and only versions after 00 may have additional fields.
        if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5]):
            continue
        # As the specification requires, an invalid `tracestate` is treated as if it were missing.
        context = SpanContext(
            int(match[2], 16), int(match[3], 16), is_remote=True, trace_flags=TraceFlags(int(match[4], 16)),
            trace_state=TraceState.from_header([(state or b"").decode("ascii", "replace")]),
        )  # fmt: skip
        if context.is_valid:
            links.append(Link(context))
    return links


@contextmanager
def span(
    batch: pa.RecordBatch,
    *,
    group: str | None = None,
    client_id: str | None = None,
    tracer_provider: TracerProvider | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Iterator[Span]:
    """Starts a CONSUMER span for processing one batch, with links to the spans of its records.

    If the batch is empty, the span is not recorded. Exceptions of the block are recorded and raised.

    Args:
        batch: batch of a consumer. Without `include_headers` the span has no links. Otherwise it has links to up to 128
            different spans, each with the `tracestate` of the first record that names the span.
        group: the consumer's `group.id`.
        client_id: the consumer's `client.id`.
        tracer_provider: provider of the tracer, by default the global provider.
        attributes: additional attributes of the span.

    Raises:
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    from opentelemetry import trace

    if not batch.num_rows:
        yield trace.INVALID_SPAN
        return
    span_attributes: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": batch.num_rows,
    }
    name = "process"
    topics = pc.unique(batch.column("topic")).to_pylist()
    if len(topics) == 1:
        name = f"process {topics[0]}"
        span_attributes["messaging.destination.name"] = topics[0]
        partitions = pc.unique(batch.column("partition")).to_pylist()
        if len(partitions) == 1:
            span_attributes["messaging.destination.partition.id"] = str(partitions[0])
    if group is not None:
        span_attributes["messaging.consumer.group.name"] = group
    if client_id is not None:
        span_attributes["messaging.client.id"] = client_id
    span_attributes.update(attributes or {})
    schema = f"https://opentelemetry.io/schemas/{_core.opentelemetry_conventions()}"
    tracer = trace.get_tracer("samsarrow", getattr(samsarrow, "__version__", None), tracer_provider, schema)
    with tracer.start_as_current_span(
        name, kind=trace.SpanKind.CONSUMER, links=_links(batch), attributes=span_attributes
    ) as current:
        yield current


def inject(
    headers: Iterable[tuple[str, Any]] | Mapping[str, Any] | None = None, context: Context | None = None
) -> list[tuple[str, Any]]:
    """Returns headers for `Producer.send` that name the current span, such as the propagator's `traceparent`.

    Args:
        headers: headers to return before those of the propagator. Headers with the same names are replaced.
        context: context to inject, by default the current context.

    Raises:
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    carrier = _carrier(context)
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return [pair for pair in pairs if pair[0] not in carrier] + list(carrier.items())


def _carrier(context: Context | None) -> dict[str, bytes]:
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    return {name: text.encode() for name, text in carrier.items()}


def inject_batch(data: Any, headers: str = "headers", context: Context | None = None) -> Any:
    """Returns Arrow data for `Producer.send_batch`, in which the headers of all rows contain the current span.

    Args:
        data: a record batch, a table, a reader or anything else with `__arrow_c_array__` or `__arrow_c_stream__`; a
            reader is processed one batch at a time.
        headers: name of the column of headers, `list<struct<key: string, value: binary>>`; added if it is missing.
            Existing headers of a row are kept.
        context: context to inject, by default the current context.

    Returns:
        A reader, or `data` itself if no span is current.

    Raises:
        TypeError: `data` is not Arrow data, or its column of headers has another type.
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    carrier = _carrier(context)
    if not carrier:
        return data
    reader = reader_of(data)
    added = pa.array([{"key": name, "value": value} for name, value in carrier.items()], _HEADER)
    field = pa.field(headers, pa.list_(_HEADER))
    index = reader.schema.get_field_index(headers)
    if reader.schema.names.count(headers) > 1:
        raise TypeError(f"there are several columns {headers!r}")
    schema = reader.schema.append(field) if index < 0 else reader.schema.set(index, field)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = list(batch.columns)
            if index < 0:
                columns.append(_append_headers(None, added, batch.num_rows))
            else:
                columns[index] = _append_headers(
                    _read_headers(columns[index], headers, field.type), added, batch.num_rows
                )
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    if index >= 0:
        _read_headers(pa.array([], reader.schema.field(index).type), headers, field.type)
    return pa.RecordBatchReader.from_batches(schema, batches())


def _read_headers(column: pa.Array, name: str, expected: pa.DataType) -> pa.Array:
    try:
        return column.cast(expected)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"column {name!r} is {column.type}, and headers are {expected}: {error}") from None


def _repeat(number: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), count)


def _range(count: int) -> pa.Array:
    """Returns the numbers from 0 to `count` - 1."""
    return pc.subtract(pc.cumulative_sum(_repeat(1, count)), pa.scalar(1, pa.int32()))


def _append_headers(column: pa.Array | None, added: pa.StructArray, rows: int) -> pa.ListArray:
    """Appends the headers `added` to the headers of each row, with operations on whole columns."""
    count = len(added)
    each = _range(rows)
    if column is None:
        before, parents, size = added.slice(0, 0), pa.array([], pa.int32()), _repeat(0, rows)
    else:
        before = column.flatten()
        parents = pc.list_parent_indices(column).cast(pa.int32())
        size = pc.fill_null(pc.list_value_length(column), 0)
    values = pa.concat_arrays([before, added])
    # Sorts the headers by row. The sort is stable, so the existing headers of a row precede the appended headers.
    sources = [_range(len(before)), *[_repeat(len(before) + i, rows) for i in range(count)]]
    order = pc.sort_indices(pa.concat_arrays([parents, *[each] * count]))
    taken = values.take(pa.concat_arrays(sources).take(order))
    ends = pc.cumulative_sum(pc.add(size, count).cast(pa.int32()))
    return pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int32()), ends]), taken, type=pa.list_(_HEADER))


def context_of(record: ConsumerRecord) -> Context:
    """Returns the context in a record's headers, for `use_span`, links or parents when single records are traced.

    Args:
        record: record of a consumer with `include_headers`.

    Raises:
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    from opentelemetry import propagate

    carrier = {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}
    return propagate.extract(carrier)
