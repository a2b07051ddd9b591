"""Writing interfaces: applications that send rows until they are stopped, and record the outcome of each row."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from conservation.cancelling import CallCancelledError
from conservation.clusters import Cluster
from conservation.reading import PARTITIONS, PATIENCE
from samsarrow import AsyncProducer, Producer
from samsarrow.exceptions import ClosedError, KafkaError

T = TypeVar("T")


class Writer:
    """State of a writing application: the rows to send, and the outcome of each row."""

    def __init__(self, cluster: Cluster, topic: str, group: str, seed: int, options: dict[str, Any]) -> None:
        self.cluster, self.topic = cluster, topic
        self.options: dict[str, Any] = {
            "metadata_max_age_ms": 100,
            "buffer_memory": 1 << 19,
            "max_block_ms": 10000,
            "request_timeout_ms": 5000,
            "delivery_timeout_ms": 20000,
            "retry_backoff_ms": 50,
            "linger_ms": 20,
            **cluster.options(),
            **options,
        }
        self.random = random.Random(seed)
        self.value = self.random.randbytes(300)
        self.transactional_id = f"{group}-writer"
        self.given: set[str] = set()
        self.acknowledged: set[str] = set()
        self.rejected: set[str] = set()
        """Ids of rows that were reported as failed."""
        self.aborted: set[str] = set()
        """Ids of rows that must not be committed."""
        self.reports: list[str] = []
        """Errors reported by the producer without observing deliveries."""
        self.errors: list[str] = []
        self.stopped = threading.Event()
        self.restart = threading.Event()
        self.closes = True
        self.fails_tasks = False
        """True if each Spark task fails once."""
        self.consumer: Any = None
        self.in_loop: Callable[[Callable[[], Awaitable[object]]], None] | None = None
        self.guard: Callable[[Awaitable[Any]], Awaitable[Any]] | None = None
        self._numbers = itertools.count()

    def going(self) -> bool:
        return not self.stopped.is_set() and not self.restart.is_set()

    def snapshot(self) -> list[str]:
        return list(self.given)

    def give(self, count: int) -> list[str]:
        """Returns the ids of the rows to send next."""
        rows = [f"row {next(self._numbers)}" for _ in range(count)]
        self.given.update(rows)
        return rows

    def failed(self, rows: Sequence[str], error: BaseException, *, aborted: bool = False) -> None:
        """Records that rows were reported as failed."""
        self.rejected.update(rows)
        if aborted:
            self.aborted.update(rows)
        self.errors.append(f"{type(error).__name__}: {error}")
        if isinstance(error, ClosedError) or getattr(error, "fatal", False):
            self.restart.set()
        time.sleep(0.01)

    def report(self, text: str) -> None:
        self.reports.append(text)

    async def call(self, work: Awaitable[T]) -> T:
        """Awaits a call, which a disturbance may cancel."""
        return await (work if self.guard is None else self.guard(work))

    def table(self, rows: Sequence[str], chunks: int) -> pa.Table:
        size = -(-len(rows) // chunks)
        batches = [
            pa.record_batch({"key": pa.array(part), "value": pa.array([self.value] * len(part))})
            for part in (rows[start : start + size] for start in range(0, len(rows), size))
        ]
        return pa.Table.from_batches(batches)


@contextmanager
def observed(writer: Writer) -> Iterator[None]:
    """Records errors that clients log, and warnings about resources that were not closed."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                writer.report(record.getMessage())

    handler, logger = Handler(), logging.getLogger("samsarrow")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ResourceWarning)
            shown = warnings.showwarning

            def show(message: Any, category: Any, *others: Any) -> None:
                if issubclass(category, ResourceWarning):
                    if "samsarrow" in str(message) or "roducer" in str(message):
                        writer.report(str(message))
                else:
                    shown(message, category, *others)

            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)


class WriteInterface:
    """An interface for writing."""

    name: str
    loop: str | None = None
    process = False
    transactional = False
    rows = 200
    """Rows per call, or per a few calls."""
    at_least_once = False
    """True if rows may be in the log more than once."""
    spark = False
    """True if it is a Spark query."""
    checkpointed = False
    """True if its position is in a Spark checkpoint."""
    partitions = PARTITIONS
    patience = PATIENCE
    pace = 1.0

    def unavailable(self) -> str | None:
        """Returns the reason why the interface cannot be run here, or None."""
        return None

    def prepare(self) -> None:
        """Creates resources shared by all runs."""

    def run(self, app: Writer) -> None:
        while not app.stopped.is_set():
            app.restart.clear()
            self.once(app)

    def once(self, app: Writer) -> None:
        """Writes with one producer."""
        options = {"transactional_id": app.transactional_id} if self.transactional else {}
        producer = Producer(**app.options, **options)
        app.consumer = producer
        try:
            while app.going():
                self.write(producer, app)
        finally:
            app.consumer = None
            if app.closes:
                try:
                    producer.close(30)
                except KafkaError as error:
                    app.report(f"{type(error).__name__}: {error}")

    def write(self, producer: Producer, app: Writer) -> None:
        """Sends rows once, and records their outcome."""
        raise NotImplementedError


