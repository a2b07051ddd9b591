"""Clients that run during outages of brokers, and checks of the records that they have read."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from samsarrow import Consumer, KafkaError, Producer, TopicPartition

FOUR = [TopicPartition("four", p) for p in range(4)]
# The timeout is shorter than the outages. It must not make calls of consumers fail.
IMPATIENT: dict[str, Any] = {"default_api_timeout_ms": 2000}


def warned(records: list[logging.LogRecord]) -> Counter[str]:
    """Counts log lines of level warning and above. Digits are replaced, so that similar lines are counted together."""
    texts = (r.getMessage() for r in records if r.levelno >= logging.WARNING and r.name.startswith("samsarrow"))
    return Counter(re.sub(r"\d+(\.\d+)?", "#", text) for text in texts)


class Clients:
    """A producer, a consumer with assigned partitions, and a group member per protocol, with the records read.

    Args:
        servers: bootstrap servers.
        protocols: group protocols.
        away: seconds for which all brokers may be unreachable.
    """

    def __init__(self, servers: str, protocols: Iterable[str], away: float = 0) -> None:
        self.over = threading.Event()
        self.sent = 0
        self.odd: list[tuple[str, BaseException]] = []
        options: dict[str, Any] = {"bootstrap_servers": servers, "request_timeout_ms": 2000}
        reading = {**options, **IMPATIENT, "auto_offset_reset": "earliest"}
        works = {"producer": lambda: self._write({**options, "delivery_timeout_ms": int((away + 120) * 1000)})}
        works["assigned"] = lambda: self._read("assigned", reading)
        for protocol in protocols:
            member = {**reading, "group_id": f"life-{protocol}", "group_protocol": protocol}
            works[protocol] = lambda name=protocol, member=member: self._read(name, member)
        self.seen: dict[str, list[int]] = {name: [] for name in works if name != "producer"}
        self.threads = [threading.Thread(target=self._guard, args=item, daemon=True) for item in works.items()]
        for thread in self.threads:
            thread.start()

    def _guard(self, name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.odd.append((name, error))

    def _write(self, options: dict[str, Any]) -> None:
        with Producer(**options) as producer:
            deliveries = []
            while not self.over.is_set():
                deliveries.append(producer.send("four", b"%d" % self.sent, partition=self.sent % 4))
                self.sent += 1
                time.sleep(0.1)
            for delivery in deliveries:
                delivery.result(1 if self.odd else 120)

    def _read(self, name: str, options: dict[str, Any]) -> None:
        with Consumer(**options) as consumer:
            consumer.assign(FOUR) if name == "assigned" else consumer.subscribe(["four"])
            while not (self.over.is_set() and (self.odd or len(set(self.seen[name])) == self.sent)):
                self.seen[name] += [int(v) for v in consumer.poll(0.3)["value"].to_pylist()]
                if name != "assigned":
                    # During an outage a commit may fail, but a poll must not.
                    with suppress(KafkaError):
                        consumer.commit(timeout=0.5)

    def wait(self, seconds: float = 60, more: int = 0) -> None:
        """Waits until all consumers have read the records sent so far and `more` further records."""
        mark, until = self.sent + more, time.monotonic() + seconds
        while not all(sum(number < mark for number in set(seen)) >= mark for seen in self.seen.values()):
            assert self.odd == []
            assert time.monotonic() < until, (mark, {name: len(seen) for name, seen in self.seen.items()})
            time.sleep(0.05)

    def end(self) -> None:
        """Waits until the consumers have read all records, and ends the clients."""
        self.over.set()
        for thread in self.threads:
            thread.join(150)

    def check(self) -> None:
        """Checks that no client failed, and that each record is in the log once, in order, and was read by each
        consumer.
        """
        assert self.odd == []
        assert not any(thread.is_alive() for thread in self.threads)
        assert sorted(self.seen["assigned"]) == list(range(self.sent))
        for partition in range(4):
            own = [number for number in self.seen["assigned"] if number % 4 == partition]
            assert own == sorted(own), "an idempotent producer keeps the order"
        for name, seen in self.seen.items():
            assert set(seen) == set(range(self.sent)), name
