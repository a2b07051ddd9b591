"""`samsarrow dump-log`: contents of a log segment and its indexes."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samsarrow.cli.commands import Command
from samsarrow.cli.output import output_options
from samsarrow.cli.progress import progress

if TYPE_CHECKING:
    from samsarrow._core import LogDump

# Brokers add a suffix to the name while they delete or rewrite a segment.
_NAME = re.compile(
    r"(?P<stem>.+?)\.(?P<kind>log|checkpoint|index|timeindex|txnindex)(?P<state>\.(deleted|cleaned|swap))?"
)
LOGS = ("log", "checkpoint")
INDEXES = ("index", "timeindex", "txnindex")


@dataclass(frozen=True)
class SegmentFile:
    """A file of a log segment, and the parts of its name."""

    path: Path
    kind: str
    stem: str
    state: str

    @classmethod
    def of(cls, path: Path) -> SegmentFile:
        """Parses the name of a file."""
        found = _NAME.fullmatch(path.name)
        if found is None:
            raise click.UsageError(
                f"{click.format_filename(path)} is not a segment file: "
                "their names end in .log, .index, .timeindex, .txnindex or .checkpoint"
            )
        return cls(path, found["kind"], found["stem"], found["state"] or "")

    @property
    def base_offset(self) -> int | None:
        """Base offset from the file's name, or None."""
        return int(self.stem) if self.kind != "checkpoint" and self.stem.isdecimal() else None

    @property
    def shown(self) -> str:
        """Path as printable text, because file names may contain bytes that are not valid text."""
        return click.format_filename(self.path)

    @property
    def start(self) -> str | None:
        """First line of the output, which depends on the file's name; None for unknown names."""
        if self.base_offset is not None:
            return f"Log starting offset: {self.base_offset}"
        if self.path.name == "bootstrap.checkpoint":
            return "KRaft bootstrap snapshot"
        snapshot = re.fullmatch(r"(\d{20})-(\d{10})", self.stem)
        return snapshot and f"Snapshot end offset: {int(snapshot[1])}, epoch: {int(snapshot[2])}"

    def sibling(self, kind: str) -> Path:
        """Returns the path of the segment's file of another kind."""
        return self.path.with_name(f"{self.stem}.{kind}{self.state}")


@dataclass(frozen=True)
class Settings:
    """Options of `samsarrow dump-log`."""

    deep: bool
    print_data: bool
    as_json: bool
    max_bytes: int | None
    verify_only: bool
    sanity_only: bool


@click.command("dump-log", cls=Command)
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE|FOLDER..."
)
@click.option("--deep", "--deep-iteration", "deep", is_flag=True, help="Record by record, not only batch by batch.")
@click.option(
    "--print-data", "--print-data-log", "print_data", is_flag=True, help="Keys and values too; implies --deep."
)
@output_options(("text", "ndjson"), "text, or ndjson: a JSON object per line.", default="text", show_default=True)
@click.option("--json", "as_json", is_flag=True, hidden=True, help="The same as -o ndjson.")
@click.option("--index-check", is_flag=True, help="Check the .index and .timeindex beside each .log against it.")
@click.option("--verify-index-only", "verify_only", is_flag=True, help="Check indexes without printing their entries.")
@click.option(
    "--index-sanity-check",
    "sanity_only",
    is_flag=True,
    help="Only the check that a broker runs at its start to decide whether to rebuild an index.",
)
@click.option(
    "--max-bytes", type=click.IntRange(min=0), metavar="BYTES", help="Read only this much from the start of each .log."
)
@click.pass_context
def dump_log(
    context: click.Context,
    paths: tuple[Path, ...],
    deep: bool,
    print_data: bool,
    form: str,
    as_json: bool,
    index_check: bool,
    verify_only: bool,
    sanity_only: bool,
    max_bytes: int | None,
) -> None:
    """Print the contents of log segments and their indexes, as Kafka's DumpLogSegments does.

    A FILE is a broker's .log, .index, .timeindex or .txnindex file, or a KRaft .checkpoint snapshot. A FOLDER is that
    of a partition: all its .log and .checkpoint files are printed in the order of their offsets, or with
    --verify-index-only and --index-sanity-check its indexes. An index is checked against the .log beside it. Problems
    are written to stderr with their position in the file, and the exit code is 1.
    """
    as_json = as_json or form == "ndjson"
    settings = Settings(deep or print_data, print_data, as_json, max_bytes, verify_only, sanity_only)
    kinds = INDEXES if verify_only or sanity_only else LOGS
    problems = 0
    for file in [file for path in paths for file in _files(path, kinds)]:
        if file.kind in LOGS:
            problems += _dump_log(file, settings)
            if index_check:
                beside = [file.sibling(kind) for kind in ("index", "timeindex")]
                checked = replace(settings, verify_only=True)
                problems += sum(_dump_index(SegmentFile.of(path), checked) for path in beside if path.exists())
        else:
            problems += _dump_index(file, settings)
    if problems:
        context.exit(1)


