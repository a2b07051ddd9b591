"""`samsarrow bench`: throughput and latency of a cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import click

from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.completion import topics
from samsarrow.cli.connection import Connection, reads_and_writes_topics, reads_topics, writes_topics
from samsarrow.cli.errors import NotFound
from samsarrow.cli.output import output_option, show
from samsarrow.cli.progress import progress
from samsarrow.cli.signals import Signals
from samsarrow.cli.times import bytes_of, seconds_option
from samsarrow.exceptions import KafkaTimeoutError, WakeupError

# Rows per `send_batch`.
BATCH = 20_000


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure throughput and latency of a cluster.

    Results include this machine, the network and the cluster. `produce` and `latency` write to the topic.
    """


def _size(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    size = int(text) if text.isdecimal() else bytes_of(text)
    if size is None or not 1 <= size <= 1 << 30:
        raise click.BadParameter(f"{text!r} is not a size from 1 byte to 1 GiB, for example 100 or 1KiB")
    return size


records_option = click.option(
    "-n",
    "--records",
    type=click.IntRange(1),
    default=1_000_000,
    show_default=True,
    metavar="N",
    help="The number of records.",
)
size_option = click.option(
    "--size",
    callback=_size,
    default="100",
    show_default=True,
    metavar="BYTES",
    help="The size of a value: 100 or 1KiB.",
)


def check_topic(connection: Connection, topic: str) -> None:
    """Rejects a topic that does not exist, because a client would wait for the topic.

    Raises:
        NotFound: the topic does not exist.
    """
    listed = connection.admin.list_topics([topic])
    if topic in listed.errors:
        raise listed.errors[topic]
    if topic not in listed:
        raise NotFound(f"topic {topic}", connection.servers)


NAMES = ("records", "seconds", "records_per_second", "megabytes_per_second", "cpu_microseconds_per_record")


def _rates(records: int, size: int, seconds: float, cpu: float) -> tuple[Any, ...]:
    if not records:
        return (0, round(seconds, 3), 0, 0.0, None)
    return (
        records, round(seconds, 3), round(records / seconds), round(size / seconds / 1e6, 1),
        round(cpu / records * 1e6, 3),
    )  # fmt: skip


@bench.command()
@click.argument("topic", shell_complete=topics)
@writes_topics
@records_option
@size_option
@click.option("-z", "--compress", type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]), help="By default none.")
@click.option("--keys", type=click.IntRange(1), metavar="N", help="Use N different keys; by default none.")
@output_option
def produce(
    connection: Connection,
    topic: str,
    records: int,
    size: int,
    compress: str | None,
    keys: int | None,
    form: str | None,
) -> None:
    """Write records to a topic, and measure the throughput.

    Values are random text, which compresses to about three quarters.
    """
    fixed = {} if compress is None else {"compression_type": compress}
    producer = connection.producer(**fixed)
    try:
        check_topic(connection, topic)
        rows = _rows(min(BATCH, max(1, (64 << 20) // size), records), size, keys)
        with Signals(), progress("producing", records, "records") as update:
            started, cpu, remaining, pending = time.perf_counter(), time.process_time(), records, []
            while remaining:
                part = rows.slice(0, remaining)
                pending.append((producer.send_batch(topic, part), part.num_rows))
                remaining -= part.num_rows
                while pending and (pending[0][0].done() or not remaining):
                    delivery, count = pending.pop(0)
                    delivery.result()
                    update(count)
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        latency = producer.metrics().delivery_latency
    finally:
        producer.close(errors="log")
    milliseconds = [round(at * 1000, 2) for at in (latency.p50, latency.p95, latency.p99, latency.max)]
    show(form, (*NAMES, "p50_ms", "p95_ms", "p99_ms", "max_ms"), [
        (*_rates(records, records * size, seconds, cpu), *milliseconds)
    ])  # fmt: skip


def _rows(count: int, size: int, keys: int | None) -> Any:
    import pyarrow as pa

    # The text has 64 different bytes, so each byte has six bits of entropy.
    text = os.urandom(count * size).translate(bytes(ord("0") + byte % 64 for byte in range(256)))
    offsets = pa.array(range(0, count * size + 1, size), pa.int64())
    values = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, offsets.buffers()[1], pa.py_buffer(text)]
    )
    columns = {"value": values}
    if keys is not None:
        columns["key"] = pa.array([b"key-%d" % (row % keys) for row in range(count)], pa.binary())
    return pa.record_batch(columns)


@bench.command()
@click.argument("topic", shell_complete=topics)
@reads_topics
@click.option(
    "-n",
    "--records",
    type=click.IntRange(1),
    metavar="N",
    help="The maximum number of records to read; by default all.",
)
@output_option
def consume(connection: Connection, topic: str, records: int | None, form: str | None) -> None:
    """Read a topic from its beginning into Arrow columns, and measure the throughput. Nothing is committed."""
    import pyarrow.compute as pc

    from samsarrow.cli.consume.range import partitions_of
    from samsarrow.cli.consume.reading import Progress, read_partitions

    consumer = connection.consumer(enable_auto_commit="false", auto_offset_reset="earliest")
    tps = partitions_of(connection, [topic], frozenset())
    starts, ends = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
    total = sum(ends.values()) - sum(starts.values())
    position, count, size, shown = Progress(), 0, 0, 0
    with Signals() as signals, progress("consuming", total, "offsets") as update:
        signals.wake = consumer.wakeup
        started, cpu = time.perf_counter(), time.process_time()
        try:
            for batch in read_partitions(consumer, starts, ends, position):
                count += batch.num_rows
                size += sum(pc.sum(pc.binary_length(batch.column(name))).as_py() or 0 for name in ("key", "value"))
                update(position.done - shown)
                shown = position.done
                if records is not None and count >= records:
                    break
        except WakeupError:
            signals.raise_received()
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    show(form, NAMES, [_rates(count, size, seconds, cpu)])


@bench.command()
@click.argument("topic", shell_complete=topics)
@reads_and_writes_topics
@click.option(
    "-n",
    "--records",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="The number of records.",
)
@size_option
@click.option(
    "--interval",
    callback=seconds_option,
    default="10ms",
    show_default=True,
    metavar="SECONDS",
    help="The interval between records.",
)
@output_option
def latency(connection: Connection, topic: str, records: int, size: int, interval: float, form: str | None) -> None:
    """Send records one at a time, and measure the time until a consumer receives each.

    The records are written to partition 0 of the topic, which is read from its end.
    """
    from samsarrow.types import TopicPartition

    producer = connection.producer(linger_ms="0")
    consumer = connection.consumer(
        enable_auto_commit="false", auto_offset_reset="latest", fetch_min_bytes="1", include_headers="false"
    )
    check_topic(connection, topic)
    tp = TopicPartition(topic, 0)
    consumer.assign([tp])
    # Seeks to an offset now, because an end that is looked up later could be after the first record.
    consumer.seek(tp, consumer.end_offsets([tp])[tp])
    latencies = []
    value = os.urandom((size + 1) // 2).hex()[:size].encode()
    limit = connection.timeout or 30.0
    try:
        with Signals(), progress("measuring", records, "records") as update:
            for number in range(records):
                key = b"%d-%d" % (os.getpid(), number)
                started = time.perf_counter()
                delivery = producer.send(topic, value, key, partition=0)
                while not _holds(consumer.poll(0.2), key):
                    if time.perf_counter() - started > limit:
                        raise KafkaTimeoutError(f"a record did not come back from {topic}-0 within {limit:g} s")
                latencies.append(time.perf_counter() - started)
                delivery.result(limit)
                update(1)
                time.sleep(interval)
    finally:
        producer.close(errors="log")
    show(form, ("records", "p50_ms", "p95_ms", "p99_ms", "max_ms"), [(records, *_percentiles(latencies))])


def _holds(batch: Any, key: bytes) -> bool:
    return batch.num_rows > 0 and key in batch.column("key").to_pylist()


def _percentiles(seconds: Sequence[float]) -> list[float]:
    ordered = sorted(seconds)
    last = len(ordered) - 1
    return [round(ordered[round(last * share)] * 1000, 3) for share in (0.5, 0.95, 0.99, 1.0)]
