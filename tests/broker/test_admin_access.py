"""ACLs, users, delegation tokens, features, log directories and list filters on the embedded broker."""

import time

import pytest

from samsarrow import (
    AclBinding,
    AclFilter,
    AclOperation,
    Admin,
    PatternType,
    Producer,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    TopicPartition,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from samsarrow.admin_types import ConfigChange, ConfigResource, OffsetSpec
from samsarrow.cluster_types import FeatureUpdate, Replica, UpgradeType
from samsarrow.exceptions import (
    ConfigurationError,
    DelegationTokenNotFoundError,
    DelegationTokenRequestNotAllowedError,
    GroupIdNotFoundError,
    InvalidConfigError,
    InvalidUpdateVersionError,
    LogDirNotFoundError,
    ReplicaNotAvailableError,
    ResourceNotFoundError,
    UnacceptableCredentialError,
    UnknownTopicOrPartitionError,
    UnsupportedEndpointTypeError,
    UnsupportedVersionError,
)
from samsarrow.testing import Broker

SHA256, SHA512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.fixture
def three():
    with Broker(brokers=3, topics={"t": 3}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield broker, admin


def test_acls_are_created_described_and_deleted(three):
    _, admin = three
    read = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.READ)
    write = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.WRITE)
    some = AclBinding(ResourceType.TOPIC, "t-", "User:bob", AclOperation.READ, pattern_type=PatternType.PREFIXED)
    assert admin.describe_acls() == []
    assert admin.create_acls([read, write, some, read]) == dict.fromkeys([read, write, some])
    assert set(admin.describe_acls()) == {read, write, some}
    assert admin.describe_acls(AclFilter(principal="User:bob")) == [some]
    applies = AclFilter(ResourceType.TOPIC, "t-1", pattern_type=PatternType.MATCH)
    assert admin.describe_acls(applies) == [some]
    nobody = AclFilter(principal="User:nobody")
    assert admin.delete_acls([read.to_filter(), nobody]) == {read.to_filter(): (read,), nobody: ()}
    assert set(admin.describe_acls()) == {write, some}


def test_scram_credentials_by_mechanism(three):
    _, admin = three
    assert admin.alter_users([
        UserScramCredentialUpsertion("alice", SHA256, "pw", iterations=4096),
        UserScramCredentialUpsertion("alice", SHA512, "pw", iterations=8192),
        UserScramCredentialUpsertion("bob", SHA256, "pw", iterations=4096),
    ]) == {"alice": None, "bob": None}  # fmt: skip
    found = admin.describe_users()
    assert found == {
        "alice": (ScramCredentialInfo(SHA256, 4096), ScramCredentialInfo(SHA512, 8192)),
        "bob": (ScramCredentialInfo(SHA256, 4096),),
    }
    with pytest.raises(ResourceNotFoundError) as raised:
        admin.alter_users([UserScramCredentialDeletion("bob", SHA512), UserScramCredentialDeletion("alice", SHA512)])
    assert list(raised.value.succeeded) == ["alice"]
    with pytest.raises(UnacceptableCredentialError, match="Too many iterations"):
        admin.alter_users([UserScramCredentialUpsertion("bob", SHA256, "pw", iterations=20_000)])
    admin.alter_users([UserScramCredentialDeletion("bob", SHA256)])
    found = admin.describe_users(["alice", "bob"])
    assert found["alice"] == (ScramCredentialInfo(SHA256, 4096),)
    with pytest.raises(ResourceNotFoundError, match="does not exist: bob"):
        found["bob"]


def test_initial_users_have_scram_credentials(three):
    users = {"alice": "secret"}
    with Broker(security="SASL_PLAINTEXT", users=users) as broker, Admin(broker.client_options()) as admin:
        assert [info.mechanism for info in admin.describe_users()["alice"]] == [SHA256, SHA512]


