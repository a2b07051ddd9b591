"""Other clients' consumers in groups on the embedded broker."""

import contextlib
import threading
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest

from samsarrow import Admin, GroupDescription, Producer
from samsarrow.exceptions import NonEmptyGroupError
from samsarrow.testing import Broker
from support.waiting import until

PARTITIONS = 6
CLASSIC = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 50}
KINDS = {
    "range": {"partition.assignment.strategy": "range", **CLASSIC},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky", **CLASSIC},
    "uniform": {"group.protocol": "consumer", "group.remote.assignor": "uniform"},
    "server's range": {"group.protocol": "consumer", "group.remote.assignor": "range"},
}


class Member:
    """A consumer of confluent-kafka in group `g` with its own thread, and the values that it read.

    A commit waits behind a JoinGroup request on the same connection. The response to JoinGroup requires that the other
    members rejoin, so they must keep polling.
    """

    def __init__(self, servers: str, **options: object) -> None:
        self.seen: list[bytes] = []
        self.partitions: set[int] = set()
        self._dirty = False
        self._leave = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                **options,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._consumer.subscribe(["t"])
        while not self._leave.is_set():
            message = self._consumer.poll(0.02)
            self.partitions = {p.partition for p in self._consumer.assignment()}
            if message is not None and message.error() is None:
                value = message.value()
                assert isinstance(value, bytes)
                self._dirty = True
                self._commit()
                self.seen.append(value)
            self._commit()
        self._commit()
        self._consumer.close()

    def _commit(self) -> None:
        # A rebalance may make the commit fail; the next commit then covers these offsets.
        if self._dirty:
            with contextlib.suppress(confluent_kafka.KafkaException):
                self._consumer.commit(asynchronous=False)
                self._dirty = False

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def how(members: list[Member]) -> Callable[[], object]:
    """Returns a function that describes the members, for the message of a timeout."""
    return lambda: [(sorted(member.partitions), len(member.seen)) for member in members]


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
def test_members_share_and_one_takes_over(broker: Broker, kind: str) -> None:
    servers = broker.bootstrap_servers
    written = produce(servers, range(60))
    first, second = Member(servers, **KINDS[kind]), Member(servers, **KINDS[kind])
    both = [first, second]
    until(lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2, how(both))
    assert first.partitions.isdisjoint(second.partitions)
    until(lambda: {*first.seen, *second.seen} == written, how(both))
    with Admin(bootstrap_servers=servers) as admin:
        described = admin.describe_groups(["g"])["g"]
        assert isinstance(described, GroupDescription)
        assert described.state == "Stable"
        assert {frozenset(tp.partition for tp in m.assignment) for m in described.members} == {
            frozenset(first.partitions),
            frozenset(second.partitions),
        }
        assert admin.list_groups()["g"].state == "Stable"
        with pytest.raises(NonEmptyGroupError):
            admin.delete_groups(["g"])
    second.leave()
    until(lambda: len(first.partitions) == PARTITIONS, how([first]))
    seen = len(first.seen)
    written = produce(servers, range(100, 130))
    until(lambda: written <= set(first.seen), how([first]))
    assert len(first.seen) == seen + 30, "what the other had committed is not read again"
    first.leave()


@pytest.mark.parametrize("kind", ["range", "uniform"])
def test_static_member_returns_without_rebalance(broker: Broker, kind: str) -> None:
    servers, options = broker.bootstrap_servers, KINDS[kind]
    one, two = (Member(servers, **options, **{"group.instance.id": name}) for name in ("one", "two"))
    until(lambda: len(one.partitions) == len(two.partitions) == PARTITIONS // 2, how([one, two]))
    had = two.partitions
    two.leave()
    again = Member(servers, **options, **{"group.instance.id": "two"})
    until(lambda: again.partitions == had, how([one, again]))
    assert len(one.partitions) == PARTITIONS // 2
    for member in (one, again):
        member.leave()
