"""Typed values: decoding of serialized keys and values into Arrow columns, and encoding of columns."""

from samsarrow.values.avro import Avro
from samsarrow.values.dead_letter import DeadLetter
from samsarrow.values.decode import decode_values
from samsarrow.values.encode import encode_values
from samsarrow.values.json import Json, infer_schema
from samsarrow.values.protobuf import Protobuf

__all__ = ["Avro", "DeadLetter", "Json", "Protobuf", "decode_values", "encode_values", "infer_schema"]
