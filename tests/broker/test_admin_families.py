"""Admin operations on the embedded broker: results, changes, the brokers that get requests, and partial failures."""

import asyncio
from uuid import UUID

import pytest

from samsarrow import Admin, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.admin_types import ConfigChange, ConfigResource, ConfigSource, NewPartitions, OffsetSpec, RemovedMember
from samsarrow.aio_admin import AsyncAdmin
from samsarrow.cluster_types import ANY, QuotaEntity
from samsarrow.exceptions import (
    ConfigurationError,
    GroupIdNotFoundError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidRequestError,
    KafkaTimeoutError,
    NoReassignmentInProgressError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from samsarrow.results import PartialFailureError
from samsarrow.testing import Broker


@pytest.fixture
def three_brokers():
    with Broker(brokers=3, topics={"t": 6}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield broker, admin


def test_topics_by_assignment_page_and_id(three_brokers):
    broker, admin = three_brokers
    made = admin.create_topics([NewTopic("placed", assignment=[[2, 0], [1, 2]], configs={"retention.ms": "5"})])
    assert (made["placed"].partitions, made["placed"].replication_factor) == (2, 2)
    assert admin.create_topics(["only-checked"], validate_only=True)["only-checked"].topic_id is None
    assert "only-checked" not in admin.list_topics()
    for page in (1, 3, 2000):
        before = broker.requests("DescribeTopicPartitions")
        found = admin.describe_topics(["t", "placed", "nope"], page_size=page)
        assert list(found) == ["t", "placed", "nope"]
        assert [p.partition for p in found["t"].partitions] == list(range(6))
        assert [(p.leader, p.replicas, p.isr) for p in found["placed"].partitions] == [
            (2, (2, 0), (2, 0)), (1, (1, 2), (1, 2))
        ]  # fmt: skip
        with pytest.raises(UnknownTopicOrPartitionError, match="topic nope"):
            found["nope"]
        assert broker.requests("DescribeTopicPartitions") - before == -(-8 // page)
    topic_id = found["placed"].topic_id
    assert isinstance(topic_id, UUID)
    assert admin.describe_topics([topic_id])[topic_id].name == "placed"
    with pytest.raises(PartialFailureError) as raised:
        admin.delete_topics([topic_id, "nope"])
    assert (list(raised.value.succeeded), list(raised.value.failures)) == ([topic_id], ["nope"])
    assert "placed" not in admin.list_topics()
    with pytest.raises(ConfigurationError, match="a page of 0 partitions"):
        admin.describe_topics(["t"], page_size=0)
    with pytest.raises(ConfigurationError, match="topic t is to be created twice"):
        admin.create_topics(["t", "t"])


def test_create_partitions(three_brokers):
    _, admin = three_brokers
    assert admin.create_partitions({"t": 8}) == {"t": None}
    assert admin.create_partitions({"t": NewPartitions(9, ((1,),))}, validate_only=True) == {"t": None}
    assert admin.list_topics()["t"].partitions == 8
    admin.create_partitions({"t": NewPartitions(9, ((1,),))})
    assert admin.describe_topics(["t"])["t"].partitions[8].replicas == (1,)
    with Producer(bootstrap_servers=admin_servers(three_brokers)) as producer:
        assert producer.send("t", b"x", partition=8).result(10).offset == 0
    with pytest.raises(InvalidPartitionsError, match="would not be an increase"):
        admin.create_partitions({"t": 3})
    # If the failures have different classes, PartialFailureError itself is raised.
    with pytest.raises(PartialFailureError, match="and 1 more") as raised:
        admin.create_partitions({"t": 3, "nope": 2})
    assert type(raised.value) is PartialFailureError
    assert {topic: type(e) for topic, e in raised.value.failures.items()} == {
        "t": InvalidPartitionsError, "nope": UnknownTopicOrPartitionError
    }  # fmt: skip


def admin_servers(three_brokers):
    return three_brokers[0].bootstrap_servers


def test_delete_records_sends_one_request_per_leader(three_brokers):
    broker, admin = three_brokers
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for p in range(6):
            for _ in range(4):
                producer.send("t", b"x", partition=p)
        producer.flush()
    tps = [TopicPartition("t", p) for p in range(6)]
    assert admin.delete_records(dict.fromkeys(tps, 3)) == dict.fromkeys(tps, 3)
    assert broker.requests("DeleteRecords") == 3, "one a leader"
    broker.move_leader("t", 0, 2)
    assert admin.delete_records({tps[0]: -1}) == {tps[0]: 4}
    found = admin.list_offsets({tps[0]: OffsetSpec.EARLIEST, tps[1]: OffsetSpec.LATEST, tps[2]: OffsetSpec.EARLIEST})
    assert [found[tp].offset for tp in tps[:3]] == [4, 4, 3]
    nowhere = TopicPartition("nope", 0)
    with pytest.raises(PartialFailureError) as raised:
        admin.delete_records({tps[1]: 9, tps[2]: 4, nowhere: 1})
    assert {tp: type(e) for tp, e in raised.value.failures.items()} == {
        tps[1]: OffsetOutOfRangeError, nowhere: UnknownTopicOrPartitionError
    }  # fmt: skip
    assert raised.value.succeeded == {tps[2]: 4}


def test_list_offsets_by_timestamp_and_spec(three_brokers):
    broker, admin = three_brokers
    tp = TopicPartition("t", 0)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for at in (1000, 3000, 2000):
            producer.send("t", b"x", partition=0, timestamp=at).result(10)
    for spec, offset in ((1500, 1), (OffsetSpec.MAX_TIMESTAMP, 1), (OffsetSpec.EARLIEST_LOCAL, 0)):
        assert admin.list_offsets({tp: spec})[tp].offset == offset, spec
    assert admin.list_offsets({tp: OffsetSpec.LATEST_TIERED})[tp] is None
    assert admin.list_offsets({tp: 9000})[tp] is None
    with pytest.raises(ValueError, match="use OffsetSpec"):
        admin.list_offsets({tp: -1})
    with Broker(topics={"t": 1}, kafka_version="2.8") as old, Admin(bootstrap_servers=old.bootstrap_servers) as admin:
        found = admin.list_offsets({tp: OffsetSpec.MAX_TIMESTAMP})
        with pytest.raises(UnsupportedVersionError, match=r"largest timestamp of t-0 needs Kafka 3\.0 or later"):
            found[tp]


def test_alter_and_describe_configs(three_brokers):
    _, admin = three_brokers
    topic = ConfigResource.topic("t")
    change = ConfigChange(set={"retention.ms": "7"}, append={"cleanup.policy": "compact,delete"})
    assert admin.alter_configs({topic: change}) == {topic: None}
    found = admin.describe_configs([topic])[topic]
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("7", ConfigSource.TOPIC)
    # APPEND to a config that is not set starts from the default, as in Kafka.
    assert found["cleanup.policy"].value == "delete,compact"
    assert found["max.message.bytes"].source == ConfigSource.DEFAULT
    admin.alter_configs({topic: ConfigChange(delete=("retention.ms",), subtract={"cleanup.policy": "delete"})})
    found = admin.describe_configs({topic: ["retention.ms", "cleanup.policy"]})[topic]
    assert {name: entry.value for name, entry in found.items()} == {
        "cleanup.policy": "compact", "retention.ms": "604800000"
    }  # fmt: skip
    admin.alter_configs({topic: {"retention.ms": "9"}}, validate_only=True)
    assert admin.describe_configs([topic])[topic]["retention.ms"].value == "604800000"
    # A broker knows only its own configs, so they are requested from that broker. If a broker is missing, only its
    # configs fail.
    brokers = [ConfigResource.broker(n) for n in (0, 1, 2)]
    shared, group = ConfigResource.broker(), ConfigResource.group("g")
    admin.alter_configs({**{b: {"log.retention.ms": b.name} for b in brokers}, shared: {"x": "y"}, group: {"z": "1"}})
    found = admin.describe_configs([*brokers, shared, group, ConfigResource.broker(9), ConfigResource.topic("nope")])
    assert [found[b]["log.retention.ms"].value for b in brokers] == ["0", "1", "2"]
    assert (found[shared]["x"].value, found[group]["z"].value) == ("y", "1")
    assert {of.name: type(e) for of, e in found.errors.items()} == {
        "9": ConfigurationError, "nope": UnknownTopicOrPartitionError
    }  # fmt: skip
    table = found.table()
    assert table.column_names[:4] == ["type", "name", "name_", "value"]
    assert set(table.column("type").to_pylist()) == {"BROKER", "GROUP"}
    with pytest.raises(InvalidConfigError, match="Unknown topic config name") as raised:
        admin.alter_configs({topic: {"no.such": "1"}, group: {"z": None}})
    assert list(raised.value.succeeded) == [group]
    assert topic in admin.list_config_resources()
    with pytest.raises(ConfigurationError, match="the name of a broker is its id"):
        admin.describe_configs([ConfigResource(topic.type.BROKER, "b")])


def test_alter_quotas_sends_one_request(three_brokers):
    broker, admin = three_brokers
    changes = {QuotaEntity({"user": f"u{n}"}): {"producer_byte_rate": float(n)} for n in range(1000)}
    changes[QuotaEntity({"user": None, "client-id": "c"})] = {"consumer_byte_rate": 2.5}
    assert len(admin.alter_quotas(changes)) == 1001
    assert broker.requests("AlterClientQuotas") == 1
    assert admin.describe_quotas({"user": "u7"}) == {QuotaEntity({"user": "u7"}): {"producer_byte_rate": 7.0}}
    assert len(admin.describe_quotas({"user": ANY}, strict=True)) == 1000
    assert len(admin.describe_quotas({"user": ANY})) == 1001
    assert list(admin.describe_quotas({"user": None})) == [QuotaEntity({"client-id": "c", "user": None})]
    with pytest.raises(ConfigurationError, match=r"quota producer_byte_rate of .*u7.* is NaN"):
        admin.alter_quotas({QuotaEntity({"user": "u7"}): {"producer_byte_rate": float("nan")}})
    with pytest.raises(TypeError, match="must be float or None, not str"):
        admin.alter_quotas({QuotaEntity({"user": "u7"}): {"producer_byte_rate": "10"}})
    bad = {QuotaEntity({"user": "u7"}): {"producer_byte_rate": None}, QuotaEntity({"user": "x"}): {"nope": 1.0}}
    with pytest.raises(InvalidRequestError, match="Invalid configuration key nope") as raised:
        admin.alter_quotas(bad)
    assert list(raised.value.succeeded) == [QuotaEntity({"user": "u7"})]
    assert admin.describe_quotas({"user": "u7"}) == {}


def test_group_lag_sends_one_request_per_coordinator_and_leader(three_brokers):
    broker, admin = three_brokers
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for p in range(6):
            producer.send("t", b"x", partition=p).result(10)
    tps = [TopicPartition("t", p) for p in range(6)]
    some = [f"g{n}" for n in range(40)]
    for group in some:
        admin.commit_offsets(group, dict.fromkeys(tps, 0))
    groups = [*some, *(f"none{n}" for n in range(9960))]
    before = broker.requests()
    found = admin.group_lag(groups)
    requests = {api: count - before.get(api, 0) for api, count in broker.requests().items()}
    assert (requests["FindCoordinator"], requests["OffsetFetch"], requests["ListOffsets"]) == (1, 3, 3)
    assert len(found) == 10_000
    assert [found[g].total for g in some] == [6] * 40
    assert found["none1"].partitions == ()
    assert found["g1"].partitions[0].committed == OffsetAndMetadata(0)


def test_controller_change_retries_the_pending_items(three_brokers):
    broker, admin = three_brokers
    admin.create_topics(["a"])
    broker.fail("CreateTopics", error="NOT_CONTROLLER", times=2)
    broker.stop_broker(0)
    made = admin.create_topics(["b", "c"], timeout=20)
    assert list(made) == ["b", "c"]
    broker.fail("CreatePartitions", error="THROTTLING_QUOTA_EXCEEDED", times=1)
    assert admin.create_partitions({"b": 2}) == {"b": None}
    broker.fail("CreateTopics", error="NOT_CONTROLLER", times=None)
    with pytest.raises(KafkaTimeoutError, match=r"CreateTopics of topic d .*NOT_CONTROLLER"):
        admin.create_topics(["d"], timeout=2)
    broker.heal("CreateTopics")
    with pytest.raises(TopicAlreadyExistsError) as raised:
        admin.create_topics(["d", "b"])
    assert list(raised.value.succeeded) == ["d"]


def test_elect_leaders(three_brokers):
    _, admin = three_brokers
    tps = [TopicPartition("t", p) for p in range(6)]
    assert admin.elect_leaders() == {}
    assert admin.elect_leaders(tps[:2]) == dict.fromkeys(tps[:2], False)
    nowhere = TopicPartition("nope", 0)
    with pytest.raises(UnknownTopicOrPartitionError) as raised:
        admin.elect_leaders([tps[0], nowhere])
    assert raised.value.succeeded == {tps[0]: False}


def test_describe_cluster_features_and_log_dirs(three_brokers):
    _, admin = three_brokers
    found = admin.describe_cluster()
    assert [b.id for b in found.brokers] == [0, 1, 2]
    assert found.controller == 0
    assert "transaction.version" in admin.describe_features().supported
    dirs = admin.log_dirs()
    assert sorted(dirs) == [0, 1, 2]
    assert {r.partition for of in dirs.values() for d in of for r in d.replicas} == {
        TopicPartition("t", p) for p in range(6)
    }
    assert isinstance(admin.log_dirs([7]).errors[7], ConfigurationError)
    assert dirs.table().column_names[:2] == ["key", "path"]


def test_reassignments_and_describe_quorum(three_brokers):
    broker, admin = three_brokers
    tps = [TopicPartition("t", p) for p in range(3)]
    with pytest.raises(PartialFailureError) as raised:
        admin.alter_reassignments({tps[0]: [1, 2], tps[1]: [9], TopicPartition("nope", 0): [0]})
    assert list(raised.value.succeeded) == [tps[0]]
    assert {type(e).__name__ for e in raised.value.failures.values()} == {
        "InvalidReplicaAssignmentError", "UnknownTopicOrPartitionError"
    }  # fmt: skip
    [moved, *_] = admin.describe_topics(["t"])["t"].partitions
    assert (moved.replicas, moved.leader) == ((1, 2), 1)
    assert admin.list_reassignments() == {}
    with pytest.raises(NoReassignmentInProgressError):
        admin.alter_reassignments({tps[0]: None})
    with pytest.raises(InvalidReplicationFactorError):
        admin.alter_reassignments({tps[0]: [1]}, allow_replication_factor_change=False)
    broker.move_leader("t", 0, 2)
    assert admin.elect_leaders([tps[0]]) == {tps[0]: True}
    assert admin.describe_topics(["t"])["t"].partitions[0].leader == 1
    quorum = admin.describe_quorum()
    assert (quorum.leader, [v.id for v in quorum.voters]) == (0, [0])
    for describe in (admin.describe_share_groups, admin.describe_streams_groups):
        found = describe(["g", "h"])
        assert {name: type(e) for name, e in found.errors.items()} == dict.fromkeys("gh", GroupIdNotFoundError)


def test_remove_members_rejects_unknown_members(three_brokers):
    _, admin = three_brokers
    admin.commit_offsets("g", {TopicPartition("t", 0): 1})
    assert admin.remove_members("g") == {}
    with pytest.raises(UnknownMemberIdError, match="member m of group g"):
        admin.remove_members("g", ["m", RemovedMember(instance_id="i")])


def test_error_names_the_required_kafka_version():
    with Broker(topics={"t": 1}, kafka_version="2.2") as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as a:
        tp = TopicPartition("t", 0)
        for call, needed in (
            (lambda: a.alter_configs({ConfigResource.topic("t"): {"retention.ms": "1"}}), "2.3"),
            (lambda: a.alter_reassignments({tp: [0]}), "2.4"),
            (lambda: a.alter_quotas({QuotaEntity({"user": "u"}): {"producer_byte_rate": 1.0}}), "2.6"),
            (lambda: a.update_features({"f": 1}), "2.7"),
            (lambda: a.describe_producers([tp]), "2.8"),
            (lambda: a.list_transactions(), "3.0"),
            (lambda: a.describe_quorum(), "3.3"),
            (lambda: a.list_config_resources(), "3.7"),
            (lambda: a.describe_share_groups(["g"]), "4.1"),
            (lambda: a.describe_cluster(include_fenced=True), "2.8"),
            (lambda: a.delete_topics([UUID(int=5)]), "2.8"),
        ):
            with pytest.raises(UnsupportedVersionError, match=rf"needs Kafka {needed}"):
                call()
        # For older brokers, Admin falls back to requests that they support.
        assert [b.id for b in a.describe_cluster().brokers] == [0]
        assert len(a.describe_topics(["t"])["t"].partitions) == 1


def test_async_admin_results_and_failures(three_brokers):
    broker, _ = three_brokers

    async def main():
        async with AsyncAdmin(bootstrap_servers=broker.bootstrap_servers) as admin:
            made, listed = await asyncio.gather(admin.create_topics(["a"]), admin.list_topics())
            assert made["a"].partitions == 1
            assert "t" in listed
            with pytest.raises(TopicAlreadyExistsError) as raised:
                await admin.create_topics(["a", "b"])
            assert list(raised.value.succeeded) == ["b"]
            found = await admin.describe_topics(["a", "nope"])
            assert isinstance(found.errors["nope"], UnknownTopicOrPartitionError)

    asyncio.run(main())
