"""Options of writes, and what a DataFrame must look like to be written. The core checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import StructType

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark import value_options
from samsarrow.spark.clients import hidden, on_this_host, without_login
from samsarrow.spark.encoded import Encoded
from samsarrow.spark.tokens import Token, token_for


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of a write.

    Attributes:
        kafka: options of the producer, the prefix `kafka.` taken off.
        topic: for all rows, whatever the column `topic` says; None lets the column decide.
        exactly_once: whether a streaming query writes each micro-batch in transactions.
        prefix: of the names of those transactions, if it was given.
        accepted: number of the micro-batch whose repetition may be another than what was written, or None.
        columns: that are sent, of those that there are.
        token_mechanism: that tasks log in with, by delegation tokens; None where they log in as the driver does.
        token: that tasks log in with.
        encoded: columns that are encoded as keys and values.
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

    def check_batch(self, *, overwrite: bool) -> None:
        """Refuses what a batch cannot be.

        Raises:
            ConfigurationError: it replaces what is there; or it is to be written exactly once, and has no name of its
                own.
        """
        if overwrite:
            raise ConfigurationError('a topic cannot be overwritten: write with .mode("append")')
        if self.exactly_once and self.prefix is None:
            raise ConfigurationError(
                "exactlyOnce in a batch write is for foreachBatch, and needs the option transactionalIdPrefix there: a "
                "name for this write and no other, since one micro-batch may be written to several places"
            )

    def settled(self) -> WriteOptions:
        """The same with all that a registry says, so that tasks ask none."""
        with on_this_host():
            return replace(self, encoded=tuple(one.settled() for one in self.encoded))

    def for_tasks(self) -> WriteOptions:
        """What tasks get: a token in place of the login, where that is asked for."""
        if self.token_mechanism is None:
            return self
        token = token_for(self.kafka, self.token_mechanism)
        return replace(self, kafka=without_login(self.kafka), token=token)

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: StructType) -> WriteOptions:
        """Checks options and columns, before anything is sent.

        Raises:
            ConfigurationError: an option is missing or has a value that cannot be; a column is missing or has a type
                that cannot be sent.
        """
        types = {field.name: field.dataType for field in schema.fields}
        encoded, given = value_options.parse_written({name.lower(): one for name, one in options.items()}, types)
        bytes_of = {one.name for one in encoded}
        columns = [
            (field.name, "binary" if field.name in bytes_of else field.dataType.simpleString())
            for field in schema.fields
        ]
        checked: dict[str, Any] = _core.spark_write_options(given, columns)
        sent = tuple(checked.pop("columns"))
        return cls(kafka=hidden(checked.pop("kafka")), columns=sent, encoded=encoded, **checked)
