"""JSON values: what rows look like, and finding that out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, final

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.registry import SchemaRegistry

__all__ = ["Json", "infer_schema"]

Schema: TypeAlias = pa.Schema | pa.DataType | str | Mapping[str, Any]
"""The columns or the type of rows; or a JSON Schema, as its text or as what that parses to."""


@final
class Json:
    """JSON values, as rows of one type; docs/values.md has the table of types.

    Members are found by name in any order, and those without a field are stepped over. What is missing is null, or bad
    where the field is not nullable.
    """

    __slots__ = ("_arguments", "_decoders", "_registry")

    def __init__(
        self,
        source: Schema | SchemaRegistry | None = None,
        /,
        *,
        schema: Schema | None = None,
        registry: SchemaRegistry | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
        fields: Sequence[str] | None = None,
        framing: Literal["auto", "confluent", "apicurio8", "none"] = "auto",
        ignore_rules: bool = False,
    ) -> None:
        """Reads the schema that is given.

        Args:
            source: `schema` or `registry`.
            schema: what rows look like: a `pyarrow.Schema` or type, or a JSON Schema. `infer_schema` finds one.
            registry: is asked for `schema`, once, at the first use.
            subject: where `schema` is registered; by default `TOPIC-value`, or `TOPIC-key`.
            version: of `subject`.
            fields: only these, as `["id", "user.city"]`; the rest of each value is stepped over. They come in the
                schema's order. A path goes through lists and maps to what is in them.
            framing: what is before a value, and is stepped over: values say themselves what their members are called.
                `auto` is Confluent's prefix, byte 0 and an id of 4 bytes, or nothing; `confluent` insists on it,
                `apicurio8` has ids of 8 bytes, `none` nothing.
            ignore_rules: takes values as they are where `schema` has rules (data contracts), which are never run here.

        Raises:
            ConfigurationError: the schema cannot be read, or has no type that JSON is read as; the text names the
                field.
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
            raise ConfigurationError(
                "neither schema nor registry says what rows look like: infer_schema finds a schema"
            )
        if isinstance(fields, str):
            raise TypeError(f"fields must be a list of names: [{fields!r}]")
        self._arguments = (schema, registry, subject, version, fields, framing, ignore_rules)
        self._registry = registry
        # By subject; None has the one of the schema that was given.
        self._decoders: dict[str | None, _core.ValueDecoder] = {}
        if schema is not None:
            self._decoders[None] = self._made(_columns(schema), [])

    def _made(self, schema: Any, needed: list[str]) -> _core.ValueDecoder:
        *_, fields, framing, _ = self._arguments
        return _core.ValueDecoder.json(schema, needed, None if fields is None else list(fields), framing)

    def _decoder(self, topic: str | None, key: bool) -> _core.ValueDecoder:
        """That of the schema, which a registry may have to be asked for."""
        given = self._decoders.get(None)
        if given is not None or self._registry is None:
            return self._decoders[None]
        _, _, subject, version, _, _, ignore_rules = self._arguments
        if subject is None:
            if topic is None:
                raise ConfigurationError("neither schema nor subject nor topic says what rows look like: give one")
            subject = f"{topic}-{'key' if key else 'value'}"
        if subject not in self._decoders:
            found = self._registry.schema(subject=subject, version=version)
            if found.schema_type != "JSON":
                raise ConfigurationError(f"the schema of subject {subject} is of type {found.schema_type}, not JSON")
            if found.has_rules and not ignore_rules:
                text = f"the schema of subject {subject} has rules, which are not run here"
                raise ConfigurationError(f"{text}: ignore_rules=True takes values as they are")
            self._decoders[subject] = self._made(found.schema, list(found.needed))
        return self._decoders[subject]

    def _learn(self, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Nothing: what values were written with makes no difference to how they are read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _json, self._arguments

    def __repr__(self) -> str:
        names = ("schema", "registry", "subject", "version", "fields", "framing", "ignore_rules")
        left_out = (None, None, None, "latest", None, "auto", False)
        given = zip(names, self._arguments, left_out, strict=True)
        return f"Json({', '.join(f'{name}={one!r}' for name, one, default in given if one != default)})"


def _json(schema: Any, registry: Any, subject: Any, version: Any, fields: Any, framing: Any, rules: Any) -> Json:
    return Json(
        schema=schema,
        registry=registry,
        subject=subject,
        version=version,
        fields=fields,
        framing=framing,
        ignore_rules=rules,
    )


def _columns(schema: Schema) -> Any:
    """A JSON Schema's text, or Arrow data with one column of the type."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        return json.dumps(schema)
    kind = pa.struct(list(schema)) if isinstance(schema, pa.Schema) else schema
    if not isinstance(kind, pa.DataType):
        raise TypeError(f"schema must be a pyarrow.Schema, a type or a JSON Schema, not {type(schema).__name__}")
    return pa.RecordBatchReader.from_batches(pa.schema([pa.field("value", kind)]), [])


def infer_schema(values: pa.Array | pa.ChunkedArray) -> pa.Schema:
    """Finds columns that take all of these values, which are objects in JSON.

    Whole numbers become `int64` (`uint64` beyond it, `double` beyond both), others `double`, strings `string`. Where
    values of several kinds stand in one place, or only null, or objects of more than 1000 names, the column has their
    texts: it is of Arrow's extension type for JSON. All columns are nullable.

    Args:
        values: `binary` or `string`, as the column `value` of a batch; with Confluent's prefix or without. Null is
            stepped over.

    Returns:
        A schema for `Json(schema)`.

    Raises:
        BadValueError: a value is no JSON.
        ConfigurationError: not all values are objects, or none has a field.
        TypeError: the array is of another type.
    """
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        raise TypeError(f"expected an Arrow array of binary or string, got {type(values).__name__}")
    found, bad = _core.infer_json(pa.table({"value": values}))
    if found is None:
        row, reason = bad or (0, "")
        error = BadValueError(f"row {row}: {reason}")
        error.row, error.field, error.reason = row, "", reason
        raise error
    return found.schema
