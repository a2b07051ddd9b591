"""Base class of the formats with schemas, which fetches schemas from a registry and caches them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

import pyarrow as pa

from samsarrow import _core
from samsarrow._sync import RunCall
from samsarrow.exceptions import ConfigurationError
from samsarrow.glue import GlueSchemaRegistry
from samsarrow.registry import RegisteredSchema, SchemaRegistry, SchemaType, _new, _schema
from samsarrow.values.subjects import SubjectStrategy, subject_of

T = TypeVar("T")

Registry: TypeAlias = SchemaRegistry | GlueSchemaRegistry
"""Client of a registry, from which formats fetch schemas."""


class RegistryFormat:
    """Base of formats whose schemas may come from a schema registry."""

    __slots__ = ("_arguments", "_decoders", "_headers", "_ids", "_registry", "_schemas")

    _kind: ClassVar[SchemaType]
    # Defaults of arguments, if they are not None.
    _defaults: ClassVar[Mapping[str, Any]]
    # Texts of imported files that the registry may not have.
    _imports: list[str] = []  # noqa: RUF012 - never changed

    def _keep(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self._registry: Registry | None = arguments["registry"]
        arguments["framing"] = _core.registry_framing(_kind(self._registry), arguments["framing"])
        # Decoders by subject; None for the schema that was passed as an argument.
        self._decoders: dict[str | None, _core.ValueDecoder] = {}
        # Row schemas from the registry, by subject.
        self._schemas: dict[str, RegisteredSchema] = {}
        # Schema ids by subject and text.
        self._ids: dict[tuple[str, str], int | bytes] = {}
        # Values of the headers that identify schemas, by the id of the schema.
        self._headers: dict[int, bytes] = {}

    async def _latest(self, run: RunCall, subject: str) -> RegisteredSchema:
        """Returns the requested version of a subject, by default the latest version. It is fetched only once."""
        assert self._registry is not None
        if subject not in self._schemas:
            latest = await run(_schema(self._registry._open, None, None, subject, self._arguments["version"]))
            if latest.schema_type != self._kind:
                text = f"the schema of subject {subject} is of type {latest.schema_type}, not {self._kind}"
                raise ConfigurationError(text)
            self._schemas[subject] = latest
        return self._schemas[subject]

    def _check_rules(self, schema: RegisteredSchema, subject: str | None, action: str) -> None:
        """Rejects a schema with rules (a data contract), unless `ignore_rules` is set."""
        if schema.has_rules and not self._arguments["ignore_rules"]:
            text = f"the schema of subject {subject} has rules, which samsarrow does not run"
            raise ConfigurationError(f"{text}: ignore_rules=True {action} values as they are")

    async def _id_of(self, run: RunCall, subject: str, text: str) -> int | bytes:
        """Returns the id of a schema to write with. The schema is registered or looked up only once."""
        assert self._registry is not None
        if (subject, text) not in self._ids:
            core = self._registry._open
            register_or_lookup = core.register if self._arguments["auto_register"] else core.lookup
            self._ids[subject, text] = await run(register_or_lookup(subject, _new(text, self._kind, ()), False))
        return self._ids[subject, text]

    def _frame_id(self, schema: RegisteredSchema) -> int | bytes | None:
        """Returns the id or the UUID that frames of values with this schema have."""
        if isinstance(self._registry, GlueSchemaRegistry):
            return None if schema.guid is None else schema.guid.bytes
        return schema.id

    def _subject_of(self, strategy: SubjectStrategy, topic: str | None, key: bool, record: str | None) -> str:
        """Returns the subject, or in AWS Glue the name of the schema, of values or keys of a topic."""
        subject: str | None = self._arguments["subject"]
        if subject is not None:
            return subject
        if strategy == "topic" and topic is not None:
            return topic_subject(self._registry, topic, key)
        return subject_of(strategy, topic, key, record)

    async def _header(self, run: RunCall, schema_id: int | bytes | None) -> bytes:
        """Returns the header value that identifies a schema by its GUID, as Confluent's serializers do.

        Args:
            run: function that waits for a call of the Rust client, by blocking or awaiting.
            schema_id: id or GUID of the schema. Without a registry, the header has the id itself.
        """
        if isinstance(schema_id, int):
            if self._registry is None:
                return b"\0" + schema_id.to_bytes(4)
            if schema_id not in self._headers:
                schema = await run(_schema(self._registry._open, schema_id, None, None, "latest"))
                self._headers[schema_id] = _guid_header(None if schema.guid is None else schema.guid.bytes)
            return self._headers[schema_id]
        return _guid_header(schema_id)

    async def _learn(self, run: RunCall, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Fetches the writers' schemas of a batch, if the decoder does not have them yet."""
        if self._registry is not None:
            call = decoder.learn(self._registry._open, batch, key, self._arguments["ignore_rules"], self._imports)
            if call is not None:
                await run(call)

    @property
    def _in_headers(self) -> bool:
        """True if record headers may identify the writer's schema."""
        return self._arguments["framing"] in ("auto", "header")

    @property
    def _writes_headers(self) -> bool:
        """True if a record header identifies the schema to write with, instead of a frame."""
        return bool(self._arguments["framing"] == "header")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._arguments)

    def __repr__(self) -> str:
        arguments = (
            f"{name}={value!r}" for name, value in self._arguments.items() if value != self._defaults.get(name)
        )
        return f"{type(self).__name__}({', '.join(arguments)})"


def _guid_header(guid: bytes | None) -> bytes:
    if guid is None:
        raise ConfigurationError("the registry has no GUIDs, which headers have: framing='confluent' takes ids")
    return b"\1" + guid


def topic_subject(registry: Registry | None, topic: str, key: bool) -> str:
    """Returns the subject, or in AWS Glue the name of the schema, of values or keys of a topic."""
    return _core.topic_subject(_kind(registry), topic, key)


def _kind(registry: Registry | None) -> str:
    if registry is None:
        return "none"
    return "glue" if isinstance(registry, GlueSchemaRegistry) else "confluent"


def split_source(
    source: T | Registry | None, schema: T | None, registry: Registry | None
) -> tuple[T | None, Registry | None]:
    """Returns the schema and the registry. One of them may have been passed as the positional argument `source`."""
    for text in (source, schema):
        if isinstance(text, str) and text.lstrip().lower().startswith(("http://", "https://")):
            # The URL is not shown, because it may have a password.
            raise ConfigurationError("a URL is no schema: for a registry, pass SchemaRegistry(url)")
    if isinstance(source, (SchemaRegistry, GlueSchemaRegistry)):
        if registry is not None:
            raise TypeError("the registry is passed twice")
        return schema, source
    if source is not None and schema is not None:
        raise TypeError("the schema is passed twice")
    return schema if source is None else source, registry


def _rebuild(cls: type[Any], arguments: dict[str, Any]) -> Any:
    return cls(**arguments)
