"""Commands that administer a cluster, on the embedded broker: output, changes, confirmations and rejections."""

import json

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.admin_types import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
    HangingTransaction,
)
from samsarrow.cluster_types import PartitionReassignment
from samsarrow.testing import Broker

FOUR = [TopicPartition("four", p) for p in range(4)]
START = 1_793_527_200_000


@pytest.fixture
def broker():
    with Broker(brokers=3, topics={"t": 1, "four": 4}, auto_create_topics=False) as broker:
        yield broker


@pytest.fixture
def admin(servers):
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


def fill(servers, partitions=range(4)):
    """Writes ten records with timestamps one second apart to each of the partitions of `four` with these numbers."""
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(10):
            for p in partitions:
                producer.send("four", b"x", partition=p, timestamp=START + i * 1000)


def rows(ended):
    return [json.loads(line) for line in ended.out.splitlines()]


def settings(admin, resource):
    found = admin.describe_configs([resource])[resource]
    return {name: entry.value for name, entry in found.items() if entry.source is not ConfigSource.DEFAULT}


def test_topics_create_with_assignment(command, admin):
    command("topics", "create", "placed", "--assignment", "2:0, 1:2", "--set", "retention.ms=5", "--dry-run")
    assert "placed" not in admin.list_topics()
    command("topics", "create", "placed", "--assignment", "2:0,1:2", "--set", "retention.ms=5")
    described = rows(command("topics", "describe", "placed"))
    assert [(r["leader"], r["replicas"], r["isr"]) for r in described] == [(2, [2, 0], [2, 0]), (1, [1, 2], [1, 2])]
    # A dry run rejects all arguments that the controller would reject.
    assert "must be a known broker" in command("topics", "create", "far", "--assignment", "9", "--dry-run", code=1).err
    assert "already exists" in command("topics", "create", "placed", "ok", "--dry-run", code=3).err
    created = command("topics", "create", "placed", "new", "--dry-run", "--if-not-exists").err
    assert created.splitlines() == ["placed: exists already, unchanged", "new: would be created"]
    for wrong, text in (("1:1", "twice"), ("1;2", "names no brokers"), ("", "names no brokers")):
        assert text in command("topics", "create", "x", "--assignment", wrong, code=2).err
    assert "omit --partitions and -r" in command("topics", "create", "x", "-p", "1", "--assignment", "1", code=2).err


def test_topics_describe_settings_and_under_replicated(command, admin, broker):
    admin.create_topics(["plain"])
    command("topics", "alter", "t", "--set", "retention.ms=7", "--set", "cleanup.policy=delete,compact")
    assert [(r["topic"], r["name"], r["value"], r["source"]) for r in rows(command("topics", "describe", "t", "plain",
                                                                                  "--settings"))] == [
        ("t", "cleanup.policy", "delete,compact", "TOPIC"), ("t", "retention.ms", "7", "TOPIC"),
    ]  # fmt: skip
    assert "contradict" in command("topics", "describe", "t", "--settings", "--under-replicated", code=2).err
    command("topics", "create", "pair", "--assignment", "0:2")
    assert rows(command("topics", "describe", "*", "--under-replicated")) == []
    broker.stop_broker(2)
    [lagging] = rows(command("topics", "describe", "pair", "--under-replicated"))
    assert (lagging["topic"], lagging["replicas"], lagging["isr"]) == ("pair", [0, 2], [0])


