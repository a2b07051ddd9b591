"""Every command that uses a cluster, on Kafka 4.3.1: the output equals the results of Java's client or of Admin."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest

from samsarrow import AclFilter, Admin, Consumer, Producer, TopicPartition, metrics
from samsarrow.cli import cli
from samsarrow.cluster_types import QuotaEntity
from samsarrow.exceptions import UnknownTopicOrPartitionError
from support.commands import Ended, runner
from support.kafka import QUICK_COMPILER, SUPPORT, KafkaServer, KafkaUnavailableError, classpath
from support.waiting import until

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
Command = Callable[..., Ended]
# Commands that ran, by path: `("topics", "list")`.
RUN: set[tuple[str, ...]] = set()


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaServer]:
    """A single node with an ACL authorizer."""
    try:
        classpath()
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    with KafkaServer(properties=AUTHORIZER, jvm=QUICK_COMPILER) as server:
        yield server


@pytest.fixture(scope="module")
def admin(kafka: KafkaServer) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def command(
    kafka: KafkaServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    run = runner(kafka.bootstrap_servers, monkeypatch, capsys, tmp_path)

    def noted(*arguments: object, **more: Any) -> Ended:
        RUN.update({tuple(map(str, arguments[:count])) for count in (1, 2)})
        return run(*arguments, **more)

    return noted


def create(admin: Admin, *names: str, partitions: int = 1) -> None:
    """Creates topics and waits until commands find them, because brokers apply new topics later than the
    controller.
    """
    admin.create_topics(names, num_partitions=partitions)
    until(lambda: set(names) <= admin.list_topics().keys())


def rows(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ended.out.splitlines()]


def test_missing_names_are_errors(command: Command, admin: Admin) -> None:
    """Exit code 1, one line on standard error, and nothing on standard output."""
    for arguments in (
        ("offsets", "describe", "NOSUCH"), ("groups", "describe", "NOSUCH"), ("groups", "lag", "NOSUCH"),
        ("groups", "list", "NOSUCH"), ("topics", "list", "NOSUCH"), ("topics", "describe", "NOSUCH"),
        ("topics", "delete", "NOSUCH", "--yes"), ("topics", "offsets", "NOSUCH"), ("consume", "NOSUCH"),
        ("produce", "NOSUCH"), ("offsets", "reset", "g", "--topic", "NOSUCH", "--to", "latest"),
        ("replicas", "reassign", "NOSUCH", "--to", "0=1"), ("bench", "consume", "NOSUCH"),
    ):  # fmt: skip
        done = command(*arguments, code=1)
        assert done.out == "", arguments
        assert "NOSUCH" in done.err, arguments
        assert "Usage" not in done.err, arguments
    assert command("groups", "delete", "NOSUCH", "--if-exists", "--yes").err == "nothing to delete\n"
    assert command("topics", "delete", "NOSUCH", "--if-exists", "--yes").err == "nothing to delete\n"


def test_topics(command: Command, admin: Admin) -> None:
    command("topics", "create", "a-1", "a-2", "-p", 2, "--set", "retention.ms=3600000", "--dry-run")
    assert "a-1" not in admin.list_topics()
    assert "a-1: created" in command("topics", "create", "a-1", "a-2", "-p", 2, "--set", "retention.ms=3600000").err
    until(lambda: len(rows(command("topics", "list", "a-*"))) == 2)
    assert "a-1: " in command("topics", "create", "a-1", "a-3", code=3).err
    command("topics", "create", "a-1", "--if-not-exists")
    [listed] = rows(command("topics", "list", "a-1"))
    assert listed == {
        "topic": "a-1",
        "partitions": 2,
        "internal": False,
        "id": str(admin.list_topics()["a-1"].topic_id),
    }
    command("topics", "alter", "a-1", "-p", 3, "--set", "max.message.bytes=5000", "--unset", "retention.ms")
    until(lambda: admin.list_topics(["a-1"])["a-1"].partitions == 3)
    assert "2 would not be an increase" in command("topics", "alter", "a-1", "-p", 2, code=1).err

    def own() -> dict[str, str]:
        settings = rows(command("topics", "describe", "a-1", "--settings"))
        return {row["name"]: row["value"] for row in settings if row["source"] == "TOPIC"}

    until(lambda: own() == {"max.message.bytes": "5000"})
    command("produce", "a-1", "-p", 0, stdin=b"1\n2\n3\n")
    described = rows(command("topics", "describe", "a-1"))
    assert [(r["partition"], r["leader"], r["isr"], r["beginning"], r["end"]) for r in described] == [
        (0, 1, [1], 0, 3), (1, 1, [1], 0, 0), (2, 1, [1], 0, 0)
    ]  # fmt: skip
    assert rows(command("topics", "describe", "a-1", "--under-replicated")) == []
    assert [r["offset"] for r in rows(command("topics", "offsets", "a-1"))] == [3, 0, 0]
    assert [r["offset"] for r in rows(command("topics", "offsets", "a-1", "--at", "-1h"))] == [0, 0, 0]
    assert rows(command("topics", "trim", "a-1", "--before", 2, "--partition", 0, "--dry-run"))[0]["max_records"] == 2
    assert "pass --yes" in command("topics", "trim", "a-1", "--before", 2, "--partition", 0, code=2).err
    [trimmed] = rows(command("topics", "trim", "a-1", "--before", 2, "--partition", 0, "--yes"))
    assert trimmed["new_beginning"] == 2
    assert command("consume", "a-1").out == "3\n"
    assert rows(command("topics", "describe", "a-1"))[0]["beginning"] == 2
    command("topics", "delete", "a-*", "--dry-run")
    assert "a-2: deleted" in command("topics", "delete", "a-*", "--yes").err
    until(lambda: not [name for name in admin.list_topics() if name.startswith("a-")])
    assert "there is no topic a-1" in command("topics", "describe", "a-1", code=1).err


def test_produce_and_consume_through_a_pipe(command: Command, admin: Admin, tmp_path: Path) -> None:
    create(admin, "b-1", "b-2", partitions=2)
    command("produce", "b-1", "-K", ":", "-H", "source=shell", "-z", "lz4", "--tombstone", stdin=b"k:v\nk2:\n")
    envelope = command("consume", "b-1", "--format", "envelope").out
    command("produce", "b-2", "--format", "envelope", stdin=envelope.encode())
    shape = "{partition} {key} {value:json} {header.source} {timestamp}"
    lines = command("consume", "b-1", "--template", shape).out
    assert command("consume", "b-2", "--template", shape).out == lines
    assert sorted(line.split()[1:4] for line in lines.splitlines()) == [["k", '"v"', "shell"], ["k2", "null", "shell"]]
    assert command("consume", "b-2", "--where", "key == 'k2'", "--template", "{key}").out == "k2\n"
    assert command("consume", "b-1", "-g", "b", "-O", tmp_path / "b.parquet").code == 0
    [lag] = rows(command("groups", "lag", "b"))
    assert (lag["partitions"], lag["lag"]) == (2, 0)
    result = rows(command("bench", "produce", "b-2", "-n", 1000, "-o", "ndjson"))[0]
    assert (result["records"], rows(command("bench", "consume", "b-2", "-o", "ndjson"))[0]["records"]) == (1000, 1002)
    assert rows(command("bench", "latency", "b-1", "-n", 3, "--interval", "1ms", "-o", "ndjson"))[0]["records"] == 3
    # An unknown topic is a usage error.
    assert "there is no topic b-9" in command("consume", "b-9", code=1).err


def test_share_groups_have_start_offsets(command: Command, admin: Admin) -> None:
    create(admin, "i")
    [tp] = [TopicPartition("i", 0)]

    def alter() -> bool:
        # The coordinator may apply a new topic later than the controller.
        with suppress(UnknownTopicOrPartitionError):
            admin.alter_share_offsets("i-share", {tp: 0})
            return True
        return False

    until(alter)
    admin.commit_offsets("i-rest", {tp: 0})
    until(lambda: {"i-share", "i-rest"} <= admin.list_groups().keys())
    for listing in (("groups", "list"), ("offsets", "list")):
        types = {row["group"]: row["type"] for row in rows(command(*listing))}
        assert (types["i-share"], types["i-rest"]) == ("share", "classic")
    for arguments in (("groups", "lag"), ("groups", "describe"), ("groups", "lag", "i-*"),
                      ("offsets", "describe", "--all-groups"), ("groups", "watch", "--count", 1)):  # fmt: skip
        lags = {row["group"]: row["lag"] for row in rows(command(*arguments, "-o", "ndjson"))}
        assert (lags["i-rest"], lags["i-share"]) == (0, 0)
    shown = {row["group"]: row for row in rows(command("top", "i-*", "--once", "--json", "-i", "200ms"))}
    assert {name: (row["type"], row["state"]) for name, row in shown.items()} == {
        "i-share": ("share", "Empty"), "i-rest": ("classic", "Empty"),
    }  # fmt: skip
    assert all((row["partitions"], row["lag"], row["consumed_per_second"]) == (1, 0, 0.0) for row in shown.values())
    command("produce", "i", stdin=b"a\nb\n")
    until(lambda: rows(command("groups", "lag", "i-share", "-o", "ndjson"))[0]["lag"] == 2)
    command("offsets", "reset", "i-share", "--all-topics", "--to", "1")
    [described] = rows(command("offsets", "describe", "i-share", "-o", "ndjson"))
    assert (described["state"], described["offset"], described["end"], described["lag"]) == ("Empty", 1, 2, 1)
    command("offsets", "export", "--all-groups")
    reason = "i-share is a share group, which has no committed offsets"
    for arguments in (("groups", "kick", "--all"), ("offsets", "export"), ("offsets", "delete")):
        assert reason in command(*arguments[:2], "i-share", *arguments[2:], code=1).err
    assert "i-share" in command("groups", "delete", "i-*", "--dry-run").out
    assert "i-share: deleted" in command("groups", "delete", "i-*", "--yes").err


def test_configs(command: Command, admin: Admin) -> None:
    create(admin, "c-1", "c-2")
    command("configs", "set", "topic:c-*", "cleanup.policy+=compact", "retention.ms=5000")
    command("configs", "set", "topic:c-2", "--unset", "retention.ms")
    command("configs", "set", "broker", "message.max.bytes=2000000")
    command("configs", "set", "broker:1", "message.max.bytes=3000000")
    command("configs", "set", "group:c", "consumer.session.timeout.ms=5000")
    command("configs", "set", "client-metrics:c", "interval.ms=30000")
    command("configs", "set", "logger:1", "kafka.server.KafkaApis=DEBUG")
    assert (
        "Unknown topic config name: retention.mx"
        in command("configs", "set", "topic:c-1", "retention.mx=1", code=1).err
    )

    def value(resource: str, name: str) -> Any:
        return [row["value"] for row in rows(command("configs", "get", resource, "-s", name))]

    # The queried broker applies the change later than the controller.
    until(lambda: value("logger:1", "kafka.server.KafkaApis") == ["DEBUG"])
    until(lambda: value("client-metrics:c", "interval.ms") == ["30000"])
    until(lambda: value("broker:1", "message.max.bytes") == ["3000000"])
    assert value("broker", "message.max.bytes") == ["2000000"]
    assert value("group:c", "consumer.session.timeout.ms") == ["5000"]
    both = rows(command("configs", "get", "topic:c-1", "topic:c-2"))
    values = {(r["resource"], r["name"]): r["value"] for r in both if r["source"] == "TOPIC"}
    assert values == {
        ("topic:c-1", "cleanup.policy"): "delete,compact", ("topic:c-1", "retention.ms"): "5000",
        ("topic:c-2", "cleanup.policy"): "delete,compact",
    }  # fmt: skip
    command("configs", "set", "broker:1", "--unset", "message.max.bytes")
    until(lambda: value("broker:1", "message.max.bytes") == ["2000000"])
    command("configs", "set", "broker", "--unset", "message.max.bytes")
    # Topics inherit the broker's limit, which may change between the two responses.
    only = [{"name": "retention.ms", "left": "5000", "right": "-1"}]
    until(lambda: rows(command("configs", "diff", "topic:c-1", "topic:c-2")) == only)
    defaults = {row["name"]: row["default"] for row in rows(command("configs", "diff", "topic:c-1"))}
    assert (defaults["cleanup.policy"], defaults["retention.ms"]) == ("delete", "log.retention.hours=168")
    listed = {row["resource"] for row in rows(command("configs", "list"))}
    assert {"topic:c-1", "broker:1", "logger:1", "group:c", "client-metrics:c"} <= listed
    output = command("configs", "get", "topic:c-1", "topic:nowhere", code=3)
    assert "topic:nowhere: " in output.err


def test_quotas(command: Command, admin: Admin, kafka: KafkaServer) -> None:
    command("quotas", "set", "--client-id", "slow", "producer_byte_rate=20KiB")
    command("quotas", "set", "--user", "ann", "--default-client-id", "request_percentage=50")
    command("quotas", "set", "--ip", "10.0.0.1", "connection_creation_rate=5")
    assert (
        "Invalid configuration key producer_byte_rat"
        in command("quotas", "set", "--user", "ann", "producer_byte_rat=1", code=1).err
    )
    until(lambda: len(admin.describe_quotas()) == 3)
    assert admin.describe_quotas()[QuotaEntity({"client-id": "slow"})] == {"producer_byte_rate": 20480.0}
    assert rows(command("quotas", "list")) == [
        {"user": None, "client_id": "slow", "ip": None, "quota": "producer_byte_rate", "value": 20480},
        {"user": None, "client_id": None, "ip": "10.0.0.1", "quota": "connection_creation_rate", "value": 5},
        {"user": "ann", "client_id": "(default)", "ip": None, "quota": "request_percentage", "value": 50},
    ]
    # The broker throttles a producer with this client id. The producer reports this in metrics and events.
    create(admin, "d")
    events: list[metrics.Event] = []
    options = {"bootstrap.servers": kafka.bootstrap_servers, "client.id": "slow", "linger.ms": 0}
    with Producer(options, on_event=events.append) as producer:
        started = time.monotonic()
        while not (pauses := [event for event in events if isinstance(event, metrics.Throttled)]):
            producer.send("d", b"x" * 10_000).result(30)
            assert time.monotonic() - started < 60
        assert producer.metrics().throttled >= pauses[0].seconds > 0
        assert pauses[0].address == kafka.bootstrap_servers
        assert pauses[0].node == 1
        bean = producer.metrics().java()["kafka.producer:type=producer-metrics,client-id=slow"]
        assert bean["produce-throttle-time-max"] > 0
    command("quotas", "delete", "--client-id", "slow", "--dry-run")
    command("quotas", "delete", "--client-id", "slow", "--yes")
    command("quotas", "delete", "--ip", "10.0.0.1", "--yes")
    command("quotas", "delete", "--user", "ann", "--default-client-id", "--yes")
    until(lambda: not admin.describe_quotas())


def test_groups_and_offsets(command: Command, admin: Admin, kafka: KafkaServer, tmp_path: Path) -> None:
    create(admin, "e", partitions=2)
    command("produce", "e", "-p", 0, stdin=b"1\n2\n3\n")
    command("consume", "e", "-g", "e")
    until(lambda: rows(command("groups", "list", "e"))[0]["state"] == "Empty")
    assert rows(command("groups", "lag", "e")) == [{"group": "e", "topics": 1, "partitions": 2, "lag": 0}]
    [look] = rows(command("groups", "watch", "e", "--count", 1))
    assert (look["group"], look["lag"]) == ("e", 0)
    assert "LAG" in command("groups", "watch", "e", "--count", 1, "-o", "table").out
    assert "nothing is written" in command("offsets", "reset", "e", "--to-earliest", "--all-topics", "--dry-run").out
    command("offsets", "reset", "e", "--to-earliest", "--all-topics")
    zero, one = TopicPartition("e", 0), TopicPartition("e", 1)
    assert {tp: at.offset for tp, at in admin.fetch_offsets("e").items() if at} == {zero: 0, one: 0}
    assert rows(command("groups", "lag", "e"))[0]["lag"] == 3
    command("offsets", "export", "e", "-O", tmp_path / "e.json")
    command("offsets", "copy", "e", "e-copy")
    command("offsets", "reset", "e", "--to-offset", 2, "--topic", "e:0")
    [first, _] = rows(command("offsets", "describe", "e"))
    assert (first["offset"], first["end"], first["lag"], first["state"]) == (2, 3, 1, "Empty")
    command("offsets", "import", tmp_path / "e.json")
    assert rows(command("groups", "lag", "--partitions", "e"))[0]["offset"] == 0
    assert {"e", "e-copy"} <= {row["group"] for row in rows(command("offsets", "list", "--state", "empty"))}
    command("offsets", "delete", "e-copy", "--topic", "e:1", "--yes")
    assert list(admin.fetch_offsets("e-copy")) == [zero]
    command("offsets", "delete", "e-copy", "--yes")
    assert "OffsetFetch v0" in command("offsets", "migrate", "e", "--to", "kafka", code=1).err
    for protocol in ("classic", "consumer"):
        options = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"e-{protocol}", "client.id": "mine"}
        with Consumer(options, group_protocol=protocol, auto_offset_reset="earliest") as member:
            member.subscribe(["e"])
            until(lambda member=member: member.poll(0.1) is not None and len(member.assignment()) == 2)
            described = rows(command("groups", "describe", f"e-{protocol}"))
            assert [(r["state"], r["partition"], r["client_id"]) for r in described] == [
                ("Stable", 0, "mine"), ("Stable", 1, "mine")
            ]  # fmt: skip
            kicking = ("groups", "kick", f"e-{protocol}", "--all")
            assert rows(command(*kicking, "--dry-run"))[0]["member_id"] == described[0]["member_id"]
            if protocol == "classic":
                assert "removed" in command(*kicking, "--yes").err
                # The removed member rejoins as a new member.
                until(lambda member=member: member.poll(0.1) is not None and member.metrics().rebalances > 1)
        assert "deleted" in command("groups", "delete", f"e-{protocol}", "--yes").err
    assert "e-none: " in command("groups", "delete", "e", "e-none", "--yes", code=3).err


def test_transactions(command: Command, admin: Admin, kafka: KafkaServer) -> None:
    create(admin, "f")
    with Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="f") as producer:
        with producer.transaction():
            producer.send("f", b"1")
        producer.begin_transaction()
        producer.send("f", b"2").result(30)
        [listed] = rows(command("txns", "list"))
        assert (listed["transactional_id"], listed["state"]) == ("f", "Ongoing")
        [described] = rows(command("txns", "describe", "f"))
        assert (described["coordinator"], described["partitions"]) == (1, ["f-0"])
        assert rows(command("txns", "hanging", "f", "--longer-than", "1ms")) == []
        output = command("txns", "abort", "f", 0, "--producer-id", listed["producer_id"], "--yes", code=1).err
        assert "`samsarrow txns fence f` ends it" in output
        command("txns", "fence", "f", "--dry-run")
        assert "f: fenced" in command("txns", "fence", "f", "--yes").err
        until(lambda: rows(command("txns", "describe", "f"))[0]["state"] in ("CompleteAbort", "Empty"))
        assert command("consume", "f", "-X", "isolation.level=read_committed").out == "1\n"
        producer.close(timeout=1)
    assert "none: " in command("txns", "describe", "f", "none", code=3).err


def test_users_and_acls(command: Command, admin: Admin) -> None:
    command("users", "set", "gus", "--password-stdin", stdin=b"secret\n")
    command("users", "set", "gus", "--password-stdin", "--mechanism", "SCRAM-SHA-256", stdin=b"secret\n")
    until(lambda: len(admin.describe_users().get("gus", ())) == 2)
    assert {row["mechanism"] for row in rows(command("users", "list", "gus"))} == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
    output = command("users", "delete", "gus", "ina", "--yes")
    assert "user ina: nothing to delete" in output.out
    until(lambda: "gus" not in admin.describe_users())
    added = ("--principal", "User:gus", "--topic", "g", "--group", "g", "--consumer")
    assert command("acls", "add", *added).out.endswith("3 ACLs added, or already present\n")
    until(lambda: len(admin.describe_acls(AclFilter(principal="User:gus"))) == 3)
    assert [row["operation"] for row in rows(command("acls", "list", "--topic", "g"))] == ["DESCRIBE", "READ"]
    assert "3 ACLs removed" in command("acls", "remove", "--principal", "User:gus", "--yes").out
    until(lambda: not admin.describe_acls(AclFilter(principal="User:gus")))


def test_results_match_java_admin(command: Command, admin: Admin, kafka: KafkaServer) -> None:
    """Compares the output of commands with results of Java's Admin on the same cluster."""
    create(admin, "h", partitions=2)
    command("configs", "set", "topic:h", "retention.ms=-1", "max.message.bytes=12345")
    command("quotas", "set", "--user", "h", "consumer_byte_rate=7")
    with Producer(bootstrap_servers=kafka.bootstrap_servers, transactional_id="h") as producer, producer.transaction():
        for number in range(10):
            producer.send("h", b"%d" % number, partition=number % 2, timestamp=1000 * number)
    command("consume", "h", "-g", "h", "-n", 3)
    until(lambda: admin.describe_quotas())
    # Markers are written after the response to the commit.
    until(lambda: admin.describe_transactions(["h"])["h"].state == "CompleteCommit")
    java = _java(kafka, kafka.bootstrap_servers, "h", "h", "h")
    described = rows(command("topics", "describe", "h"))
    assert [[r["partition"], r["leader"], r["replicas"], r["isr"]] for r in described] == java["topic"]["partitions"]
    assert rows(command("topics", "list", "h"))[0]["id"] == java["topic"]["id"]
    for name, spec in (("beginning", "earliest"), ("end", "latest")):
        assert {f"h-{r['partition']}": r[name] for r in described} == java[f"offsets {spec}"]
    at = rows(command("topics", "offsets", "h", "--at", "1970-01-01T00:00:02Z"))
    assert {f"h-{r['partition']}": r["offset"] for r in at} == java["offsets time"]
    lag = rows(command("groups", "lag", "h", "--partitions"))
    assert {f"h-{r['partition']}": r["offset"] for r in lag} == java["committed"]
    for resource, kind in (("topic:h", "TOPIC"), ("broker:1", "BROKER"), ("logger:1", "BROKER_LOGGER")):
        result = rows(command("configs", "get", resource, "--all"))
        if kind == "BROKER_LOGGER":
            # Brokers list a logger after the first request that needs it.
            result = [r for r in result if r["name"] in java[f"configs {kind}"]]
        theirs = {name: (row[0], row[2], row[3]) for name, row in java[f"configs {kind}"].items()}
        assert {r["name"]: (r["value"], r["read_only"], r["sensitive"]) for r in result} == theirs
    [cluster] = rows(command("cluster", "describe"))
    assert (cluster["cluster_id"], cluster["brokers"]) == (java["cluster"]["id"], len(java["cluster"]["nodes"]))
    assert (cluster["quorum_leader"], cluster["voters"]) == (java["quorum"]["leader"], java["quorum"]["voters"])
    assert [r["broker"] for r in rows(command("cluster", "brokers"))] == java["cluster"]["nodes"]
    assert re.search(r" [34]\.\d-IV\d \(\d+\) ", command("cluster", "describe", "-o", "table").out)
    levels = {r["feature"]: r["level"] for r in rows(command("cluster", "features")) if r["level"]}
    assert levels == {name: level for name, (_, level) in java["features"].items()}
    assert [r["node"] for r in rows(command("cluster", "quorum")) if r["state"] == "leader"] == [
        java["quorum"]["leader"]
    ]
    [disk] = rows(command("replicas", "log-dirs"))
    theirs = java["disks"][disk["path"]]
    assert (disk["total"], disk["replicas"]) == (theirs["total"], len(theirs["replicas"]))
    sizes = {f"h-{r['partition']}": r["size"] for r in rows(command("replicas", "log-dirs", "h"))}
    assert sizes == {tp: size for tp, size in theirs["replicas"].items() if tp in sizes}
    [quota] = rows(command("quotas", "list"))
    [[entity, values]] = java["quotas"]
    assert (quota["user"], {quota["quota"]: quota["value"]}) == (entity["user"], values)
    listed = {r["transactional_id"]: [r["producer_id"], r["state"]] for r in rows(command("txns", "list"))}
    # Compares ids and states in the form that Java prints.
    assert listed["h"] == [java["transactions"]["h"][0], java["transactions"]["h"][1]]
    resources = [r["resource"].upper().replace("-", "_") for r in rows(command("configs", "list"))]
    kinds = {"LOGGER": "BROKER_LOGGER"}
    named = [(kinds.get(kind, kind), name) for kind, _, name in (text.partition(":") for text in resources)]
    assert sorted(named) == sorted((kind, name.upper().replace("-", "_")) for kind, name in java["resources"])


