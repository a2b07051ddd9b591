"""Processes records one by one with retries and dead letters, each exactly once.

    python worker.py localhost:9092 orders invoices orders.dead rates.json worker-1

Invoices, dead letters and the offsets of the orders are committed in one transaction. A restarted worker resumes at the
last committed transaction. Read both topics with `isolation.level=read_committed`.

- A record that cannot succeed (`RejectedError`) is tried once; any other failure is retried, up to `ATTEMPTS` attempts,
  with pauses between.
- A dead letter has the key, value and headers of its record; further headers contain the error, the source offset and
  the number of attempts. Attempts are counted per run of the worker: a restart begins at zero.
- A transaction ends after `BUDGET` seconds of work even if its batch is incomplete, so pauses do not exceed
  `max.poll.interval.ms` or `transaction.timeout.ms`.

Run up to one worker per partition, each with a unique name that it keeps across restarts.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from samsarrow import Consumer, ConsumerRecord, KafkaError, Producer, TopicPartition

ATTEMPTS, FIRST_PAUSE, LONGEST_PAUSE, BUDGET = 4, 0.1, 5.0, 20.0


class RejectedError(Exception):
    """An error that no further attempt can resolve."""


def invoice(record: ConsumerRecord, rates: Path) -> str:
    """Returns the price of an order in euros."""
    if record.value is None:
        raise RejectedError("the order has no value")
    try:
        order = json.loads(record.value, parse_float=Decimal)
        number, amount, currency = order["id"], Decimal(order["amount"]), order["currency"]
    except (ValueError, ArithmeticError, KeyError, TypeError) as error:
        raise RejectedError(f"no order: {error!r}") from error
    if not amount.is_finite():
        raise RejectedError(f"no order: the amount is {amount}")
    # The file stands for a service or a database, which may be down. A missing currency may be added a moment later.
    rate = Decimal(json.loads(rates.read_text())[currency])
    return json.dumps({"id": number, "eur": str(round(amount * rate, 2))})


def pauses() -> Iterator[float]:
    """Yields the seconds before each further attempt: doubled each time, with jitter."""
    for attempt in range(ATTEMPTS - 1):
        yield min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * random.uniform(0.8, 1.2)  # noqa: S311


def attempt(record: ConsumerRecord, rates: Path) -> tuple[str | None, int, Exception | None]:
    """Returns an invoice or None, the number of attempts, and the last error."""
    waits, tries = pauses(), 0
    while True:
        tries += 1
        try:
            return invoice(record, rates), tries, None
        except RejectedError as error:
            return None, tries, error
        except Exception as error:
            pause = next(waits, None)
            if pause is None:
                return None, tries, error
            time.sleep(pause)


def dead_letter(record: ConsumerRecord, tries: int, error: Exception) -> list[tuple[str, bytes | str | None]]:
    """Returns the headers of a dead letter: those of the record, and the reason for the failure."""
    return [
        *record.headers,
        ("dead.topic", record.topic),
        ("dead.partition", str(record.partition)),
        ("dead.offset", str(record.offset)),
        ("dead.timestamp", str(record.timestamp)),
        ("dead.attempts", str(tries)),
        ("dead.error", type(error).__name__),
        ("dead.reason", str(error)[:1000].encode(errors="replace")),
    ]


def work(consumer: Consumer, producer: Producer, rates: Path, targets: tuple[str, str]) -> None:
    """Polls, and processes the records of each batch in transactions."""
    done, dead = targets
    records = list(consumer.records(1.0))
    if not records:
        return
    offsets: dict[TopicPartition, int] = {}
    until = time.monotonic() + BUDGET
    with producer.transaction():
        for record in records:
            if offsets and time.monotonic() > until:
                break
            result, tries, error = attempt(record, rates)
            if error is not None:
                headers = dead_letter(record, tries, error)
                producer.send(dead, record.value, record.key, headers=headers, timestamp=record.timestamp)
            else:
                producer.send(done, result, record.key)
            offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    # Seeks to the rest of the batch, which the next poll returns again.
    left: dict[TopicPartition, int] = {}
    for record in records:
        tp = TopicPartition(record.topic, record.partition)
        if record.offset >= offsets.get(tp, 0):
            left.setdefault(tp, record.offset)
    for tp, offset in left.items():
        consumer.seek(tp, offset)


def run(servers: str, source: str, done: str, dead: str, rates: str, name: str) -> None:
    """Runs until the process is stopped."""
    with (
        Producer(bootstrap_servers=servers, transactional_id=f"{source} {name}") as producer,
        Consumer(
            bootstrap_servers=servers,
            group_id=f"{source} workers",
            group_instance_id=name,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            include_headers=True,
            max_poll_records=500,
        ) as consumer,
    ):
        # Must precede the read of the offsets, because it aborts the transaction that this worker left open when it
        # died.
        producer.init_transactions()
        consumer.subscribe([source])
        while True:
            try:
                work(consumer, producer, Path(rates), (done, dead))
            except KafkaError as error:
                # If the transaction cannot be aborted, another worker has the same name, or a retry cannot help.
                if not error.abortable:
                    raise
                print("aborted, so these records come again:", error, file=sys.stderr)  # noqa: T201
                consumer.seek_to_committed()
                time.sleep(FIRST_PAUSE)


if __name__ == "__main__":
    run(*sys.argv[1:])
