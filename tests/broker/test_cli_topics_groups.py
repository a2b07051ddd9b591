"""`samsarrow topics` and `samsarrow groups` on the embedded broker."""

import csv
import io
import json
import subprocess
import sys

import pytest

from samsarrow import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition

FOUR = [TopicPartition("four", p) for p in range(4)]


@pytest.fixture
def admin(servers):
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


@pytest.fixture
def filled(servers, admin):
    """Sends ten records to each partition of `four`, a second apart. Group `g` has committed offset 5 in two."""
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(40):
            producer.send("four", b"x", partition=i % 4, timestamp=1_793_527_200_000 + i // 4 * 1000)
    admin.commit_offsets("g", {FOUR[0]: OffsetAndMetadata(5, "half"), FOUR[2]: 5})


def rows(ended):
    return [json.loads(line) for line in ended.out.splitlines()]


def test_topics_list_formats(command):
    listed = rows(command("topics", "list"))
    assert [(t["topic"], t["partitions"], t["internal"]) for t in listed] == [("four", 4, False), ("t", 1, False)]
    assert command("topics", "list", "-o", "table").out.splitlines()[0].split() == [
        "TOPIC",
        "PARTITIONS",
        "INTERNAL",
        "ID",
    ]
    assert json.loads(command("topics", "list", "-o", "json").out) == listed
    assert [r["topic"] for r in csv.DictReader(io.StringIO(command("topics", "list", "-o", "csv").out))] == [
        "four",
        "t",
    ]
    assert [t["topic"] for t in rows(command("topics", "list", "f*"))] == ["four"]
    for form in ("table", "ndjson"):
        nothing = command("topics", "list", "nothing*", "-o", form)
        assert (nothing.out, nothing.err) == ("", "no topics match\n")
    assert command("topics", "list", "nothing*", "-o", "csv").out == "topic,partitions,internal,id\n"
    assert json.loads(command("topics", "list", "nothing*", "-o", "json").out) == []
    missing = command("topics", "list", "nothing", "four", code=1)
    assert (missing.out, "there is no topic nothing at 127" in missing.err) == ("", True)


def test_topics_describe_offsets(command, filled):
    described = rows(command("topics", "describe", "four"))
    expected = {"leader": 0, "replicas": [0], "isr": [0], "beginning": 0, "end": 10, "max_records": 10}
    assert described == [{"topic": "four", "partition": p, **expected} for p in range(4)]
    at = [r["offset"] for r in rows(command("topics", "offsets", "four", "--at", "2026-11-01T10:00:03+00:00"))]
    assert at == [3] * 4
    assert [r["offset"] for r in rows(command("topics", "offsets", "*", "--at", "now"))] == [10, 10, 10, 10, 0]
    assert "there is no topic nowhere" in command("topics", "describe", "nowhere", code=1).err
    assert "is not a time" in command("topics", "offsets", "four", "--at", "then", code=2).err


def test_topics_create_and_delete(command, admin):
    created = command("topics", "create", "a", "b", "--partitions", "3", "--config", "cleanup.policy=compact")
    assert "a: created" in created.err
    assert admin.list_topics()["a"].partitions == 3
    assert "would be created" in command("topics", "create", "c", "--dry-run").err
    assert "c" not in admin.list_topics()
    partly = command("topics", "create", "c", "a", code=3)
    assert "a: " in partly.err
    assert "1 of 2 failed" in partly.err
    command("topics", "create", "a", code=1)
    command("topics", "create", "a", "--if-not-exists")
    settings = rows(command("topics", "describe", "a", "--settings"))
    assert [(s["name"], s["value"]) for s in settings] == [("cleanup.policy", "compact")]
    assert rows(command("topics", "describe", "t", "--settings")) == []
    assert "--yes" in command("topics", "delete", "a", code=2).err
    command("topics", "delete", "?", "--dry-run")
    assert "a" in admin.list_topics()
    command("topics", "delete", "[abc]", "-y")
    assert set(admin.list_topics()) == {"four", "t"}
    gone = command("topics", "delete", "a", "-y", code=1)
    assert (gone.out, gone.err.startswith("Error: there is no topic a at"), "Usage" in gone.err) == ("", True, False)
    assert command("topics", "delete", "a", "b*", "--if-exists", "-y").err == "nothing to delete\n"
    command("topics", "create", "a")
    assert command("topics", "delete", "a", "b", "--if-exists", "-y").err == "a: deleted\n"
    assert command("topics", "alter", "b", "--partitions", "2", "--if-exists").err == "nothing to change\n"
    command("topics", "create", "x y", code=1)
    wrong = command("topics", "create", "x", "-X", "retention.ms=5", code=2).err
    assert "; --config retention.ms=VALUE is for settings of topics" in wrong
    command("topics", "create", "z", "--set", "nonsense", code=2)


def test_groups_list_and_describe(command, filled, servers):
    with Consumer(bootstrap_servers=servers, group_id="live", client_id="me") as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        listed = {row["group"]: row["state"] for row in rows(command("groups", "list"))}
        assert listed == {"g": "Empty", "live": "Stable"}
        assert [row["group"] for row in rows(command("groups", "list", "--state", "stable"))] == ["live"]
        assert len(rows(command("groups", "list", "--state", "stable,EMPTY"))) == 2
        assert command("groups", "list", "--state", "Dead").err == "no groups match\n"
        unknown = command("groups", "list", "--state", "Foo", code=2)
        assert (unknown.out, "'Foo' is not a state: use Assigning, " in unknown.err) == ("", True)
        found = rows(command("groups", "describe"))
        assert [(r["group"], r["partition"], r["offset"], r["lag"]) for r in found] == [
            ("g", 0, 5, 5), ("g", 2, 5, 5), ("live", 0, None, None),
        ]  # fmt: skip
        assert (found[2]["client_id"], found[2]["topic"]) == ("me", "t")
        assert "members" in command("groups", "delete", "live", "-y", code=1).err
    partly = command("groups", "describe", "g", "nobody", code=3)
    assert len(rows(partly)) == 2
    assert "group nobody" in partly.err
    assert "group nobody" in command("groups", "lag", "nobody", code=1).err
    assert "there is no group no*" in command("groups", "lag", "no*", code=1).err


def test_groups_lag_sends_one_request(command, filled, admin, broker):
    for number in range(20):
        admin.commit_offsets(f"many-{number}", dict.fromkeys(FOUR, number % 10))
    before = broker.requests()
    found = {row["group"]: row["lag"] for row in rows(command("groups", "lag"))}
    after = broker.requests()
    assert found == {"g": 10, **{f"many-{n}": 4 * (10 - n % 10) for n in range(20)}}
    requests = {api: after[api] - before.get(api, 0) for api in ("OffsetFetch", "ListOffsets")}
    assert requests == {"OffsetFetch": 1, "ListOffsets": 1}
    each = rows(command("groups", "lag", "many-3", "--partitions"))
    assert [(r["topic"], r["partition"], r["offset"], r["end"], r["lag"]) for r in each] == [
        ("four", p, 3, 10, 7) for p in range(4)
    ]


def test_groups_watch_and_delete(command, filled, admin):
    looks = rows(command("groups", "watch", "g", "-n", "2", "-i", "10ms"))
    assert [(look["lag"], look["offsets_per_second"]) for look in looks] == [(10, None), (10, 0.0)]
    command("groups", "delete", "g", "--dry-run")
    assert "--yes" in command("groups", "delete", "g", code=2).err
    assert set(admin.list_groups()) == {"g"}
    command("groups", "delete", "*", "-y")
    command("groups", "delete", "g", "-y", code=1)
    assert command("groups", "delete", "g", "--if-exists", "-y").err == "nothing to delete\n"
    assert command("groups", "list").err == "no groups\n"
    assert admin.list_groups() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "list"], ["topics", "describe", "t"], ["topics", "offsets", "t"], ["topics", "create", "n"],
        ["groups", "list"], ["groups", "lag"], ["groups", "describe"], ["consume", "-h"], ["produce", "-h"], ["--help"],
        ["configs", "get", "topic:t"], ["quotas", "list"], ["cluster", "describe"], ["replicas", "log-dirs"],
        ["txns", "list"], ["offsets", "list"], ["offsets", "describe", "--all-groups"], ["offsets", "copy", "-h"],
        ["acls", "list", "-h"], ["users", "list", "-h"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_that_read_no_records_do_not_load_pyarrow(arguments, servers):
    # Exit handlers run in reverse order, so this one runs last and also detects pyarrow loaded by those of samsarrow.
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('pyarrow' in sys.modules, file=sys.stderr))\n"
        f"sys.argv = ['samsarrow', *{arguments!r}]\n"
        "from samsarrow.cli import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
    )
    environment = {"SAMSARROW_BOOTSTRAP_SERVERS": servers, "PATH": "", "HOME": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-1:]) == (0, ["False"]), done.stderr
