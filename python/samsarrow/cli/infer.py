"""`samsarrow schema infer`: what the values of a topic are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

import samsarrow
from samsarrow import _core
from samsarrow.cli.consume.range import partitions_of
from samsarrow.cli.consume.reading import Progress, by_hand
from samsarrow.exceptions import BadValueError
from samsarrow.values.subjects import record_name

if TYPE_CHECKING:
    from samsarrow.cli.connection import Connection

_JSON = "arrow.json"


def inferred(connection: Connection, topic: str, limit: int) -> pa.Schema:
    """Columns for the first values of a topic, which are JSON.

    Raises:
        click.UsageError: there is no such topic.
        BadValueError: a value is no JSON; the text names its offset.
        ConfigurationError: there are no values, or they are no objects.
    """
    partitions = partitions_of(connection, [topic], frozenset())
    consumer = connection.consumer()
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    batches: list[pa.RecordBatch] = []
    for batch in by_hand(consumer, starts, ends, Progress()):
        some = batch.select(["partition", "offset", "value"])
        some = some.filter(pc.is_valid(some.column("value"))).slice(0, limit)
        batches.append(some)
        limit -= some.num_rows
        if not limit:
            break
    rows = pa.Table.from_batches(batches) if batches else pa.table({"value": pa.array([], pa.binary())})
    try:
        return samsarrow.infer_schema(rows.column("value"))
    except BadValueError as error:
        [row] = rows.slice(error.row or 0, 1).to_pylist()
        raise BadValueError(f"{topic}-{row['partition']}, offset {row['offset']}: {error.reason}") from None


def decoded(connection: Connection, topic: str, form: str) -> pa.Schema:
    """Columns that values of a topic are decoded to, by the latest schema in the registry.

    Raises:
        click.UsageError: values are no records.
    """
    of = getattr(samsarrow, form)(connection.registry)
    kind = samsarrow.decode_values(pa.array([], pa.binary()), of, topic=topic).type
    if not pa.types.is_struct(kind):
        raise click.UsageError(f"values of {topic} are no records: they are {kind}")
    return pa.schema(list(kind))


def text_of(schema: pa.Schema, form: str, topic: str) -> str:
    """A schema as text.

    Args:
        schema: of rows.
        form: `arrow`, a line for each column; or `avro` or `json-schema`, which a registry takes.
        topic: after which a record is called.

    Raises:
        click.UsageError: a column has no type there.
    """
    if form == "arrow":
        return "\n".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)
    if form == "avro":
        like = pa.record_batch({"value": pa.nulls(0, pa.struct(list(schema)))})
        return _core.avro_schema(like, f"{record_name(topic)}_value")
    root = {"$schema": "http://json-schema.org/draft-07/schema#", **_json_schema(pa.field("", pa.struct(list(schema))))}
    return json.dumps(root | {"type": "object"}, ensure_ascii=False)


def _json_schema(field: pa.Field) -> dict[str, Any]:
    kind = field.type
    metadata = field.metadata or {}
    if _JSON in (getattr(kind, "extension_name", None), metadata.get(b"ARROW:extension:name", b"").decode()):
        return {}
    of = _described(field)
    return of if not field.nullable or of["type"] == "null" else of | {"type": [of["type"], "null"]}


def _described(field: pa.Field) -> dict[str, Any]:
    kind, types = field.type, pa.types
    if types.is_struct(kind):
        required = [one.name for one in kind if not one.nullable]
        of: dict[str, Any] = {"type": "object", "properties": {one.name: _json_schema(one) for one in kind}}
        return of | {"required": required} if required else of
    if types.is_list(kind):
        return {"type": "array", "items": _json_schema(kind.value_field)}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "object", "additionalProperties": _json_schema(kind.item_field)}
    for matches, given in (
        (types.is_boolean, {"type": "boolean"}),
        (types.is_integer, {"type": "integer"}),
        (types.is_floating, {"type": "number"}),
        (types.is_string, {"type": "string"}),
        (types.is_null, {"type": "null"}),
        (types.is_binary, {"type": "string", "contentEncoding": "base64"}),
        (types.is_date, {"type": "string", "format": "date"}),
        (types.is_time, {"type": "string", "format": "time"}),
        (types.is_timestamp, {"type": "string", "format": "date-time"}),
    ):
        if matches(kind):
            return given
    raise click.UsageError(f"field {field.name} is {kind}, for which there is no JSON Schema: --as arrow shows it")
