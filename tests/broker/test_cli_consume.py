"""`samsarrow consume` on the embedded broker."""

import csv
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet
import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition, infer_schema
from samsarrow.cli.consume.reading import GroupReader
from samsarrow.cli.numbers import size_text
from support.waiting import until

FOUR = [TopicPartition("four", p) for p in range(4)]
HOUR = 3_600_000
COMMAND = [sys.executable, "-m", "samsarrow.cli"]


@pytest.fixture
def now(servers):
    """Sends forty records to `four`, an hour apart in each partition. Values are JSON, but every tenth is null."""
    now = round(time.time() * 1000)
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(40):
            value = None if i % 10 == 9 else json.dumps({"i": i, "name": f"n{i % 3}"})
            headers = [("kind", "even" if i % 2 == 0 else "odd"), ("kind", None)] if i < 20 else None
            producer.send(
                "four", value, key=f"k{i}" if i % 4 else None, partition=i % 4, headers=headers,
                timestamp=now - (10 - i // 4) * HOUR + HOUR // 2 + i,
            )  # fmt: skip
    return now


def numbers(text):
    return sorted(json.loads(line)["i"] for line in text.splitlines() if line)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], range(40)),
        (["--from", "beginning"], range(40)),
        (["--from", "end"], []),
        (["--from", "earliest"], range(40)),
        (["--from", "latest"], []),
        (["--from", "earliest", "--until", "latest"], range(40)),
        (["--from", "-2h"], range(32, 40)),
        (["--from", "-4h", "--until", "-3h"], range(24, 28)),
        (["--from", "-2"], range(32, 40)),
        (["--from", "8"], range(32, 40)),
        (["--from", "100"], []),
        (["--from", "-100"], range(40)),
        (["--from", "@-2h"], range(32, 40)),
        (["--until", "2"], range(8)),
        (["--until", "-8"], range(8)),
        (["--from", "3", "--until", "4"], range(12, 16)),
        (["--from", "5", "--until", "4"], []),
        (["--from", "@-4h", "--until", "@-3h"], range(24, 28)),
        (["-p", "1"], range(1, 40, 4)),
        (["-p", "0,2-3"], [i for i in range(40) if i % 4 != 1]),
        (["--tail", "3"], [37, 38, 39]),
        (["--tail", "1", "--per-partition"], range(36, 40)),
        (["--tail", "1000"], range(40)),
        (["--grep", '"n[12]"'], [i for i in range(40) if i % 3]),
        (["--header", "kind=odd"], range(1, 20, 2)),
        (["--header", "kind"], range(20)),
        (["--header", "other"], []),
        (["--header", "kind=odd", "--grep", "n1", "--where", "value.i > 3"], [7, 13]),
        (["--where", "value.i >= 30 and key != 'k31'"], [i for i in range(30, 40) if i % 4 and i != 31]),
        (["--where", "header.kind is null and offset == 0"], range(4)),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value, list) and isinstance(value[0], str) else "",
)
def test_selected_records(command, now, args, expected):
    assert numbers(command("consume", "four", *args).out) == [i for i in expected if i % 10 != 9]


def test_max_records(command, now):
    assert len(command("consume", "four", "-n", "7").out.splitlines()) == 7
    assert command("consume", "four", "-n", "0").out == ""
    assert len(command("consume", "four", "-n", "2", "--where", "value.i > 20").out.splitlines()) == 2
    assert len(command("consume", "four", "four", "t").out.splitlines()) == 40


def test_patterns_of_topics(command, now, servers):
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", '{"i": 99, "name": "t"}')
    assert numbers(command("consume", "f*r", "--where", "value.i > 30").out) == list(range(31, 39))
    assert len(command("consume", "[ft]*", "t").out.splitlines()) == 41
    # Lines name their topic if a pattern chooses several.
    assert {json.loads(line)["topic"] for line in command("consume", "*", "-o", "ndjson").out.splitlines()} == {
        "four", "t",
    }  # fmt: skip
    assert "TOPIC" in command("consume", "*", "-o", "table").out.splitlines()[0]
    assert len(command("consume", "fo*", "-g", "patterns").out.splitlines()) == 40
    missing = command("consume", "ord*", code=1)
    assert missing.err.startswith("Error: there is no topic ord* at ")


