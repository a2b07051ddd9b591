"""Cache of clients of a worker process, reused by successive tasks.

Spark reuses its Python workers. With a cached client a task needs no new connections, metadata or fetch session.
Clients are created after the worker's fork and never used in another process.
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
class CachedClient(Generic[Client]):
    """A client that is idle or leased to one task.

    Attributes:
        client: the client.
        key: options of the client.
        affinity: state that the previous task left for the next, such as the position of a consumer.
        expires: deadline after which the idle client is closed.
    """

    client: Client
    key: Key
    affinity: Any = None
    expires: _core.Deadline | None = None


class ClientCache(Generic[Client]):
    """Clients of one kind, by their options.

    Args:
        make: creates a client with these options.
        capacity: maximum number of idle clients.
        idle_s: seconds after which an idle client is closed, at the next lease.
    """

    def __init__(
        self, make: Callable[[Mapping[str, Any]], Client], *, capacity: int = 16, idle_s: float = 300.0
    ) -> None:
        self._make = make
        self._capacity = capacity
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[CachedClient[Client]] = []
        self._pid = os.getpid()

    @contextmanager
    def lease(self, config: Mapping[str, Any], affinity: Any = None) -> Iterator[CachedClient[Client]]:
        """Leases a client for a `with` block. After an error it is closed, otherwise returned to the cache.

        Args:
            config: options of the client.
            affinity: prefers an idle client with this affinity.
        """
        key = tuple(sorted(config.items()))
        handle = self._take(key, affinity)
        if handle is None:
            with on_this_host():
                handle = CachedClient(self._make(config), key)
        try:
            yield handle
        except BaseException:
            _close(handle.client)
            raise
        handle.expires = _core.Deadline(self._idle_s)
        with self._lock:
            self._idle.append(handle)
        self._evict()

    def _take(self, key: Key, affinity: Any) -> CachedClient[Client] | None:
        self._evict()
        with self._lock:
            candidates = [idle for idle in self._idle if idle.key == key]
            if not candidates:
                return None
            best = next((idle for idle in candidates if idle.affinity == affinity), candidates[-1])
            self._idle.remove(best)
            return best

    def _evict(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                # Clients of the parent process cannot be used or closed after a fork.
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
    # Imported here: few tasks need an admin client, and the import takes a fifth of a worker's start.
    from samsarrow.admin import Admin

    return Admin(config)


CONSUMERS = ClientCache(Consumer)
PRODUCERS = ClientCache(Producer)
ADMINS = ClientCache(_admin)


@contextmanager
def reading(
    config: Mapping[str, Any],
    partition: TopicPartition,
    start: int,
    end: int | None = None,
    cache: ClientCache[Consumer] = CONSUMERS,
) -> Iterator[Consumer]:
    """Leases a consumer that reads `partition` from offset `start`.

    Args:
        config: options of the consumer.
        partition: the partition to assign.
        start: offset of the first row.
        end: offset after the last row; None for no end.
        cache: cache to lease from.
    """
    with cache.lease(config, (partition, start)) as handle:
        consumer = handle.client
        consumer.assign([partition])
        # Set before the position: without a position nothing is fetched.
        consumer._read_until(partition, end)
        consumer.seek(partition, start)
        consumer.resume(partition)
        yield consumer
        # Stops fetching while the consumer is idle.
        consumer.pause(partition)
        handle.affinity = (partition, consumer.position(partition))
