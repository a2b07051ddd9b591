"""Settings of topics while they are restored, which keep all records as they are, and at the end."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from samsarrow._backup.expiry import Retention
from samsarrow._backup.options import MAX_RECORD
from samsarrow.admin import Admin
from samsarrow.admin_types import ConfigChange, ConfigResource, ConfigSource
from samsarrow.exceptions import KafkaError
from samsarrow.types import NewTopic

# Neither retention nor compaction removes records while they are compared. Producers set the timestamps, also for
# topics with LogAppendTime. A topic with exactly these values is a restore that was interrupted.
LOADING: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "max.message.bytes": str(MAX_RECORD),
}
# Limits of timestamps. Each version of Kafka supports some of them.
_LIMITS = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
_NO_LIMIT = str(2**63 - 1)


class TopicSettings:
    """Settings of the topics of a cluster.

    Args:
        admin: client of the cluster.
        timeout: seconds for each request.
    """

    def __init__(self, admin: Admin, timeout: float | None) -> None:
        self._admin, self._timeout = admin, timeout
        self._broker: Mapping[str, str | None] | None = None

    def of(self, topic: str) -> tuple[dict[str, str], frozenset[str]]:
        """Returns the settings that a topic has itself, and the names of all settings."""
        resource = ConfigResource.topic(topic)
        entries = self._admin.describe_configs([resource], timeout=self._timeout)[resource]
        own = {
            name: entry.value
            for name, entry in entries.items()
            if entry.source is ConfigSource.TOPIC and entry.value is not None
        }
        return own, frozenset(entries)

    def retention(self, final: Mapping[str, str]) -> Retention:
        """Returns the retention of a topic with these settings, and otherwise the defaults of the brokers.

        Defaults that this client has no permission to read count as none.
        """
        if "delete" not in (self._value(final, "cleanup.policy") or "delete"):
            return Retention(-1, -1)
        age = self._value(final, "retention.ms")
        for name, factor in (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)):
            if age is None and (found := self._defaults().get(name)) is not None:
                age = str(int(found) * factor)
        size = self._value(final, "retention.bytes")
        return Retention(int(age or -1), int(size or -1))

    def _value(self, final: Mapping[str, str], name: str) -> str | None:
        return final.get(name) or self._defaults().get(f"log.{name}")

    def _defaults(self) -> Mapping[str, str | None]:
        """Returns the settings of a broker, which are looked up once."""
        if self._broker is None:
            self._broker = {}
            with contextlib.suppress(KafkaError):
                cluster = self._admin.describe_cluster(timeout=self._timeout)
                resource = ConfigResource.broker(cluster.brokers[0].id)
                entries = self._admin.describe_configs([resource], timeout=self._timeout)[resource]
                self._broker = {name: entry.value for name, entry in entries.items()}
        return self._broker

    def create(
        self, topic: str, partitions: int, replication_factor: int, final: Mapping[str, str], validate_only: bool
    ) -> None:
        """Creates a topic with the settings of a restore; or checks whether it could be created with its final ones."""
        configs = final if validate_only else {**final, **LOADING}
        new = NewTopic(topic, partitions, replication_factor, configs)
        self._admin.create_topics([new], validate_only=validate_only, timeout=self._timeout)

    def begin(self, topic: str) -> None:
        """Sets the settings of a restore."""
        _, names = self.of(topic)
        limits = dict.fromkeys((name for name in _LIMITS if name in names), _NO_LIMIT)
        self._admin.alter_configs({ConfigResource.topic(topic): {**LOADING, **limits}}, timeout=self._timeout)

    def finish(self, topics: Mapping[str, Mapping[str, str]]) -> None:
        """Sets the final settings of topics, in one request, so that all topics or none have them."""
        changes = {}
        for topic, final in topics.items():
            own, _ = self.of(topic)
            changes[ConfigResource.topic(topic)] = ConfigChange(set=final, delete=tuple(own.keys() - final.keys()))
        if changes:
            self._admin.alter_configs(changes, timeout=self._timeout)


def is_loading(own: Mapping[str, str]) -> bool:
    """Returns whether a topic has the settings of a restore."""
    return all(own.get(name) == value for name, value in LOADING.items())


def final_settings(configs: Mapping[str, str], changed: Mapping[str, str], unset: Iterable[str]) -> dict[str, str]:
    """Returns the settings that a topic gets at the end: those of the backup, with changes."""
    left_out = set(unset)
    return {name: value for name, value in {**configs, **changed}.items() if name not in left_out}