def test_tables_show_keys_and_members_of_values(command, now):
    lines = command("consume", "four", "-o", "table", "--from", "-2", "-p", "0-1").out.splitlines()
    assert lines[0].split() == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "I", "NAME"]
    assert [line.split()[-3:] for line in lines[1:3]] == [["-", "32", "n2"], ["-", "36", "n0"]]
    # Numbers are at the right: the last digits are in one column, that of the last letter of the name.
    assert {line[lines[0].index(" I ") + 1] for line in lines[1:]} >= {"2", "6", "3", "7"}
    both = command("consume", "four", "t", "-o", "table", "-n", "1").out
    assert both.startswith("TOPIC  PARTITION")
    assert '{"i": 0, "name": "n0"}' in command("consume", "four", "-o", "table", "-n", "1", "--text").out
    assert "kind=even,kind=" in command("consume", "four", "-o", "table", "-n", "1").out


def test_tables_of_other_values(command, servers, tmp_path):
    empty = command("consume", "t", "-o", "table")
    assert (empty.out, empty.err) == ("", "no records\n")
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b'{"a": 1}').result(10)
        producer.send("t", b'{"a": 2, "b": {"c": [1, 2]}}').result(10)
        producer.send("t", b"plain\x1b[31m\n", key=b"\xff").result(10)
        producer.send("t", None, key=b"").result(10)
    lines = command("consume", "t", "-o", "table", "-X", "max.poll.records=1").out.splitlines()
    values = [(line.split() or [""])[-1] for line in lines]
    # Rows with other columns begin another table.
    assert values == ["A", "1", "", "B.C", "[1,2]", "", "VALUE", r"plain\x1b[31m\n", "-"]
    assert [line.split()[4] for line in lines[7:]] == ["0xff", '""']
    whole = command("consume", "t", "-o", "table").out.splitlines()
    assert whole[0].split() == ["PARTITION", "OFFSET", "TIMESTAMP", "KEY", "VALUE"]
    written = command("consume", "t", "-o", "table", "-O", tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text().splitlines() == whole
    assert re.fullmatch(rf"4 records, \d+ B in [\d.]+ s written to {tmp_path}/t.txt\n", written.err)


def test_tables_are_not_cut_in_a_pipe(command, servers):
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x" * 3000).result(10)
    assert len(max(command("consume", "t", "-o", "table").out.splitlines(), key=len)) > 3000


def test_closing_line_of_rotated_files(command, now, tmp_path):
    done = command("consume", "four", "-O", tmp_path / "x.ndjson", "--rotate", "15")
    size = sum(path.stat().st_size for path in tmp_path.glob("x-*"))
    assert re.fullmatch(
        rf"40 records, {re.escape(size_text(size))} in [\d.]+ s written to 3 files, the last x-000003.ndjson\n",
        done.err,
    )


def test_following_is_reported(command, now):
    done = command("consume", "four", "-f", "--from", "0", "-n", "1")
    assert done.err == "following 4 partitions of four from offset 0 on; Ctrl-C ends\n"


def test_templates_and_json(command, now):
    line = command(
        "consume", "four", "-p", "1", "-n", "1", "--template", r"{topic}|{partition}|{offset}|{key:hex}\c"
    ).out
    assert line == "four|1|0|6b31"
    rows = json.loads(command("consume", "four", "--format", "json").out)
    assert len(rows) == 40
    last = next(row for row in rows if row["key"] == "k39")
    assert last["value"] is None
    assert datetime.fromisoformat(last["timestamp"]) == datetime.fromtimestamp((now - HOUR // 2 + 39) / 1000, UTC)
    assert json.loads(command("consume", "t", "--format", "json").out) == []
    rows = [json.loads(line) for line in command("consume", "four", "--format", "ndjson", "-p", "2").out.splitlines()]
    assert rows[0]["headers"] == [["kind", "even"], ["kind", None]]
    assert rows[0]["value"] == {"i": 2, "name": "n2"}


def test_columnar_files(command, now, tmp_path):
    path = tmp_path / "x.parquet"
    command("consume", "four", "-O", path)
    table = pa.parquet.read_table(path)
    assert sorted(k for k in table["key"].to_pylist() if k) == sorted(f"k{i}".encode() for i in range(40) if i % 4)
    assert table.schema.field("value").type == pa.binary()
    assert table.sort_by("timestamp")["headers"].to_pylist()[1] == [
        {"key": "kind", "value": b"odd"}, {"key": "kind", "value": None},
    ]  # fmt: skip
    command("consume", "four", "-O", path, "--unpack", "--where", "value.i < 5")
    table = pa.parquet.read_table(path)
    assert sorted(zip(table["i"].to_pylist(), table["name"].to_pylist(), strict=True)) == [
        (i, f"n{i % 3}") for i in range(5)
    ]
    command("consume", "four", "-O", tmp_path / "x.parquet", "-z", "zstd")
    assert pa.parquet.ParquetFile(path).metadata.row_group(0).column(6).compression == "ZSTD"
    command("consume", "four", "-O", tmp_path / "x.arrow", "--text", "-z", "lz4")
    assert pa.ipc.open_file(tmp_path / "x.arrow").read_all().schema.field("value").type == pa.string()
    command("consume", "four", "-O", tmp_path / "x.csv", "--unpack")
    rows = list(csv.DictReader((tmp_path / "x.csv").open()))
    assert len(rows) == 40
    assert {row["name"] for row in rows} == {"n0", "n1", "n2", ""}
    # If the topic is empty, the file has the columns but no rows.
    command("consume", "t", "-O", path)
    assert pa.parquet.read_table(path).num_rows == 0
    assert {p.name for p in tmp_path.iterdir()} == {"x.parquet", "x.arrow", "x.csv"}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("form", ["parquet", "arrow", "ndjson", "csv"])
def test_output_keeps_pipes_and_links(command, now, tmp_path, form):
    """Regression: renaming the output file onto `/dev/null` replaced the device for the whole machine."""
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    command("consume", "t", "--format", form, "-O", pipe)
    reader.join(30)
    assert pipe.is_fifo()
    file.write_text("before")
    link.symlink_to(file)
    command("consume", "t", "--format", form, "-O", link)
    assert link.is_symlink()
    assert file.read_bytes() == read[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "pipe"]


def test_unpacked_json_has_the_columns_of_infer_schema(command, servers, tmp_path):
    texts = [
        '{"at":"2026-01-02T03:04:05+02:00","id":18446744073709551615,"day":"2026-01-02","any":1,"e":{}}',
        '{"at":"2026-01-02T03:04:05.678Z","id":1,"any":{"b":2}}',
        '{"id":7,"id":8,"any":[1]}',
    ]
    with Producer(bootstrap_servers=servers) as producer:
        for text in (*texts, None, "{ }"):
            producer.send("t", text)
    path = tmp_path / "x.parquet"
    for options in ((), ("-X", "max.poll.records=3")):
        command("consume", "t", "-O", path, "--unpack", *options)
        table = pa.parquet.read_table(path)
        found = infer_schema(pa.array([text.encode() for text in texts]))
        assert table.schema.names[-5:] == found.names
        assert table["at"].to_pylist() == ["2026-01-02T03:04:05+02:00", "2026-01-02T03:04:05.678Z", None, None, None]
        assert table["id"].to_pylist() == [18446744073709551615, 1, 8, None, None]
        assert table["day"].to_pylist() == ["2026-01-02", *[None] * 4]
        assert table["any"].to_pylist() == ["1", '{"b":2}', "[1]", None, None]


@pytest.mark.parametrize(
    ("last", "why"),
    [
        ('{"a":1,"b":{"c":2}}', "values from t-0@100 on cannot become columns: the first rows have no member b.c"),
        ('{"a":1,"new":null}', "the first rows have no member new"),
        ('{"a":"x"}', "the value of t-0@100 cannot become columns: a: expected a whole number"),
        ('{"a":1.5}', "the value of t-0@100 cannot become columns: a: "),
        ('{"a":18446744073709551615}', "the value of t-0@100 cannot become columns: a: "),
        ("[1]", "cannot become columns"),
        ("x", "the value of t-0@100 cannot become columns"),
    ],
)
@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_unpack_rejects_other_fields_in_later_batches(command, servers, tmp_path, form, last, why):
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(100):
            producer.send("t", b'{"a":1,"b":{}}' if "c" not in last else b'{"a":1,"b":{"d":1}}')
        producer.send("t", last)
    path = tmp_path / f"x.{form}"
    done = command("consume", "t", "-O", path, "--unpack", "-X", "max.poll.records=50", "-g", "g", code=1)
    assert why in done.err
    assert len(done.err.splitlines()) == 1
    if form == "csv":
        assert len(path.read_text().splitlines()) == 101
    else:
        assert list(tmp_path.iterdir()) == [], "no file that is incomplete"


def test_rotate(command, now, tmp_path):
    (tmp_path / "x-000002.parquet").write_bytes(b"another's")
    command("consume", "four", "-O", tmp_path / "x.parquet", "--rotate", "15")
    found = {p.name: p for p in tmp_path.iterdir()}
    assert set(found) == {f"x-00000{n}.parquet" for n in (1, 2, 3, 4)}
    assert found.pop("x-000002.parquet").read_bytes() == b"another's"
    assert [pa.parquet.read_table(path).num_rows for _, path in sorted(found.items())] == [15, 15, 10]


@pytest.mark.parametrize("form", ["txt", "ndjson", "csv"])
def test_second_run_of_a_group_appends_to_the_file(command, servers, tmp_path, form):
    path = tmp_path / f"x.{form}"
    arguments = ("consume", "t", "-g", "g", "-O", path)
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"2", None, b"3"):
            if value is None:
                producer.flush()
                command(*arguments)
                # A killed command may leave a last line without a line break.
                path.write_bytes(path.read_bytes().rstrip())
            else:
                producer.send("t", value)
        producer.flush()
        command(*arguments)
        command(*arguments)
    lines = path.read_text().splitlines()
    if form == "csv":
        assert [row["value"] for row in csv.DictReader(lines)] == ["1", "2", "3"]
    else:
        assert lines == (["1", "2", "3"] if form == "txt" else [line for line in lines if json.loads(line)["value"]])
        assert len(lines) == 3
    path.write_text("other,columns\n")
    done = command(*arguments, "--text", code=2) if form == "csv" else command(*arguments)
    assert form != "csv" or "has other columns than" in done.err
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"4")
    command(*arguments, "--overwrite")
    assert "other" not in path.read_text()
    assert "4" in path.read_text()


@pytest.mark.parametrize("form", ["parquet", "arrow", "json", "value"])
def test_output_keeps_devices(command, now, tmp_path, form):
    null = tmp_path / "null"
    null.symlink_to("/dev/null")
    for _ in range(2):
        command("consume", "four", "-g", "g", "-O", null, "--format", form)
    assert [path.name for path in tmp_path.iterdir()] == ["null"]
    assert null.is_symlink()
    assert null.is_char_device()


@pytest.mark.parametrize("form", ["parquet", "arrow", "json"])
def test_second_run_of_a_group_rejects_files_without_append(command, servers, now, tmp_path, form):
    path = tmp_path / f"x.{form}"
    arguments = ("consume", "four", "-g", "g", "-O", path)
    command(*arguments)
    first = path.read_bytes()
    done = command(*arguments, code=2)
    assert f"no rows can be added to {form}" in done.err
    assert "--rotate" in done.err
    assert path.read_bytes() == first
    # Without commits the file may be replaced, since its rows can be read again.
    command(*arguments, "--no-commit")
    assert path.read_bytes() != first
    command(*arguments, "--overwrite")


def test_group_commits_written_rows(command, now, servers):
    first = numbers(command("consume", "four", "-g", "readers", "-n", "15", "--where", "value.i != 3").out)
    peeked = numbers(command("consume", "four", "-g", "readers", "--from", "group", "--where", "value.i != 3").out)
    rest = numbers(command("consume", "four", "-g", "readers", "--where", "value.i != 3").out)
    expected = [i for i in range(40) if i % 10 != 9 and i != 3]
    assert (len(first), sorted(first + rest), peeked) == (15, expected, rest)
    with Admin(bootstrap_servers=servers) as admin:
        assert {tp: at.offset for tp, at in admin.fetch_offsets("readers").items()} == dict.fromkeys(FOUR, 10)
        assert command("consume", "four", "-g", "readers").out == ""
        assert numbers(command("consume", "four", "-g", "other", "--no-commit").out) == [
            i for i in range(40) if i % 10 != 9
        ]
        assert admin.fetch_offsets("other") == {}
        # --from determines the start of partitions without a committed offset.
        assert command("consume", "four", "-g", "late", "--from", "end").out == ""
        assert {at.offset for at in admin.fetch_offsets("late").values()} == {10}


def test_member_without_partitions_ends(command, now, servers):
    with Consumer(bootstrap_servers=servers, group_id="busy", heartbeat_interval_ms=100) as other:
        other.subscribe(["t"])
        while not other.assignment():
            other.poll(0.1)
        stop = threading.Event()

        def poll():
            while not stop.is_set():
                other.poll(0.1)

        polling = threading.Thread(target=poll)
        polling.start()
        try:
            assert command("consume", "t", "-g", "busy").out == ""
        finally:
            stop.set()
            polling.join()


def test_transaction_markers_at_the_end_are_skipped(command, servers):
    with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
        for commits in (True, False, True, False):
            producer.begin_transaction()
            producer.send("t", b"kept" if commits else b"dropped")
            producer.flush()
            (producer.commit_transaction if commits else producer.abort_transaction)()
    assert command("consume", "t").out.split() == ["kept", "dropped", "kept", "dropped"]
    committed = command("consume", "t", "-X", "isolation.level=read_committed")
    assert committed.out.split() == ["kept", "kept"]
    assert command("consume", "t", "-X", "isolation.level=read_committed", "-g", "g").out.split() == ["kept", "kept"]
    # Transaction markers have offsets, but are not records.
    assert command("consume", "t", "-X", "isolation.level=read_committed", "--tail", "2").out.split() == [
        "kept",
        "kept",
    ]


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["four", "--from", "group"], "-g GROUP"),
        (["four", "-g", "g", "--from", "3"], "samsarrow offsets reset"),
        (["four", "-g", "g", "-p", "1"], "the group assigns"),
        (["four", "-g", "g", "--until", "3"], "contradict"),
        (["four", "-f", "--until", "3"], "contradict"),
        (["four", "--until", "beginning"], "beginning is not an end"),
        (["four", "--tail", "3", "--from", "end"], "--tail"),
        (["four", "--per-partition"], "--tail"),
        (["four", "--rotate", "5"], "-O FILE"),
        (["four", "--overwrite"], "--overwrite is for -O FILE without --rotate"),
        (["four", "-O", "x.what"], "suffix"),
        (["four", "--text"], "--text is for table, csv"),
        (["four", "-z", "lz4"], "-z lz4 does not go with value, which is not compressed here"),
        (["four", "-O", "x.arrow", "-z", "snappy"], "which takes none, lz4, zstd"),
        (["four", "--template", "{valeu}"], "there is no field {valeu}"),
        (["four", "--template", "x", "--format", "json"], "--template"),
        (["four", "--grep", "("], "not a regular expression"),
        (["four", "--header", "=x"], "NAME=VALUE"),
        (["four", "--where", "import os"], "not an expression"),
        (["four", "--from", "yesterday"], "not one of earliest, latest"),
        (["four", "-X", "max.pol.records=1"], "max.poll.records?"),
        (["four", "-X", "linger.ms=1"], "linger.ms has no effect here: it is an option of a producer client"),
        (["four", "-o", "x.parquet"], "-O x.parquet writes it to a file"),
        (["four", "--config", "client.id=x"], "No such option '--config': -X NAME=VALUE sets a client option"),
        (["four", "--from-beginning"], "use --from earliest"),
        (["--topic", "four"], "name the topic without --topic"),
        (["four", "--max-messages", "3"], "-n N limits the number of records"),
        ([], "Missing argument"),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value, list) and isinstance(value[0], str) else "",
)
def test_invalid_command_lines(command, args, why):
    done = command("consume", *args, code=2)
    assert why in done.err
    assert done.out == ""


