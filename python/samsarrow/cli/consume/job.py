"""One run of `samsarrow consume`."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
import pyarrow as pa

from samsarrow._core import TextWriter
from samsarrow.cli.connection import Connection
from samsarrow.cli.consume.filters import Filters
from samsarrow.cli.consume.formats import CODECS, COLUMNS, LINES, SUFFIXES, Rotation
from samsarrow.cli.consume.json_text import TypedTextWriter
from samsarrow.cli.consume.outputs import LineRenderer, Output, OutputFormat
from samsarrow.cli.consume.range import Position, offsets_at, partitions_of
from samsarrow.cli.consume.reading import GroupReader, Progress, commit, read_partitions
from samsarrow.cli.consume.share import ShareReader
from samsarrow.cli.consume.table_text import TableTextWriter
from samsarrow.cli.consume.tail import newest
from samsarrow.cli.consume.typed import ReadFormats
from samsarrow.cli.names import chosen_topics, is_pattern
from samsarrow.cli.numbers import written_text
from samsarrow.cli.progress import progress
from samsarrow.cli.signals import Signals
from samsarrow.cli.tables import terminal_width
from samsarrow.exceptions import BadValueError, InconsistentGroupProtocolError, SchemaNotFoundError, WakeupError

if TYPE_CHECKING:
    from samsarrow import Consumer, ShareConsumer, TopicPartition

JOIN_SECONDS = 60.0
# Default of `ShareConsumer`.
MAX_POLL_RECORDS = 2000


class Job:
    """One run of the command, with its checked options.

    Raises:
        click.UsageError: options contradict each other.
    """

    def __init__(
        self,
        connection: Connection,
        typed: ReadFormats,
        topic_names: tuple[str, ...],
        start: Position | None,
        until: Position | None,
        count: int | None,
        tail: int | None,
        per_partition: bool,
        follow: bool,
        group: str | None,
        no_commit: bool,
        ack: Literal["accept", "release"] | None,
        partitions: frozenset[int],
        grep: str | None,
        headers: tuple[str, ...],
        where: str | None,
        form: str | None,
        template: str | None,
        text: bool,
        unpack: bool,
        compress: str | None,
        output_file: Path | None,
        rotate: Rotation | None,
        overwrite: bool,
    ) -> None:
        output_file = None if output_file == Path("-") else output_file
        from_group = start is not None and start.kind == "group"
        member = group is not None and not from_group and ack is None
        for invalid, reason in (
            (from_group and group is None, "--from group needs the name of the group: -g GROUP"),
            (member and start is not None and start.kind not in ("earliest", "latest"),
             "a member of a group begins at the group's offsets, and without them at --from earliest or latest; "
             "`samsarrow offsets reset` moves them"),
            (member and until is not None, "--until and -g contradict each other; --from group goes with both"),
            (member and bool(partitions), "-p and -g contradict each other: the group assigns the partitions; "
             "with --from group you choose them"),
            (no_commit and not member and ack is None, "--no-commit is for -g"),
            (tail is not None and (start is not None or until is not None or member),
             "--tail cannot be combined with --from, --until or -g"),
            (per_partition and tail is None, "--per-partition is for --tail"),
            (follow and until is not None, "--until and --follow contradict each other"),
            (rotate is not None and output_file is None, "--rotate is for -O FILE"),
            (overwrite and (output_file is None or rotate is not None), "--overwrite is for -O FILE without --rotate"),
            (ack is not None and group is None, "--ack is for a share group: -g GROUP"),
            (ack is not None and (start is not None or until is not None or tail is not None or bool(partitions)),
             "--ack cannot be combined with --from, --until, --tail or -p: the brokers choose the records; "
             "`samsarrow offsets reset` moves the start of a share group"),
            (ack is not None and no_commit, "--no-commit and --ack contradict each other; --ack release keeps records"),
            (ack is not None and bool(grep or headers or where),
             "--ack cannot be combined with --grep, --header or --where: records that a filter leaves out could "
             "neither be accepted nor released, as each release costs one of a few deliveries. Filter the output"),
            (ack == "release" and follow, "--ack release and -f contradict each other: records return at the end"),
            (template is not None and form not in (None, "value"), "--template is a format of its own"),
        ):  # fmt: skip
            if invalid:
                raise click.UsageError(reason)
        self.connection, self.partitions = connection, partitions
        self.topics = (
            tuple(chosen_topics(connection, topic_names)) if any(map(is_pattern, topic_names)) else topic_names
        )
        self.start = start or Position("latest" if follow and not member else "earliest")
        self.until, self.remaining, self.follow = until, count, follow
        self.tail, self.per_partition = tail, per_partition
        self.group, self.member, self.ack = group, member, ack
        self.commits = (member and not no_commit) or ack == "accept"
        self.typed = typed
        self.filters = Filters(grep, headers, where, typed)
        self.output_format = _output_format(
            form, template, text, unpack, compress, output_file, typed, len(set(self.topics)) > 1
        )
        if ack is not None and follow and self.output_format.form in COLUMNS and self.output_format.form != "csv":
            raise click.UsageError(
                f"--ack and -f cannot write {self.output_format.form}, whose records stay locked until the file is "
                "complete: brokers lock a few thousand at most. Use csv or a format of lines"
            )
        self.output = Output(self.output_format, output_file, rotate, keep=self.commits and not overwrite)
        self.group_reader: GroupReader | ShareReader | None = None
        self.progress = Progress()
        self.decode_errors = DecodeErrors()
        self.signals = Signals()
        self.started = time.monotonic()

    def run(self) -> None:
        """Reads and writes records, and commits the offsets of the written records."""
        with self.signals:
            try:
                self._run()
            except WakeupError:
                # The wakeup interrupted the wait for the first row, or a lookup of offsets. All rows that were read
                # have been written.
                if self.signals.received is None:
                    raise
            finally:
                self.output.abandon()
                self.decode_errors.report()
            if self.output.to_file and (self.signals.received is None or self.follow):
                self._report_written()
            elif not self.output.rows and self.output_format.form == "table":
                click.echo("no records", err=True)
            self.signals.raise_received()

    def _report_written(self) -> None:
        """Prints rows, bytes and seconds to standard error."""
        output, seconds = self.output, time.monotonic() - self.started
        click.echo(f"{written_text(output.rows, output.size, seconds)} written to {output.destination}", err=True)

    def _report_following(self, source: str) -> None:
        """Prints a line to standard error, because a read with --follow prints nothing until a record arrives."""
        if self.follow:
            click.echo(f"following {source}; Ctrl-C ends", err=True)

    def _run(self) -> None:
        typed = self.typed.arguments(self.connection, self.topics)
        fixed: dict[str, str | bool] = {
            "include_headers": self.output_format.wants_headers or self.filters.wants_headers,
            "layout": "binary",
            "allow_auto_create_topics": "false",
        }
        if self.group is not None:
            fixed["group_id"] = self.group
        if self.ack is not None:
            limit = None if self.remaining is None else min(max(self.remaining, 1), MAX_POLL_RECORDS)
            self._prepare(member := self.connection.share_consumer(typed, limit, **fixed))
            # Rows of share groups have a column more, which an output without rows has, too.
            self.output.set_schema(self._schema(member))
            self._read_share_group(member)
            return
        fixed |= {
            "enable_auto_commit": "false",
            # Applies to a group without committed offsets, and to positions whose records were deleted by retention.
            "auto_offset_reset": "latest" if self.member and self.start.kind == "latest" else "earliest",
        }
        partitions = self._prepare(consumer := self.connection.consumer(typed, **fixed))
        if self.member:
            self._read_as_member(consumer)
        else:
            self._read_range(consumer, partitions)

    def _prepare(self, consumer: Consumer | ShareConsumer) -> list[TopicPartition]:
        """Returns the partitions to read. Lets signals wake the consumer, and sets the schema of decoded batches."""
        partitions = partitions_of(self.connection, self.topics, self.partitions)
        self.signals.wake = consumer.wakeup
        if self.typed:
            self.output.set_schema(self._schema(consumer))
        return partitions

    def _read_share_group(self, consumer: ShareConsumer) -> None:
        limit = self.connection.timeout or JOIN_SECONDS
        self.group_reader = reader = ShareReader(
            consumer, self.ack == "accept", self.follow, limit, lambda: self.output.durable
        )
        consumer.subscribe(list(dict.fromkeys(self.topics)))
        self._report_following(f"{', '.join(dict.fromkeys(self.topics))} as a member of share group {self.group}")
        self._write(reader.batches())
        self._complete()
        reader.finish()

    def _read_as_member(self, consumer: Consumer) -> None:
        limit = self.connection.timeout or JOIN_SECONDS
        self.group_reader = reader = GroupReader(consumer, self.follow, limit, self._may_commit)
        consumer.subscribe(list(dict.fromkeys(self.topics)), listener=reader)
        self._report_following(f"{', '.join(dict.fromkeys(self.topics))} as a member of group {self.group}")
        self._write(reader.batches())
        self._complete()
        if self._may_commit():
            self._commit(consumer, reader)

    def _read_range(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        beginnings, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        if self.tail is not None:
            self._write(newest(consumer, beginnings, ends, self.tail, self.per_partition))
            starts = dict(ends)
        else:
            starts = offsets_at(consumer, self.start, beginnings, ends)
        stops = None if self.follow else self._stops(consumer, beginnings, ends)
        if stops is not None:
            stops = {tp: max(stop, starts[tp]) for tp, stop in stops.items()}
        count = f"{len(partitions)} partition{'s' if len(partitions) != 1 else ''}"
        self._report_following(f"{count} of {', '.join(dict.fromkeys(self.topics))} from {self.start.described}")
        if self.tail is None or self.follow:
            self._write(read_partitions(consumer, starts, stops, self.progress))
        self._complete()

    def _complete(self) -> None:
        # An interrupted file must not look complete. With --follow it is complete, because only a signal ends the
        # command.
        if self.signals.received is None or self.follow:
            self.output.close()

    @staticmethod
    def _schema(consumer: Consumer | ShareConsumer) -> pa.Schema:
        """Returns the schema of batches, which may be fetched from the registry."""
        try:
            return consumer.schema
        except SchemaNotFoundError as error:
            error.add_note("--value-subject or --value-schema, and --key-subject or --key-schema, override this")
            raise

    def _stops(self, consumer: Consumer, beginnings: dict[Any, int], ends: dict[Any, int]) -> dict[Any, int]:
        return ends if self.until is None else offsets_at(consumer, self.until, beginnings, ends)

    def _may_commit(self) -> bool:
        return self.commits and self.output.durable

    def _commit(self, consumer: Consumer, group_reader: GroupReader) -> None:
        """Commits the offsets of written rows, not positions, which may be past rows that were not written."""
        complete = self.signals.received is None and self.remaining != 0
        # A first signal may arrive here and raise WakeupError. A second signal raises `Interrupted`.
        try:
            offsets = group_reader.final_offsets() if complete else group_reader.written_offsets()
        except WakeupError:
            offsets = group_reader.written_offsets()
        if offsets:
            commit(consumer, offsets)

    def _write(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Writes rows that pass the filters, until the maximum number of rows is reached or a signal arrives."""
        with self._bar() as update, contextlib.suppress(WakeupError), _with_hint():
            for batch in batches if self.remaining != 0 else ():
                update()
                rows, kept = self._kept(batch, self.remaining)
                self.decode_errors.count(batch.slice(0, rows))
                if kept.num_rows:
                    self.output.write(kept)
                else:
                    self.output.check_rotation()
                if self.remaining is not None:
                    self.remaining -= kept.num_rows
                if self.group_reader is not None:
                    self.group_reader.add_written(batch.slice(0, rows))
                if self.remaining == 0:
                    return
                if self.group_reader is not None:
                    self.group_reader.commit_written()
                if self.signals.received is not None:
                    # A commit in the listener may have raised the WakeupError instead of the poll.
                    return

    def _kept(self, batch: pa.RecordBatch, remaining: int | None) -> tuple[int, pa.RecordBatch]:
        """Returns the number of rows of the batch that were processed, and the processed rows that pass the filters."""
        if not self.filters or not batch.num_rows:
            kept = batch if remaining is None else batch.slice(0, remaining)
            return kept.num_rows, kept
        numbers = self.filters.rows(batch)
        if remaining is not None and len(numbers) >= remaining:
            numbers = numbers.slice(0, remaining)
            return numbers[-1].as_py() + 1, batch.take(numbers)
        return batch.num_rows, batch.take(numbers)

    @contextlib.contextmanager
    def _bar(self) -> Iterator[Callable[[], None]]:
        """Shows the progress in offsets, unless rows are written to the same terminal or the read has no known end."""
        enabled = not self.follow and (self.output.to_file or not sys.stdout.isatty()) and self.group_reader is None
        shown = 0
        with progress("reading", 1, "offsets", enabled=enabled) as update:
            bar = getattr(update, "__self__", None)

            def refresh() -> None:
                nonlocal shown
                if bar is not None:
                    bar.length = max(self.progress.total, 1)
                    update(self.progress.done - shown)
                    shown = self.progress.done

            yield refresh


