"""One run of an interface under a disturbance, after which the sums are checked."""

from __future__ import annotations

import gc
import itertools
import os
import random
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from conservation import sums
from conservation.clusters import Apache, Cluster, Row, Topic, ids
from conservation.disturbances import DISTURBANCES, Disturbance, Scene
from conservation.reading import INTERFACES, Application, Child, Poll, ReadInterface
from conservation.spark import DATA_LOSS, SPARK_READING, SPARK_WRITING
from conservation.writing import WRITING, ProducerProgram, WriteInterface, Writer, observed

# Rows written to a topic before the disturbance; the same number is written after it.
ROWS = 1200
QUICK_ROWS = 400
# Reading interfaces that quick runs start in separate processes. The others are left out, because a start takes
# seconds.
QUICK_PROCESSES = {"poll", "reader", "AsyncConsumer.poll", "AsyncConsumer.reader, trio"}

ALL_INTERFACES: tuple[ReadInterface | WriteInterface, ...] = (*INTERFACES, *WRITING, *SPARK_READING, *SPARK_WRITING)

_numbers = itertools.count()


@dataclass(frozen=True)
class Pair:
    """A pair of an interface and a disturbance, and the cluster on which it runs."""

    interface: ReadInterface | WriteInterface
    disturbance: Disturbance
    cluster: Cluster

    @property
    def name(self) -> str:
        return f"{self.interface.name} × {self.disturbance.name}"


@dataclass
class Result:
    """Result of a run."""

    pair: Pair
    seed: int
    rows: int = 0
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        where = f"seed {self.seed}: {self.pair.name} on {self.pair.cluster.name}"
        return "\n  ".join([where, *self.violations, *(f"error: {item}" for item in sorted(set(self.errors))[:4])])


def pairs(clusters: Iterable[Any], *, quick: bool = False) -> tuple[list[Pair], dict[tuple[str, str], str]]:
    """Returns the pairs to run, and the reasons for leaving out the other pairs."""
    run: list[Pair] = []
    reasons: dict[tuple[str, str], str] = {}
    done: set[tuple[str, str]] = set()
    for cluster in clusters:
        logins = "sasl_mechanism" in cluster.options()
        for interface, disturbance in itertools.product(ALL_INTERFACES, DISTURBANCES):
            # The cluster with logins is needed only for the disturbance of logins.
            if logins and disturbance.name != "login rejected once":
                continue
            place = (interface.name, disturbance.name)
            used: ReadInterface | WriteInterface = interface
            if interface.spark and disturbance.spark and (reason := _without_spark(interface, cluster, quick=quick)):
                reasons[place] = reason
                continue
            if disturbance.process and not interface.process and not interface.spark:
                if isinstance(interface, WriteInterface):
                    reasons[place] = f"as {ProducerProgram.name}"
                    continue
                if quick and interface.name not in QUICK_PROCESSES:
                    reasons[place] = "a process of each interface is in the long form"
                    continue
                used = Child(interface)
            reason = disturbance.inapplicable(used, cluster)
            if reason is None and not disturbance.process and isinstance(interface, ProducerProgram):
                reason = "ends by signals only"
            if reason is None:
                run.append(Pair(used, disturbance, cluster))
                done.add(place)
            else:
                reasons[place] = reason
    return run, {place: reason for place, reason in reasons.items() if place not in done}


def _without_spark(interface: ReadInterface | WriteInterface, cluster: Any, *, quick: bool) -> str | None:
    """Returns the reason why an interface of Spark is not run, or None."""
    if quick:
        return "Spark is in the long form"
    return "Spark runs on the embedded broker" if isinstance(cluster, Apache) else interface.unavailable()


