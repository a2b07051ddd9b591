"""Runs one case of the scale bench in its own process: `client.py CASE N SERVERS`.

It prints a line of JSON when the case is set up, idles while the parent counts requests, and prints another line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from samsarrow import Admin, Consumer, Producer, TopicPartition

IDLE_S = 5.0
DEADLINE_S = 600.0
Idle = Callable[[], Any]


def resident() -> float:
    """Returns the resident memory in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def costs() -> dict[str, float]:
    descriptors = len(os.listdir("/proc/self/fd"))
    return {"threads": len(os.listdir("/proc/self/task")), "descriptors": descriptors, "MB": resident()}


def until(done: Callable[[], bool], work: Callable[[], Any]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline, "it takes too long"
        work()


def timed(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def partitions(n: int, servers: str) -> tuple[dict[str, float], Idle]:
    """Creates a consumer of a topic with n partitions, each of which has one record."""
    consumer = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    tps = [TopicPartition("wide", p) for p in range(n)]
    rows = 0

    def read() -> None:
        nonlocal rows
        rows += consumer.poll(1).num_rows

    results = {"assign, ms": timed(lambda: consumer.assign(tps)) * 1000}
    results["seconds"] = timed(lambda: until(lambda: rows >= n, read))
    results["pause, ms"] = timed(lambda: consumer.pause(*tps)) * 1000
    results["resume, ms"] = timed(lambda: consumer.resume(*tps)) * 1000
    results["lag, ms"] = timed(consumer.lag) * 1000
    return results, lambda: consumer.poll(0.5)


def topics(n: int, servers: str) -> tuple[dict[str, float], Idle]:
    """Creates the only member of a group, which subscribes to n topics by a pattern."""
    consumer = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", group_id="topics")
    consumer.subscribe(pattern="topic-.*")
    results = {"seconds": timed(lambda: until(lambda: len(consumer.assignment()) == n, lambda: consumer.poll(0.1)))}
    results["commit, ms"] = timed(consumer.commit) * 1000
    return results, lambda: consumer.poll(0.5)


def clients(n: int, servers: str) -> tuple[dict[str, float], Idle]:
    """Creates n/2 producers and n/2 consumers. Each producer has sent one record, which one of the consumers has
    read.
    """
    made: list[Any] = []

    def make() -> None:
        for i in range(n // 2):
            producer = Producer(bootstrap_servers=servers, linger_ms=0)
            consumer = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest")
            consumer.assign([TopicPartition("wide", i)])
            producer.send("wide", b"x", partition=i).result(60)
            until(lambda consumer=consumer: consumer.poll(1).num_rows > 0, lambda: None)
            made.append((producer, consumer))

    def idle() -> None:
        for _, consumer in made:
            consumer.poll(0)
        time.sleep(0.1)

    return {"seconds": timed(make)}, idle


def members(n: int, servers: str, protocol: str) -> tuple[dict[str, float], Idle]:
    """Creates n members of one group in this process, and polls them in turn."""
    group = [
        Consumer(
            bootstrap_servers=servers,
            group_id=f"members-{protocol}",
            group_protocol=protocol,
            enable_auto_commit=False,
        )
        for _ in range(n)
    ]
    for member in group:
        member.subscribe(["wide"])

    def turn() -> None:
        for member in group:
            member.poll(0)
        time.sleep(0.1)

    def settled() -> bool:
        held = [len(member.assignment()) for member in group]
        return sum(held) == n and max(held) <= 2

    return {"seconds": timed(lambda: until(settled, turn))}, turn


def metadata(n: int, servers: str) -> tuple[dict[str, float], Idle]:
    """Lists topics and polls one partition, with Metadata responses of n partitions."""
    with Admin(bootstrap_servers=servers) as admin:
        results = {"seconds": timed(lambda: admin.list_topics(timeout=DEADLINE_S)), "list_topics, MB": resident()}
    consumer = Consumer(bootstrap_servers=servers)
    consumer.assign([TopicPartition("topic-0", 0)])
    results["poll(1), s"] = timed(lambda: consumer.poll(1))
    return results, lambda: consumer.poll(0.5)


CASES: dict[str, Callable[[int, str], tuple[dict[str, float], Idle]]] = {
    "partitions": partitions,
    "topics": topics,
    "clients": clients,
    "members, classic": lambda n, servers: members(n, servers, "classic"),
    "members, consumer": lambda n, servers: members(n, servers, "consumer"),
    "metadata": metadata,
}


def main() -> None:
    case, n, servers = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # Creates a first table, so that its memory and that of the imports are not counted.
    pa.table({"value": pa.array([b"x"], pa.binary())})
    before = resident()
    found, idle = CASES[case](n, servers)
    print(json.dumps(found | costs() | {"before": before}), flush=True)
    sys.stdin.readline()
    end = time.monotonic() + IDLE_S
    while time.monotonic() < end:
        idle()
    print(json.dumps(costs()), flush=True)
    # Ends the process without closing thousands of clients one by one.
    os._exit(0)


main()