def test_topics_alter(command, admin):
    before = settings(admin, ConfigResource.topic("four"))
    command("topics", "alter", "four", "-p", "6", "--set", "retention.ms=7", "--dry-run")
    assert (admin.list_topics()["four"].partitions, settings(admin, ConfigResource.topic("four"))) == (4, before)
    changed = command(
        "topics", "alter", "four", "-p", "6", "--set", "retention.ms=7", "--set", "cleanup.policy+=compact"
    )
    assert changed.err.splitlines() == ["four, partitions: changed", "four, settings: changed"]
    assert admin.list_topics()["four"].partitions == 6
    command("topics", "alter", "four", "--unset", "retention.ms", "--set", "cleanup.policy-=delete")
    assert settings(admin, ConfigResource.topic("four")) == {"cleanup.policy": "compact"}
    command("topics", "alter", "t", "-p", "2", "--assignment", "1")
    assert admin.describe_topics(["t"])["t"].partitions[1].replicas == (1,)
    # The command changes the config although adding partitions fails.
    partly = command("topics", "alter", "four", "-p", "3", "--set", "retention.ms=9", code=3)
    assert "would not be an increase" in partly.err
    assert settings(admin, ConfigResource.topic("four"))["retention.ms"] == "9"
    assert "Unknown topic config name" in command("topics", "alter", "four", "--set", "no.such=1", code=1).err
    for wrong, text in (
        (["--set", "x"], "is not a change of a setting"), (["--set", "a=1", "--unset", "a"], "changed twice"),
        ([], "no change given"), (["--assignment", "1"], "with --partitions"), (["--unset", " "], "names no setting"),
    ):  # fmt: skip
        assert text in command("topics", "alter", "t", *wrong, code=2).err


def test_topics_trim(command, servers):
    def beginnings():
        return [row["beginning"] for row in rows(command("topics", "describe", "four"))]

    fill(servers)
    dry = rows(command("topics", "trim", "four", "--before", "3", "--dry-run"))
    assert dry == [
        {"topic": "four", "partition": p, "beginning": 0, "new_beginning": 3, "max_records": 3} for p in range(4)
    ]
    assert "--yes" in command("topics", "trim", "four", "--before", "3", code=2).err
    assert beginnings() == [0] * 4
    assert len(rows(command("topics", "trim", "four", "--before", "3", "--partition", "0,2", "-y"))) == 2
    assert beginnings() == [3, 0, 3, 0]
    command("topics", "trim", "four", "--before-time", "2026-11-01T10:00:04+00:00", "--partition", "2-3", "-y")
    assert beginnings() == [3, 0, 4, 4]
    command("topics", "trim", "four", "--before", "2", "-y")
    assert beginnings() == [3, 2, 4, 4]
    assert "nothing to delete" in command("topics", "trim", "four", "--before", "2", "-y").err
    # All records are older than this time, so all are deleted.
    command("topics", "trim", "four", "--before-time", "2027-01-01", "--partition", "1", "-y")
    assert beginnings() == [3, 10, 4, 4]
    assert "four-0 ends at 10" in command("topics", "trim", "four", "--before", "11", "-y", code=1).err
    command("topics", "trim", "fo*", "--all", "--yes")
    assert beginnings() == [10] * 4
    assert "pass one of --before" in command("topics", "trim", "four", code=2).err
    assert "pass one of --before" in command("topics", "trim", "four", "--all", "--before", "1", code=2).err


def test_topics_trim_deletes_nothing_after_a_wrong_lookup(command, servers, monkeypatch):
    fill(servers)
    look_up = Admin.list_offsets

    def forgetful(self, partitions):
        found = look_up(self, partitions)
        return dict.fromkeys(found) if START in partitions.values() else found

    trim = ["topics", "trim", "four", "--before-time", START, "-y"]
    with monkeypatch.context() as patched:
        patched.setattr(Admin, "list_offsets", forgetful)
        assert "four-0: its leader returns no record" in command(*trim, code=1).err
    assert "nothing to delete" in command(*trim).err
    assert [row["beginning"] for row in rows(command("topics", "describe", "four"))] == [0] * 4
    with Broker(kafka_version="2.8", topics={"four": 4}) as old:
        fill(old.bootstrap_servers)
        command("topics", "trim", "four", "--before-time", "2027-01-01", "-y", "-b", old.bootstrap_servers)
        described = rows(command("topics", "describe", "four", "-b", old.bootstrap_servers))
        assert [row["beginning"] for row in described] == [10] * 4


