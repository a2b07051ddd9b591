"""Compares reads through Spark's own Kafka connector with reads through samsarrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from samsarrow import Admin, NewTopic, Producer
from support.kafka import KafkaServer
from support.spark import STALLED
from support.streams import wait_for_markers

T0 = 1_700_000_000_000
FORMATS = ("kafka", "samsarrow-python")
JVM = "samsarrow-jvm"

# Patterns of error texts by category. The first alternatives match the connector, the others samsarrow.
_KINDS = {
    "data loss": "ome data may have been (lost|missed)|KAFKA_DATA_LOSS|DataLossError",
    "no record at that time": "No offset matched|there is no record at or after",
    "partitions not covered": (
        "don't match what are assigned|must specify all TopicPartitions|for every partition that is read"
    ),
    "unknown topic": "UnknownTopicOrPartition|This server does not host",
    "option": (
        "IllegalArgumentException|NumberFormatException|NoSuchElementException: No value|"
        "resolved start offset .* is greater|attribute unsupported type|Required attribute|topic option required|"
        "contains a null topic|bootstrap.servers is not set|ConfigurationError|"
        "terminated with exception: (For input string|Time must be specified)"
    ),
}


def kind_of(error: BaseException) -> str:
    """Returns the category of an error, or its text if it belongs to no category."""
    text = f"{type(error).__name__}: {error}"
    for kind, words in _KINDS.items():
        if re.search(words, text):
            return kind
    return text


def outcome(read: Callable[[], Any]) -> Any:
    """Returns the result of `read`, or the category of the error that it raised."""
    try:
        return read()
    except Exception as error:
        return f"error: {kind_of(error)}"


def rows(frame: Any) -> tuple[str, list[Any]]:
    """Returns the schema and the rows, sorted by topic, partition and offset."""
    found = frame.collect()
    return frame.schema.simpleString(), sorted(map(tuple, found), key=lambda row: row[2:5])


class Ahead:
    """Runs the selected cases of a test in two threads, since each case mostly waits.

    Args:
        request: pytest's request of a module fixture.
        test: name of the test whose parameter `name` selects the cases.
        run: function that runs one case through one source.
        formats: names of the sources.
    """

    def __init__(
        self, request: Any, test: str, run: Callable[[str, str], Any], formats: Sequence[str] = FORMATS
    ) -> None:
        self._formats = formats
        items = [item for item in request.session.items if item.path == request.path and item.originalname == test]
        self._pool = ThreadPoolExecutor(2)
        self._run = run
        self._results = {
            (name, source): self._pool.submit(self._run_again, name, source)
            for name in (item.callspec.params["name"] for item in items)
            for source in formats
        }

    def _run_again(self, name: str, source: str) -> Any:
        for _ in range(2):
            if STALLED not in str(result := self._run(name, source)):
                return result
        return self._run(name, source)

    def result_of(self, name: str) -> dict[str, Any]:
        """Returns the results of a case, by source."""
        return {source: self._results[name, source].result(150) for source in self._formats}

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class Topics:
    """Topics whose content is difficult to read, shared by all tests.

    Attributes:
        plain: three partitions: nulls, empty values, headers, timestamps that rise by a second per record.
        times: one partition whose timestamps are not ascending.
        transactions: one partition: committed, aborted, committed.
        trimmed: one partition whose first ten records were deleted.
        compressed: four partitions, one codec each.
        empty: two partitions without records.
    """

    def __init__(self, kafka: KafkaServer) -> None:
        self.kafka = kafka
        shapes = {"plain": 3, "times": 1, "transactions": 1, "trimmed": 1, "compressed": 4, "empty": 2}
        for name in shapes:
            setattr(self, name, f"parity-{name}")
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(f"parity-{name}", count, 1) for name, count in shapes.items()])
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for partition, count in ((0, 40), (1, 15), (2, 3)):
                for i in range(count):
                    headers = [("a", b"1"), ("a", None), ("b", b"")] if i % 7 == 3 else []
                    key = None if i % 5 == 1 else b"k%d" % i
                    value = None if i % 6 == 4 else b"" if i % 6 == 5 else b"v%d" % i
                    when = T0 + i * 1000
                    producer.send("parity-plain", value, key, headers=headers, partition=partition, timestamp=when)
            for i, second in enumerate((0, 5, 3, 9, 1, 7)):
                producer.send("parity-times", b"%d" % i, partition=0, timestamp=T0 + second * 1000)
            for i in range(25):
                producer.send("parity-trimmed", b"%d" % i, partition=0, timestamp=T0)
        for partition, codec in enumerate(("gzip", "snappy", "lz4", "zstd")):
            with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
                for i in range(20):
                    producer.send("parity-compressed", f"{codec} {i}" * 10, partition=partition, timestamp=T0)
        self._transactions()
        wait_for_markers(kafka.bootstrap_servers, "parity-transactions")
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for done in admin.delete_records([ConfluentPartition("parity-trimmed", 0, 10)]).values():
            done.result()

    def _transactions(self) -> None:
        config = {"bootstrap.servers": self.kafka.bootstrap_servers, "transactional.id": "parity"}
        producer = ConfluentProducer(config)
        producer.init_transactions(30)
        for number, commit in enumerate((True, False, True)):
            producer.begin_transaction()
            for i in range(5):
                producer.produce("parity-transactions", b"%d-%d" % (number, i), partition=0, timestamp=T0)
            producer.flush(30)
            if commit:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
