"""Cache of the clients of a worker process, which successive tasks reuse.

Spark reuses its Python workers. A task with a cached client does not have to open connections, request metadata or
create a fetch session. Clients are created after the worker is forked, and are never used in another process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from samsarrow import _core
from samsarrow._sync import Blocking
from samsarrow.spark.clients import on_this_host
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow.admin import Admin
    from samsarrow.consumer import Consumer
    from samsarrow.producer import Producer

Client = TypeVar("Client", bound="Consumer | Producer | Admin")
Key = tuple[tuple[str, Any], ...]


@dataclass(eq=False)
class CachedClient(Generic[Client]):
    """A client that is idle or leased to one task.

    Attributes:
        client: the client.
        key: options of the client.
        affinity: state in which the previous task left the client, such as the partition and position of a consumer.
        expires: deadline after which the idle client is closed.
    """

    client: Client
    key: Key
    affinity: Any = None
    expires: _core.Deadline | None = None


class ClientCache(Generic[Client]):
    """Cache of clients of one kind, by their options.

    Args:
        make: function that creates a client from its options.
        capacity: maximum number of idle clients.
        idle_s: seconds after which an idle client expires. It is closed when a client is leased or returned.
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
        """Leases a client for a `with` block.

        If the block raises, the client is closed; otherwise it returns to the cache.

        Args:
            config: options of the client.
            affinity: an idle client with this affinity is preferred.
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
        # An admin client has nothing to wait for, so its `close` has no timeout.
        client.close(0) if isinstance(client, Blocking) else client.close()


# Imported in functions because most tasks use one kind of client.
def _consumer(config: Mapping[str, Any]) -> Consumer:
    from samsarrow.consumer import Consumer

    return Consumer(config)


def _producer(config: Mapping[str, Any]) -> Producer:
    from samsarrow.producer import Producer

    return Producer(config)


def _admin(config: Mapping[str, Any]) -> Admin:
    from samsarrow.admin import Admin

    return Admin(config)


CONSUMERS = ClientCache(_consumer)
PRODUCERS = ClientCache(_producer)
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
        end: offset after the last row; None to read without an end.
        cache: cache to lease from.
    """
    with cache.lease(config, (partition, start)) as handle:
        consumer = handle.client
        consumer.assign([partition])
        # The end is set before the position, because nothing is fetched while the position is unknown.
        consumer._read_until(partition, end)
        consumer.seek(partition, start)
        consumer.resume(partition)
        yield consumer
        # Pauses the partition, so that the consumer does not fetch while it is idle.
        consumer.pause(partition)
        handle.affinity = (partition, consumer.position(partition))
