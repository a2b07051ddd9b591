"""The planner of reads, which is the core's: it asks the brokers, and decides what is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from samsarrow import _core
from samsarrow.spark import clients
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange
from samsarrow.spark.tokens import token_for


class Driver:
    """Plans one batch or one streaming query, in the process that makes it; connects at the first question.

    Args:
        options: of the read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        given = {**options.planning, **{f"kafka.{name}": value for name, value in options.kafka.items()}}
        # What is asked is asked from outside of any group.
        kafka = {name: value for name, value in options.kafka.items() if name != "group.id"}
        with clients.on_this_host():
            consumer, admin = clients.here(kafka), clients.admin_options(kafka)
            self._core = _core.SparkDriver(given, list(consumer.items()), list(admin.items()))

    def ask(self, question: str, **fields: Any) -> dict[str, Any]:
        """The answer to a question.

        Raises:
            ConfigurationError: an option cannot be.
            UnknownTopicOrPartitionError: a topic or partition to be read does not exist.
            DataLossError: records are gone, with `failOnDataLoss`.
            KafkaError: the brokers could not be asked.
        """
        answer: dict[str, Any] = json.loads(self._core.ask(json.dumps({"ask": question, **fields})))
        return answer

    def ranges(self, question: str, **fields: Any) -> list[OffsetRange]:
        """The tasks of an answer, each with what it logs in with, where that is a token."""
        ranges = [OffsetRange(**one) for one in self.ask(question, **fields)["ranges"]]
        if self._options.token_mechanism is None or not ranges:
            return ranges
        token = token_for(self._options.kafka, self._options.token_mechanism)
        return [replace(one, token=token) for one in ranges]

    def close(self) -> None:
        """Ends all connections, when a commit that is under way has ended."""
        self._core.close()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
