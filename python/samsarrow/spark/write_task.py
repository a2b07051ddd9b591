"""Write task, which sends Arrow batches from Spark to topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from samsarrow.exceptions import ConfigurationError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.producer import Producer
from samsarrow.spark.client_cache import ADMINS, PRODUCERS
from samsarrow.spark.clients import admin_options, localize
from samsarrow.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from samsarrow.spark.task_context import Attempt
    from samsarrow.spark.tokens import Token

# Maximum seconds to wait until brokers auto-create a missing topic.
CREATION_S = 5.0


@dataclass
class Written(WriterCommitMessage):
    """Result of a write task.

    Attributes:
        rows: number of written rows by topic.
        attempt: outcome of the attempt, with `exactlyOnce`.
    """

    rows: dict[str, int] = field(default_factory=dict)
    attempt: Attempt | None = None


def write_batches(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Sends all rows, and waits until brokers have acknowledged them."""
    with PRODUCERS.lease(localize(options.kafka, options.token)) as handle:
        producer, topics = handle.client, handle.affinity or set()
        handle.affinity = topics
        return send_all(
            options, producer, batches, lambda topic: find_topic(options.kafka, options.token, producer, topics, topic)
        )


def send_all(
    options: WriteOptions, producer: Producer, batches: Iterator[pa.RecordBatch], check_topic: Callable[[str], None]
) -> Written:
    """Sends rows with a producer, and waits for their delivery.

    Args:
        options: options of the write.
        producer: producer to send with.
        batches: batches from Spark.
        check_topic: function that raises an error if a topic does not exist. It is called before rows are sent to the
            topic.
    """
    written = Written()
    deliveries = []
    named: dict[str, Any] = {name: name for name in options.columns if name not in ("topic", "key", "value", "headers")}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        parts = list(_by_topic(options, batch))
        for topic, _ in parts:
            check_topic(topic)
        for topic, rows in parts:
            deliveries.append(producer.send_batch(topic, rows, **named))
            written.rows[topic] = written.rows.get(topic, 0) + rows.num_rows
        while len(deliveries) > 64 and deliveries[0].done():
            deliveries.pop(0).result()
    for delivery in deliveries:
        delivery.result()
    return written


def _by_topic(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Splits rows by topic, and selects the columns that are sent."""
    columns = [name for name in options.columns if name != "topic"]
    rows = batch.select(columns)
    if options.topic is not None:
        yield options.topic, rows
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConfigurationError(
            f"{topics.null_count} of {len(topics)} rows have a null topic and were not sent: without the option "
            "topic every row needs one"
        )
    # Imported here because the import is slow, and writes with the option topic do not need the module.
    import pyarrow.compute as pc

    names = pc.unique(topics).to_pylist()
    for name in names:
        yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics, name))


def find_topic(kafka: Mapping[str, Any], token: Token | None, producer: Producer, topics: set[str], topic: str) -> None:
    """Checks that a topic exists, or has the brokers create it.

    Args:
        kafka: options of the producer.
        token: delegation token to log in with.
        producer: the producer that will send.
        topics: topics that are known to exist. This function adds the topic.
        topic: the topic to look up.

    Raises:
        UnknownTopicOrPartitionError: the topic does not exist, and the brokers do not create it.
    """
    if topic in topics:
        return
    with ADMINS.lease(admin_options(kafka, token)) as handle:
        listed = handle.client.list_topics([topic])
    if topic in listed.errors:
        raise listed.errors[topic]
    if topic not in listed:
        # The metadata request of a producer may create the topic.
        timeout_ms = min(int(CREATION_S * 1000), int(kafka.get("max.block.ms", "60000")))
        with Producer({**localize(kafka, token), "max.block.ms": str(timeout_ms)}) as creator:
            try:
                creator.partitions_for(topic)
            except KafkaError as error:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic} does not exist, and the brokers do not create it: nothing was sent to it ({error})"
                ) from error
    producer.partitions_for(topic)
    topics.add(topic)
