"""Share groups of the embedded broker."""

from __future__ import annotations

import pytest

from samsarrow.testing import Broker


@pytest.mark.parametrize("option", ["share_delivery_limit", "share_record_locks"])
@pytest.mark.parametrize("value", [0, 10_001])
def test_invalid_limit_is_rejected(option: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{option}={value}: it must be 1 to 10000"):
        Broker(**{option: value})  # type: ignore[arg-type]


def test_expire_locks_names_unknown_group() -> None:
    with Broker() as broker, pytest.raises(ValueError, match="no share group 'unknown' that has acquired records"):
        broker.expire_locks("unknown")
