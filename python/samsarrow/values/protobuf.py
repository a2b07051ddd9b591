"""Format of Protobuf values: their schemas and framing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, final

import pyarrow as pa

from samsarrow import _core
from samsarrow._sync import RunCall
from samsarrow.exceptions import ConfigurationError
from samsarrow.values.headers import InHeaders
from samsarrow.values.registry_schemas import Registry, RegistryFormat, split_source

__all__ = ["Protobuf"]


@final
class Protobuf(RegistryFormat):
    """Format of Protobuf values, which are decoded to rows of one message type without generated classes.

    A message becomes a struct; docs/values.md has the table of types. If a value was written with another version of
    the message, its fields are matched by number.
    """

    __slots__ = ("_decoder_args", "_encoders", "_imports")

    _kind = "PROTOBUF"
    _defaults: ClassVar[dict[str, Any]] = {
        "version": "latest",
        "framing": "auto",
        "enums": "string",
        "recursion": 0,
        "ignore_rules": False,
        "auto_register": True,
        "use_latest": False,
    }

    def __init__(
        self,
        source: str | bytes | Registry | None = None,
        /,
        *,
        schema: str | bytes | None = None,
        registry: Registry | None = None,
        message: str | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
        imports: Mapping[str, str] | None = None,
        fields: Sequence[str] | None = None,
        framing: Literal["auto", "header", "confluent", "apicurio8", "glue", "none"] = "auto",
        enums: Literal["string", "dictionary"] = "string",
        recursion: int = 0,
        ignore_rules: bool = False,
        auto_register: bool = True,
        use_latest: bool = False,
    ) -> None:
        """Parses the schema that is passed.

        Args:
            source: `schema` or `registry`.
            schema: the text of a `.proto` file, or a serialized FileDescriptorSet, as from
                `protoc -o FILE --include_imports`. Optional with a registry.
            registry: registry from which writers' schemas are fetched, and at first use also `schema` if it is not
                passed. Without a registry, all ids stand for `schema`.
            message: name of the message type to decode, with the package if the name is ambiguous. By default the first
                message type in the file.
            subject: subject of `schema`; by default `TOPIC-value`, or `TOPIC-key`.
            version: version of `subject`.
            imports: texts of files that schemas import and that the registry does not have, by name. Files of
                `google/protobuf` and `google/type` are built in.
            fields: decode only these fields, as `["id", "user.city"]`, in the schema's order; the rest of each value is
                skipped. A path passes through lists to their items, and through maps to their values.
            framing: place where values identify their writer's schema and message type. `auto`: the record's header
                `__value_schema_id` (or `__key_schema_id`), or Confluent's prefix, which is byte 0, an id of 4 bytes,
                and the indexes of the message type; the prefix is written. `header` requires the header, `confluent`
                the prefix. `apicurio8`: byte 0, an id of 8 bytes, and the name of the message type as Apicurio's
                serializers write it. `glue`: byte 3, the compression (0 none, 5 zlib), the UUID of a schema version,
                and the index of the message type, as the serializers of AWS Glue write them; with a
                `GlueSchemaRegistry`, `auto` is `glue`. `none`: no frame.
            enums: `dictionary` is `dictionary<int32, string>`.
            recursion: number of times that a message type that contains itself is followed. Deeper values are invalid.
                With 0, reading such a message type is rejected.
            ignore_rules: whether to read values whose schema has rules (data contracts), which samsarrow does not
                execute.
            auto_register: whether to register `schema` when values are encoded. Otherwise it must already be
                registered.
            use_latest: whether to encode with the `version` of the subject even if `schema` is passed. Without
                `schema`, this version is always used.

        Raises:
            ConfigurationError: the schema cannot be read, or has no Arrow type; the message names the line or field.
        """
        schema, registry = split_source(source, schema, registry)
        if schema is None and registry is None:
            raise ConfigurationError("the schema of the rows is unknown: pass schema or registry")
        if schema is not None and not isinstance(schema, str | bytes):
            raise TypeError(f"schema is the text of a .proto file or a FileDescriptorSet, not {type(schema).__name__}")
        if isinstance(fields, str):
            raise TypeError(f"fields must be a list of names: [{fields!r}]")
        self._keep(
            {
                "schema": schema,
                "registry": registry,
                "message": message,
                "subject": subject,
                "version": version,
                "imports": imports,
                "fields": fields,
                "framing": framing,
                "enums": enums,
                "recursion": recursion,
                "ignore_rules": ignore_rules,
                "auto_register": auto_register,
                "use_latest": use_latest,
            }
        )
        by_id, framing = registry is not None, self._arguments["framing"]
        self._decoder_args = (message, by_id, None if fields is None else list(fields), framing, enums, recursion)
        self._imports = list((imports or {}).values())
        # Encoders by column type and subject.
        self._encoders: dict[tuple[pa.DataType, str | None], _core.ValueEncoder | InHeaders] = {}
        if schema is not None:
            self._decoders[None] = _core.ValueDecoder.protobuf(schema, self._imports, *self._decoder_args)

    async def _decoder(self, run: RunCall, topic: str | None, key: bool) -> _core.ValueDecoder:
        """Returns the decoder of the row schema, which is fetched from the registry unless it was passed."""
        decoder = self._decoders.get(None)
        if decoder is not None or self._registry is None:
            return self._decoders[None]
        subject = self._subject(topic, key)
        if subject not in self._decoders:
            latest = await self._latest(run, subject)
            references = [*latest.needed, *self._imports]
            self._decoders[subject] = _core.ValueDecoder.protobuf(latest.schema, references, *self._decoder_args)
        return self._decoders[subject]

    def _subject(self, topic: str | None, key: bool) -> str:
        """Returns the subject of the schema in the registry."""
        return self._subject_of("topic", topic, key, None)

    async def _encoder(
        self, run: RunCall, like: pa.RecordBatch, topic: str | None, key: bool
    ) -> _core.ValueEncoder | InHeaders:
        """Returns the encoder of columns of this type. Registers the schema if `auto_register` is set."""
        framed = self._arguments["framing"] != "none"
        subject = self._subject(topic, key) if self._registry is not None and framed else None
        cache_key = (like.schema.field(0).type, subject)
        if cache_key not in self._encoders:
            text, references, schema_id = await self._write_schema(run, like, topic, key, framed)
            message, framing = self._arguments["message"], self._arguments["framing"]
            encoder = _core.ValueEncoder.protobuf(text, references, message, like, framing, schema_id)
            header = await self._header(run, schema_id) + encoder.indexes if self._writes_headers else None
            self._encoders[cache_key] = encoder if header is None else InHeaders(encoder, header)
        return self._encoders[cache_key]

    async def _write_schema(
        self, run: RunCall, like: pa.RecordBatch, topic: str | None, key: bool, framed: bool
    ) -> tuple[str | bytes, list[str], int | bytes | None]:
        """Returns the schema to write with, the schemas it refers to, and its id if frames contain one."""
        arguments, schema = self._arguments, self._arguments["schema"]
        if self._registry is not None and (schema is None or arguments["use_latest"]):
            latest = await self._latest(run, self._subject(topic, key))
            self._check_rules(latest, latest.subject, "writes")
            return latest.schema, [*latest.needed, *self._imports], self._frame_id(latest)
        if not framed:
            return schema, self._imports, None
        if self._registry is None:
            framing = arguments["framing"]
            raise ConfigurationError(
                f"framing {framing!r} needs the id of the written schema, which is unknown: pass a registry"
            )
        if isinstance(schema, bytes) or self._imports:
            raise ConfigurationError(
                "descriptors, and a schema with imports, are not registered here: register it with its references, and"
                " give use_latest=True"
            )
        # Creates an encoder first, which raises an error if the columns do not fit, so that the schema is not
        # registered.
        _core.ValueEncoder.protobuf(schema, [], arguments["message"], like, "none", None)
        return schema, [], await self._id_of(run, self._subject(topic, key), schema)
