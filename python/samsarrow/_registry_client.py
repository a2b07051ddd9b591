"""Bases of schema registry clients, which own the client of the Rust core."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from samsarrow._core import Registry
from samsarrow.exceptions import ClosedError


class RegistryClient:
    """Client of the Rust core, until it is closed."""

    _core: Registry | None

    @property
    def _open(self) -> Registry:
        if self._core is None:
            raise ClosedError("the schema registry's client is closed")
        return self._core

    @property
    def closed(self) -> bool:
        """True if the client is closed."""
        return self._core is None

    def _end(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            core.close()


class BlockingRegistry(RegistryClient):
    """Client that is closed by a blocking call."""

    def close(self) -> None:
        """Cancels pending requests and closes the client. May be called again."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()


class AwaitingRegistry(RegistryClient):
    """Client that is closed by an awaitable call."""

    async def close(self) -> None:
        """Cancels pending requests and closes the client. May be called again."""
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
