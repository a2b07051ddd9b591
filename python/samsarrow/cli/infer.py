"""`samsarrow schema infer`: inference of a schema from the values of a topic."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

import samsarrow
from samsarrow import _core
from samsarrow.cli.consume.range import partitions_of
from samsarrow.cli.consume.reading import Progress, read_partitions
from samsarrow.exceptions import BadValueError
from samsarrow.values.subjects import record_name

if TYPE_CHECKING:
    from samsarrow.cli.connection import Connection

_JSON = "arrow.json"


def inferred(connection: Connection, topic: str, limit: int) -> pa.Schema:
    """Infers columns from the first `limit` values of a topic, which must be JSON.

    Raises:
        click.UsageError: the topic does not exist.
        BadValueError: a value is not JSON. The text of the error has its partition and offset.
        ConfigurationError: the topic has no values, or a value is not a JSON object.
    """
    partitions = partitions_of(connection, [topic], frozenset())
    consumer = connection.consumer()
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    batches: list[pa.RecordBatch] = []
    for batch in read_partitions(consumer, starts, ends, Progress()):
        sample = batch.select(["partition", "offset", "value"])
        sample = sample.filter(pc.is_valid(sample.column("value"))).slice(0, limit)
        batches.append(sample)
        limit -= sample.num_rows
        if not limit:
            break
    rows = pa.Table.from_batches(batches) if batches else pa.table({"value": pa.array([], pa.binary())})
    try:
        return samsarrow.infer_schema(rows.column("value"))
    except BadValueError as error:
        [row] = rows.slice(error.row or 0, 1).to_pylist()
        raise BadValueError(f"{topic}-{row['partition']}, offset {row['offset']}: {error.reason}") from None


def decoded(connection: Connection, topic: str, form: str) -> pa.Schema:
    """Returns the columns to which values of a topic are decoded with the latest schema in the registry.

    Raises:
        click.UsageError: the schema's type is not a record.
    """
    value_format = getattr(samsarrow, form)(connection.registry)
    kind = samsarrow.decode_values(pa.array([], pa.binary()), value_format, topic=topic).type
    if not pa.types.is_struct(kind):
        raise click.UsageError(f"values of {topic} are no records: they are {kind}")
    return pa.schema(list(kind))


def text_of(schema: pa.Schema, form: str, topic: str) -> str:
    """Returns a schema as text in one of several formats.

    Args:
        schema: schema of the rows.
        form: `arrow` for one line per column, or `avro` or `json-schema` for a schema that can be registered.
        topic: topic from which the name of the Avro record is derived.

    Raises:
        click.UsageError: the format does not support the type of a column.
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
    described = _type_schema(field)
    if not field.nullable or described["type"] == "null":
        return described
    return described | {"type": [described["type"], "null"]}


def _type_schema(field: pa.Field) -> dict[str, Any]:
    kind, types = field.type, pa.types
    if types.is_struct(kind):
        required = [member.name for member in kind if not member.nullable]
        members = {member.name: _json_schema(member) for member in kind}
        described: dict[str, Any] = {"type": "object", "properties": members}
        return described | {"required": required} if required else described
    if types.is_list(kind):
        return {"type": "array", "items": _json_schema(kind.value_field)}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "object", "additionalProperties": _json_schema(kind.item_field)}
    for matches, scalar in (
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
            return scalar
    raise click.UsageError(f"field {field.name} is {kind}, for which there is no JSON Schema: -o arrow shows it")
