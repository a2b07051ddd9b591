"""`samsarrow consume --ack`, which reads a share group, on the embedded broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samsarrow import Consumer, ShareConsumer
from samsarrow.cli.consume.outputs import Output
from samsarrow.testing import Broker
from support.share_cases import earliest, send
from support.waiting import until

Command = Callable[..., Any]
GROUP = ("-g", "workers")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("samsarrow.cli.consume.share.IDLE_SECONDS", 1.0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"jobs": 1, "other": 1}) as broker:
        earliest(broker.bootstrap_servers, "workers")
        send(broker.bootstrap_servers, "jobs", 10)
        yield broker


def remaining(broker: Broker) -> list[tuple[int, int]]:
    """Returns the values that the group has yet to accept, with their delivery counts. Releases them."""
    found: list[tuple[int, int]] = []
    with ShareConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id="workers", acknowledgement="explicit"
    ) as consumer:
        consumer.subscribe(["jobs"])
        while (batch := consumer.poll(1.5 if not found else 0.3)).num_rows:
            numbers, counts = batch.column("value").to_pylist(), batch.column("delivery_count").to_pylist()
            found += zip(map(int, numbers), counts, strict=True)
            consumer.acknowledge(batch, "renew")
    return found


def test_accepts_what_it_prints(command: Command, broker: Broker) -> None:
    assert command("consume", "jobs", *GROUP, "--ack", "accept").out.split() == [str(n) for n in range(10)]
    assert remaining(broker) == []
    assert command("consume", "jobs", *GROUP, "--ack", "accept").out == ""


def test_records_beyond_the_count_stay_in_the_group(command: Command, broker: Broker) -> None:
    assert command("consume", "jobs", *GROUP, "--ack", "accept", "-n", 4).out.split() == ["0", "1", "2", "3"]
    assert remaining(broker) == [(n, 1) for n in range(4, 10)]
    assert command("consume", "jobs", *GROUP, "--ack", "accept", "-n", 0).out == ""
    assert remaining(broker) == [(n, 2) for n in range(4, 10)]


@pytest.mark.parametrize("extra", [(), ("-n", "3")], ids=["all", "some"])
def test_released_records_return(command: Command, broker: Broker, extra: tuple[str, ...]) -> None:
    count = 3 if extra else 10
    assert command("consume", "jobs", *GROUP, "--ack", "release", *extra).out.split() == [str(n) for n in range(count)]
    assert sorted(remaining(broker)) == [(n, 2 if n < count else 1) for n in range(10)]


@pytest.mark.parametrize("form", ["value", "table", "ndjson", "json", "raw", "envelope", "csv", "arrow", "parquet"])
def test_each_format(command: Command, broker: Broker, tmp_path: Path, form: str) -> None:
    path = tmp_path / "jobs.out"
    command("consume", "jobs", *GROUP, "--ack", "accept", "-o", form, "-O", path)
    assert path.stat().st_size >= 10
    assert remaining(broker) == []


def test_rows_have_their_delivery_count(
    command: Command, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each format has the number of deliveries, except those of values alone and envelopes, which are for `produce`."""
    monkeypatch.setattr("samsarrow.cli.consume.share.IDLE_SECONDS", 10.0)
    read = ("consume", "jobs", *GROUP, "-n", 2, "--ack")
    header, *rows = command(*read, "accept", "-o", "csv").out.splitlines()
    at = header.replace('"', "").split(",").index("delivery_count")
    assert [row.split(",")[at] for row in rows] == ["1", "1"]
    path = tmp_path / "jobs.parquet"
    command(*read, "accept", "-O", path)
    assert pq.read_table(path)["delivery_count"].to_pylist() == [1, 1]
    assert command(*read, "release", "--template", "{offset}:{delivery_count}").out.split() == ["4:1", "5:1"]
    lines = [json.loads(line) for line in command(*read, "release", "-o", "ndjson").out.splitlines()]
    assert [(line["offset"], line["delivery_count"]) for line in lines] == [(4, 2), (5, 2)]
    items = json.loads(command(*read, "accept", "-o", "json", "--value", "string").out)
    assert [item["delivery_count"] for item in items] == [3, 3]
    assert "delivery_count" not in command("consume", "jobs", "-o", "ndjson", "-n", 1).out
    assert command("consume", "jobs", "--template", "{delivery_count}|", "-n", 1).out == "|\n"


def test_an_output_without_rows_has_the_column(command: Command, broker: Broker, tmp_path: Path) -> None:
    for form in ("csv", "arrow", "parquet"):
        path = tmp_path / f"none.{form}"
        command("consume", "other", *GROUP, "--ack", "accept", "-O", path)
        content = path.read_bytes()
        assert b"delivery_count" in content, form


