"""Clusters and their faults. Logs are read and written with confluent-kafka, which shares no code with the clients
under test.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Consumer as ForeignConsumer
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError
from confluent_kafka import Producer as ForeignProducer
from confluent_kafka import TopicPartition as ForeignPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from samsarrow.testing import Broker
from support.proxy import Network

FILLED_AT_ONCE = 40


class Row(NamedTuple):
    """One record. Its key is its id, which is unique in a run."""

    partition: int
    offset: int
    id: str


class Cluster(Protocol):
    """Operations that disturbances use on a cluster."""

    name: str
    bootstrap_servers: str
    """Address for the clients under test; faults act on it."""
    direct: str
    """Address without faults."""
    foreign: dict[str, Any]
    """Options of confluent-kafka."""

    def options(self) -> dict[str, Any]:
        """Options of the clients under test."""

    def move_leader(self, topic: str, partition: int, turn: int) -> None:
        """Moves the leader of a partition."""

    def reject(self, api: str, error: str) -> None:
        """Rejects the next request of an API."""

    def delay(self, api: str, seconds: float) -> None:
        """Delays the next response of an API."""

    def reject_login(self) -> None:
        """Rejects the next login, and closes connections so that clients log in again."""

    def heal(self) -> None:
        """Removes all faults."""


class Embedded:
    """The embedded broker, with two virtual brokers so that leaders can move."""

    def __init__(self, *, logins: bool = False) -> None:
        secured: dict[str, Any] = {"security": "SASL_PLAINTEXT", "users": {"u": "p"}} if logins else {}
        self.name = "embedded broker, logins" if logins else "embedded broker"
        self._broker = Broker(brokers=2, auto_create_topics=False, consumer_group_session_timeout=6, **secured)
        self.bootstrap_servers = self.direct = self._broker.bootstrap_servers
        self._options = self._broker.client_options("u", "PLAIN") if logins else {}
        self.foreign = {"bootstrap.servers": self.direct, "log_level": 3} | self._options

    def options(self) -> dict[str, Any]:
        dotted = {"bootstrap.servers": self.bootstrap_servers} | self._options
        return {name.replace(".", "_"): value for name, value in dotted.items()}

    def move_leader(self, topic: str, partition: int, turn: int) -> None:
        self._broker.move_leader(topic, partition, turn % 2)

    def reject(self, api: str, error: str) -> None:
        self._broker.fail(api, error=error)

    def delay(self, api: str, seconds: float) -> None:
        self._broker.fail(api, delay=seconds)

    def reject_login(self) -> None:
        self._broker.alter_logins(step=1, error="SASL_AUTHENTICATION_FAILED")
        for api in ("Produce", "Fetch"):
            self._broker.fail(api, drop="before")

    def heal(self) -> None:
        self._broker.heal()

    def close(self) -> None:
        self._broker.close()


class Apache:
    """One node of Apache Kafka behind a proxy."""

    def __init__(self, servers: str) -> None:
        self.name = "Apache Kafka"
        self._network = Network(servers)
        self.bootstrap_servers = self._network.bootstrap_servers
        self.direct = servers
        self.foreign = {"bootstrap.servers": servers, "log_level": 3}

    def options(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.bootstrap_servers}

    def move_leader(self, topic: str, partition: int, turn: int) -> None:
        raise NotImplementedError

    def reject(self, api: str, error: str) -> None:
        # A proxy cannot write responses, so it closes the connection instead of returning the error.
        for proxy in self._network.proxies:
            proxy.cut(api)

    def delay(self, api: str, seconds: float) -> None:
        self._network.each(lambda proxy: proxy.switch(hold=True))
        time.sleep(seconds)
        self._network.each(lambda proxy: proxy.switch(hold=False))

    def reject_login(self) -> None:
        raise NotImplementedError

    def heal(self) -> None:
        self._network.each(lambda proxy: proxy.heal())

    def close(self) -> None:
        self._network.close()


class Topic:
    """The topic of a run, which confluent-kafka writes and reads."""

    def __init__(self, cluster: Cluster, name: str, partitions: int) -> None:
        self.cluster, self.name, self.partitions = cluster, name, partitions
        self._admin = AdminClient(cluster.foreign)
        self._next = 0
        self._failures: list[Any] = []
        self.expected: set[str] = set()
        """Ids of all rows that a reader must return."""
        self.created_again = False
        self.create(partitions)

    def create(self, partitions: int) -> None:
        """Creates the topic; retries while an earlier topic with the same name is being deleted."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self._admin.create_topics([NewTopic(self.name, partitions, 1)])[self.name].result(30)
                break
            except Exception as error:
                reason = error.args[0]
                if not (isinstance(reason, KafkaError) and reason.code() == KafkaError.TOPIC_ALREADY_EXISTS):
                    raise
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
        self.partitions = partitions
        self._await_partitions()

    def _new_producer(self) -> ForeignProducer:
        # Creates a new producer, because an existing one refreshes its metadata only minutes later.
        return ForeignProducer(self.cluster.foreign | {"linger.ms": 5, "enable.idempotence": True})

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(30)

    def add_partition(self) -> None:
        self._admin.create_partitions([NewPartitions(self.name, self.partitions + 1)])[self.name].result(30)
        self.partitions += 1
        self._await_partitions()

    def _await_partitions(self) -> None:
        while len(self._admin.list_topics(self.name, 10).topics[self.name].partitions) < self.partitions:
            time.sleep(0.05)
        self._producer = self._new_producer()

    def fill(self, rows: int) -> None:
        """Writes rows to all partitions in turn, and waits until they are delivered."""
        self._write(rows)
        assert self._producer.flush(60) == 0
        assert not self._failures, self._failures[:3]

    @contextmanager
    def filling(self, rows: int) -> Iterator[None]:
        """Writes up to `rows` rows until the end of the block; rows that fail are not expected to be returned."""
        over = threading.Event()

        def work() -> None:
            left = rows
            while left > 0 and not over.wait(0.01):
                self._write(FILLED_AT_ONCE)
                left -= FILLED_AT_ONCE

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._producer.flush(60)
            self._failures.clear()

    def _write(self, rows: int) -> None:
        """Writes rows. Every other value is not a valid `long`, so that consumers send it to a dead letter topic."""
        for _ in range(rows):
            number, self._next = self._next, self._next + 1
            self._producer.produce(
                self.name,
                key=f"row {number}",
                value=number.to_bytes(8, "big") if number % 2 else b"no number",
                partition=number // 2 % self.partitions,
                on_delivery=self._written,
            )
        self._producer.poll(0)

    def _written(self, error: Any, message: Any) -> None:
        if error:
            self._failures.append(error)
        else:
            self.expected.add(message.key().decode())

    def rows(self, name: str | None = None, *, committed: bool = True) -> list[Row]:
        """Returns all rows of this topic, or of the topic `name`."""
        return log_rows(self.cluster, name or self.name, committed=committed)

    def committed(self, group: str) -> dict[int, int]:
        """Returns the offsets that a group has committed."""
        result = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30)
        return {
            topic_partition.partition: topic_partition.offset
            for topic_partition in result.topic_partitions
            if topic_partition.topic == self.name and topic_partition.offset >= 0
        }