def _output_format(
    form: str | None,
    template: str | None,
    text: bool,
    unpack: bool,
    compress: str | None,
    path: Path | None,
    typed: ReadFormats,
    several: bool,
) -> OutputFormat:
    """Returns the output format that the options or the suffix of the file select.

    Raises:
        click.UsageError: options contradict each other, or the suffix is unknown.
    """
    if form is None:
        suffix = path.suffix.lower() if path is not None and template is None else ".txt"
        form = SUFFIXES.get(suffix)
        if form is None:
            raise click.UsageError(
                f"{path} has no known format: pass -o FORMAT, or a suffix of {', '.join(sorted(SUFFIXES))}"
            )
    if (text or unpack) and form in LINES and form != "table":
        option = "--text" if text else "--unpack"
        raise click.UsageError(f"{option} is for table, csv, arrow and parquet, not for {form}")
    if compress is not None and compress not in CODECS.get(form, ()):
        codecs = f"takes {', '.join(CODECS[form])}" if form in CODECS else "is not compressed here: pipe it on"
        raise click.UsageError(f"-z {compress} does not go with {form}, which {codecs}")
    typed.check(form, unpack)
    lines: LineRenderer | None = None
    if form == "table":
        lines = TableTextWriter(typed.columns, several, text, terminal_width if path is None else lambda: None)
    elif form in LINES:
        objects = typed and template is None and form != "value"
        writer = TextWriter("ndjson" if objects else form, template)
        lines = TypedTextWriter(writer, typed.columns, bool(objects), form == "json") if typed else writer
    return OutputFormat(form, lines, text, unpack, compress, typed.columns)


@contextlib.contextmanager
def _with_hint() -> Iterator[None]:
    """Adds the option that avoids an error to the text of the error."""
    try:
        yield
    except InconsistentGroupProtocolError as error:
        error.add_note("a share group is read with --ack; `samsarrow groups list` shows the type of each group")
        raise
    except BadValueError as error:
        error.add_note("--on-decode-error null continues after it")
        raise


class DecodeErrors:
    """Counter of keys and values that could not be read; also keeps the first error."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def count(self, batch: pa.RecordBatch) -> None:
        """Counts the decode errors in a batch."""
        for name in ("key_error", "value_error"):
            if name in batch.schema.names and (invalid := len(errors := batch.column(name)) - errors.null_count):
                if not self._count:
                    row = errors.is_valid().index(True).as_py()
                    location = (batch.column(column)[row].as_py() for column in ("topic", "partition", "offset"))
                    self._first = "{}-{}, offset {}: ".format(*location) + errors[row].as_py()
                self._count += invalid

    def report(self) -> None:
        """Prints the count to standard error."""
        if self._count:
            what = "key or value" if self._count == 1 else "keys or values"
            click.echo(f"{self._count:,} {what} could not be read, the first of {self._first}", err=True)
