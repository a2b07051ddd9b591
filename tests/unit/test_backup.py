"""Backups without a cluster: digests, manifests, journals, files, and translation of offsets."""

import hashlib
import itertools
import json
import random
import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import OffsetAndMetadata, TopicPartition
from samsarrow._backup.comparing import Comparison, row_number
from samsarrow._backup.digests import RecordDigest
from samsarrow._backup.files import FileWriter, rows_before
from samsarrow._backup.folder import Folder, Plan, read_manifest
from samsarrow._backup.settings import final_settings
from samsarrow.backup import BackupError, BackupFile, Manifest, PartitionBackup, TopicBackup, backup, restore, verify
from samsarrow.exceptions import ConfigurationError

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        ("topic", pa.dictionary(pa.int32(), pa.string())), ("partition", pa.int32()), ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")), ("timestamp_type", pa.int8()), ("key", pa.binary()),
        ("value", pa.binary()), ("headers", HEADERS),
    ]
)  # fmt: skip


def record(draw: random.Random, offset: int) -> dict[str, Any]:
    def data() -> bytes | None:
        return draw.choice([None, b"", draw.randbytes(draw.randrange(1, 20))])

    headers = [{"key": draw.choice(["a", "", "ä"]), "value": data()} for _ in range(draw.randrange(4))]
    return {
        "topic": "t", "partition": 0, "offset": offset, "timestamp": draw.choice([None, 0, draw.randrange(1 << 40)]),
        "timestamp_type": draw.randrange(2), "key": data(), "value": data(), "headers": headers,
    }  # fmt: skip


