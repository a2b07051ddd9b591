"""Protobuf values: their schemas and framing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final

import pyarrow as pa

from samsarrow import _core
from samsarrow._faces import Do
from samsarrow.exceptions import ConfigurationError
from samsarrow.registry import RegisteredSchema, SchemaRegistry, _new, _schema
from samsarrow.values.subjects import subject_of

__all__ = ["Protobuf"]


@final
class Protobuf:
    """Protobuf values, as rows of one message, without generated classes.

    A message becomes a struct; docs/values.md has the table of types. Values that were written with another version of
    the message have their fields by number.
    """

    __slots__ = ("_arguments", "_decoders", "_encoders", "_found", "_given", "_imports", "_registry")

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
        auto_register: bool = True,
        use_latest: bool = False,
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
            auto_register: registers `schema` when values are encoded; otherwise it has to be there.
            use_latest: encodes with the version of `subject`, also where `schema` is given. Without `schema` that is
                what happens.

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
        self._arguments: dict[str, Any] = {
            "schema": schema,
            "registry": registry,
            "message": message,
            "subject": subject,
            "version": version,
            "imports": imports,
            "fields": fields,
            "framing": framing,
            "enums": enums,
            "ignore_rules": ignore_rules,
            "auto_register": auto_register,
            "use_latest": use_latest,
        }
        by_id = registry is not None
        self._given = (message, by_id, None if fields is None else list(fields), framing, enums)
        self._imports = list((imports or {}).values())
        self._registry = registry
        # By subject; None has the one of the schema that was given.
        self._decoders: dict[str | None, _core.ValueDecoder] = {}
        # What the registry says that rows look like, by subject.
        self._found: dict[str, RegisteredSchema] = {}
        # By the columns' type and the subject.
        self._encoders: dict[tuple[pa.DataType, str | None], _core.ValueEncoder] = {}
        if schema is not None:
            self._decoders[None] = _core.ValueDecoder.protobuf(schema, self._imports, *self._given)

    async def _decoder(self, do: Do, topic: str | None, key: bool) -> _core.ValueDecoder:
        """That of the schema, which a registry may have to be asked for."""
        given = self._decoders.get(None)
        if given is not None or self._registry is None:
            return self._decoders[None]
        subject = self._subject(topic, key)
        if subject not in self._decoders:
            found = await self._latest(do, subject)
            self._decoders[subject] = _core.ValueDecoder.protobuf(found.schema, list(found.needed), *self._given)
        return self._decoders[subject]

    def _subject(self, topic: str | None, key: bool) -> str:
        """Where the schema is registered."""
        subject: str | None = self._arguments["subject"]
        return subject_of("topic", topic, key, None) if subject is None else subject

    async def _latest(self, do: Do, subject: str) -> RegisteredSchema:
        """The latest version, or the one that was asked for."""
        assert self._registry is not None
        if subject not in self._found:
            found = await do(_schema(self._registry._open, None, None, subject, self._arguments["version"]))
            if found.schema_type != "PROTOBUF":
                raise ConfigurationError(
                    f"the schema of subject {subject} is of type {found.schema_type}, not PROTOBUF"
                )
            self._found[subject] = found
        return self._found[subject]

    async def _encoder(self, do: Do, like: pa.RecordBatch, topic: str | None, key: bool) -> _core.ValueEncoder:
        """That of columns like the one in a batch. What it writes with is registered where it is to be."""
        framed = self._arguments["framing"] != "none"
        subject = self._subject(topic, key) if self._registry is not None and framed else None
        place = (like.schema.field(0).type, subject)
        if place not in self._encoders:
            text, needed, number = await self._written(do, like, topic, key, framed)
            given = (self._arguments["message"], like, self._arguments["framing"], number)
            self._encoders[place] = _core.ValueEncoder.protobuf(text, needed, *given)
        return self._encoders[place]

    async def _written(
        self, do: Do, like: pa.RecordBatch, topic: str | None, key: bool, framed: bool
    ) -> tuple[str | bytes, list[str], int | None]:
        """What is written: the schema, what it needs, and its id where frames have one."""
        given, schema = self._arguments, self._arguments["schema"]
        if self._registry is not None and (schema is None or given["use_latest"]):
            found = await self._latest(do, self._subject(topic, key))
            if found.has_rules and not given["ignore_rules"]:
                text = f"the schema of subject {found.subject} has rules, which are not run here"
                raise ConfigurationError(f"{text}: ignore_rules=True writes values as they are")
            return found.schema, list(found.needed), found.id
        if not framed:
            return schema, self._imports, None
        if self._registry is None:
            raise ConfigurationError(
                f"framing {given['framing']!r} has the id of what is written, and none is known: give a registry"
            )
        if isinstance(schema, bytes) or self._imports:
            raise ConfigurationError(
                "descriptors, and a schema with imports, are not registered here: register it with its references, and"
                " give use_latest=True"
            )
        # What does not fit is not registered.
        _core.ValueEncoder.protobuf(schema, [], given["message"], like, "none", None)
        core = self._registry._open
        ask = core.register if given["auto_register"] else core.lookup
        return schema, [], await do(ask(self._subject(topic, key), _new(schema, "PROTOBUF", ()), False))

    async def _learn(self, do: Do, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Has the registry say what values of a batch were written with."""
        if self._registry is not None:
            call = decoder.learn(self._registry._open, batch, key, self._arguments["ignore_rules"])
            if call is not None:
                await do(call)

    @property
    def _in_headers(self) -> bool:
        """Whether headers of records may name the schema."""
        return bool(self._arguments["framing"] == "auto")

    def __reduce__(self) -> tuple[Any, ...]:
        return _protobuf, (self._arguments,)

    def __repr__(self) -> str:
        given = (f"{name}={one!r}" for name, one in self._arguments.items() if one != _LEFT_OUT.get(name))
        return f"Protobuf({', '.join(given)})"


_LEFT_OUT = {
    "version": "latest",
    "framing": "auto",
    "enums": "string",
    "ignore_rules": False,
    "auto_register": True,
    "use_latest": False,
}


def _protobuf(arguments: dict[str, Any]) -> Protobuf:
    return Protobuf(**arguments)
