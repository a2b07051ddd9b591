"""Schema registry clients for asyncio and trio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Literal
from uuid import UUID

from samsarrow import _core
from samsarrow._arguments import names_arguments
from samsarrow._sync import documented_by
from samsarrow.exceptions import ClosedError
from samsarrow.registry import (
    Auth,
    RegisteredSchema,
    SchemaReference,
    SchemaRegistry,
    SchemaType,
    _check,
    _new,
    _number,
    _pairs,
    _schema,
    _shown,
    _url_and_options,
    _urls,
)


@documented_by(SchemaRegistry)
class AsyncSchemaRegistry:
    """`SchemaRegistry` with awaitable methods, which have the same names, arguments, results and errors.

    It can be created without a running event loop, and may be used by several loops and threads.
    """

    def __init__(
        self,
        url: str | Sequence[str] | Mapping[str, Any],
        *,
        auth: Auth = None,
        context: str | None = None,
        **options: Any,
    ) -> None:
        url, options = _url_and_options(url, options)
        self._urls, self._arguments = _urls(url), (url, auth, context, options)
        self._core: _core.Registry | None = _core.Registry(self._urls, context, _pairs(auth, options))

    @property
    def _open(self) -> _core.Registry:
        if self._core is None:
            raise ClosedError("the schema registry's client is closed")
        return self._core

    @property
    def closed(self) -> bool:
        """True if the client is closed."""
        return self._core is None

    async def schema(
        self,
        *,
        id: int | None = None,  # noqa: A002 - the name in the registry's API
        guid: UUID | str | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
    ) -> RegisteredSchema:
        return await _schema(self._open, id, guid, subject, version)

    @names_arguments
    async def versions(self, subject: str) -> list[int]:
        return await self._open.versions(subject)

    async def subjects(self) -> list[str]:
        return await self._open.subjects()

    @names_arguments
    async def register(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> int:
        return _number(await self._open.register(subject, _new(schema, schema_type, references), normalize))

    @names_arguments
    async def lookup(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> int:
        return _number(await self._open.lookup(subject, _new(schema, schema_type, references), normalize))

    @names_arguments
    async def check(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
    ) -> None:
        return await _check(self._open, subject, _new(schema, schema_type, references))

    @names_arguments
    async def compatibility(self, subject: str | None = None) -> str:
        return await self._open.compatibility(subject)

    async def close(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            core.close()

    async def __aenter__(self) -> AsyncSchemaRegistry:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return _shown(self, self._arguments)
