"""Traces over Kafka, per batch: the OpenTelemetry context is sent in headers and received as links.

    producer.send("t", value, headers=tracing.inject())
    producer.send_batch("t", tracing.inject_batch(table))

    batch = consumer.poll()                        # with include_headers
    with tracing.span(batch, group="g"):
        work(batch)

Names follow OpenTelemetry's semantic conventions for messaging, which are in development; docs/metrics.md has their
version. Install `opentelemetry-api` and configure an exporter of spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

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
    """Returns the distinct `traceparent` headers in a batch, at most 128, in the order of their first rows.

    They are found column by column, without looking at rows.

    Args:
        batch: batch of a consumer with `include_headers`; without the column `headers` the result is empty.
    """
    if "headers" not in batch.schema.names or not batch.num_rows:
        return []
    values, _ = _named(batch, "traceparent")
    return [value for value in values.unique().slice(0, MOST_LINKS).to_pylist() if value is not None]


def _named(batch: pa.RecordBatch, name: str) -> tuple[pa.BinaryArray, pa.IntegerArray]:
    """The values of a header, and their rows."""
    column = batch.column("headers")
    headers = column.flatten()
    wanted = pc.equal(headers.field("key"), name)
    return headers.field("value").filter(wanted), pc.list_parent_indices(column).filter(wanted)


def _tracestates(batch: pa.RecordBatch, parents: list[bytes]) -> list[bytes | None]:
    """The `tracestate` that stands beside the first of each of these `traceparent`s."""
    if not parents:
        return []
    states, rows_of_states = _named(batch, "tracestate")
    values, rows = _named(batch, "traceparent")
    first = pc.index_in(pa.array(parents, values.type), values)
    at = pc.index_in(rows.take(first), rows_of_states)
    found: list[bytes | None] = states.take(at).to_pylist()
    return found


def _links(batch: pa.RecordBatch) -> list[Link]:
    from opentelemetry.trace import Link, SpanContext, TraceFlags, TraceState

    links = []
    parents = traceparents(batch)
    for value, state in zip(parents, _tracestates(batch, parents), strict=True):
        read = _TRACEPARENT.fullmatch(value)
        # Version ff is not to be read, and only later ones than 00 may have more fields.
        if read is None or read[1] == b"ff" or (read[1] == b"00" and read[5]):
            continue
        # What cannot be read as one is passed on as none, which is what the specification wants.
        found = SpanContext(
            int(read[2], 16), int(read[3], 16), is_remote=True, trace_flags=TraceFlags(int(read[4], 16)),
            trace_state=TraceState.from_header([(state or b"").decode("ascii", "replace")]),
        )  # fmt: skip
        if found.is_valid:
            links.append(Link(found))
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

    An empty batch has no span: it gets one that records nothing. Exceptions of the block are recorded and raised.

    Args:
        batch: batch of a consumer; without `include_headers` there are no links. Links are to at most 128 different
            spans, each with the `tracestate` of the first record that names it.
        group: the consumer's `group.id`.
        client_id: the consumer's `client.id`.
        tracer_provider: by default the global one.
        attributes: additional attributes.

    Raises:
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    from opentelemetry import trace

    if not batch.num_rows:
        yield trace.INVALID_SPAN
        return
    found: dict[str, Any] = {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": batch.num_rows,
    }
    name = "process"
    topics = pc.unique(batch.column("topic")).to_pylist()
    if len(topics) == 1:
        name = f"process {topics[0]}"
        found["messaging.destination.name"] = topics[0]
        partitions = pc.unique(batch.column("partition")).to_pylist()
        if len(partitions) == 1:
            found["messaging.destination.partition.id"] = str(partitions[0])
    if group is not None:
        found["messaging.consumer.group.name"] = group
    if client_id is not None:
        found["messaging.client.id"] = client_id
    found.update(attributes or {})
    schema = f"https://opentelemetry.io/schemas/{_core.opentelemetry_conventions()}"
    tracer = trace.get_tracer("samsarrow", version("samsarrow"), tracer_provider, schema)
    with tracer.start_as_current_span(
        name, kind=trace.SpanKind.CONSUMER, links=_links(batch), attributes=found
    ) as current:
        yield current


def inject(
    headers: Iterable[tuple[str, Any]] | Mapping[str, Any] | None = None, context: Context | None = None
) -> list[tuple[str, Any]]:
    """Returns headers for `Producer.send` with the current span, from the configured propagator (`traceparent`).

    Args:
        headers: headers to put before them; headers of the same names are replaced.
        context: by default the current one.

    Raises:
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    carrier = _carrier(context)
    given = headers.items() if isinstance(headers, Mapping) else headers or ()
    return [pair for pair in given if pair[0] not in carrier] + list(carrier.items())


