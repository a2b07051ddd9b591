"""Java's serializers in a JVM that is controlled by lines of JSON: Apache's own for Avro, and those of Apicurio.

    with JavaSerdes() as java:
        java.write(schema, values)["single"]

Schemas are passed as parsed JSON, values as bytes.
"""

from __future__ import annotations

import base64
import datetime
import json
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Literal, TypeAlias

from support.apicurio import Apicurio, serdes_classpath
from support.kafka import QUICK_COMPILER, SUPPORT

EPOCH = datetime.datetime(1970, 1, 1)
UNITS = {"millis": datetime.timedelta(milliseconds=1), "micros": datetime.timedelta(microseconds=1)}
NAMED = {"record", "enum", "fixed"}

Sent: TypeAlias = tuple[bytes, dict[str, bytes]]
"""A value with its headers."""


class JavaSerdes:
    """A JVM with Java's serializers, which is stopped at the end of the `with` block."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        command = ["java", "-XX:+UseSerialGC", *QUICK_COMPILER, "-Xmx256m", "-cp", serdes_classpath()]
        self._process = subprocess.Popen(
            # Disables the faster reader, so that schemas are resolved as the specification describes.
            [*command, "-Dorg.apache.avro.fastread=false", str(SUPPORT / "java" / "Serdes.java")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8",
        )  # fmt: skip

    def _request(self, op: str, values: Sequence[bytes], **task: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        texts = {name: json.dumps(task.pop(name)) for name in ("schema", "writer", "reader") if name in task}
        request = {"op": op, "values": [base64.b64encode(value).decode() for value in values], **texts, **task}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"Java ended:\n{self._log.read().decode(errors='replace')}")
        found: dict[str, Any] = json.loads(answer)
        return found

    def write(self, schema: Any, values: Sequence[bytes]) -> dict[str, list[bytes]]:
        """Encodes values with Java in three forms: `plain`, `blocked` (arrays and maps in blocks with sizes) and
        `single`.
        """
        answer = self._request("write", values, schema=schema)
        assert "error" not in answer, answer
        return {kind: [base64.b64decode(one) for one in written] for kind, written in answer.items()}

    def read(self, values: Sequence[bytes], writer: Any, reader: Any) -> list[dict[str, Any]] | str:
        """Decodes values with Java. Returns `{"ok": value}` or `{"error": text}` for each value, or only an error text
        if Java rejects the schemas.
        """
        answer = self._request("read", values, writer=writer, reader=reader)
        return answer["error"] if "error" in answer else answer["read"]

    def serialize(
        self, registry: Apicurio, topic: str, schema: Any, values: Sequence[bytes], **config: str
    ) -> tuple[list[Sent], list[Any]]:
        """Returns values serialized by Apicurio's Avro serializer, and deserialized again by its deserializer."""
        config["auto_register"] = "true"
        return self._sent("serialize", values, topic=topic, schema=schema, config=_dotted(registry, config))

    def json(
        self, registry: Apicurio, topic: str, values: Sequence[bytes], **config: str
    ) -> tuple[list[Sent], list[bytes]]:
        """Like `serialize`, but for JSON values, whose schema must be registered. The values are read as JSON texts."""
        sent, read = self._sent("json", values, topic=topic, config=_dotted(registry, config))
        return sent, [base64.b64decode(one) for one in read]

    def protobuf(
        self, registry: Apicurio, topic: str, file: bytes, message: str, values: Sequence[bytes], **config: str
    ) -> tuple[list[Sent], list[bytes]]:
        """Like `serialize`, but for messages of a file, an encoded `FileDescriptorProto`. The messages are read as
        bytes.
        """
        config["auto_register"] = "true"
        described = {"file": base64.b64encode(file).decode(), "message": message}
        sent, read = self._sent("protobuf", values, topic=topic, config=_dotted(registry, config), **described)
        return sent, [base64.b64decode(one) for one in read]

    def deserialize(
        self, registry: Apicurio, topic: str, form: Literal["json", "protobuf"], values: Sequence[bytes], **config: str
    ) -> list[bytes]:
        """Deserializes values without headers with Apicurio's deserializers."""
        answer = self._request("deserialize", values, topic=topic, format=form, config=_dotted(registry, config))
        assert "error" not in answer, answer
        return [base64.b64decode(one["ok"]) for one in answer["read"]]

    def _sent(self, op: str, values: Sequence[bytes], **task: Any) -> tuple[list[Sent], list[Any]]:
        answer = self._request(op, values, **task)
        assert "error" not in answer, answer
        sent = [
            (base64.b64decode(one["value"]), {key: base64.b64decode(of) for key, of in one["headers"].items()})
            for one in answer["sent"]
        ]
        return sent, [one["ok"] for one in answer["read"]]

    def __enter__(self) -> JavaSerdes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def _dotted(registry: Apicurio, config: dict[str, str]) -> dict[str, str]:
    """Returns the options with the names that Apicurio's serializers expect."""
    config = {**config, "url": registry.own_url}
    return {f"apicurio.registry.{name.replace('__', '.').replace('_', '-')}": of for name, of in config.items()}


