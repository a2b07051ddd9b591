"""Avro values: their schemas, framing and writers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, final
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._faces import Do
from samsarrow.exceptions import ConfigurationError
from samsarrow.registry import SchemaRegistry, _schema

__all__ = ["Avro"]

Schema: TypeAlias = str | Mapping[str, Any] | Sequence[Any]
"""An Avro schema: its JSON text, or what that text parses to."""


@final
class Avro:
    """Avro values, as rows of one schema, whatever schemas they were written with.

    A record becomes a struct, any other type a column of its own; docs/values.md has the table of types. Schemas that
    differ are resolved as Avro's specification 1.12 has it: fields by name or alias in any order, defaults, promotions.
    """

    __slots__ = ("_arguments", "_decoders", "_found", "_given", "_registry")

    def __init__(
        self,
        source: Schema | SchemaRegistry | None = None,
        /,
        *,
        schema: Schema | None = None,
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
        writers: Mapping[int | str | UUID, Schema] | Sequence[Schema] = (),
        fields: Sequence[str] | None = None,
        framing: Literal["auto", "confluent", "apicurio8", "single-object", "none"] = "auto",
        enums: Literal["string", "dictionary"] = "string",
        ignore_rules: bool = False,
    ) -> None:
        """Reads the schemas that are given.

        Args:
            source: `schema` or `registry`.
            schema: what rows look like; also what values without frames were written with. With a registry or a single
                writer it may be left out.
            registry: is asked for what values were written with, as far as `writers` does not say; and for `schema`,
                once, at the first use.
            subject: where `schema` is registered; by default `TOPIC-value`, or `TOPIC-key`.
            version: of `subject`.
            writers: what values were written with, by the id or GUID that stands in their frames or headers. A sequence
                is of schemas that values name by fingerprint.
            fields: only these, as `["id", "user.city"]`; the rest of each value is stepped over. They come in the
                schema's order. A path goes through lists and maps to what is in them.
            framing: where values name their writer's schema. `auto` is in the record's header `__value_schema_id` (or
                `__key_schema_id`), or in Confluent's prefix: byte 0 and an id of 4 bytes. `apicurio8` has ids of 8
                bytes, `single-object` C3 01 and a fingerprint, `none` nothing.
            enums: `dictionary` is `dictionary<int32, string>`.
            ignore_rules: takes values as they are whose schema has rules (data contracts), which are never run here.

        Raises:
            ConfigurationError: a schema cannot be read, or has no Arrow type; the text names the field.
        """
        if isinstance(source, SchemaRegistry):
            if registry is not None:
                raise TypeError("the registry is given twice")
            registry = source
        elif source is not None:
            if schema is not None:
                raise TypeError("the schema is given twice")
            schema = source
        known: list[tuple[int | bytes | None, str]]
        if isinstance(writers, Mapping):
            known = [(_id(key), _text(text)) for key, text in writers.items()]
        else:
            known = [(None, _text(text)) for text in writers]
        if schema is None and registry is None:
            if len(known) != 1:
                raise ConfigurationError(f"schema is left out with {len(known)} writers: it says what rows look like")
            schema = known[0][1]
        if isinstance(fields, str):
            raise TypeError(f"fields must be a list of names: [{fields!r}]")
        self._arguments = (schema, registry, subject, version, writers, fields, framing, enums, ignore_rules)
        self._given = (known, None if fields is None else list(fields), framing, enums)
        self._registry = registry
        # By subject; None has the one of the schema that was given.
        self._decoders: dict[str | None, _core.ValueDecoder] = {}
        # What the registry says that rows look like, by subject, with the texts of what that needs.
        self._found: dict[str, tuple[str, tuple[str, ...]]] = {}
        if schema is not None:
            self._decoders[None] = _core.ValueDecoder.avro(_text(schema), [], *self._given)

    async def _decoder(self, do: Do, topic: str | None, key: bool) -> _core.ValueDecoder:
        """That of the schema, which a registry may have to be asked for."""
        given = self._decoders.get(None)
        if given is not None or self._registry is None:
            return self._decoders[None]
        _, _, subject, version, *_ = self._arguments
        if subject is None:
            if topic is None:
                raise ConfigurationError("neither schema nor subject nor topic says what rows look like: give one")
            subject = f"{topic}-{'key' if key else 'value'}"
        if subject not in self._found:
            found = await do(_schema(self._registry._open, None, None, subject, version))
            if found.schema_type != "AVRO":
                raise ConfigurationError(f"the schema of subject {subject} is of type {found.schema_type}, not AVRO")
            self._found[subject] = found.schema, found.needed
        if subject not in self._decoders:
            text, needed = self._found[subject]
            self._decoders[subject] = _core.ValueDecoder.avro(text, list(needed), *self._given)
        return self._decoders[subject]

    async def _learn(self, do: Do, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Has the registry say what values of a batch were written with."""
        if self._registry is not None:
            call = decoder.learn(self._registry._open, batch, key, self._arguments[-1])
            if call is not None:
                await do(call)

    @property
    def _in_headers(self) -> bool:
        """Whether headers of records may name the schema."""
        return self._given[2] == "auto"

    def __reduce__(self) -> tuple[Any, ...]:
        return _avro, self._arguments

    def __repr__(self) -> str:
        names = ("schema", "registry", "subject", "version", "writers", "fields", "framing", "enums", "ignore_rules")
        left_out = (None, None, None, "latest", (), None, "auto", "string", False)
        given = zip(names, self._arguments, left_out, strict=True)
        return f"Avro({', '.join(f'{name}={one!r}' for name, one, default in given if one != default)})"


def _avro(
    schema: Any,
    registry: Any,
    subject: Any,
    version: Any,
    writers: Any,
    fields: Any,
    framing: Any,
    enums: Any,
    rules: Any,
) -> Avro:
    return Avro(
        schema=schema,
        registry=registry,
        subject=subject,
        version=version,
        writers=writers,
        fields=fields,
        framing=framing,
        enums=enums,
        ignore_rules=rules,
    )


def _id(key: int | str | UUID) -> int | bytes:
    if isinstance(key, int):
        return key
    return (key if isinstance(key, UUID) else UUID(key)).bytes


def _text(schema: Schema) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