def _carrier(context: Context | None) -> dict[str, bytes]:
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    return {name: text.encode() for name, text in carrier.items()}


def inject_batch(data: Any, headers: str = "headers", context: Context | None = None) -> Any:
    """Returns Arrow data for `Producer.send_batch` with the current span in the headers of all rows.

    Args:
        data: a record batch, a table, a reader or anything else with `__arrow_c_array__` or `__arrow_c_stream__`; a
            reader is processed one batch at a time.
        headers: name of the column of headers, `list<struct<key: string, value: binary>>`; added if it is missing.
            Existing headers of a row are kept.
        context: by default the current one.

    Returns:
        A reader, or `data` itself if there is no current span.

    Raises:
        TypeError: `data` is not Arrow data, or its column of headers has another type.
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    carrier = _carrier(context)
    if not carrier:
        return data
    reader = reader_of(data)
    own = pa.array([{"key": name, "value": value} for name, value in carrier.items()], _HEADER)
    field = pa.field(headers, pa.list_(_HEADER))
    at = reader.schema.get_field_index(headers)
    if reader.schema.names.count(headers) > 1:
        raise TypeError(f"there are several columns {headers!r}")
    schema = reader.schema.append(field) if at < 0 else reader.schema.set(at, field)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = list(batch.columns)
            if at < 0:
                columns.append(_appended(None, own, batch.num_rows))
            else:
                columns[at] = _appended(_read_headers(columns[at], headers, field.type), own, batch.num_rows)
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    if at >= 0:
        _read_headers(pa.array([], reader.schema.field(at).type), headers, field.type)
    return pa.RecordBatchReader.from_batches(schema, batches())


def _read_headers(column: pa.Array, name: str, wanted: pa.DataType) -> pa.Array:
    try:
        return column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"column {name!r} is {column.type}, and headers are {wanted}: {error}") from None


def _same(number: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), count)


def _numbers(count: int) -> pa.Array:
    """From 0 on."""
    return pc.subtract(pc.cumulative_sum(_same(1, count)), pa.scalar(1, pa.int32()))


def _appended(column: pa.Array | None, own: pa.StructArray, rows: int) -> pa.ListArray:
    """Lists with `own` behind what they have, by whole columns."""
    count = len(own)
    each = _numbers(rows)
    if column is None:
        before, parents, size = own.slice(0, 0), pa.array([], pa.int32()), _same(0, rows)
    else:
        before = column.flatten()
        parents = pc.list_parent_indices(column).cast(pa.int32())
        size = pc.fill_null(pc.list_value_length(column), 0)
    values = pa.concat_arrays([before, own])
    # Rows of the values in their order: the sort is stable, so what a row has comes before what is appended.
    sources = [_numbers(len(before)), *[_same(len(before) + at, rows) for at in range(count)]]
    order = pc.sort_indices(pa.concat_arrays([parents, *[each] * count]))
    taken = values.take(pa.concat_arrays(sources).take(order))
    ends = pc.cumulative_sum(pc.add(size, count).cast(pa.int32()))
    return pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], pa.int32()), ends]), taken, type=pa.list_(_HEADER))


def context_of(record: ConsumerRecord) -> Context:
    """Returns the context in a record's headers, for programs that trace each record: `use_span`, links, or a parent.

    Args:
        record: record of a consumer with `include_headers`.

    Raises:
        ModuleNotFoundError: `opentelemetry-api` is not installed.
    """
    from opentelemetry import propagate

    carrier = {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}
    return propagate.extract(carrier)
