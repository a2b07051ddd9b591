"""One run of `samsarrow consume`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from samsarrow._core import TextWriter
from samsarrow.cli.connection import Connection
from samsarrow.cli.consume.filters import Filters
from samsarrow.cli.consume.formats import CODECS, LINES, SUFFIXES, Rotation
from samsarrow.cli.consume.json_text import TypedLines
from samsarrow.cli.consume.outputs import Output, Shape
from samsarrow.cli.consume.range import Place, offsets_at, partitions_of
from samsarrow.cli.consume.reading import Membership, Progress, by_hand, commit
from samsarrow.cli.consume.tail import newest
from samsarrow.cli.consume.typed import Typed
from samsarrow.cli.progress import progress
from samsarrow.cli.signals import Signals
from samsarrow.exceptions import BadValueError, SchemaNotFoundError, WakeupError

if TYPE_CHECKING:
    from samsarrow import Consumer

JOIN_SECONDS = 60.0


class Job:
    """One run of the command.

    Raises:
        click.UsageError: options that make no sense together.
    """

    def __init__(
        self,
        connection: Connection,
        typed: Typed,
        topic_names: tuple[str, ...],
        start: Place | None,
        until: Place | None,
        count: int | None,
        tail: int | None,
        per_partition: bool,
        follow: bool,
        group: str | None,
        no_commit: bool,
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
        peeks = start is not None and start.kind == "group"
        member = group is not None and not peeks
        for wrong, why in (
            (peeks and group is None, "--from group needs the name of the group: -g GROUP"),
            (member and start is not None and start.kind not in ("beginning", "end"),
             "a member of a group begins at the group's offsets, and without them at --from beginning or end; "
             "`samsarrow offsets reset` moves them"),
            (member and until is not None, "--until and -g contradict each other; --from group goes with both"),
            (member and bool(partitions), "-p and -g contradict each other: the group assigns the partitions; "
             "with --from group you choose them"),
            (no_commit and not member, "--no-commit is for -g"),
            (tail is not None and (start is not None or until is not None or member),
             "--tail says where to begin and end: --from, --until and -g contradict it"),
            (per_partition and tail is None, "--per-partition is for --tail"),
            (follow and until is not None, "--until and --follow contradict each other"),
            (rotate is not None and output_file is None, "--rotate is for -O FILE"),
            (overwrite and (output_file is None or rotate is not None), "--overwrite is for -O FILE without --rotate"),
            (template is not None and form not in (None, "value"), "--template is a format of its own"),
        ):  # fmt: skip
            if wrong:
                raise click.UsageError(why)
        self.connection, self.topics, self.partitions = connection, topic_names, partitions
        self.start = start or Place("end" if follow and not member else "beginning")
        self.until, self.left, self.follow = until, count, follow
        self.tail, self.per_partition = tail, per_partition
        self.group, self.member, self.commits = group, member, member and not no_commit
        self.typed = typed
        self.filters = Filters(grep, headers, where, typed)
        self.shape = _shape(form, template, text, unpack, compress, output_file, typed)
        self.output = Output(self.shape, output_file, rotate, keep=self.commits and not overwrite)
        self.membership: Membership | None = None
        self.at = Progress()
        self.bad = Bad()
        self.signals = Signals()

    def run(self) -> None:
        """Reads and writes; what is written is committed, what is not is not."""
        with self.signals:
            try:
                self._run()
            except WakeupError:
                # Raised before the first row, or by a lookup of offsets: no row was read without being written.
                if self.signals.received is None:
                    raise
            finally:
                self.output.abandon()
                self.bad.say()
            self.signals.raise_received()

    def _run(self) -> None:
        with_headers = self.shape.wants_headers or self.filters.wants_headers
        fixed: dict[str, str | bool] = {
            "include_headers": with_headers,
            "layout": "binary",
            "enable_auto_commit": "false",
            "allow_auto_create_topics": "false",
            # Of a group without offsets; and where retention removes what was to be read next.
            "auto_offset_reset": "latest" if self.member and self.start.kind == "end" else "earliest",
        }
        if self.group is not None:
            fixed["group_id"] = self.group
        consumer = self.connection.consumer(self.typed.arguments(self.connection, self.topics), **fixed)
        tps = partitions_of(self.connection, self.topics, self.partitions)
        self.signals.wake = consumer.wakeup
        if self.typed:
            self.output.expect(self._schema(consumer))
        if self.member:
            limit = self.connection.timeout or JOIN_SECONDS
            self.membership = Membership(consumer, self.follow, limit, self._may_commit)
            consumer.subscribe(list(dict.fromkeys(self.topics)), listener=self.membership)
            self._write(consumer, self.membership.batches())
        else:
            beginnings, ends = consumer.beginning_offsets(tps), consumer.end_offsets(tps)
            if self.tail is not None:
                self._write(consumer, newest(consumer, beginnings, ends, self.tail, self.per_partition))
                starts = dict(ends)
            else:
                starts = offsets_at(consumer, self.start, beginnings, ends)
            stops = None if self.follow else self._stops(consumer, beginnings, ends)
            if stops is not None:
                stops = {tp: max(stop, starts[tp]) for tp, stop in stops.items()}
            if self.tail is None or self.follow:
                self._write(consumer, by_hand(consumer, starts, stops, self.at))
        # What was interrupted would look whole; what is followed has no other end.
        if self.signals.received is None or self.follow:
            self.output.close()
        if self.membership is not None and self._may_commit():
            self._commit(consumer, self.membership)

    @staticmethod
    def _schema(consumer: Consumer) -> pa.Schema:
        """What batches look like, which a registry may have to say."""
        try:
            return consumer.schema
        except SchemaNotFoundError as error:
            error.add_note("--value-subject or --value-schema, and --key-subject or --key-schema, override this")
            raise

    def _stops(self, consumer: Consumer, beginnings: dict[Any, int], ends: dict[Any, int]) -> dict[Any, int]:
        return ends if self.until is None else offsets_at(consumer, self.until, beginnings, ends)

    def _may_commit(self) -> bool:
        return self.commits and self.output.settled

    def _commit(self, consumer: Consumer, membership: Membership) -> None:
        """Commits what was written: positions may be past rows that were not."""
        whole = self.signals.received is None and self.left != 0
        # A signal may come at any time; the second one is raised as another error.
        try:
            offsets = membership.final_offsets() if whole else membership.written_offsets()
        except WakeupError:
            offsets = membership.written_offsets()
        if offsets:
            commit(consumer, offsets)

    def _write(self, consumer: Consumer, batches: Iterator[pa.RecordBatch]) -> None:
        """Writes what passes, up to the count, or to a signal."""
        with self._bar() as update, contextlib.suppress(WakeupError), _hinted():
            for batch in batches if self.left != 0 else ():
                update()
                rows, kept = self._kept(batch, self.left)
                self.bad.look(batch.slice(0, rows))
                if kept.num_rows:
                    self.output.write(kept)
                else:
                    self.output.tick()
                if self.left is not None:
                    self.left -= kept.num_rows
                if self.membership is not None:
                    self.membership.add_written(batch.slice(0, rows))
                if self.left == 0:
                    return
                if self.membership is not None:
                    self.membership.commit_written()
                if self.signals.received is not None:
                    # A commit in the listener may have received the wake-up in place of the poll.
                    return

    def _kept(self, batch: pa.RecordBatch, left: int | None) -> tuple[int, pa.RecordBatch]:
        """How many rows of a batch are done with, and those of them that are written."""
        if not self.filters or not batch.num_rows:
            kept = batch if left is None else batch.slice(0, left)
            return kept.num_rows, kept
        numbers = self.filters.rows(batch)
        if left is not None and len(numbers) >= left:
            numbers = numbers.slice(0, left)
            return numbers[-1].as_py() + 1, batch.take(numbers)
        return batch.num_rows, batch.take(numbers)

    @contextlib.contextmanager
    def _bar(self) -> Iterator[Callable[[], None]]:
        """Progress in offsets, where lines do not go to the same terminal."""
        wanted = not self.follow and (self.output.to_file or not sys.stdout.isatty()) and not self.member
        shown = 0
        with progress("reading", 1, wanted=wanted) as update:
            bar = getattr(update, "__self__", None)

            def tell() -> None:
                nonlocal shown
                if bar is not None:
                    bar.length = max(self.at.total, 1)
                    update(self.at.done - shown)
                    shown = self.at.done

            yield tell


def _shape(
    form: str | None,
    template: str | None,
    text: bool,
    unpack: bool,
    compress: str | None,
    path: Path | None,
    typed: Typed,
) -> Shape:
    """The format that options and the file's suffix name.

    Raises:
        click.UsageError: they contradict each other, or the suffix names none.
    """
    if form is None:
        suffix = path.suffix.lower() if path is not None and template is None else ".txt"
        form = SUFFIXES.get(suffix)
        if form is None:
            raise click.UsageError(
                f"{path} has no known format: pass --format, or a suffix of {', '.join(sorted(SUFFIXES))}"
            )
    if (text or unpack) and form in LINES:
        raise click.UsageError(f"{'--text' if text else '--unpack'} is for csv, arrow and parquet, not for {form}")
    if compress is not None and compress not in CODECS.get(form, ()):
        takes = f"takes {', '.join(CODECS[form])}" if form in CODECS else "is not compressed here: pipe it on"
        raise click.UsageError(f"-z {compress} does not go with {form}, which {takes}")
    typed.check(form, unpack)
    lines: TextWriter | TypedLines | None = None
    if form in LINES:
        objects = typed and template is None and form != "value"
        lines = TextWriter("ndjson" if objects else form, template)
        lines = TypedLines(lines, typed.columns, bool(objects), form == "json") if typed else lines
    return Shape(form, lines, text, unpack, compress, typed.columns)


@contextlib.contextmanager
def _hinted() -> Iterator[None]:
    """With what goes on behind a value that cannot be read."""
    try:
        yield
    except BadValueError as error:
        error.add_note("--on-decode-error null continues after it")
        raise


class Bad:
    """Counts keys and values that could not be read."""

    def __init__(self) -> None:
        self._count = 0
        self._first = ""

    def look(self, batch: pa.RecordBatch) -> None:
        """At rows that were read."""
        for name in ("key_error", "value_error"):
            if name in batch.schema.names and (bad := len(errors := batch.column(name)) - errors.null_count):
                if not self._count:
                    row = errors.is_valid().index(True).as_py()
                    place = (batch.column(one)[row].as_py() for one in ("topic", "partition", "offset"))
                    self._first = "{}-{}, offset {}: ".format(*place) + errors[row].as_py()
                self._count += bad

    def say(self) -> None:
        """How many there were, on standard error."""
        if self._count:
            what = "key or value" if self._count == 1 else "keys or values"
            click.echo(f"{self._count:,} {what} could not be read, the first of {self._first}", err=True)
