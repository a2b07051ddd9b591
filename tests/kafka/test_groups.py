"""Admin lists, describes and deletes groups of other clients, and changes their offsets."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka as ck
import pytest

from samsarrow import Admin, GroupDescription, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.exceptions import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    NonEmptyGroupError,
    UnknownMemberIdError,
    UnsupportedVersionError,
)
from samsarrow.results import PartialFailureError
from support.kafka import KafkaServer
from support.waiting import until


@pytest.fixture
def admin(kafka: KafkaServer) -> Iterator[Admin]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def topic(kafka: KafkaServer, new_topic: Callable[..., str]) -> str:
    """A topic of three partitions with ten records each."""
    name = new_topic(3)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for partition in range(3):
            for i in range(10):
                producer.send(name, b"%d" % i, partition=partition)
    return name


@contextmanager
def member(kafka: KafkaServer, group: str, topic: str, protocol: str) -> Iterator[ck.Consumer]:
    """A confluent-kafka consumer to which all partitions of a topic are assigned."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "client.id": "their-client",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "group.protocol": protocol,
        }
    )  # fmt: skip
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + 60
        while len(consumer.assignment()) < 3:
            consumer.poll(0.2)
            assert time.monotonic() < deadline, "no assignment"
        yield consumer
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_with_and_without_members(kafka: KafkaServer, admin: Admin, topic: str, protocol: str) -> None:
    group = f"{protocol}-group-of-{topic}"
    all_three = tuple(TopicPartition(topic, p) for p in range(3))
    with member(kafka, group, topic, protocol) as consumer:
        consumer.commit(offsets=[ck.TopicPartition(topic, 1, 4, "theirs")], asynchronous=False)
        listed = admin.list_groups()[group]
        assert (listed.protocol_type, listed.state, listed.type) == ("consumer", "Stable", protocol)
        described = admin.describe_groups([group, "nobody"])
        assert list(described) == [group, "nobody"]
        assert isinstance(described.errors["nobody"], GroupIdNotFoundError)
        result = described[group]
        assert isinstance(result, GroupDescription)
        assert (result.group, result.type, result.state, result.active) == (group, protocol, "Stable", True)
        assert result.assignor == {"classic": "range", "consumer": "uniform"}[protocol]
        [one] = result.members
        assert (one.client_id, one.host, one.assignment) == ("their-client", "/127.0.0.1", all_three)
        assert one.target == (None if protocol == "classic" else all_three)
        # While the group has members, only the members may commit, and neither its offsets nor the group can be
        # deleted.
        with pytest.raises(UnknownMemberIdError, match="the group has members"):
            admin.commit_offsets(group, {all_three[0]: 1})
        with pytest.raises(NonEmptyGroupError):
            admin.delete_groups([group])
        with pytest.raises(GroupSubscribedToTopicError):
            admin.delete_offsets(group, [all_three[1]])
        theirs = admin.fetch_offsets(group)[all_three[1]]
        assert theirs is not None
        assert (theirs.offset, theirs.metadata.rstrip("\0")) == (4, "theirs")

    def after() -> GroupDescription:
        result = admin.describe_groups([group])[group]
        assert isinstance(result, GroupDescription)
        return result

    # The member may still be in the group, because its client need not wait for the response to LeaveGroup.
    until(lambda: after().state == "Empty", after)
    assert (after().members, after().active) == ((), False)
    assert admin.commit_offsets(group, {all_three[0]: OffsetAndMetadata(7, "ours")}) == {all_three[0]: None}
    assert admin.delete_offsets(group, [all_three[1]]) == {all_three[1]: None}
    assert admin.fetch_offsets(group) == {all_three[0]: OffsetAndMetadata(7, "ours")}
    with pytest.raises(GroupIdNotFoundError) as raised:
        admin.delete_groups([group, "nobody"])
    assert isinstance(raised.value, PartialFailureError)
    assert raised.value.succeeded == {group: None}
    assert group not in admin.list_groups()
    assert admin.fetch_offsets(group) == {}


def test_committing_offsets_creates_a_group(kafka: KafkaServer, admin: Admin, topic: str) -> None:
    group, tp = f"offsets-of-{topic}", TopicPartition(topic, 2)
    for version in range(2, 11):
        retention = 3600.0 if version <= 4 else None
        done = admin.commit_offsets(group, {tp: version}, api_version=version, retention=retention)
        assert done == {tp: None}
        assert admin.fetch_offsets(group, api_version=version) == {tp: OffsetAndMetadata(version)}
        assert admin.fetch_offsets_many([group, "nobody"], api_version=version) == {
            group: {tp: OffsetAndMetadata(version)}, "nobody": {}
        }  # fmt: skip
    assert admin.fetch_offsets(group, [tp], api_version=1) == {tp: OffsetAndMetadata(10)}
    assert (admin.list_groups()[group].protocol_type, admin.list_groups()[group].state) == ("", "Empty")
    with pytest.raises(
        UnsupportedVersionError, match=r"OffsetCommit v0 .* supports v2 to v10 .*Kafka 3.9 was the last"
    ):
        admin.commit_offsets(group, {tp: 1}, api_version=0)
    with pytest.raises(UnsupportedVersionError, match=r"OffsetFetch v0 .* supports v1 to v10 .*ZooKeeper"):
        admin.fetch_offsets(group, [tp], api_version=0)
    node = admin.find_coordinator(group)
    assert f"{node.host}:{node.port}" == kafka.bootstrap_servers
