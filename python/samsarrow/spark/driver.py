"""Interface to the Rust planner of reads, which looks up offsets and plans ranges.

Requests and responses are JSON texts, as between the JVM source and the planner.
"""

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
    """Planner of one batch or streaming query. It connects at the first request.

    Args:
        options: options of the read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        # Removed because the planner's clients are not members of a group.
        kafka = {name: value for name, value in options.kafka.items() if name != "group.id"}
        with clients.on_this_host():
            planner_options = {
                **clients.with_registry_files(options.planning),
                **{f"kafka.{name}": value for name, value in options.kafka.items()},
            }
            consumer, admin = clients.localize(kafka), clients.admin_options(kafka)
            self._core = _core.SparkDriver(planner_options, list(consumer.items()), list(admin.items()))

    def request(self, operation: str, **fields: Any) -> dict[str, Any]:
        """Sends a request to the planner and returns its response.

        Raises:
            ConfigurationError: an option is invalid.
            UnknownTopicOrPartitionError: a topic or partition to be read does not exist.
            DataLossError: records to be read no longer exist, and `failOnDataLoss` is set.
            KafkaError: the brokers cannot be reached, or return an error.
        """
        response: dict[str, Any] = json.loads(self._core.ask(json.dumps({"ask": operation, **fields})))
        return response

    def ranges(self, operation: str, **fields: Any) -> list[OffsetRange]:
        """Returns the offset ranges that a request plans. Each has a delegation token if tasks log in with tokens."""
        ranges = [OffsetRange(**planned) for planned in self.request(operation, **fields)["ranges"]]
        if self._options.token_mechanism is None or not ranges:
            return ranges
        token = token_for(self._options.kafka, self._options.token_mechanism)
        return [replace(planned, token=token) for planned in ranges]

    def close(self) -> None:
        """Closes all connections, after a commit in progress has completed."""
        self._core.close()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
