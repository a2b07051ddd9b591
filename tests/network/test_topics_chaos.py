"""Some topics are deleted, recreated and resized beside a healthy topic, while brokers restart and links break.

By default runs for 15 s with the protocol `consumer`. If `SAMSARROW_CHAOS_SECONDS` is set (ten minutes in `make
test-chaos`), runs for this time with each group protocol. `SAMSARROW_CHAOS_SEED` is the seed of the faults.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from samsarrow import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from support.cluster import KafkaCluster
from support.measurements import tell
from support.proxy import Network

SECONDS = float(os.environ.get("SAMSARROW_CHAOS_SECONDS", "15"))
SEED = int(os.environ.get("SAMSARROW_CHAOS_SEED", "1"))
PARTITIONS = 3
MEMBERS = 3
SICK = ["sick-a", "sick-b"]
# Seconds without progress in a healthy partition, which waits only for rebalances and restarting leaders.
LONGEST_GAP = 40.0
MEMBER = Path(__file__).parents[1] / "support" / "chaos_member.py"
WAYS: dict[str, dict[str, Any]] = {
    "classic": {
        "partition_assignment_strategy": "cooperative-sticky",
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 500,
    },
    "consumer": {"group_protocol": "consumer"},
}


class Members:
    """The members of a group, each in its own process with its own output file."""

    def __init__(self, options: dict[str, Any], topics: list[str], folder: Path) -> None:
        self._folder = folder
        self._processes = []
        for number in range(MEMBERS):
            command = [
                sys.executable,
                str(MEMBER),
                json.dumps(options),
                ",".join(topics),
                str(folder / f"{number}.done"),
            ]
            with (folder / "log").open("ab") as log:
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def log(self) -> str:
        return (self._folder / "log").read_text()

    def alive(self) -> None:
        """Checks that no member has ended, for example because `poll` raised an exception."""
        assert [p.poll() for p in self._processes] == [None] * MEMBERS, self.log()[-4000:]

    def lines(self) -> Iterator[tuple[str, int, int, str, float]]:
        for path in self._folder.glob("*.done"):
            for line in path.read_text().splitlines():
                topic, partition, offset, value, at = line.split(" ")
                yield topic, int(partition), int(offset), value, float(at)

    def end(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            assert process.wait(60) == 0, self.log()[-4000:]

    def kill(self) -> None:
        for process in self._processes:
            with suppress(OSError):
                process.kill()
            process.wait()


class Source(threading.Thread):
    """Sends numbered records continuously, to each partition of the healthy topic and to the changing topics."""

    def __init__(self, servers: str, healthy: str, sick: list[str]) -> None:
        super().__init__(daemon=True)
        self._servers, self._healthy, self._sick = servers, healthy, sick
        self.over = threading.Event()
        self.sent = [0] * PARTITIONS
        self.places: dict[tuple[int, int], int] = {}
        self.odd: list[BaseException] = []

    def run(self) -> None:
        try:
            # The healthy topic has its own producer, because `send` to a missing topic waits for the topic, as in Java.
            with (
                Producer(bootstrap_servers=self._servers) as healthy,
                Producer(
                    bootstrap_servers=self._servers,
                    max_block_ms=50,
                    request_timeout_ms=10_000,
                    delivery_timeout_ms=20_000,
                ) as sick,
            ):
                deliveries = []
                while not self.over.wait(0.05):
                    for partition in range(PARTITIONS):
                        number = self.sent[partition]
                        deliveries.append((number, healthy.send(self._healthy, str(number), partition=partition)))
                        self.sent[partition] += 1
                    for topic in self._sick:
                        # The call fails quickly while the topic is missing.
                        with suppress(KafkaError):
                            sick.send(topic, "x", key=str(self.sent[0]))
                for number, delivery in deliveries:
                    metadata = delivery.result(120)
                    self.places[metadata.partition, number] = metadata.offset
                with suppress(KafkaError):
                    sick.close(5)
        except BaseException as error:
            self.odd.append(error)


class Watch(threading.Thread):
    """Monitors the committed offsets of the healthy topic, which never decrease."""

    def __init__(self, group: str, topic: str, servers: str) -> None:
        super().__init__(daemon=True)
        self._group, self._topic, self._servers = group, topic, servers
        self.over = threading.Event()
        self.last: dict[TopicPartition, int] = {}
        self.wrong: list[str] = []

    def run(self) -> None:
        with Admin(bootstrap_servers=self._servers) as admin:
            while not self.over.wait(0.3):
                try:
                    offsets = admin.fetch_offsets(self._group, timeout=20)
                except KafkaError:
                    continue
                for tp, at in offsets.items():
                    if at is None or tp.topic != self._topic:
                        continue
                    if at.offset < self.last.get(tp, 0):
                        self.wrong.append(f"{tp} went back from {self.last[tp]} to {at.offset}")
                    self.last[tp] = max(at.offset, self.last.get(tp, 0))


class Wreck:
    """Injects faults, one after the other."""

    def __init__(self, cluster: KafkaCluster, network: Network, sick: list[str], chance: random.Random) -> None:
        self._cluster, self._network, self._chance = cluster, network, chance
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        self._servers = cluster.bootstrap_servers
        self.counts: dict[str, int] = dict.fromkeys(sick, 2)
        self.events: list[tuple[float, str]] = []

    def run(self, members: Members) -> None:
        began = time.monotonic()
        works = [self.delay, self.reset, self.restart, self.grow, self.make_again, self.shrink]
        todo = list(works)
        self._chance.shuffle(todo)
        # Injects each fault at least once, even on a slow machine.
        while len(self.events) < len(works) or time.monotonic() - began < SECONDS:
            if not todo:
                todo = list(works)
                self._chance.shuffle(todo)
            work = todo.pop()
            self.events.append((round(time.monotonic() - began, 1), work.__name__))
            work()
            members.alive()
            time.sleep(self._chance.uniform(0.5, 1.5))

    def delay(self) -> None:
        self._network.each(lambda proxy: proxy.switch(delay=0.05, jitter=0.05))
        time.sleep(2)
        self._network.each(lambda proxy: proxy.switch(delay=0.0, jitter=0.0))

    def reset(self) -> None:
        for _ in range(3):
            self._network.each(lambda proxy: proxy.reset())
            time.sleep(0.3)

    def restart(self) -> None:
        self._cluster.restart(self._chance.choice(sorted(self._cluster.brokers)))

    def grow(self) -> None:
        topic = self._chance.choice(sorted(self.counts))
        self.counts[topic] += 2
        [done] = self._admin.create_partitions([NewPartitions(topic, self.counts[topic])]).values()
        done.result(30)

    def make_again(self) -> None:
        self._delete_and_make(self.counts)

    def shrink(self) -> None:
        self._delete_and_make(dict.fromkeys(self.counts, 1))

    def _delete_and_make(self, counts: dict[str, int]) -> None:
        topic = self._chance.choice(sorted(self.counts))
        self.counts[topic] = counts[topic]
        with Admin(bootstrap_servers=self._servers) as admin:
            admin.delete_topics([topic], timeout=30)
            # During this time, members and the producer use a missing topic.
            time.sleep(self._chance.uniform(1, 3))
            admin.create_topics([NewTopic(topic, self.counts[topic], 3)], timeout=30)


def longest_gap(lines: list[tuple[str, int, int, str, float]], topic: str, began: float, ended: float) -> float:
    """Returns the longest time during which no record of some partition was processed."""
    times: dict[int, list[float]] = defaultdict(list)
    for of, partition, _, _, at in lines:
        if of == topic and began <= at <= ended:
            times[partition].append(at)
    longest = 0.0
    for partition in range(PARTITIONS):
        moments = [began, *sorted(times[partition]), ended]
        longest = max(longest, *(b - a for a, b in pairwise(moments)))
    return longest


@pytest.mark.timeout(SECONDS + 400)
# Short runs use only one protocol.
@pytest.mark.parametrize("way", WAYS if "SAMSARROW_CHAOS_SECONDS" in os.environ else ["consumer"])
def test_changing_topics_do_not_affect_a_healthy_one(cluster: KafkaCluster, tmp_path: Path, way: str) -> None:
    healthy, sick, group = f"{way}-healthy", [f"{way}-{name}" for name in SICK], f"topics-{way}"
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(healthy, PARTITIONS, 3, {"min.insync.replicas": "2"})])
        admin.create_topics([NewTopic(topic, 2, 3) for topic in sick])
    with Network(cluster.bootstrap_servers) as network:
        options = {
            "bootstrap_servers": network.bootstrap_servers,
            "group_id": group,
            "enable_auto_commit": False,
            "allow_auto_create_topics": False,
            "metadata_max_age_ms": 2000,
            **WAYS[way],
        }
        members = Members(options, [healthy, *sick], tmp_path)
        source = Source(network.bootstrap_servers, healthy, sick)
        watch = Watch(group, healthy, cluster.bootstrap_servers)
        wreck = Wreck(cluster, network, sick, random.Random(SEED))
        try:
            source.start()
            watch.start()
            wait_for(lambda: {p for t, p, *_ in members.lines() if t == healthy} == set(range(PARTITIONS)), members)
            assert source.odd == []
            began, requests = time.monotonic(), network.requests()
            wreck.run(members)
            ended, requests = time.monotonic(), network.requests() - requests
            source.over.set()
            source.join(150)
            assert not source.is_alive()
            assert source.odd == []
            # The remaining changing topics are healthy now, so all records acknowledged from here on are processed.
            last = final(network.bootstrap_servers, sick)
            wait_for(lambda: last <= {v for t, _, _, v, _ in members.lines() if t in sick}, members)
            expected = {(p, str(n)) for p in range(PARTITIONS) for n in range(source.sent[p])}
            wait_for(lambda: expected <= {(p, v) for t, p, _, v, _ in members.lines() if t == healthy}, members)
            wait_for(
                lambda: [watch.last.get(TopicPartition(healthy, p)) for p in range(PARTITIONS)] == source.sent, members
            )
            members.end()
        finally:
            watch.over.set()
            source.over.set()
            members.kill()
    watch.join(30)
    assert watch.wrong == [], wreck.events
    assert stored(cluster.bootstrap_servers, healthy) == [[str(n) for n in range(count)] for count in source.sent]
    lines = list(members.lines())
    by_place = {(p, o): v for t, p, o, v, _ in lines if t == healthy}
    assert by_place == {(p, source.places[p, n]): str(n) for p in range(PARTITIONS) for n in range(source.sent[p])}
    gap = longest_gap(lines, healthy, began, ended)
    tell(
        f"{way}: {len(wreck.events)} events, {sum(source.sent)} records, longest gap {gap:.1f} s, "
        f"asked {dict(requests)}"
    )
    assert gap <= LONGEST_GAP, (gap, wreck.events, members.log()[-6000:])
    # Each of four clients sends a few requests per second to three brokers while a topic is missing.
    assert requests["Metadata"] <= 60 * (ended - began), requests
    assert requests["JoinGroup"] + requests["FindCoordinator"] + requests["OffsetFetch"] <= 60 * (ended - began), (
        requests
    )
    assert {what for _, what in wreck.events} >= {"make_again", "shrink", "grow", "restart", "reset", "delay"}


def wait_for(done: Any, members: Members, seconds: float = 90) -> None:
    until = time.monotonic() + seconds
    while not done():
        members.alive()
        assert time.monotonic() < until, members.log()[-6000:]
        time.sleep(0.5)


def final(servers: str, topics: list[str]) -> set[str]:
    """Sends fifty records to each existing topic; all are acknowledged."""
    with Producer(bootstrap_servers=servers) as producer:
        values = [(topic, f"last-{topic}-{i}") for topic in topics for i in range(50)]
        deliveries = [producer.send(topic, value, key=value) for topic, value in values]
        for delivery in deliveries:
            delivery.result(60)
    return {value for _, value in values}


def stored(servers: str, topic: str) -> list[list[str]]:
    """Returns the values in the log of each partition."""
    results: list[list[str]] = [[] for _ in range(PARTITIONS)]
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(topic)
        consumer.assign(partitions)
        left = Counter({tp.partition: end for tp, end in consumer.end_offsets(partitions).items()})
        until = time.monotonic() + 60
        while any(consumer.position(tp) < left[tp.partition] for tp in partitions):
            assert time.monotonic() < until
            batch = consumer.poll(1)
            for partition, value in zip(batch["partition"].to_pylist(), batch["value"].to_pylist(), strict=True):
                results[partition].append(value.decode())
    return results
