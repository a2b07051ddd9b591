"""Fixtures for tests on real Apache Kafka. Test folders that need them load this module as a pytest plugin."""

import functools
import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from support.apicurio import Apicurio, program, serdes_classpath
from support.kafka import (
    DEFAULT_VERSION,
    QUICK_COMPILER,
    ZOOKEEPER_VERSION,
    KafkaServer,
    KafkaUnavailableError,
    ZooKeeperKafkaServer,
    classpath,
)
from support.peers.java_api import JavaPeer
from support.serdes import JavaSerdes
from support.waiting import until

_numbers = itertools.count()


def _need(fetch: Callable[[], object]) -> None:
    """Skips the test if a requirement is missing. In CI a missing requirement is an error."""
    try:
        fetch()
    except KafkaUnavailableError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """A node of Apache Kafka, shared by the whole session."""
    _need(lambda: classpath(DEFAULT_VERSION))
    with KafkaServer(jvm=QUICK_COMPILER) as server:
        yield server


@pytest.fixture(scope="session")
def old_kafka() -> Iterator[ZooKeeperKafkaServer]:
    """A broker with ZooKeeper that stores and returns every record format, shared by the whole session."""
    _need(lambda: classpath(ZOOKEEPER_VERSION))
    with ZooKeeperKafkaServer(jvm=QUICK_COMPILER) as server:
        yield server


@pytest.fixture(scope="session")
def java(kafka: KafkaServer) -> Iterator[JavaPeer]:
    """The Java clients of `kafka`."""
    with JavaPeer(kafka) as peer:
        yield peer


@pytest.fixture(scope="session")
def old_java(old_kafka: ZooKeeperKafkaServer) -> Iterator[JavaPeer]:
    """The Java clients of `old_kafka`."""
    with JavaPeer(old_kafka) as peer:
        yield peer


@pytest.fixture(scope="session")
def apicurio() -> Iterator[Apicurio]:
    """Apicurio's schema registry, shared by the whole session."""
    _need(program)
    with Apicurio() as server:
        yield server


@pytest.fixture(scope="session")
def serdes() -> Iterator[JavaSerdes]:
    """Java's Avro serializers, shared by the whole session."""
    _need(serdes_classpath)
    with JavaSerdes() as peer:
        yield peer


def create_topic(server: KafkaServer, partitions: int = 1, **configs: str) -> str:
    """Creates a topic with a unique name."""
    from samsarrow import Admin, NewTopic

    name = f"t{os.getpid()}-{next(_numbers)}"
    dotted = {k.replace("_", "."): v for k, v in configs.items()}
    with Admin(bootstrap_servers=server.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions, 1, dotted)])
        # The broker gets the new topic's metadata shortly after the controller.
        until(lambda: name in admin.list_topics([name]))
    return name


@pytest.fixture
def new_topic(kafka: KafkaServer) -> Callable[..., str]:
    """Returns a function that creates a topic with a unique name: `new_topic(partitions=1, **configs)`."""
    return functools.partial(create_topic, kafka)
