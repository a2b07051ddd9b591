"""`make test-matrix` probes every Kafka version, then other versions of Python, pyarrow and Spark, and writes the
table. `make test-spark-versions` runs only the queries in Spark's JVM.

    python -m matrix                     everything, and docs/compatibility.md
    python -m matrix 2.8.2 3.7.2         these Kafkas only, printed
    python -m matrix surroundings        everything but Kafka, printed
    python -m matrix shapes [4.0 4.2]    queries through `samsarrow-jvm` on all Sparks, or on these, printed

The exit code is 1 if a defect was found.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterable, Sequence

from support.kafka import KafkaUnavailableError
from support.kafka_releases import RELEASES

from . import page
from .probe import DEFECT, Outcome, probe_release
from .spark import SparkProcess
from .surroundings import JVM_SPARKS, Row, shapes, surroundings


def kafkas(versions: Sequence[str]) -> dict[str, list[Outcome]]:
    """Returns the outcomes on each Kafka; all share one Spark session."""
    results = {}
    with SparkProcess("--batches") as spark:
        for version in versions:
            started = time.monotonic()
            try:
                results[version] = probe_release(version, more=[spark.batch])
            except (KafkaUnavailableError, RuntimeError) as error:
                results[version] = [Outcome("broker", DEFECT, str(error))]
            page.report(f"Kafka {version}", results[version], time.monotonic() - started)
    return results


def main(*arguments: str) -> int:
    """Runs the requested parts; returns the exit code."""
    if arguments[:1] == ("shapes",):
        return _printed(shapes(arguments[1:] or JVM_SPARKS))
    chosen = [a for a in arguments if a != "surroundings"]
    if unknown := set(chosen) - set(RELEASES):
        raise SystemExit(f"no Kafka {', '.join(sorted(unknown))}; there are {' '.join(RELEASES)}")
    rows: list[Row] = []
    results: dict[str, list[Outcome]] = {}
    if not arguments or chosen:
        results = kafkas(chosen or list(RELEASES))
        print(page.kafka_table(results), flush=True)
    if not arguments or "surroundings" in arguments:
        rows = list(surroundings())
        print(page.surroundings_tables(rows), flush=True)
    if not arguments:
        page.write(results, rows)
    kinds = [o.kind for outcomes in results.values() for o in outcomes] + [row.kind for row in rows]
    return int(DEFECT in kinds)


def _printed(rows: Iterable[Row]) -> int:
    """Prints a table row by row; returns the exit code."""
    kinds = []
    for row in rows:
        kinds.append(row.kind)
        print(f"{row.group} {row.what}: {row.kind}: {row.text}", flush=True)
    return int(DEFECT in kinds)


def _end(*_: object) -> None:
    """Handles SIGTERM like Ctrl-C, so that brokers and sessions are stopped."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(*sys.argv[1:]))
