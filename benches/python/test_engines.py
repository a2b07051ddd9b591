"""Reads a topic with engines: through samsarrow, and by the engine's own reader or from Parquet in memory.

Every test checks the rows and prints the seconds of each run and the ratio of the medians. Ray Data and DataFusion also
read equal rows that are in memory already: the bound of a source for these engines. It needs the engines: run it by
`make bench-engines`. `SAMSARROW_BENCH_RECORDS` is the number of records of 100 bytes; Ray Data reads five times as
many, too, because in the first second of a read it runs one task at a time.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import samsarrow
from harness import create_topic, sections
from samsarrow import ranges
from support.engines import need, started_ray
from support.kafka import KafkaServer

RECORDS = int(os.environ.get("SAMSARROW_BENCH_RECORDS", "1000000"))
PARTITIONS, SIZE = 4, 100
# The other readers take most of the time.
ROUNDS, PEER_ROUNDS = 5, int(os.environ.get("SAMSARROW_BENCH_PEER_ROUNDS", "1"))
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def topic(kafka: KafkaServer) -> str:
    """A topic with random records, in partitions of equal size."""
    return filled(kafka, "engines", RECORDS)


def filled(kafka: KafkaServer, name: str, records: int) -> str:
    """Creates a topic with random records, in partitions of equal size."""
    name = create_topic(kafka, name, PARTITIONS)
    for first in range(0, records, 100_000):
        count = min(100_000, records - first)
        values = pa.Array.from_buffers(pa.binary(SIZE), count, [None, pa.py_buffer(os.urandom(count * SIZE))]).cast(
            pa.binary()
        )
        table = pa.table({"value": values, "partition": [number % PARTITIONS for number in range(count)]})
        samsarrow.write(name, table, bootstrap_servers=kafka.bootstrap_servers, partition="partition")
    return name


def cpu_seconds() -> float:
    """Returns the CPU time of this process, which has the threads of Daft and DataFusion, and of Ray's workers."""
    ticks = 0
    for process in Path("/proc").glob("[0-9]*"):
        # A process may end in the meantime.
        with suppress(OSError):
            if (process / "cmdline").read_bytes().startswith(b"ray::"):
                # The fields after the name, which may have spaces: the 12th and 13th are user and system time.
                fields = (process / "stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def compare(
    title: str,
    ours: Callable[[], int],
    other: str,
    theirs: Callable[[], int],
    rounds: int,
    records: int = RECORDS,
    bound: Callable[[], int] | None = None,
) -> None:
    """Times all, and adds a line with the ratios of the medians to the summary.

    Args:
        title: engine and query.
        ours: reads through samsarrow, and returns the number of records.
        other: name of the peer.
        theirs: reads by the peer.
        rounds: number of runs of the peer.
        records: the number of records.
        bound: reads equal rows that are in memory already, with the same engine.
    """
    reads = {"samsarrow": ours, other: theirs} | ({} if bound is None else {"rows in memory": bound})
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in reads}
    # The first run of an engine starts its workers.
    assert ours() == records
    for number in range(ROUNDS):
        for name, read in reads.items():
            if name != other or number < rounds:
                start, cpu = time.perf_counter(), cpu_seconds()
                assert read() == records
                runs[name].append((time.perf_counter() - start, cpu_seconds() - cpu))
    middle = {
        name: [statistics.median(figures) for figures in zip(*found, strict=True)] for name, found in runs.items()
    }
    seconds, cpu = (middle[other][which] / middle["samsarrow"][which] for which in (0, 1))
    most = "" if bound is None else f", at most {middle[other][0] / middle['rows in memory'][0]:.2f} times"
    shown = "; ".join(
        f"{name} {', '.join(f'{one:.2f}' for one, _ in found)} s, CPU {middle[name][1]:.2f} s"
        for name, found in runs.items()
    )
    sections["engines"].append(
        f"{title}: {seconds:.2f} times as fast as {other}{most}, {cpu:.2f} times less CPU ({shown})"
    )


