"""Fixtures of the event loop tests."""

from collections.abc import Iterator

import pytest

from samsarrow.testing import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1, "four": 4}) as broker:
        yield broker


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers
