"""Random protobuf messages with their schemas and encoded values, generated from a seed, and the values that Google's
protobuf library reads.
"""

from __future__ import annotations

import datetime
import json
import math
import random
import struct
from collections.abc import Iterator
from typing import Any

from google.protobuf import any_pb2, descriptor_pb2, duration_pb2, json_format, struct_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

Field = descriptor_pb2.FieldDescriptorProto
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
KNOWN = [any_pb2, duration_pb2, struct_pb2, timestamp_pb2, wrappers_pb2]
VARINTS = {3, 4, 5, 8, 13, 14, 17, 18}
WIDE = {1: "<d", 6: "<Q", 16: "<q"}
NARROW = {2: "<f", 7: "<I", 15: "<i"}
NAMES = {kind: name.removeprefix("TYPE_").lower() for name, kind in Field.Type.items()}
SCALARS = [*sorted(VARINTS - {14}), *WIDE, *NARROW, 9, 12]
KEYS = [3, 4, 5, 6, 7, 8, 9, 13, 15, 16, 17, 18]
TYPES = [
    "Timestamp",
    "Duration",
    "Any",
    "Int32Value",
    "UInt64Value",
    "StringValue",
    "BoolValue",
    "DoubleValue",
    "BytesValue",
]
TYPES += ["Struct", "Value", "ListValue"]


