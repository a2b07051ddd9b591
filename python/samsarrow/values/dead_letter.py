"""Dead letters, which are records whose keys or values cannot be decoded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, final

from samsarrow import _core
from samsarrow.exceptions import KafkaTimeoutError, UnknownTopicOrPartitionError
from samsarrow.types import check_topic

if TYPE_CHECKING:
    import pyarrow as pa

    from samsarrow._core import BatchDelivery
    from samsarrow.aio_producer import AsyncProducer
    from samsarrow.producer import Producer

# Time within which a broker with auto.create.topics.enable creates a topic, in seconds.
CREATION_SECONDS = 3.0


@final
class DeadLetter:
    """Sends records whose keys or values cannot be decoded to another topic, and omits them from batches.

    If the topic does not exist, and brokers do not create it, the poll that reads the first such record raises
    `UnknownTopicOrPartitionError`. The next poll reads the record again.

    Each record is sent with its key, value, headers and timestamp, and is acknowledged before the consumer's position
    moves past it. An application that is killed may send a record again (at least once). Additional headers have the
    origin of the record and the reason, as in Kafka Connect (KIP-298): `__connect.errors.topic`, `.partition`,
    `.offset`, `.stage` (`KEY_CONVERTER` or `VALUE_CONVERTER`), `.exception.class.name`, `.exception.message`.

    Args:
        topic: topic to which records are sent.
        producer: producer that sends the records. The application closes it. A `Consumer` needs a `Producer`, an
            `AsyncConsumer` an `AsyncProducer`.

    Raises:
        ConfigurationError: `topic` is not a topic name.
        TypeError: `producer` is not a producer.
    """

    __slots__ = ("_topic_exists", "producer", "topic")

    def __init__(self, topic: str, producer: Producer | AsyncProducer) -> None:
        check_topic(topic)
        if not hasattr(producer, "_send_batch"):
            raise TypeError(
                f"the producer of a DeadLetter is a Producer or AsyncProducer, not {type(producer).__name__}"
            )
        self.topic, self.producer = topic, producer
        self._topic_exists = False

    @classmethod
    def _without_producer(cls, topic: str) -> DeadLetter:
        """Creates one for a decoder whose caller sends the records itself."""
        letter = object.__new__(cls)
        letter.topic, letter.producer, letter._topic_exists = topic, None, False  # type: ignore[assignment]
        return letter

    def __repr__(self) -> str:
        return f"DeadLetter({self.topic!r}, {self.producer!r})"

    async def _send(
        self, raw: pa.RecordBatch, dead: Mapping[int, str], wait: Callable[[BatchDelivery], Awaitable[None]]
    ) -> None:
        """Sends these rows of a consumer's batch, and waits until the brokers have acknowledged them.

        Args:
            raw: batch of the consumer.
            dead: by number of the row, the reason.
            wait: waits for a delivery, blocking or not, as the consumer does.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
            KafkaError: the rows were not delivered.
        """
        if not self._topic_exists:
            await self._check_topic()
        letters = _core.dead_letters(raw, dict(dead))
        await wait(await self.producer._send_batch(self.topic, letters, None, None, None, None, "timestamp", None))

    async def _check_topic(self) -> None:
        """Raises an error if the topic does not exist. A send would wait for the topic until `max.block.ms`."""
        try:
            await self.producer._partitions_for(self.topic, CREATION_SECONDS)
        except UnknownTopicOrPartitionError as error:
            raise UnknownTopicOrPartitionError(
                f"there is no topic {self.topic} for dead letters: create it, or pass another one to DeadLetter"
            ) from error
        except KafkaTimeoutError:
            # Nothing is known about the topic yet. The send waits longer for the brokers.
            return
        self._topic_exists = True