def test_replicas(command: Command, admin: Admin, tmp_path: Path) -> None:
    create(admin, "moved", partitions=2)
    assert "no election is needed" in command("replicas", "elect", "moved").err
    assert rows(command("replicas", "list")) == []
    planned = rows(command("replicas", "reassign", "moved", "--to", "0=1", "--dry-run"))
    assert planned == [{"topic": "moved", "partition": 0, "replicas": [1], "target": [1]}]
    plan = tmp_path / "plan.json"
    plan.write_text('{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[1],"log_dirs":["any"]}]}')
    assert "moved-0: moved" in command("replicas", "reassign", "--file", plan, "--wait").err
    assert "there is no broker 9" in command("replicas", "reassign", "moved", "--to", "0=9", "--dry-run", code=1).err
    assert "moved-0: " in command("replicas", "reassign", "moved", "--to", "0=9", "--to", "1=1", code=3).err
    assert "no replicas are being moved" in command("replicas", "reassign", "moved", "--cancel").err


def test_schema_infer(command: Command, admin: Admin, tmp_path: Path) -> None:
    create(admin, "inferred")
    lines = tmp_path / "values.ndjson"
    lines.write_text('{"id":1,"city":"Rome"}\n{"id":2}\n')
    command("produce", "inferred", lines, "--format", "value")
    text = json.loads(command("schema", "infer", "inferred", "--as", "json-schema").out)
    assert set(text["properties"]) == {"id", "city"}


