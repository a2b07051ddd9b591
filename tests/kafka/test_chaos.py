"""A group loses no records or commits while its members are killed and stopped and its coordinator restarts."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Admin, KafkaError, NewTopic, Producer, TopicPartition
from support.cluster import KafkaCluster
from support.waiting import until

SECONDS = float(os.environ.get("SAMSARROW_CHAOS_SECONDS", "15"))
# Number of kinds of faults.
KINDS = 4
PARTITIONS = 6
MEMBERS = 3
SESSION = 6.0
# Beginnings of log lines with the reason to join again.
REJOINED = ("the membership is lost", "the group cannot be joined yet", "joining the group again: ")
MEMBER = Path(__file__).parents[1] / "support" / "chaos_member.py"
WAYS: dict[str, dict[str, Any]] = {
    "classic": {
        "partition_assignment_strategy": "cooperative-sticky",
        "session_timeout_ms": int(SESSION * 1000),
        "heartbeat_interval_ms": 500,
    },
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(2) as cluster:
        yield cluster


class Group:
    """Members in separate processes."""

    def __init__(self, options: dict[str, Any], topic: str, folder: Path) -> None:
        self.options, self.topic, self.folder = options, topic, folder
        self.members: list[subprocess.Popen[bytes]] = []
        self.files: dict[int, Path] = {}
        self.started = 0
        for _ in range(MEMBERS):
            self.start()

    def start(self) -> None:
        self.started += 1
        done = self.folder / f"{self.started}.done"
        command = [sys.executable, str(MEMBER), json.dumps(self.options), self.topic, str(done)]
        with (self.folder / "log").open("ab") as log:
            self.members.append(subprocess.Popen(command, stdout=log, stderr=log))
        self.files[self.members[-1].pid] = done

    def terminate(self, member: subprocess.Popen[bytes]) -> None:
        """Terminates a member after it has started, because an earlier signal would kill it."""
        until(lambda: self.files[member.pid].exists() or member.poll() is not None)
        member.terminate()

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def processed(self) -> dict[int, dict[int, str]]:
        """Returns the processed values by partition and offset."""
        result: dict[int, dict[int, str]] = defaultdict(dict)
        for path in self.folder.glob("*.done"):
            # A killed member may leave an incomplete line, and a running one may be writing.
            for line in path.read_text().rpartition("\n")[0].splitlines():
                partition, offset, value = line.split(" ")
                result[int(partition)][int(offset)] = value
        return result

    def end(self) -> None:
        for member in self.members:
            member.send_signal(signal.SIGCONT)
            self.terminate(member)
        for member in self.members:
            assert member.wait(60) == 0, self.log()[-4000:]

    def kill(self) -> None:
        for member in self.members:
            with suppress(OSError):
                member.kill()
            member.wait()


class Watch(threading.Thread):
    """Monitors the committed offsets."""

    def __init__(self, group: Group, name: str, servers: str) -> None:
        super().__init__(daemon=True)
        self.group, self.name_of_group, self.servers = group, name, servers
        self.over = threading.Event()
        self.looks = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        last: dict[TopicPartition, int] = {}
        with Admin(bootstrap_servers=self.servers) as admin:
            while not self.over.wait(0.3):
                try:
                    committed = admin.fetch_offsets(self.name_of_group, timeout=20)
                except KafkaError:
                    continue
                # Reads the processed records after the committed offsets, because records are processed before they are
                # committed.
                processed = self.group.processed()
                self.looks += 1
                for tp, at in committed.items():
                    if at is None:
                        continue
                    if at.offset < last.get(tp, 0):
                        self.wrong.append(f"{tp} went back from {last[tp]} to {at.offset}")
                    if missing := [o for o in range(last.get(tp, 0), at.offset) if o not in processed[tp.partition]]:
                        self.wrong.append(f"{tp} is committed at {at.offset}, but nobody processed {missing[:5]}")
                    last[tp] = max(at.offset, last.get(tp, 0))


class Source(threading.Thread):
    """Sends numbered records continuously."""

    def __init__(self, topic: str, servers: str) -> None:
        super().__init__(daemon=True)
        self.topic, self.servers = topic, servers
        self.over = threading.Event()
        self.sent: list[list[str]] = [[] for _ in range(PARTITIONS)]

    def run(self) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            number = 0
            while not self.over.wait(0.05):
                for partition in range(PARTITIONS):
                    number += 1
                    producer.send(self.topic, str(number), partition=partition)
                    self.sent[partition].append(str(number))


@pytest.mark.timeout(SECONDS + 400)
@pytest.mark.parametrize("way", WAYS)
def test_group_survives_kills_stops_and_coordinator_restarts(cluster: KafkaCluster, tmp_path: Path, way: str) -> None:
    seed = int(os.environ.get("SAMSARROW_CHAOS_SEED", "1"))
    chance = random.Random(seed)
    name, servers = f"chaos-{way}", cluster.bootstrap_servers
    options = {"bootstrap_servers": servers, "group_id": name, "enable_auto_commit": False, **WAYS[way]}
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 2, {"min.insync.replicas": "1"})])
    group = Group(options, name, tmp_path)
    source, watch = Source(name, servers), Watch(group, name, servers)
    try:
        source.start()
        watch.start()
        events = wreck(cluster, group, name, chance)
        source.over.set()
        source.join(120)
        assert not source.is_alive()
        deadline = time.monotonic() + 90
        sent = [len(numbers) for numbers in source.sent]
        while [len(group.processed()[p]) for p in range(PARTITIONS)] != sent:
            state = {p: len(found) for p, found in group.processed().items()}
            assert time.monotonic() < deadline, (sent, state, events, group.log()[-6000:])
            time.sleep(0.5)
        deadline = time.monotonic() + 60
        with Admin(bootstrap_servers=servers) as admin:
            while (committed := offsets(admin, name)) != dict(enumerate(sent)):
                assert time.monotonic() < deadline, (sent, committed, events, group.log()[-6000:])
                time.sleep(0.5)
        group.end()
        watch.over.set()
        watch.join(30)
    finally:
        watch.over.set()
        source.over.set()
        group.kill()
    assert watch.wrong == [], (events, group.log()[-6000:])
    assert watch.looks > SECONDS / 5
    processed = group.processed()
    for partition, numbers in enumerate(source.sent):
        assert list(dict(sorted(processed[partition].items())).values()) == numbers
    with Admin(bootstrap_servers=servers) as admin:
        assert offsets(admin, name) == dict(enumerate(sent))
    assert {what for what, *_ in events} >= {"kill", "stop", "coordinator"}, events
    assert any(reason in group.log() for reason in REJOINED)
    assert unexplained(group.log()) == {}


def offsets(admin: Admin, group: str) -> dict[int, int | None]:
    """Returns the committed offset of each partition."""
    return {tp.partition: at and at.offset for tp, at in admin.fetch_offsets(group).items()}


def unexplained(log: str) -> dict[str, tuple[int, int]]:
    """Returns the members that joined more often than their log explains, each with the number of joins and of logged
    reasons.
    """
    joins: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for line in log.splitlines():
        match = re.match(r"\S+ \S+ (\d+) samsarrow\.group \w+ (.*)", line)
        if match:
            process, text = match.groups()
            joins[process] += text.startswith("joined generation")
            reasons[process] += text.startswith(REJOINED)
    return {process: (joins[process], reasons[process]) for process in joins if joins[process] > 1 + reasons[process]}


def wreck(cluster: KafkaCluster, group: Group, name: str, chance: random.Random) -> list[tuple[str, float]]:
    """Injects faults, one after the other."""
    started = time.monotonic()
    events: list[tuple[str, float]] = []
    time.sleep(5)
    for number, what in enumerate(plan(chance)):
        # Each fault occurs at least once, even on a slow machine.
        if number >= KINDS and time.monotonic() - started > SECONDS:
            break
        events.append((what, round(time.monotonic() - started, 1)))
        if what == "kill":
            victim = chance.choice(group.members)
            victim.kill()
            victim.wait()
            group.members.remove(victim)
            group.start()
        elif what == "stop":
            # The stop is longer than the session timeout, so the group has replaced the member when it resumes.
            victim = chance.choice(group.members)
            victim.send_signal(signal.SIGSTOP)
            time.sleep(SESSION + 3)
            victim.send_signal(signal.SIGCONT)
        elif what == "restart":
            victim = chance.choice(group.members)
            group.terminate(victim)
            assert victim.wait(60) == 0, group.log()[-4000:]
            group.members.remove(victim)
            group.start()
        else:
            with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
                coordinator = admin.find_coordinator(name)
            cluster.restart(coordinator.id)
        time.sleep(chance.uniform(1, 5))
    return events


def plan(chance: random.Random) -> Iterator[str]:
    """Yields every kind of fault once, then random ones."""
    first = ["kill", "stop", "coordinator", "restart"]
    assert len(first) == KINDS
    chance.shuffle(first)
    yield from first
    while True:
        yield chance.choice(first)
