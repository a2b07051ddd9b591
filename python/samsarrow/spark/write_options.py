"""Options of writes, and what a DataFrame must look like to be written. The core checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.types import StructType

from samsarrow import _core
from samsarrow.spark.clients import hidden, without_login
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
    """

    kafka: dict[str, str]
    topic: str | None
    exactly_once: bool
    prefix: str | None
    accepted: int | None
    columns: tuple[str, ...]
    token_mechanism: str | None = None
    token: Token | None = None

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
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        checked: dict[str, Any] = _core.spark_write_options(dict(options), columns)
        return cls(kafka=hidden(checked.pop("kafka")), columns=tuple(checked.pop("columns")), **checked)