def test_missing_topics_and_partitions_are_not_wrong_usage(command):
    for args, why in (
        (["nowhere"], "there is no topic nowhere at "),
        (["four", "nowhere"], "there is no topic nowhere at "),
        (["four", "-p", "7"], "topic four has 4 partitions, 0 to 3: there is no partition 7"),
        (["t", "-p", "1"], "topic t has only partition 0: there is no partition 1"),
    ):
        done = command("consume", *args, code=1)
        assert done.err.startswith(f"Error: {why}")
        assert (done.out, len(done.err.splitlines())) == ("", 1)


def test_values_that_are_not_text_are_an_error(command, servers, tmp_path):
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"fine")
        producer.send("t", b"\xff")
    assert "the value of t-0@1 is not text" in command("consume", "t", "--format", "csv", code=1).err
    assert "cannot become columns" in command("consume", "t", "-O", tmp_path / "x.parquet", "--unpack", code=1).err
    assert list(tmp_path.iterdir()) == []
    missing = command("consume", "t", "-O", tmp_path / "no" / "x.parquet", code=1)
    assert "No such file or directory" in missing.err


@pytest.mark.parametrize("more", [[], ["-g", "g"], ["--tail", "3"]], ids=str)
def test_stalled_read_is_an_error(command, broker, now, monkeypatch, more):
    monkeypatch.setattr("samsarrow.cli.consume.reading.STALLED_SECONDS", 1.5)
    broker.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=None)
    done = command("consume", "four", *more, code=1)
    assert "no record arrived for 1.5 s" in done.err
    assert "four-0" in done.err


