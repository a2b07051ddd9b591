"""Bad records of a task, into topics of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from samsarrow.config import options_of
from samsarrow.spark.clients import here
from samsarrow.spark.handles import PRODUCERS
from samsarrow.spark.send import find_topic
from samsarrow.values.dead_letter import DeadLetter

if TYPE_CHECKING:
    from samsarrow.spark.tokens import Token


class Letters:
    """Sends the bad records of one task, with a producer that its worker keeps.

    Args:
        kafka: options of the task's consumer, of which a producer takes those that it has.
        token: to log in with.
    """

    def __init__(self, kafka: Mapping[str, Any], token: Token | None) -> None:
        self._kafka, self._token = kafka, token

    def send(self, topic: str, raw: pa.RecordBatch, dead: Mapping[int, str]) -> None:
        """Returns when they are stored.

        Args:
            topic: where they go.
            raw: rows of a consumer, their keys and values as they came.
            dead: what is wrong, by row.

        Raises:
            UnknownTopicOrPartitionError: there is no such topic.
            KafkaError: they cannot be stored.
        """
        config = options_of("producer", here(self._kafka, self._token))
        with PRODUCERS.lease(config) as handle:
            handle.memory = topics = handle.memory or set()
            find_topic(config, None, handle.client, topics, topic)
            rows = DeadLetter(topic, handle.client)._letters(raw, dead)
            handle.client.send_batch(topic, rows, timestamp="timestamp").result()
