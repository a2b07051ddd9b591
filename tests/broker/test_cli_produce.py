"""`samsarrow produce` on the embedded broker, and round trips of the output of `consume`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from datetime import datetime

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.testing import Broker

ENVELOPE = ["t", "--format", "envelope"]
SAMPLES = [
    (b"k", b"v", [("h", b"1"), ("h", b"2"), ("n", None), ("b", b"\xff\x00")], 0, 1_700_000_000_000),
    (None, None, [], 1, 1_700_000_000_001),
    (b"", b"", [("", b"")], 2, 0),
    (b"\xff", b'{"a": 1.50,\n "b": "\xc3\xa4"}', [], 3, 1_700_000_000_002),
    (b"k", b"line\nline", [], 3, 1_600_000_000_000),
]


@pytest.fixture
def rows(servers, read):
    """Returns a function that reads a topic and returns (key, value, headers, partition, timestamp) of each record."""

    def rows(topic="t", count=1):
        options = {"bootstrap.servers": servers, "auto.offset.reset": "earliest", "include.headers": True}
        with Consumer(options) as consumer:
            consumer.assign(consumer.partitions_for(topic))
            table = read(consumer, count)
        headers = [[(h["key"], h["value"]) for h in row] for row in table["headers"].to_pylist()]
        lists = [table[name].to_pylist() for name in ("key", "value")]
        places = table["partition"].to_pylist(), table["timestamp"].cast(pa.int64()).to_pylist()
        return list(zip(*lists, headers, *places, strict=True))

    return rows


@pytest.fixture
def sampled(servers):
    with Producer(bootstrap_servers=servers) as producer:
        for key, value, headers, partition, timestamp in SAMPLES:
            producer.send("four", value, key, headers=headers, partition=partition, timestamp=timestamp)


def content(found):
    return [(key, value, headers) for key, value, headers, *_ in found]


@pytest.mark.parametrize("form", ["envelope", "parquet", "arrow"])
def test_consume_output_round_trips(command, broker, rows, sampled, form):
    written = subprocess.run(
        [sys.executable, "-m", "samsarrow.cli", "consume", "four", "--format", form],
        stdout=subprocess.PIPE, check=True, env=os.environ,
    ).stdout  # fmt: skip
    broker.create_topic("copy", 4)
    command("produce", "copy", "--format", form, stdin=written)
    assert sorted(rows("copy", 5), key=str) == sorted(rows("four", 5), key=str) == sorted(SAMPLES, key=str)
    command("produce", "t", "--format", form, "--repartition", stdin=written)
    assert sorted(content(rows("t", 5)), key=str) == sorted(content(SAMPLES), key=str)
    errors = command("produce", "t", "--format", form, stdin=written, code=1).err
    assert "t has no partition" in errors
    assert "--repartition ignores them" in errors


def test_produce_ends_with_a_line(command):
    done = command("produce", "t", stdin=b"a\nb\n")
    assert (done.out, bool(re.fullmatch(r"2 records, \d+ B in [\d.]+ s sent to t\n", done.err))) == ("", True)


def test_ndjson_round_trips_except_for_whitespace(command, rows, sampled):
    written = command("consume", "four", "--format", "ndjson").out
    command("produce", "t", "--format", "ndjson", stdin=written.encode())
    expected = [(k, v and re.sub(rb"(1\.50,)\s*", rb"\1  ", v), h) for k, v, h, *_ in SAMPLES]
    assert sorted(content(rows("t", 5)), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("args", "stdin", "expected"),
    [
        ([], b"one\ntwo\n\nfour", [(None, b"one"), (None, b"two"), (None, b""), (None, b"four")]),
        ([], b"", []),
        (["--tombstone"], b"one\n\n", [(None, b"one"), (None, None)]),
        (["-K", ":"], b"a:1\nb:2:3\nc:\n", [(b"a", b"1"), (b"b", b"2:3"), (b"c", b"")]),
        (["-K", r"\t", "--tombstone"], b"a\t1\nc\t\n", [(b"a", b"1"), (b"c", None)]),
        (["--format", "raw"], b"one\ntwo\n", [(None, b"one\ntwo\n")]),
        (["--format", "ndjson"], b'{"value":{"a": 1}}\n\n{"key":"k","value":null}\n',
         [(None, b'{"a": 1}'), (b"k", None)]),
        (["--format", "ndjson"], b'{"value":{"n":1e400,"d":0.10000000000000000055,"a":1,"a":2},"key":[1e2]}\n'
         b' {"headers":{},"value": -0.0}\n{"value":1' + b"0" * 5000 + b"}",
         [(b"[1e2]", b'{"n":1e400,"d":0.10000000000000000055,"a":1,"a":2}'), (None, b"-0.0"),
          (None, b"1" + b"0" * 5000)]),
        (["--format", "json"], b'[ {"value":{\n "s": "\\u00e4 \xc3\xa4"}} ]',
         [(None, b'{\n "s": "\\u00e4 \xc3\xa4"}')]),
        (["--format", "json"], b'[{"key":1,"value":"x"},{"value_base64":"/w=="}]', [(b"1", b"x"), (None, b"\xff")]),
        (["--format", "csv"], b"a,b\n1,x\n2,\n", [(None, b'{"a":"1","b":"x"}'), (None, b'{"a":"2","b":""}')]),
        (["--format", "csv", "--key-column", "b"], b"a,b\n1,x\n", [(b"x", b'{"a":"1"}')]),
        (["--format", "csv", "--column-type", "a=long", "--column-type", "b=boolean"], b"a,b\n007,true\n8,\n",
         [(None, b'{"a":7,"b":true}'), (None, b'{"a":8,"b":null}')]),
        (["--format", "csv", "--key-column", "zip"], b"zip,at\n01234,2026-01-02\n1e3,NaN\n",
         [(b"01234", b'{"at":"2026-01-02"}'), (b"1e3", b'{"at":"NaN"}')]),
        (["--format", "csv", "--key-column", "k", "--value-column", "v"], b'k,v\n007,\xff\n,"a\nb ""c"""\nNA,1.50\n',
         [(b"007", b"\xff"), (b"", b'a\nb "c"'), (b"NA", b"1.50")]),
        (["--format", "csv"], b'\xef\xbb\xbf\r\n"a\nb",k\r\n1,2\r\n', [(None, b'{"a\\nb":"1","k":"2"}')]),
        (["--format", "csv"], b"a,b\n", []),
        (["--format", "csv", "--value-column", "b"], b"a,b\n1,x\n", [(None, b"x")]),
        (["--format", "csv"], b"key,value\n007,1.50\n", [(b"007", b"1.50")]),
    ],
    ids=lambda value: " ".join(value) if value and isinstance(value, list) and isinstance(value[0], str) else "",
)  # fmt: skip
def test_inputs(command, rows, args, stdin, expected):
    command("produce", "t", *args, stdin=stdin)
    found = rows("t", len(expected)) if expected else []
    assert [(key, value) for key, value, *_ in found] == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["hello", None, ""], pa.string_view()),
        pa.array([b"hello", None, b"\xff"], pa.binary_view()),
        pa.array([b"hello", None, b"world"], pa.binary(5)),
        pa.array(["hello", None, ""], pa.large_string()),
        pa.array([b"hello", None, b"\xff"], pa.large_binary()),
        pa.array(["hello", None, "hello"], pa.dictionary(pa.int8(), pa.string())),
        pa.array([b"hello", None, b"world"], pa.binary(5)).dictionary_encode(),
        pa.nulls(2),
    ],
    ids=lambda column: str(column.type),
)
def test_binary_columns_are_sent_as_by_send_batch(command, servers, rows, tmp_path, column):
    table = pa.record_batch({"key": column, "value": column})
    with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as file:
        file.write(table)
    command("produce", "four", "-p", "0", tmp_path / "f.arrow")
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_batch("t", table, key="key", value="value").result()
    assert content(rows("four", len(column))) == content(rows("t", len(column)))


