"""Results of Admin on Kafka 4.3.1 compared with Java's client, and a comparison of their methods."""

import json
import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from samsarrow import Admin, NewTopic, Producer, TopicPartition
from samsarrow.admin_types import ConfigChange, ConfigResource, ConfigSource, ConfigType, NewPartitions, OffsetSpec
from samsarrow.cluster_types import ElectionType, QuotaEntity, Replica
from samsarrow.exceptions import (
    BrokerIdNotRegisteredError,
    GroupIdNotFoundError,
    InvalidConfigError,
    KafkaError,
    LogDirNotFoundError,
    NoReassignmentInProgressError,
    OffsetOutOfRangeError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from samsarrow.results import PartialFailureError
from support.kafka import QUICK_COMPILER, SUPPORT, KafkaServer, classpath
from support.topic_settings import REJECTED_SETTINGS
from support.waiting import until

# Names of Java's methods (org.apache.kafka.clients.admin.Admin, 4.4.0) and of ours, from the table in the guide.
GUIDE = Path(__file__).resolve().parents[2] / "docs" / "admin.md"
METHODS = dict(
    re.findall(r"^\| `(\w+)` \| (.*) \|$", GUIDE.read_text().partition("## Java's methods")[2], re.MULTILINE)
)


@pytest.fixture(scope="module")
def admin(kafka: KafkaServer) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


def test_every_java_admin_method_has_a_counterpart() -> None:
    jar = next(path for path in classpath("4.4.0").split(":") if re.search(r"kafka-clients-[\d.]+\.jar$", path))
    shown = subprocess.run(
        ["javap", "-cp", jar, "org.apache.kafka.clients.admin.Admin"], capture_output=True, text=True, check=True
    ).stdout
    theirs = set(re.findall(r"\s(\w+)\(", shown))
    assert len(theirs) > 60
    assert theirs == METHODS.keys()
    named = {java: re.match(r"`(\w+)", ours) for java, ours in METHODS.items()}
    assert {java for java, ours in named.items() if ours is None} == {
        "registerMetricForSubscription", "unregisterMetricFromSubscription"
    }  # fmt: skip
    ours = {found[1] for found in named.values() if found}
    assert {name for name in ours if not hasattr(Admin, name)} == {"Admin"}


@pytest.mark.parametrize(("name", "value", "message"), REJECTED_SETTINGS)
def test_config_policy_messages(admin: Admin, name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidConfigError, match=re.escape(message)):
        admin.create_topics([NewTopic("new", configs={name: value})], validate_only=True)


def test_results_match_java_admin(kafka: KafkaServer, admin: Admin) -> None:
    topic, group, transactional_id = (f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("topic", "group", "tx"))
    admin.create_topics([NewTopic(topic, assignment=[[1], [1]], configs={"retention.ms": "-1"})])
    admin.create_partitions({topic: NewPartitions(3, ((1,),))})
    tps = [TopicPartition(topic, p) for p in range(3)]
    servers = kafka.bootstrap_servers
    change = ConfigChange(set={"segment.ms": "70000000"}, append={"cleanup.policy": "compact"})
    admin.alter_configs({ConfigResource.topic(topic): change})
    admin.alter_configs({ConfigResource.client_metrics("m"): {"interval.ms": "60000"}})
    admin.alter_quotas({QuotaEntity({"user": "alice", "client-id": None}): {"producer_byte_rate": 1024.0}})
    with Producer(
        bootstrap_servers=servers, transactional_id=transactional_id, transaction_timeout_ms=600_000
    ) as producer:
        producer.begin_transaction()
        for at in (1000, 3000, 2000):
            producer.send(topic, b"v", key=b"k", partition=0, timestamp=at)
        producer.flush()
        admin.commit_offsets(group, {tps[0]: 1, tps[2]: 0})
        transactions = lambda: {t: [of.producer_id, of.state] for t, of in admin.list_transactions().items()}  # noqa: E731
        before = transactions()
        java = _java(kafka, servers, topic, group, transactional_id)

        described = admin.describe_topics([topic])[topic]
        assert str(described.topic_id) == java["topic"]["id"]
        rows = [[p.partition, p.leader, list(p.replicas), list(p.isr)] for p in described.partitions]
        assert rows == java["topic"]["partitions"]
        resources = {
            "TOPIC": ConfigResource.topic(topic),
            "BROKER": ConfigResource.broker(1),
            "BROKER_LOGGER": ConfigResource.logger(1),
        }
        result = admin.describe_configs(resources.values(), synonyms=True, documentation=True)
        for kind, resource in resources.items():
            theirs = java[f"configs {kind}"]
            ours = {
                name: [e.value, e.read_only, e.sensitive, e.type.name, e.documentation, len(e.synonyms)]
                for name, e in result[resource].items()
            }
            # Brokers list a logger after the first request that needs it, so ours may list a few more.
            assert {n: row for n, row in ours.items() if n in theirs} == {n: [r[0], *r[2:]] for n, r in theirs.items()}
            assert len(ours) - len(theirs) <= (5 if kind == "BROKER_LOGGER" else 0)
        assert result[resources["TOPIC"]]["retention.ms"].source == ConfigSource.TOPIC
        assert result[resources["TOPIC"]]["retention.ms"].type == ConfigType.LONG
        assert result.table().num_rows == sum(len(result[resource]) for resource in resources.values())
        cluster = admin.describe_cluster(include_fenced=True)
        assert (cluster.cluster_id, [b.id for b in cluster.brokers]) == (
            java["cluster"]["id"],
            java["cluster"]["nodes"],
        )
        assert {f: list(levels) for f, levels in admin.describe_features().finalized.items()} == java["features"]
        quorum = admin.describe_quorum()
        assert (quorum.leader, [v.id for v in quorum.voters]) == (java["quorum"]["leader"], java["quorum"]["voters"])
        assert quorum.voters[0].log_end_offset > 0
        disks = {d.path: d for d in admin.log_dirs()[1]}
        assert disks.keys() == java["disks"].keys()
        for path, disk in disks.items():
            assert disk.total_bytes == java["disks"][path]["total"]
            sizes = {f"{r.partition.topic}-{r.partition.partition}": r.size for r in disk.replicas}
            assert sizes.keys() == java["disks"][path]["replicas"].keys()
            assert sizes[f"{topic}-0"] == java["disks"][path]["replicas"][f"{topic}-0"] > 0
        assert [[dict(e.parts), quotas] for e, quotas in admin.describe_quotas().items()] == java["quotas"]
        assert {f"{topic}-{tp.partition}": at.offset for tp, at in admin.fetch_offsets(group).items() if at} == java[
            "committed"
        ]
        specs = {
            "earliest": OffsetSpec.EARLIEST,
            "latest": OffsetSpec.LATEST,
            "max": OffsetSpec.MAX_TIMESTAMP,
            "time": 2000,
        }
        for name, spec in specs.items():
            offsets = admin.list_offsets(dict.fromkeys(tps, spec))
            ours = {f"{topic}-{tp.partition}": -1 if at is None else at.offset for tp, at in offsets.items()}
            assert ours == java[f"offsets {name}"], name
        listed = transactions()
        assert listed.keys() == java["transactions"].keys()
        # Compares only unchanged transactions, because those of other tests may end between the two listings.
        unchanged = {t: its for t, its in listed.items() if before.get(t) == its}
        assert transactional_id in unchanged
        assert unchanged == {t: java["transactions"][t] for t in unchanged}
        tx = admin.describe_transactions([transactional_id])[transactional_id]
        assert java["transaction"] == {
            "coordinator": tx.coordinator, "state": tx.state, "producer": tx.producer_id, "epoch": tx.producer_epoch,
            "timeout": tx.timeout_ms, "partitions": [f"{topic}-0"],
        }  # fmt: skip
        assert tx.partitions == (tps[0],)
        [state] = admin.describe_producers(tps)[tps[0]]
        assert [[state.producer_id, state.producer_epoch, state.last_sequence, state.transaction_start]] == java[
            "producers"
        ]
        assert sorted([r.type.name, r.name] for r in admin.list_config_resources()) == sorted(java["resources"])

        lag = admin.group_lag([group])[group]
        assert [(partition.partition, partition.lag) for partition in lag.partitions] == [(tps[0], 2), (tps[2], 0)]
        assert admin.group_lag([group], read_committed=True)[group].total == 0, "the transaction is open"
        assert admin.list_transactions(states=["Empty"], longer_than=3600) == {}
        assert admin.find_hanging(tps, longer_than=0) == (), "its coordinator knows it"
        fenced = admin.fence_producers([transactional_id])[transactional_id]
        assert fenced.producer_id == tx.producer_id
        with pytest.raises((ProducerFencedError, KafkaError)):
            producer.commit_transaction()
    until(lambda: admin.describe_transactions([transactional_id])[transactional_id].state != "Ongoing")
    admin.alter_quotas({QuotaEntity({"user": "alice", "client-id": None}): {"producer_byte_rate": None}})
    admin.alter_configs({ConfigResource.client_metrics("m"): {"interval.ms": None}})


def test_partial_failures_of_changes(kafka: KafkaServer, admin: Admin) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    topic_id = admin.create_topics([topic], num_partitions=2)[topic].topic_id
    assert topic_id is not None
    tps = [TopicPartition(topic, p) for p in range(2)]
    nowhere = TopicPartition(f"{topic}-nowhere", 0)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for _ in range(5):
            producer.send(topic, b"v", partition=0)
    with pytest.raises(PartialFailureError) as raised:
        admin.delete_records({tps[0]: 3, tps[1]: 7, nowhere: 0})
    assert raised.value.succeeded == {tps[0]: 3}
    assert {tp: type(e) for tp, e in raised.value.failures.items()} == {
        tps[1]: OffsetOutOfRangeError, nowhere: UnknownTopicOrPartitionError
    }  # fmt: skip
    with pytest.raises(InvalidConfigError):
        admin.alter_configs({ConfigResource.topic(topic): {"retention.ms": "soon"}}, validate_only=True)
    assert admin.elect_leaders(tps) == dict.fromkeys(tps, False)
    assert admin.elect_leaders() == {}
    assert admin.elect_leaders([tps[0]], election=ElectionType.UNCLEAN) == {tps[0]: False}
    assert admin.alter_reassignments({tps[0]: [1]}) == {tps[0]: None}
    assert admin.list_reassignments() == {}
    with pytest.raises(NoReassignmentInProgressError):
        admin.alter_reassignments({tps[0]: None})
    with pytest.raises(LogDirNotFoundError):
        admin.move_replicas({Replica(topic, 0, 1): "/nowhere"})
    with pytest.raises(BrokerIdNotRegisteredError):
        admin.unregister_broker(99)
    with pytest.raises(UnsupportedVersionError, match=r"UnregisterController, which needs Kafka 4\.4 or later"):
        admin.unregister_controller(99)
    with pytest.raises(KafkaError):
        admin.remove_raft_voter(99, uuid.uuid4())
    with pytest.raises(KafkaError):
        admin.update_features({"no.such.feature": 1}, validate_only=True)
    assert admin.update_features({"metadata.version": admin.describe_features().finalized["metadata.version"][1]},
                                 validate_only=True).keys() == {"metadata.version"}  # fmt: skip
    for describe in (admin.describe_share_groups, admin.describe_streams_groups):
        with pytest.raises(GroupIdNotFoundError):
            describe(["no-such-group"])["no-such-group"]
    group = f"share-{topic}"
    assert admin.list_share_offsets([group])[group] == {}
    assert admin.alter_share_offsets(group, {tps[0]: 4}) == {tps[0]: None}
    result = admin.list_share_offsets([group])[group][tps[0]]
    assert result is not None
    assert (result.start, result.lag) == (4, 1)
    assert admin.describe_share_groups([group])[group].state == "Empty"
    assert admin.list_groups()[group].type == "share"
    with pytest.raises(UnknownTopicOrPartitionError) as forgotten:
        admin.delete_share_offsets(group, [topic, "no-such-topic"])
    assert forgotten.value.succeeded == {topic: None}
    assert admin.delete_groups([group]) == {group: None}
    assert admin.describe_topics([topic_id])[topic_id].name == topic
    assert list(admin.delete_topics([topic_id])) == [topic_id]


def _java(kafka: KafkaServer, *arguments: str) -> dict:
    command = kafka.java(str(SUPPORT / "java" / "AdminReads.java"), *arguments, jvm=["-Xmx256m", *QUICK_COMPILER])
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])
