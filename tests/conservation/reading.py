"""Reading interfaces: applications that read a topic until they are stopped. Each uses a different part of the API."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

import pyarrow as pa

import samsarrow
from conservation.cancelling import CallCancelledError
from conservation.clusters import Cluster, Row
from samsarrow import AsyncConsumer, AsyncProducer, Consumer, DeadLetter, Producer
from samsarrow.exceptions import ClosedError, KafkaError

T = TypeVar("T")

PARTITIONS = 16
# Seconds without progress after which a run has lost rows or hangs.
PATIENCE = 15.0


class Application:
    """State of a reading application: the returned rows, and settings that disturbances change."""

    def __init__(self, cluster: Cluster, topic: str, group: str, seed: int, options: dict[str, Any]) -> None:
        self.cluster, self.topic, self.group = cluster, topic, group
        self.options: dict[str, Any] = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 100,
            "max_poll_records": 20,
            "metadata_max_age_ms": 500,
            "retry_backoff_ms": 50,
            **cluster.options(),
            **options,
        }
        if options.get("group_protocol") != "consumer":
            # Short enough that partitions of a member that could not leave are reassigned while the run still waits.
            self.options = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500} | self.options
        self.random = random.Random(seed)
        self.returned: list[Row] = []
        self.expected: Callable[[], set[str]] = set
        self.passes: list[tuple[set[str], set[str]]] = []
        """Expected and returned ids, of interfaces that read a topic from its beginning each time."""
        self.errors: list[str] = []
        self.stopped = threading.Event()
        self.restart = threading.Event()
        """Set by disturbances after which the application opens another consumer."""
        self.closes = True
        """True if the application closes its consumer."""
        self.fails_tasks = False
        """True if each Spark task fails once."""
        self.consumer: Any = None
        self.in_loop: Callable[[Callable[[], Awaitable[object]]], None] | None = None
        self.guard: Callable[[Awaitable[Any]], Awaitable[Any]] | None = None
        """Cancels calls of an event loop."""
        self._lock = threading.Lock()

    def going(self) -> bool:
        return not self.stopped.is_set() and not self.restart.is_set()

    def take(self, batch: pa.RecordBatch) -> None:
        """Records returned rows, and sleeps for a random time as if the application processed them."""
        columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "key"))
        self.add([Row(partition, offset, key.decode()) for partition, offset, key in zip(*columns, strict=True)])
        if batch.num_rows:
            time.sleep(self.random.random() * 0.004)

    def add(self, rows: list[Row]) -> None:
        with self._lock:
            self.returned += rows

    def replace(self, rows: list[Row]) -> None:
        with self._lock:
            self.returned = rows

    def snapshot(self) -> list[Row]:
        with self._lock:
            return list(self.returned)

    def failed(self, error: BaseException) -> None:
        """Records an error; the application continues."""
        self.errors.append(f"{type(error).__name__}: {error}")
        if isinstance(error, ClosedError) or getattr(error, "fatal", False):
            self.restart.set()
        time.sleep(0.01)

    async def call(self, work: Awaitable[T]) -> T:
        """Awaits a call, which a disturbance may cancel."""
        return await (work if self.guard is None else self.guard(work))


class ReadInterface:
    """An interface for reading."""

    name: str
    loop: str | None = None
    """The event loop in which it runs."""
    group = True
    """True if it is a member of a group and commits."""
    process = False
    """True if it is a separate process."""
    whole = False
    """True if it reads the topic from its beginning each time."""
    dead: str | None = None
    """Suffix of the topic that receives all or some of the rows."""
    writes = False
    """True if it sends all rows that it reads."""
    spark = False
    """True if it is a Spark query."""
    checkpointed = False
    """True if its position is in a Spark checkpoint."""
    partitions = PARTITIONS
    """Number of partitions of its topic."""
    patience = PATIENCE
    """Seconds without progress after which a run ends."""
    pace = 1.0
    """Factor of the pauses between events."""

    def unavailable(self) -> str | None:
        """Returns the reason why the interface cannot be run here, or None."""
        return None

    def prepare(self) -> None:
        """Creates resources shared by all runs."""

    def run(self, app: Application) -> None:
        """Reads until the application is stopped."""
        while not app.stopped.is_set():
            app.restart.clear()
            self.once(app)

    def once(self, app: Application) -> None:
        """Reads with one consumer."""
        consumer = self.open(app)
        try:
            consumer.subscribe([app.topic])
            app.consumer = consumer
            while app.going():
                try:
                    self.read(consumer, app)
                except KafkaError as error:
                    app.failed(error)
        finally:
            app.consumer = None
            if app.closes:
                consumer.close(20)

    def open(self, app: Application) -> Consumer:
        return Consumer(**app.options)

    def read(self, consumer: Consumer, app: Application) -> None:
        """Reads once."""
        raise NotImplementedError


class Poll(ReadInterface):
    name = "poll"

    def read(self, consumer: Consumer, app: Application) -> None:
        app.take(consumer.poll(0.1))


class Records(ReadInterface):
    name = "records"

    def read(self, consumer: Consumer, app: Application) -> None:
        rows = [
            Row(record.partition, record.offset, bytes(record.key or b"").decode()) for record in consumer.records(0.1)
        ]
        app.add(rows)


class Iteration(ReadInterface):
    name = "iteration"

    def read(self, consumer: Consumer, app: Application) -> None:
        # The loop has no timeout. It ends because another thread wakes the consumer up or closes it.
        waker = threading.Thread(target=self._wake, args=(consumer, app), daemon=True)
        waker.start()
        for batch in consumer:
            app.take(batch)
            if not app.going():
                break

    @staticmethod
    def _wake(consumer: Consumer, app: Application) -> None:
        while app.going() and not consumer.closed:
            time.sleep(0.05)
        with suppress(ClosedError):
            consumer.wakeup()


class Stream(ReadInterface):
    name = "stream"

    def read(self, consumer: Consumer, app: Application) -> None:
        stream = consumer.stream(idle=0.2, max_rows=app.random.randint(1, 60))
        for batch in stream:
            app.take(batch)
            if not app.going():
                break
        if stream.ended_by == "closed":
            app.restart.set()


class Reader(ReadInterface):
    name = "reader"

    def read(self, consumer: Consumer, app: Application) -> None:
        for batch in consumer.reader(timeout=5):
            app.take(batch)
            if not app.going():
                break
        time.sleep(0.02)


class DeadLetters(ReadInterface):
    name = "DeadLetter"
    dead = "-dead"

    def once(self, app: Application) -> None:
        with Producer(**app.cluster.options()) as self._producer:
            super().once(app)

    def open(self, app: Application) -> Consumer:
        letters = DeadLetter(f"{app.topic}{self.dead}", self._producer)
        return Consumer(**app.options, value_format="long", on_decode_error=letters)

    def read(self, consumer: Consumer, app: Application) -> None:
        app.take(consumer.poll(0.1))


class AsyncPoll(ReadInterface):
    name = "AsyncConsumer.poll"
    loop = "asyncio"

    def once(self, app: Application) -> None:
        if self.loop == "trio":
            import trio

            trio.run(self._once, app)
        else:
            asyncio.run(self._once(app))

    async def _once(self, app: Application) -> None:
        if self.loop == "asyncio":
            running = asyncio.get_running_loop()

            def in_loop(work: Callable[[], Any]) -> None:
                asyncio.run_coroutine_threadsafe(work(), running).result(30)

            app.in_loop = in_loop
        consumer = await self._open(app)
        try:
            consumer.subscribe([app.topic])
            app.consumer = consumer
            while app.going():
                try:
                    await self._read(consumer, app)
                except (KafkaError, CallCancelledError) as error:
                    app.failed(error)
        finally:
            app.consumer = None
            if app.closes:
                await consumer.close(20)

    async def _open(self, app: Application) -> AsyncConsumer:
        return AsyncConsumer(**app.options)

    async def _read(self, consumer: AsyncConsumer, app: Application) -> None:
        app.take(await app.call(consumer.poll(0.1)))


class TrioPoll(AsyncPoll):
    name = "AsyncConsumer.poll, trio"
    loop = "trio"


class AsyncRecords(AsyncPoll):
    name = "AsyncConsumer.records"

    async def _read(self, consumer: AsyncConsumer, app: Application) -> None:
        rows = consumer.records(0.1)
        with suppress(StopAsyncIteration):
            while True:
                one = await app.call(anext(rows))
                app.add([Row(one.partition, one.offset, bytes(one.key or b"").decode())])


class AsyncIteration(AsyncPoll):
    name = "AsyncConsumer iteration"

    async def _read(self, consumer: AsyncConsumer, app: Application) -> None:
        waker = asyncio.create_task(self._wake(consumer, app))
        try:
            batches = aiter(consumer)
            while app.going():
                app.take(await app.call(anext(batches)))
        except StopAsyncIteration:
            app.restart.set()
        finally:
            waker.cancel()

    @staticmethod
    async def _wake(consumer: AsyncConsumer, app: Application) -> None:
        while app.going() and not consumer.closed:
            await asyncio.sleep(0.05)
        with suppress(ClosedError):
            consumer.wakeup()


class AsyncStream(AsyncPoll):
    name = "AsyncConsumer.stream"

    async def _read(self, consumer: AsyncConsumer, app: Application) -> None:
        stream = consumer.stream(idle=0.2, max_rows=app.random.randint(1, 60))
        with suppress(StopAsyncIteration):
            while app.going():
                app.take(await app.call(anext(stream)))
        if stream.ended_by == "closed":
            app.restart.set()


class AsyncReader(AsyncPoll):
    name = "AsyncConsumer.reader"

    async def _read(self, consumer: AsyncConsumer, app: Application) -> None:
        batches: AsyncIterator[pa.RecordBatch] = consumer.reader(timeout=5)
        async with aclosing(batches):  # type: ignore[type-var]
            with suppress(StopAsyncIteration):
                while app.going():
                    app.take(await app.call(anext(batches)))
        await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(0.02)


class TrioReader(AsyncReader):
    name = "AsyncConsumer.reader, trio"
    loop = "trio"

    async def _pause(self) -> None:
        import trio

        await trio.sleep(0.02)


class AsyncDeadLetters(AsyncPoll):
    name = "DeadLetter, AsyncConsumer"
    dead = "-dead"

    async def _once(self, app: Application) -> None:
        async with AsyncProducer(**app.cluster.options()) as self._producer:
            await super()._once(app)

    async def _open(self, app: Application) -> AsyncConsumer:
        letters = DeadLetter(f"{app.topic}{self.dead}", self._producer)
        return AsyncConsumer(**app.options, value_format="long", on_decode_error=letters)


class Snapshots(ReadInterface):
    """Base of interfaces that read a topic from its beginning to its current end, again and again."""

    group = False
    whole = True

    def once(self, app: Application) -> None:
        options = app.cluster.options() | {"metadata_max_age_ms": 500, "retry_backoff_ms": 50}
        while app.going():
            expected = app.expected()
            try:
                rows = self.rows(app.topic, options)
            except Exception as error:
                app.failed(error)
                continue
            app.passes.append((expected, {row.id for row in rows}))
            app.replace(rows)

    def rows(self, topic: str, options: dict[str, Any]) -> list[Row]:
        """Reads the topic once."""
        raise NotImplementedError


class Polars(Snapshots):
    name = "scan_topic"

    def rows(self, topic: str, options: dict[str, Any]) -> list[Row]:
        from samsarrow.polars import scan_topic

        actual = scan_topic(topic, **options).select("partition", "offset", "key").collect()
        return [Row(partition, offset, key.decode()) for partition, offset, key in actual.rows()]


class Tables(Snapshots):
    name = "read"

    def rows(self, topic: str, options: dict[str, Any]) -> list[Row]:
        table = samsarrow.read(topic, columns=["partition", "offset", "key"], **options)
        return [Row(row["partition"], row["offset"], row["key"].decode()) for row in table.to_pylist()]


class Splits(Snapshots):
    name = "ranges.plan"

    def rows(self, topic: str, options: dict[str, Any]) -> list[Row]:
        plan = samsarrow.ranges.plan(topic, splits=3, columns=["partition", "offset", "key"], **options)
        found = [row for split in plan.splits for row in split.read().read_all().to_pylist()]
        return [Row(row["partition"], row["offset"], row["key"].decode()) for row in found]


class CommandLine(ReadInterface):
    name = "samsarrow consume -g"
    process = True

    def once(self, app: Application) -> None:
        names = {"auto_offset_reset", "auto_commit_interval_ms", "group_id", "bootstrap_servers"}
        given = [f"{name.replace('_', '.')}={value}" for name, value in app.options.items() if name not in names]
        options = [part for option in given for part in ("-X", option)]
        command = [sys.executable, "-m", "samsarrow.cli", "consume", app.topic, "-g", app.group, "--follow"]
        command += ["--format", "envelope", "-b", app.options["bootstrap_servers"], *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            app.consumer = process
            ender = threading.Thread(target=self._end, args=(process, app), daemon=True)
            ender.start()
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                row = json.loads(line)
                app.add([Row(row["partition"], row["offset"], base64.b64decode(row["key"]).decode())])
            text = process.stderr.read().decode().strip()
            app.consumer = None
            if process.wait(60) != 143:
                app.errors.append(f"code {process.returncode}: {text[-300:]}")
                time.sleep(0.2)

    @staticmethod
    def _end(process: subprocess.Popen[bytes], app: Application) -> None:
        while app.going() and process.poll() is None:
            time.sleep(0.02)
        process.terminate()


class Child(ReadInterface):
    """Runs another interface in a separate process, which prints the rows that the interface returns."""

    process = True

    def __init__(self, interface: ReadInterface) -> None:
        self.name, self.loop, self.group, self.dead = interface.name, interface.loop, interface.group, interface.dead

    def once(self, app: Application) -> None:
        options = {name: value for name, value in app.options.items() if name not in app.cluster.options()}
        config = {
            "interface": self.name,
            "cluster": app.cluster.options(),
            "topic": app.topic,
            "group": app.group,
            "options": options,
        }
        command = [sys.executable, "-m", "conservation.child", json.dumps(config)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, start_new_session=True
        ) as process:
            app.consumer = process
            ender = threading.Thread(target=CommandLine._end, args=(process, app), daemon=True)
            ender.start()
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                app.add([Row(*row) for row in json.loads(line)])
            app.consumer = None
            text = process.stderr.read().decode().strip()
            if process.wait(60) != 0:
                app.errors.append(f"code {process.returncode}: {text[-300:]}")
                time.sleep(0.2)


INTERFACES: tuple[ReadInterface, ...] = (
    Poll(),
    Records(),
    Iteration(),
    Stream(),
    Reader(),
    DeadLetters(),
    AsyncPoll(),
    TrioPoll(),
    AsyncRecords(),
    AsyncIteration(),
    AsyncStream(),
    AsyncReader(),
    TrioReader(),
    AsyncDeadLetters(),
    Polars(),
    Tables(),
    Splits(),
    CommandLine(),
)