class Send(WriteInterface):
    name = "send"

    def write(self, producer: Producer, app: Writer) -> None:
        sent = []
        for row in app.give(self.rows):
            try:
                sent.append((row, producer.send(app.topic, app.value, row)))
            except KafkaError as error:
                app.failed([row], error)
        for row, delivery in sent:
            error = delivery.exception(60)
            if error is None:
                app.acknowledged.add(row)
            else:
                app.failed([row], error)


class SendCallback(WriteInterface):
    name = "send with on_delivery"

    def write(self, producer: Producer, app: Writer) -> None:
        for row in app.give(self.rows):
            try:
                producer.send(app.topic, app.value, row, on_delivery=self._outcome(app, row))
            except KafkaError as error:
                app.failed([row], error)
        try:
            producer.flush(60)
        except KafkaError as error:
            app.report(f"{type(error).__name__}: {error}")
            if isinstance(error, ClosedError):
                app.restart.set()

    @staticmethod
    def _outcome(app: Writer, row: str) -> Callable[[Any, Exception | None], None]:
        def outcome(_metadata: Any, error: Exception | None) -> None:
            if error is None:
                app.acknowledged.add(row)
            else:
                app.rejected.add(row)

        return outcome


class SendUnobserved(WriteInterface):
    """The application drops all deliveries, so the producer itself must report failures."""

    name = "send, deliveries dropped"

    def write(self, producer: Producer, app: Writer) -> None:
        for row in app.give(self.rows):
            try:
                producer.send(app.topic, app.value, row)
            except KafkaError as error:
                app.failed([row], error)
        time.sleep(0.02)


class SendBatch(WriteInterface):
    name = "send_batch"
    rows = 8000
    chunks = 2

    def data(self, app: Writer, rows: list[str]) -> Any:
        return app.table(rows, self.chunks)

    def write(self, producer: Producer, app: Writer) -> None:
        rows = app.give(self.rows)
        try:
            delivery = producer.send_batch(app.topic, self.data(app, rows))
            _count(app, rows, len(delivery), delivery.result(60))
        except KafkaError as error:
            app.failed(rows, error)


def _count(app: Writer, rows: list[str], length: int, receipts: Any) -> None:
    """Records the rows as acknowledged; also records an error if the receipts acknowledge a different number of
    rows.
    """
    counted = sum(receipt.count for receipt in receipts)
    if (length, counted) != (len(rows), len(rows)):
        app.errors.append(f"{len(rows)} rows given, {length} in the delivery, {counted} acknowledged")
    app.acknowledged.update(rows)


class Stream(SendBatch):
    name = "send_batch of a reader"

    def data(self, app: Writer, rows: list[str]) -> Any:
        return app.table(rows, 3).to_reader()


class Transactions(WriteInterface):
    name = "transactions"
    transactional = True
    rows = 1000

    def write(self, producer: Producer, app: Writer) -> None:
        rows = app.give(self.rows)
        aborts = app.random.random() < 0.3
        try:
            with producer.transaction():
                producer.send_batch(app.topic, app.table(rows[10:], 2))
                for row in rows[:10]:
                    producer.send(app.topic, app.value, row)
                if aborts:
                    raise AbandonedError
        except AbandonedError as error:
            app.failed(rows, error, aborted=True)
        except KafkaError as error:
            # The outcome of a commit that timed out is unknown.
            app.failed(rows, error)
            if not error.abortable:
                app.restart.set()
        else:
            app.acknowledged.update(rows)


class AbandonedError(Exception):
    """Raised by the application to abort its transaction."""


