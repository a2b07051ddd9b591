"""The Kafka under test, and helpers of the steps."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from samsarrow import Admin, Consumer, ConsumerRecord, KafkaError, NewTopic, Producer, TopicPartition
from support.kafka_releases import number
from support.peers import dotted
from support.raw import Raw

from .features import OFFSET_VERSIONS_BEFORE_API_VERSIONS

HOUR = 3_600_000
# A time in the past in milliseconds, which does not depend on the broker's clock.
LONG_AGO = 1_700_000_000_000
PATIENCE = 30.0


class Probe:
    """The Kafka under test. Creates the clients and topics that steps need."""

    def __init__(self, bootstrap_servers: str, version: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.version_text = version
        self.version = number(version)
        self._names = (f"m{os.getpid()}-{i}" for i in itertools.count())

    def at_least(self, version: str) -> bool:
        return self.version >= number(version)

    def name(self) -> str:
        """Returns a unique name for a topic, a group or a transaction."""
        return next(self._names)

    def consumer(self, **options: Any) -> Consumer:
        basic: dict[str, Any] = {"auto_offset_reset": "earliest", "default_api_timeout_ms": int(PATIENCE * 1000)}
        if not self.at_least("0.10") and options.get("group_protocol") != "consumer":
            # The maximum of Kafka 0.9. A larger session timeout, such as the default, causes an error that names the
            # maximum.
            basic["session_timeout_ms"] = 30_000
        return Consumer(bootstrap_servers=self.bootstrap_servers, **{**basic, **options})

    def producer(self, **options: Any) -> Producer:
        basic = {"max_block_ms": int(PATIENCE * 1000), "linger_ms": 0}
        return Producer(bootstrap_servers=self.bootstrap_servers, **{**basic, **options})

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.bootstrap_servers, default_api_timeout_ms=int(PATIENCE * 1000))

    def topic(self, partitions: int = 2, **configs: str) -> str:
        """Creates a topic; older Kafka versions create it on first use, with the two partitions set for the broker."""
        name = self.name()
        if configs or self.at_least("0.10.1"):
            with self.admin() as admin:
                admin.create_topics([NewTopic(name, partitions, 1, dotted(configs))])
                # Waits, because brokers list the topic later than the controller.
                wait_for(lambda: name in admin.list_topics([name]), "the new topic is listed")
        else:
            with self.producer() as producer:
                producer.partitions_for(name)
        return name

    def filled(self, count: int = 10, **configs: str) -> TopicPartition:
        """Returns a partition of records with their offsets as values, an hour apart."""
        tp = TopicPartition(self.topic(**configs), 0)
        with self.producer() as producer:
            sent = [
                producer.send(tp.topic, b"%d" % i, partition=0, timestamp=self.time(LONG_AGO + i * HOUR))
                for i in range(count)
            ]
            equal([d.result(PATIENCE).offset for d in sent], list(range(count)))
        return tp

    def time(self, timestamp: int) -> int | None:
        """Returns the timestamp, or None for record formats without one."""
        return timestamp if self.at_least("0.10.0") else None

    def read(self, tp: TopicPartition, count: int, **options: Any) -> list[ConsumerRecord]:
        """Reads the first records of a partition with a new consumer."""
        with self.consumer(**options) as consumer:
            consumer.assign([tp])
            return rows(consumer, count)

    def offset_versions(self) -> list[tuple[int, int]]:
        """Returns the version ranges of OffsetCommit and of OffsetFetch that the broker supports."""
        if not self.at_least("0.10"):
            return list(OFFSET_VERSIONS_BEFORE_API_VERSIONS[self.version_text])
        with Raw(self.bootstrap_servers) as raw:
            spoken = {api["api_key"]: api for api in raw.call("ApiVersions", 0)["api_keys"]}
        return [(spoken[key]["min_version"], spoken[key]["max_version"]) for key in (8, 9)]

    @property
    def peer_options(self) -> dict[str, str]:
        """Options of librdkafka for Kafka versions without ApiVersions."""
        if self.at_least("0.10.0"):
            return {}
        return {"api_version_request": "false", "broker_version_fallback": self.version_text}


def equal(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"found {found!r:.300}, wanted {wanted!r:.300}")


def rows(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    """Reads `count` records, and checks that the last poll returns no more than these."""
    results: list[ConsumerRecord] = []
    deadline = time.monotonic() + PATIENCE
    while len(results) < count:
        if time.monotonic() > deadline:
            raise AssertionError(f"{len(results)} of {count} records after {PATIENCE:g} s")
        results += consumer.records(0.5)
    equal(len(results), count)
    return results


def values(found: Iterable[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in found]


@contextmanager
def raises(kind: type[BaseException]) -> Iterator[None]:
    """Checks that an error of this class is raised. Other errors propagate and become errors of the step."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE:g} s: {what}")
        time.sleep(0.05)


def place(consumer: Consumer, tp: TopicPartition) -> tuple[int, str] | None:
    """Returns the committed offset and metadata of the consumer's group."""
    committed = consumer.committed([tp])[tp]
    return None if committed is None else (committed.offset, committed.metadata)


def plain(found: object) -> dict[TopicPartition, int | None]:
    """Returns the offsets in a result of the admin client for a group; raises the error if the result is an error."""
    if not isinstance(found, dict):
        raise found if isinstance(found, KafkaError) else AssertionError(found)
    return {tp: o and o.offset for tp, o in found.items()}
