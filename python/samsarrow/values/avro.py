"""Format of Avro values: their schemas, framing and writers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, final
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._arguments import to_uuid
from samsarrow._sync import RunCall
from samsarrow.exceptions import ConfigurationError
from samsarrow.values.headers import InHeaders
from samsarrow.values.registry_schemas import Registry, RegistryFormat, split_source
from samsarrow.values.subjects import SubjectStrategy, record_name

__all__ = ["Avro"]

Schema: TypeAlias = str | Mapping[str, Any] | Sequence[Any]
"""An Avro schema: its JSON text, or the parsed text."""


@final
class Avro(RegistryFormat):
    """Format of Avro values, which are decoded to rows of one schema even if they were written with different schemas.

    A record becomes a struct, any other type a single column; docs/values.md has the table of types. Writers' schemas
    are resolved to the schema of the rows as in the Avro specification 1.12: fields are matched by name or alias in any
    order, and have defaults and promotions.
    """

    __slots__ = ("_decoder_args", "_encoders")

    _kind = "AVRO"
    _defaults: ClassVar[dict[str, Any]] = {
        "version": "latest",
        "writers": (),
        "framing": "auto",
        "enums": "string",
        "recursion": 0,
        "ignore_rules": False,
        "auto_register": True,
        "use_latest": False,
        "subject_strategy": "topic",
    }

    def __init__(
        self,
        source: Schema | Registry | None = None,
        /,
        *,
        schema: Schema | None = None,
        registry: Registry | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
        writers: Mapping[int | str | UUID, Schema] | Sequence[Schema] = (),
        fields: Sequence[str] | None = None,
        framing: Literal["auto", "header", "confluent", "apicurio8", "single-object", "glue", "none"] = "auto",
        enums: Literal["string", "dictionary"] = "string",
        recursion: int = 0,
        ignore_rules: bool = False,
        name: str | None = None,
        auto_register: bool = True,
        use_latest: bool = False,
        subject_strategy: SubjectStrategy = "topic",
    ) -> None:
        """Parses the schemas that are passed.

        Args:
            source: `schema` or `registry`.
            schema: schema of the rows. It is also the writer's schema of values without frames, and the schema to write
                with. Optional with a registry or a single writer; the schema to write with is then derived from the
                columns' types.
            registry: registry from which writers' schemas that are not in `writers` are fetched, and at first use also
                `schema` if it is not passed.
            subject: subject of `schema`; by default according to `subject_strategy`.
            version: version of `subject`.
            writers: writers' schemas by the id or GUID in frames or headers, or a sequence of schemas that values
                identify by fingerprint.
            fields: decode only these fields, as `["id", "user.city"]`, in the schema's order; the rest of each value is
                skipped. A path passes through lists and maps to their items.
            framing: place where values identify their writer's schema. `auto`: the record's header `__value_schema_id`
                (or `__key_schema_id`), Apicurio's header `apicurio.value.contentId` (or `apicurio.key.contentId`), or
                Confluent's prefix, which is byte 0 and an id of 4 bytes; the prefix is written. `header` requires one
                of the headers, `confluent` the prefix. `apicurio8`: an id of 8 bytes. `single-object`: C3 01 and a
                fingerprint. `glue`: byte 3, the compression (0 none, 5 zlib) and the UUID of a schema version, as the
                serializers of AWS Glue write them; with a `GlueSchemaRegistry`, `auto` is `glue`. `none`: no frame.
            enums: `dictionary` is `dictionary<int32, string>`.
            recursion: number of times that a type that contains itself is followed. Deeper values are invalid. With 0,
                reading such a type is rejected.
            ignore_rules: whether to read values whose schema has rules (data contracts), which samsarrow does not
                execute.
            name: name of the written record with its namespace, such as `shop.Order`, if no schema is passed; by
                default `TOPIC_value`, or `TOPIC_key`.
            auto_register: whether to register the schema to write with, once. Otherwise it must already be registered.
            use_latest: whether to write with the `version` of the subject. No schema is registered then.
            subject_strategy: with `topic`, subjects are `TOPIC-value` and `TOPIC-key`; with `record`, the full name of
                the record; with `topic-record`, topic and record, such as `TOPIC-shop.Order`. A callable is passed the
                topic, whether it is for keys, and the name of the record, and returns the subject.

        Raises:
            ConfigurationError: a schema cannot be read, or has no Arrow type; the message names the field.
        """
        schema, registry = split_source(source, schema, registry)
        known_writers: list[tuple[int | bytes | None, str]]
        if isinstance(writers, Mapping):
            known_writers = [(_id(key), _text(text)) for key, text in writers.items()]
        else:
            known_writers = [(None, _text(text)) for text in writers]
        if schema is None and registry is None:
            if not known_writers:
                raise ConfigurationError("Avro has no schema: pass schema, or the registry that has the schemas")
            if len(known_writers) != 1:
                raise ConfigurationError(
                    f"Avro with {len(known_writers)} writers has no schema for the rows: pass schema, or a registry"
                )
            schema = known_writers[0][1]
        if isinstance(fields, str):
            raise TypeError(f"fields must be a list of names: [{fields!r}]")
        if not callable(subject_strategy) and subject_strategy not in ("topic", "record", "topic-record"):
            text = f"subject_strategy must be topic, record, topic-record or a callable, not {subject_strategy!r}"
            raise ConfigurationError(text)
        self._keep(
            {
                "schema": schema,
                "registry": registry,
                "subject": subject,
                "version": version,
                "writers": writers,
                "fields": fields,
                "framing": framing,
                "enums": enums,
                "recursion": recursion,
                "ignore_rules": ignore_rules,
                "name": name,
                "auto_register": auto_register,
                "use_latest": use_latest,
                "subject_strategy": subject_strategy,
            }
        )
        framing = self._arguments["framing"]
        self._decoder_args = (known_writers, None if fields is None else list(fields), framing, enums, recursion)
        # Encoders by column type, topic, and whether they encode keys.
        self._encoders: dict[tuple[pa.DataType, str | None, bool], _core.ValueEncoder | InHeaders] = {}
        if schema is not None:
            self._decoders[None] = _core.ValueDecoder.avro(_text(schema), [], *self._decoder_args)

    async def _decoder(self, run: RunCall, topic: str | None, key: bool) -> _core.ValueDecoder:
        """Returns the decoder of the row schema, which is fetched from the registry unless it was passed."""
        decoder = self._decoders.get(None)
        if decoder is not None or self._registry is None:
            return self._decoders[None]
        subject = self._subject(topic, key, self._arguments["name"])
        if subject not in self._decoders:
            latest = await self._latest(run, subject)
            self._decoders[subject] = _core.ValueDecoder.avro(latest.schema, list(latest.needed), *self._decoder_args)
        return self._decoders[subject]

    def _subject(self, topic: str | None, key: bool, record: str | None) -> str:
        """Returns the subject of the schema in the registry."""
        return self._subject_of(self._arguments["subject_strategy"], topic, key, record)

    async def _encoder(
        self, run: RunCall, like: pa.RecordBatch, topic: str | None, key: bool
    ) -> _core.ValueEncoder | InHeaders:
        """Returns the encoder of columns of this type. Registers the schema if `auto_register` is set."""
        cache_key = (like.schema.field(0).type, topic, key)
        if cache_key not in self._encoders:
            text, references, schema_id = await self._write_schema(run, like, topic, key)
            framing: str = self._arguments["framing"]
            encoder = _core.ValueEncoder.avro(text, references, like, framing, schema_id)
            in_headers = self._writes_headers
            self._encoders[cache_key] = (
                InHeaders(encoder, await self._header(run, schema_id)) if in_headers else encoder
            )
        return self._encoders[cache_key]

    async def _write_schema(
        self, run: RunCall, like: pa.RecordBatch, topic: str | None, key: bool
    ) -> tuple[str, list[str], int | bytes | None]:
        """Returns the schema to write with, the schemas it refers to, and its id or GUID if frames contain one."""
        arguments, known_writers = self._arguments, self._decoder_args[0]
        framed = arguments["framing"] in ("auto", "header", "confluent", "apicurio8", "glue")
        if self._registry is None:
            if not framed:
                return known_writers[0][1] if arguments["schema"] is None else _text(arguments["schema"]), [], None
            match known_writers:
                case [(int() as schema_id, text)]:
                    return text, [], schema_id
                case [(bytes() as guid, text)] if arguments["framing"] in ("header", "glue"):
                    return text, [], guid
            why = f"framing {arguments['framing']!r} needs the id of the written schema, which is unknown"
            raise ConfigurationError(f"{why}: pass a registry, or writers={{id: schema}} of one id")
        if arguments["use_latest"]:
            schema = arguments["schema"]
            record = arguments["name"] if schema is None else _core.avro_name(_text(schema), [])
            latest = await self._latest(run, self._subject(topic, key, record))
            self._check_rules(latest, latest.subject, "writes")
            return latest.schema, list(latest.needed), self._frame_id(latest) if framed else None
        text = self._derived(like, topic, key) if arguments["schema"] is None else _text(arguments["schema"])
        # Creates an encoder first, which raises an error if the columns do not fit, so that the schema is not
        # registered.
        _core.ValueEncoder.avro(text, [], like, "none", None)
        if not framed:
            return text, [], None
        subject = self._subject(topic, key, _core.avro_name(text, []))
        return text, [], await self._id_of(run, subject, text)

    def _derived(self, like: pa.RecordBatch, topic: str | None, key: bool) -> str:
        part = "key" if key else "value"
        name = self._arguments["name"] or (part.title() if topic is None else f"{record_name(topic)}_{part}")
        return _core.avro_schema(like, name)


def _id(key: int | str | UUID) -> int | bytes:
    if isinstance(key, int):
        return key
    return to_uuid(key, "a key of writers").bytes


def _text(schema: Schema) -> str:
    return schema if isinstance(schema, str) else json.dumps(schema)
