"""Streaming queries whose driver is killed repeatedly at random points.

`SAMSARROW_SPARK_KILLS` sets the number of kills, `SAMSARROW_SPARK_SEED` the seed of their times.
"""

import os
import random
import select
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from support.kafka import SUPPORT, KafkaServer
from support.process_dump import dump_stacks
from support.slow import WHOLE
from support.streams import wait_for_markers, wait_until
from support.waiting import until

KILLS = int(os.environ.get("SAMSARROW_SPARK_KILLS", "1"))
SEED = int(os.environ.get("SAMSARROW_SPARK_SEED", "1"))


class Feeder(threading.Thread):
    """Sends numbered records until it is stopped."""

    def __init__(self, kafka: KafkaServer, topic: str) -> None:
        super().__init__()
        self._kafka, self._topic = kafka, topic
        self._end = threading.Event()
        self.sent = 0

    def run(self) -> None:
        with Producer(bootstrap_servers=self._kafka.bootstrap_servers) as producer:
            while not self._end.wait(0.01):
                producer.send(self._topic, str(self.sent), str(self.sent % 10), partition=self.sent % 2)
                self.sent += 1

    def end(self) -> int:
        self._end.set()
        self.join()
        return self.sent


class Timeline:
    """A log of events, which helps to analyse failures."""

    def __init__(self, errors: Path) -> None:
        self.errors = errors

    def note(self, text: str) -> None:
        with self.errors.open("a") as out:
            out.write(f"{time.time():.2f} TEST {text}\n")

    def tail(self, lines: int = 3000) -> str:
        return "\n".join(self.errors.read_text(errors="replace").splitlines()[-lines:])


@contextmanager
def copying(timeline: Timeline, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Runs the copying program and kills it at the end; after a failure, dumps the stacks of all its threads first."""
    command = [sys.executable, str(SUPPORT / "spark_copy.py"), *arguments]
    environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
    with timeline.errors.open("ab") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, process_group=0, env=environment
        )
    try:
        yield process
    except BaseException:
        timeline.note(f"failed; {dump_stacks(process.pid)}")
        raise
    finally:
        # Kills the driver and its JVM; Python workers end shortly afterwards, when the pipe of their daemon breaks.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def values(kafka: KafkaServer, topic: str, isolation: str = "read_uncommitted") -> list[int]:
    config = {"isolation.level": isolation, "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return [int(v) for v in consumer.reader().read_all().column("value").to_pylist()]


def committed(kafka: KafkaServer, topic: str) -> dict[TopicPartition, int]:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        offsets = admin.fetch_offsets(f"copy-{topic}")
    return {tp: at.offset for tp, at in offsets.items() if at is not None}


def end_of(consumer: Consumer, topic: str) -> int:
    """Returns the sum of the end offsets for a read_committed consumer. Open transactions limit these offsets."""
    return sum(consumer.end_offsets(consumer.partitions_for(topic)).values())


def check_group(kafka: KafkaServer, topic: str, isolation: str) -> None:
    """Checks that all records before the committed offsets are in the sink. Record `n` is in partition `n % 2`, at
    offset `n // 2`.
    """
    finished = committed(kafka, topic)
    expected = {n for (_, partition), offset in finished.items() for n in range(partition, 2 * offset, 2)}
    # Commit markers may follow the response to a commit.
    until(
        lambda: expected <= set(values(kafka, topic, isolation)),
        lambda: f"{finished} are committed, {len(expected - set(values(kafka, topic, isolation)))} are not in the sink",
    )


def run_and_kill(kafka: KafkaServer, timeline: Timeline, arguments: tuple[str, ...], seconds: float) -> float:
    """Kills the program `seconds` after both sinks have begun to grow; returns the seconds until then."""
    start = time.monotonic()
    with (
        Consumer(bootstrap_servers=kafka.bootstrap_servers, isolation_level="read_committed") as consumer,
        copying(timeline, *arguments, "run") as process,
    ):
        before = {topic: end_of(consumer, topic) for topic in arguments[-2:]}

        def grown(topic: str) -> bool:
            assert process.poll() is None, "the program ended by itself"
            return end_of(consumer, topic) > before[topic]

        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], 240)
        assert ready, "Spark did not start"
        assert process.stdout.readline() == "running\n"
        # Spark is warming up until both sinks grow; then micro-batches run steadily.
        for topic in before:
            wait_until(lambda topic=topic: grown(topic), 180)  # type: ignore[misc]
            timeline.note(f"{topic} grows")
        stood = time.monotonic() - start
        time.sleep(seconds)
    return stood


@pytest.mark.timeout(400 + 300 * KILLS)
@pytest.mark.parametrize("sink", ["samsarrow-python", pytest.param("samsarrow-jvm", marks=WHOLE)])
def test_killed_drivers_lose_no_records(
    request: pytest.FixtureRequest, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path, sink: str
) -> None:
    if sink == "samsarrow-jvm":
        request.getfixturevalue("built")
    timeline = Timeline(tmp_path / "errors")
    try:
        kill_again_and_again(sink, kafka, new_topic, tmp_path, timeline)
    except BaseException:
        sys.stdout.write(timeline.tail())
        raise


def kill_again_and_again(
    sink: str, kafka: KafkaServer, new_topic: Callable[..., str], folder: Path, timeline: Timeline
) -> None:
    draw = random.Random(SEED)
    come, at_least_once, exactly_once = new_topic(2), new_topic(2), new_topic(2)
    arguments = (sink, kafka.bootstrap_servers, str(folder), come, at_least_once, exactly_once)
    feeder = Feeder(kafka, come)
    feeder.start()
    standstill = 0.0
    try:
        for number in range(KILLS):
            timeline.note(f"start {number}")
            standstill = max(standstill, run_and_kill(kafka, timeline, arguments, draw.uniform(0.0, 3.0)))
            timeline.note("killed")
            check_group(kafka, at_least_once, "read_uncommitted")
            check_group(kafka, exactly_once, "read_committed")
    finally:
        sent = feeder.end()
    with copying(timeline, *arguments, "drain") as process:
        assert process.wait(300) == 0
    wait_for_markers(kafka.bootstrap_servers, exactly_once)
    once = Counter(values(kafka, exactly_once, "read_committed"))
    several = Counter(values(kafka, at_least_once))
    again = several.total() - len(several)
    sys.stdout.write(
        f"{sink}: {KILLS} kills, {sent} sent: at least once with {again} twice, exactly once {once.total()}; "
        f"{standstill:.0f} s at most until both sinks grew again\n"
    )
    assert set(several) == set(range(sent))
    assert once == Counter(range(sent))
    ends = {TopicPartition(come, p): (sent + 1 - p) // 2 for p in (0, 1)}
    assert committed(kafka, at_least_once) == ends
    assert committed(kafka, exactly_once) == ends
