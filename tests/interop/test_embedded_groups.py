"""Other makers' consumers in groups on the embedded broker."""

import contextlib
import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from samsarrow import Producer
from samsarrow.testing import Broker

PARTITIONS = 6
CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 50}
KINDS = {
    "range": {"partition.assignment.strategy": "range", **CLASSIC},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky", **CLASSIC},
}


class Member:
    """A consumer of confluent-kafka in group `g`, and what it read."""

    def __init__(self, servers: str, **options: object) -> None:
        self.seen: list[bytes] = []
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                **options,
            }
        )
        self.consumer.subscribe(["t"])

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None and message.error() is None:
            value = message.value()
            assert isinstance(value, bytes)
            self.seen.append(value)
            self.consumer.commit(message, asynchronous=False)

    @property
    def partitions(self) -> set[int]:
        return {p.partition for p in self.consumer.assignment()}


def until(members: list[Member], reached: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, [(sorted(m.partitions), len(m.seen)) for m in members]
        for member in members:
            # A commit may meet a rebalance; the record is read again by whoever has its partition then.
            with contextlib.suppress(confluent_kafka.KafkaException):
                member.poll()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(brokers=2, topics={"t": PARTITIONS}) as running:
        yield running


def produce(servers: str, values: range) -> set[bytes]:
    with Producer(bootstrap_servers=servers) as producer:
        for value in values:
            producer.send("t", str(value), partition=value % PARTITIONS)
    return {str(value).encode() for value in values}


@pytest.mark.parametrize("kind", KINDS)
def test_two_share_and_one_inherits(broker: Broker, kind: str) -> None:
    servers = broker.bootstrap_servers
    written = produce(servers, range(60))
    first, second = Member(servers, **KINDS[kind]), Member(servers, **KINDS[kind])
    both = [first, second]
    until(both, lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2)
    assert first.partitions.isdisjoint(second.partitions)
    until(both, lambda: {*first.seen, *second.seen} == written)
    second.consumer.close()
    until([first], lambda: len(first.partitions) == PARTITIONS)
    seen = len(first.seen)
    written = produce(servers, range(100, 130))
    until([first], lambda: written <= set(first.seen))
    assert len(first.seen) == seen + 30, "what the other had committed is not read again"
    first.consumer.close()


def test_a_static_member_comes_back_and_nobody_notices(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    one, two = (Member(servers, **KINDS["range"], **{"group.instance.id": name}) for name in ("one", "two"))
    until([one, two], lambda: len(one.partitions) == len(two.partitions) == PARTITIONS // 2)
    had = two.partitions
    two.consumer.close()
    again = Member(servers, **KINDS["range"], **{"group.instance.id": "two"})
    until([one, again], lambda: again.partitions == had)
    assert len(one.partitions) == PARTITIONS // 2
    for member in (one, again):
        member.consumer.close()
