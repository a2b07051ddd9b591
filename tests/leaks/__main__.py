"""`make test-spark-leaks`: leaks of reads in Spark's JVM that complete, are cancelled, or are ended by a limit.

After each round all batches must be freed and all readers closed, and the memory of the process is measured. The heap
has a fixed size and is touched at the start, and prefetching is small, so that growth is visible early.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS))

import pyarrow as pa  # noqa: E402

from samsarrow import Admin, NewTopic, Producer  # noqa: E402
from support.jvm import about, running  # noqa: E402
from support.kafka import KafkaServer  # noqa: E402
from support.spark import local_session  # noqa: E402
from support.waiting import until  # noqa: E402

TOPIC = "leaks"
RECORDS = 2_000_000
ROUNDS = 12
# Permitted growth in KiB from the middle third of the rounds to the last third. Allocators and compiled code need the
# first third to settle.
GROWTH = 32 * 1024
JAVA = ("-Xms1g", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC", "-Dsamsarrow.prefetch.bytes=67108864")
# Runs of each kind before measurements begin, because Java compiles code for a long time.
WARM = 60


@dataclass
class Round:
    """The measurement after a round."""

    made: int
    freed: int
    resident: int


class Watch:
    """Measures the JVM between rounds."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._pid = int(spark._jvm.java.lang.ProcessHandle.current().pid())

    def look(self) -> Round:
        """Waits until all batches, readers and memory are released, and measures. Freed memory stays pooled for ten
        seconds.
        """
        until(lambda: running(self._spark) == 0, seconds=60)
        until(lambda: (now := about(self._spark))["made"] == now["freed"] and now["readers"] == 0, seconds=60)
        now = about(self._spark)
        assert now["memory"] == 0, now
        status = Path(f"/proc/{self._pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return Round(now["made"], now["freed"], resident)


def grown(rounds: list[Round]) -> float:
    """Returns the growth in KiB from the middle of the rounds to their end."""
    third = len(rounds) // 3
    middle, last = rounds[third : 2 * third], rounds[2 * third :]
    return statistics.median(r.resident for r in last) - statistics.median(r.resident for r in middle)


def phase(name: str, times: int, run: Callable[[], int], watch: Watch) -> bool:
    """Runs `run` this many times, in rounds; prints the unreleased memory; returns true if nothing leaked."""
    start, rounds, rows = time.monotonic(), [], 0
    for number in range(ROUNDS):
        for _ in range(times * number // ROUNDS, times * (number + 1) // ROUNDS):
            rows += run()
        rounds.append(watch.look())
    more = grown(rounds)
    sizes = " ".join(str(r.resident // 1024) for r in rounds)
    print(
        f"{name:10} {times:7,} times {rows / 1e6:7.1f} M rows {time.monotonic() - start:6.0f} s  "
        f"{rounds[-1].made:,} made {rounds[-1].freed:,} freed  {more / 1024:+.1f} MiB at the end\n"
        f"{'':10} MiB after each round: {sizes}",
        flush=True,
    )
    return more <= GROWTH


def cancelled(spark: Any, frame: Any) -> int:
    """Cancels a job some time after both its tasks began; returns the number of cancelled tasks."""
    failed: list[str] = []

    def run() -> None:
        spark.sparkContext.setJobGroup("cancelled", "on purpose", interruptOnCancel=random.random() < 0.5)
        try:
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:
            failed.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: running(spark) == 2 or not thread.is_alive(), seconds=60)
    time.sleep(random.random() * 0.05)
    spark.sparkContext.cancelJobGroup("cancelled")
    thread.join(60)
    assert not thread.is_alive(), "a cancelled job goes on"
    return 0


def main() -> int:
    """Runs the phases; returns 1 if something leaked."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=400_000_000)
    arguments.add_argument("--cancels", type=int, default=1000)
    arguments.add_argument("--limits", type=int, default=1000)
    parsed = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, KafkaServer() as kafka:
        servers = kafka.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(TOPIC, 2, 1)])
        with Producer(bootstrap_servers=servers, compression_type="lz4") as producer:
            values = pa.array([b'{"id":%093d}' % number for number in range(RECORDS)], pa.binary())
            producer.send_batch(TOPIC, pa.table({"value": values})).result(120)
        spark = local_session(
            Path(folder),
            connector=False,
            spark_driver_memory="1g",
            spark_driver_extraJavaOptions=" ".join(JAVA),
            spark_ui_showConsoleProgress="false",
        )
        # Hides the stack traces that Spark logs for cancelled jobs.
        spark.sparkContext.setLogLevel("OFF")
        options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
        frame = spark.read.format("samsarrow-jvm").options(**options).load()
        watch = Watch(spark)

        def whole() -> int:
            result = frame.selectExpr("count(value)", "sum(length(value))").collect()[0]
            assert tuple(result) == (RECORDS, RECORDS * 100), result
            return RECORDS

        def limited() -> int:
            rows = frame.limit(10).collect()
            assert len(rows) == 10
            return len(rows)

        for _ in range(WARM):
            whole(), cancelled(spark, frame), limited()
        good = [
            phase("whole", parsed.rows // RECORDS, whole, watch),
            phase("cancelled", parsed.cancels // 2, lambda: cancelled(spark, frame), watch),
            phase("limited", parsed.limits, limited, watch),
        ]
        spark.stop()
    print("nothing is left" if all(good) else f"memory grew by more than {GROWTH // 1024} MiB")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
