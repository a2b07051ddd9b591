"""Offsets of a topic that is deleted and created again during a transaction (KIP-1319)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from samsarrow import Admin, Consumer, ConsumerGroupMetadata, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import IllegalGenerationError, TransactionAbortableError
from samsarrow.testing import Broker
from support.kafka import server_of
from support.waiting import until

# The first Apache Kafka whose TxnOffsetCommit has topic ids.
FIRST_WITH_IDS = "4.4.0"


@pytest.fixture(scope="module", params=["embedded", FIRST_WITH_IDS])
def servers(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "embedded":
        with Broker() as broker:
            yield broker.bootstrap_servers
    else:
        with server_of(request.param) as server:
            yield server.bootstrap_servers


def filled(servers: str, topic: str, count: int) -> None:
    """Creates the topic with `count` records."""
    with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        admin.create_topics([NewTopic(topic, 1, 1)])
        until(lambda: topic in admin.list_topics([topic]))
        for n in range(count):
            producer.send(topic, b"%d" % n)


def committed(servers: str, group: str, topic: str) -> int | None:
    with Admin(bootstrap_servers=servers) as admin:
        offset = admin.fetch_offsets(group).get(TopicPartition(topic, 0))
    return None if offset is None else offset.offset


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_topic_created_again_in_a_transaction(servers: str, protocol: str) -> None:
    topic, output, group = f"in-{protocol}", f"out-{protocol}", f"g-{protocol}"
    filled(servers, topic, 5)
    filled(servers, output, 0)
    with (
        Consumer(
            bootstrap_servers=servers, group_id=group, group_protocol=protocol, enable_auto_commit=False,
            auto_offset_reset="earliest",
        ) as consumer,
        Producer(bootstrap_servers=servers, transactional_id=f"copy-{protocol}") as producer,
    ):  # fmt: skip
        consumer.subscribe([topic])
        rows = []
        until(lambda: (rows.append(consumer.poll(0.5)), rows[-1].num_rows)[1])
        with producer.transaction():
            producer.send(output, b"a")
            producer.send_offsets_to_transaction(rows[-1].slice(0, 2), consumer.group_metadata())
        until(lambda: committed(servers, group, topic) == 2)
        member = consumer.group_metadata()
        producer.begin_transaction()
        producer.send(output, b"b")
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics([topic])
            until(lambda: topic not in admin.list_topics())
        filled(servers, topic, 9)
        started = time.monotonic()
        with pytest.raises(TransactionAbortableError, match=f"{topic}-0.*was deleted, or deleted and created again"):
            producer.send_offsets_to_transaction(rows[-1], member, timeout=30)
        assert time.monotonic() - started < 15
        producer.abort_transaction()
        assert committed(servers, group, topic) is None
        with producer.transaction():
            producer.send(output, b"c")
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed") as reader:
        reader.assign_topics(output)
        assert reader.reader().read_all()["value"].to_pylist() == [b"a", b"c"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_old_generation_is_one_error_on_all_brokers(servers: str, protocol: str) -> None:
    """Brokers with topic ids distinguish stale epochs and missing groups, earlier ones do not."""
    topic, group = f"generations-{protocol}", f"generations-{protocol}"
    filled(servers, topic, 3)
    with (
        Consumer(bootstrap_servers=servers, group_id=group, group_protocol=protocol) as consumer,
        Producer(bootstrap_servers=servers, transactional_id=f"generations-{protocol}") as producer,
    ):
        consumer.subscribe([topic])
        until(lambda: (consumer.poll(0.2), consumer.assignment())[1])
        offsets = {TopicPartition(topic, 0): 1}
        member = consumer.group_metadata()
        producer.partitions_for(topic)
        for group_id, generation in ((group, member.generation - 1), (f"no-{group}", 1)):
            producer.begin_transaction()
            old = ConsumerGroupMetadata(group_id, member.member_id, generation, None)
            with pytest.raises(IllegalGenerationError):
                producer.send_offsets_to_transaction(offsets, old, timeout=30)
            producer.abort_transaction()
