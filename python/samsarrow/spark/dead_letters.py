"""Dead letters of a read task, which are records that cannot be decoded and are sent to another topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from samsarrow import _core
from samsarrow.config import options_of
from samsarrow.spark.client_cache import PRODUCERS
from samsarrow.spark.clients import localize
from samsarrow.spark.write_task import find_topic

if TYPE_CHECKING:
    from samsarrow.spark.tokens import Token


class DeadLetterSender:
    """Sender of the records of one task that cannot be decoded. It uses a cached producer of the worker.

    Args:
        kafka: options of the task's consumer. The producer gets the options that producers support.
        token: delegation token to log in with.
    """

    def __init__(self, kafka: Mapping[str, Any], token: Token | None) -> None:
        self._kafka, self._token = kafka, token

    def send(self, topic: str, raw: pa.RecordBatch, dead: Mapping[int, str]) -> None:
        """Sends records to the dead letter topic, and returns when the brokers have acknowledged them.

        Args:
            topic: the dead letter topic.
            raw: rows of a consumer, with undecoded keys and values.
            dead: decode errors by number of the row in `raw`.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
            KafkaError: a record was not delivered.
        """
        config = options_of("producer", localize(self._kafka, self._token))
        with PRODUCERS.lease(config) as handle:
            handle.affinity = topics = handle.affinity or set()
            find_topic(config, None, handle.client, topics, topic)
            rows = _core.dead_letters(raw, dict(dead))
            handle.client.send_batch(topic, rows, timestamp="timestamp").result()
