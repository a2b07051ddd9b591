"""Format of JSON values, and inference of their schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, final

import pyarrow as pa

from samsarrow import _core
from samsarrow._sync import RunCall
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.registry import RegisteredSchema
from samsarrow.values.headers import InHeaders
from samsarrow.values.json_text import JsonTextEncoder
from samsarrow.values.registry_schemas import Registry, RegistryFormat, split_source

__all__ = ["Json", "infer_schema"]

# Keywords of JSON Schema. A schema has at least one of them.
_KEYWORDS = {"type", "properties", "items", "enum", "const", "oneOf", "anyOf", "allOf", "not", "if", "required"}
_KEYWORDS |= {"title", "description", "format", "definitions", "additionalProperties", "patternProperties"}
Schema: TypeAlias = pa.Schema | pa.DataType | str | Mapping[str, Any]
"""Columns or type of the rows; or a JSON Schema, as text or parsed."""


@final
class Json(RegistryFormat):
    """Format of JSON values, which are decoded to rows of one type; docs/values.md has the table of types.

    Members are matched with fields by name in any order. Members without a field are skipped. If a member is missing,
    its field is null, or the value is invalid if the field is not nullable.
    """

    __slots__ = ()

    _kind = "JSON"
    _defaults: ClassVar[dict[str, Any]] = {
        "version": "latest",
        "framing": "auto",
        "ignore_rules": False,
        "auto_register": True,
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
        fields: Sequence[str] | None = None,
        framing: Literal["auto", "header", "confluent", "apicurio8", "glue", "none"] = "auto",
        ignore_rules: bool = False,
        auto_register: bool = True,
    ) -> None:
        """Parses the schema that is passed.

        Args:
            source: `schema` or `registry`.
            schema: schema of the rows: a `pyarrow.Schema` or type, or a JSON Schema. `infer_schema` infers a schema
            from values.
            registry: registry from which the schema is fetched at first use, if `schema` is not passed.
            subject: subject of `schema`; by default `TOPIC-value`, or `TOPIC-key`.
            version: version of `subject`.
            fields: decode only these fields, as `["id", "user.city"]`, in the schema's order; the rest of each value is
                skipped. A path passes through lists and maps to their items.
            framing: the frame before a value, which is skipped, because decoding JSON does not need the writer's
                schema. `auto` is Confluent's prefix (byte 0 and an id of 4 bytes) or no frame, `confluent` requires the
                prefix, `apicurio8` has an id of 8 bytes, `glue` byte 3, the compression (0 none, 5 zlib) and the UUID
                of a schema version, and with `none` values have no frame. With a `GlueSchemaRegistry`, `auto` is
                `glue`. With `header` they have no frame either; a header that identifies the schema is written.
            ignore_rules: whether to read values whose `schema` has rules (data contracts), which samsarrow does not
                execute.
            auto_register: whether to register the JSON Schema to write with, once. Otherwise it must already be
                registered.

        Raises:
            ConfigurationError: the schema cannot be read, or has a type without a JSON form; the message names the
                field.
        """
        schema, registry = split_source(source, schema, registry)
        if schema is None and registry is None:
            raise ConfigurationError(
                "the schema of the rows is unknown: pass schema or registry (infer_schema finds a schema)"
            )
        if isinstance(fields, str):
            raise TypeError(f"fields must be a list of names: [{fields!r}]")
        self._keep(
            {
                "schema": schema,
                "registry": registry,
                "subject": subject,
                "version": version,
                "fields": fields,
                "framing": framing,
                "ignore_rules": ignore_rules,
                "auto_register": auto_register,
            }
        )
        if schema is not None:
            self._decoders[None] = self._make_decoder(_columns(schema), None)

    def _make_decoder(self, schema: Any, registered: RegisteredSchema | None) -> _core.ValueDecoder:
        fields = self._arguments["fields"]
        references, links = ((), ()) if registered is None else (registered.needed, registered.links)
        return _core.ValueDecoder.json(
            schema, references, links, None if fields is None else list(fields), self._arguments["framing"]
        )

    async def _decoder(self, run: RunCall, topic: str | None, key: bool) -> _core.ValueDecoder:
        """Returns the decoder of the row schema, which is fetched from the registry unless it was passed."""
        decoder = self._decoders.get(None)
        if decoder is not None or self._registry is None:
            return self._decoders[None]
        subject = self._subject(topic, key)
        if subject not in self._decoders:
            registered = await self._registered(run, subject)
            self._decoders[subject] = self._make_decoder(registered.schema, registered)
        return self._decoders[subject]

    def _subject(self, topic: str | None, key: bool) -> str:
        return self._subject_of("topic", topic, key, None)

    async def _registered(self, run: RunCall, subject: str) -> RegisteredSchema:
        """Returns the schema of a subject in the registry."""
        latest = await self._latest(run, subject)
        self._check_rules(latest, subject, "takes")
        return latest

    async def _encoder(
        self, run: RunCall, like: pa.RecordBatch, topic: str | None, key: bool
    ) -> JsonTextEncoder | InHeaders:
        """Returns the encoder of columns of this type. Registers the schema if `auto_register` is set."""
        schema, framing = self._arguments["schema"], self._arguments["framing"]
        if self._registry is None:
            if framing in ("header", "confluent", "apicurio8", "glue"):
                text = f"framing {framing!r} needs the id of the written schema, which is unknown"
                raise ConfigurationError(f"{text}: give a registry")
            return JsonTextEncoder(like, b"", _core.ValueDecoder.json(_columns(schema), (), (), None, framing))
        subject = self._subject(topic, key)
        if schema is None:
            latest = await self._registered(run, subject)
            schema_id = self._frame_id(latest)
            reader = _core.ValueDecoder.json(latest.schema, latest.needed, latest.links, None, framing)
        else:
            text = _columns(schema)
            if not isinstance(text, str):
                raise ConfigurationError("a registry takes a JSON Schema, and schema is Arrow's: give its text")
            reader = _core.ValueDecoder.json(text, (), (), None, framing)
            # Creates an encoder first, which raises an error if the columns do not fit, so that the schema is not
            # registered.
            JsonTextEncoder(like, b"", reader)
            schema_id = await self._id_of(run, subject, text)
        if framing == "none":
            return JsonTextEncoder(like, b"", reader)
        if schema_id is None:
            raise ConfigurationError(f"the registry returned no id for the schema of subject {subject}")
        if framing == "header":
            return InHeaders(JsonTextEncoder(like, b"", reader), await self._header(run, schema_id))
        if isinstance(schema_id, bytes):
            return JsonTextEncoder(like, b"\3\0" + schema_id, reader)
        return JsonTextEncoder(like, b"\0" + schema_id.to_bytes(8 if framing == "apicurio8" else 4), reader)

    async def _learn(self, run: RunCall, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Does nothing, because JSON values are decoded without their writer's schema."""

    # Headers that identify a schema are also ignored.
    _in_headers = False


