"""Changes made by Admin on Kafka 4.3.1 are visible to Java's AdminClient, and the reverse; both clients receive equal
errors.
"""

import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow import AclOperation, Admin, NewTopic, Producer, TopicPartition
from samsarrow.admin_types import ConfigChange, ConfigResource, OffsetSpec
from samsarrow.cluster_types import FeatureUpdate, QuotaEntity, RaftEndpoint, Replica, UpgradeType
from samsarrow.exceptions import InvalidReplicationFactorError, KafkaError, UnsupportedEndpointTypeError
from support.kafka import QUICK_COMPILER, SUPPORT, server_of
from support.quorum import Quorum
from support.raw import Raw, batch, error

ANSWER_S = 60.0


class Java:
    """Java's AdminClient in a separate process."""

    def __init__(self, quorum: Quorum) -> None:
        driver = str(SUPPORT / "java" / "AdminShell.java")
        jvm = ["-Xmx192m", *QUICK_COMPILER]
        command = quorum.first.java(driver, quorum.bootstrap_servers, quorum.first.controller, jvm=jvm)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, name: str, *arguments: Any) -> Any:
        found, *error = self.ask(name, *arguments)
        assert not error, (name, arguments, error)
        return found

    def error(self, name: str, *arguments: Any) -> str:
        """Returns the name of the exception, in the form of our error classes."""
        [_, error] = self.ask(name, *arguments)
        return str(error).replace("Exception", "Error").replace("InvalidConfiguration", "InvalidConfig")

    def ask(self, *words: Any) -> list[Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        # Skips log lines, which Java writes to the same stream.
        for line in self.process.stdout:
            if line.startswith("["):
                return list(json.loads(line))
        raise AssertionError(f"Java's client ended at {words}")


@pytest.fixture(scope="module")
def quorum() -> Iterator[Quorum]:
    with Quorum() as quorum:
        yield quorum


@pytest.fixture(scope="module")
def java(quorum: Quorum) -> Iterator[Java]:
    java = Java(quorum)
    try:
        yield java
    finally:
        java.process.kill()
        java.process.communicate()


@pytest.fixture(scope="module")
def admin(quorum: Quorum) -> Iterator[Admin]:
    with Admin(bootstrap_servers=quorum.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(quorum: Quorum, admin: Admin) -> str:
    """A topic of two partitions, both on broker 1."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin.create_topics([NewTopic(name, assignment=[[1], [1]])])
    # Both brokers must know the topic, because requests for it may go to either.
    for node in (quorum.first, quorum.second):
        with Raw(node.bootstrap_servers) as raw:
            asked = {"topics": [{"name": name}], "allow_auto_topic_creation": False}
            until(lambda raw=raw, asked=asked: raw.call("Metadata", 8, **asked)["topics"][0]["error_code"] == 0)
    return name


def until(condition: Callable[[], Any]) -> Any:
    """Waits until the condition returns a true value, and returns it."""
    deadline = time.monotonic() + ANSWER_S
    while not (result := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return result


def ours(write: Callable[[], Any]) -> str:
    """Returns the class of the error that a call raises; for partial failures, the class of the first failure."""
    with pytest.raises(KafkaError) as raised:
        write()
    failures = getattr(raised.value, "failures", None)
    return type(next(iter(failures.values())) if failures else raised.value).__name__


def test_alter_configs_matches_java(java: Java, admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)

    def value() -> str | None:
        return admin.describe_configs([resource])[resource]["cleanup.policy"].value

    read = lambda: java("config", "TOPIC", topic, "cleanup.policy")  # noqa: E731
    # If a config is not set, append and subtract change its default value.
    for change, expected in (
        (ConfigChange(append={"cleanup.policy": "compact"}), "delete,compact"),
        (ConfigChange(subtract={"cleanup.policy": "delete"}), "compact"),
        (ConfigChange(delete=("cleanup.policy",)), "delete"),
        (ConfigChange(subtract={"cleanup.policy": "delete"}), ""),
        (ConfigChange(set={"cleanup.policy": "compact"}), "compact"),
    ):
        admin.alter_configs({resource: change})
        assert until(lambda expected=expected: read() == value() == expected), change
    for operation, given, expected in (
        ("DELETE", None, "delete"), ("APPEND", "compact", "delete,compact"), ("SUBTRACT", "delete", "compact"),
    ):  # fmt: skip
        java("alterConfig", "TOPIC", topic, "cleanup.policy", given, operation)
        assert until(lambda expected=expected: value() == expected), operation
    theirs = java.error("alterConfig", "TOPIC", topic, "retention.ms", "1", "APPEND")
    assert theirs == ours(lambda: admin.alter_configs({resource: ConfigChange(append={"retention.ms": "1"})}))
    theirs = java.error("alterConfig", "TOPIC", topic, "no.such.config", "1", "SET")
    assert theirs == ours(lambda: admin.alter_configs({resource: {"no.such.config": "1"}}))


def test_alter_quotas_matches_java(java: Java, admin: Admin) -> None:
    alice, host = QuotaEntity({"user": "alice"}), QuotaEntity({"ip": "10.0.0.1"})
    admin.alter_quotas({alice: {"producer_byte_rate": 1024.0, "request_percentage": 12.5}})
    java("alterQuota", "ip", "10.0.0.1", "connection_creation_rate", 7)
    expected = {
        alice: {"producer_byte_rate": 1024.0, "request_percentage": 12.5},
        host: {"connection_creation_rate": 7.0},
    }
    assert until(lambda: admin.describe_quotas() == expected)
    read = lambda: {QuotaEntity(entity): values for entity, values in java("quotas")}  # noqa: E731
    assert until(lambda: read() == expected)
    java("alterQuota", "user", "alice", "request_percentage", None)
    admin.alter_quotas({host: {"connection_creation_rate": None}})
    assert until(lambda: read() == admin.describe_quotas() == {alice: {"producer_byte_rate": 1024.0}})
    theirs = java.error("alterQuota", "user", "alice", "no_such_rate", 1)
    assert theirs == ours(lambda: admin.alter_quotas({alice: {"no_such_rate": 1.0}}))
    admin.alter_quotas({alice: {"producer_byte_rate": None}})


def test_delete_records_matches_java(quorum: Quorum, java: Java, admin: Admin, topic: str) -> None:
    tp = TopicPartition(topic, 0)
    with Producer(bootstrap_servers=quorum.bootstrap_servers, linger_ms=1000) as producer:
        for at in range(9):
            producer.send(topic, b"v", partition=0, timestamp=1000 * (at + 1))
    assert admin.delete_records({tp: 3}) == {tp: 3}
    assert java("offset", topic, 0, -2) == 3
    # The timestamp belongs to a record in the middle of a batch.
    assert java("offset", topic, 0, 1500) == 3
    assert admin.list_offsets({tp: 1500})[tp].offset == 3
    assert java("deleteRecords", topic, 0, 5) == 5
    assert admin.list_offsets({tp: OffsetSpec.EARLIEST})[tp].offset == 5
    assert java.error("deleteRecords", topic, 0, 99) == ours(lambda: admin.delete_records({tp: 99}))


def test_list_offsets_of_unknown_partitions_fails_immediately(admin: Admin, topic: str) -> None:
    there, beyond, nowhere = TopicPartition(topic, 0), TopicPartition(topic, 9), TopicPartition("no-such-topic", 0)
    started = time.monotonic()
    result = admin.list_offsets(dict.fromkeys((there, beyond, nowhere), OffsetSpec.LATEST))
    # The call ends well before its timeout of a minute.
    assert time.monotonic() - started < 20
    assert list(result.found) == [there]
    assert {type(error).__name__ for error in result.errors.values()} == {"UnknownTopicOrPartitionError"}


def written(quorum: Quorum, topic: str, partition: int, producer_id: int) -> str:
    """Writes a record of a transaction unknown to any coordinator; returns the broker's error."""
    data = {"index": partition, "records": batch((producer_id, 0), 0)}
    with Raw(quorum.first.bootstrap_servers) as raw:
        answer = raw.call(
            "Produce", 9, transactional_id="nobody", acks=-1, timeout_ms=10_000,
            topic_data=[{"name": topic, "partition_data": [data]}],
        )  # fmt: skip
    return error(answer["responses"][0]["partition_responses"][0]["error_code"])


def test_find_and_abort_hanging_transaction(quorum: Quorum, java: Java, admin: Admin, topic: str) -> None:
    for partition, abort in ((0, "ours"), (1, "java")):
        producer_id, tp = 90_000 + partition, TopicPartition(topic, partition)
        # The producer is unknown to all coordinators. Repeats, because a new leader may not know yet that it leads.
        assert until(lambda p=partition, of=producer_id: written(quorum, topic, p, of) == "OK")
        [hanging] = admin.find_hanging([tp], longer_than=0)
        assert (hanging.producer.producer_id, hanging.producer.transaction_start) == (producer_id, 0)
        assert java("producers", topic, partition) == [[producer_id, 0]]
        if abort == "ours":
            admin.abort_transaction(tp, producer_id, 0)
        else:
            java("abort", topic, partition, producer_id, 0)
        assert java("producers", topic, partition) == [[producer_id, -1]]
        assert admin.describe_producers([tp])[tp][0].transaction_start is None
        assert admin.find_hanging([tp], longer_than=0) == ()
        # No transaction is open: a marker with an earlier epoch is rejected.
        theirs = java.error("abort", topic, partition, producer_id, -1)
        assert theirs == ours(lambda tp=tp, of=producer_id: admin.abort_transaction(tp, of, -1))


def test_alter_replica_log_dirs_matches_java(quorum: Quorum, java: Java, admin: Admin, topic: str) -> None:
    disks = quorum.first.disks

    def where() -> str | None:
        there = [disk.path for disk in admin.log_dirs([1])[1] for replica in disk.replicas
                 if replica.partition == TopicPartition(topic, 0) and not replica.future]  # fmt: skip
        return there[0] if there else None

    for mover in ("ours", "java"):
        now = until(where)
        [other] = [disk for disk in disks if disk != now]
        if mover == "ours":
            admin.move_replicas({Replica(topic, 0, 1): other})
        else:
            java("move", topic, 0, 1, other)
        assert until(lambda other=other: java("disk", topic, 0, 1) == where() == other), mover
    # The first path is not a disk of the broker; the second broker has no replica.
    for broker, path in ((1, "/nowhere"), (2, quorum.second.disks[0])):
        theirs = java.error("move", topic, 0, broker, path)
        assert theirs == ours(lambda b=broker, p=path: admin.move_replicas({Replica(topic, 0, b): p}))


def test_reassignments_and_elections_match_java(quorum: Quorum, java: Java, admin: Admin, topic: str) -> None:
    tps = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with Producer(bootstrap_servers=quorum.bootstrap_servers) as producer:
        for partition in range(2):
            for _ in range(20):
                producer.send(topic, bytes(200_000), partition=partition)
    # Throttles replication, so that the reassignment is still running when it is cancelled.
    admin.alter_configs({ConfigResource.topic(topic): {"follower.replication.throttled.replicas": "*",
                                                       "leader.replication.throttled.replicas": "*"}})  # fmt: skip
    rates = {f"{side}.replication.throttled.rate": "1" for side in ("leader", "follower")}
    brokers = [ConfigResource.broker(n) for n in (1, 2)]
    admin.alter_configs(dict.fromkeys(brokers, rates))
    limits = lambda: admin.describe_configs(brokers)  # noqa: E731
    assert until(lambda: all(n in found and found[n].value == "1" for found in limits().values() for n in rates))
    admin.alter_reassignments({tps[0]: [2]})
    java("reassign", topic, 1, [2])
    read = lambda: {  # noqa: E731
        f"{tp.topic}-{tp.partition}": [list(r.replicas), list(r.adding), list(r.removing)]
        for tp, r in admin.list_reassignments().items()
    }
    under_way = [[2, 1], [2], [1]]
    assert read() == java("reassignments") == {f"{topic}-{p}": under_way for p in range(2)}
    admin.alter_reassignments({tps[1]: None})
    assert java("reassignments") == {f"{topic}-0": under_way}
    java("reassign", topic, 0, None)
    assert read() == {}
    assert java.error("reassign", topic, 0, None) == ours(lambda: admin.alter_reassignments({tps[0]: None}))
    assert java.error("reassign", topic, 0, [7]) == ours(lambda: admin.alter_reassignments({tps[0]: [7]}))
    admin.alter_configs({broker: dict.fromkeys(rates) for broker in brokers})
    # Both brokers have replicas of both partitions, and the second broker is the preferred leader.
    admin.alter_reassignments({tp: [2, 1] for tp in tps})
    assert until(lambda: read() == {})
    assert until(lambda: java("topic", topic)[0] == [[1, [2, 1]], [1, [2, 1]]])
    assert admin.elect_leaders([tps[0]]) == {tps[0]: True}
    java("elect", topic, 1)
    assert until(lambda: java("topic", topic)[0] == [[2, [2, 1]], [2, [2, 1]]])
    assert until(lambda: [p.leader for p in admin.describe_topics([topic])[topic].partitions] == [2, 2])
    assert java.error("elect", topic, 9) == ours(lambda: admin.elect_leaders([TopicPartition(topic, 9)]))


def test_update_features_matches_java(java: Java, admin: Admin) -> None:
    name = "transaction.version"
    levels = lambda: {f: list(its) for f, its in admin.describe_features().finalized.items()}  # noqa: E731
    before = levels()
    assert before == java("features")
    admin.update_features({name: FeatureUpdate(1, UpgradeType.UNSAFE_DOWNGRADE)})
    assert until(lambda: java("features")[name] == levels()[name] == [1, 1])
    java("updateFeature", name, 2, UpgradeType.UPGRADE.value)
    assert until(lambda: levels() == java("features") == before)
    for feature, level, way in (("no.such.feature", 1, UpgradeType.UPGRADE), (name, 1, UpgradeType.UPGRADE), (name, 99, UpgradeType.UPGRADE)):  # fmt: skip  # noqa: E501
        theirs = java.error("updateFeature", feature, level, way.value)
        update = FeatureUpdate(level, way)
        assert theirs == ours(lambda f=feature, u=update: admin.update_features({f: u})), feature


def test_group_filters_and_authorized_operations_match_java(java: Java, admin: Admin, topic: str) -> None:
    admin.commit_offsets("empty-classic", {TopicPartition(topic, 0): 0})
    admin.alter_share_offsets("empty-share", {TopicPartition(topic, 0): 0})
    assert until(lambda: {"empty-classic", "empty-share"} <= admin.list_groups().keys())
    for states, types, protocols in (
        ([], [], []), (["Empty"], [], []), (["Stable"], [], []), ([], ["classic"], []), ([], ["share"], []),
        ([], [], ["share"]), ([], [], [""]), (["Empty"], ["share"], ["consumer"]),
    ):  # fmt: skip
        result = admin.list_groups(states=states, types=types, protocol_types=protocols)
        assert sorted(result) == java("groups", states, types, protocols), (states, types, protocols)
    assert list(admin.list_groups(states=["eMPTY"], types=["SHARE"])) == ["empty-share"]

    def codes(operations: tuple[AclOperation, ...] | None) -> list[int]:
        assert operations is not None
        return [operation.value for operation in operations]

    described = admin.describe_topics([topic], include_authorized_operations=True)[topic]
    assert codes(described.authorized_operations) == java("topic", topic)[1]
    by_id = admin.describe_topics([described.topic_id], include_authorized_operations=True)[described.topic_id]
    assert by_id.authorized_operations == described.authorized_operations
    cluster = admin.describe_cluster(include_authorized_operations=True)
    assert codes(cluster.authorized_operations) == java("cluster")[1]
    group = admin.describe_groups(["empty-classic"], include_authorized_operations=True)["empty-classic"]
    assert codes(group.authorized_operations) == java("group", "empty-classic")
    for result in (admin.describe_topics([topic])[topic], admin.describe_cluster(), admin.describe_groups(["empty-classic"])["empty-classic"]):  # fmt: skip  # noqa: E501
        assert result.authorized_operations is None


def test_bootstrap_controllers(quorum: Quorum, java: Java, admin: Admin, topic: str) -> None:
    resource = ConfigResource.topic(topic)
    with Admin(bootstrap_controllers=quorum.first.controller) as direct:

        def both_controllers() -> bool:
            cluster = direct.describe_cluster()
            [ids, _, active] = java("controllers:cluster")
            assert {f"{b.host}:{b.port}" for b in cluster.brokers} >= {quorum.first.controller}
            return ([b.id for b in cluster.brokers], cluster.controller) == (ids, active)

        # Waits, because a controller registers with a delay after its start.
        assert until(both_controllers)
        assert [v.id for v in direct.describe_quorum().voters] == [v for v, _ in java("controllers:quorum")]
        assert until(lambda: direct.describe_features().finalized == admin.describe_features().finalized)
        direct.alter_configs({resource: {"retention.ms": "77"}})
        assert until(lambda: admin.describe_configs([resource])[resource]["retention.ms"].value == "77")
        mine = ConfigResource.broker(1)
        assert direct.describe_configs([mine])[mine]["node.id"].value == "1"
        assert direct.list_reassignments() == {}
        assert direct.alter_reassignments({TopicPartition(topic, 0): [1]}) == {TopicPartition(topic, 0): None}
        # Requests that controllers do not support are rejected immediately, with the error of Java's client.
        theirs = java.error("controllers:quotas")
        for refused in (
            direct.list_groups, direct.list_topics, lambda: direct.create_topics(["x"]),
            lambda: direct.list_offsets({TopicPartition(topic, 0): OffsetSpec.LATEST}),
            lambda: direct.find_coordinator("g"), lambda: direct.group_lag(["g"]), direct.describe_quotas,
        ):  # fmt: skip
            assert ours(refused) == theirs
        with pytest.raises(UnsupportedEndpointTypeError, match=r"ListGroups .* bootstrap\.servers instead"):
            direct.list_groups()
    with (
        Admin(bootstrap_controllers=quorum.bootstrap_servers) as wrong,
        pytest.raises(KafkaError, match="contains the address of a broker"),
    ):
        wrong.describe_cluster(timeout=30)


def test_add_and_remove_voter_and_unregister_broker(quorum: Quorum, java: Java, admin: Admin) -> None:
    """Runs last, since it stops the second node."""
    second, port = quorum.second.directory_id, quorum.second.controller_port
    endpoint = RaftEndpoint("CONTROLLER", "127.0.0.1", port)
    voters = lambda: [[v.id, str(v.directory_id)] for v in admin.describe_quorum().voters]  # noqa: E731
    first = java("quorum")
    assert voters() == first
    both = [*first, [2, str(second)]]
    admin.add_raft_voter(2, second, [endpoint])
    assert until(lambda: voters() == java("quorum") == both)
    assert java.error("addVoter", 2, str(second), port) == ours(lambda: admin.add_raft_voter(2, second, [endpoint]))
    java("removeVoter", 2, str(second))
    assert until(lambda: voters() == java("quorum") == first)
    java("addVoter", 2, str(second), port)
    assert until(lambda: voters() == java("quorum") == both)
    admin.remove_raft_voter(2, second)
    assert until(lambda: voters() == java("quorum") == first)
    assert java.error("removeVoter", 2, str(second)) == ours(lambda: admin.remove_raft_voter(2, second))
    assert java.error("unregister", 99) == ours(lambda: admin.unregister_broker(99))
    quorum.second.stop()
    with Admin(bootstrap_servers=quorum.first.bootstrap_servers) as left:
        assert until(lambda: [b.fenced for b in left.describe_cluster(include_fenced=True).brokers] == [False, True])
        left.unregister_broker(2)
        assert until(lambda: [b.id for b in left.describe_cluster(include_fenced=True).brokers] == [1])


def test_share_group_without_possible_state_topic_fails_soon() -> None:
    factor = {"share.coordinator.state.topic.replication.factor": "3"}
    with server_of("4.3.1", factor) as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics(["t"])
        until(lambda: "t" in admin.list_topics())
        started = time.monotonic()
        with pytest.raises(InvalidReplicationFactorError, match="factor is 3, and the cluster has 1 of them"):
            admin.alter_share_offsets("s", {TopicPartition("t", 0): 0})
        # Without the check for brokers, the calls would wait until their timeout of a minute.
        assert time.monotonic() - started < 20
