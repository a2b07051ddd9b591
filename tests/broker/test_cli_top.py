"""`samsarrow top` on the embedded broker: a screen in a pseudo-terminal, and output without a terminal."""

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.testing import Broker
from support.screen import Screen

TOP = [sys.executable, "-m", "samsarrow.cli", "top", "-b"]


def rows(ended):
    return [json.loads(line) for line in ended.out.splitlines()]


@contextmanager
def load(servers, *consumers):
    """Produces 200 records a second to `four`, and reads them in a thread for each of `consumers`, (group, options)."""
    over = threading.Event()

    def produce():
        with Producer(bootstrap_servers=servers) as producer:
            while not over.wait(0.05):
                for number in range(10):
                    producer.send("four", b"x", partition=number % 4)

    def consume(group, options):
        fixed = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 200, "client_id": "reader"}
        with Consumer(bootstrap_servers=servers, group_id=group, **fixed, **options) as consumer:
            consumer.subscribe(["four"])
            while not over.is_set():
                consumer.poll(0.1)

    threads = [threading.Thread(target=produce)]
    threads += [threading.Thread(target=consume, args=each) for each in consumers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


@pytest.fixture
def committed(servers):
    """Group `idle` with committed offsets and without members."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("idle", {TopicPartition("four", 0): 0, TopicPartition("t", 0): 0})


def test_rates_of_groups_under_load(command, servers, committed):
    groups = [("classic", {}), ("modern", {"group_protocol": "consumer"}), ("modern", {"group_protocol": "consumer"})]
    with load(servers, *groups):
        time.sleep(1.5)
        shown = {row["group"]: row for row in rows(command("top", "--once", "--json", "-i", "2s"))}
        parts = rows(command("top", "modern", "--once", "--partitions", "--topic", "fo*", "--json", "-i", "500ms"))
    assert set(shown) == {"classic", "modern", "idle"}
    for name, members in (("classic", 1), ("modern", 2)):
        row = shown[name]
        assert (row["state"], row["members"], row["topics"], row["partitions"]) == ("Stable", members, 1, 4)
        assert row["type"] == ("classic" if name == "classic" else "consumer")
        assert 20 < row["produced_per_second"] < 400
        assert 20 < row["consumed_per_second"] < 400
        assert row["lag"] < 400
    idle = shown["idle"]
    assert (idle["state"], idle["members"], idle["consumed_per_second"], idle["eta_seconds"]) == ("Empty", 0, 0.0, None)
    assert idle["lag"] > 20
    assert sorted(part["partition"] for part in parts) == [0, 1, 2, 3]
    assert {part["member"] for part in parts} == {"reader@127.0.0.1"}
    assert all(part["end"] - part["offset"] == part["lag"] for part in parts)


def test_tables_topics_and_names(command, committed):
    printed = command("top", "-n", "2", "-i", "10ms").out.splitlines()
    assert [line.split()[0] for line in printed if ":" not in line] == ["GROUP", "idle", "GROUP", "idle"]
    assert command("top", "--once", "-i", "10ms").out.splitlines()[0].startswith("GROUP ")
    ended = command("top", "--once", "--json", "-i", "10ms", "--topic", "none")
    assert (ended.out, ended.err) == ("", "no groups match\n")
    [only] = rows(command("top", "i*", "--once", "--json", "-i", "10ms", "-t", "t"))
    assert (only["group"], only["partitions"], only["lag"]) == ("idle", 1, 0)
    assert "nope" in command("top", "nope", "--once", "-i", "10ms", code=1).err
    ended = command("top", "nope", "idle", "--once", "--json", "-i", "10ms", code=3)
    assert [row["group"] for row in rows(ended)] == ["idle", "nope"]
    assert "group nope: " in command("groups", "watch", "nope", "--count", "1", code=1).err
    ended = command("groups", "watch", "nope", "idle", "--count", "1", code=3)
    assert [row["group"] for row in rows(ended)] == ["idle"]
    assert "not both" in command("top", "--once", "-n", "3", code=2).err
    assert "not both" in command("top", "--json", "-o", "csv", code=2).err
    assert "must be more than 0" in command("top", "-i", "0", code=2).err


def test_requests_do_not_depend_on_the_number_of_groups(command, servers, broker):
    with Admin(bootstrap_servers=servers) as admin:
        for number in range(50):
            admin.commit_offsets(f"many-{number}", {TopicPartition("four", p): 0 for p in range(4)})
    before = broker.requests()
    assert len(rows(command("top", "-n", "1", "--json"))) == 50
    after = broker.requests()
    sent = {api: after.get(api, 0) - before.get(api, 0) for api in ("ListGroups", "OffsetFetch", "ListOffsets")}
    assert sent == {"ListGroups": 1, "OffsetFetch": 1, "ListOffsets": 1}


def test_pipes_get_tables_until_the_reader_ends(servers, committed):
    with subprocess.Popen([*TOP, servers, "-i", "50ms"], stdout=subprocess.PIPE, text=True) as process:
        lines = [process.stdout.readline() for _ in range(9)]
        assert [line.split()[0] for line in lines][1::3] == ["GROUP"] * 3
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143


def test_screen(servers, committed):
    with load(servers, ("billing", {})), Screen([*TOP, servers, "-i", "300ms"]) as screen:
        lines = screen.wait(lambda lines: any("billing" in line and "Stable" in line for line in lines))
        assert lines[0].startswith(f"samsarrow top  {servers} ")
        assert lines[3].split()[:4] == ["GROUP", "STATE", "MEMBERS", "LAG▼"]
        assert lines[23].startswith("q quit")
        screen.wait(lambda lines: any("billing" in line and "█" in line for line in lines))
        assert not screen.restored
        screen.press("/bill\r\r")
        lines = screen.wait_for("TOPIC-PARTITION")
        assert lines[1].startswith("classic   Stable")
        screen.wait(
            lambda lines: all(any(f"four-{p}" in line and "reader@" in line for line in lines) for p in range(4))
        )
        screen.press("\t")
        screen.wait_for("ASSIGNMENT")
        screen.press("\x1b")
        screen.wait_for("MEMBERS")
        screen.resize(50, 8)
        lines = screen.wait(lambda lines: lines[7].startswith("q quit") and "GROUP" in lines[3])
        assert {len(line) for line in lines} == {50}
        screen.press("p")
        screen.wait_for("PAUSED")
        screen.press("q")
        assert screen.end() == 0
        assert screen.restored


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_restore_the_terminal(servers, committed, number, code):
    with Screen([*TOP, servers]) as screen:
        screen.wait_for("idle")
        if number == signal.SIGINT:
            screen.press("\x03")
        else:
            screen.kill(number)
        assert screen.end() == code
        assert screen.restored


def test_brokers_that_go_away_are_shown_and_quit_does_not_wait(tmp_path):
    with (
        Broker(topics={"four": 4}) as broker,
        Screen([*TOP, broker.bootstrap_servers, "-i", "200ms", "--timeout", "1s"]) as screen,
    ):
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.commit_offsets("idle", {TopicPartition("four", 0): 0})
        screen.wait_for("idle")
        broker.close()
        lines = screen.wait_for("refused", 30)
        assert any(line.startswith("idle") for line in lines), "the last values stay"
        assert "Traceback" not in "".join(lines)
        screen.press("q")
        assert screen.end(5) == 0
        assert screen.restored


def test_unreachable_brokers_at_the_start_are_an_error():
    with Screen([*TOP, "127.0.0.1:1", "--timeout", "500ms"]) as screen:
        assert screen.end() == 1
        assert screen.restored
