"""`samsarrow dump-log` compared with Kafka's DumpLogSegments line by line, on segments written by brokers."""

import base64
import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from samsarrow import Producer, encode_batches, read_segment
from support.fixtures import create_topic
from support.kafka import QUICK_COMPILER, KafkaServer
from support.peers import Sent
from support.peers.java_api import JavaPeer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
MINUTE = 60_000
JAVA_TOOL = {"4.3.1": "org.apache.kafka.tools.DumpLogSegments", "3.9.1": "kafka.tools.DumpLogSegments"}
ODD = [
    Sent(b"k", b"v", (("a", b"1"), ("b", None), ("a", b""))),
    Sent(b"k", None, (("gone", b"\xff"),)),
    Sent(None, b""),
    Sent(b"", "Grüße, 漢字 😀".encode()),
    Sent(None, b"\xff\xfe not UTF-8 \xc3", timestamp=1_357_016_400_000),
    Sent(b"line\nends", b"a\n\nb\n"),
    Sent(b"key", b"x" * 5000),
]


def numbered(count: int, size: int = 20) -> list[Sent]:
    return [Sent(b"k%d" % (i % 7), b"%0*d" % (size, i)) for i in range(count)]


@dataclass
class Dump:
    out: list[str]
    err: list[str]
    code: int

    def of(self, file: Path) -> list[str]:
        """Returns the lines about one file."""
        start = self.out.index(f"Dumping {file}") + 1
        rest = self.out[start:]
        return rest[: next((i for i, line in enumerate(rest) if line.startswith("Dumping ")), len(rest))]