def _files(path: Path, kinds: tuple[str, ...]) -> list[SegmentFile]:
    """Returns the file, or the files of these kinds in a folder, by offset.

    Raises:
        click.UsageError: the file or the folder is not part of a log.
    """
    if not path.is_dir():
        return [SegmentFile.of(path)]
    named = sorted(file for file in path.iterdir() if _NAME.fullmatch(file.name) and file.is_file())
    if found := [file for file in map(SegmentFile.of, named) if file.kind in kinds]:
        return found
    shown = click.format_filename(path)
    text = f"{shown} has no files that end in {', '.join(f'.{kind}' for kind in kinds)}"
    partitions = sorted(folder for folder in path.iterdir() if folder.is_dir() and any(folder.glob("*.log")))
    if partitions:
        text += f": pass the folder of a partition, such as {click.format_filename(partitions[0])}"
    raise click.UsageError(text)


def _dump_log(file: SegmentFile, settings: Settings) -> int:
    from samsarrow import _core

    base_offset = file.base_offset
    _head(file, settings)
    if not settings.as_json and (start := file.start) is not None:
        click.echo(start)
    dump = _core.LogDump.log(
        str(file.path), base_offset, settings.as_json, settings.deep, settings.print_data, settings.max_bytes
    )
    return _run(file, dump, settings)


def _dump_index(file: SegmentFile, settings: Settings) -> int:
    from samsarrow import _core

    base_offset = file.base_offset
    if base_offset is None:
        raise click.UsageError(
            f"{file.shown}: the entries of an index count from the offset in its name, which has none"
        )
    log = file.sibling("log") if file.kind != "txnindex" else None
    if log is not None and not log.is_file():
        raise click.ClickException(f"{file.shown}: {log.name}, which it is an index of, is not beside it")
    data = file.path.read_bytes()
    _head(file, settings)
    entries, wrong = _core.check_index(data, file.kind, base_offset)
    if settings.sanity_only or wrong is not None:
        return _sanity(file, settings, wrong)
    if entries == 0:
        _note(settings, f"{file.shown} is empty.")
        return 0
    offsets = file.sibling("index")
    lookup = offsets.read_bytes() if file.kind == "timeindex" and offsets.is_file() else None
    dump = _core.LogDump.index(
        data,
        file.kind,
        base_offset,
        None if log is None else str(log),
        lookup,
        settings.as_json,
        settings.verify_only,
    )
    return _run(file, dump, settings)


def _sanity(file: SegmentFile, settings: Settings, wrong: str | None) -> int:
    if wrong is None:
        _note(settings, f"{file.shown} passed sanity check.")
        return 0
    if settings.as_json:
        click.echo(json.dumps({"type": "problem", "position": 0, "offset": file.base_offset, "cause": wrong}))
    click.echo(f"{file.shown}: failed the sanity check: {wrong}", err=True)
    return 1


def _head(file: SegmentFile, settings: Settings) -> None:
    if settings.as_json:
        click.echo(json.dumps({"type": "file", "file": file.shown, "startOffset": file.base_offset}))
    else:
        click.echo(f"Dumping {file.shown}")


def _note(settings: Settings, text: str) -> None:
    click.echo(json.dumps({"type": "note", "text": text}) if settings.as_json else text)


def _run(file: SegmentFile, dump: LogDump, settings: Settings) -> int:
    """Prints all lines of a file, then its notes, problems and gaps; returns the number of problems."""
    out = sys.stdout.buffer
    with _progress(file, dump) as update:
        while (lines := dump.next()) is not None:
            out.write(lines)
            update()
    out.flush()
    problems, problem_count, gaps, gap_count, notes = dump.findings()
    for note in notes:
        _note(settings, f"{note} of {click.format_filename(file.path, shorten=True)}")
    for position, offset, cause in problems:
        click.echo(f"{file.shown}: position {position}, offset {offset}: {cause}", err=True)
    if problem_count > len(problems):
        click.echo(f"{file.shown}: and {problem_count - len(problems):,} more problems", err=True)
    if settings.as_json:
        for offset, following in gaps:
            click.echo(json.dumps({"type": "gap", "offset": offset, "nextOffset": following}))
    elif gaps:
        click.echo(f"Non-consecutive offsets in {file.shown}", err=True)
        for offset, following in gaps:
            click.echo(f"  {offset} is followed by {following}", err=True)
    if gap_count > len(gaps):
        click.echo(f"  and {gap_count - len(gaps):,} gaps more in {file.shown}", err=True)
    return problem_count


@contextlib.contextmanager
def _progress(file: SegmentFile, dump: LogDump) -> Iterator[Callable[[], None]]:
    """Shows a progress bar on stderr if stderr is a terminal and stdout is not."""
    done, size = dump.progress()
    label = click.format_filename(file.path, shorten=True)
    with progress(label, size, "B", enabled=not sys.stdout.isatty()) as advance:

        def update() -> None:
            nonlocal done
            before, done = done, dump.progress()[0]
            advance(done - before)

        yield update
