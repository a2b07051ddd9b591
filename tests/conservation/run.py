"""One run: a face under a disturbance, and the sums that are checked after it."""

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
from conservation.reading import FACES, Application, Child, Face, Poll
from conservation.spark import DATA_LOSS, SPARK_READING, SPARK_WRITING
from conservation.writing import WRITING, ProducerProgram, Writer, WritingFace, observed

# Rows of a topic before the disturbance; as many come after it.
ROWS = 1200
QUICK_ROWS = 400
# Reading faces that quick runs have in processes of their own, which take seconds to start.
QUICK_PROCESSES = {"poll", "reader", "AsyncConsumer.poll", "AsyncConsumer.reader, trio"}

EVERY_FACE: tuple[Face | WritingFace, ...] = (*FACES, *WRITING, *SPARK_READING, *SPARK_WRITING)

_numbers = itertools.count()


@dataclass(frozen=True)
class Pair:
    """A face under a disturbance on a cluster."""

    face: Face | WritingFace
    disturbance: Disturbance
    cluster: Cluster

    @property
    def name(self) -> str:
        return f"{self.face.name} × {self.disturbance.name}"


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
        return "\n  ".join([where, *self.violations, *(f"error: {one}" for one in sorted(set(self.errors))[:4])])


def pairs(clusters: Iterable[Any], *, quick: bool = False) -> tuple[list[Pair], dict[tuple[str, str], str]]:
    """Returns the pairs that are run, and why others are not."""
    run: list[Pair] = []
    reasons: dict[tuple[str, str], str] = {}
    done: set[tuple[str, str]] = set()
    for cluster in clusters:
        logins = "sasl_mechanism" in cluster.options()
        for face, disturbance in itertools.product(EVERY_FACE, DISTURBANCES):
            # Logins matter to the disturbance that is about them.
            if logins and disturbance.name != "login rejected once":
                continue
            place = (face.name, disturbance.name)
            used: Face | WritingFace = face
            if face.spark and disturbance.spark and (reason := _without_spark(face, cluster, quick=quick)):
                reasons[place] = reason
                continue
            if disturbance.process and not face.process and not face.spark:
                if isinstance(face, WritingFace):
                    reasons[place] = f"as {ProducerProgram.name}"
                    continue
                if quick and face.name not in QUICK_PROCESSES:
                    reasons[place] = "a process of each face is in the long form"
                    continue
                used = Child(face)
            reason = disturbance.inapplicable(used, cluster)
            if reason is None and not disturbance.process and isinstance(face, ProducerProgram):
                reason = "ends by signals only"
            if reason is None:
                run.append(Pair(used, disturbance, cluster))
                done.add(place)
            else:
                reasons[place] = reason
    return run, {place: reason for place, reason in reasons.items() if place not in done}


def _without_spark(face: Face | WritingFace, cluster: Any, *, quick: bool) -> str | None:
    """Returns why a face of Spark is not run, if it is not."""
    if quick:
        return "Spark is in the long form"
    return "Spark runs on the embedded broker" if isinstance(cluster, Apache) else face.unavailable()


def run(pair: Pair, seed: int, *, quick: bool = False) -> Result:
    """Runs a pair once; with fewer rows and events where it is to be quick."""
    result, started = Result(pair, seed), time.monotonic()
    draw = random.Random(f"{seed} {pair.name}")
    name = f"conservation-{os.getpid()}-{next(_numbers)}"
    topic = Topic(pair.cluster, name, pair.face.partitions)
    try:
        pair.face.prepare()
        if isinstance(pair.face, Face):
            _read(pair, pair.face, topic, draw, result, QUICK_ROWS if quick else ROWS, _times(pair, quick))
        else:
            _write(pair, pair.face, topic, draw, result, _times(pair, quick))
    except Exception:
        result.violations.append(f"the run failed: {traceback.format_exc(limit=-3)}")
    finally:
        pair.cluster.heal()
        with suppress(Exception):
            topic.delete()
    result.seconds = time.monotonic() - started
    return result