def test_topics_trim_partial_failure(command, servers, broker):
    fill(servers)
    led = [row["partition"] for row in rows(command("topics", "describe", "four")) if row["leader"] == 1]
    broker.fail("DeleteRecords", error="POLICY_VIOLATION", node=1)
    partly = command("topics", "trim", "four", "--all", "-y", code=3)
    assert [row["partition"] for row in rows(partly)] == [p for p in range(4) if p not in led]
    assert [line.partition(":")[0] for line in partly.err.splitlines()][:-1] == [f"four-{p}" for p in led]
    assert f"{len(led)} of 4 partitions failed" in partly.err


def test_groups_kick(command, servers, admin):
    with Consumer(bootstrap_servers=servers, group_id="g", client_id="me", group_instance_id="static") as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        [member] = rows(command("groups", "kick", "g", "--all", "--dry-run"))
        assert (member["client_id"], member["instance_id"], member["partitions"]) == ("me", "static", 1)
        assert "--yes" in command("groups", "kick", "g", "--all", code=2).err
        assert "no member nobody" in command("groups", "kick", "g", "--member", "nobody", "-y", code=1).err
        assert "no member other" in command("groups", "kick", "g", "--instance", "other", "-y", code=1).err
        assert "removed" in command("groups", "kick", "g", "--instance", "static", "--reason", "test", "-y").err
        assert admin.describe_groups(["g"])["g"].members == ()
        assert "has no members" in command("groups", "kick", "g", "--all", "-y").err
    for wrong in ([], ["--all", "--member", "m"]):
        assert "select members" in command("groups", "kick", "g", *wrong, code=2).err
    assert "nowhere" in command("groups", "kick", "nowhere", "--all", "-y", code=1).err


def test_configs_set_and_get(command, admin):
    topic = ConfigResource.topic("four")
    command("configs", "set", "topic:four", "retention.ms=7", "cleanup.policy=delete,compact", "--dry-run")
    assert settings(admin, topic) == {}
    command("configs", "set", "topic:four", "retention.ms=7", "cleanup.policy=delete,compact")
    assert rows(command("configs", "get", "topic:*")) == [
        {"resource": "topic:four", "name": name, "value": value, "source": "TOPIC", "read_only": False,
         "sensitive": False}
        for name, value in (("cleanup.policy", "delete,compact"), ("retention.ms", "7"))
    ]  # fmt: skip
    command("configs", "set", "topic:four", "cleanup.policy-=delete", "--unset", "retention.ms")
    assert settings(admin, topic) == {"cleanup.policy": "compact"}
    command("configs", "set", "topic:four", "cleanup.policy+=delete")
    assert settings(admin, topic) == {"cleanup.policy": "compact,delete"}
    [one] = rows(command("configs", "get", "topic:t", "-s", "retention*ms", "--docs"))
    assert (one["name"], one["source"], one["documentation"]) == ("retention.ms", "DEFAULT", None)
    everything = rows(command("configs", "get", "topic:t", "--all"))
    assert len(everything) == len(admin.describe_configs([ConfigResource.topic("t")])[ConfigResource.topic("t")])
    partly = command("configs", "get", "topic:four", "topic:nope", code=3)
    assert rows(partly)[0]["resource"] == "topic:four"
    assert "topic:nope: " in partly.err
    assert "Unknown topic config name" in command("configs", "set", "topic:four", "no.such=1", code=1).err


def test_configs_of_every_resource_type(command, admin):
    command("configs", "set", "broker:*", "log.retention.ms=5")
    assert [r["resource"] for r in rows(command("configs", "get", "broker:*"))] == ["broker:0", "broker:1", "broker:2"]
    for name in ("broker", "group:g", "client-metrics:m", "logger:1"):
        assert f"{name}: changed" in command("configs", "set", name, "a=1").err
        [one] = rows(command("configs", "get", name))
        assert (one["resource"], one["name"], one["value"]) == (name, "a", "1")
    assert {r["resource"] for r in rows(command("configs", "list", "client-metrics", "group"))} == {
        "client-metrics:m", "group:g"
    }  # fmt: skip
    assert [r["resource"] for r in rows(command("configs", "get", "client-metrics:*"))] == ["client-metrics:m"]
    for wrong, text in (
        ("four", "is not a resource"),
        ("topic:", "is not a resource"),
        ("broker:x", "names no broker"),
    ):
        assert text in command("configs", "get", wrong, code=2).err
    assert "name the type of the resource, for example topic:four" in command("configs", "get", "four", code=2).err
    for pattern in ("topic:no*", "group:no*"):
        assert f"there is no {pattern}" in command("configs", "get", pattern, code=1).err
    assert "no change given" in command("configs", "set", "topic:t", code=2).err
    assert "is not a change" in command("configs", "set", "topic:t", "retention.ms", code=2).err