def test_files_are_accepted_when_they_are_complete(command: Command, broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    done = command("consume", "jobs", *GROUP, "--ack", "accept", "-O", path, "--rotate", 4)
    assert "3 files" in done.err
    rows = [
        row for file in sorted(tmp_path.glob("jobs-*.parquet")) for row in pq.read_table(file)["offset"].to_pylist()
    ]
    assert rows == list(range(10))
    assert remaining(broker) == []


def test_a_failed_write_releases(command: Command, broker: Broker, tmp_path: Path) -> None:
    done = command("consume", "jobs", *GROUP, "--ack", "accept", "--unpack", "-O", tmp_path / "x.parquet", code=1)
    assert "cannot become columns" in done.err
    assert not list(tmp_path.glob("x*"))
    assert [n for n, _ in remaining(broker)] == list(range(10))


@pytest.mark.parametrize("form", ["value", "parquet"])
def test_ctrl_c_accepts_what_was_printed(broker: Broker, tmp_path: Path, form: str) -> None:
    """Records of an incomplete file are released, and lines are accepted."""
    path, servers = tmp_path / "jobs.out", broker.bootstrap_servers
    arguments = ["consume", "jobs", *GROUP, "--ack", "accept", "-o", form, "-O", str(path)]
    # A read of a file in a columnar format ends only if no record arrives, which is late here.
    program = "import samsarrow.cli.consume.share as s; s.IDLE_SECONDS = 60; from samsarrow.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "SAMSARROW_BOOTSTRAP_SERVERS": servers, "XDG_CONFIG_HOME": str(tmp_path)},
        stderr=subprocess.PIPE,
    )
    try:
        if form == "value":
            until(lambda: path.exists() and len(path.read_text().split()) == 10)
        else:
            until(lambda: broker.requests().get("ShareAcknowledge", 0) + broker.requests().get("ShareFetch", 0) > 3)
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.communicate()
    if form == "value":
        assert remaining(broker) == []
    else:
        assert not path.exists()
        assert [n for n, _ in remaining(broker)] == list(range(10))


def test_a_lost_lock_is_reported(command: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Output.write

    def slow(output: Output, batch: pa.RecordBatch) -> None:
        write(output, batch)
        broker.expire_locks("workers")

    monkeypatch.setattr(Output, "write", slow)
    done = command("consume", "jobs", *GROUP, "--ack", "accept", "-n", 10, code=3)
    assert len(done.out.split()) == 10
    assert "records were written that the group may deliver again: jobs-0 (" in done.err
    assert remaining(broker) == [(n, 2) for n in range(10)]


@pytest.mark.parametrize("ack", ["accept", "release"])
def test_locks_of_held_records_are_renewed(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ack: str
) -> None:
    """A read that waits for more records takes longer than the lock."""
    monkeypatch.setattr("samsarrow.cli.consume.share.IDLE_SECONDS", 8.0)
    with Broker(topics={"jobs": 1}, share_lock=4) as broker:
        monkeypatch.setenv("SAMSARROW_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
        earliest(broker.bootstrap_servers, "workers")
        send(broker.bootstrap_servers, "jobs", 10)
        path = tmp_path / "jobs.parquet"
        command("consume", "jobs", *GROUP, "--ack", ack, "-O", path)
        assert pq.read_table(path)["offset"].to_pylist() == list(range(10))
        assert remaining(broker) == ([] if ack == "accept" else [(n, 2) for n in range(10)])


def test_shown_records_are_not_shown_again(command: Command, broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Output.write

    def slow(output: Output, batch: pa.RecordBatch) -> None:
        write(output, batch)
        broker.expire_locks("workers")

    monkeypatch.setattr(Output, "write", slow)
    done = command("consume", "jobs", *GROUP, "--ack", "release", code=3)
    assert done.out.split() == [str(n) for n in range(10)]
    assert "the locks of 10 records that were shown have ended, the first of jobs-0 with offset 0" in done.err


def test_groups_of_other_types(command: Command, broker: Broker) -> None:
    servers = broker.bootstrap_servers
    with Consumer(bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["jobs"])
        consumer.poll(10)
        consumer.commit()
        failed = command("consume", "jobs", "-g", "readers", "--ack", "accept", code=1)
        assert "readers" in failed.err
        assert "--ack is for share groups" in failed.err


def test_a_share_group_without_ack(command: Command, broker: Broker) -> None:
    # Apache Kafka's response if the group is a share group.
    broker.fail("JoinGroup", error="INCONSISTENT_GROUP_PROTOCOL", times=None)
    failed = command("consume", "jobs", *GROUP, code=1)
    assert "a share group is read with --ack" in failed.err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--ack", "accept"], "-g GROUP"),
        (["--ack", "accept", *GROUP, "--from", "latest"], "samsarrow offsets reset"),
        (["--ack", "accept", *GROUP, "-p", "0"], "the brokers choose the records"),
        (["--ack", "accept", *GROUP, "--tail", "3"], "the brokers choose the records"),
        (["--ack", "accept", *GROUP, "--no-commit"], "--ack release keeps records"),
        (["--ack", "accept", *GROUP, "--grep", "x"], "Filter the output"),
        (["--ack", "release", *GROUP, "-f"], "records return at the end"),
        (["--ack", "accept", *GROUP, "-f", "-O", "x.parquet"], "brokers lock a few thousand"),
        (["--ack", "reject", *GROUP], "'reject' is not one of"),
        (["--ack", "accept", *GROUP, "-X", "auto.offset.reset=earliest"], "auto.offset.reset"),
    ],
)
def test_invalid_options(command: Command, broker: Broker, arguments: list[str], why: str) -> None:
    assert why in command("consume", "jobs", *arguments, code=2).err
