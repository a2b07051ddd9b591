"""Options of reads: the names and rules of Spark's own Kafka connector, and a few more. The core checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark import value_options
from samsarrow.spark.clients import hidden, without_login
from samsarrow.spark.values import Typed

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a read.

    Attributes:
        kafka: options of the consumer, the prefix `kafka.` taken off.
        fail_on_data_loss: whether records that are gone end the query.
        columns: that are served, in their order.
        text: of key and value those that are served as text.
        max_offsets: in a micro-batch, or None.
        min_offsets: below which no micro-batch starts, or None.
        poll_timeout_s: seconds without progress after which a task fails.
        token_mechanism: that tasks log in with, by delegation tokens; None where they log in as the driver does.
        planning: all options but those of the client and of tokens, as they were given, for the planner; tasks do
            without.
        typed: keys and values that are decoded.
    """

    kafka: dict[str, str]
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    text: frozenset[str]
    max_offsets: int | None
    min_offsets: int | None
    poll_timeout_s: float
    token_mechanism: str | None
    planning: dict[str, str] = field(default_factory=dict)
    typed: tuple[Typed, ...] = ()

    @property
    def types(self) -> dict[str, DataType]:
        """The columns that are decoded or come with those, and their types."""
        return {name: kind for one in self.typed for name, kind in one.columns.items()}

    @property
    def decoded(self) -> tuple[Typed, ...]:
        """What has to be decoded: for the columns that are served, and to find what is bad."""
        return tuple(one for one in self.typed if one.letters or not one.columns.keys().isdisjoint(self.columns))

    def for_tasks(self) -> ReadOptions:
        """What tasks get: no login, where they get tokens."""
        kafka = self.kafka if self.token_mechanism is None else without_login(self.kafka)
        return replace(self, kafka=kafka, planning={})

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
        """Checks the options of `spark.read` or `spark.readStream`; names are case-insensitive, as Spark's are.

        Args:
            options: as they were given.
            streaming: None where Spark does not say: what batches and streams differ in is not looked at.

        Raises:
            ConfigurationError: an option is missing, contradicts another or has a value that cannot be.
        """
        typed, given = value_options.parse({name.lower(): value for name, value in options.items()})
        more = tuple(name for one in typed for name in one.columns if name != one.name)
        chosen = value_options.take_out(more, given)
        checked: dict[str, Any] = _core.spark_options(given, streaming)
        if streaming is False and (watched := [one.name for one in typed if one.evolution is not None]):
            raise ConfigurationError(
                f"option {watched[0]}.evolution is for streaming queries: a batch asks for the schema as it is loaded"
            )
        columns, text = (*checked.pop("columns"), *more), frozenset(checked.pop("text"))
        # How tasks log in is up to the source.
        others = ("kafka.", "delegationtoken")
        return cls(
            kafka=hidden(checked.pop("kafka")),
            columns=tuple(one for name in chosen for one in columns if one.lower() == name) or columns,
            text=value_options.text_beside(typed, text, given.get("layout", "")),
            planning={name: value for name, value in given.items() if not name.startswith(others)},
            typed=typed,
            **checked,
        )
