"""Options of reads, with the names and rules of Spark's own Kafka connector. The Rust client checks the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow.spark.clients import hidden, hidden_registry, with_registry_files, without_login

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType

    from samsarrow.spark.values import Typed

# Prefixes of the options of keys, values and the registry client.
_PREFIXES = ("key.", "value.", "schema.")


@dataclass(frozen=True)
class ReadOptions:
    """Checked options of a read.

    Attributes:
        kafka: options of the consumer, without the prefix `kafka.`.
        fail_on_data_loss: whether lost records fail the query.
        columns: columns to return, in order.
        text: names of the columns that are returned as text, `key` or `value` or both.
        max_offsets: maximum number of offsets of a micro-batch, or None.
        min_offsets: minimum number of new offsets before a micro-batch starts, or None.
        poll_timeout_s: seconds without progress after which a task fails.
        token_mechanism: mechanism of the delegation tokens with which tasks log in; None if they log in like the
            driver.
        checks_schemas: whether newer versions of schemas end the query.
        planning: options that the planner parses; empty in tasks.
        typed: keys and values to decode.
    """

    kafka: dict[str, str]
    fail_on_data_loss: bool
    columns: tuple[str, ...]
    text: frozenset[str]
    max_offsets: int | None
    min_offsets: int | None
    poll_timeout_s: float
    token_mechanism: str | None
    checks_schemas: bool
    planning: dict[str, str] = field(default_factory=dict)
    typed: tuple[Typed, ...] = ()

    @property
    def types(self) -> dict[str, DataType]:
        """Types of the decoded columns and of the columns that decoding adds, by name."""
        return {name: kind for typed in self.typed for name, kind in typed.columns.items()}

    @property
    def decoded(self) -> tuple[Typed, ...]:
        """Keys and values that tasks decode: those in returned columns, and those with a dead letter topic."""
        return tuple(
            typed for typed in self.typed if typed.letters or not typed.columns.keys().isdisjoint(self.columns)
        )

    def for_tasks(self) -> ReadOptions:
        """Returns the options for tasks. The login is removed if tasks log in with delegation tokens."""
        kafka = self.kafka if self.token_mechanism is None else without_login(self.kafka)
        return replace(self, kafka=kafka, planning={})

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool | None = False) -> ReadOptions:
        """Checks the options of `spark.read` or `spark.readStream`; names are case-insensitive, as in Spark.

        Args:
            options: options as passed to Spark.
            streaming: whether the read is a stream. None if unknown; checks that differ between batches and streams are
                then skipped.

        Raises:
            ConfigurationError: an option is missing, contradicts another or has an invalid value.
        """
        given = {name.lower(): value for name, value in options.items()}
        checked: dict[str, Any] = _core.spark_options(with_registry_files(given), streaming)
        typed: tuple[Typed, ...] = ()
        if decoded := checked.pop("typed"):
            # Imported here because reads of bytes do not need decoders.
            from samsarrow.spark.values import Typed

            own = typed_options(given, ("subscribe", "assign"))
            typed = tuple(Typed(name, own, bad, letters) for name, (bad, letters) in decoded)
        # Excluded because the data source itself decides how tasks log in.
        others = ("kafka.", "delegationtoken")
        return cls(
            kafka=hidden(checked.pop("kafka")),
            columns=tuple(checked.pop("columns")),
            text=frozenset(checked.pop("text")),
            planning=hidden_registry({name: value for name, value in given.items() if not name.startswith(others)}),
            typed=typed,
            **checked,
        )


def typed_options(options: Mapping[str, str], others: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Returns the options of keys and values, and `others`, in a hashable form that is not printed with secrets."""
    own = {name: value for name, value in options.items() if name.startswith(_PREFIXES) or name in others}
    return tuple(sorted(hidden_registry(own).items()))
