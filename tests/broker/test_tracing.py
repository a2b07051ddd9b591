"""Tracing: a context that was written to record headers is returned as a span link of the batch."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from samsarrow import Consumer, Producer, TopicPartition, tracing
from samsarrow.types import ConsumerRecord

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans: InMemorySpanExporter) -> Iterator[TracerProvider]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    yield provider
    provider.shutdown()


def batch_of(*headers: list[tuple[str, bytes | None]] | None, topic: str = "t") -> pa.RecordBatch:
    rows = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in headers]
    columns = {"topic": [topic] * len(rows), "partition": [0] * len(rows), "headers": pa.array(rows, HEADERS)}
    return pa.RecordBatch.from_pydict(columns)


def test_batch_span_links(servers, spans, provider, read):
    tracer = provider.get_tracer("test")
    with Producer(bootstrap_servers=servers) as producer:
        with tracer.start_as_current_span("one") as one:
            producer.send("t", b"1", headers=tracing.inject({"a": b"x", "traceparent": b"old"}))
            producer.send("t", b"2", headers=tracing.inject())
        with tracer.start_as_current_span("many") as many:
            rows = pa.table({"value": [b"3", b"4", b"5"], "headers": pa.array([None, [], [("k", b"v")]], HEADERS)})
            producer.send_batch("t", tracing.inject_batch(rows))
            producer.send_batch("t", tracing.inject_batch(pa.record_batch({"value": [b"6"] * 1000})))
        assert tracing.inject() == []
        producer.send("t", b"7")
    with Consumer(bootstrap_servers=servers, include_headers=True, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("t", 0)])
        table = read(consumer, 1006)
        [batch] = table.combine_chunks().to_batches()
    with tracing.span(batch, group="g", client_id="c", tracer_provider=provider, attributes={"own": 1}) as current:
        assert trace.get_current_span() is current
    found = spans.get_finished_spans()[-1]
    assert (found.name, found.kind) == ("process t", trace.SpanKind.CONSUMER)
    own = {(span.get_span_context().trace_id, span.get_span_context().span_id) for span in (one, many)}
    assert [(link.context.trace_id, link.context.span_id) for link in found.links] == sorted(
        own, key=lambda pair: pair[1] != one.get_span_context().span_id
    )
    assert all(link.context.is_remote for link in found.links)
    assert dict(found.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": 1006,
        "messaging.destination.name": "t",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": "g",
        "messaging.client.id": "c",
        "own": 1,
    }
    lists = [[(header["key"], header["value"]) for header in row] for row in batch.column("headers").to_pylist()]
    parent = ("traceparent", lists[1][0][1])
    assert lists[0] == [("a", b"x"), parent]
    assert lists[2] == lists[3] == [("traceparent", lists[2][0][1])]
    assert lists[4] == [("k", b"v"), lists[2][0]]
    assert lists[1005] == []


def test_empty_batch_and_maximum_of_128_links(spans, provider):
    with tracing.span(batch_of(), tracer_provider=provider) as current:
        assert not current.is_recording()
    assert spans.get_finished_spans() == ()
    parents = [b"00-%032x-%016x-01" % (number, number) for number in range(1, 300)]
    batch = batch_of(*[[("traceparent", parent)] for parent in parents])
    assert tracing.traceparents(batch) == parents[:128]
    assert tracing.traceparents(batch.slice(290)) == parents[290:]
    with tracing.span(batch.slice(1, 200), tracer_provider=provider):
        pass
    [found] = spans.get_finished_spans()
    assert [link.context.span_id for link in found.links] == list(range(2, 130))


def test_invalid_traceparents_are_ignored(spans, provider):
    good = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-00"
    bad = [b"", b"x", good[:-1], good.upper(), good + b"-more", b"ff" + good[2:], b"00-" + b"0" * 32 + good[35:], None]
    batch = batch_of(
        *[[("traceparent", value), ("other", good)] for value in [*bad, good, b"01" + good[2:] + b"-x"]], None
    )
    with pytest.raises(ValueError, match="work"), tracing.span(batch, tracer_provider=provider):
        raise ValueError("work")
    [found] = spans.get_finished_spans()
    assert [f"{link.context.span_id:016x}" for link in found.links] == ["b" * 16] * 2
    assert found.events[0].name == "exception"
    without = batch.drop_columns(["headers"])
    assert tracing.traceparents(without) == []


def test_tracestate_of_links(spans, provider):
    parents = [b"00-%032x-%016x-01" % (number, number) for number in range(1, 6)]
    batch = batch_of(
        None,
        [("tracestate", b"none=of"), ("other", b"x")],
        [("traceparent", parents[0])],
        [("a", None), ("tracestate", b"rojo=1,congo=t61"), ("traceparent", parents[1])],
        [("traceparent", parents[1]), ("tracestate", b"late=r")],
        [("traceparent", parents[2]), ("tracestate", b"\xff=")],
        [("traceparent", parents[3]), ("tracestate", None)],
        [("traceparent", parents[4]), ("tracestate", b"x=y")],
    )
    for part, expected in (
        (batch, [{}, {"rojo": "1", "congo": "t61"}, {}, {}, {"x": "y"}]),
        (batch.slice(7), [{"x": "y"}]),
    ):
        with tracing.span(part, tracer_provider=provider):
            pass
        assert [dict(link.context.trace_state) for link in spans.get_finished_spans()[-1].links] == expected
    # The propagator can inject the trace state again.
    with provider.get_tracer("test").start_as_current_span("on", links=spans.get_finished_spans()[-1].links):
        state = trace.TraceState([("rojo", "1")])
        context = trace.SpanContext(1, 2, is_remote=True, trace_flags=trace.TraceFlags(1), trace_state=state)
        headers = tracing.inject(context=trace.set_span_in_context(trace.NonRecordingSpan(context)))
    assert dict(headers)["tracestate"] == b"rojo=1"


def test_span_of_several_topics_has_no_destination(spans, provider):
    batch = pa.concat_batches([batch_of([]), batch_of([], topic="u")])
    with tracing.span(batch, tracer_provider=provider):
        pass
    [found] = spans.get_finished_spans()
    assert found.name == "process"
    assert "messaging.destination.name" not in (found.attributes or {})


def test_context_of_a_record(provider):
    with provider.get_tracer("test").start_as_current_span("one") as one:
        headers = tuple(tracing.inject())
    record = ConsumerRecord("t", 0, 0, None, None, None, b"", (*headers, ("bytes", b"\xff"), ("none", None)))
    found = trace.get_current_span(tracing.context_of(record)).get_span_context()
    assert (found.trace_id, found.span_id) == (one.get_span_context().trace_id, one.get_span_context().span_id)


def test_inject_batch_rejects_invalid_data(provider):
    with provider.get_tracer("test").start_as_current_span("one"):
        with pytest.raises(TypeError, match="not list"):
            tracing.inject_batch([1])
        with pytest.raises(TypeError, match="column 'headers' is int64"):
            tracing.inject_batch(pa.table({"headers": [1]}))
        twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["headers", "headers"])
        with pytest.raises(TypeError, match="several columns"):
            tracing.inject_batch(twice)
