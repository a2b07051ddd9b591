"""Schema registry clients for asyncio and trio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal
from uuid import UUID

from samsarrow._arguments import names_arguments
from samsarrow._registry_client import AwaitingRegistry
from samsarrow._sync import documented_by
from samsarrow.glue import GlueClient, GlueSchemaRegistry, _uuid
from samsarrow.registry import (
    ConfluentClient,
    RegisteredSchema,
    SchemaReference,
    SchemaRegistry,
    SchemaType,
    _check,
    _new,
    _number,
    _schema,
)

__all__ = ["AsyncGlueSchemaRegistry", "AsyncSchemaRegistry"]


@documented_by(SchemaRegistry)
class AsyncSchemaRegistry(ConfluentClient, AwaitingRegistry):
    """`SchemaRegistry` with awaitable methods, which have the same names, arguments, results and errors.

    It can be created without a running event loop, and may be used by several loops and threads.
    """

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


@documented_by(GlueSchemaRegistry)
class AsyncGlueSchemaRegistry(GlueClient, AwaitingRegistry):
    """`GlueSchemaRegistry` with awaitable methods, which have the same names, arguments, results and errors.

    It can be created without a running event loop, and may be used by several loops and threads.
    """

    async def schema(
        self,
        *,
        uuid: UUID | str | None = None,
        name: str | None = None,
        version: int | Literal["latest"] = "latest",
    ) -> RegisteredSchema:
        return await self._schema(uuid, name, version)

    @names_arguments
    async def versions(self, name: str) -> list[int]:
        return await self._open.versions(name)

    async def schemas(self) -> list[str]:
        return await self._open.subjects()

    @names_arguments
    async def register(
        self,
        name: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
    ) -> UUID:
        return _uuid(await self._open.register(name, _new(schema, schema_type, ()), False))

    @names_arguments
    async def lookup(
        self,
        name: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
    ) -> UUID:
        return _uuid(await self._open.lookup(name, _new(schema, schema_type, ()), False))

    @names_arguments
    async def compatibility(self, name: str) -> str:
        return await self._open.compatibility(name)