@pytest.mark.parametrize(
    "arguments", [["consume", "four"], ["consume", "four", "--format", "parquet"], ["topics", "list"]]
)
def test_full_disk_is_an_error(servers, now, arguments):
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, *arguments, "-b", servers]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert b"Traceback" not in done.stderr


def test_follow_completes_file_and_commits_on_a_signal(servers, now, tmp_path):
    environment = {**os.environ, "SAMSARROW_BOOTSTRAP_SERVERS": servers}
    command = [*COMMAND, "consume", "four", "-f", "-g", "f", "-O", "x.parquet", "--overwrite"]
    written = 0
    with Admin(bootstrap_servers=servers) as admin:
        for sign in (signal.SIGTERM, signal.SIGINT):
            with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE) as following:
                until((tmp_path / ".x.parquet.part").exists)
                following.send_signal(sign)
                _, err = following.communicate(timeout=60)
            assert following.returncode == 128 + sign
            first, last = err.decode().splitlines()
            assert first == "following four as a member of group f; Ctrl-C ends"
            rows = pa.parquet.read_table(tmp_path / "x.parquet").num_rows
            assert re.fullmatch(rf"{rows:,} records?, [\d.]+ k?B in [\d.]+ s written to x.parquet", last), last
            # Even if the signal arrives between two polls, the committed offsets match the rows in the file exactly.
            assert rows
            written += rows
            assert sum(at.offset for at in admin.fetch_offsets("f").values()) == written
            with Producer(bootstrap_servers=servers) as producer:
                producer.send("four", b"one more", partition=1)