def test_configs_diff(command):
    command("configs", "set", "topic:four", "retention.ms=7", "cleanup.policy=compact")
    command("configs", "set", "topic:t", "retention.ms=7")
    assert rows(command("configs", "diff", "topic:four", "topic:t")) == [
        {"name": "cleanup.policy", "left": "compact", "right": "delete"}
    ]
    assert [(r["name"], r["value"], r["source"]) for r in rows(command("configs", "diff", "topic:t"))] == [
        ("retention.ms", "7", "TOPIC")
    ]
    assert "pass two resources of one type" in command("configs", "diff", "topic:t", "group:g", code=2).err
    assert "is a pattern" in command("configs", "diff", "topic:*", code=2).err
    assert "topic:nope" in command("configs", "diff", "topic:t", "topic:nope", code=1).err


@pytest.mark.parametrize(
    ("name", "theirs", "value", "shown"),
    [
        ("cleanup.policy", "log.cleanup.policy", "delete", "delete"),
        ("retention.ms", "log.retention.hours", "168", "log.retention.hours=168"),
        ("preallocate", "log.preallocate", "false", "false"), ("follower.replicas", "x", None, None),
    ],
)  # fmt: skip
def test_configs_diff_names_a_default_in_another_unit(command, monkeypatch, name, theirs, value, shown):
    """Kafka reports the default of a topic config under the name of the corresponding broker config."""
    synonyms = (ConfigSynonym(name, "x", ConfigSource.TOPIC), ConfigSynonym(theirs, value, ConfigSource.DEFAULT))
    entry = ConfigEntry(name, "x", ConfigSource.TOPIC, False, False, ConfigType.STRING, None, synonyms)
    found = {ConfigResource.topic("t"): {name: entry}}
    monkeypatch.setattr(Admin, "describe_configs", lambda self, resources, **options: found)
    assert rows(command("configs", "diff", "topic:t")) == [
        {"name": name, "value": "x", "default": shown, "source": "TOPIC"}
    ]


def test_quotas_set_list_and_delete(command, broker):
    pair = ["--user", "alice", "--client-id", "app"]
    command("quotas", "set", *pair, "producer_byte_rate=1MB", "--dry-run")
    assert rows(command("quotas", "list")) == []
    command("quotas", "set", *pair, "producer_byte_rate=1MB", "request_percentage=12.5")
    before = broker.requests("AlterClientQuotas")
    command("quotas", "set", "--default-user", "--user", "bob", "consumer_byte_rate=64KiB")
    assert broker.requests("AlterClientQuotas") - before == 1
    command("quotas", "set", "--ip", "10.0.0.1", "connection_creation_rate=5")
    listed = [(r["user"], r["client_id"], r["ip"], r["quota"], r["value"]) for r in rows(command("quotas", "list"))]
    assert listed == [
        ("(default)", None, None, "consumer_byte_rate", 65536),
        (None, None, "10.0.0.1", "connection_creation_rate", 5),
        ("alice", "app", None, "producer_byte_rate", 1_000_000), ("alice", "app", None, "request_percentage", 12.5),
        ("bob", None, None, "consumer_byte_rate", 65536),
    ]  # fmt: skip
    assert len(rows(command("quotas", "list", "--user", "alice"))) == 2
    assert rows(command("quotas", "list", "--user", "alice", "--strict")) == []
    assert "--yes" in command("quotas", "delete", *pair, code=2).err
    assert "would be deleted" in command("quotas", "delete", *pair, "--dry-run").err
    command("quotas", "delete", *pair, "request_percentage", "-y")
    assert [r["quota"] for r in rows(command("quotas", "list", "--user", "alice"))] == ["producer_byte_rate"]
    command("quotas", "delete", "--default-user", "--user", "bob", "-y")
    assert "nothing to delete" in command("quotas", "delete", "--user", "bob", "-y").err
    assert {r["user"] for r in rows(command("quotas", "list"))} == {"alice", None}
    partly = command("quotas", "set", "--user", "a", "no_such=1", code=1)
    assert "user a, no_such: " in partly.err
    for wrong, text in (
        (["producer_byte_rate=1"], "select quotas"), (["--user", "a"], "Missing argument"),
        (["--user", "", "x=1"], "is empty"),
        (["--user", "a", "x=many"], "is not a number"), (["--user", "a", "x=-1"], "0 or more"),
        (["--user", "a", "x"], "is not QUOTA=VALUE"), (["--ip", "1.1.1.1", "--user", "a", "x=1"], "cannot be combined"),
        (["--user", "a", "x=1", "x=2"], "given twice"),
    ):  # fmt: skip
        assert text in command("quotas", "set", *wrong, code=2).err
    assert "--strict" in command("quotas", "list", "--strict", code=2).err


