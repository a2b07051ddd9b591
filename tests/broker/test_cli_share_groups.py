"""Commands on share groups, on the embedded broker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow import Admin, TopicPartition
from samsarrow.admin_types import ConfigResource
from samsarrow.testing import Broker
from support.shares import ACCEPT, ShareMember

Command = Callable[..., Any]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 1}) as broker:
        yield broker


@pytest.fixture
def member(broker: Broker) -> Iterator[ShareMember]:
    """A member that has accepted 4 of 10 records. Kafka stores the start offset before this change."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.alter_configs({ConfigResource.group("workers"): {"share.auto.offset.reset": "earliest"}})
        admin.commit_offsets("readers", {TopicPartition("orders", 0): 0})
    member = ShareMember(broker.bootstrap_servers, "workers", "w1", "orders")
    member.join()
    member.produce(10)
    assert member.acquire() == [(0, 9, 1)]
    member.acknowledge((0, 1, [ACCEPT]), (5, 6, [ACCEPT]))
    yield member
    member.close()


def rows(result: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.out.splitlines()]


def test_describe_shows_partitions_and_members(command: Command, member: ShareMember) -> None:
    shown = rows(command("groups", "describe", "workers", "-o", "ndjson"))
    assert [(row["state"], row["topic"], row["offset"], row["end"], row["lag"]) for row in shown] == [
        ("Stable", "orders", 0, 10, 6),
        ("Stable", None, None, None, None),
    ]
    assert [row["member_id"] for row in shown] == [None, "w1"]
    both = {row["group"] for row in rows(command("groups", "describe", "-o", "ndjson"))}
    assert both == {"readers", "workers"}


def test_lag_counts_unfinished_records(command: Command, member: ShareMember) -> None:
    assert {row["group"]: row["lag"] for row in rows(command("groups", "lag", "-o", "ndjson"))} == {
        "readers": 10, "workers": 6,
    }  # fmt: skip
    [row] = rows(command("groups", "lag", "workers", "--partitions", "-o", "ndjson"))
    assert (row["offset"], row["end"], row["lag"]) == (0, 10, 6)
    watched = rows(command("groups", "watch", "workers", "--count", "1", "-o", "ndjson"))
    assert [(row["group"], row["partitions"], row["lag"]) for row in watched] == [("workers", 1, 6)]


def test_offsets_describe_shows_start_offsets(command: Command, member: ShareMember) -> None:
    [row] = rows(command("offsets", "describe", "workers", "-o", "ndjson"))
    assert (row["state"], row["offset"], row["end"], row["lag"]) == ("Stable", 0, 10, 6)
    everything = rows(command("offsets", "describe", "--all-groups", "-o", "ndjson"))
    assert [(row["group"], row["offset"]) for row in everything] == [("readers", 0), ("workers", 0)]
    exported = json.loads(command("offsets", "export", "--all-groups").out)
    assert "workers" not in json.dumps(exported)


def test_reset_changes_start_offsets(command: Command, broker: Broker, member: ShareMember) -> None:
    failed = command("offsets", "reset", "workers", "--all-topics", "--to-latest", "--force", code=1)
    assert "share group workers is active (Stable; members: raw at" in failed.err
    assert "--force has no effect" in failed.err
    member.acknowledge(session=-1)
    member.heartbeat(epoch=-1)
    # Brokers keep the state of the group in memory until the connection of its last session closes.
    member.close()
    dry = command("offsets", "reset", "workers", "--all-topics", "--to-latest", "--dry-run")
    assert "share group workers: 1 partitions change" in dry.out
    done = command("offsets", "reset", "workers", "--topic", "orders", "--to", "-3")
    assert "1 partitions written, read back and equal" in done.out
    [row] = rows(command("offsets", "describe", "workers", "-o", "ndjson"))
    assert (row["offset"], row["lag"]) == (7, 3)
    command("offsets", "reset", "workers", "--all-topics", "--shift-by", "-2")
    again = ShareMember(broker.bootstrap_servers, "workers", "w1", "orders")
    again.join()
    assert again.acquire() == [(5, 9, 1)]
    again.close()


def test_reset_before_the_first_acknowledgement(command: Command, broker: Broker) -> None:
    member = ShareMember(broker.bootstrap_servers, "new", "w1", "orders")
    member.join()
    member.produce(3)
    member.heartbeat(epoch=-1)
    command("offsets", "reset", "new", "--topic", "orders", "--to-earliest")
    member.session = member.epoch = 0
    member.join()
    assert member.acquire() == [(0, 2, 1)]
    member.close()


def test_reset_to_the_stored_start_delivers_finished_records_again(
    command: Command, broker: Broker, member: ShareMember
) -> None:
    """Earlier the reset did nothing, since Kafka stores the start offset after a delay: it is often behind."""
    failed = command("offsets", "reset", "workers", "--all-topics", "--to-earliest", code=1)
    assert "share group workers is active" in failed.err
    member.acknowledge(session=-1)
    member.heartbeat(epoch=-1)
    # Brokers keep the state of the group in memory until the connection of its last session closes.
    member.close()
    [row] = rows(command("offsets", "describe", "workers", "-o", "ndjson"))
    assert (row["offset"], row["lag"]) == (2, 6)
    done = command("offsets", "reset", "workers", "--all-topics", "--to-offset", "2")
    assert "1 partitions written, read back and equal" in done.out
    again = ShareMember(broker.bootstrap_servers, "workers", "w1", "orders")
    again.join()
    assert again.acquire() == [(2, 9, 1)]
    again.close()


def test_commands_without_share_groups_say_so(command: Command, member: ShareMember) -> None:
    for arguments in (
        ("groups", "kick", "workers", "--all", "--yes"),
        ("offsets", "export", "workers"),
        ("offsets", "copy", "workers", "readers"),
        ("offsets", "copy", "readers", "workers"),
        ("offsets", "delete", "workers", "--yes"),
        ("offsets", "delete", "workers", "--topic", "orders", "--yes"),
    ):
        assert "workers is a share group, which has no committed offsets" in command(*arguments, code=1).err


def test_top_and_doctor_know_share_groups(command: Command, member: ShareMember) -> None:
    [row] = rows(command("top", "workers", "--once", "--json", "-i", "200ms"))
    assert (row["type"], row["state"], row["partitions"], row["lag"]) == ("share", "Stable", 1, 6)
    assert "a share group, Stable, 1 member" in command("doctor", "--group", "workers").out


def test_delete_removes_start_offsets(command: Command, member: ShareMember) -> None:
    assert "workers" in command("groups", "delete", "workers", "--dry-run").out
    command("groups", "delete", "workers", "--yes", code=1)
    member.acknowledge(session=-1)
    member.heartbeat(epoch=-1)
    command("groups", "delete", "workers", "--yes")
    assert "workers" not in command("groups", "list").out
