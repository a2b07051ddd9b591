"""Group members that poll in their own threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

from samsarrow import Consumer, RebalanceListener, TopicPartition
from support.waiting import until


class Member:
    """A consumer that polls in a thread and records its assignments, listener calls and rows."""

    def __init__(
        self, topics: Iterable[str], *, pattern: str | None = None, pause: float = 0.0, **options: Any
    ) -> None:
        options = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 300, "session_timeout_ms": 20000} | options
        if options.get("group_protocol") == "consumer":
            del options["heartbeat_interval_ms"], options["session_timeout_ms"]
        self.events: list[tuple[str, frozenset[TopicPartition]]] = []
        self.rows: list[tuple[str, int, int]] = []
        self.owned: frozenset[TopicPartition] = frozenset()
        self.error: BaseException | None = None
        self.pause = pause
        self._stop = threading.Event()
        self.consumer = Consumer(**options)
        self.consumer.subscribe(
            topics,
            pattern=pattern,
            listener=RebalanceListener(
                lambda new: self._record_event("assigned", new),
                lambda gone: self._record_event("revoked", gone),
                lambda gone: self._record_event("lost", gone),
            ),
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _record_event(self, what: str, partitions: list[TopicPartition]) -> None:
        self.events.append((what, frozenset(partitions)))
        self.owned = self.owned | set(partitions) if what == "assigned" else self.owned - set(partitions)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                batch = self.consumer.poll(0.1)
                columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset")]
                self.rows += zip(*columns, strict=True)
                if self.pause:
                    time.sleep(self.pause)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """Stops polling, but does not leave the group."""
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Stops polling and leaves the group."""
        self.stop()
        self.consumer.close(20)

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shared(members: Iterable[Member], partitions: Iterable[TopicPartition]) -> bool:
    """Returns true if every partition has exactly one owner and every member owns at least one partition."""
    owned = [member.owned for member in members]
    flat = [tp for own in owned for tp in own]
    return all(owned) and len(flat) == len(set(flat)) and set(flat) == set(partitions)


def settle(members: Iterable[Member], partitions: Iterable[TopicPartition], seconds: float = 60) -> None:
    """Waits until all partitions are assigned and every member owns at least one."""
    members, partitions = list(members), list(partitions)
    until(
        lambda: any(member.error for member in members) or shared(members, partitions),
        lambda: [(sorted(member.owned), member.events, member.error) for member in members],
        seconds,
    )
    for member in members:
        if member.error:
            raise member.error