def _read(pair: Pair, face: Face, topic: Topic, draw: random.Random, result: Result, rows: int, times: int) -> None:
    group, seed = f"{topic.name}-group", draw.randrange(1 << 30)
    program = Application(pair.cluster, topic.name, group, seed, pair.disturbance.options())
    program.expected = lambda: set(topic.expected)
    if face.dead is not None:
        Topic(pair.cluster, f"{topic.name}{face.dead}", 1)
    topic.fill(rows)
    scene = Scene(pair.cluster, topic, program, face, draw)
    pair.disturbance.before(scene)
    thread, crash = _started(face, program)
    _progressed(program, draw.randrange(1, rows // 2), face)
    with topic.filling(3 * rows) if pair.disturbance.fills else nullcontext():
        for turn in range(times):
            pair.disturbance.apply(scene, turn)
    # Otherwise the requests that read the log would get the faults.
    pair.cluster.heal()
    if not topic.created_again:
        _sum_up_commits(topic, group, face, scene, result)
    topic.fill(rows)
    everything = set(topic.expected)
    _until(lambda: everything <= _ids(scene, face) or crash or not thread.is_alive(), program, scene)
    _stop(thread, program, result, face)
    for other, app in scene.others:
        _stop(other, app, result, face)
    result.errors += program.errors
    result.violations += [f"the program ended: {one}" for one in crash]
    if face.whole:
        for expected, found in program.passes:
            if not topic.created_again:
                result.violations += sums.missing([], [Row(-1, -1, one) for one in found], expected)
        result.violations += sums.repeated(program.snapshot())
    elif face.group:
        _successor(pair, topic, group, scene, face, result)
    if face.spark and not topic.created_again:
        result.violations += [f"rows reported as lost: {one}" for one in program.errors if DATA_LOSS in one]
    log, returned = topic.rows(), _returned(scene, face)
    result.rows = len(everything)
    result.violations += sums.missing(log, returned, everything)
    # A process that ended with an error did not commit what it returned last.
    repeats = pair.disturbance.repeats or any(error.startswith("code ") for error in program.errors)
    if not topic.created_again and not repeats and not face.whole:
        result.violations += sums.repeated(row for row in _of_members(scene))
    result.violations = list(dict.fromkeys(result.violations))


def _write(pair: Pair, face: WritingFace, topic: Topic, draw: random.Random, result: Result, times: int) -> None:
    writer = Writer(pair.cluster, topic.name, f"{topic.name}-group", draw.randrange(1 << 30), {})
    scene = Scene(pair.cluster, topic, writer, face, draw)
    with observed(writer):
        pair.disturbance.before(scene)
        thread, crash = _started(face, writer)
        _progressed(writer, draw.randrange(1, 3 * face.rows), face)
        for turn in range(times):
            pair.disturbance.apply(scene, turn)
            scene.rest()
        pair.cluster.heal()
        # Something is sent after the disturbance, too.
        _progressed(writer, len(writer.snapshot()) + 1, face)
        _stop(thread, writer, result, face)
        gc.collect()
    result.errors += writer.errors + writer.reports
    result.violations += [f"the program ended: {one}" for one in crash]
    log = topic.rows()
    if face.at_least_once:
        log = list({row.id: row for row in log}.values())
    result.rows = len(writer.given)
    if face.spark and not writer.acknowledged:
        # Otherwise a query that fails always, for instance due to an option, would pass.
        result.violations.append(f"no write of {len(writer.given)} rows succeeded")
    if topic.created_again:
        # Rows of the deleted topic were acknowledged, and are gone with it.
        writer.acknowledged &= ids(log)
        writer.given -= writer.acknowledged - ids(log)
    else:
        result.violations += sums.unreported(
            writer.given, writer.acknowledged, writer.rejected, log, len(writer.reports)
        )
    result.violations += sums.joined(writer.aborted, log)


def _times(pair: Pair, quick: bool) -> int:
    return pair.disturbance.quick_times if quick else pair.disturbance.times


def _started(face: Any, program: Any) -> tuple[threading.Thread, list[str]]:
    crash: list[str] = []

    def work() -> None:
        try:
            face.run(program)
        except BaseException as error:
            crash.append("".join(traceback.format_exception_only(error)).strip())
            program.errors.append("".join(traceback.format_exception(error)[-3:]))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread, crash


def _progressed(program: Any, rows: int, face: Face | WritingFace) -> None:
    deadline = time.monotonic() + face.patience
    while len(program.snapshot()) < rows and time.monotonic() < deadline:
        time.sleep(0.002)


def _until(met: Any, program: Application, scene: Scene) -> None:
    """Waits until `met`, or until nothing more is returned."""
    last, seen = time.monotonic(), -1
    while not met():
        count = len(program.snapshot()) + sum(len(app.snapshot()) for _, app in scene.others)
        if count != seen:
            last, seen = time.monotonic(), count
        if time.monotonic() - last > scene.face.patience:
            return
        time.sleep(0.05)


def _stop(thread: threading.Thread, program: Any, result: Result, face: Face | WritingFace) -> None:
    program.stopped.set()
    limit = 4 * face.patience
    thread.join(limit)
    if thread.is_alive():
        result.violations.append(f"the program did not end within {limit:.0f} s")


def _of_members(scene: Scene) -> Iterator[Row]:
    assert isinstance(scene.program, Application)
    yield from scene.program.snapshot()
    for _, app in scene.others:
        yield from app.snapshot()


def _returned(scene: Scene, face: Face) -> list[Row]:
    """Rows that members returned, and those that went to the dead-letter topic."""
    dead = [] if face.dead is None else scene.topic.rows(f"{scene.topic.name}{face.dead}")
    return [*_of_members(scene), *dead]


def _ids(scene: Scene, face: Face) -> set[str]:
    found = ids(_of_members(scene))
    if face.dead is not None and scene.topic.expected - found and len(found) * 2 >= len(scene.topic.expected):
        found |= ids(scene.topic.rows(f"{scene.topic.name}{face.dead}"))
    return found


def _sum_up_commits(topic: Topic, group: str, face: Face, scene: Scene, result: Result) -> None:
    """Checks the second sum now: what is committed first, what was returned after it."""
    if face.group:
        committed = topic.committed(group)
        # A process prints rows before it polls again: they arrive here a moment later.
        time.sleep(0.1 if face.process else 0.0)
        result.violations += sums.passed(topic.rows(), committed, _returned(scene, face))


def _successor(pair: Pair, topic: Topic, group: str, scene: Scene, face: Face, result: Result) -> None:
    """Has another member read what the group has not finished: rows that were committed and lost stay missing."""
    committed = topic.committed(group)
    result.violations += sums.passed(topic.rows(), committed, _returned(scene, face))
    ends: dict[int, int] = {}
    for row in topic.rows():
        ends[row.partition] = max(ends.get(row.partition, 0), row.offset + 1)
    if all(committed.get(partition, 0) >= end for partition, end in ends.items()):
        return
    app = Application(pair.cluster, topic.name, group, 0, pair.disturbance.options())
    thread, _ = _started(Poll(), app)
    scene.others.append((thread, app))
    _until(lambda: set(topic.expected) <= _ids(scene, face), app, scene)
    _stop(thread, app, result, face)