def log_rows(cluster: Cluster, name: str, *, committed: bool = True) -> list[Row]:
    """Returns all rows of a topic."""
    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = ForeignConsumer(
        cluster.foreign
        | {
            "group.id": "reader of the log",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        count = len(consumer.list_topics(name, 30).topics[name].partitions)
        consumer.assign([ForeignPartition(name, partition, 0) for partition in range(count)])
        left, result, deadline = set(range(count)), list[Row](), time.monotonic() + 60
        while left:
            assert time.monotonic() < deadline, f"the log of {name} could not be read to its end"
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    key = message.key()
                    result.append(Row(message.partition(), message.offset(), key.decode() if key else ""))
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                else:
                    raise RuntimeError(f"reading the log of {name}: {message.error()}")
        return result
    finally:
        consumer.close()


@contextmanager
def clusters(bootstrap: str | None) -> Iterator[list[Any]]:
    """Yields the clusters of a session: the embedded broker without and with logins, and Apache Kafka if available."""
    made: list[Any] = []
    try:
        made += [Embedded(), Embedded(logins=True)]
        if bootstrap is not None:
            made.append(Apache(bootstrap))
        yield made
    finally:
        for item in made:
            item.close()


def ids(rows: Iterable[Row]) -> set[str]:
    return {row.id for row in rows}