def test_doctor(command: Command, admin: Admin) -> None:
    create(admin, "checked")
    findings = rows(command("doctor", "-t", "checked", "--json"))
    assert {finding["status"] for finding in findings} <= {"ok", "skipped", "warning"}, findings


def test_backup_and_restore(command: Command, admin: Admin, tmp_path: Path) -> None:
    create(admin, "saved")
    lines = tmp_path / "values.txt"
    lines.write_text("1\n2\n3\n")
    command("produce", "saved", lines, "--format", "value")
    command("backup", "saved", "-O", tmp_path / "backup")
    command("restore", tmp_path / "backup", "--topic-map", "saved=restored")
    assert command("consume", "restored", "-o", "value").out == "1\n2\n3\n"


def test_every_command_was_run(request: pytest.FixtureRequest) -> None:
    mine = [item for item in request.session.items if item.path == request.path]
    if {item.originalname for item in mine} != {name for name in vars(request.module) if name.startswith("test_")}:
        pytest.skip("only part of this file runs")

    def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        context = click.Context(group)
        for name in group.list_commands(context):
            result = group.get_command(context, name)
            assert result is not None
            if isinstance(result, click.Group):
                yield from commands(result, (*path, name))
            elif any(option.name == "bootstrap_servers" for option in result.params):
                yield (*path, name)

    # The demo needs its flights and Spark, so tests/spark covers it.
    assert set(commands(cli)) - RUN == {("demo",)}


def _java(kafka: KafkaServer, *arguments: str) -> dict[str, Any]:
    reads = str(SUPPORT / "java" / "AdminReads.java")
    done = subprocess.run(
        kafka.java(reads, *arguments, jvm=["-Xmx256m", *QUICK_COMPILER]),
        capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
