"""Options of the clients of backups and restores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samsarrow.config import kafka_name, kind_of, merge, options_of
from samsarrow.exceptions import ConfigurationError

# Options that make records and offsets exact.
_CONSUMER = {"isolation.level": "read_committed", "include.headers": True, "layout": "binary"}
_PRODUCER = {"enable.idempotence": True, "acks": "all"}
FIXED = (
    "isolation.level", "include.headers", "include.leader.epoch", "layout", "enable.idempotence", "acks", "group.id",
    "group.instance.id", "auto.offset.reset", "enable.auto.commit", "allow.auto.create.topics", "transactional.id",
    "max.request.size",
)  # fmt: skip
"""Names of options that backups and restores set themselves."""

MAX_RECORD = 104_857_600
"""Largest request that brokers accept by default, `socket.request.max.bytes`."""


class ClientOptions:
    """Checked options, for all kinds of clients.

    Raises:
        ConfigurationError: an option is unknown, or one that backups set themselves.
    """

    def __init__(self, config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> None:
        self._pairs = {kafka_name(name): value for name, value in merge(config, options)}
        for name in self._pairs:
            if name in FIXED:
                raise ConfigurationError(f"option {name} is set by backup and restore themselves: omit it")
        # The client rejects unknown options, and suggests names.
        self._unknown = {name: value for name, value in self._pairs.items() if kind_of(name) == "unknown"}

    def consumer(self) -> dict[str, Any]:
        """Returns the options of consumers."""
        return {**self._of("consumer"), **_CONSUMER}

    def producer(self, batch_size: int) -> dict[str, Any]:
        """Returns the options of producers.

        Args:
            batch_size: maximum size of batches, unless the application has set one.
        """
        # The default of 32 MiB rejects larger records. A restore limits pending records itself.
        defaults = {"batch.size": batch_size, "compression.type": "lz4", "buffer.memory": 2 * MAX_RECORD}
        return {**defaults, **self._of("producer"), **_PRODUCER, "max.request.size": MAX_RECORD}

    def admin(self) -> dict[str, Any]:
        """Returns the options of admin clients."""
        return self._of("admin")

    def _of(self, client: str) -> dict[str, Any]:
        return {**options_of(client, self._pairs), **self._unknown}