def java_dump(server: KafkaServer, files: list[Path], *flags: str) -> Dump:
    # Sets the encoding of the output, which by default depends on the locale.
    jvm = ["-Xmx256m", *QUICK_COMPILER, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8"]
    names = ",".join(map(str, files))
    return run(server.java(JAVA_TOOL[server.version], "--files", names, *flags, jvm=jvm))


def our_dump(files: list[Path], *flags: str) -> Dump:
    return run([sys.executable, "-m", "samsarrow.cli", "dump-log", *flags, *map(str, files)])


def lossy(data: bytes) -> str:
    """Replaces each run of invalid bytes by one character, because Java replaces the three bytes of a surrogate by
    one.
    """
    return re.sub("\ufffd+", "\ufffd", data.decode(errors="replace"))


def run(command: list[str]) -> Dump:
    done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    return Dump(lines(lossy(done.stdout)), lines(lossy(done.stderr)), done.returncode)


def lines(text: str) -> list[str]:
    """Splits output into lines, but not at line breaks within record data."""
    results: list[str] = []
    # Does not use splitlines, which would split at U+2028 and similar characters of the data.
    for line in text.split("\n")[:-1]:
        if results and results[-1].startswith("| ") and not line.startswith(AFTER_RECORD):
            results[-1] += f"\n{line}"
        else:
            results.append(line)
    return results


def copies(server: KafkaServer, topic: str, folder: Path) -> list[Path]:
    """Copies the files of a partition, so that the broker cannot change them."""
    target = folder / f"{topic}-0"
    # At any time, the broker may delete files that the cleaner has replaced.
    shutil.copytree(server.data_dir / f"{topic}-0", target, ignore=shutil.ignore_patterns("*.deleted", "*.cleaned"))
    return sorted(target.iterdir())


def logs(files: list[Path]) -> list[Path]:
    return [path for path in files if path.suffix == ".log"]


@dataclass
class Segments:
    """Copied segments by kind."""

    files: dict[str, list[Path]]

    @property
    def logs(self) -> list[Path]:
        return [path for files in self.files.values() for path in logs(files)]


RECORD = re.compile(
    r"\| (?P<head>offset: \d+ \w+: -?\d+ keySize: -?\d+ valueSize: -?\d+( sequence: -?\d+)?)"
    r"( headerKeys: \[(?P<headers>.*?)\])?(?P<rest>( isValid: \w+ crc: \d+| endTxnMarker: \w+ coordinatorEpoch: \d+)?)"
    r"( key: (?P<key>.*?))?( payload: (?P<payload>.*))?",
    re.DOTALL,
)
AFTER_RECORD = ("| ", "baseOffset: ", "offset: ", "Dumping ", "Found ")


def parse(line: str) -> dict[str, object]:
    """Parses a line of Kafka's tool into the form of our JSON."""
    record = RECORD.fullmatch(line)
    fields: dict[str, object] = {"type": "record" if record else "batch"}
    for name, value in re.findall(r"(\w+): (\S+)", record["head"] + record["rest"] if record else line):
        if name in ("NoTimestampType", "CreateTime", "LogAppendTime"):
            fields["timestampType"] = name
            name = "timestamp" if record else "maxTimestamp"
        elif name == "endTxnMarker":
            fields["controlTypeId"] = {"ABORT": 0, "COMMIT": 1}[value]
            name = "controlType"
        elif name == "deleteHorizonMs":
            value = value.removeprefix("OptionalLong").strip("[]").replace(".empty", "null")
        fields[name] = json.loads(value) if re.fullmatch(r"-?\d+|true|false|null", value) else value
    if record and record["headers"] is not None:
        fields["headerKeys"] = record["headers"].split(",") if record["headers"] else []
    if record and "controlType" not in fields:
        fields |= {"key": record["key"], "payload": record["payload"]}
    return fields


def as_java(given: dict[str, object]) -> dict[str, object]:
    """Removes from our JSON object the members that Kafka's tool does not print."""
    for name in ("key", "payload"):
        if isinstance(coded := given.get(name), dict):
            given[name] = lossy(base64.b64decode(coded["base64"]))
    return {name: value for name, value in given.items() if name != "headers"}


@pytest.fixture(scope="module")
def segments(kafka: KafkaServer, java: JavaPeer, tmp_path_factory: pytest.TempPathFactory) -> Segments:
    folder = tmp_path_factory.mktemp("segments")
    topics = {}
    for codec in CODECS:
        topic = topics[codec] = create_topic(kafka)
        # The first write has no sequence numbers, the second one has them.
        java.produce(topic, codec, ODD)
        java.open("one", compression_type=codec, linger_ms="50")
        for _ in range(3):
            java.send("one", topic, numbered(200))
        java.call("close", name="one")
    topics["append time"] = create_topic(kafka, message_timestamp_type="LogAppendTime")
    for codec in ("none", "zstd"):
        java.produce(topics["append time"], codec, ODD + numbered(50))
    topics["transactions"] = create_topic(kafka)
    topics["aborted"] = create_topic(kafka, segment_bytes="1048576")
    transactions(java, topics["transactions"], topics["aborted"])
    topics["rolled"] = create_topic(kafka, segment_bytes="1048576", index_interval_bytes="1000")
    with Producer(bootstrap_servers=kafka.bootstrap_servers, batch_size=4000) as producer:
        # Sends many requests, because a request adds at most one entry to the index.
        for start in range(0, 20_000, 250):
            numbers = range(start, start + 250)
            stamps = pa.array([1_700_000_000_000 + 37 * (i ^ 5) for i in numbers], pa.int64())
            values = pa.array([b"%0150d" % i for i in numbers], pa.binary())
            producer.send_batch(topics["rolled"], pa.table({"value": values, "t": stamps}), timestamp="t").result(60)
    topics["compacted"] = compacted(kafka, java)
    files = {kind: copies(kafka, topic, folder) for kind, topic in topics.items()}
    files["coordinator"] = copies(kafka, "__transaction_state", folder)
    for magic in (0, 1):
        for codec in CODECS[:4]:
            path = folder / f"v{magic}-{codec}-0" / "00000000000000000100.log"
            path.parent.mkdir()
            path.write_bytes(old_format(magic, codec))
            files[path.parent.name] = [path]
    return Segments(files)


def transactions(java: JavaPeer, topic: str, larger: str) -> None:
    names = ["first", "second"]
    for name, codec in zip(names, ("none", "lz4"), strict=True):
        java.open(name, compression_type=codec, transactional_id=f"{topic}-{name}", linger_ms="50")
        java.call("init", name=name)
    for end in ("commit", "abort", "commit"):
        for name in names:
            java.call("begin", name=name)
        for name in names:
            java.send(name, topic, numbered(30))
            # Large enough to roll the segment, so that the transaction index of a closed segment has entries.
            java.send(name, larger, [Sent(None, b"z" * 150_000) for _ in range(3)])
        for name in names:
            java.call(end, name=name)
    for name in names:
        java.call("close", name=name)


def compacted(kafka: KafkaServer, java: JavaPeer) -> str:
    """A compacted log with gaps, and with tombstones that are not deleted yet."""
    topic = create_topic(kafka, cleanup_policy="compact", segment_ms="30000", min_cleanable_dirty_ratio="0.01")
    now = int(time.time() * 1000)
    keys = [b"k%d" % i for i in range(20)]
    generations = [keys, keys[::2], keys[5:9], [b"last"]]
    for number, some in enumerate(generations):
        value = None if number == 2 else b"generation %d" % number
        java.produce(
            topic, ["gzip", "none", "zstd", "none"][number], [Sent(k, value, (), now + number * MINUTE) for k in some]
        )
    until = time.monotonic() + 60
    while not cleaned(kafka, topic, len(keys)):
        assert time.monotonic() < until, f"the cleaner has not cleaned: {list(kafka.segments(topic))}"
        time.sleep(0.1)
    return topic


def cleaned(kafka: KafkaServer, topic: str, records: int) -> bool:
    try:
        readers = [read_segment(path, mmap=False) for path in sorted(kafka.segments(topic))[:-1]]
    except FileNotFoundError:
        # The cleaner deleted a segment before it was read.
        return False
    # The cleaner renames index files later than the segment, so it is not done while `.swap` files exist.
    done = not any((kafka.data_dir / f"{topic}-0").glob("*.swap"))
    return sum(batch.num_rows for reader in readers for batch in reader) == records and done


def old_format(magic: int, codec: str) -> bytes:
    values = [None, b"", b"v", *[b"value %d" % i for i in range(300)]]
    table = pa.table({
        "key": pa.array([b"k", None, b"", *[b"%d" % (i % 3) for i in range(300)]], pa.binary()),
        "value": pa.array(values, pa.binary()),
        "timestamp": pa.array([1_400_000_000_000 + i for i in range(303)], pa.int64()),
    })  # fmt: skip
    return encode_batches(
        table,
        timestamp="timestamp",
        magic=magic,
        compression=codec,
        base_offset=100,
        batch_size=2000,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def deep(kafka: KafkaServer, segments: Segments) -> Dump:
    """Output of Kafka's tool for all logs, with all records and their data."""
    return java_dump(kafka, segments.logs, "--print-data-log")


def test_segments_cover_all_kinds(segments: Segments, deep: Dump) -> None:
    assert deep.code == 0, deep.err
    text = "\n".join(deep.out)
    assert len(segments.files) >= 18
    assert len(logs(segments.files["rolled"])) >= 3
    assert len(logs(segments.files["aborted"])) >= 2
    for sign in [
        *(f"compresscodec: {codec}" for codec in CODECS), "magic: 0", "magic: 1", "magic: 2", "isTransactional: true",
        "isControl: true", "endTxnMarker: ABORT", "endTxnMarker: COMMIT", "LogAppendTime: ", "NoTimestampType: ",
        "baseSequence: 200", "headerKeys: [a,b,a]", "deleteHorizonMs: OptionalLong[", "valueSize: -1", "keySize: 0",
    ]:  # fmt: skip
        assert sign in text, sign
    holes = [parse(line) for line in deep.of(logs(segments.files["compacted"])[0]) if line.startswith("baseOffset")]
    assert any(batch["count"] < batch["lastOffset"] - batch["baseOffset"] + 1 for batch in holes)


def test_batches_and_records_match_kafka_tool(segments: Segments, deep: Dump) -> None:
    ours = our_dump(segments.logs, "--deep", "--print-data")
    assert ours.code == 0, ours.err[:5]
    for path in segments.logs:
        assert ours.of(path) == deep.of(path), path
    assert sum(line.startswith("|") for line in ours.out) > 20_000


def test_batches_and_records_without_data_match_kafka_tool(segments: Segments, deep: Dump) -> None:
    batches = [line for line in deep.out if not line.startswith("|")]
    assert our_dump(segments.logs).out == batches
    ours = our_dump(segments.logs, "--deep")
    assert ours.out == [
        re.sub(r"(?s) (key|payload): .*", "", line) if line.startswith("|") else line for line in deep.out
    ]


def test_json_matches_kafka_tool(segments: Segments, deep: Dump) -> None:
    ours = our_dump(segments.logs, "--json", "--print-data")
    objects = [json.loads(line) for line in ours.out]
    assert [o["file"] for o in objects if o["type"] == "file"] == [str(path) for path in segments.logs]
    lines = [line for line in deep.out if line.startswith(("|", "baseOffset: ", "offset: "))]
    assert [as_java(o) for o in objects if o["type"] in ("batch", "record")] == [parse(line) for line in lines]
    sent = [o["headers"] for o in objects if o["type"] == "record" and o.get("headers")]
    assert [["a", "1"], ["b", None], ["a", ""]] in sent
    assert [["gone", {"base64": "/w=="}]] in sent


def test_quorum_log_and_snapshots(kafka: KafkaServer, tmp_path: Path) -> None:
    """The quorum log and snapshots have binary payloads, and control records of types that only they contain."""
    copied = copies(kafka, "__cluster_metadata", tmp_path)
    shutil.copy(kafka.data_dir / "bootstrap.checkpoint", tmp_path)
    files = [*logs(copied), tmp_path / "bootstrap.checkpoint"]
    ours, theirs = our_dump(files, "--print-data"), java_dump(kafka, files, "--print-data-log")
    assert ours.out == theirs.out
    assert (ours.code, ours.err) == (0, [])
    text = "\n".join(ours.out)
    for sign in ["LeaderChange: {", "SnapshotHeader {", "SnapshotFooter {", "KRaft bootstrap snapshot"]:
        assert sign in text, sign
    objects = [json.loads(line) for line in our_dump(files, "--json", "--deep").out]
    control = {o["controlType"]: o.get("controlRecord") for o in objects if "controlType" in o}
    assert control["LEADER_CHANGE"]["voters"] == [{"voterId": 1}]


def test_gaps_between_offsets(segments: Segments, deep: Dump) -> None:
    path = logs(segments.files["compacted"])[0]
    ours = our_dump([path], "--deep")
    theirs = deep.err[deep.err.index(f"Non-consecutive offsets in {path}") :]
    pairs = [line for line in ours.err if "is followed by" in line]
    assert pairs
    assert ours.err == [f"Non-consecutive offsets in {path}", *pairs]
    assert theirs[1 : len(pairs) + 1] == pairs


def indexes(segments: Segments) -> list[Path]:
    files = [path for kind in ("rolled", "aborted") for path in segments.files[kind]]
    # Kafka's tool takes the zero padding of an empty index at the end of the log for entries.
    filled = [path for path in files if path.suffix.endswith("index") and path.read_bytes().strip(b"\0")]
    assert {path.suffix for path in filled} == {".index", ".timeindex", ".txnindex"}
    return filled


def test_indexes(kafka: KafkaServer, segments: Segments) -> None:
    files = indexes(segments)
    # Our command runs first, because Kafka's tool truncates invalid entries from the index files that it reads.
    ours, theirs = our_dump(files), java_dump(kafka, files)
    assert (theirs.code, theirs.err) == (ours.code, ours.err) == (0, [])
    assert theirs.out == ours.out
    assert len(ours.out) > 100
    entries = [json.loads(line) for line in our_dump(files, "--json").out]
    assert {entry.pop("type") for entry in entries} >= {"offsetIndexEntry", "timeIndexEntry", "abortedTransaction"}
    checked = our_dump(segments.logs, "--index-check")
    assert (checked.code, checked.err) == (0, [])
    assert not [
        line for line in checked.out if re.fullmatch(r"offset: \d+ position: \d+|timestamp: \d+ offset: \d+", line)
    ]


def test_index_errors(kafka: KafkaServer, segments: Segments, tmp_path: Path) -> None:
    folder = tmp_path / "damaged-0"
    shutil.copytree(segments.files["rolled"][0].parent, folder)
    index, times = folder / "00000000000000000000.index", folder / "00000000000000000000.timeindex"
    # Each case changes the offset or the timestamp of an index entry.
    for path, size, width, at, add in [
        (index, 8, 4, 3, 1),
        (index, 8, 4, 5, 2),
        (times, 12, 8, 2, 5),
        (times, 12, 8, 4, -(10**6)),
    ]:
        data = bytearray(path.read_bytes())
        place = slice(at * size, at * size + width)
        data[place] = (int.from_bytes(data[place], "big") + add).to_bytes(width, "big")
        path.write_bytes(data)
    theirs = java_dump(kafka, [index, times], "--verify-index-only")
    ours = our_dump([index, times], "--verify-index-only")
    assert theirs.out == ours.out == [f"Dumping {index}", f"Dumping {times}"]
    wrong = r"Index \w+: \d+, (?:log \w+|Previously indexed timestamp): -?\d+"
    results = [re.findall(wrong, "\n".join(dump.err)) for dump in (theirs, ours)]
    assert sorted(results[0]) == sorted(results[1])
    assert len(results[0]) >= 5
    assert all(re.match(rf"{re.escape(str(folder))}/.*index: position \d+, offset \d+: ", line) for line in ours.err)
    assert ours.code == 1


def test_index_sanity_check(kafka: KafkaServer, segments: Segments, tmp_path: Path) -> None:
    files = [path for path in indexes(segments) if path.suffix != ".txnindex"]
    finished = [path for path in files if path.stat().st_size < 1_000_000]
    theirs, ours = java_dump(kafka, finished, "--index-sanity-check"), our_dump(finished, "--index-sanity-check")
    assert theirs.out == ours.out
    assert theirs.code == ours.code == 0
    folder = tmp_path / "odd-0"
    shutil.copytree(finished[0].parent, folder)
    odd = folder / finished[0].name
    odd.write_bytes(odd.read_bytes() + b"odd")
    ours, theirs = our_dump([odd], "--index-sanity-check"), java_dump(kafka, [odd], "--index-sanity-check")
    assert theirs.code == ours.code == 1
    assert "no multiple of 8" in ours.err[0]


def test_damage(kafka: KafkaServer, segments: Segments, tmp_path: Path) -> None:
    whole = logs(segments.files["zstd"])[0].read_bytes()
    batches = [parse(line) for line in our_dump(logs(segments.files["zstd"])).out if line.startswith("baseOffset")]
    last = batches[-1]
    cut, flipped = tmp_path / "cut-0" / "0.log", tmp_path / "flipped-0" / "0.log"
    for path in (cut, flipped):
        path.parent.mkdir()
    cut.write_bytes(whole[:-3])
    data = bytearray(whole)
    data[int(str(last["position"])) + 100] ^= 1
    flipped.write_bytes(data)
    theirs, ours = java_dump(kafka, [cut, flipped]), our_dump([cut, flipped])
    assert theirs.out == ours.out
    assert "isvalid: false" in ours.out[-1]
    assert f"Found {int(str(last['size'])) - 3} invalid bytes at the end of 0.log" in ours.out
    assert (theirs.code, ours.code) == (0, 1)
    place = f"position {last['position']}, offset {last['baseOffset']}: "
    assert [line.partition(": ")[2][: len(place)] for line in ours.err] == [place, place]
    assert "the file ends within a batch" in ours.err[0]
    assert "the CRC is" in ours.err[1]
    # Only a part of the file is read, so its truncated end is not an error.
    limit = ["--max-bytes", str(int(str(last["position"])) + 5)]
    theirs, ours = java_dump(kafka, [cut], *limit), our_dump([cut], *limit)
    assert theirs.out == ours.out
    assert (ours.code, ours.err) == (0, [])


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "copied"])
def test_read_segment_returns_equal_records(segments: Segments, deep: Dump, layout: str, mmap: bool) -> None:
    for path in segments.logs:
        expected = [parse(line) for line in deep.of(path) if line.startswith("|")]
        reader = read_segment(path, layout=layout, mmap=mmap, include_headers=True)  # type: ignore[arg-type]
        rows = [row for batch in reader for row in batch.to_pylist()]
        actual = []
        for row in rows:
            stamp = -1 if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000)
            texts = [None if row[name] is None else lossy(row[name]) for name in ("key", "value")]
            actual.append((row["offset"], stamp, *texts, [h["key"] for h in row["headers"] or ()]))
        names = ("offset", "timestamp", "key", "payload", "headerKeys")
        data = [r for r in expected if "controlType" not in r]
        assert actual == [(*(r[n] for n in names[:4]), r.get("headerKeys", [])) for r in data], path
        topic, _, partition = path.parent.name.rpartition("-")
        assert {(row["topic"], row["partition"]) for row in rows} <= {(topic, int(partition))}
        with_control = read_segment(path, layout=layout, mmap=mmap, include_control=True)  # type: ignore[arg-type]
        assert sum(batch.num_rows for batch in with_control) == len(expected)


