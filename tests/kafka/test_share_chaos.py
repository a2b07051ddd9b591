"""A share group loses no record while members are killed, brokers restart and leaders move."""

from __future__ import annotations

import json
import logging
import os
import random
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
from samsarrow.group_types import ShareOffset
from support.cluster import KafkaCluster
from support.share_cases import earliest
from support.waiting import until

KILLS = int(os.environ.get("SAMSARROW_SHARE_KILLS", "4"))
RESTARTS = int(os.environ.get("SAMSARROW_SHARE_RESTARTS", "1"))
PARTITIONS = 6
MEMBERS = 4
BROKERS = 3
# A slow member writes the line of a delivery this much later than the broker made it.
DELAY_S = 3.0
MEMBER = Path(__file__).parents[1] / "support" / "share_chaos_member.py"
PROPERTIES = {
    # More deliveries than faults that a record can meet.
    "group.share.delivery.count.limit": "10",
    # The partitions of a killed member get other members after its session has timed out, 45 seconds by default.
    "group.share.session.timeout.ms": "4000",
    "group.share.min.session.timeout.ms": "4000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.record.lock.duration.ms": "6000",
    "group.share.min.record.lock.duration.ms": "6000",
}
_log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(BROKERS, properties=PROPERTIES) as cluster:
        yield cluster


class Group:
    """Members in separate processes, which alternate between the modes of acknowledgement."""

    def __init__(self, servers: str, group: str, topic: str, folder: Path) -> None:
        self.options = {"bootstrap_servers": servers, "group_id": group, "max_poll_records": 100}
        self.topic, self.folder = topic, folder
        self.members: list[subprocess.Popen[bytes]] = []
        self.files: dict[int, Path] = {}
        self.killed: set[Path] = set()
        self.started = 0
        for _ in range(MEMBERS):
            self.start()

    def start(self) -> None:
        self.started += 1
        path = self.folder / f"{self.started}.rows"
        options = self.options | {"acknowledgement": ("implicit", "explicit")[self.started % 2]}
        command = [sys.executable, str(MEMBER), json.dumps(options), self.topic, str(path)]
        with (self.folder / "log").open("ab") as log:
            self.members.append(subprocess.Popen(command, stdout=log, stderr=log))
        self.files[self.members[-1].pid] = path

    def kill(self, chance: random.Random) -> None:
        """Kills a member that has read rows, and starts another one."""
        read = until(
            lambda: [m for m in self.members if self.files[m.pid].exists() and self.files[m.pid].stat().st_size]
        )
        victim = chance.choice(read)
        victim.kill()
        victim.wait()
        self.killed.add(self.files[victim.pid])
        self.members.remove(victim)
        self.start()

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def end(self) -> None:
        for member in self.members:
            until(lambda member=member: self.files[member.pid].exists() or member.poll() is not None)  # type: ignore[misc]
            member.terminate()
        for member in self.members:
            assert member.wait(60) == 0, self.log()[-4000:]

    def discard(self) -> None:
        for member in self.members:
            with suppress(OSError):
                member.kill()
            member.wait()

    def lines(self) -> Iterator[tuple[Path, list[str]]]:
        for path in self.folder.glob("*.rows"):
            # A killed member may leave an incomplete line, and a running one may be writing.
            for line in path.read_text().rpartition("\n")[0].splitlines():
                yield path, line.split(" ")

    def processed(self) -> set[str]:
        return {words[3] for _, words in self.lines() if words[0] == "got"}

    def decided(self) -> set[str]:
        """Returns the records whose acknowledgement has an outcome, or may have one that a kill has hidden."""
        return {words[3] for path, words in self.lines() if words[0] != "got" or path in self.killed}

    def states(self, lags: dict[TopicPartition, ShareOffset | None]) -> list[object]:
        """Returns the number of lines by kind of the records that the group has not finished, and the last line."""
        found: list[object] = []
        for tp, at in lags.items():
            after = [
                (float(words[-1]), words[0], int(words[2]), path.name)
                for path, words in self.lines()
                if int(words[1]) == tp.partition and (at is None or int(words[2]) >= at.start)
            ]
            found.append((tp, at, Counter(what for _, what, *_ in after), max(after, default=None)))
        return found


