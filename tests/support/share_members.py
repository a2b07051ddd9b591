"""Members of one share group that use different clients, and what they decided about each record."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import confluent_kafka
import pyarrow as pa

from samsarrow import AsyncShareConsumer, ShareConsumer
from support.kafka import QUICK_COMPILER, SUPPORT, KafkaServer

MODES = ("implicit", "explicit")


def decision(number: int, deliveries: int) -> str:
    """Returns the decision of explicit members about a record. `java/ShareMembers.java` decides equally."""
    if number % 7 == 0 and deliveries == 1:
        return "release"
    return "reject" if number % 11 == 0 else "accept"


class Ledger:
    """Acknowledged deliveries of all members."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Decisions by member and type, and those about each record.
        self.counts: Counter[tuple[str, str]] = Counter()
        self.types: dict[int, list[str]] = defaultdict(list)
        self.failures: list[str] = []
        self.stop = threading.Event()

    def add(self, member: str, types: list[tuple[str, int]]) -> None:
        """Adds decisions, as pairs of type and record, once a broker has acknowledged them."""
        with self._lock:
            for kind, number in types:
                self.counts[member, kind] += 1
                self.types[number].append(kind)

    def finished(self) -> int:
        """Returns the number of accepted and rejected records."""
        with self._lock:
            return sum(count for (_, kind), count in self.counts.items() if kind != "release")

    def fail(self, member: str, error: object) -> None:
        self.failures.append(f"{member}: {error!r}")
        self.stop.set()


def _decisions(batch: pa.RecordBatch, mode: str) -> list[tuple[str, int]]:
    numbers = [int(value) for value in batch.column("value").to_pylist()]
    if mode == "implicit":
        return [("accept", number) for number in numbers]
    counts = batch.column("delivery_count").to_pylist()
    return [(decision(number, count), number) for number, count in zip(numbers, counts, strict=True)]


def _check(outcomes: dict[Any, Any]) -> None:
    failed = {tp: error for tp, error in outcomes.items() if error is not None}
    assert not failed, failed


def _blocking(ledger: Ledger, name: str, options: dict[str, Any], topic: str, mode: str) -> None:
    with ShareConsumer(**options, acknowledgement=mode) as consumer:  # type: ignore[arg-type]
        consumer.subscribe([topic])
        while not ledger.stop.is_set():
            if (batch := consumer.poll(0.2)).num_rows:
                decided = _decisions(batch, mode)
                if mode == "explicit":
                    consumer.renew(batch.slice(0, 1), timeout=30)
                    consumer.acknowledge(batch, [kind for kind, _ in decided])
                _check(consumer.commit(30))
                ledger.add(name, decided)


def _async(ledger: Ledger, name: str, options: dict[str, Any], topic: str, mode: str) -> None:
    async def run() -> None:
        async with AsyncShareConsumer(**options, acknowledgement=mode) as consumer:  # type: ignore[arg-type]
            consumer.subscribe([topic])
            while not ledger.stop.is_set():
                if (batch := await consumer.poll(0.2)).num_rows:
                    decided = _decisions(batch, mode)
                    if mode == "explicit":
                        consumer.acknowledge(batch, [kind for kind, _ in decided])
                    _check(await consumer.commit(30))
                    ledger.add(name, decided)

    asyncio.run(run())


def _confluent(ledger: Ledger, name: str, options: dict[str, Any], topic: str, mode: str) -> None:
    dotted = {key.replace("_", "."): value for key, value in options.items()}
    consumer = confluent_kafka.ShareConsumer({**dotted, "share.acknowledgement.mode": mode})
    try:
        consumer.subscribe([topic])
        while not ledger.stop.is_set():
            decided = []
            for message in consumer.poll(0.2):
                assert message.error() is None, message.error()
                number = int(message.value() or b"")
                kind = "accept" if mode == "implicit" else decision(number, message.delivery_count() or 1)
                if mode == "explicit":
                    consumer.acknowledge(message, confluent_kafka.AcknowledgeType[kind.upper()])
                decided.append((kind, number))
            if decided:
                _check(consumer.commit_sync(30.0))
                ledger.add(name, decided)
    finally:
        consumer.close()


_CLIENTS = {"ours": _blocking, "ours on asyncio": _async, "confluent-kafka": _confluent}


@contextmanager
def _thread(ledger: Ledger, client: str, options: dict[str, Any], topic: str, mode: str) -> Iterator[None]:
    name = f"{client}, {mode}"

    def run() -> None:
        try:
            _CLIENTS[client](ledger, name, options, topic, mode)
        except BaseException as error:
            ledger.fail(name, error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ledger.stop.set()
        thread.join(90)
        if thread.is_alive():
            ledger.fail(name, "did not end")


@contextmanager
def _java(ledger: Ledger, server: KafkaServer, group: str, topic: str) -> Iterator[None]:
    program = str(SUPPORT / "java" / "ShareMembers.java")
    command = server.java(program, server.bootstrap_servers, group, topic, jvm=["-Xmx256m", *QUICK_COMPILER])

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            mode, kind, value = line.split()
            ledger.add(f"Java, {mode}", [(kind, int(value))])
        if not leaving.is_set():
            ledger.fail("Java", "ended")

    leaving = threading.Event()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, process_group=0
        )
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield
        finally:
            leaving.set()
            assert process.stdin is not None
            process.stdin.close()
            try:
                code: object = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            reader.join(10)
            if code != 0:
                errors.seek(0)
                ledger.fail("Java", errors.read().decode()[-3000:] or code)


@contextmanager
def members(server: KafkaServer, group: str, topic: str) -> Iterator[Ledger]:
    """Runs a member for each client and mode, and returns their decisions. All members have left at the end."""
    ledger = Ledger()
    options = {"bootstrap_servers": server.bootstrap_servers, "group_id": group, "max_poll_records": 50}
    with ExitStack() as stack:
        stack.enter_context(_java(ledger, server, group, topic))
        for client in _CLIENTS:
            for mode in MODES:
                stack.enter_context(_thread(ledger, client, options, topic, mode))
        yield ledger
        ledger.stop.set()