class Generator:
    """Generates a file with a message `p.M0` and its dependencies. A plain file is proto3 and has no imports."""

    def __init__(self, seed: int, *, plain: bool = False, delimited: bool = False) -> None:
        self.random = random.Random(seed)
        self.plain = plain
        self.delimited = delimited
        self.syntax = (
            "editions"
            if delimited
            else "proto3"
            if plain
            else self.random.choice(["proto2", "proto3", "proto3", "editions"])
        )
        self.file = descriptor_pb2.FileDescriptorProto(name=f"f{seed}.proto", package="p", syntax=self.syntax)
        if self.syntax == "proto2":
            self.file.ClearField("syntax")
        if self.syntax == "editions":
            self.file.edition = descriptor_pb2.EDITION_2023
            # The option applies to all messages except map values. Well-known types are only read with a length prefix.
            if self.delimited:
                self.file.options.features.message_encoding = 2
        if not plain:
            self.file.dependency.extend(known.DESCRIPTOR.name for known in KNOWN)
        self.count = 0
        first = self.file.message_type.add()
        self.message(first, ".p", 3)
        pool = DescriptorPool()
        for known in KNOWN:
            pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
        self.descriptor = pool.AddSerializedFile(self.file.SerializeToString()).message_types_by_name["M0"]
        self.type = GetMessageClass(self.descriptor)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count - 1}"

    def message(self, into: Any, scope: str, depth: int) -> str:
        into.name = self.name("M")
        full = f"{scope}.{into.name}"
        numbers = self.random.sample([*range(1, 20), 2047, 2048, 99_999, 536_870_911], self.random.randint(1, 9))
        for number in numbers:
            self.field(into, full, number, depth)
        if self.random.random() < 0.4:
            oneof = into.oneof_decl.add(name=self.name("o"))
            for number in range(30, 30 + self.random.randint(1, 4)):
                field = into.field.add(name=self.name("f"), number=number, label=1)
                self.kind(field, into, full, depth, group=False)
                field.oneof_index = len(into.oneof_decl) - 1
            assert oneof
        # Synthetic oneofs, which the compiler adds for optional fields, come after the declared ones.
        for field in into.field:
            if field.proto3_optional:
                field.oneof_index = len(into.oneof_decl)
                into.oneof_decl.add(name=f"_{field.name}")
        return full

    def field(self, into: Any, full: str, number: int, depth: int) -> None:
        field = into.field.add(name=self.name("f"), number=number, label=1)
        shape = self.random.choice(["one"] * 5 + ["many"] * 2 + ["map"] * (depth > 0))
        if shape == "map":
            entry = into.nested_type.add(name="".join(part.title() for part in field.name.split("_")) + "Entry")
            entry.options.map_entry = True
            entry.field.add(name="key", number=1, label=1, type=self.random.choice(KEYS))
            self.kind(entry.field.add(name="value", number=2, label=1), into, full, depth - 1, group=False)
            field.type, field.type_name, field.label = 11, f"{full}.{entry.name}", 3
            return
        self.kind(field, into, full, depth)
        if shape == "many":
            field.label = 3
            if field.type in (VARINTS | WIDE.keys() | NARROW.keys()) and self.random.random() < 0.5:
                if self.syntax == "editions":
                    field.options.features.repeated_field_encoding = self.random.choice([1, 2])
                else:
                    field.options.packed = self.random.random() < 0.5
            return
        message = field.type in (10, 11)
        if self.syntax == "proto2":
            field.label = 2 if self.random.random() < 0.1 else 1
            if field.label == 1 and not message and self.random.random() < 0.4:
                field.default_value = self.default(field)
        elif self.syntax == "proto3":
            field.proto3_optional = not message and self.random.random() < 0.3
        elif not message and self.random.random() < 0.5:
            field.options.features.field_presence = self.random.choice([1, 2, 2, 3])

    def default(self, field: Any) -> str:
        match field.type:
            case 8:
                return "true"
            case 9:
                return "ä text"
            case 12:
                return "\\\\x\\001\\377"
            case 14:
                return f"B_{field.type_name.rpartition('.')[2]}"
            case 1 | 2:
                return self.random.choice(["1.5", "-2", "inf", "-inf"])
        return "7"

    def kind(self, field: Any, into: Any, full: str, depth: int, *, group: bool = True) -> None:
        kinds = ["scalar"] * 6 + ["enum"] + ["known"] * (not self.plain and not self.delimited)
        kinds += ["message"] * 2 * (depth > 0) + ["group"] * (depth > 0 and group)
        match self.random.choice(kinds):
            case "enum":
                one = into.enum_type.add(name=self.name("E"))
                for name, number in {"A": 0, "B": 1, "C": self.random.choice([2, -1, 70_000])}.items():
                    one.value.add(name=f"{name}_{one.name}", number=number)
                field.type, field.type_name = 14, f"{full}.{one.name}"
            case "known":
                field.type, field.type_name = 11, f".google.protobuf.{self.random.choice(TYPES)}"
            case "message":
                field.type, field.type_name = 11, self.message(into.nested_type.add(), full, depth - 1)
            case "group" if self.syntax == "proto2":
                field.type, field.type_name = 10, self.message(into.nested_type.add(), full, depth - 1)
                field.name = field.type_name.rpartition(".")[2].lower()
            case "group" if self.syntax == "editions":
                field.type, field.type_name = 11, self.message(into.nested_type.add(), full, depth - 1)
                field.options.features.message_encoding = 2
            case _:
                field.type = self.random.choice(SCALARS)

    def file_set(self) -> bytes:
        """Returns the file as a descriptor set, like `protoc`."""
        return descriptor_pb2.FileDescriptorSet(file=[self.file]).SerializeToString()

    def text(self) -> str:
        """Returns the file as `.proto` source text."""
        lines = {"editions": 'edition = "2023";'}.get(self.syntax, f'syntax = "{self.syntax}";')
        imports = "".join(f'import "{name}";\n' for name in self.file.dependency)
        body = "".join(self.message_text(message) for message in self.file.message_type)
        option = "option features.message_encoding = DELIMITED;\n" * self.delimited
        return f"// A file.\n{lines}\npackage p;\n{imports}{option}{body}"

    def message_text(self, message: Any) -> str:
        entries = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
        groups = {field.type_name.rpartition(".")[2] for field in message.field if field.type == 10}
        apart = {*entries, *groups}
        real = {number: oneof.name for number, oneof in enumerate(message.oneof_decl) if not oneof.name.startswith("_")}
        own = [f for f in message.field if not f.HasField("oneof_index") or f.proto3_optional]
        parts = [
            *(self.message_text(nested) for nested in message.nested_type if nested.name not in apart),
            *(self.enum_text(one) for one in message.enum_type),
            *(self.field_text(field, message, entries) for field in own),
            *(self.oneof_text(number, name, message, entries) for number, name in real.items()),
        ]
        return "\n".join([f"message {message.name} {{", *parts, "}\n"])

    def enum_text(self, one: Any) -> str:
        return f"enum {one.name} {{ /* a comment */ {' '.join(f'{v.name} = {v.number};' for v in one.value)} }}"

    def oneof_text(self, number: int, name: str, message: Any, entries: dict[str, Any]) -> str:
        members = [f for f in message.field if f.HasField("oneof_index") and f.oneof_index == number]
        return f"oneof {name} {{ {' '.join(self.field_text(f, message, entries, member=True) for f in members)} }}"

    def field_text(self, field: Any, message: Any, entries: dict[str, Any], *, member: bool = False) -> str:
        options = []
        if field.options.HasField("packed"):
            options.append(f"packed = {str(field.options.packed).lower()}")
        for feature, value in field.options.features.ListFields():
            options.append(f"features.{feature.name} = {feature.enum_type.values_by_number[value].name}")
        if field.HasField("default_value"):
            value = field.default_value
            shown = {9: json.dumps(value), 12: f'"{value}"'}.get(field.type, value)
            options.append(f"default = {shown}")
        suffix = f" [{', '.join(options)}]" if options else ""
        label = {1: "", 2: "required ", 3: "repeated "}[field.label]
        if field.label == 1 and not member and (self.syntax == "proto2" or field.proto3_optional):
            label = "optional "
        short = field.type_name.rpartition(".")[2]
        if short in entries:
            key, value = entries[short].field
            return f"map<{self.kind_text(key)}, {self.kind_text(value)}> {field.name} = {field.number}{suffix};"
        if field.type == 10:
            group = next(nested for nested in message.nested_type if nested.name == short)
            inner = self.message_text(group).split("{", 1)[1]
            return f"{label}group {short} = {field.number}{suffix} {{{inner}"
        return f"{label}{self.kind_text(field)} {field.name} = {field.number}{suffix};"

    def kind_text(self, field: Any) -> str:
        if not field.type_name:
            return NAMES[field.type]
        # The name without the leading dot, which is relative, can be resolved from every scope here.
        return self.random.choice([field.type_name, field.type_name.lstrip(".")])

    def value(self, descriptor: Any = None, depth: int = 4) -> bytes:
        """Returns an encoded message with fields in any order, repeated fields and unknown fields."""
        descriptor = descriptor or self.descriptor
        parts = [part for field in descriptor.fields for part in self.parts(field, depth)]
        if self.random.random() < 0.5:
            self.random.shuffle(parts)
        # Map entries get no unknown fields, since upb, unlike other libraries, then treats the whole entry as an
        # unknown field of the message.
        if self.random.random() < 0.2 and not descriptor.GetOptions().map_entry:
            parts.insert(self.random.randint(0, len(parts)), self.unknown())
        return b"".join(parts)

    def unknown(self) -> bytes:
        one = [
            tag(25, 0) + varint(self.random.getrandbits(64)),
            tag(26, 2) + sized(b"nobody"),
            tag(27, 3) + tag(1, 5) + b"abcd" + tag(2, 3) + tag(2, 4) + tag(27, 4),
            tag(28, 1) + b"12345678",
        ]
        return self.random.choice(one)

    def parts(self, field: Any, depth: int) -> Iterator[bytes]:
        if field.is_repeated:
            count = self.random.choice([0, 1, 2, 5])
        else:
            count = (
                self.random.choice([0, 1, 1, 1, 1, 1, 2])
                if not field.is_required
                else self.random.choice([1, 1, 1, 1, 0])
            )
        if depth <= 0 and field.message_type and field.message_type.fields:
            count = 0 if not field.is_required else 1
        while count > 0:
            packed = field.is_repeated and field.type not in (9, 10, 11, 12) and self.random.random() < 0.5
            if packed:
                taken = self.random.randint(0, count)
                yield tag(field.number, 2) + sized(b"".join(self.scalar(field) for _ in range(taken)))
                count -= max(taken, 1)
                continue
            count -= 1
            if field.type == 10:
                yield tag(field.number, 3) + self.value(field.message_type, depth - 1) + tag(field.number, 4)
            elif field.type == 11:
                yield tag(field.number, 2) + sized(self.of_message(field.message_type, depth - 1))
            else:
                yield tag(field.number, wire(field.type)) + self.scalar(field)

    def of_message(self, descriptor: Any, depth: int) -> bytes:
        pick = self.random
        match descriptor.full_name.rpartition(".")[2] if descriptor.full_name.startswith("google.") else "":
            case "Timestamp":
                return timestamp_pb2.Timestamp(
                    seconds=pick.randint(-(10**9), 10**10), nanos=pick.randint(0, 999_999_999)
                ).SerializeToString()
            case "Duration":
                sign = pick.choice([1, -1])
                return duration_pb2.Duration(
                    seconds=sign * pick.randint(0, 10**9), nanos=sign * pick.randint(0, 999_999_999)
                ).SerializeToString()
            case "Struct" | "Value" | "ListValue" as name:
                message = getattr(struct_pb2, name)()
                made = {"Struct": lambda: {"k": self.json(3), "l": 1}, "ListValue": lambda: [self.json(2)]}
                json_format.ParseDict(made.get(name, lambda: self.json(3))(), message)
                return message.SerializeToString()
        return self.value(descriptor, depth)

    def json(self, depth: int) -> Any:
        kinds = [None, True, False, 1.5, -3, "text", "ü"]
        if depth:
            kinds += [[self.json(depth - 1), None], {"a": self.json(depth - 1), "b": 2}, {}]
        return self.random.choice(kinds)

    def scalar(self, field: Any) -> bytes:
        pick = self.random
        if field.type in (9, 12):
            text = "".join(pick.choice("aß語 z") for _ in range(pick.randint(0, 9))).encode()
            return sized(text if field.type == 9 else text + pick.randbytes(pick.randint(0, 3)))
        if field.type == 14:
            values = [value.number for value in field.enum_type.values]
            if not field.enum_type.is_closed:
                values += [5, -9]
            return varint(pick.choice(values) & (1 << 64) - 1)
        if field.type in (1, 2):
            value = pick.choice([0.0, -0.0, 1.5, math.inf, -math.inf, pick.uniform(-1e9, 1e9)])
            return struct.pack("<d" if field.type == 1 else "<f", value)
        if field.type in WIDE:
            return pick.choice([bytes(8), pick.randbytes(8)])
        if field.type in NARROW:
            return pick.choice([bytes(4), pick.randbytes(4)])
        if field.type == 8:
            return varint(pick.choice([0, 1, 1, 2, 300]))
        value = pick.choice([0, 1, 127, 128, pick.getrandbits(31), pick.getrandbits(32), pick.getrandbits(64)])
        return varint(value)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def sized(value: bytes) -> bytes:
    return varint(len(value)) + value


