"""One run of `samsarrow produce`."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.connection import Connection
from samsarrow.cli.errors import NoSuchPartition, NotFound, PartialFailure
from samsarrow.cli.numbers import written_text
from samsarrow.cli.produce.inputs import Chunk, Headers, InputError, InputOptions, chunks
from samsarrow.cli.produce.typed import WriteFormats
from samsarrow.cli.progress import progress
from samsarrow.cli.signals import Signals
from samsarrow.exceptions import KafkaError

if TYPE_CHECKING:
    from samsarrow import BatchDelivery, Producer

SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow",
            ".json": "json", ".jsonl": "ndjson", ".ndjson": "ndjson"}  # fmt: skip
# Maximum number of chunks whose delivery is pending.
MAX_PENDING = 64


class Job:
    """One run of the command, with its checked options.

    Raises:
        click.UsageError: options contradict each other.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        files: tuple[Path, ...],
        form: str | None,
        key_separator: bytes | None,
        tombstone: bool,
        headers: Headers,
        compress: str | None,
        partition: int | None,
        repartition: bool,
        key_column: str | None,
        value_columns: tuple[str, ...],
        partition_column: str | None,
        timestamp_column: str | None,
        column_types: dict[str, str],
        formats: WriteFormats,
    ) -> None:
        self.connection, self.topic = connection, topic
        self.inputs = [(path, _format(form, path)) for path in files or (Path("-"),)]
        if not files and sys.stdin.isatty():
            click.echo("reading lines from the terminal; Ctrl-D ends", err=True)
        forms = {form for _, form in self.inputs}
        columns = (key_column, *value_columns, partition_column, timestamp_column)
        for invalid, reason in (
            ((key_separator is not None or tombstone) and not forms <= {"value"},
             f"{'-K' if key_separator is not None else '--tombstone'} is for lines, --format value"),
            ((any(columns) or bool(formats)) and not forms <= {"csv", "arrow", "parquet"},
             "options for columns, --key and --value need csv, arrow or parquet: pass --format"),
            (bool(column_types) and not forms <= {"csv"},
             "--column-type is for csv: columns of arrow and parquet have types"),
            (partition is not None and bool(partition_column or repartition), "-p contradicts other partitions"),
            (repartition and partition_column is not None, "--repartition contradicts --partition-column"),
        ):  # fmt: skip
            if invalid:
                raise click.UsageError(reason)
        self.partition, self.headers, self.compress = partition, headers, compress
        # The formats are created once, so that each schema is registered once.
        self.formats = formats.formats(connection)
        types = formats.types(self.formats, topic) if "csv" in forms else {}
        self.input_options = InputOptions(
            key_separator, tombstone, repartition or partition is not None, tuple(headers), key_column, value_columns,
            partition_column, timestamp_column, {name: pa.type_for_alias(kind) for name, kind in column_types.items()},
            types.get("key"), types.get("value"),
        )  # fmt: skip
        # Delivered records, and the bytes of their batches.
        self.sent, self.size = 0, 0
        self._pending: deque[tuple[Chunk, str, BatchDelivery]] = deque()

    def run(self) -> None:
        """Sends all records, and waits until they are delivered."""
        started = time.monotonic()
        fixed = {} if self.compress is None else {"compression_type": self.compress}
        producer = self.connection.producer(**fixed)
        try:
            self._check_topic()
            with Signals():
                self._send_all(producer)
            self.size = producer.metrics().bytes
        except (KafkaError, click.ClickException) as error:
            # Waits for pending deliveries, to report how many records were sent.
            failed = self._complete_rest()
            if self.sent == 0 or isinstance(error, click.UsageError):
                raise
            text = error.message if isinstance(error, click.ClickException) else str(error)
            raise PartialFailure(f"{text}; {self.sent:,} records were sent{failed}") from None
        except KeyboardInterrupt:
            failed = self._complete_rest()
            click.echo(
                f"interrupted: {self.sent:,} record{'s were' if self.sent != 1 else ' was'} sent{failed}", err=True
            )
            raise
        finally:
            producer.close(errors="log")
        text = written_text(self.sent, self.size, time.monotonic() - started)
        click.echo(f"{text} sent to {self.topic}", err=True)

    def _check_topic(self) -> None:
        listed = self.connection.admin.list_topics([self.topic])
        if self.topic not in listed:
            hint = f"`samsarrow topics create {self.topic}` creates it"
            raise NotFound(f"topic {self.topic}", self.connection.servers, hint)
        count = listed[self.topic].partitions
        if self.partition is not None and self.partition >= count:
            raise NoSuchPartition(self.topic, count, self.partition)

    def _send_all(self, producer: Producer) -> None:
        for path, form in self.inputs:
            with _opened(path) as (stream, name, update):
                for chunk in chunks(form, stream, name, self.input_options):
                    self._send(producer, chunk, name)
                    update()
        while self._pending:
            self._complete_first()

    def _send(self, producer: Producer, chunk: Chunk, name: str) -> None:
        if self.headers and not chunk.complete:
            chunk = chunk.with_headers(self.headers)
        if self.partition is not None:
            chunk = chunk.with_partition(self.partition)
        if not chunk.rows.num_rows:
            return
        try:
            delivery = producer.send_batch(
                self.topic, chunk.rows, key=chunk.key, value=chunk.value, headers=chunk.headers,
                partition=chunk.partition, timestamp=chunk.timestamp, key_format=self.formats["key_format"],
                value_format=self.formats["value_format"] or chunk.value_format,  # type: ignore[arg-type]
            )  # fmt: skip
        except KafkaError as error:
            if error.delivery is not None:
                self._pending.append((chunk, name, error.delivery))
            raise InputError(f"{_where(chunk, name)}: {error}{self._about_partitions(chunk)}") from None
        self._pending.append((chunk, name, delivery))
        while self._pending and (len(self._pending) > MAX_PENDING or self._pending[0][2].done()):
            self._complete_first()

    def _about_partitions(self, chunk: Chunk) -> str:
        """Returns a hint if the chunk has partition numbers that the topic does not have; otherwise an empty text."""
        if chunk.partition is None or self.partition is not None or self.input_options.partition is not None:
            return ""
        largest = pc.max(chunk.rows.column(chunk.partition)).as_py()
        if largest is None or largest < self.connection.admin.list_topics([self.topic])[self.topic].partitions:
            return ""
        return f" (the partitions are those of column {chunk.partition}: --repartition ignores them)"

    def _complete_first(self) -> None:
        chunk, name, delivery = self._pending.popleft()
        try:
            self.sent += sum(receipt.count for receipt in delivery.result())
        except KafkaError as error:
            self.sent += sum(part.count for part in delivery.outcomes() if part.error is None)
            error.add_note(f"of {_where(chunk, name)}")
            raise
        except KeyboardInterrupt:
            self._pending.appendleft((chunk, name, delivery))
            raise

    def _complete_rest(self) -> str:
        """Waits for pending deliveries. Returns a text with the number of failures, empty without any."""
        failed = 0
        while self._pending:
            try:
                self._complete_first()
            except KafkaError:
                failed += 1
        return f", {failed} more chunks of input failed" if failed else ""


def _where(chunk: Chunk, name: str) -> str:
    last = chunk.first + chunk.rows.num_rows - 1
    return f"{name}, record {last}" if last == chunk.first else f"{name}, records {chunk.first} to {last}"


def _format(form: str | None, path: Path) -> str:
    return form or SUFFIXES.get(path.suffix.lower(), "value")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], str, Callable[[], None]]]:
    """Opens a file. Yields its stream, its name, and a function that updates the progress bar."""
    if str(path) == "-":
        yield sys.stdin.buffer, "standard input", lambda: None
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise click.FileError(str(path), error.strerror) from None
    with stream, progress(path.name, path.stat().st_size, "B") as bar:
        position = 0

        def update() -> None:
            nonlocal position
            if not stream.closed and stream.seekable():
                bar(stream.tell() - position)
                position = stream.tell()

        yield stream, click.format_filename(path), update
        bar(path.stat().st_size - position)