@pytest.fixture(scope="module")
def old_segments(old_kafka: KafkaServer, old_java: JavaPeer, tmp_path_factory: pytest.TempPathFactory) -> Segments:
    folder = tmp_path_factory.mktemp("old")
    files = {}
    for version in ("0.9.0", "0.10.0", "2.8"):
        topic = create_topic(old_kafka, message_format_version=version)
        for codec in CODECS[: 5 if version == "2.8" else 4]:
            old_java.produce(topic, codec, [Sent(r.key, r.value, (), r.timestamp) for r in ODD])
            old_java.produce(topic, codec, numbered(100))
        files[version] = copies(old_kafka, topic, folder)
        topic = create_topic(old_kafka, message_format_version=version, message_timestamp_type="LogAppendTime")
        old_java.produce(topic, "gzip", numbered(100))
        files[f"{version} append time"] = copies(old_kafka, topic, folder)
    return Segments(files)


def test_segments_of_old_broker(old_kafka: KafkaServer, old_segments: Segments) -> None:
    theirs = java_dump(old_kafka, old_segments.logs, "--print-data-log")
    # Removes output that only Kafka 3.9 prints, due to a defect.
    theirs.out = [re.sub(r"( isValid: \w+ crc: \d+)}", r"\1", line) for line in theirs.out]
    ours = our_dump(old_segments.logs, "--print-data")
    assert theirs.code == ours.code == 0
    for path in old_segments.logs:
        assert ours.of(path) == theirs.of(path), path
    assert {parse(line)["magic"] for line in ours.out if " magic: " in line} == {0, 1, 2}
    records = sum(line.startswith("|") for line in ours.out)
    assert (
        records
        == sum(b.num_rows for path in old_segments.logs for b in read_segment(path))
        == 13 * (len(ODD) + 100) + 300
    )