def test_csv_column_with_late_text_stays_text(command, servers, rows, tmp_path):
    count = 200_000
    (tmp_path / "f.csv").write_text("id\n" + "7\n" * count + "x\n")
    command("produce", "t", tmp_path / "f.csv", "--value-column", "id")
    with Consumer(bootstrap_servers=servers) as consumer:
        assert list(consumer.end_offsets(consumer.partitions_for("t")).values()) == [count + 1]
        consumer.assign(consumer.partitions_for("t"))
        [tp] = consumer.assignment()
        consumer.seek(tp, count)
        batch = consumer.poll(30)
    assert batch["value"].to_pylist() == [b"x"]


def test_csv_table_round_trips_with_nulls(command, rows, servers):
    with Producer(bootstrap_servers=servers) as producer:
        for key, value in ((b"k", None), (None, b""), (b"", b"007")):
            producer.send("t", value, key, timestamp=1_700_000_000_001)
    written = command("consume", "t", "--format", "csv").out.encode()
    command("produce", "four", "--format", "csv", "-p", "0", stdin=written)
    assert [row[:2] + row[4:] for row in rows("four", 3)] == [row[:2] + row[4:] for row in rows("t", 3)]


def test_times_without_a_time_zone_are_local(command, rows, tmp_path, monkeypatch):
    day = datetime(2026, 11, 2)
    table = pa.table({"value": [b"a", b"b"], "at": pa.array([day, None], pa.timestamp("ns"))})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        command("produce", "t", tmp_path / "a.parquet", "--timestamp-column", "at")
        for line in (b"c,2026-11-02", b"d,2026-11-02T00:00:00Z"):
            command("produce", "t", "--format", "csv", "--timestamp-column", "at", stdin=b"value,at\n" + line + b"\n")
    finally:
        monkeypatch.undo()
        time.tzset()
    times = [row[4] for row in rows("t", 4)]
    assert times[0] == times[2] == 1793595600000
    assert times[3] == 1793577600000
    assert abs(times[1] - time.time() * 1000) < 60_000


