"""Helpers shared by all admin operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._names import rename_methods, unknown_method
from samsarrow.access import AclOperation
from samsarrow.types import TopicPartition


class AdminBase:
    """Base of the generated methods; `_open` is the Rust client."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        rename_methods(cls)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_method(self, name)

    @property
    def _open(self) -> _core.Admin:
        raise NotImplementedError

    def __repr__(self) -> str:
        # The attributes are missing if the constructor raised.
        name = f"{type(self).__name__} {getattr(self, '_identity', '')}".rstrip()
        return f"<{name}{'' if getattr(self, '_core', None) else ', closed'}>"


def names_of(what: str, names: Iterable[str]) -> list[str]:
    """Returns the names without duplicates.

    Raises:
        TypeError: `names` is a single str.
    """
    if isinstance(names, str):
        raise TypeError(f"{what} must be several names, not one str")
    return list(dict.fromkeys(names))


def operations(codes: list[int] | None) -> tuple[AclOperation, ...] | None:
    """Converts authorized operations from their codes to `AclOperation`s."""
    return None if codes is None else tuple(AclOperation(code) for code in codes)


def to_partition(row: tuple[Any, Any]) -> TopicPartition:
    """Converts a partition from a tuple to a `TopicPartition`."""
    return TopicPartition(*row)
