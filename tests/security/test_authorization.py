"""Operations denied by ACLs raise a specific error without re-authentication, and permitted ones still succeed."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.access import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from samsarrow.exceptions import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from support.fixtures import create_topic
from support.secure import SecureKafka
from support.waiting import until

LISTENER = "SASL_PLAINTEXT"
RESOURCES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)


@pytest.fixture(scope="module")
def denied(secure: SecureKafka) -> Iterator[str]:
    """Denies alice all operations on a prefix of names, and creation on the cluster; returns the prefix."""
    prefix = f"denied-{uuid4().hex[:8]}-"
    acls = [
        AclBinding(
            resource,
            "kafka-cluster" if resource is ResourceType.CLUSTER else prefix,
            "User:alice",
            AclOperation.CREATE if resource is ResourceType.CLUSTER else AclOperation.ALL,
            permission=AclPermission.DENY,
            pattern_type=PatternType.LITERAL if resource is ResourceType.CLUSTER else PatternType.PREFIXED,
        )
        for resource in RESOURCES
    ]
    with Admin(bootstrap_servers=secure.bootstrap_servers) as admin:
        admin.create_acls(acls)
        # Waits, because the broker applies the ACLs later than the controller.
        until(lambda: set(acls) <= set(admin.describe_acls()))
        admin.create_topics([f"{prefix}topic"])
    yield prefix
    with Admin(bootstrap_servers=secure.bootstrap_servers) as admin:
        admin.delete_acls([acl.to_filter() for acl in acls])
        until(lambda: not set(acls) & set(admin.describe_acls()))


def test_denied_operations_do_not_reauthenticate(secure: SecureKafka, denied: str) -> None:
    alice = secure.password("SCRAM-SHA-256", LISTENER).ours
    topic, allowed = f"{denied}topic", create_topic(secure)
    failed = secure.counted(LISTENER)["failed-authentication-total"]
    with (
        Producer(alice) as producer,
        Consumer(alice) as consumer,
        Consumer(alice, group_id=f"{denied}group") as member,
        Producer(alice, transactional_id=f"{denied}id") as transactional,
        Admin(alice) as admin,
    ):

        def all_of_it() -> None:
            with pytest.raises(TopicAuthorizationFailedError, match=topic):
                producer.send(topic, b"x").result(30)
            consumer.assign([TopicPartition(topic, 0)])
            with pytest.raises(TopicAuthorizationFailedError, match=topic):
                consumer.poll(30)
            member.subscribe([allowed])
            with pytest.raises(GroupAuthorizationFailedError, match=denied):
                member.poll(30)
            with pytest.raises(TransactionalIdAuthorizationFailedError, match=denied):
                transactional.init_transactions(30)
            with pytest.raises((ClusterAuthorizationFailedError, TopicAuthorizationFailedError), match=denied):
                admin.create_topics([f"{denied}new"], timeout=30)
            # Permitted operations succeed with the same clients.
            offset = producer.send(allowed, b"x").result(30).offset
            consumer.assign([TopicPartition(allowed, 0)])
            consumer.seek(TopicPartition(allowed, 0), offset)
            assert consumer.poll(30).column("value").to_pylist() == [b"x"]
            assert admin.list_topics([allowed], timeout=30)

        # Connections are opened on first use, and occasionally later.
        all_of_it()
        before = secure.counted(LISTENER)
        for _ in range(5):
            all_of_it()
        after = secure.counted(LISTENER)
    # Each round has five denials. A client that authenticated again after each denial would be counted 25 times.
    for name in ("successful-authentication-total", "connection-creation-total"):
        assert after[name] - before[name] <= 5
    assert after["failed-authentication-total"] == failed