class AsyncSend(WriteInterface):
    name = "AsyncProducer.send"
    loop = "asyncio"

    def once(self, app: Writer) -> None:
        if self.loop == "trio":
            import trio

            trio.run(self._once, app)
        else:
            asyncio.run(self._once(app))

    async def _once(self, app: Writer) -> None:
        if self.loop == "asyncio":
            running = asyncio.get_running_loop()

            def in_loop(work: Callable[[], Any]) -> None:
                asyncio.run_coroutine_threadsafe(work(), running).result(30)

            app.in_loop = in_loop
        options = {"transactional_id": app.transactional_id} if self.transactional else {}
        producer = AsyncProducer(**app.options, **options)
        app.consumer = producer
        try:
            while app.going():
                await self._write(producer, app)
        finally:
            app.consumer = None
            if app.closes:
                try:
                    await producer.close(30)
                except KafkaError as error:
                    app.report(f"{type(error).__name__}: {error}")

    async def _write(self, producer: AsyncProducer, app: Writer) -> None:
        sent = []
        for row in app.give(self.rows):
            try:
                sent.append((row, await app.call(producer.send(app.topic, app.value, row))))
            except CallCancelledError as error:
                app.failed([row], error, aborted=True)
            except KafkaError as error:
                app.failed([row], error)
        for row, delivery in sent:
            try:
                await delivery
            except KafkaError as error:
                app.failed([row], error)
            else:
                app.acknowledged.add(row)


class TrioSend(AsyncSend):
    name = "AsyncProducer.send, trio"
    loop = "trio"


class AsyncSendBatch(AsyncSend):
    name = "AsyncProducer.send_batch"
    rows = 8000

    async def _write(self, producer: AsyncProducer, app: Writer) -> None:
        rows = app.give(self.rows)
        try:
            delivery = await app.call(producer.send_batch(app.topic, app.table(rows, 2)))
            _count(app, rows, len(delivery), await delivery)
        except (KafkaError, CallCancelledError) as error:
            app.failed(rows, error)


class AsyncTransactions(AsyncSend):
    name = "AsyncProducer transactions"
    transactional = True
    rows = 6000

    async def _write(self, producer: AsyncProducer, app: Writer) -> None:
        rows = app.give(self.rows)
        try:
            async with producer.transaction():
                await app.call(producer.send_batch(app.topic, app.table(rows, 2)))
        except CallCancelledError as error:
            app.failed(rows, error, aborted=True)
        except KafkaError as error:
            app.failed(rows, error)
            if not error.abortable:
                app.restart.set()
        else:
            app.acknowledged.update(rows)


class ProduceCommand(WriteInterface):
    name = "samsarrow produce"
    process = True
    rows = 20000

    def once(self, app: Writer) -> None:
        rows = app.give(self.rows)
        table = app.table(rows, 4)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.arrow"
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
                file.write_table(table)
            names = set(app.cluster.options())
            given = [f"{name.replace('_', '.')}={value}" for name, value in app.options.items() if name not in names]
            given += [
                f"{name.replace('_', '.')}={value}"
                for name, value in app.cluster.options().items()
                if name != "bootstrap_servers"
            ]
            options = [part for option in given for part in ("-X", option)]
            command = [sys.executable, "-m", "samsarrow.cli", "produce", app.topic, str(path)]
            command += ["-b", app.options["bootstrap_servers"], *options]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                app.consumer = process
                text = process.communicate(timeout=120)[0].decode()
                app.consumer = None
            if process.returncode == 0:
                app.acknowledged.update(rows)
            else:
                app.failed(rows, RuntimeError(f"code {process.returncode}: {text[-300:]}"))


class ProducerProgram(WriteInterface):
    """Runs the producer in a separate process, which prints ids before it sends them, and ends it with a signal."""

    name = "send in a process"
    process = True

    def once(self, app: Writer) -> None:
        config = {"options": app.options, "topic": app.topic, "first": next(app._numbers)}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-W", "always::ResourceWarning", "-m", "conservation.child_writer"]
        with subprocess.Popen(
            [*command, json.dumps(config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process:
            app.consumer = process
            ender = threading.Thread(target=self._end, args=(process, app), daemon=True)
            ender.start()
            assert process.stdout is not None
            assert process.stderr is not None
            for line in process.stdout:
                app.given.update(json.loads(line))
            app.consumer = None
            text = process.stderr.read().decode().strip()
            if process.wait(60) != 0 or "roducer" in text:
                app.report(f"code {process.returncode}: {text[-300:]}")

    @staticmethod
    def _end(process: subprocess.Popen[bytes], app: Writer) -> None:
        while app.going() and process.poll() is None:
            time.sleep(0.02)
        process.terminate()


WRITING: tuple[WriteInterface, ...] = (
    Send(),
    SendCallback(),
    SendUnobserved(),
    SendBatch(),
    Stream(),
    Transactions(),
    AsyncSend(),
    TrioSend(),
    AsyncSendBatch(),
    AsyncTransactions(),
    ProduceCommand(),
    ProducerProgram(),
)