def test_daft(kafka: KafkaServer, topic: str) -> None:
    need("daft")
    import daft

    plan = ranges.plan(topic, bootstrap_servers=kafka.bootstrap_servers)
    compare(
        "Daft, collect",
        lambda: len(samsarrow.daft.read_topic(plan).collect()),
        "daft.read_kafka",
        lambda: len(
            daft.read_kafka(bootstrap_servers=kafka.bootstrap_servers, group_id="bench", topics=topic).collect()
        ),
        PEER_ROUNDS,
    )


@pytest.fixture(scope="module")
def ray_session() -> Iterator[None]:
    need("ray")
    yield from started_ray()


@pytest.mark.parametrize("factor", [1, 5])
def test_ray(kafka: KafkaServer, topic: str, ray_session: None, factor: int) -> None:
    import ray
    from ray.data.datasource import ReadTask

    name, records = (
        (topic, RECORDS) if factor == 1 else (filled(kafka, "engines-ray", factor * RECORDS), factor * RECORDS)
    )
    plan = ranges.plan(name, bootstrap_servers=kafka.bootstrap_servers)

    # Functions of this module cannot be imported by Ray's workers.
    def stored(block: Any) -> Iterator[pa.Table]:
        yield ray.get(block)

    class Stored(samsarrow.ray.Topic):
        """Source with the splits of the plan as blocks in Ray's object store."""

        def get_read_tasks(self, *arguments: Any, **options: Any) -> list[Any]:
            return [
                ReadTask(partial(stored, block), task.metadata, task.schema)
                for block, task in zip(blocks, super().get_read_tasks(*arguments, **options), strict=True)
            ]

    blocks = [ray.put(split.read().read_all().combine_chunks()) for split in plan.splits]

    def rows(dataset: Any) -> int:
        found: int = dataset.materialize().count()
        return found

    compare(
        f"Ray Data, materialize, {records:,} records",
        lambda: rows(ray.data.read_datasource(samsarrow.ray.Topic(plan))),
        "ray.data.read_kafka",
        lambda: rows(ray.data.read_kafka(name, bootstrap_servers=kafka.bootstrap_servers)),
        max(PEER_ROUNDS, 3),
        records,
        lambda: rows(ray.data.read_datasource(Stored(plan))),
    )


# Parquet does not read the values for the second query. Brokers send complete records.
QUERIES = {
    "values": """SELECT partition, count(*) AS n, min(value) AS low, max(value) AS high, max("offset") AS last
        FROM {} GROUP BY partition ORDER BY partition""",
    "offsets": """SELECT partition, count(*) AS n, max("offset") AS last
        FROM {} GROUP BY partition ORDER BY partition""",
}


@pytest.mark.parametrize("used", QUERIES)
def test_datafusion(kafka: KafkaServer, topic: str, tmp_path: Path, used: str) -> None:
    need("datafusion")
    import datafusion

    memory = Path("/dev/shm") if Path("/dev/shm").is_dir() else tmp_path
    file = memory / f"samsarrow-bench-{os.getpid()}.parquet"
    plan = ranges.plan(topic, bootstrap_servers=kafka.bootstrap_servers)
    table = samsarrow.read(topic, bootstrap_servers=kafka.bootstrap_servers)
    pq.write_table(table, file)
    context = datafusion.SessionContext()
    context.register_table("topic", samsarrow.datafusion.table(plan))
    context.register_parquet("file", str(file))
    batches = table.to_batches()
    context.register_record_batches("batches", [batches[::2], batches[1::2]])

    found: dict[str, dict[str, list[Any]]] = {}

    def query(table: str) -> int:
        found[table] = context.sql(QUERIES[used].format(table)).to_pydict()
        return sum(found[table]["n"])

    try:
        compare(
            f"DataFusion, {used} by partition",
            lambda: query("topic"),
            "Parquet in memory",
            lambda: query("file"),
            ROUNDS,
            bound=lambda: query("batches"),
        )
    finally:
        file.unlink()
    assert found["topic"] == found["file"] == found["batches"]