def wire(kind: int) -> int:
    return 1 if kind in WIDE else 5 if kind in NARROW else 2 if kind in (9, 11, 12) else 0


def read(kind: type[Message], value: bytes) -> Any:
    """Decodes a message with Google's protobuf to the form of pyarrow columns. Returns None if it is invalid."""
    message = kind()
    try:
        message.ParseFromString(value)
    except DecodeError:
        return None
    return expected(message) if message.IsInitialized() else None


def expected(message: Any) -> Any:
    return {field.name: of_field(message, field) for field in message.DESCRIPTOR.fields}


def of_field(message: Any, field: Any) -> Any:
    if field.message_type and field.message_type.GetOptions().map_entry:
        value = field.message_type.fields_by_name["value"]
        found = getattr(message, field.name)
        return {key: one(found[key], value) for key in found}
    if field.is_repeated:
        return [one(item, field) for item in getattr(message, field.name)]
    if field.has_presence and not message.HasField(field.name) and not field.has_default_value:
        return None
    return one(getattr(message, field.name), field)


def one(value: Any, field: Any) -> Any:
    if field.enum_type:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named else str(value)
    if field.type in (1, 2):
        return "nan" if math.isnan(value) else value
    if not field.message_type:
        return value
    match field.message_type.full_name.removeprefix("google.protobuf."):
        case "Timestamp":
            return EPOCH + datetime.timedelta(microseconds=value.seconds * 1_000_000 + value.nanos // 1000)
        case "Duration":
            micros = abs(value.nanos) // 1000 * (-1 if value.nanos < 0 else 1)
            return datetime.timedelta(microseconds=value.seconds * 1_000_000 + micros)
        case "Struct" | "ListValue":
            return json_format.MessageToDict(value)
        case "Value":
            return json_format.MessageToDict(value) if value.WhichOneof("kind") else None
        case name if name.endswith("Value") and "." not in name:
            return one(value.value, value.DESCRIPTOR.fields[0])
    return expected(value)


def actual(value: Any, descriptor: Any) -> Any:
    """Converts samsarrow's row to the same form. The order of maps and the format of JSON texts do not matter."""
    if value is None:
        return None
    return {field.name: ours(value[field.name], field) for field in descriptor.fields}


def ours(value: Any, field: Any) -> Any:
    if value is None:
        return None
    if field.message_type and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        keys = [key for key, _ in value]
        assert len(keys) == len(set(keys))
        return {key: our_one(item, of) for key, item in value}
    if field.is_repeated:
        return [our_one(item, field) for item in value]
    return our_one(value, field)


def our_one(value: Any, field: Any) -> Any:
    if field.type in (1, 2):
        return "nan" if math.isnan(value) else value
    if not field.message_type:
        return value
    match field.message_type.full_name.removeprefix("google.protobuf."):
        case "Struct" | "Value" | "ListValue":
            return json.loads(value)
        case "Timestamp" | "Duration":
            return value
        case name if name.endswith("Value") and "." not in name:
            return our_one(value, field.message_type.fields[0])
    return actual(value, field.message_type)
