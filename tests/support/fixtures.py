"""Fixtures for tests on real Apache Kafka; loaded as a pytest plugin by the folders that need it."""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from support.kafka import KafkaServer, KafkaUnavailableError, classpath

_numbers = itertools.count()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    """One node of Apache Kafka for the whole run."""
    try:
        classpath()
    except KafkaUnavailableError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))
    with KafkaServer() as server:
        yield server


@pytest.fixture
def new_topic(kafka: KafkaServer) -> Callable[..., str]:
    """Makes a topic with a name of its own: `new_topic(partitions=1, **configs)`."""
    from samsarrow import Admin, NewTopic

    def create(partitions: int = 1, **configs: str) -> str:
        name = f"t{os.getpid()}-{next(_numbers)}"
        dotted = {k.replace("_", "."): v for k, v in configs.items()}
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, dotted)])
        return name

    return create