def _columns(schema: Schema) -> Any:
    """Returns the text of a JSON Schema, or an empty reader with a column of the Arrow type."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        # A schema without keywords allows every value, and a mapping of names to types has none.
        if schema and _KEYWORDS.isdisjoint(schema) and not any(str(name).startswith("$") for name in schema):
            raise ConfigurationError(
                "schema has no keyword of JSON Schema, such as 'type' or 'properties': to name columns and types, pass "
                'pyarrow.schema({"id": pyarrow.int64()})'
            )
        return json.dumps(schema)
    kind = pa.struct(list(schema)) if isinstance(schema, pa.Schema) else schema
    if not isinstance(kind, pa.DataType):
        raise TypeError(f"schema must be a pyarrow.Schema, a type or a JSON Schema, not {type(schema).__name__}")
    return pa.RecordBatchReader.from_batches(pa.schema([pa.field("value", kind)]), [])


def infer_schema(values: pa.Array | pa.ChunkedArray) -> pa.Schema:
    """Infers a schema that fits all values of a column, which must be JSON objects.

    Whole numbers become `int64`, larger ones `uint64`, and numbers outside both ranges `double`. Other numbers become
    `double`, strings `string`. Members with several kinds of values, with only nulls, or with objects of more than 1000
    names become JSON text, with the extension type arrow.json. All columns are nullable.

    Args:
        values: column of type `binary` or `string`, such as the column `value` of a batch, with or without Confluent's
            prefix. Nulls are skipped.

    Returns:
        A schema to pass to `Json(schema)`.

    Raises:
        BadValueError: a value is not JSON.
        ConfigurationError: a value is not an object, or no value has a member.
        TypeError: the array is of another type.
    """
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        raise TypeError(f"expected an Arrow array of binary or string, got {type(values).__name__}")
    inferred, bad = _core.infer_json(pa.table({"value": values}))
    if inferred is None:
        row, reason = bad or (0, "")
        error = BadValueError(f"row {row}: {reason}")
        error.row, error.field, error.reason = row, "", reason
        raise error
    return inferred.schema
