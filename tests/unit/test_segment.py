"""read_segment and dump-log without a broker: intact and damaged segments, and invalid command lines."""

import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from samsarrow import decode_batches, encode_batches, read_segment
from samsarrow.cli import cli
from samsarrow.exceptions import ConfigurationError, CorruptRecordError

ROWS = 1000
LAYOUTS = ["binary", "view"]
SOURCES = pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "copied"])


def encoded(compression="none", magic=2, base_offset=0, rows=ROWS, batch_size=2000):
    table = pa.table({
        "key": pa.array([None if i % 3 else b"k%d" % i for i in range(rows)], pa.binary()),
        "value": pa.array([b"value number %d" % i for i in range(rows)], pa.binary()),
        "timestamp": pa.array([1_700_000_000_000 + i for i in range(rows)], pa.int64()),
    })  # fmt: skip
    return encode_batches(
        table,
        timestamp="timestamp",
        compression=compression,
        magic=magic,
        base_offset=base_offset,
        batch_size=batch_size,
    )


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes a segment file into the folder of a partition."""

    def write(data, name="00000000000000000000.log", folder="my-topic-3"):
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return path

    return write


def dump(*arguments) -> Result:
    return CliRunner().invoke(cli, ["dump-log", *map(str, arguments)])


def offsets(batches):
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


@SOURCES
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_read_segment_equals_decode_batches(write, compression, layout, mmap):
    data = encoded(compression)
    reader = read_segment(write(data), layout=layout, mmap=mmap, batch_bytes=5000)
    batches = list(reader)
    assert len(batches) > 3
    for batch in batches:
        batch.validate(full=True)
    table, whole = pa.Table.from_batches(batches), decode_batches(data, layout=layout)
    assert table["topic"].unique().to_pylist() == ["my-topic"]
    assert table["partition"].unique().to_pylist() == [3]
    for name in ("key", "value", "offset", "timestamp", "timestamp_type"):
        assert table[name].to_pylist() == whole[name].to_pylist()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_legacy_formats(write, magic, compression):
    path = write(encoded(compression, magic, base_offset=50))
    assert offsets(read_segment(path, batch_bytes=4000)) == list(range(50, 50 + ROWS))


@pytest.mark.parametrize("rows", [1, 7, 64, 100_000])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_batch_rows_limits_the_batch_size(write, rows, compression):
    batches = list(read_segment(write(encoded(compression)), batch_rows=rows))
    assert offsets(batches) == list(range(ROWS))
    assert max(batch.num_rows for batch in batches) == min(rows, ROWS)


@pytest.mark.parametrize(
    ("start", "end"), [(0, 1), (5, 5), (17, 900), (-5, 3), (990, 5000), (5000, 6000), (None, 40), (40, None)]
)
def test_from_offset_and_until_offset(write, start, end):
    path = write(encoded("snappy"))
    found = offsets(read_segment(path, from_offset=start, until_offset=end, batch_rows=100))
    assert found == list(range(ROWS))[max(start or 0, 0) : end]


def test_views_point_into_the_mapped_file(write):
    """The views need no copy. The file may be deleted, since its pages stay mapped as long as the batch exists."""
    path = write(encoded(rows=20_000))
    before = pa.total_allocated_bytes()
    batches = list(read_segment(path, layout="view"))
    path.unlink()
    assert pa.total_allocated_bytes() - before < 10_000
    values = batches[-1]["value"]
    assert values[-1].as_py() == b"value number 19999"
    # A view array has a validity buffer, a views buffer, and the data buffers, which are sections of the mapped file.
    assert sum(buffer.size for batch in batches for buffer in batch["value"].buffers()[2:]) <= 2 * len(
        encoded(rows=20_000)
    )


@SOURCES
def test_an_empty_file_is_an_empty_reader(write, mmap):
    reader = read_segment(write(b""), include_headers=True, mmap=mmap)
    assert reader.schema == decode_batches(b"", include_headers=True).schema
    assert reader.read_all().num_rows == 0


@SOURCES
@pytest.mark.parametrize("zeros", [1, 11, 12, 16, 100, 3_000_000])
def test_preallocated_space_ends_the_segment(write, zeros, mmap):
    path = write(encoded() + bytes(zeros))
    assert offsets(read_segment(path, mmap=mmap)) == list(range(ROWS))
    result = dump(path)
    assert result.exit_code == 0, result.output
    assert f"Found {zeros} zero bytes (preallocated space) at the end of {path.name}" in result.stdout


def test_segment_of_zeros_is_empty(write):
    path = write(bytes(10_000))
    assert read_segment(path).read_all().num_rows == 0
    assert dump(path).exit_code == 0


def corrupt_tails():
    """Returns damaged data to append to valid batches, each with the reported cause."""
    batch = encoded(base_offset=ROWS, rows=10)
    flipped = bytearray(batch)
    flipped[100] ^= 1
    short = (ROWS).to_bytes(8, "big") + (5).to_bytes(4, "big") + bytes(100)
    return {
        "cut in the records": (batch[:-1], "ends within a batch"),
        "cut in the header": (batch[:30], "ends within a batch"),
        "cut before the magic": (batch[:14], "ends within a batch"),
        "cut in the length": (batch[:9], "ends within a batch"),
        "flipped": (bytes(flipped), "the data is corrupt"),
        "garbage": (b"this is no batch at all" * 10, "magic 32 is unknown"),
        "cut, then zeros": (batch[:-20] + bytes(20_000), "the data is corrupt"),
        "zeros, then a batch": (bytes(1000) + batch, "length 0"),
        "a length below a header": (short, "length 5"),
    }


@SOURCES
@pytest.mark.parametrize("kind", corrupt_tails())
def test_corrupt_tail_is_reported_after_all_good_rows(write, kind, mmap):
    tail, cause = corrupt_tails()[kind]
    good = encoded("lz4")
    path = write(good + tail)
    reader = read_segment(path, mmap=mmap, batch_bytes=3000)
    found = []
    with pytest.raises(CorruptRecordError, match=cause) as raised:
        found += (offset for batch in reader for offset in offsets([batch]))
    assert found == list(range(ROWS))
    assert f"log segment {path}: position {len(good)}, offset {ROWS}: " in str(raised.value)
    assert offsets(read_segment(path, mmap=mmap, corrupt_tail="stop")) == found
    result = dump(path)
    assert result.exit_code == 1
    assert f"{path}: position {len(good)}, offset {ROWS}: " in result.stderr
    assert cause in result.stderr
    problem = [o for o in map(json.loads, dump("--json", path).stdout.splitlines()) if o["type"] == "problem"]
    assert [(p["position"], p["offset"]) for p in problem] == [(len(good), ROWS)]
    assert cause in problem[0]["cause"]


def test_corrupt_tail_after_until_offset_is_not_read(write):
    path = write(encoded() + b"garbage, garbage, garbage")
    assert offsets(read_segment(path, until_offset=ROWS - 1)) == list(range(ROWS - 1))


def test_check_crcs_false_ignores_a_wrong_checksum(write):
    data = bytearray(encoded(rows=10, batch_size=1 << 20))
    # Changes the last byte of the last value. It is followed by the header count of the record.
    data[-2] ^= 1
    path = write(data)
    with pytest.raises(CorruptRecordError, match="the CRC is"):
        read_segment(path).read_all()
    assert offsets(read_segment(path, check_crcs=False)) == list(range(10))


def test_dump_log_continues_after_a_bad_batch(write):
    data = bytearray(encoded())
    data[100] ^= 1
    result = dump("--deep", write(data))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("baseOffset")][:2] == ["false", "true"]
    assert f"| offset: {ROWS - 1} " in result.stdout


def test_dump_log_of_a_folder(write, tmp_path):
    first = write(encoded())
    second = write(encoded(), name=f"{ROWS:020}.log")
    write(b"", name="leader-epoch-checkpoint")
    write(b"", name="00000000000000000000.index")
    folder = dump(first.parent)
    assert (folder.exit_code, folder.stdout) == (0, dump(first, second).stdout)
    lines = dump("-o", "ndjson", first.parent).stdout.splitlines()
    assert [json.loads(line)["file"] for line in lines if '"type": "file"' in line] == [str(first), str(second)]
    assert dump("--json", first.parent).stdout.splitlines() == lines
    sane = dump("--index-sanity-check", first.parent)
    assert (sane.exit_code, "00000000000000000000.index passed sanity check" in sane.stdout) == (0, True)
    for wrong, text in ((tmp_path, f"pass the folder of a partition, such as {first.parent}"), ("nowhere", "nowhere")):
        failed = dump(wrong)
        assert (failed.exit_code, failed.stdout) == (2, "")
        assert text in failed.stderr
    (tmp_path / "empty").mkdir()
    assert "empty has no files that end in .log, .checkpoint" in dump(tmp_path / "empty").stderr


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("flights-3", ("flights", 3)),
        ("a-b.c_d-12", ("a-b.c_d", 12)),
        ("t-0.0123456789abcdef0123456789abcdef-delete", ("t", 0)),
        ("t-1.0123456789abcdef0123456789abcdef-stray", ("t", 1)),
        ("flights", (None, None)),
        ("-3", (None, None)),
        ("flights-", (None, None)),
        ("flights-99999999999", (None, None)),
        ("flights-9999999999", (None, None)),
    ],
)
def test_topic_and_partition_from_the_folder_name(write, folder, place):
    batch = read_segment(write(encoded(rows=2), folder=folder)).read_next_batch()
    assert (batch["topic"][0].as_py(), batch["partition"][0].as_py()) == place


def test_topic_and_partition_from_a_relative_path(write, monkeypatch):
    path = write(encoded(rows=2))
    monkeypatch.chdir(path.parent)
    assert read_segment(path.name).read_next_batch()["topic"][0].as_py() == "my-topic"


@SOURCES
def test_missing_file_and_folder_are_errors(tmp_path, mmap):
    with pytest.raises(FileNotFoundError, match=r"gone\.log"):
        read_segment(tmp_path / "gone.log", mmap=mmap)
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        read_segment(tmp_path, mmap=mmap)


@pytest.mark.parametrize(
    "wrong",
    [{"layout": "rows"}, {"batch_rows": 0}, {"batch_bytes": 0}, {"batch_bytes": 1 << 31}, {"corrupt_tail": "skip"}],
    ids=str,
)
def test_invalid_arguments_are_rejected(write, wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        read_segment(write(b""), **wrong)


def test_truncated_file_is_an_error_without_mmap(write):
    path = write(encoded(rows=100_000))
    reader = read_segment(path, mmap=False)
    reader.read_next_batch()
    os.truncate(path, 1_500_000)
    with pytest.raises(OSError, match="shorter"):
        reader.read_all()


def test_appended_data_is_not_read(write):
    path = write(encoded())
    reader = read_segment(path, mmap=False)
    with path.open("ab") as file:
        file.write(encoded(base_offset=ROWS))
    assert offsets(reader) == list(range(ROWS))


@pytest.mark.parametrize(
    ("make", "code", "text"),
    [
        (lambda folder: [folder / "gone.log"], 2, "does not exist"),
        (lambda folder: [folder], 2, "has no files that end in .log, .checkpoint"),
        (lambda folder: [], 2, "Missing argument"),
        (lambda folder: [touch(folder / "notes.txt")], 2, "is not a segment file"),
        (lambda folder: [touch(folder / "00.index")], 1, "00.log, which it is an index of, is not beside it"),
        (lambda folder: [touch(folder / "odd.index")], 2, "count from the offset in its name"),
        (lambda folder: [touch(folder / "0.log", b"dear diary, " * 9)], 1, "position 0, offset "),
        (lambda folder: ["--max-bytes", "-1", touch(folder / "0.log")], 2, "--max-bytes"),
    ],
)  # fmt: skip
def test_invalid_command_lines(tmp_path: Path, make, code, text):
    result = dump(*make(tmp_path))
    assert result.exit_code == code
    assert text in result.stderr
    assert "Traceback" not in result.output


def touch(path: Path, data=b"") -> Path:
    path.write_bytes(data)
    return path


def index_entry(offset, position):
    return offset.to_bytes(4, "big", signed=True) + position.to_bytes(4, "big", signed=True)


def test_index_is_verified_against_its_log(write):
    path = write(encoded(base_offset=100), name="00000000000000000100.log")
    batches = [o for o in map(json.loads, dump("--json", path).stdout.splitlines()) if o["type"] == "batch"]
    entries = [(batch["lastOffset"] - 100, batch["position"]) for batch in batches[1:6]]
    index = path.with_suffix(".index")
    index.write_bytes(b"".join(index_entry(*entry) for entry in entries) + bytes(800))
    times = path.with_suffix(".timeindex")
    stamps = [(batch["maxTimestamp"].to_bytes(8, "big"), batch["lastOffset"] - 100) for batch in batches]
    times.write_bytes(b"".join(stamp + offset.to_bytes(4, "big") for stamp, offset in stamps) + bytes(120))
    good = dump(index, times)
    assert (good.exit_code, good.stderr) == (0, "")
    assert good.stdout.count("position: ") == 5
    assert good.stdout.count("timestamp: ") == len(batches)
    assert dump("--index-check", path).exit_code == 0

    wrong = [
        entries[0],
        (entries[1][0] + 1, entries[1][1]),
        (entries[2][0], -1),
        (entries[3][0], 1 << 30),
        (entries[4][0], 7),
    ]
    index.write_bytes(b"".join(index_entry(*entry) for entry in wrong))
    times.unlink()
    for result in (dump("--verify-index-only", index), dump("--index-check", path)):
        assert result.exit_code == 1
        lines = result.stderr.splitlines()
        assert [line.split(": ")[1] for line in lines] == [
            f"position {8 * at}, offset {100 + wrong[at][0]}" for at in (1, 2, 3, 4)
        ]
        assert f"Index offset: {100 + wrong[1][0]}, log offset: {100 + entries[1][0]}" in lines[0]
        assert "no whole batch at position -1" in lines[1]
        assert f"no whole batch at position {1 << 30}" in lines[2]


def test_wrong_time_index_entries_are_reported(write):
    path = write(encoded())
    batches = [o for o in map(json.loads, dump("--json", path).stdout.splitlines()) if o["type"] == "batch"]
    times = path.with_suffix(".timeindex")
    rows = [(batch["maxTimestamp"], batch["lastOffset"]) for batch in batches[:6]]
    rows[1] = (rows[1][0] + 1, rows[1][1])
    rows[2] = (rows[0][0], rows[2][1])
    rows[3] = (rows[3][0], rows[3][1] - 1)
    rows[4] = (rows[4][0], rows[0][1])
    rows[5] = (rows[5][0], 100_000)
    times.write_bytes(b"".join(stamp.to_bytes(8, "big") + offset.to_bytes(4, "big") for stamp, offset in rows))
    result = dump("--verify-index-only", times)
    assert result.exit_code == 1
    for text in [
        f"Index timestamp: {rows[1][0]}, log timestamp: {rows[1][0] - 1}",
        f"Index timestamp: {rows[2][0]}, Previously indexed timestamp: {rows[1][0]}",
        f"Indexed offset: {rows[3][1]}, found log offset: {rows[3][1] + 1}",
        f"Index offset: {rows[4][1]}, previously indexed offset: {rows[3][1]}",
        "Indexed offset: 100000, found log offset: -1",
    ]:
        assert text in result.stderr


def test_empty_index_and_index_sanity_check(write):
    path = write(encoded())
    index = path.with_suffix(".index")
    index.write_bytes(bytes(80))
    assert f"{index} is empty." in dump(index).stdout
    assert f"{index} passed sanity check." in dump("--index-sanity-check", index).stdout
    index.write_bytes(index_entry(9, 1) + b"odd")
    for flags in ([], ["--index-sanity-check"], ["--json"]):
        result = dump(*flags, index)
        assert result.exit_code == 1
        assert "11 bytes are no multiple of 8" in result.stderr


def test_max_bytes(write):
    path = write(encoded())
    first, second = [o for o in map(json.loads, dump("--json", path).stdout.splitlines()) if o["type"] == "batch"][:2]
    result = dump("--max-bytes", second["position"] + second["size"] - 1, path)
    assert result.exit_code == 0
    assert result.stdout.count("baseOffset") == 1
    assert f"size: {first['size']}" in result.stdout


def test_index_of_a_deleted_segment(write):
    path = write(encoded(), name="00000000000000000000.log.deleted")
    path.with_name("00000000000000000000.index.deleted").write_bytes(bytes(80))
    result = dump("--index-check", path)
    assert result.exit_code == 0
    assert "index.deleted is empty." in result.stdout


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_bar_only_on_a_terminal(write, terminal):
    path = write(encoded())
    master, slave = os.openpty()
    stderr = slave if terminal else subprocess.PIPE
    command = [sys.executable, "-m", "samsarrow.cli", "dump-log", str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, timeout=60, check=True)
    os.close(slave)
    shown = b"" if terminal else done.stderr
    # At the end of the terminal output, read raises an error.
    with suppress(OSError):
        while terminal and (part := os.read(master, 100_000)):
            shown += part
    os.close(master)
    assert (b"100%" in shown) == terminal
    assert b"%" not in done.stdout
    assert done.stdout == dump(path).stdout_bytes


def test_paths_that_are_not_utf8(tmp_path):
    folder = tmp_path / os.fsdecode(b"t\xff-1")
    folder.mkdir()
    path = folder / "0.log"
    path.write_bytes(encoded() + b"garbage, garbage, garbage")
    for mmap in (True, False):
        reader = read_segment(path, mmap=mmap)
        assert reader.read_next_batch()["topic"][0].as_py() == "t\ufffd"
        with pytest.raises(CorruptRecordError, match=r"t\ufffd-1/0\.log: position"):
            reader.read_all()
    for flags in ([], ["--json"]):
        result = dump(*flags, path)
        assert result.exit_code == 1
        assert "t\ufffd-1/0.log: position" in result.stderr
