"""Options of reads: the names and rules of Spark's own Kafka connector, and a few more. The core checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from samsarrow import _core
from samsarrow.config import Secret, kind_of
from samsarrow.spark.clients import without_login


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
        given = {name.lower(): value for name, value in options.items()}
        checked: dict[str, Any] = _core.spark_options(given, streaming)
        # How tasks log in is up to the source.
        others = ("kafka.", "delegationtoken")
        return cls(
            kafka=hidden(checked.pop("kafka")),
            columns=tuple(checked.pop("columns")),
            text=frozenset(checked.pop("text")),
            planning={name: value for name, value in given.items() if not name.startswith(others)},
            **checked,
        )


def hidden(kafka: Mapping[str, str]) -> dict[str, str]:
    """Options of a client; those that may be secrets do not show in any text."""
    # A misspelt name may be that of a password.
    return {name: Secret(value) if kind_of(name) in ("secret", "unknown") else value for name, value in kafka.items()}