def batch_of(records: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(records, SCHEMA)


def pieces(draw: random.Random, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Returns a batch cut into slices, some of which are empty."""
    cuts = sorted(draw.randrange(batch.num_rows + 1) for _ in range(draw.randrange(5)))
    bounds = [0, *cuts, batch.num_rows]
    return [batch.slice(start, end - start) for start, end in itertools.pairwise(bounds)]


def expected_digest(records: list[dict[str, Any]]) -> str:
    """Computes the documented digest record by record."""
    streams = [bytearray() for _ in range(10)]

    def add(stream: int, data: bytes | None) -> None:
        streams[stream] += struct.pack("<i", -1 if data is None else len(data))
        streams[stream + 1] += data or b""

    for one in records:
        add(0, one["key"])
        add(2, one["value"])
        streams[4] += struct.pack("<q", -1 if one["timestamp"] is None else one["timestamp"])
        streams[5] += struct.pack("<i", len(one["headers"]))
        for header in one["headers"]:
            add(6, header["key"].encode())
            add(8, header["value"])
    return hashlib.sha256(b"".join(hashlib.sha256(stream).digest() for stream in streams)).hexdigest()


@pytest.mark.parametrize("seed", range(20))
def test_digests_do_not_depend_on_batches(seed: int) -> None:
    draw = random.Random(seed)
    records = [record(draw, offset) for offset in range(draw.randrange(40))]
    digest = RecordDigest()
    for piece in pieces(draw, batch_of(records)):
        digest.update(piece)
    assert (digest.rows, digest.hexdigest()) == (len(records), expected_digest(records))


@pytest.mark.parametrize(
    ("column", "value"),
    [("key", b""), ("value", None), ("timestamp", 6), ("headers", [{"key": "b", "value": None}]), ("headers", [])],
)
def test_digests_show_each_change(column: str, value: Any) -> None:
    base = {**record(random.Random(1), 0), "key": None, "value": b"", "timestamp": 5}
    base["headers"] = [{"key": "b", "value": b""}]
    digests = set()
    for one in (base, {**base, column: value}):
        digest = RecordDigest()
        digest.update(batch_of([one]))
        digests.add(digest.hexdigest())
    assert len(digests) == 2


def written(folder: Path, draw: random.Random, rows: int) -> tuple[PartitionBackup, list[dict[str, Any]]]:
    """Writes a partition with gaps between its offsets to files."""
    records, offset = [], draw.randrange(50)
    start = offset
    for _ in range(rows):
        offset += draw.choice([0, 0, 0, 1, 7])
        records.append(record(draw, offset))
        offset += 1
    files: list[BackupFile] = []
    position = 0
    while position < rows:
        count = draw.randrange(1, 20)
        part = records[position : position + count]
        writer = FileWriter(folder, "t/0", SCHEMA, "zstd")
        for piece in pieces(draw, batch_of(part)):
            if piece.num_rows:
                writer.write(piece)
        files.append(writer.complete())
        position += count
    return PartitionBackup(0, start, offset + draw.randrange(3), tuple(files)), records


@pytest.mark.parametrize("seed", range(12))
def test_offsets_are_translated_to_the_same_records(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    partition, records = written(tmp_path, draw, draw.randrange(60))
    offsets = [one["offset"] for one in records]
    # The restored records have other gaps, as if a restore was interrupted and another client aborted a transaction.
    restored, at = [], 0
    for one in records:
        at += draw.choice([0, 0, 2])
        restored.append({**one, "offset": at, "timestamp_type": 0})
        at += 1
    row_numbers = {row_number(tmp_path, partition, offset) for offset in range(partition.start, partition.end + 1)}
    comparison = Comparison(tmp_path, partition, "t-0", row_numbers)
    for piece in pieces(draw, batch_of(restored)):
        comparison.add(piece)
        comparison.check_start()
    comparison.finish()
    for offset in range(partition.start, partition.end + 1):
        following = [number for number, found in enumerate(offsets) if found >= offset]
        expected = restored[following[0]]["offset"] if following else at
        assert comparison.found.get(row_number(tmp_path, partition, offset), at) == expected


def test_rows_before_reads_only_files_that_have_the_offset(tmp_path: Path) -> None:
    file = BackupFile("t/0/none.parquet", 10, 20, 6, 1, "", "")
    assert [rows_before(tmp_path, file, offset) for offset in (0, 10, 21, 99)] == [0, 0, 6, 6]
    with pytest.raises(BackupError, match=r"none.parquet \(offsets 10 to 20 of t-0\) cannot be read"):
        rows_before(tmp_path, file, 11)


@pytest.mark.parametrize("change", ["value", "missing", "more", "order"])
def test_comparisons_find_each_difference(change: str, tmp_path: Path) -> None:
    partition, records = written(tmp_path, random.Random(3), 30)
    if change == "value":
        records[17] = {**records[17], "value": b"other"}
    elif change == "missing":
        records.pop()
    elif change == "more":
        records.append({**records[-1], "offset": records[-1]["offset"] + 1})
    else:
        records[4], records[5] = records[5], records[4]

    def compare() -> None:
        comparison = Comparison(tmp_path, partition, "t-0")
        comparison.add(batch_of(records))
        comparison.check_start()
        comparison.finish()

    with pytest.raises(BackupError, match=r"^t-0"):
        compare()


def manifest_of(partition: PartitionBackup) -> Manifest:
    topic = TopicBackup("t", UUID(int=7), 3, {"retention.ms": "-1"}, (partition,))
    groups = {"g": {TopicPartition("t", 0): OffsetAndMetadata(5, "ä", 2)}}
    return Manifest("cluster", "2026-11-27T10:00:00+00:00", {"t": topic}, groups)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Manifest]:
    """Returns the folder of a complete backup, and its manifest."""
    path = tmp_path / "made"
    with Folder(path) as folder:
        partition, _ = written(path, random.Random(5), 25)
        manifest = manifest_of(partition)
        folder.finish(manifest)
    return path, manifest


def test_manifests_are_read_as_written(made: tuple[Path, Manifest]) -> None:
    path, manifest = made
    assert read_manifest(path) == verify(path) == manifest
    assert manifest.rows == 25


def test_manifests_of_other_versions_and_damaged_ones(made: tuple[Path, Manifest]) -> None:
    path, _ = made
    file = path / "manifest.json"
    tree = json.loads(file.read_text())
    for change, message in (
        ({"format": 2}, r"format 2 with digest .*, and this version of samsarrow reads format 1.*or a newer one"),
        ({"digest": "md5"}, "digest 'md5'"),
        ({"topics": {"t": {}}}, "is not a manifest of a backup"),
        ({"topics": {"u": tree["topics"]["t"]}}, "is not a file of u-0"),
        ({"topics": {"..": tree["topics"]["t"]}}, "is not a file of ..-0"),
    ):
        file.write_text(json.dumps(tree | change))
        with pytest.raises(BackupError, match=message):
            verify(path)
    rows = tree["topics"]["t"]["partitions"][0]
    rows["rows"] += 1
    file.write_text(json.dumps(tree))
    with pytest.raises(BackupError, match="have 25 rows in place of 26"):
        verify(path)
    file.write_text("{")
    with pytest.raises(BackupError, match="is not JSON"):
        verify(path)
    file.write_bytes(b"\xff")
    with pytest.raises(BackupError, match="is not text"):
        verify(path)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("partitions", 0, "files", 0, "first"), -5, r"-5 to \d+, are not after \d+ and before"),
        (("partitions", 0, "files", 1, "first"), 0, "are not after"),
        (("partitions", 0, "files", 0, "rows"), 0, "has 0 rows"),
        (("partitions", 0, "files", 0, "rows"), "5", "TypeError"),
        (("partitions", 0, "end"), 1, "and before 1"),
        (("partitions", 0, "end"), "x", "end is not a number from 0 on: 'x'"),
        (("partitions", 0, "start"), True, "start is not a number"),
        (("replication_factor",), "one", "replication_factor is not a number"),
        (("groups", 0, "offset"), "7", "offset is not a number from 0 on: '7'"),
        (("groups", 0, "offset"), -1, "offset is not a number"),
        (("groups", 0, "partition"), 77, "group g has an offset of t-77, which is not in the backup"),
        (("groups", 0, "topic"), "u", "group g has an offset of u-0, which is not in the backup"),
        (("groups", 0, "metadata"), None, "metadata of t-0 in group g is not text: None"),
    ],
)
def test_manifests_with_changed_values(
    place: tuple[str | int, ...], value: Any, message: str, made: tuple[Path, Manifest]
) -> None:
    path, _ = made
    file = path / "manifest.json"
    tree = json.loads(file.read_text())
    inner = tree["groups"]["g"] if place[0] == "groups" else tree["topics"]["t"]
    for key in place[1:-1] if place[0] == "groups" else place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    file.write_text(json.dumps(tree))
    with pytest.raises(BackupError, match=f"is not a manifest of a backup .*{message}"):
        verify(path)


@pytest.mark.parametrize("change", ["twice", "reversed"])
def test_manifests_with_files_in_another_order(change: str, made: tuple[Path, Manifest]) -> None:
    path, _ = made
    file = path / "manifest.json"
    tree = json.loads(file.read_text())
    partition = tree["topics"]["t"]["partitions"][0]
    if change == "twice":
        partition["files"].append(partition["files"][0])
        partition["rows"] += partition["files"][0]["rows"]
    else:
        partition["files"].reverse()
    file.write_text(json.dumps(tree))
    with pytest.raises(BackupError, match=r"the offsets of t/0/.*are not after"):
        restore(path, bootstrap_servers="localhost:1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("no Parquet", "cannot be read as Parquet"),
        ("columns", "does not have the columns of a backup"),
        ("numbers as values", "does not have the columns of a backup"),
        ("fewer rows", r"has \d+ rows in place of"),
        ("partition", "has partition 1 in place of 0"),
        ("topic", "has topic u in place of t"),
        ("offsets", r"has offset \d+ to \d+ in place of"),
    ],
)
def test_files_that_were_written_anew(change: str, message: str, made: tuple[Path, Manifest]) -> None:
    """Files and their digests in the manifest are changed together."""
    import pyarrow.parquet

    path, manifest = made
    first = next(file for file in manifest.files if file.rows > 1)
    file = path / first.path
    table = pyarrow.parquet.read_table(file, partitioning=None)

    def with_column(name: str, values: Any) -> pa.Table:
        return table.set_column(table.column_names.index(name), name, values)

    if change == "no Parquet":
        file.write_bytes(b"hello")
    else:
        rows = table.num_rows
        changed = {
            "columns": lambda: table.select(["value"]),
            "numbers as values": lambda: with_column("value", pa.array([1] * rows)),
            "fewer rows": lambda: table.slice(1),
            "partition": lambda: with_column("partition", pa.array([1] * rows, pa.int32())),
            "topic": lambda: with_column("topic", pa.array(["u"] * rows)),
            "offsets": lambda: with_column("offset", pa.array(range(1000, 1000 + rows), pa.int64())),
        }
        pyarrow.parquet.write_table(changed[change](), file)
    tree = json.loads((path / "manifest.json").read_text())
    for listed in tree["topics"]["t"]["partitions"][0]["files"]:
        if listed["path"] == first.path:
            listed |= {"size": file.stat().st_size, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    (path / "manifest.json").write_text(json.dumps(tree))
    for call in (lambda: verify(path), lambda: restore(path, bootstrap_servers="localhost:1")):
        with pytest.raises(BackupError, match=message):
            call()


@pytest.mark.parametrize("change", ["missing", "shorter", "one bit", "other topic"])
def test_verify_finds_changed_files(change: str, made: tuple[Path, Manifest]) -> None:
    path, manifest = made
    second = manifest.files[1]
    file = path / second.path
    data = bytearray(file.read_bytes())
    if change == "missing":
        file.unlink()
    elif change == "shorter":
        file.write_bytes(data[:-1])
    elif change == "one bit":
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    else:
        file.write_bytes((path / manifest.files[0].path).read_bytes())
    found = rf"{second.path} \(offsets {second.first} to {second.last} of t-0\)"
    with pytest.raises(BackupError, match=found):
        verify(path)
    with pytest.raises(BackupError, match=found):
        restore(path, bootstrap_servers="localhost:1")


def test_folders_without_a_complete_backup(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match=r"has no backup: there is no manifest.json in it"):
        verify(tmp_path)
    with Folder(tmp_path / "b") as folder:
        folder.begin(Plan(manifest_of(PartitionBackup(0, 0, 5)), {"t": [0]}))
    with pytest.raises(BackupError, match="is not complete: run `samsarrow backup` again"):
        verify(tmp_path / "b")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BackupError, match="has other files, and no backup"):
        Folder(tmp_path)


def test_journals_continue_after_an_incomplete_line(tmp_path: Path) -> None:
    plan = Plan(manifest_of(PartitionBackup(0, 3, 500)), {"t": [3]})
    with Folder(tmp_path) as folder:
        folder.begin(plan)
        partition, _ = written(tmp_path, random.Random(9), 50)
        first, second = partition.files[:2]
        folder.add_file("t", 0, first)
        folder.add_loss("t", 0, (first.last + 1, first.last + 3))
    with (tmp_path / "journal.ndjson").open("ab") as out:
        out.write(b'{"topic": "t", "parti')
    with Folder(tmp_path) as folder:
        found = folder.unfinished()
        assert found is not None
        assert found.manifest.files == (first,)
        assert found.positions == {"t": [first.last + 3]}
        folder.remove_unlisted(found.manifest.topics.values())
        assert [path.name for path in (tmp_path / "t" / "0").iterdir()] == [Path(first.path).name]
        folder.add_file("t", 0, second)
    with Folder(tmp_path) as folder:
        found = folder.unfinished()
        assert found is not None
        assert found.manifest.files == (first, second)


def test_damaged_journals(made: tuple[Path, Manifest], tmp_path: Path) -> None:
    """The remedy never removes a complete backup."""
    path, _ = made
    (tmp_path / "first").mkdir()
    for at, remedy in ((path, "remove this file, and run the backup again"), (tmp_path / "first", "no complete")):
        (at / "journal.ndjson").write_text("damaged\n")
        with Folder(at) as folder, pytest.raises(BackupError, match=f"is not a journal .*{remedy}"):
            folder.unfinished()


def test_one_process_writes_to_a_folder(tmp_path: Path) -> None:
    with Folder(tmp_path), pytest.raises(BackupError, match=r"process \d+ writes a backup to it"):
        Folder(tmp_path)


def test_arguments_are_checked(tmp_path: Path, made: tuple[Path, Manifest]) -> None:
    path, _ = made
    for call, error, message in (
        (lambda: backup("t", tmp_path), TypeError, r"topics are several names, not one str: \['t'\]"),
        (lambda: backup([], tmp_path), ConfigurationError, "topics has no names"),
        (lambda: backup(["t"], tmp_path, compression="lzo"), ConfigurationError, "zstd, snappy"),  # type: ignore[arg-type]
        (lambda: backup(["t"], tmp_path, file_size=0), ConfigurationError, "file_size"),
        (lambda: backup(["t"], tmp_path, isolation_level="read_uncommitted"), ConfigurationError, "isolation.level"),
        (lambda: restore(path, topics=["u"]), ConfigurationError, "topics: the backup in .* has no u, but t"),
        (lambda: restore(path, topic_map={"u": "v"}), ConfigurationError, "topic_map: .* has no u"),
        (lambda: restore(path, groups=["h"]), ConfigurationError, "groups: .* has no h, but g"),
        (lambda: restore(path, replication_factor=0), ConfigurationError, "replication_factor"),
        (lambda: restore(path, replication_factor=-5), ConfigurationError, "or -1 for the brokers' default, not -5"),
        (lambda: restore(path, replication_factor=True), ConfigurationError, "replication_factor"),
        (lambda: restore(path, topic_map="t=u"), TypeError, "topic_map is a dict, not str"),  # type: ignore[arg-type]
        (lambda: restore(path, configs=["a"]), TypeError, "configs is a dict, not list"),  # type: ignore[arg-type]
    ):
        with pytest.raises(error, match=message):
            call()


def test_final_settings() -> None:
    found = final_settings({"a": "1", "b": "2"}, {"b": "3", "c": "4"}, ["a"])
    assert found == {"b": "3", "c": "4"}