def run(pair: Pair, seed: int, *, quick: bool = False) -> Result:
    """Runs a pair once. A quick run has fewer rows and events."""
    result, started = Result(pair, seed), time.monotonic()
    draw = random.Random(f"{seed} {pair.name}")
    name = f"conservation-{os.getpid()}-{next(_numbers)}"
    topic = Topic(pair.cluster, name, pair.interface.partitions)
    try:
        pair.interface.prepare()
        if isinstance(pair.interface, ReadInterface):
            _read(pair, pair.interface, topic, draw, result, QUICK_ROWS if quick else ROWS, _times(pair, quick))
        else:
            _write(pair, pair.interface, topic, draw, result, _times(pair, quick))
    except Exception:
        result.violations.append(f"the run failed: {traceback.format_exc(limit=-3)}")
    finally:
        pair.cluster.heal()
        with suppress(Exception):
            topic.delete()
    result.seconds = time.monotonic() - started
    return result


def _read(
    pair: Pair, interface: ReadInterface, topic: Topic, draw: random.Random, result: Result, rows: int, times: int
) -> None:
    group, seed = f"{topic.name}-group", draw.randrange(1 << 30)
    program = Application(pair.cluster, topic.name, group, seed, pair.disturbance.options())
    program.expected = lambda: set(topic.expected)
    if interface.dead is not None:
        Topic(pair.cluster, f"{topic.name}{interface.dead}", 1)
    topic.fill(rows)
    scene = Scene(pair.cluster, topic, program, interface, draw)
    pair.disturbance.before(scene)
    thread, crash = _started(interface, program)
    _progressed(program, draw.randrange(1, rows // 2), interface)
    with topic.filling(3 * rows) if pair.disturbance.fills else nullcontext():
        for turn in range(times):
            pair.disturbance.apply(scene, turn)
    # Removes the faults, which would otherwise affect the requests that read the log.
    pair.cluster.heal()
    if not topic.created_again:
        _sum_up_commits(topic, group, interface, scene, result)
    topic.fill(rows)
    everything = set(topic.expected)
    _until(lambda: everything <= _ids(scene, interface) or crash or not thread.is_alive(), program, scene)
    _stop(thread, program, result, interface)
    for other, app in scene.others:
        _stop(other, app, result, interface)
    result.errors += program.errors
    result.violations += [f"the program ended: {item}" for item in crash]
    if interface.whole:
        for expected, actual in program.passes:
            if not topic.created_again:
                result.violations += sums.missing([], [Row(-1, -1, item) for item in actual], expected)
        result.violations += sums.repeated(program.snapshot())
    elif interface.group:
        _successor(pair, topic, group, scene, interface, result)
    if interface.spark and not topic.created_again:
        result.violations += [f"rows reported as lost: {item}" for item in program.errors if DATA_LOSS in item]
    log, returned = topic.rows(), _returned(scene, interface)
    result.rows = len(everything)
    result.violations += sums.missing(log, returned, everything)
    # A process that ended with an error did not commit its last rows.
    repeats = pair.disturbance.repeats or any(error.startswith("code ") for error in program.errors)
    if not topic.created_again and not repeats and not interface.whole:
        result.violations += sums.repeated(row for row in _of_members(scene))
    result.violations = list(dict.fromkeys(result.violations))


def _write(
    pair: Pair, interface: WriteInterface, topic: Topic, draw: random.Random, result: Result, times: int
) -> None:
    writer = Writer(pair.cluster, topic.name, f"{topic.name}-group", draw.randrange(1 << 30), {})
    scene = Scene(pair.cluster, topic, writer, interface, draw)
    with observed(writer):
        pair.disturbance.before(scene)
        thread, crash = _started(interface, writer)
        _progressed(writer, draw.randrange(1, 3 * interface.rows), interface)
        for turn in range(times):
            pair.disturbance.apply(scene, turn)
            scene.rest()
        pair.cluster.heal()
        # Waits until the writer has sent further rows after the disturbance.
        _progressed(writer, len(writer.snapshot()) + 1, interface)
        _stop(thread, writer, result, interface)
        gc.collect()
    result.errors += writer.errors + writer.reports
    result.violations += [f"the program ended: {item}" for item in crash]
    log = topic.rows()
    if interface.at_least_once:
        log = list({row.id: row for row in log}.values())
    result.rows = len(writer.given)
    if interface.spark and not writer.acknowledged:
        # Without this check, a query that always fails, for instance because of an option, would pass.
        result.violations.append(f"no write of {len(writer.given)} rows succeeded")
    if topic.created_again:
        # Rows acknowledged before the deletion were deleted with the topic.
        writer.acknowledged &= ids(log)
        writer.given -= writer.acknowledged - ids(log)
    else:
        result.violations += sums.unreported(
            writer.given, writer.acknowledged, writer.rejected, log, len(writer.reports)
        )
    result.violations += sums.joined(writer.aborted, log)


def _times(pair: Pair, quick: bool) -> int:
    return pair.disturbance.quick_times if quick else pair.disturbance.times


def _started(interface: Any, program: Any) -> tuple[threading.Thread, list[str]]:
    crash: list[str] = []

    def work() -> None:
        try:
            interface.run(program)
        except BaseException as error:
            crash.append("".join(traceback.format_exception_only(error)).strip())
            program.errors.append("".join(traceback.format_exception(error)[-3:]))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, crash


def _progressed(program: Any, rows: int, interface: ReadInterface | WriteInterface) -> None:
    deadline = time.monotonic() + interface.patience
    while len(program.snapshot()) < rows and time.monotonic() < deadline:
        time.sleep(0.002)


def _until(met: Any, program: Application, scene: Scene) -> None:
    """Waits until `met` returns true, or until no more rows are returned."""
    last, seen = time.monotonic(), -1
    while not met():
        count = len(program.snapshot()) + sum(len(app.snapshot()) for _, app in scene.others)
        if count != seen:
            last, seen = time.monotonic(), count
        if time.monotonic() - last > scene.interface.patience:
            return
        time.sleep(0.05)


def _stop(thread: threading.Thread, program: Any, result: Result, interface: ReadInterface | WriteInterface) -> None:
    program.stopped.set()
    limit = 4 * interface.patience
    thread.join(limit)
    if thread.is_alive():
        result.violations.append(f"the program did not end within {limit:.0f} s")


def _of_members(scene: Scene) -> Iterator[Row]:
    assert isinstance(scene.program, Application)
    yield from scene.program.snapshot()
    for _, app in scene.others:
        yield from app.snapshot()


def _returned(scene: Scene, interface: ReadInterface) -> list[Row]:
    """Returns the rows that members returned and the rows in the dead-letter topic."""
    dead = [] if interface.dead is None else scene.topic.rows(f"{scene.topic.name}{interface.dead}")
    return [*_of_members(scene), *dead]


def _ids(scene: Scene, interface: ReadInterface) -> set[str]:
    result = ids(_of_members(scene))
    if interface.dead is not None and scene.topic.expected - result and len(result) * 2 >= len(scene.topic.expected):
        result |= ids(scene.topic.rows(f"{scene.topic.name}{interface.dead}"))
    return result


def _sum_up_commits(topic: Topic, group: str, interface: ReadInterface, scene: Scene, result: Result) -> None:
    """Checks the second sum. The committed offsets must be read before the returned rows."""
    if interface.group:
        committed = topic.committed(group)
        # A process prints rows before it polls again, so the rows arrive here a moment later.
        time.sleep(0.1 if interface.process else 0.0)
        result.violations += sums.passed(topic.rows(), committed, _returned(scene, interface))


def _successor(pair: Pair, topic: Topic, group: str, scene: Scene, interface: ReadInterface, result: Result) -> None:
    """Lets another member continue at the committed offsets. Rows that were committed but not returned stay missing."""
    committed = topic.committed(group)
    result.violations += sums.passed(topic.rows(), committed, _returned(scene, interface))
    ends: dict[int, int] = {}
    for row in topic.rows():
        ends[row.partition] = max(ends.get(row.partition, 0), row.offset + 1)
    if all(committed.get(partition, 0) >= end for partition, end in ends.items()):
        return
    app = Application(pair.cluster, topic.name, group, 0, pair.disturbance.options())
    thread, _ = _started(Poll(), app)
    scene.others.append((thread, app))
    _until(lambda: set(topic.expected) <= _ids(scene, interface), app, scene)
    _stop(thread, app, result, interface)