def test_closed_output_pipe_ends_silently(servers):
    with Producer(bootstrap_servers=servers) as producer:
        for _ in range(2000):
            producer.send("t", b"x" * 1000)
    script = (
        f"{' '.join(COMMAND)} consume t -b {servers} -X max.poll.records=10 | head -1 | wc -c; echo ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout.split(), done.stderr) == (["1001", "141"], "")


def test_signal_at_any_time_commits_the_written_rows(servers, broker, tmp_path):
    broker.create_topic("many", 50)
    rows = pa.record_batch(
        {"value": [b"x"] * 20_000, "partition": pa.array([i % 50 for i in range(20_000)], pa.int32())}
    )
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_batch("many", rows, value="value", partition="partition").result()
    chance = random.Random(7)
    with Admin(bootstrap_servers=servers) as admin:
        for run in range(6):
            path = tmp_path / f"{run}.txt"
            options = ["-g", f"g{run}", "-O", path, "--format", "envelope", "-X", "max.poll.records=20"]
            with subprocess.Popen([*COMMAND, "consume", "many", "-b", servers, *options]) as reading:
                until(lambda path=path: path.exists() and path.stat().st_size)
                time.sleep(chance.random() / 4)
                reading.send_signal(signal.SIGTERM)
                assert reading.wait(60) in (0, 128 + signal.SIGTERM)
            written = Counter(json.loads(line)["partition"] for line in path.read_text().splitlines())
            committed = {tp.partition: at.offset for tp, at in admin.fetch_offsets(f"g{run}").items() if at.offset}
            assert committed == written


def test_member_does_not_seek_back_to_earlier_ends(servers, monkeypatch):
    tp = TopicPartition("t", 0)
    with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        for _ in range(20):
            producer.send("t", b"x")
        producer.flush()
        admin.commit_offsets("g", {tp: 15})
        with Consumer(bootstrap_servers=servers, group_id="g", enable_auto_commit=False) as consumer:
            monkeypatch.setattr(consumer, "end_offsets", lambda partitions: dict.fromkeys(partitions, 10))
            membership = GroupReader(consumer, False, 60, lambda: True)
            consumer.subscribe(["t"], listener=membership)
            assert sum(batch.num_rows for batch in membership.batches()) == 0
            assert membership.final_offsets()[tp].offset == consumer.position(tp) == 15


def test_written_offsets_are_committed_on_revocation_only(servers):
    with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        for i in range(20):
            producer.send("four", b"x", partition=i % 4)
        producer.flush()
        with Consumer(
            bootstrap_servers=servers, group_id="g", enable_auto_commit=False, auto_offset_reset="earliest"
        ) as consumer:
            membership = GroupReader(consumer, False, 60, lambda: True)
            consumer.subscribe(["four"], listener=membership)
            for batch in membership.batches():
                membership.add_written(batch)
            assert membership.written_offsets().keys() == set(FOUR)
            membership.on_partitions_revoked(FOUR[:2])
            assert {tp: at.offset for tp, at in admin.fetch_offsets("g").items()} == dict.fromkeys(FOUR[:2], 5)
            membership.on_partitions_lost(FOUR[2:3])
            assert membership.written_offsets().keys() == set(FOUR[3:])


def test_written_offsets_are_not_committed_to_a_recreated_topic(servers):
    tp = TopicPartition("t", 0)
    with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        for _ in range(20):
            producer.send("t", b"old")
        producer.flush()
        with Consumer(
            bootstrap_servers=servers,
            group_id="g",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            metadata_max_age_ms=100,
        ) as consumer:
            membership = GroupReader(consumer, True, 60, lambda: True)
            consumer.subscribe(["t"], listener=membership)
            batches = membership.batches()
            membership.add_written(next(batch for batch in batches if batch.num_rows))
            assert membership.written_offsets()[tp].offset == 20
            admin.delete_topics(["t"])
            admin.create_topics([NewTopic("t", 1)])
            for _ in range(5):
                producer.send("t", b"new")
            producer.flush()
            new = next(batch for batch in batches if batch.num_rows)
            assert tp not in membership.written_offsets()
            membership.add_written(new)
            membership.commit_written()
            assert membership.written_offsets()[tp].offset == new["offset"][-1].as_py() + 1
        assert admin.fetch_offsets("g").get(tp) is None or admin.fetch_offsets("g")[tp].offset <= 5


def test_a_dash_is_standard_output(command, servers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command("produce", "t", stdin=b"a\n")
    assert command("consume", "t", "-O", "-", "--template", "{value}").out == "a\n"
    assert list(csv.reader(io.StringIO(command("consume", "t", "-O", "-", "-o", "csv").out)))[1][-1] == "a"
    assert list(tmp_path.glob("-*")) == []


def test_errors_of_filters_name_their_option(command):
    assert "Invalid value for --where: 'value >' is not" in command("consume", "t", "--where", "value >", code=2).err
    assert "Invalid value for --grep: '[' is not" in command("consume", "t", "--grep", "[", code=2).err
    command("produce", "t", stdin=b"\xff\n")
    assert "-o envelope, arrow and parquet keep bytes" in command("consume", "t", "-o", "csv", code=1).err
