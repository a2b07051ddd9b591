"""What all families of operations need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samsarrow import _core
from samsarrow.access import AclOperation
from samsarrow.types import TopicPartition


class AdminBase:
    """What an operation is made with."""

    @property
    def _open(self) -> _core.Admin:
        raise NotImplementedError


def names_of(what: str, names: Iterable[str]) -> list[str]:
    """Several names, each once."""
    if isinstance(names, str):
        raise TypeError(f"{what} must be several names, not one str")
    return list(dict.fromkeys(names))


def operations(codes: list[int] | None) -> tuple[AclOperation, ...] | None:
    """Operations as programs know them."""
    return None if codes is None else tuple(AclOperation(code) for code in codes)


def to_partition(row: tuple[Any, Any]) -> TopicPartition:
    """A partition as programs know it."""
    return TopicPartition(*row)