def test_cluster_commands(command, admin):
    [found] = rows(command("cluster", "describe"))
    assert (found["cluster_id"], found["controller"], found["brokers"]) == (admin.describe_cluster().cluster_id, 0, 3)
    assert (found["quorum_leader"], found["voters"], found["metadata_version"]) == (0, [0], None)
    listed = rows(command("cluster", "brokers", "--fenced"))
    assert [(b["broker"], b["controller"], b["fenced"]) for b in listed] == [
        (0, True, False), (1, False, False), (2, False, False)
    ]  # fmt: skip
    assert rows(command("cluster", "features")) == [
        {"feature": "share.version", "level": 1, "lowest": 0, "highest": 1},
        {"feature": "transaction.version", "level": 2, "lowest": 0, "highest": 2},
    ]
    [voter] = rows(command("cluster", "quorum"))
    assert (voter["node"], voter["state"], voter["lag"], voter["endpoints"]) == (0, "leader", 0, [])
    with Broker(kafka_version="2.6") as old:
        [found] = rows(command("cluster", "describe", "-b", old.bootstrap_servers))
        assert (found["brokers"], found["quorum_leader"], found["voters"]) == (1, None, None)
        for arguments, needed in (
            (["cluster", "quorum"], "3.3"), (["cluster", "brokers", "--fenced"], "2.8"), (["txns", "list"], "3.0"),
            (["configs", "list"], "3.7"),
        ):  # fmt: skip
            assert f"needs Kafka {needed}" in command(*arguments, "-b", old.bootstrap_servers, code=1).err


def test_replicas_elect(command, admin, broker):
    four = admin.describe_topics(["four"])["four"].partitions
    target = (four[0].replicas[0] + 1) % 3
    broker.move_leader("four", 0, target)
    assert "no election is needed" in command("replicas", "elect", "t").err
    dry = rows(command("replicas", "elect", "--dry-run"))
    assert [(r["topic"], r["partition"], r["leader"]) for r in dry] == [("four", 0, target)]
    assert "four-0: elected" in command("replicas", "elect", "f*", "-p", "0-1").err
    assert admin.describe_topics(["four"])["four"].partitions[0].leader == four[0].replicas[0]
    assert "no election is needed" in command("replicas", "elect").err
    assert "no election is needed" in command("replicas", "elect", "four", "--unclean").err
    assert "--unclean needs topics" in command("replicas", "elect", "--unclean", code=2).err
    assert "--partition needs a topic" in command("replicas", "elect", "-p", "1", code=2).err


