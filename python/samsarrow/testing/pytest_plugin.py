"""pytest fixtures, which pytest loads through an entry point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from samsarrow.testing.broker import Broker


@pytest.fixture
def samsarrow_broker() -> Iterator[Broker]:
    """An embedded broker for one test; topics are created on first use."""
    from samsarrow.testing.broker import Broker

    with Broker() as broker:
        yield broker