def test_delegation_tokens_need_a_login(three):
    _, anonymous = three
    with pytest.raises(DelegationTokenRequestNotAllowedError):
        anonymous.create_delegation_token()
    users = {"alice": "secret", "bob": "hidden", "carol": "third"}
    with Broker(security="SASL_PLAINTEXT", users=users) as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT",
                   "sasl.mechanism": "PLAIN"}  # fmt: skip
        clients = [Admin({**servers, "sasl.username": name, "sasl.password": users[name]}) for name in users]
        alice, bob, carol = clients
        try:
            token = alice.create_delegation_token(renewers=["User:bob"], max_lifetime=3600)
            assert token.owner == "User:alice"
            assert [found.token_id for found in bob.describe_delegation_tokens()] == [token.token_id]
            assert bob.describe_delegation_tokens(["User:bob"]) == carol.describe_delegation_tokens() == []
            assert bob.renew_delegation_token(token, renew_period=60) < alice.renew_delegation_token(token)
            alice.expire_delegation_token(token)
            assert alice.describe_delegation_tokens() == []
            with pytest.raises(DelegationTokenNotFoundError):
                alice.renew_delegation_token(b"no such hmac")
        finally:
            for client in clients:
                client.close()


def test_feature_downgrade_needs_an_upgrade_type(three):
    _, admin = three
    name = "transaction.version"
    before = admin.describe_features()
    assert before.finalized[name] == (2, 2)
    with pytest.raises(InvalidUpdateVersionError, match="without setting the upgrade type"):
        admin.update_features({name: 1})
    for feature, level in (("no.such.feature", 1), (name, 99)):
        with pytest.raises(InvalidUpdateVersionError, match=f"Invalid update version {level} for feature {feature}"):
            admin.update_features({feature: level})
    down = FeatureUpdate(1, UpgradeType.SAFE_DOWNGRADE)
    admin.update_features({name: down}, validate_only=True)
    assert admin.describe_features() == before
    admin.update_features({name: down})
    after = admin.describe_features()
    assert after.finalized[name] == (1, 1)
    assert after.epoch == before.epoch + 1


def test_move_replicas_between_log_dirs(three):
    _, admin = three
    [disk] = admin.log_dirs([0])[0]
    topic = admin.describe_topics(["t"])["t"]
    holder = topic.partitions[0].replicas[0]
    assert admin.move_replicas({Replica("t", 0, holder): disk.path}) == {Replica("t", 0, holder): None}
    admin.create_partitions({"t": 4})
    admin.alter_reassignments({TopicPartition("t", 3): [0]})
    for replica, path, error in (
        (Replica("t", 0, holder), "/nowhere", LogDirNotFoundError),
        (Replica("nope", 0, 0), disk.path, UnknownTopicOrPartitionError),
        (Replica("t", 3, 1), disk.path, ReplicaNotAvailableError),
    ):
        with pytest.raises(error):
            admin.move_replicas({replica: path})


def test_share_offsets_of_a_missing_group(three):
    _, admin = three
    assert admin.list_share_offsets(["s"])["s"] == {}
    with pytest.raises(GroupIdNotFoundError):
        admin.delete_share_offsets("s", ["t"])
    # Setting offsets creates the group.
    partition = TopicPartition("t", 0)
    admin.alter_share_offsets("s", {partition: 0})
    assert admin.list_share_offsets(["s"])["s"][partition].start == 0
    assert admin.describe_share_groups(["s"])["s"].state == "Empty"


def test_missing_topics_and_partitions_fail_early(three):
    broker, admin = three
    there, beyond, nowhere = TopicPartition("t", 0), TopicPartition("t", 9), TopicPartition("nope", 0)
    before, started = broker.requests("Metadata"), time.monotonic()
    found = admin.list_offsets(dict.fromkeys((there, beyond, nowhere), OffsetSpec.LATEST))
    assert time.monotonic() - started < 20, "of a minute that there is"
    assert broker.requests("Metadata") - before < 10
    assert list(found.found) == [there]
    for tp in (beyond, nowhere):
        with pytest.raises(UnknownTopicOrPartitionError, match=f"{tp.topic}"):
            found[tp]
    admin.create_topics(["gone"])
    admin.commit_offsets("g", {there: 0, TopicPartition("gone", 0): 0})
    admin.delete_topics(["gone"])
    lag = {one.partition: one for one in admin.group_lag(["g"])["g"].partitions}
    assert lag.keys() == {there}, "the broker forgets offsets with their topic"


def test_list_offsets_of_a_deleted_topic_in_cached_metadata(three):
    _, admin = three
    admin.create_topics(["gone"])
    tp = TopicPartition("gone", 0)
    assert admin.list_offsets({tp: OffsetSpec.LATEST})[tp].offset == 0
    admin.delete_topics(["gone"])
    started = time.monotonic()
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.list_offsets({tp: OffsetSpec.LATEST})[tp]
    assert time.monotonic() - started < 20


def test_list_offsets_by_time_after_delete_records(three):
    broker, admin = three
    tp = TopicPartition("t", 0)
    with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=1000) as producer:
        for n in range(6):
            producer.send("t", b"x", partition=0, timestamp=1000 * (n + 1))
    # Offset 3 is in the middle of the only batch.
    admin.delete_records({tp: 3})
    for at, offset in ((0, 3), (1500, 3), (4000, 3), (4500, 4), (OffsetSpec.MAX_TIMESTAMP, 5)):
        assert admin.list_offsets({tp: at})[tp].offset == offset, at


def test_append_and_subtract_need_a_list_config(three):
    _, admin = three
    topic = ConfigResource.topic("t")
    for change in (ConfigChange(append={"retention.ms": "1"}), ConfigChange(subtract={"retention.ms": "1"})):
        with pytest.raises(InvalidConfigError, match=r"key retention\.ms because its type is not LIST"):
            admin.alter_configs({topic: change})
    admin.alter_configs({topic: ConfigChange(subtract={"cleanup.policy": "delete"})})
    assert admin.describe_configs([topic])[topic]["cleanup.policy"].value == ""


def test_list_groups_filters(three):
    _, admin = three
    admin.commit_offsets("g", {TopicPartition("t", 0): 0})
    assert admin.list_groups(states=["empty"]).keys() == {"g"}
    assert admin.list_groups(states=["Stable"]) == admin.list_groups(types=["share"]) == {}
    assert admin.list_groups(types=["Classic", "consumer"]).keys() == {"g"}
    assert admin.list_groups(protocol_types=[""]).keys() == {"g"}
    assert admin.list_groups(protocol_types=["consumer"]) == {}
    with pytest.raises(TypeError, match="states must be an iterable of str"):
        admin.list_groups(states="Empty")
    with Broker(kafka_version="2.5") as old, Admin(bootstrap_servers=old.bootstrap_servers) as admin:
        assert admin.list_groups(protocol_types=["consumer"]) == {}
        for filters, needed in (({"states": ["Empty"]}, "2.6"), ({"types": ["classic"]}, "3.8")):
            with pytest.raises(UnsupportedVersionError, match=f"needs Kafka {needed}"):
                admin.list_groups(**filters)


@pytest.mark.parametrize("kafka_version", [None, "3.0"])
def test_authorized_operations_are_included_on_request(kafka_version):
    with (
        Broker(topics={"t": 1}, kafka_version=kafka_version) as broker,
        Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
    ):
        admin.commit_offsets("g", {TopicPartition("t", 0): 0})
        for requested in (True, False):
            options = {"include_authorized_operations": requested}
            topic = admin.describe_topics(["t"], **options)["t"]
            cluster = admin.describe_cluster(**options)
            group = admin.describe_groups(["g"], **options)["g"]
            found = [of.authorized_operations for of in (topic, cluster, group)]
            if requested:
                assert AclOperation.WRITE in found[0]
                assert AclOperation.CLUSTER_ACTION in found[1]
                assert set(found[2]) >= {AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE}
            else:
                assert found == [None, None, None]
        table = admin.describe_groups(["g"], include_authorized_operations=True).table()
        assert "READ" in table["authorized_operations"][0].as_py()


def test_bootstrap_controllers_rejects_broker_endpoints(three):
    broker, _ = three
    with Admin(bootstrap_controllers=broker.bootstrap_servers) as admin:
        with pytest.raises(UnsupportedEndpointTypeError, match="ListGroups"):
            admin.list_groups()
        with pytest.raises(UnsupportedEndpointTypeError, match="FindCoordinator"):
            admin.find_coordinator("g")
        with pytest.raises(UnsupportedEndpointTypeError, match="ListOffsets"):
            admin.list_offsets({TopicPartition("t", 0): OffsetSpec.LATEST})
    with pytest.raises(ConfigurationError, match="mutually exclusive"):
        Admin(bootstrap_servers="h:1", bootstrap_controllers="h:2")
    with pytest.raises(ConfigurationError, match=r"bootstrap\.controllers: .* is not host:port"):
        Admin(bootstrap_controllers="h")
