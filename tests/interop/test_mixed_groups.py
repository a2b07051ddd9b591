"""A group with members of three clients, led by each of them."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Protocol

import confluent_kafka
import pytest

from samsarrow import Consumer, Producer, TopicPartition
from support.kafka import SUPPORT, KafkaServer
from support.peers.java_api import JavaPeer

STRATEGIES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}
# The first member is the leader until it leaves.
ORDERS = [("ours", "java", "confluent"), ("java", "confluent", "ours"), ("confluent", "ours", "java")]
_numbers = itertools.count()


class Member(Protocol):
    """Interface of a running group member, for any of the three clients."""

    def look(self) -> tuple[set[TopicPartition], list[bytes]]:
        """Returns the assigned partitions, and the values read since the last call."""

    def close(self) -> None:
        """Leaves the group."""


class Threaded:
    """A consumer that polls in its own thread."""

    def __init__(self) -> None:
        self._owned: set[TopicPartition] = set()
        self._values: deque[bytes] = deque()
        self._error: BaseException | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._leaving.is_set():
                self._values.extend(self._poll())
                self._owned = self._assignment()
            self._leave()
        except BaseException as error:
            self._error = error

    def _poll(self) -> list[bytes]:
        raise NotImplementedError

    def _assignment(self) -> set[TopicPartition]:
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError

    def look(self) -> tuple[set[TopicPartition], list[bytes]]:
        if self._error is not None:
            raise self._error
        return self._owned, [self._values.popleft() for _ in range(len(self._values))]

    def close(self) -> None:
        self._leaving.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


class Ours(Threaded):
    def __init__(self, options: dict[str, Any], topics: list[str]) -> None:
        self._consumer = Consumer(options)
        self._consumer.subscribe(topics)
        super().__init__()

    def _poll(self) -> list[bytes]:
        return self._consumer.poll(0.05).column("value").to_pylist()

    def _assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment()

    def _leave(self) -> None:
        self._consumer.close(20)


class Confluent(Threaded):
    def __init__(self, options: dict[str, Any], topics: list[str]) -> None:
        self._consumer = confluent_kafka.Consumer(options)
        self._consumer.subscribe(topics)
        super().__init__()

    def _poll(self) -> list[bytes]:
        messages = self._consumer.consume(100, 0.05)
        return [value for m in messages if m.error() is None and isinstance(value := m.value(), bytes)]

    def _assignment(self) -> set[TopicPartition]:
        return {TopicPartition(tp.topic, tp.partition) for tp in self._consumer.assignment()}

    def _leave(self) -> None:
        self._consumer.close()


class Java:
    def __init__(self, peer: JavaPeer, options: dict[str, Any], topics: list[str]) -> None:
        self._peer, self._name = peer, f"member-{next(_numbers)}"
        peer.call("join", name=self._name, config=options, topics=topics)

    def look(self) -> tuple[set[TopicPartition], list[bytes]]:
        seen = self._peer.call("look", name=self._name)
        return {TopicPartition(*tp) for tp in seen["owned"]}, [base64.b64decode(v) for v in seen["values"]]

    def close(self) -> None:
        self._peer.call("leave", name=self._name)


class Victim:
    """A member in a separate process that is killed instead of leaving."""

    def __init__(self, maker: str, options: dict[str, Any], topics: list[str]) -> None:
        command = [sys.executable, str(SUPPORT / "mixed_member.py"), maker, json.dumps(options), *topics]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._owned: set[TopicPartition] = set()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._owned = {TopicPartition(*tp) for tp in json.loads(line)}

    def look(self) -> tuple[set[TopicPartition], list[bytes]]:
        assert self._process.poll() is None
        return self._owned, []

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()


class Group:
    """The members, the partitions that they share, and a producer for these partitions."""

    def __init__(self, partitions: list[TopicPartition], producer: Producer) -> None:
        self.partitions = set(partitions)
        self.members: dict[str, Member] = {}
        self._producer = producer
        self._seen: Counter[bytes] = Counter()
        self._round = 0

    def _look(self) -> dict[str, set[TopicPartition]]:
        owned = {}
        for name, member in self.members.items():
            owned[name], values = member.look()
            self._seen.update(values)
        return owned

    def _until(self, done: Callable[[dict[str, set[TopicPartition]]], bool]) -> None:
        deadline = time.monotonic() + 90
        while not done(owned := self._look()):
            assert time.monotonic() < deadline, {name: sorted(tps) for name, tps in owned.items()}
            time.sleep(0.02)

    def settle(self) -> None:
        """Waits until each partition has one owner and each member has at least one partition."""

        def shared(owned: dict[str, set[TopicPartition]]) -> bool:
            counts = Counter(tp for tps in owned.values() for tp in tps)
            return all(owned.values()) and set(counts) == self.partitions and set(counts.values()) == {1}

        self._until(shared)

    def read(self) -> None:
        """Sends one record to each partition, and checks that each record is read once."""
        self._round += 1
        fresh = {f"{self._round} {tp.topic} {tp.partition}".encode(): tp for tp in self.partitions}
        for value, tp in fresh.items():
            self._producer.send(tp.topic, value, partition=tp.partition)
        self._producer.flush()
        self._until(lambda _: all(value in self._seen for value in fresh))
        self._look()
        assert [value for value in fresh if self._seen[value] != 1] == []


@pytest.fixture
def join(kafka: KafkaServer, java: JavaPeer) -> Iterator[Callable[..., Member]]:
    """Returns a function that starts a member: `join(maker, strategy, group, topics)`."""
    with ExitStack() as stack:

        def start(maker: str, strategy: str, group: str, topics: Iterable[str], dies: bool = False) -> Member:
            options = {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": "2000" if dies else "10000",
                "heartbeat.interval.ms": "200",
                "partition.assignment.strategy": STRATEGIES[strategy] if maker == "java" else strategy,
            }
            names = list(topics)
            if dies:
                victim = Victim(maker, options, names)
                stack.callback(victim.close)
                return victim
            if maker == "java":
                return Java(java, options, names)
            return Ours(options, names) if maker == "ours" else Confluent(options, names)

        yield start


WAYS = [
    (strategy, order)
    for (i, strategy), (j, order) in itertools.product(enumerate(STRATEGIES), enumerate(ORDERS))
    # Runs each strategy and each leader at least once; all nine pairs with SAMSARROW_ALL_MIXES.
    if i == j or os.environ.get("SAMSARROW_ALL_MIXES")
]


@pytest.mark.parametrize(
    ("strategy", "order"), WAYS, ids=lambda way: way if isinstance(way, str) else f"{way[0]} leads"
)
def test_three_clients_share_a_group(
    kafka: KafkaServer,
    new_topic: Callable[..., str],
    join: Callable[..., Member],
    strategy: str,
    order: tuple[str, str, str],
) -> None:
    topics = {new_topic(20): 20, new_topic(10): 10}
    partitions = [TopicPartition(topic, p) for topic, count in topics.items() for p in range(count)]
    name = f"mixed-{min(topics)}"
    with Producer(bootstrap_servers=kafka.bootstrap_servers, linger_ms=0) as producer, ExitStack() as stack:
        group = Group(partitions, producer)
        with Consumer(bootstrap_servers=kafka.bootstrap_servers) as anyone:
            # Waits until the topics exist, because leaders of some clients refresh the metadata of a missing topic only
            # after minutes.
            assert sorted(tp for topic in topics for tp in anyone.partitions_for(topic)) == sorted(partitions)
        # A member in a process takes a while to start, so it joins some time after the first member.
        group.members[order[0]] = first = join(order[0], strategy, name, topics)
        group.settle()
        for maker in order[1:]:
            group.members[maker] = stack.enter_context(closing(join(maker, strategy, name, topics)))
        group.settle()
        group.read()
        # The killed member is ours, unless ours is the leader.
        victim = group.members["victim"] = join(
            "confluent" if order[0] == "ours" else "ours", strategy, name, topics, dies=True
        )
        group.settle()
        victim.close()
        del group.members["victim"]
        group.settle()
        group.read()
        # The leader leaves; another member takes over.
        del group.members[order[0]]
        first.close()
        group.settle()
        group.read()
