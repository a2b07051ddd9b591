"""Protobuf values: their schemas and framing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError
from samsarrow.registry import SchemaRegistry

__all__ = ["Protobuf"]


@final
class Protobuf:
    """Protobuf values, as rows of one message, without generated classes.

    A message becomes a struct; docs/values.md has the table of types. Values that were written with another version of
    the message have their fields by number.
    """

    __slots__ = ("_arguments", "_decoders", "_given", "_registry")

    def __init__(
        self,
        source: str | bytes | SchemaRegistry | None = None,
        /,
        *,
        schema: str | bytes | None = None,
        registry: SchemaRegistry | None = None,
        message: str | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
        imports: Mapping[str, str] | None = None,
        fields: Sequence[str] | None = None,
        framing: Literal["auto", "confluent", "none"] = "auto",
        enums: Literal["string", "dictionary"] = "string",
        ignore_rules: bool = False,
    ) -> None:
        """Reads the schema that is given.

        Args:
            source: `schema` or `registry`.
            schema: the text of a `.proto` file; or a serialized FileDescriptorSet, as `protoc -o FILE
                --include_imports` writes it. With a registry it may be left out.
            registry: is asked for what values were written with; and for `schema`, once, at the first use. Without one
                all ids stand for `schema`.
            message: what rows look like: its name, with the package where that is not clear. By default the first
                message of the file.
            subject: where `schema` is registered; by default `TOPIC-value`, or `TOPIC-key`.
            version: of `subject`.
            imports: the texts of files that `schema` imports, by their names. Those of `google/protobuf` and
                `google/type` need not be given.
            fields: only these, as `["id", "user.city"]`; the rest of each value is stepped over. They come in the
                schema's order. A path goes through lists to their items, and through maps to their values.
            framing: where values name their writer's schema and message. `auto` is in the record's header
                `__value_schema_id` (or `__key_schema_id`), or in Confluent's prefix: byte 0, an id of 4 bytes, and the
                message's indexes. `none` has the message alone.
            enums: `dictionary` is `dictionary<int32, string>`.
            ignore_rules: takes values as they are whose schema has rules (data contracts), which are never run here.

        Raises:
            ConfigurationError: the schema cannot be read, or has no Arrow type; the text names the line or field.
        """
        if isinstance(source, SchemaRegistry):
            if registry is not None:
                raise TypeError("the registry is given twice")
            registry = source
        elif source is not None:
            if schema is not None:
                raise TypeError("the schema is given twice")
            schema = source
        if schema is None and registry is None:
            raise ConfigurationError("neither schema nor registry says what rows look like: give one")
        if isinstance(fields, str):
            raise TypeError(f"fields must be a list of names: [{fields!r}]")
        self._arguments = (
            (schema, registry, message, subject, version),
            (imports, fields, framing, enums, ignore_rules),
        )
        by_id = registry is not None
        self._given = (message, by_id, None if fields is None else list(fields), framing, enums)
        self._registry = registry
        # By subject; None has the one of the schema that was given.
        self._decoders: dict[str | None, _core.ValueDecoder] = {}
        if schema is not None:
            needed = list((imports or {}).values())
            self._decoders[None] = _core.ValueDecoder.protobuf(schema, needed, *self._given)

    def _decoder(self, topic: str | None, key: bool) -> _core.ValueDecoder:
        """That of the schema, which a registry may have to be asked for."""
        given = self._decoders.get(None)
        if given is not None or self._registry is None:
            return self._decoders[None]
        _, _, _, subject, version = self._arguments[0]
        if subject is None:
            if topic is None:
                raise ConfigurationError("neither schema nor subject nor topic says what rows look like: give one")
            subject = f"{topic}-{'key' if key else 'value'}"
        if subject not in self._decoders:
            found = self._registry.schema(subject=subject, version=version)
            if found.schema_type != "PROTOBUF":
                raise ConfigurationError(
                    f"the schema of subject {subject} is of type {found.schema_type}, not PROTOBUF"
                )
            self._decoders[subject] = _core.ValueDecoder.protobuf(found.schema, list(found.needed), *self._given)
        return self._decoders[subject]

    def _learn(self, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Has the registry say what values of a batch were written with."""
        if self._registry is not None:
            decoder.learn(self._registry._open, batch, key, self._arguments[1][-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return _protobuf, self._arguments

    def __repr__(self) -> str:
        names = ("schema", "registry", "message", "subject", "version")
        more = ("imports", "fields", "framing", "enums", "ignore_rules")
        left_out = (None, None, None, None, "latest", None, None, "auto", "string", False)
        first, second = self._arguments
        given = zip((*names, *more), (*first, *second), left_out, strict=True)
        return f"Protobuf({', '.join(f'{name}={one!r}' for name, one, default in given if one != default)})"


def _protobuf(first: tuple[Any, ...], second: tuple[Any, ...]) -> Protobuf:
    schema, registry, message, subject, version = first
    imports, fields, framing, enums, rules = second
    return Protobuf(
        schema=schema,
        registry=registry,
        message=message,
        subject=subject,
        version=version,
        imports=imports,
        fields=fields,
        framing=framing,
        enums=enums,
        ignore_rules=rules,
    )
