"""Wrong arguments of admin operations raise TypeErrors that name the argument and the position within it."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from samsarrow import Admin, AsyncAdmin, NewTopic, TopicPartition
from samsarrow._admin import access, cluster, configs, groups, offsets, replicas, topics, transactions

T0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with Admin(bootstrap_servers="127.0.0.1:1") as admin:
        yield admin


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: a.create_topics([5]), "create_topics: topics[0] must be str or NewTopic, not int"),
        (lambda a: a.create_topics("t"), "create_topics: topics must be an iterable of str or NewTopic, not one str"),
        (lambda a: a.create_topics(5), "create_topics: topics must be an iterable of str or NewTopic, not int"),
        (
            lambda a: a.create_topics(["t", NewTopic("t", num_partitions="x")]),
            "create_topics: topics[1].num_partitions must be int, not str",
        ),
        (
            lambda a: a.create_topics([NewTopic("t", configs={"retention.ms": {}})]),
            "setting retention.ms must be text, a number, true or false, or a list of texts, not dict",
        ),
        (
            lambda a: a.create_topics([NewTopic("t", assignment=[["x"]])]),
            "create_topics: topics[0].assignment[0][0] must be int, not str",
        ),
        (lambda a: a.create_partitions([5]), "create_partitions: partitions must be a mapping, not list"),
        (
            lambda a: a.create_partitions({"t": "x"}),
            "create_partitions: partitions['t'] must be int or NewPartitions, not str",
        ),
        (lambda a: a.delete_groups([5]), "delete_groups: groups[0] must be str, not int"),
        (lambda a: a.list_offsets({"t": 5}), "list_offsets: key 't' of partitions must be TopicPartition, not str"),
        (
            lambda a: a.delete_records({T0: "x"}),
            "delete_records: before[TopicPartition(topic='t', partition=0)] must be int, not str",
        ),
        (lambda a: a.fetch_offsets("g", [5]), "fetch_offsets: partitions[0] must be TopicPartition, not int"),
        (lambda a: a.describe_acls(5), "describe_acls: acl_filter must be AclFilter or None, not int"),
        (lambda a: a.alter_configs(5), "alter_configs: changes must be a mapping, not int"),
    ],
)
def test_errors_name_the_argument(admin: Admin, call: Callable[[Admin], Any], text: str) -> None:
    with pytest.raises(TypeError) as caught:
        call(admin)
    assert str(caught.value) == text


async def _create(topics: Any) -> None:
    async with AsyncAdmin(bootstrap_servers="127.0.0.1:1") as admin:
        await admin.create_topics(topics)


def test_async_clients_raise_the_same() -> None:

    with pytest.raises(TypeError, match=r"create_topics: topics\[0\] must be str or NewTopic, not int"):
        asyncio.run(_create([5]))


def test_errors_of_signatures_stay(admin: Admin) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nme'"):
        admin.create_topics([], nme=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("module", [access, cluster, configs, groups, offsets, replicas, topics, transactions])
def test_all_operations_name_their_arguments(module: Any) -> None:
    functions = [
        value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    operations = [value for value in functions if "core" in getattr(value, "__annotations__", {})]
    assert len(operations) > 4
    assert [value.__name__ for value in operations if not hasattr(value, "__wrapped__")] == []
