"""Clients of a worker process, kept from task to task.

Spark reuses its Python workers: with a client at hand a task needs neither connections nor metadata nor a new fetch
session. What is here was made after the fork of the worker, and stays in it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from samsarrow import _core
from samsarrow.consumer import Consumer
from samsarrow.producer import Producer
from samsarrow.spark.clients import on_this_host
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow.admin import Admin

Client = TypeVar("Client", bound="Consumer | Producer | Admin")
Key = tuple[tuple[str, Any], ...]


@dataclass(eq=False)
class Handle(Generic[Client]):
    """A client that one task has, or none.

    Attributes:
        client: made with the options of `key`.
        key: its options.
        memory: what the task before left for the next one.
        expires: the time at which it is closed, once it is idle.
    """

    client: Client
    key: Key
    memory: Any = None
    expires: _core.Deadline | None = None


class Handles(Generic[Client]):
    """Clients of one kind by their options.

    Args:
        make: a client with these options.
        capacity: how many idle ones are kept.
        idle_s: seconds after which an idle one is closed, when the next is asked for.
    """

    def __init__(
        self, make: Callable[[Mapping[str, Any]], Client], *, capacity: int = 16, idle_s: float = 300.0
    ) -> None:
        self._make = make
        self._capacity = capacity
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[Handle[Client]] = []
        self._pid = os.getpid()

    @contextmanager
    def lease(self, config: Mapping[str, Any], memory: Any = None) -> Iterator[Handle[Client]]:
        """A client for the length of a `with` block; after an error it is closed, else kept.

        Args:
            config: its options.
            memory: of several, the one that has this is taken.
        """
        key = tuple(sorted(config.items()))
        handle = self._take(key, memory)
        if handle is None:
            with on_this_host():
                handle = Handle(self._make(config), key)
        try:
            yield handle
        except BaseException:
            _close(handle.client)
            raise
        handle.expires = _core.Deadline(self._idle_s)
        with self._lock:
            self._idle.append(handle)
        self._evict()

    def _take(self, key: Key, memory: Any) -> Handle[Client] | None:
        self._evict()
        with self._lock:
            fitting = [idle for idle in self._idle if idle.key == key]
            if not fitting:
                return None
            best = next((idle for idle in fitting if idle.memory == memory), fitting[-1])
            self._idle.remove(best)
            return best

    def _evict(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                # The parent's; they cannot even be closed here.
                self._idle, self._pid = [], os.getpid()
            kept = [idle for idle in self._idle if idle.expires is None or not idle.expires.passed()][-self._capacity :]
            gone = [idle for idle in self._idle if idle not in kept]
            self._idle = kept
        for idle in gone:
            _close(idle.client)

    def __len__(self) -> int:
        return len(self._idle)


def _close(client: Consumer | Producer | Admin) -> None:
    with suppress(Exception):
        client.close(0) if isinstance(client, Consumer | Producer) else client.close()


def _admin(config: Mapping[str, Any]) -> Admin:
    # Few tasks need one, and its import is a fifth of a worker's start.
    from samsarrow.admin import Admin

    return Admin(config)


CONSUMERS = Handles(Consumer)
PRODUCERS = Handles(Producer)
ADMINS = Handles(_admin)


@contextmanager
def reading(
    config: Mapping[str, Any],
    partition: TopicPartition,
    start: int,
    end: int | None = None,
    handles: Handles[Consumer] = CONSUMERS,
) -> Iterator[Consumer]:
    """A consumer that reads `partition` from `start` on.

    Args:
        config: its options.
        partition: to be assigned.
        start: where the next row is wanted from.
        end: no row from here on is returned.
        handles: to take it from.
    """
    with handles.lease(config, (partition, start)) as handle:
        consumer = handle.client
        consumer.assign([partition])
        # Before the position is known: nothing is asked for without it.
        consumer._read_until(partition, end)
        consumer.seek(partition, start)
        consumer.resume(partition)
        yield consumer
        # Nothing more is fetched for it.
        consumer.pause(partition)
        handle.memory = (partition, consumer.position(partition))
