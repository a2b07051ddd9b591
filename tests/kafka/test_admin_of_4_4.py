"""Admin operations that need Kafka 4.4."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from samsarrow import Admin, Consumer
from samsarrow.exceptions import ControllerIdNotRegisteredError, GroupIdNotFoundError, NonEmptyGroupError
from support.kafka import server_of
from support.waiting import until


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with server_of("4.4.0") as server:
        yield server.bootstrap_servers


def test_controller_that_is_not_registered(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin, pytest.raises(ControllerIdNotRegisteredError):
        admin.unregister_controller(99)


def test_errors_of_deleted_groups(servers: str) -> None:
    with (
        Admin(bootstrap_servers=servers) as admin,
        Consumer(bootstrap_servers=servers, group_id="members") as consumer,
    ):
        consumer.subscribe(["missing"])
        until(lambda: (consumer.poll(0.2), "members" in admin.list_groups(states=["Stable"]))[1])
        with pytest.raises(NonEmptyGroupError, match="DeleteGroups of group members"):
            admin.delete_groups(["members"])
        with pytest.raises(GroupIdNotFoundError, match="DeleteGroups of group none"):
            admin.delete_groups(["none"])


def test_streams_group_that_does_not_exist(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin, pytest.raises(GroupIdNotFoundError):
        admin.describe_streams_groups(["none"])["none"]


def test_features(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        finalized = admin.describe_features().finalized
    # Dead letters of share groups (KIP-1191).
    assert finalized["share.version"][1] == 2
    assert finalized["transaction.version"][1] == 2
