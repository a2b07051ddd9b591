"""One task of a write: Arrow batches out of Spark into topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from samsarrow.exceptions import ConfigurationError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.producer import Producer
from samsarrow.spark.clients import admin_options, here
from samsarrow.spark.handles import ADMINS, PRODUCERS
from samsarrow.spark.write_options import WriteOptions

if TYPE_CHECKING:
    from samsarrow.spark.places import Attempt
    from samsarrow.spark.tokens import Token

# How long a topic that is not there may take to be made by the brokers, where they do that.
CREATION_S = 5.0


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote.

    Attributes:
        rows: by topic.
        attempt: where the task is in its query, with `exactlyOnce`.
    """

    rows: dict[str, int] = field(default_factory=dict)
    attempt: Attempt | None = None


def write_batches(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Sends all rows and waits until they are stored; what went wrong is raised."""
    with PRODUCERS.lease(here(options.kafka, options.token)) as handle:
        producer, topics = handle.client, handle.memory or set()
        handle.memory = topics
        return send_all(
            options, producer, batches, lambda topic: find_topic(options.kafka, options.token, producer, topics, topic)
        )


def send_all(
    options: WriteOptions, producer: Producer, batches: Iterator[pa.RecordBatch], found: Callable[[str], None]
) -> Written:
    """Sends rows with a producer.

    Args:
        options: of the write.
        producer: to send with.
        batches: of the columns that Spark has.
        found: raises for a topic that does not exist; called before anything is sent to it.
    """
    written = Written()
    deliveries = []
    named: dict[str, Any] = {name: name for name in options.columns if name not in ("topic", "key", "value", "headers")}
    for batch in batches:
        if batch.num_rows == 0:
            continue
        parts = list(_by_topic(options, batch))
        for topic, _ in parts:
            found(topic)
        for topic, rows in parts:
            deliveries.append(producer.send_batch(topic, rows, **named))
            written.rows[topic] = written.rows.get(topic, 0) + rows.num_rows
        while len(deliveries) > 64 and deliveries[0].done():
            deliveries.pop(0).result()
    for delivery in deliveries:
        delivery.result()
    return written


def _by_topic(options: WriteOptions, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, with the columns that are sent."""
    wanted = [name for name in options.columns if name != "topic"]
    rows = batch.select(wanted)
    if options.topic is not None:
        yield options.topic, rows
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise ConfigurationError(
            f"{topics.null_count} of {len(topics)} rows have a null topic and were not sent: without the option "
            "topic every row needs one"
        )
    # Most writes name their topic, and are without this import, which takes long.
    import pyarrow.compute as pc

    names = pc.unique(topics).to_pylist()
    for name in names:
        yield name, rows if len(names) == 1 else rows.filter(pc.equal(topics, name))


def find_topic(kafka: Mapping[str, Any], token: Token | None, producer: Producer, topics: set[str], topic: str) -> None:
    """Raises unless the topic exists, or the brokers make it when they are asked for it.

    Args:
        kafka: options of the producer.
        token: to log in with.
        producer: that will send.
        topics: that it has found, to which this one is added.
        topic: to look for.

    Raises:
        UnknownTopicOrPartitionError: there is no such topic.
    """
    if topic in topics:
        return
    with ADMINS.lease(admin_options(kafka, token)) as handle:
        listed = handle.client.list_topics([topic])
    if topic in listed.errors:
        raise listed.errors[topic]
    if topic not in listed:
        # Brokers may make a topic when a producer asks for it.
        patience = min(int(CREATION_S * 1000), int(kafka.get("max.block.ms", "60000")))
        with Producer({**here(kafka, token), "max.block.ms": str(patience)}) as asking:
            try:
                asking.partitions_for(topic)
            except KafkaError as error:
                raise UnknownTopicOrPartitionError(
                    f"topic {topic} does not exist, and the brokers do not create it: nothing was sent to it ({error})"
                ) from error
    producer.partitions_for(topic)
    topics.add(topic)