class Source(threading.Thread):
    """Sends numbered records continuously."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.servers, self.topic = servers, topic
        self.over = threading.Event()
        self.sent: set[str] = set()

    def run(self) -> None:
        with Producer(bootstrap_servers=self.servers) as producer:
            while not self.over.wait(0.02):
                self._send(producer)

    def send(self) -> None:
        """Sends one more record to each partition."""
        with Producer(bootstrap_servers=self.servers) as producer:
            self._send(producer)

    def _send(self, producer: Producer) -> None:
        for partition in range(PARTITIONS):
            number = str(len(self.sent))
            producer.send(self.topic, number, partition=partition)
            self.sent.add(number)


def move_leaders(servers: str, topic: str, by: int) -> None:
    """Makes another replica of each partition its leader. The locks of the partition end."""
    replicas = {
        TopicPartition(topic, p): [(p + by + i) % BROKERS + 1 for i in range(BROKERS)] for p in range(PARTITIONS)
    }
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_reassignments(replicas)
        until(lambda: not admin.list_reassignments(list(replicas)))
        # A replica that is not in sync yet cannot be the leader.
        until(lambda: _elected(admin, list(replicas)))


def _elected(admin: Admin, partitions: list[TopicPartition]) -> bool:
    try:
        admin.elect_leaders(partitions)
    except KafkaError as error:
        _log.info("elect_leaders: %s", error)
        return False
    return True


def lags(servers: str, group: str) -> dict[TopicPartition, ShareOffset | None]:
    """Returns the offsets of partitions with a lag, or without a known one."""
    with Admin(bootstrap_servers=servers) as admin:
        offsets = admin.list_share_offsets([group])[group]
    return {tp: at for tp, at in offsets.items() if at is None or at.lag != 0}


def vanishes(servers: str, group: str, seconds: float) -> bool:
    """Returns true if the group has no lag within the time."""
    deadline = time.monotonic() + seconds
    while lags(servers, group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.timeout(420 + 10 * KILLS + 60 * RESTARTS)
def test_kills_restarts_and_new_leaders_lose_nothing(cluster: KafkaCluster, tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("SAMSARROW_CHAOS_SEED", "1")))
    servers, topic, name = cluster.bootstrap_servers, "share-chaos", "share-chaos"
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, BROKERS, {"min.insync.replicas": "1"})])
    earliest(servers, name)
    group, source = Group(servers, name, topic, tmp_path), Source(servers, topic)
    started = time.monotonic()
    faults = ["kill"] * KILLS + ["restart", "leaders"] * RESTARTS
    chance.shuffle(faults)
    try:
        source.start()
        until(lambda: len(group.processed()) > 100)
        for number, fault in enumerate(faults):
            time.sleep(chance.uniform(0.1, 1.0))
            _log.info("%.1f s: %s", time.monotonic() - started, fault)
            if fault == "kill":
                group.kill(chance)
            elif fault == "leaders":
                move_leaders(servers, topic, number)
            else:
                broker = cluster.brokers[1 + number % BROKERS]
                broker.kill() if chance.random() < 0.5 else broker.stop()
                time.sleep(chance.uniform(0, 2))
                broker.start()
        source.over.set()
        source.join(120)
        assert not source.is_alive()
        _log.info("%.1f s: all records are sent", time.monotonic() - started)
        until(
            lambda: source.sent <= group.processed(),
            lambda: (sorted(source.sent - group.processed())[:20], group.log()[-4000:]),
            120,
        )
        _log.info("%.1f s: all records are processed", time.monotonic() - started)
        until(
            lambda: source.sent <= group.decided(),
            lambda: (sorted(source.sent - group.decided())[:20], lags(servers, name), group.log()[-4000:]),
            120,
        )
        _log.info("%.1f s: all records have an outcome", time.monotonic() - started)
        if not vanishes(servers, name, 60):
            # Each record has an outcome, but the lag is that of the last state that the leader has stored.
            _log.warning("%.1f s: the lag stays: %s", time.monotonic() - started, group.states(lags(servers, name)))
            source.send()
            assert vanishes(servers, name, 60), (group.states(lags(servers, name)), group.log()[-4000:])
        _log.info("%.1f s: the lag is zero", time.monotonic() - started)
        group.end()
    finally:
        source.over.set()
        group.discard()
    check(group, len(source.sent), Counter(faults))


def check(group: Group, sent: int, faults: Counter[str]) -> None:
    """Checks that each delivery but one of a record ended with a killed member or a failed acknowledgement."""
    got: dict[str, list[tuple[Path, float]]] = defaultdict(list)
    done: dict[str, tuple[Path, float]] = {}
    lost: Counter[tuple[Path, str]] = Counter()
    errors: Counter[str] = Counter()
    wrong: list[Any] = []
    for path, (what, _, _, value, *error, at) in group.lines():
        if what == "got":
            got[value].append((path, float(at)))
        elif what == "lost":
            lost[path, value] += 1
            errors.update(error)
        elif value in done:
            wrong.append(("accepted twice", value))
        else:
            done[value] = path, float(at)
    repeated = {value: deliveries for value, deliveries in got.items() if len(deliveries) > 1}
    for value, deliveries in repeated.items():
        by_member = Counter(path for path, _ in deliveries)
        for path, count in by_member.items():
            explained = lost[path, value] + (value in done and done[value][0] == path) + (path in group.killed)
            if count > explained:
                wrong.append(("delivered again without a lost lock", value, path.name))
        if value in done and (late := [at for _, at in deliveries if at > done[value][1] + DELAY_S]):
            wrong.append(("delivered after it was accepted", value, late))
    _log.info(
        "%s records, %s; delivered again %s, acknowledged without an error %s, failed acknowledgements %s",
        sent, dict(faults), len(repeated), len(done), dict(errors),
    )  # fmt: skip
    assert not wrong, (wrong[:20], len(wrong), group.log()[-4000:])
    assert len(group.killed) == KILLS
    assert len(done) > sent / 2
