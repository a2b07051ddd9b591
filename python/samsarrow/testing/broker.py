"""The embedded broker."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from samsarrow import _core


class Broker:
    """A Kafka broker in memory: it speaks the wire protocol on loopback, so any Kafka client can use it.

    It serves topics, records, idempotent producers, offsets and consumer groups of the classic protocol; transactions
    it does not have. An empty group does not wait for more members before its first rebalance, as Kafka does for
    3 seconds.

    Args:
        brokers: how many virtual brokers, each on a port of its own; they lead the partitions in turn.
        topics: number of partitions by name of topic.
        port: of the first broker, the others follow; 0 takes free ones.
        auto_create_topics: whether a topic that is asked for and does not exist is created, with one partition.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self,
        brokers: int = 1,
        topics: Mapping[str, int] | None = None,
        port: int = 0,
        *,
        auto_create_topics: bool = True,
    ) -> None:
        self._core = _core.Broker(brokers, list((topics or {}).items()), port, auto_create_topics)
        self._closed = False

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every broker, as clients take it."""
        return self._core.bootstrap_servers

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Creates a topic."""
        self._core.create_topic(name, partitions)

    def stop_broker(self, node: int) -> None:
        """Ends one virtual broker, as a crash would; what it holds is kept. The first has the number 0."""
        self._core.stop_node(node)

    def start_broker(self, node: int) -> None:
        """Starts a stopped broker again, on its port."""
        self._core.start_node(node)

    def close(self) -> None:
        """Ends the broker and frees its ports. May be called again."""
        if not self._closed:
            self._closed = True
            self._core.close()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