def test_headers_partitions_and_files(command, rows, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n")
    pa.parquet.write_table(pa.table({"id": [7], "name": ["x"], "at": [3]}), tmp_path / "b.parquet")
    command("produce", "four", tmp_path / "a.txt", "-H", "h=1", "-H", "h=2", "-H", "n", "-p", "2", "-z", "lz4")
    headers = [("h", b"1"), ("h", b"2"), ("n", None)]
    assert [row[1:4] for row in rows("four", 1)] == [(b"one", headers, 2)]
    command("produce", "t", tmp_path / "b.parquet", "--key-column", "name", "--timestamp-column", "at", "-H", "h")
    assert rows("t", 1) == [(b"x", b'{"id":7}', [("h", None)], 0, 3)]
    command("produce", "t", "--format", "ndjson", "-H", "b=2", stdin=b'{"value":"1","headers":{"a":"1"}}')
    assert rows("t", 2)[1][2] == [("a", b"1"), ("b", b"2")]


@pytest.mark.parametrize(
    ("args", "stdin", "code", "why"),
    [
        (["nowhere"], b"x", 1, "samsarrow topics create nowhere"),
        (["t", "-p", "3"], b"x", 1, "topic t has only partition 0: there is no partition 3"),
        (["t", "-K", ":", "--format", "raw"], b"x", 2, "-K is for lines"),
        (["t", "--key-column", "x"], b"x", 2, "need csv, arrow or parquet"),
        (["t", "-K", ""], b"x", 2, "is empty"),
        (["t", "-H", "=x"], b"x", 2, "NAME=VALUE"),
        (["t", "-K", ":"], b"nothing\n", 1, "standard input, line 1: there is no ':'"),
        (["t", "-K", ":"], b"a:1\nb:2\nnothing\n", 3, "line 3: there is no ':' between key and value; 2"),
        (["t", "--format", "ndjson"], b'{"value":1}\n{"value":', 3, "line 2: not JSON"),
        (["t", "--format", "ndjson"], b'{"amount":1}', 1, "line 1: a record is an object with a member value"),
        (["t", "--format", "ndjson"], b'{"value":"\\ud800"}', 1, "surrogate"),
        (["t", "--format", "ndjson"], b'{"value":{"a":NaN}}', 1, "line 1: not JSON: it cannot be read: NaN is"),
        (["t", "--format", "ndjson"], b'{"value":1,"value":2}', 1, "not JSON: Member 'value' is there twice"),
        (["t", "--format", "ndjson"], b'{"value":1} x', 1, "not JSON: Extra data"),
        (["t", "--format", "ndjson"], b'{"value":"\xff"}', 1, "line 1: not JSON: it cannot be read: 'utf-8' codec"),
        (["t", "--format", "ndjson"], b"[" * 100_000, 1, "not JSON"),
        (["t", "--format", "ndjson"], b'{"value":1,"headers":["a"]}', 1, "headers are pairs"),
        (["t", "--format", "envelope"], b'{"value":null}', 1, "line 1: not an envelope"),
        (ENVELOPE, b'{"key":"?","value":null,"headers":[],"partition":0,"timestamp":1}', 1, "key: not base64"),
        (ENVELOPE, b'{"key":null,"value":null,"headers":[],"partition":-1,"timestamp":1}', 1, "is out of range"),
        (ENVELOPE, b'{"key":null,"value":null,"headers":[],"partition":5,"timestamp":1}', 1, "partition"),
        (["t", "--format", "json"], b'{"value":1}', 1, "not a JSON array"),
        (["t", "--format", "parquet"], b"PAR1 not", 1, "cannot be read as parquet"),
        (["t", "--format", "arrow"], b"", 1, "cannot be read as arrow"),
        (["t", "--format", "csv"], b"a,b\n1\n", 1, "cannot be read as csv"),
        (["t", "--format", "csv"], b"", 1, "it has no line of names"),
        (["t", "--format", "csv"], b'a,b\n1,2\n3,"x\n4,y\n5,z\n', 3, "line 3: a quote is not closed"),
        (["t", "--format", "csv"], b'"a\n",b\n\n1,"x', 1, "line 4: a quote is not closed"),
        (["t", "--format", "csv"], b'a,b\n1,"x\n' + b"x,y\n" * 1_000_000, 1, "line 2: a cell in quotes is too"),
        (["t", "--format", "csv"], b'"a\n1\n', 1, "its line of names: unexpected end of data"),
        (["t", "--format", "csv", "--column-type", "a=long"], b"a\n1\nx\n", 1, "cannot be read as csv"),
        (["t", "--format", "csv", "--column-type", "a=number"], b"a\n1\n", 2, "'a=number' is not NAME=TYPE"),
        (["t", "--format", "arrow", "--column-type", "a=long"], b"", 2, "--column-type is for csv"),
        (["t", "--format", "csv", "--key-column", "c"], b"a,b\n1,2\n", 1, "no column 'c'; it has a, b"),
        (["t"], b"fine\n" + b"x" * 2_000_000 + b"\n", 3, "max.request.size"),
        (["t", "no such file"], b"", 2, "no such file"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else "",
)  # fmt: skip
def test_invalid_input_is_named(command, args, stdin, code, why):
    done = command("produce", *args, code=code, stdin=stdin)
    assert why in done.err


def test_lines_of_a_slow_pipe_are_sent_immediately(servers, rows):
    environment = {**os.environ, "SAMSARROW_BOOTSTRAP_SERVERS": servers}
    command = [sys.executable, "-m", "samsarrow.cli", "produce", "t"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as producing:
        producing.stdin.write(b"first\n")
        producing.stdin.flush()
        assert [value for _, value, *_ in rows("t", 1)] == [b"first"]
        producing.communicate(b"second\n", timeout=60)
    assert producing.returncode == 0
    assert [value for _, value, *_ in rows("t", 2)] == [b"first", b"second"]


def test_an_interrupted_command_prints_the_number_of_sent_records(servers, rows):
    environment = {**os.environ, "SAMSARROW_BOOTSTRAP_SERVERS": servers}
    command = [sys.executable, "-m", "samsarrow.cli", "produce", "t"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as producing:
        producing.stdin.write(b"first\n")
        producing.stdin.flush()
        assert len(rows("t", 1)) == 1
        producing.send_signal(signal.SIGTERM)
        assert producing.stderr.read() == b"interrupted: 1 record was sent\n"
    assert producing.returncode == 143


def test_failure_of_one_partition_is_partial(command, broker, sampled):
    envelope = {"key": None, "value": "eA==", "headers": [], "timestamp": 1}
    lines = [json.dumps({**envelope, "partition": p}).encode() for p in (0, 9)]
    done = command("produce", "four", "--format", "envelope", stdin=b"\n".join(lines), code=3)
    assert "record 2" in done.err
    assert "topic four has no partition 9" in done.err
    assert "1 records were sent" in done.err


def test_delivered_rows_of_a_failed_chunk_are_counted(command, broker, consumer):
    broker.fail("Produce", error="INVALID_RECORD", times=1)
    done = command("produce", "t", stdin=(b"x" * 100 + b"\n") * 60_000, code=3)
    end = consumer.end_offsets([TopicPartition("t", 0)])[TopicPartition("t", 0)]
    assert end > 0
    assert f"{end:,} records were sent" in done.err


def test_unreachable_broker_is_an_error(command):
    with Broker(topics={"t": 1}) as gone:
        address = gone.bootstrap_servers
    started = time.monotonic()
    done = command("produce", "t", "-b", address, "--timeout", "500ms", code=1, stdin=b"x\n")
    assert address in done.err
    assert time.monotonic() - started < 20
