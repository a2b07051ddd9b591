"""Typed values: what serializers wrote, into Arrow columns."""

from samsarrow.values.avro import Avro
from samsarrow.values.decode import decode_values
from samsarrow.values.json import Json, infer_schema

__all__ = ["Avro", "Json", "decode_values", "infer_schema"]
