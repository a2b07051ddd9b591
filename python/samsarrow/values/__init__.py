"""Typed values: what serializers wrote, into Arrow columns."""

from samsarrow.values.avro import Avro
from samsarrow.values.dead_letter import DeadLetter
from samsarrow.values.decode import decode_values

__all__ = ["Avro", "DeadLetter", "decode_values"]
