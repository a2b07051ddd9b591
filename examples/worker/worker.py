"""Records worked on one by one, tried again when that fails, and set aside when it fails for good; each exactly once.

    python worker.py localhost:9092 orders invoices orders.dead rates.json worker-1

Invoices, dead letters and the offsets of the orders are one transaction: all are there, or none is. Whatever dies and
is started again goes on where the last transaction ended. Read both topics with `isolation.level=read_committed`.

- What cannot succeed (`RejectedError`) is tried once, anything else that fails `ATTEMPTS` times, with pauses between.
- A dead letter has key, value and headers of its record, and in further headers why it is there, where it came from and
  how often it was tried. Attempts are those of one life of the worker: one that is killed at it begins anew.
- A transaction ends after `BUDGET` seconds of work even if its batch is not done: pauses keep nobody from polling in
  `max.poll.interval.ms`, or open longer than `transaction.timeout.ms`.

Start as many as there are partitions, each with a name of its own that it keeps when it is started again.
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
    """No further attempt can help."""


def invoice(record: ConsumerRecord, rates: Path) -> str:
    """What is to be paid for an order, in euros."""
    if record.value is None:
        raise RejectedError("the order has no value")
    try:
        order = json.loads(record.value, parse_float=Decimal)
        number, amount, currency = order["id"], Decimal(order["amount"]), order["currency"]
    except (ValueError, ArithmeticError, KeyError, TypeError) as error:
        raise RejectedError(f"no order: {error!r}") from error
    if not amount.is_finite():
        raise RejectedError(f"no order: the amount is {amount}")
    # Stands for a service or a database: down now and then, and a new currency may be there a moment later.
    rate = Decimal(json.loads(rates.read_text())[currency])
    return json.dumps({"id": number, "eur": str(round(amount * rate, 2))})


def pauses() -> Iterator[float]:
    """Seconds before each further attempt: twice as long each time, and never the same for all workers."""
    for attempt in range(ATTEMPTS - 1):
        yield min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * random.uniform(0.8, 1.2)  # noqa: S311


def attempt(record: ConsumerRecord, rates: Path) -> tuple[str | None, int, Exception | None]:
    """An invoice, or why there is none; and how often it was tried."""
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
    """The headers of a record that is set aside: its own, and what became of it."""
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
    """Polls, and makes a transaction of what came."""
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
    # What is left of the batch comes again.
    left: dict[TopicPartition, int] = {}
    for record in records:
        tp = TopicPartition(record.topic, record.partition)
        if record.offset >= offsets.get(tp, 0):
            left.setdefault(tp, record.offset)
    for tp, offset in left.items():
        consumer.seek(tp, offset)


def run(servers: str, source: str, done: str, dead: str, rates: str, name: str) -> None:
    """Works until it is ended."""
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
        # Before the offsets are asked for: it ends what this worker left open when it died.
        producer.init_transactions()
        consumer.subscribe([source])
        while True:
            try:
                work(consumer, producer, Path(rates), (done, dead))
            except KafkaError as error:
                # Fenced or forbidden: another worker has the name, or nothing can be done here at all.
                if not error.abortable:
                    raise
                print("aborted, so these records come again:", error, file=sys.stderr)  # noqa: T201
                consumer.seek_to_committed()
                time.sleep(FIRST_PAUSE)


if __name__ == "__main__":
    run(*sys.argv[1:])