def shown(value: Any, schema: Any, names: dict[str, Any] | None = None) -> Any:
    """Converts a value of samsarrow, as `to_pylist` returns it, to the form in which the Java program returns values.

    Args:
        value: the row.
        schema: the reader's schema.
        names: types that are defined already.
    """
    names = {} if names is None else names
    if isinstance(schema, list):
        return _member(value, schema, names)
    if isinstance(schema, str):
        return shown(value, names[schema], names) if schema in names else _primitive(value, schema)
    kind = schema["type"]
    if kind in NAMED:
        names[schema["name"]] = schema
    match kind:
        case "array":
            _define(schema["items"], names)
            if schema["items"] == "double":
                # Avro 1.12.0 rounds the items of such arrays to floats (`PrimitivesArrays.DoubleArray.add`).
                value = struct.unpack(f">{len(value)}f", struct.pack(f">{len(value)}f", *value))
            return [shown(item, schema["items"], names) for item in value]
        case "map":
            _define(schema["values"], names)
            return {key: shown(item, schema["values"], names) for key, item in value}
        case "record":
            return {field["name"]: shown(value[field["name"]], field["type"], names) for field in schema["fields"]}
    if schema.get("logicalType") == "decimal":
        sign, digits, _ = value.as_tuple()
        return ("-" if sign and any(digits) else "") + ("".join(map(str, digits)).lstrip("0") or "0")
    return _primitive(_raw(value, schema), kind)


def _define(schema: Any, names: dict[str, Any]) -> None:
    """Registers the name of a type. This is needed for items of empty lists, which are not visited."""
    if isinstance(schema, dict) and schema["type"] in NAMED:
        names[schema["name"]] = schema


def _member(value: Any, schema: list[Any], names: dict[str, Any]) -> Any:
    for one in schema:
        _define(one, names)
    members = [one for one in schema if one != "null"]
    if value is None or not members:
        return None
    if len(members) == 1:
        return shown(value, members[0], names)
    [(name, one)] = [(name, one) for name, one in value.items() if one is not None]
    [member] = [one for one in members if _name(one) == name]
    return {name: shown(one, member, names)}


def _name(schema: Any) -> str:
    text = schema if isinstance(schema, str) else schema["name" if schema["type"] in NAMED else "type"]
    return str(text).rpartition(".")[2]


def _primitive(value: Any, kind: str) -> Any:
    match kind:
        case "float":
            return struct.pack(">f", value).hex()
        case "double":
            return struct.pack(">d", value).hex()
        case "bytes" | "fixed":
            return base64.b64encode(value).decode()
    return value


def _raw(value: Any, schema: dict[str, Any]) -> Any:
    """Converts a value of a logical type to the value of the underlying type."""
    unit = UNITS.get(schema.get("logicalType", "").rpartition("-")[2])
    match value:
        case datetime.datetime():
            return (value.replace(tzinfo=None) - EPOCH) // unit
        case datetime.date():
            return (value - EPOCH.date()).days
        case datetime.time():
            return (datetime.datetime.combine(EPOCH, value) - EPOCH) // unit
    return value