def test_replicas_elect_unclean_needs_confirmation(command, broker):
    command("topics", "create", "lone", "--assignment", "2")
    broker.stop_broker(2)
    dry = rows(command("replicas", "elect", "lone", "--unclean", "--dry-run"))
    assert [(r["topic"], r["leader"]) for r in dry] == [("lone", None)]
    assert "--yes" in command("replicas", "elect", "lone", "--unclean", code=2).err
    assert "lone-0: " in command("replicas", "elect", "lone", "--unclean", "-y", "--timeout", "5s", code=1).err
    # `topics describe` does not wait for the end offset of a partition without a leader.
    [found] = rows(command("topics", "describe", "lone"))
    assert (found["leader"], found["replicas"], found["isr"], found["end"]) == (None, [2], [], None)


def test_replicas_reassign(command, admin, tmp_path):
    dry = rows(command("replicas", "reassign", "four", "--to", "0=1:2", "--dry-run"))
    was = admin.describe_topics(["four"])["four"].partitions[0].replicas
    assert dry == [{"topic": "four", "partition": 0, "replicas": list(was), "target": [1, 2]}]
    assert "four-0: moved" in command("replicas", "reassign", "four", "--to", "0=1:2", "--wait").err
    assert admin.describe_topics(["four"])["four"].partitions[0].replicas == (1, 2)
    plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2]},
                                         {"topic": "nope", "partition": 0, "replicas": [0]}]}  # fmt: skip
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    assert "topic nope: " in command("replicas", "reassign", "--file", file, "--dry-run", code=3).err
    partly = command("replicas", "reassign", "--file", "-", stdin=json.dumps(plan).encode(), code=3)
    assert "t-0: moving" in partly.err
    assert "nope-0: " in partly.err
    assert admin.describe_topics(["t"])["t"].partitions[0].leader == 2
    assert rows(command("replicas", "list")) == rows(command("replicas", "list", "four")) == []
    assert "no replicas are being moved" in command("replicas", "reassign", "*", "--cancel").err
    assert "nothing is cancelled" in command("replicas", "reassign", "--file", file, "--cancel", "--dry-run").err
    for wrong, text in (
        (["four"], "pass TOPIC and --to"), (["four", "--to", "0"], "is not PARTITION"), (["--cancel"], "needs TOPIC"),
        (["four", "--to", "0=1", "--to", "0=2"], "given twice"),
        (["four", "--file", file], "not both"),
        (["four", "--to", "0=1", "--cancel"], "omit --to"), (["--file", file, "--to", "0=1"], "omit --to"),
    ):  # fmt: skip
        assert text in command("replicas", "reassign", *wrong, code=2).err
    assert "there is no partition 9" in command("replicas", "reassign", "four", "--to", "9=1", code=1).err
    assert "there is no broker 9" in command("replicas", "reassign", "four", "--to", "0=9", "--dry-run", code=1).err


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"\xff", b"{}", b'{"partitions": []}', b'{"partitions": [{"topic": "t", "partition": 0}]}',
        b'{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}',
        b'{"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}',
        b'{"partitions": [{"topic": 1, "partition": 0, "replicas": [1]}]}',
        b'{"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}',
        b'{"partitions": [' + b", ".join([b'{"topic": "t", "partition": 0, "replicas": [1]}'] * 2) + b"]}",
    ],
)  # fmt: skip
def test_replicas_reassign_rejects_invalid_plans(command, tmp_path, text):
    file = tmp_path / "plan.json"
    file.write_bytes(text)
    assert "the file " in command("replicas", "reassign", "--file", file, code=2).err


def test_replicas_list_wait_and_cancel(command, monkeypatch):
    """Replaces `list_reassignments`, since the embedded broker completes reassignments immediately."""
    moving = {FOUR[1]: PartitionReassignment((0, 1), (1,), (0,))}
    queries, cancelled = [], []

    def list_reassignments(self, partitions=None):
        queries.append(partitions)
        return moving if len(queries) < 3 else {}

    monkeypatch.setattr(Admin, "list_reassignments", list_reassignments)
    listed = {"topic": "four", "partition": 1, "replicas": [0, 1], "adding": [1], "removing": [0]}
    assert rows(command("replicas", "list", "four", "-p", "1")) == [listed]
    assert queries == [[FOUR[1]]]
    done = command("replicas", "reassign", "four", "--to", "1=1", "--wait", "--interval", "1ms")
    assert done.err.splitlines() == ["1 of 1 partitions are still moving", "four-1: moved"]
    monkeypatch.setattr(Admin, "list_reassignments", lambda self, partitions=None: moving)
    monkeypatch.setattr(Admin, "alter_reassignments", lambda self, changes: cancelled.append(changes))
    assert rows(command("replicas", "reassign", "four", "--cancel", "--dry-run")) == [listed]
    assert cancelled == []
    assert "four-1: cancelled" in command("replicas", "reassign", "four", "--cancel").err
    assert cancelled == [{FOUR[1]: None}]


