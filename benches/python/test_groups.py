"""Groups: cost of a rebalance and of a commit, and heartbeats independent of the application."""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import time
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from harness import create_topic, each_run, groups, measured, turns
from samsarrow import Consumer, TopicPartition
from samsarrow.testing import Broker
from support.kafka import KafkaServer
from support.members import Member, settle

MEMBERS = 10
PARTITIONS = 1000
COMMITS = 1000
TURN = 50
RUNS = 3


def rebalance(servers: str, group: str, topic: str) -> float:
    """Returns the seconds from the start of ten members until the last one has its partitions."""
    options: dict[str, Any] = {"group_id": group, "heartbeat_interval_ms": 100, "enable_auto_commit": False}
    options |= {"bootstrap_servers": servers, "partition_assignment_strategy": "cooperative-sticky"}
    started = time.perf_counter()
    members = [Member([topic], **options) for _ in range(MEMBERS)]
    try:
        settle(members, [TopicPartition(topic, p) for p in range(PARTITIONS)], 120)
        return time.perf_counter() - started
    finally:
        for member in members:
            member.close()


def test_rebalance_on_the_embedded_broker(benchmark: Any) -> None:
    with Broker(topics={"wide": PARTITIONS}) as broker:
        before = broker.requests()
        seconds = benchmark.pedantic(lambda: rebalance(broker.bootstrap_servers, "g", "wide"), rounds=1)
        requests = {api: count - before.get(api, 0) for api, count in broker.requests().items()}
    assert requests["SyncGroup"] >= MEMBERS
    sent = ", ".join(f"{api} {requests.get(api, 0)}" for api in ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch"))
    measured["rebalance"]["embedded broker"] = {"seconds": seconds, "requests": requests}
    groups.append(
        f"{MEMBERS} members join and share {PARTITIONS} partitions, embedded broker: {seconds:.2f} s ({sent})"
    )


@pytest.fixture(scope="module")
def wide(kafka: KafkaServer) -> str:
    topic = create_topic(kafka, "wide-group", PARTITIONS)
    # Creates the offsets topic before the measurement, because the broker creates it on first use of a group.
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id="first") as consumer:
        consumer.commit({TopicPartition(topic, p): 0 for p in range(PARTITIONS)})
    return topic


def test_rebalance_on_kafka(benchmark: Any, kafka: KafkaServer, wide: str) -> None:
    ours = benchmark.pedantic(lambda: rebalance(kafka.bootstrap_servers, "ours", wide), rounds=1)
    measured["rebalance"]["Kafka"] = {"seconds": ours}
    groups.append(f"the same on Apache Kafka: {ours:.2f} s")


def test_rebalance_of_the_java_client(benchmark: Any, kafka: KafkaServer, wide: str) -> None:
    program = str(Path(__file__).parent / "java" / "Rebalance.java")
    command = kafka.java(program, kafka.bootstrap_servers, wide, str(MEMBERS), str(PARTITIONS), jvm=["-Xmx512m"])

    def once() -> float:
        done = subprocess.run(command, capture_output=True, check=True, timeout=180)
        return float(done.stdout.split()[-1])

    seconds = benchmark.pedantic(once, rounds=1)
    measured["rebalance"]["Java"] = {"seconds": seconds}
    groups.append(f"the same with the Java client: {seconds:.2f} s")


def test_commits(benchmark: Any, kafka: KafkaServer, wide: str) -> None:
    """Commits offsets of one partition synchronously, one commit after the other.

    The clients take turns of `TURN` commits, because the broker stalls for milliseconds now and then: of two clients
    that make all commits of a run in one piece, only one meets a stall, and the ratio is between 0.5 and 3.
    """
    tp, peers_tp = TopicPartition(wide, 0), ck.TopicPartition(wide, 0)
    options = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "peers", "enable.auto.commit": False}
    theirs = ck.Consumer(options)
    with (
        Consumer(bootstrap_servers=kafka.bootstrap_servers, group_id="commits", enable_auto_commit=False) as ours,
        contextlib.closing(theirs),
    ):

        def commit(client: str, offset: int) -> None:
            if client == "ours":
                ours.commit({tp: offset})
            else:
                peers_tp.offset = offset
                theirs.commit(offsets=[peers_tp], asynchronous=False)

        clients = ["ours", "confluent"]
        results, medians = ({client: list[float]() for client in clients} for _ in range(2))

        def run() -> None:
            took: dict[str, list[float]] = {client: [] for client in clients}
            for number, client in enumerate(turns(clients, COMMITS // TURN)):
                first = number // 2 * TURN
                for offset in range(first, first + TURN):
                    started = time.perf_counter()
                    commit(client, offset)
                    took[client].append(time.perf_counter() - started)
            for client, seconds in took.items():
                results[client].append(COMMITS / sum(seconds))
                medians[client].append(sorted(seconds)[COMMITS // 2] * 1e6)

        # The broker compiles its code for commits during the first ones, which count for neither client.
        run()
        results, medians = ({client: list[float]() for client in clients} for _ in range(2))
        benchmark.pedantic(lambda: [run() for _ in range(RUNS)], rounds=1)
        committed = ours.committed([tp])[tp]
        assert committed is not None
        assert committed.offset == theirs.committed([peers_tp])[0].offset == COMMITS - 1
    ratios = [mine / peers for mine, peers in zip(*results.values(), strict=True)]
    measured["commits per second"] |= results
    groups.append(each_run("commits that wait", results, "/s"))
    groups.append(each_run("", {"x confluent": ratios}, "", 2))
    groups.append(each_run("median of a commit", medians))


def test_heartbeats_go_on_while_the_gil_is_held(benchmark: Any, kafka: KafkaServer, wide: str) -> None:
    """A C call holds the GIL for thirty seconds, five times the session timeout."""
    held = 30
    with Member([wide], bootstrap_servers=kafka.bootstrap_servers, group_id="held") as member:
        settle([member], [TopicPartition(wide, p) for p in range(PARTITIONS)], 120)
        events, generation = len(member.events), member.consumer.group_metadata().generation
        benchmark.pedantic(lambda: ctypes.PyDLL(None).sleep(held), rounds=1)
        time.sleep(1)
        assert len(member.events) == events
        assert member.consumer.group_metadata().generation == generation
        member.consumer.commit({TopicPartition(wide, 0): 0})
    groups.append(f"membership kept while the GIL was held for {held} s (session.timeout.ms 6 s)")
