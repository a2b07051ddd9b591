"""Cost of many partitions, topics, clients and members; writes the table in docs/benchmarks.md.

    python benches/scale [--only partitions,topics] [--part 1.0] [--dry]

Every case runs for n and 2n. Each client process has its own broker. The bench fails if a time grows by more than
`GROWTH` from n to 2n. `--part 0.1` reduces each n to a tenth. A partial run, and `--dry`, print the table without
writing it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from cluster import Cluster

from samsarrow import Producer
from samsarrow.testing import Broker

HERE = Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs" / "benchmarks.md"
BEGIN, END = "<!-- make bench-scale: begin -->", "<!-- make bench-scale: end -->"
IDLE_S = 5.0
# Limit of the growth from n to 2n, for times of a second and more: linear growth is 2, quadratic 4.
GROWTH = 3.0
SIZES = {
    "partitions": 10_000,
    "topics": 2_000,
    "clients": 200,
    "members, classic": 1_000,
    "members, consumer": 1_000,
    "metadata": 1_000_000,
}
NAMES = {
    "partitions": "partitions in one consumer",
    "topics": "topics, subscribed to by a pattern",
    "clients": "clients in a process, half of them producers",
    "members, classic": "members of a group in a process, classic protocol",
    "members, consumer": "members of a group in a process, KIP-848",
    "metadata": "partitions in Metadata",
}
COMMON = ("seconds", "threads", "descriptors", "MB", "before", "idle")


def server(case: str, n: int) -> Broker | Cluster:
    """Starts the server of a case: partitions with a record each, many topics, or a simulated cluster."""
    if case == "metadata":
        return Cluster(n)
    if case == "topics":
        return Broker(brokers=3, topics={f"topic-{i}": 1 for i in range(n)}, auto_create_topics=False)
    broker = Broker(
        brokers=3,
        topics={"wide": n},
        auto_create_topics=False,
        group_initial_rebalance_delay=3,
        # Kafka's default is 5 s. The embedded broker's default of half a second is for small groups.
        consumer_group_heartbeat_interval=5,
        group_max_session_timeout=1800,
    )
    if case == "partitions":
        table = pa.table({"value": pa.array([b"x"] * n, pa.binary()), "to": pa.array(range(n), pa.int32())})
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send_batch("wide", table, partition="to").result(120)
    return broker


def run(case: str, n: int) -> dict[str, Any]:
    """Runs one client process; returns its report, and the number of its requests per second while idle."""
    broker = server(case, n)
    command = [sys.executable, str(HERE / "client.py"), case, str(n), broker.bootstrap_servers]
    try:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                result: dict[str, Any] = json.loads(process.stdout.readline() or "null") or failed(process)
                before = sum(broker.requests().values())
                began = time.monotonic()
                process.stdin.write("\n")
                process.stdin.flush()
                after: dict[str, Any] = json.loads(process.stdout.readline() or "null") or failed(process)
                idle = (sum(broker.requests().values()) - before) / (time.monotonic() - began)
            except BaseException:
                process.kill()
                raise
    finally:
        broker.close()
    largest = {name: max(result[name], after[name]) for name in ("threads", "descriptors", "MB")}
    return result | largest | {"idle": idle}


def failed(process: subprocess.Popen[str]) -> dict[str, Any]:
    raise RuntimeError(f"{' '.join(map(str, process.args))} ended with {process.wait(30)}")


def row(case: str, n: int, found: dict[str, Any]) -> str:
    more = ", ".join(
        f"`{name.partition(',')[0]}` {value:,.{1 if value < 100 else 0}f} {name.rpartition(' ')[2]}"
        for name, value in found.items()
        if name not in COMMON
    )
    own = found["MB"] - found["before"]
    return (
        f"| {n:,} {NAMES[case]} | {found['seconds']:.1f} | {found['threads']} | {found['descriptors']} "
        f"| {own:,.0f} | {found['idle']:.1f} | {more} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(name.replace(", ", "-") for name in SIZES))
    parser.add_argument("--part", type=float, default=1.0)
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    chosen = [case for case in SIZES if case.replace(", ", "-") in arguments.only.split(",")]
    lines = [
        "| what | seconds until all is there | threads | descriptors | MB of its own | requests/s when idle | also |",
        "|---|---|---|---|---|---|---|",
    ]
    steep = []
    for case in chosen:
        size = max(2, int(SIZES[case] * arguments.part))
        results = {n: run(case, n) for n in (size // 2, size)}
        for n, found in results.items():
            lines.append(row(case, n, found))
            print(lines[-1], flush=True)
        half, whole = results.values()
        for name in ("seconds", *(name for name in whole if name.endswith((", ms", ", s")))):
            unit = 1000 if name.endswith("ms") else 1
            if whole[name] > unit and whole[name] > GROWTH * half[name]:
                steep.append(f"{case}: {name} {half[name]:.2f} at {size // 2:,}, {whole[name]:.2f} at {size:,}")
    table = "\n".join(lines)
    if arguments.dry or arguments.part != 1.0 or chosen != list(SIZES):
        print(table)
    else:
        write(table)
    if steep:
        sys.exit("grows more than in proportion:\n" + "\n".join(steep))


def write(table: str) -> None:
    """Replaces the table between the markers."""
    text = DOCUMENT.read_text()
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n## Scale (`make bench-scale`)\n\n{BEGIN}\n{END}\n"
    head, _, rest = text.partition(BEGIN)
    DOCUMENT.write_text(f"{head}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}")


main()