def test_replicas_log_dirs(command, servers):
    fill(servers)
    disks = rows(command("replicas", "log-dirs"))
    assert [(d["broker"], d["path"]) for d in disks] == [(n, "/memory") for n in range(3)]
    each = rows(command("replicas", "log-dirs", "four", "--broker", "1"))
    assert {(r["broker"], r["topic"]) for r in each} == {(1, "four")}
    assert each[0]["size"] > 0
    assert {r["topic"] for r in rows(command("replicas", "log-dirs", "--replicas"))} == {"four", "t"}
    partly = command("replicas", "log-dirs", "--broker", "1", "--broker", "7", code=3)
    assert "broker 7: " in partly.err


def test_txns_commands(command, servers, admin, monkeypatch):
    producer = Producer(bootstrap_servers=servers, transactional_id="tx", transaction_timeout_ms=60_000)
    producer.begin_transaction()
    producer.send("t", b"x").result(10)
    [listed] = rows(command("txns", "list", "--state", "Ongoing", "--pattern", "t."))
    assert (listed["transactional_id"], listed["state"]) == ("tx", "Ongoing")
    assert rows(command("txns", "list", "--longer-than", "1h")) == []
    partly = command("txns", "describe", "tx", "nobody", code=3)
    [found] = rows(partly)
    assert (found["state"], found["partitions"], found["timeout_ms"]) == ("Ongoing", ["t-0"], 60_000)
    assert "transactional id nobody: " in partly.err
    # A transaction is not listed as hanging while the coordinator still knows it.
    assert rows(command("txns", "hanging", "t", "--longer-than", "1ms")) == []
    assert "no open transaction" in command("txns", "abort", "t", "0", "--producer-id", "7", "-y", code=1).err
    who = ["t", "0", "--producer-id", listed["producer_id"]]
    for flag in ("--dry-run", "-y"):
        assert "`samsarrow txns fence tx`" in command("txns", "abort", *who, flag, code=1).err
    [state] = admin.describe_producers([TopicPartition("t", 0)])[TopicPartition("t", 0)]
    hanging = HangingTransaction(TopicPartition("t", 0), state, None)
    with monkeypatch.context() as patched:
        # Simulates a coordinator that no longer knows the transaction.
        patched.setattr(Admin, "find_hanging", lambda self, partitions, longer_than: (hanging,))
        patched.setattr(Admin, "list_transactions", lambda self, producer_ids: {})
        [row] = rows(command("txns", "hanging"))
        assert "would be aborted from offset 0 on" in command("txns", "abort", *who, "--dry-run").out
        assert "--yes" in command("txns", "abort", *who, code=2).err
        command("txns", "abort", *who, "-y")
    assert (row["topic"], row["partition"], row["producer_id"], row["start_offset"]) == ("t", 0, who[-1], 0)
    [state] = admin.describe_producers([TopicPartition("t", 0)])[TopicPartition("t", 0)]
    assert state.transaction_start is None
    assert "--yes" in command("txns", "fence", "tx", code=2).err
    assert "tx: would be fenced" in command("txns", "fence", "tx", "nobody", "--dry-run", code=3).err
    command("txns", "fence", "tx", "-y")
    assert "Ongoing" not in [r["state"] for r in rows(command("txns", "list"))]
    assert "nobody: " in command("txns", "fence", "nobody", "-y", code=1).err
    producer.close(timeout=0.1)
