"""Offsets of groups as text: JSON, CSV, and the format of Kafka's old ExportZkOffsets and ImportZkOffsets."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from samsarrow.offsets.store import OffsetStoreError
from samsarrow.types import OffsetAndMetadata, TopicPartition

Snapshot = dict[str, dict[TopicPartition, OffsetAndMetadata]]
"""Offsets by group."""

FORMATS = ("json", "csv", "zookeeper")
_COLUMNS = ["group", "topic", "partition", "offset", "leader_epoch", "metadata"]
_LINE = re.compile(r"/consumers/(?P<group>[^/]+)/offsets/(?P<topic>[^/]+)/(?P<partition>\d+):(?P<offset>\d+)")
_VERSION = 1

_Row = tuple[str, str, str, str, str | None, str]
"""Group, topic, partition, offset, leader epoch, metadata."""


class FormatError(OffsetStoreError):
    """The text does not have the expected format."""

    name = "FORMAT"


def dump(groups: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]], form: str) -> str:
    """Formats offsets as text.

    Args:
        groups: offsets by group.
        form: one of `FORMATS`: `json` and `csv` contain all fields; `zookeeper` has no metadata and no leader epochs.

    Raises:
        FormatError: the format is unknown, or cannot represent the name of a group.
    """
    rows = [(group, *tp, o) for group, offsets in sorted(groups.items()) for tp, o in sorted(offsets.items())]
    if form == "json":
        tree: dict[str, list[dict[str, Any]]] = {group: [] for group in sorted(groups)}
        for group, topic, partition, offset in rows:
            tree[group].append({"topic": topic, "partition": partition, **offset._asdict()})
        return json.dumps({"version": _VERSION, "groups": tree}, indent=1, ensure_ascii=False) + "\n"
    if form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(_COLUMNS)
        writer.writerows(
            (group, topic, partition, o.offset, "" if o.leader_epoch is None else o.leader_epoch, o.metadata)
            for group, topic, partition, o in rows
        )
        return out.getvalue()
    if form != "zookeeper":
        raise FormatError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    if bad := next((group for group in groups if not group or "/" in group), None):
        raise FormatError(f"group {bad!r} has no path in ZooKeeper: export it as JSON or CSV")
    return "".join(
        f"/consumers/{group}/offsets/{topic}/{partition}:{o.offset}\n" for group, topic, partition, o in rows
    )


def parse(text: str, form: str | None = None) -> Snapshot:
    """Parses offsets from text.

    Args:
        text: output of `dump`, or the CSV of Kafka's kafka-consumer-groups, which has no header
            (`topic,partition,offset` or `group,topic,partition,offset`). Without a group in the text, its name is
            empty.
        form: format of the text; by default it is detected.

    Raises:
        FormatError: the text does not have the format; the message has the line number.
    """
    form = form or _form(text)
    readers = {"json": _json, "csv": _csv, "zookeeper": _lines}
    if form not in readers:
        raise FormatError(f"format {form!r} is not one of {', '.join(FORMATS)}")
    rows = readers[form](text)
    groups: Snapshot = {}
    for where, (group, topic, partition, offset, epoch, metadata) in rows:
        try:
            tp = TopicPartition(topic, _number(partition, "partition", 2**31))
            parsed = OffsetAndMetadata(
                _number(offset, "offset", 2**63), metadata, _number(epoch, "leader epoch", 2**31) if epoch else None
            )
        except ValueError as error:
            raise FormatError(f"{where}: {error}") from None
        if not topic:
            raise FormatError(f"{where}: the name of the topic is empty")
        offsets = groups.setdefault(group, {})
        if offsets.setdefault(tp, parsed) != parsed:
            raise FormatError(f"{where}: {topic}-{partition} of group {group!r} appears twice with different offsets")
    return groups


def _form(text: str) -> str:
    start = text.lstrip()[:1]
    return "json" if start in ("{", "[") else "zookeeper" if start == "/" else "csv"


def _number(text: str, what: str, limit: int) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) >= limit:
        raise ValueError(f"{what} {text!r} is not a number from 0 to {limit - 1}")
    return int(text)


def _json(text: str) -> Iterator[tuple[str, _Row]]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise FormatError(f"not JSON: {error}") from None
    groups = content.get("groups") if isinstance(content, dict) else None
    if not isinstance(content, dict) or content.get("version") != _VERSION or not isinstance(groups, dict):
        raise FormatError(f'not JSON of offsets: it must be {{"version": {_VERSION}, "groups": {{...}}}}')
    for group, rows in groups.items():
        if not isinstance(rows, list):
            raise FormatError(f"group {group!r}: must be a list")
        for i, row in enumerate(rows):
            where = f"group {group!r}, entry {i}"
            if not isinstance(row, dict) or not {"topic", "partition", "offset"} <= row.keys():
                raise FormatError(f"{where}: must have topic, partition and offset")
            topic, metadata, epoch = row["topic"], row.get("metadata", ""), row.get("leader_epoch")
            numbers = [row["partition"], row["offset"], *([] if epoch is None else [epoch])]
            if not isinstance(topic, str) or not isinstance(metadata, str) or any(type(n) is not int for n in numbers):
                raise FormatError(f"{where}: topic and metadata must be text, the others whole numbers")
            yield where, (group, topic, *map(str, numbers[:2]), None if epoch is None else str(epoch), metadata)


def _csv(text: str) -> Iterator[tuple[str, _Row]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise FormatError(f"line {reader.line_num}: {error}") from None
        if row is None:
            return
        where = f"line {reader.line_num}"
        if not row or row == _COLUMNS:
            continue
        match row:
            case [topic, partition, offset]:
                yield where, ("", topic, partition, offset, None, "")
            case [group, topic, partition, offset]:
                yield where, (group, topic, partition, offset, None, "")
            case [group, topic, partition, offset, epoch, metadata]:
                yield where, (group, topic, partition, offset, epoch or None, metadata)
            case _:
                raise FormatError(f"{where}: {len(row)} columns; there must be {', '.join(_COLUMNS)}")


def _lines(text: str) -> Iterator[tuple[str, _Row]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise FormatError(
                f"line {number}: {line.strip()[:100]!r} is not /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        yield f"line {number}", (match["group"], match["topic"], match["partition"], match["offset"], None, "")
