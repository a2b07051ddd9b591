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
from samsarrow.registry import RegisteredSchema, SchemaRegistry, _new, _schema
from samsarrow.values.subjects import SubjectStrategy, legal, subject_of

__all__ = ["Avro"]

Schema: TypeAlias = str | Mapping[str, Any] | Sequence[Any]
"""An Avro schema: its JSON text, or what that text parses to."""


@final
class Avro:
    """Avro values, as rows of one schema, whatever schemas they were written with.

    A record becomes a struct, any other type a column of its own; docs/values.md has the table of types. Schemas that
    differ are resolved as Avro's specification 1.12 has it: fields by name or alias in any order, defaults, promotions.
    """

    __slots__ = ("_arguments", "_decoders", "_encoders", "_found", "_given", "_ids", "_registry")

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
        name: str | None = None,
        auto_register: bool = True,
        use_latest: bool = False,
        subject_strategy: SubjectStrategy = "topic",
    ) -> None:
        """Reads the schemas that are given.

        Args:
            source: `schema` or `registry`.
            schema: what rows look like; also what values without frames were written with, and what is written. With a
                registry or a single writer it may be left out: what is written then follows from the columns' types.
            registry: is asked for what values were written with, as far as `writers` does not say; and for `schema`,
                once, at the first use.
            subject: where `schema` is registered; by default as `subject_strategy` has it.
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
            name: of the record that is written where no schema is given, with its namespace, as `shop.Order`; by
                default `TOPIC_value`, or `TOPIC_key`.
            auto_register: whether a schema to write with is registered, which is done once. If not, it must be there.
            use_latest: writes with what the subject's `version` is, and registers nothing.
            subject_strategy: `topic` has subjects `TOPIC-value` and `TOPIC-key`, `record` the full name of the record,
                `topic-record` both, as `TOPIC-shop.Order`; a callable is given the topic, whether it is for keys, and
                the record's name, and returns the subject.

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
        if not callable(subject_strategy) and subject_strategy not in ("topic", "record", "topic-record"):
            text = f"subject_strategy must be topic, record, topic-record or a callable, not {subject_strategy!r}"
            raise ConfigurationError(text)
        self._arguments: dict[str, Any] = {
            "schema": schema,
            "registry": registry,
            "subject": subject,
            "version": version,
            "writers": writers,
            "fields": fields,
            "framing": framing,
            "enums": enums,
            "ignore_rules": ignore_rules,
            "name": name,
            "auto_register": auto_register,
            "use_latest": use_latest,
            "subject_strategy": subject_strategy,
        }
        self._given = (known, None if fields is None else list(fields), framing, enums)
        self._registry = registry
        # By subject; None has the one of the schema that was given.
        self._decoders: dict[str | None, _core.ValueDecoder] = {}
        # By the columns' type, topic and part.
        self._encoders: dict[tuple[pa.DataType, str | None, bool], _core.ValueEncoder] = {}
        # By subject and text.
        self._ids: dict[tuple[str, str], int] = {}
        # What the registry says that rows look like, by subject.
        self._found: dict[str, RegisteredSchema] = {}
        if schema is not None:
            self._decoders[None] = _core.ValueDecoder.avro(_text(schema), [], *self._given)

    async def _decoder(self, do: Do, topic: str | None, key: bool) -> _core.ValueDecoder:
        """That of the schema, which a registry may have to be asked for."""
        given = self._decoders.get(None)
        if given is not None or self._registry is None:
            return self._decoders[None]
        subject = self._subject(topic, key, self._arguments["name"])
        if subject not in self._decoders:
            found = await self._latest(do, subject)
            self._decoders[subject] = _core.ValueDecoder.avro(found.schema, list(found.needed), *self._given)
        return self._decoders[subject]

    def _subject(self, topic: str | None, key: bool, record: str | None) -> str:
        """Where the schema is registered."""
        subject: str | None = self._arguments["subject"]
        return subject_of(self._arguments["subject_strategy"], topic, key, record) if subject is None else subject

    async def _latest(self, do: Do, subject: str) -> RegisteredSchema:
        """The latest version, or the one that was asked for."""
        assert self._registry is not None
        if subject not in self._found:
            found = await do(_schema(self._registry._open, None, None, subject, self._arguments["version"]))
            if found.schema_type != "AVRO":
                raise ConfigurationError(f"the schema of subject {subject} is of type {found.schema_type}, not AVRO")
            self._found[subject] = found
        return self._found[subject]

    async def _encoder(self, do: Do, like: pa.RecordBatch, topic: str | None, key: bool) -> _core.ValueEncoder:
        """That of columns like the one in a batch. What it writes with is registered where it is to be."""
        place = (like.schema.field(0).type, topic, key)
        if place not in self._encoders:
            text, needed, number = await self._written(do, like, topic, key)
            framing: str = self._arguments["framing"]
            self._encoders[place] = _core.ValueEncoder.avro(text, needed, like, framing, number)
        return self._encoders[place]

    async def _written(
        self, do: Do, like: pa.RecordBatch, topic: str | None, key: bool
    ) -> tuple[str, list[str], int | None]:
        """What is written: the schema, what it needs, and its id where frames have one."""
        given, known = self._arguments, self._given[0]
        framed = given["framing"] in ("auto", "confluent", "apicurio8")
        if self._registry is None:
            if not framed:
                return known[0][1] if given["schema"] is None else _text(given["schema"]), [], None
            match known:
                case [(int() as number, text)]:
                    return text, [], number
            why = f"framing {given['framing']!r} has the id of what is written, and none is known"
            raise ConfigurationError(f"{why}: give a registry, or writers={{id: schema}} of one id")
        if given["use_latest"]:
            named = given["name"] if given["schema"] is None else _core.avro_name(_text(given["schema"]), [])
            found = await self._latest(do, self._subject(topic, key, named))
            if found.has_rules and not given["ignore_rules"]:
                text = f"the schema of subject {found.subject} has rules, which are not run here"
                raise ConfigurationError(f"{text}: ignore_rules=True writes values as they are")
            return found.schema, list(found.needed), found.id if framed else None
        text = self._derived(like, topic, key) if given["schema"] is None else _text(given["schema"])
        # What does not fit is not registered.
        _core.ValueEncoder.avro(text, [], like, "none", None)
        if not framed:
            return text, [], None
        subject = self._subject(topic, key, _core.avro_name(text, []))
        if (subject, text) not in self._ids:
            core = self._registry._open
            ask = core.register if given["auto_register"] else core.lookup
            self._ids[subject, text] = await do(ask(subject, _new(text, "AVRO", ()), False))
        return text, [], self._ids[subject, text]

    def _derived(self, like: pa.RecordBatch, topic: str | None, key: bool) -> str:
        part = "key" if key else "value"
        name = self._arguments["name"] or (part.title() if topic is None else f"{legal(topic)}_{part}")
        return _core.avro_schema(like, name)

    async def _learn(self, do: Do, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Has the registry say what values of a batch were written with."""
        if self._registry is not None:
            call = decoder.learn(self._registry._open, batch, key, self._arguments["ignore_rules"])
            if call is not None:
                await do(call)

    @property
    def _in_headers(self) -> bool:
        """Whether headers of records may name the schema."""
        return self._given[2] == "auto"

    def __reduce__(self) -> tuple[Any, ...]:
        return _avro, (self._arguments,)

    def __repr__(self) -> str:
        given = (f"{name}={one!r}" for name, one in self._arguments.items() if one != _LEFT_OUT.get(name))
        return f"Avro({', '.join(given)})"


_LEFT_OUT = {
    "version": "latest",
    "writers": (),
    "framing": "auto",
    "enums": "string",
    "ignore_rules": False,
    "auto_register": True,
    "use_latest": False,
    "subject_strategy": "topic",
}


def _avro(arguments: dict[str, Any]) -> Avro:
    return Avro(**arguments)


def _id(key: int | str | UUID) -> int | bytes:
    if isinstance(key, int):
        return key
    return (key if isinstance(key, UUID) else UUID(key)).bytes


def _text(schema: Schema) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
