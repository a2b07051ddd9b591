"""Consumers of a worker process, kept from task to task.

Spark reuses its Python workers: with a consumer at hand a task needs neither connections nor metadata nor a new fetch
session. What is here was made after the fork of the worker, and stays in it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from samsarrow.consumer import Consumer
from samsarrow.types import TopicPartition

Key = tuple[tuple[str, Any], ...]


@dataclass
class _Idle:
    """A consumer that nobody uses at the moment, paused at `position` of `partition`."""

    key: Key
    consumer: Consumer
    partition: TopicPartition
    position: int
    since: float


class Handles:
    """Consumers by their options.

    Args:
        capacity: how many idle ones are kept.
        idle_s: seconds after which an idle one is closed, when the next is asked for.
    """

    def __init__(self, capacity: int = 16, idle_s: float = 300.0) -> None:
        self._capacity = capacity
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._pid = os.getpid()

    @contextmanager
    def lease(self, config: Mapping[str, Any], partition: TopicPartition, start: int) -> Iterator[Consumer]:
        """A consumer that reads `partition` from `start` on; after an error it is closed, else kept.

        Args:
            config: its options.
            partition: to be assigned.
            start: where the next row is wanted from.
        """
        key = tuple(sorted(config.items()))
        consumer = self._take(key, partition, start)
        try:
            if consumer is None:
                consumer = Consumer(config)
            consumer.assign([partition])
            consumer.seek(partition, start)
            consumer.resume(partition)
            yield consumer
            # Nothing more is fetched for it.
            consumer.pause(partition)
            idle = _Idle(key, consumer, partition, consumer.position(partition), time.monotonic())
        except BaseException:
            if consumer is not None:
                with suppress(Exception):
                    consumer.close(0)
            raise
        self._give(idle)

    def _take(self, key: Key, partition: TopicPartition, start: int) -> Consumer | None:
        """The idle one that read this partition up to here, or any with these options."""
        self._evict()
        with self._lock:
            fitting = [idle for idle in self._idle if idle.key == key]
            if not fitting:
                return None
            best = next((i for i in fitting if (i.partition, i.position) == (partition, start)), fitting[-1])
            self._idle.remove(best)
            return best.consumer

    def _give(self, idle: _Idle) -> None:
        with self._lock:
            self._idle.append(idle)
        self._evict()

    def _evict(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                # The parent's; they cannot even be closed here.
                self._idle, self._pid = [], os.getpid()
            oldest = time.monotonic() - self._idle_s
            kept = [idle for idle in self._idle if idle.since > oldest][-self._capacity :]
            gone = [idle for idle in self._idle if idle not in kept]
            self._idle = kept
        for idle in gone:
            with suppress(Exception):
                idle.consumer.close(0)

    def __len__(self) -> int:
        return len(self._idle)


WORKER = Handles()
"""The handles of this worker process."""
