"""`samsarrow offsets` on the embedded broker: output, resulting offsets and exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from samsarrow import Admin, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.cli import main
from samsarrow.testing import Broker

FOUR = [TopicPartition("four", p) for p in range(4)]
T0 = TopicPartition("t", 0)
HOUR = 3_600_000


@pytest.fixture
def admin(servers):
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


@pytest.fixture
def run(servers, capsys, monkeypatch, tmp_path):
    """Returns a function that runs a command and returns its exit code, stdout and stderr."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def one(*args, code=0, connect=True):
        where = ["-b", servers] if connect else []
        monkeypatch.setattr("samsarrow.cli._block_imports", lambda: None)
        monkeypatch.setattr(sys, "argv", ["samsarrow", "offsets", *map(str, args), *where])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == code, (out, err)
        assert "Traceback" not in err
        return err if code else out

    return one


@pytest.fixture
def filled(servers, admin):
    """Sends ten records to each partition of `four`, an hour apart. Group `g` has committed offset 5 in two of them."""
    now = round(time.time() * 1000)
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(40):
            producer.send("four", b"x", partition=i % 4, timestamp=now - (10 - i // 4) * HOUR + HOUR // 2)
    admin.commit_offsets("g", {FOUR[0]: OffsetAndMetadata(5, "half"), FOUR[2]: 5})
    return now


def at(admin, group="g"):
    return {tp: found.offset for tp, found in admin.fetch_offsets(group).items()}


def test_list_and_describe(run, admin, filled):
    admin.commit_offsets("other", {T0: 0})
    assert [line.split()[:2] for line in run("list", "-o", "table").splitlines()] == [
        ["GROUP", "STATE"], ["g", "Empty"], ["other", "Empty"]
    ]  # fmt: skip
    assert [json.loads(line)["group"] for line in run("list").splitlines()] == ["g", "other"]
    assert run("list", "--state", "stable") == ""
    assert [line.split()[:8] for line in run("describe", "g", "-o", "table").splitlines()] == [
        ["GROUP", "STATE", "TOPIC", "PARTITION", "OFFSET", "END", "LAG", "METADATA"],
        ["g", "Empty", "four", "0", "5", "10", "5", "half"],
        ["g", "Empty", "four", "2", "5", "10", "5", "-"],
    ]
    [row] = json.loads(run("describe", "g", "-o", "json", "--topic", "four:2"))
    assert row == {
        "group": "g", "state": "Empty", "topic": "four", "partition": 2, "offset": 5, "end": 10, "lag": 5,
        "metadata": "", "leader_epoch": None, "client_id": None, "host": None, "member_id": None, "instance_id": None,
    }  # fmt: skip
    assert [json.loads(line)["group"] for line in run("describe", "--all-groups").splitlines()] == ["g", "g", "other"]
    row = json.loads(run("describe", "g", "--storage", "zookeeper"))
    assert (row["group"], row["state"], row["offset"], row["topic"]) == ("g", "Empty", None, None)


def test_describe_of_a_group_that_does_not_exist(run, admin, filled, capsys):
    assert run("describe", "nobody", code=1).startswith("group nobody: the group does not exist, or has no offsets\n")
    assert "no offsets for it" in run("describe", "nobody", "--storage", "zookeeper", code=1).replace(" of these", "")
    assert "group nobody: " in run("describe", "g", "nobody", code=3)
    assert run("list", "--state", "Foo", code=2).count("Foo") == 1


def test_describe_with_a_leaderless_partition(capsys, monkeypatch):
    with Broker(brokers=2, topics={"four": 4}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        for partition in range(4):
            broker.move_leader("four", partition, int(partition == 2))
        broker.move_coordinator("g", 0)
        admin.commit_offsets("g", dict.fromkeys(FOUR, 5))
        broker.fail("ListOffsets", node=1, error="LEADER_NOT_AVAILABLE", times=None)
        where = ["-b", broker.bootstrap_servers, "-c", "default.api.timeout.ms=2000"]
        monkeypatch.setattr("samsarrow.cli._block_imports", lambda: None)
        monkeypatch.setattr(sys, "argv", ["samsarrow", "offsets", "describe", "g", *where])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["partition"], row["offset"], row["end"]) for row in rows] == [
        (0, 5, 0), (1, 5, 0), (2, 5, None), (3, 5, 0)
    ]  # fmt: skip
    assert ended.value.code == 3, err
    assert "the end of four-2: " in err


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (["--to-earliest"], 0),
        (["--to", "earliest"], 0),
        (["--to", "end"], 10),
        (["--to", "7"], 7),
        (["--to", "-1"], 9),
        (["--to", "-3h"], 7),
        (["--to", "@-3h"], 7),
        (["--to-latest"], 10),
        (["--to-offset", "7"], 7),
        (["--to-offset", "99"], 10),
        (["--shift-by", "-2"], 3),
        (["--shift-by", "3"], 8),
        (["--shift-by", "-100"], 0),
        (["--shift-by", "100"], 10),
        (["--by-duration", "3h"], 7),
        (["--by-duration", "P7D"], 0),
        (["--by-duration", "0s"], 10),
        (["--to-datetime", "1990-01-01"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_reset(run, admin, filled, how, expected):
    before = at(admin)
    output = run("reset", "g", "--all-topics", *how, "--dry-run")
    assert "dry run: nothing is written" in output
    assert at(admin) == before
    output = run("reset", "g", "--all-topics", *how)
    assert at(admin) == {FOUR[0]: expected, FOUR[2]: expected}
    rows = [line.split() for line in output.splitlines()]
    assert ["four", "0", "5", str(expected), "-"] in rows
    assert output.endswith("2 partitions written, read back and equal\n")
    if how[0] != "--shift-by":
        assert "0 partitions change, 2 are already right" in run("reset", "g", "--all-topics", *how)


def test_reset_of_selected_partitions(run, admin, filled):
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((filled - 3 * HOUR) / 1000))
    run("reset", "g", "--topic", "four:1,2-3", "--topic", "t", "--to-datetime", moment)
    assert at(admin) == {FOUR[0]: 5, FOUR[1]: 7, FOUR[2]: 7, FOUR[3]: 7, T0: 0}
    assert "four-1 has no offset to shift" in run("reset", "new", "--topic", "four:1", "--shift-by", "1", code=1)
    assert "there is no topic fore" in run("reset", "g", "--topic", "fore", "--to-latest", code=1)
    assert "4 partitions, 0 to 3: there is no partition 4" in run(
        "reset", "g", "--topic", "four:4", "--to-latest", code=1
    )


def test_reset_and_consume_parse_times_equally(run, command, admin, filled, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        milliseconds = filled - 3 * HOUR
        local = datetime.fromtimestamp(milliseconds / 1000).isoformat()
        for text in (local, datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(), str(milliseconds)):
            run("reset", "g", "--topic", "four:1", "--to-datetime", text)
            first = command("consume", "four", "-p", "1", "--from", f"@{text}", "--format", "envelope", "-n", "1").out
            assert at(admin)[FOUR[1]] == json.loads(first)["offset"] == 7, text
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["reset", "g", "--all-topics"], "pass one of --to, --to-earliest"),
        (["reset", "g", "--all-topics", "--to-earliest", "--to-latest"], "pass one of --to, --to-earliest"),
        (["reset", "g", "--to-earliest"], "pass --topic"),
        (["reset", "g", "--to-earliest", "--all-topics", "--topic", "t"], "pass --topic"),
        (["reset", "g", "--all-topics", "--by-duration", "soon"], "'soon' is not a time span"),
        (["reset", "g", "--all-topics", "--to-datetime", "soon"], "'soon' is not a time"),
        (["reset", "g", "--topic", "t:x", "--to-latest"], "'t:x' is not TOPIC"),
        (["describe"], "name groups, or pass --all-groups"),
        (["export", "g", "--all-groups"], "name groups, or pass --all-groups"),
        (["copy", "g", "g"], "cannot be copied to itself"),
        (["migrate", "g"], "--to"),
        (["migrate", "g", "h", "--to", "kafka", "--dual-commit", "1s"], "is for one group"),
        (["list", "-c", "client.idd=x"], "did you mean client.id"),
        (["list", "-c", "x"], "'x' is not NAME=VALUE"),
        (["describe", "g", "-c", "api.version.offset_commit=0"], "the storage determines"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_exit_code_2(run, args, text):
    assert text in run(*args, code=2)


def test_bootstrap_servers_sources(run, tmp_path, servers):
    assert "--bootstrap-servers" in run("list", code=2, connect=False)
    file = tmp_path / "client.properties"
    file.write_text(f"# mine\nbootstrap.servers = {servers}\n\nclient.id=me\n")
    assert run("list", "--command-config", file, connect=False) == ""
    with Broker() as gone:
        unreachable = gone.bootstrap_servers
    started = time.monotonic()
    assert unreachable in run("list", "-b", unreachable, "--timeout", "1", code=1, connect=False)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("form", ["json", "csv", "zookeeper"])
def test_export_and_import(run, admin, filled, tmp_path, form):
    admin.commit_offsets("h", {T0: OffsetAndMetadata(0, "h's, own", 0)})
    file = tmp_path / "offsets"
    run("export", "g", "h", "--format", form, "-O", file)
    assert run("export", "g", "h", "--format", form) == file.read_text()
    admin.commit_offsets("g", {FOUR[0]: 9, FOUR[1]: 1})
    admin.delete_groups(["h"])
    output = run("import", file)
    assert "group h in Kafka: 1 partitions written" in output
    assert at(admin) == {FOUR[0]: 5, FOUR[1]: 1, FOUR[2]: 5}
    kept = form != "zookeeper"
    assert admin.fetch_offsets("h") == {T0: OffsetAndMetadata(0, "h's, own" if kept else "")}
    again = run("import", file)
    assert "written" not in again
    run("import", file, "--group", "h", "--to-group", "new", "--keep-leader-epochs")
    assert admin.fetch_offsets("new")[T0].leader_epoch == (0 if kept else None)
    assert "the file has no group x" in run("import", file, "--group", "x", code=2)
    assert "but the file has 2" in run("import", file, "--to-group", "x", code=2)


def test_import_of_a_kafka_tool_export(run, admin, tmp_path):
    file = tmp_path / "offsets.csv"
    file.write_text('"four",0,3\n"four",1,4\n')
    assert "does not name its group" in run("import", file, code=2)
    run("import", file, "--group", "k", "--topic", "four:1")
    assert at(admin, "k") == {FOUR[1]: 4}
    file.write_text("four,0,3\nfour,zero,4\n")
    assert "line 2: partition 'zero'" in run("import", file, "--group", "k", code=2)


def test_export_without_offsets(run, tmp_path, servers):
    done = subprocess.run(
        [sys.executable, "-m", "samsarrow.cli", "offsets", "export", "nobody", "-b", servers],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {"version": 1, "groups": {"nobody": []}}
    assert done.stderr == "group nobody has no offsets\n"


def test_copy_and_delete(run, admin, filled):
    run("copy", "g", "h", "--topic", "four:0")
    assert admin.fetch_offsets("h") == {FOUR[0]: OffsetAndMetadata(5, "half")}
    run("copy", "g", "h")
    assert admin.fetch_offsets("h") == admin.fetch_offsets("g")
    assert "group nobody in Kafka has no offsets" in run("copy", "nobody", "h", code=1)
    assert "dry run" in run("delete", "h", "--dry-run")
    assert len(at(admin, "h")) == 2
    assert "pass --yes" in run("delete", "h", code=2)
    assert len(at(admin, "h")) == 2
    run("delete", "h", "nobody", "--yes")
    assert at(admin, "h") == {}
    assert "h" not in admin.list_groups()
    assert run("delete", "h") == "group h in Kafka: nothing to delete\n"


def test_migrate(run, admin, filled):
    assert "group g in ZooKeeper has no offsets" in run("migrate", "g", "--to", "kafka", code=1)
    output = run("migrate", "g", "--to", "zookeeper")
    assert output.endswith("group g in ZooKeeper: 2 partitions written, read back and equal\n")
    assert admin.fetch_offsets("g", FOUR, api_version=0) == {
        FOUR[0]: OffsetAndMetadata(5), FOUR[1]: None, FOUR[2]: OffsetAndMetadata(5), FOUR[3]: None
    }  # fmt: skip
    assert "0 partitions change, 2 are already right" in run("migrate", "g", "--to", "zookeeper")
    run("reset", "g", "--topic", "four", "--to-latest", "--storage", "zookeeper")
    assert at(admin) == {FOUR[0]: 5, FOUR[2]: 5}
    run("migrate", "g", "--to", "kafka", "--topic", "four:1")
    assert at(admin) == {FOUR[0]: 5, FOUR[1]: 10, FOUR[2]: 5}
    assert "both are equal" in run("migrate", "g", "--to", "kafka", "--dual-commit", "0.3s", "--interval", "50ms")
    assert at(admin) == dict.fromkeys(FOUR, 10)


def test_broker_errors_are_exit_code_1_or_3(run, admin, broker, filled, tmp_path):
    file = tmp_path / "offsets"
    file.write_text("/consumers/g/offsets/nowhere/0:1\n")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("import", file, code=1)
    file.write_text("/consumers/g/offsets/nowhere/0:1\n/consumers/g/offsets/t/0:0\n")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in run("import", file, code=3)
    assert at(admin)[T0] == 0
    # If the import of a group fails, the groups after this group are still imported.
    file.write_text("/consumers/a/offsets/nowhere/0:1\n/consumers/b/offsets/t/0:0\n")
    output = run("import", file, code=3)
    assert "group a: OffsetCommit of nowhere-0" in output
    assert "1 of 2 failed" in output
    assert at(admin, "b") == {T0: 0}
    admin.commit_offsets("h", {T0: 0})
    broker.fail("DeleteGroups", error="GROUP_AUTHORIZATION_FAILED")
    output = run("delete", "g", "h", "--yes", code=3)
    assert "group g: " in output
    assert set(admin.list_groups()) == {"g", "b"}
    broker.fail("DeleteGroups", error="GROUP_AUTHORIZATION_FAILED", times=2)
    assert "all 2 failed" in run("delete", "g", "b", "--yes", code=1)


def test_killed_shift_is_completed_and_not_repeated(tmp_path):
    with Broker(topics={"big": 2000}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        partitions = [TopicPartition("big", p) for p in range(2000)]
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for tp in partitions:
                for _ in range(10):
                    producer.send("big", b"", partition=tp.partition)
        admin.commit_offsets("g", dict.fromkeys(partitions, 8))
        command = [
            sys.executable, "-m", "samsarrow.cli", "offsets", "reset", "g", "--all-topics", "--shift-by", "-3",
            "--batch-size", "1", "-b", broker.bootstrap_servers,
        ]  # fmt: skip
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        # The commits are delayed, so that the command is still running when it is killed.
        broker.fail("OffsetCommit", delay=0.01, times=None)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as killed:
            while not 0 < sum(o == 5 for o in at(admin).values()) < 2000:
                assert killed.poll() is None
            killed.send_signal(signal.SIGKILL)
        broker.heal("OffsetCommit")
        half = list(at(admin).values())
        assert 0 < half.count(5) < 2000
        command[command.index("--batch-size") + 1] = "1000"
        again = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=True)
        assert again.stdout.startswith("continuing the unfinished run of ")
        assert at(admin) == dict.fromkeys(partitions, 5)
        assert list(tmp_path.rglob("*.json")) == []
        # The interrupted shift is complete, so the same command starts another shift.
        subprocess.run(command, capture_output=True, env=environment, timeout=60, check=True)
        assert at(admin) == dict.fromkeys(partitions, 2)


def test_unfinished_shift_does_not_overwrite_other_commits(run, admin, filled, servers):
    from samsarrow.offsets.journal import Journal, default_folder
    from samsarrow.offsets.move import Change

    journal = Journal(default_folder(), [servers, "group g in Kafka", "-1"])
    journal.begin([Change(FOUR[0], OffsetAndMetadata(9), OffsetAndMetadata(8))])
    output = run("reset", "g", "--all-topics", "--shift-by", "-1", code=1)
    assert "four-0 is at 5, neither at 9 as before nor at 8 as planned" in output
    assert "--start-over" in output
    run("reset", "g", "--all-topics", "--shift-by", "-1", "--start-over")
    assert at(admin) == {FOUR[0]: 4, FOUR[2]: 4}
    assert journal.unfinished() is None


def test_files_without_offsets_and_folders_that_do_not_exist(command, tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text("")
    assert "has no offsets: nothing was done" in command("offsets", "import", empty, code=1).err
    assert command("offsets", "export", "g", "-O", "-").out.startswith("{")
    missing = tmp_path / "missing" / "offsets.json"
    ended = command("offsets", "export", "g", "-O", missing, code=1)
    assert f"{missing.parent}" in ended.err
    assert "Errno" not in ended.err


@pytest.mark.parametrize("option", ["--to", "--to-offset"])
def test_reset_reports_partitions_without_the_offset(command, servers, option):
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x").result()
    ended = command("offsets", "reset", "g", option, "99", "--topic", "t", "--dry-run")
    assert "offset 99 is not in 1 of 1 partitions: the nearest is used, t-0 at 1\n" in ended.err
    assert command("offsets", "reset", "g", option, "0", "--topic", "t", "--dry-run").err == ""
