"""Options of writes, and the columns that a DataFrame needs. The Rust client checks both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import StructType

from samsarrow import _core
from samsarrow.spark.clients import hidden, on_this_host, with_registry_files, without_login
from samsarrow.spark.options import typed_options
from samsarrow.spark.tokens import Token, token_for
from samsarrow.spark.value_encoders import Encoded


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of a write.

    Attributes:
        kafka: options of the producer, without the prefix `kafka.`.
        topic: topic of all rows, which overrides the column `topic`; None uses the column.
        exactly_once: whether a streaming query writes each micro-batch in transactions.
        prefix: prefix of the transactional ids, or None.
        accepted: number of a micro-batch whose repetition may differ from the rows of an earlier attempt, or None.
        columns: names of the columns that are sent.
        token_mechanism: mechanism of the delegation tokens with which tasks log in; None if they log in like the
            driver.
        token: delegation token with which tasks log in, or None.
        encoded: columns to encode as keys and values.
    """

    kafka: dict[str, str]
    topic: str | None
    exactly_once: bool
    prefix: str | None
    accepted: int | None
    columns: tuple[str, ...]
    token_mechanism: str | None = None
    token: Token | None = None
    encoded: tuple[Encoded, ...] = ()

    def resolved(self) -> WriteOptions:
        """Returns a copy with the schemas and ids from the registry, so that tasks need no registry."""
        with on_this_host():
            return replace(self, encoded=tuple(column.resolved() for column in self.encoded))

    def for_tasks(self) -> WriteOptions:
        """Returns the options for tasks. If so configured, a delegation token replaces the login."""
        if self.token_mechanism is None:
            return self
        token = token_for(self.kafka, self.token_mechanism)
        return replace(self, kafka=without_login(self.kafka), token=token)

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: StructType, *, batch: bool = False) -> WriteOptions:
        """Checks options and columns, before anything is sent.

        Args:
            options: options as passed to Spark.
            schema: columns of the DataFrame.
            batch: true for a batch, false for a stream.

        Raises:
            ConfigurationError: an option is missing or has an invalid value; a column is missing or has a type that
                cannot be sent.
        """
        given = {name.lower(): value for name, value in options.items()}
        columns = [(field.name, field.dataType.simpleString(), field.dataType.json()) for field in schema.fields]
        checked: dict[str, Any] = _core.spark_write_options(with_registry_files(given), columns, batch)
        sent, topic = tuple(checked.pop("columns")), checked["topic"]
        encoded: tuple[Encoded, ...] = ()
        if written := checked.pop("written"):
            own, of_frame = typed_options(given, ("topic",)), tuple(columns)
            encoded = tuple(
                Encoded(name, own, of_frame, topic, like.schema.field("value").type, in_header)
                for name, like, in_header in written
            )
        if "headers" not in sent and any(column.writes_header for column in encoded):
            sent += ("headers",)
        return cls(kafka=hidden(checked.pop("kafka")), columns=sent, encoded=encoded, **checked)
