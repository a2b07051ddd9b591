"""Options of reads, with the names and rules of Spark's own Kafka connector. The Rust client checks the options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.clients import hidden, without_login

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import DataType

    from samsarrow.spark.values import Typed

# Prefixes of the options of keys and values, which are checked by `value_options` and not by the Rust client.
VALUE_PREFIXES = ("key.", "value.", "schema.")


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
        typed: tuple[Typed, ...] = ()
        if any(name.startswith(VALUE_PREFIXES) for name in given):
            # Imported here because reads of bytes do not need formats and the registry client.
            from samsarrow.spark import value_options

            typed, given = value_options.parse(given)
        extra = tuple(name for column in typed for name in column.columns if name != column.name)
        chosen = _take_out(extra, given)
        checked: dict[str, Any] = _core.spark_options(given, streaming)
        if streaming is False and (watched := [column.name for column in typed if column.evolution is not None]):
            raise ConfigurationError(
                f"option {watched[0]}.evolution is for streaming queries: a batch asks for the schema as it is loaded"
            )
        columns, text = (*checked.pop("columns"), *extra), frozenset(checked.pop("text"))
        # Excluded because the data source itself decides how tasks log in.
        others = ("kafka.", "delegationtoken")
        return cls(
            kafka=hidden(checked.pop("kafka")),
            columns=tuple(column for name in chosen for column in columns if column.lower() == name) or columns,
            text=_text_beside(typed, text, given.get("layout", "")),
            planning={name: value for name, value in given.items() if not name.startswith(others)},
            typed=typed,
            **checked,
        )


def _take_out(extra: Sequence[str], options: dict[str, str]) -> list[str]:
    """Removes columns that the Rust client does not know from the option `columns`.

    Returns:
        All columns of the option, in lower case.
    """
    if "columns" not in options:
        return []
    names = [name.strip().lower() for name in options["columns"].split(",")]
    if not set(names).isdisjoint(extra):
        if len(set(names)) < len(names):
            raise ConfigurationError(f"option columns names a column twice: {options['columns']!r}")
        # Keeps one column, because the Rust client requires at least one.
        options["columns"] = ",".join(name for name in names if name not in extra) or "offset"
    return names


def _text_beside(typed: Sequence[Typed], text: frozenset[str], layout: str) -> frozenset[str]:
    """Returns the columns that `layout` makes text and that are not decoded.

    Raises:
        ConfigurationError: `layout` sets the type of a decoded column.
    """
    both = text & {column.name for column in typed}
    if both and ":" in layout:
        name = min(both)
        raise ConfigurationError(f"options layout and {name}.format both set the type of {name}s: set only one of them")
    return text - both
