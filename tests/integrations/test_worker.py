"""The worker of examples/worker, killed repeatedly, processes each record exactly once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Consumer, ConsumerRecord, Producer, TopicPartition
from samsarrow.testing import Broker
from support.examples import Program, copied, module
from support.kafka import KafkaServer

ORDERS, EVERY = 240, 80
# Smaller polls make transactions small. The worker's pauses are unchanged, because the tests look for uncommitted
# transactions during pauses.
FASTER = [("max_poll_records=500", "max_poll_records=60")]


def order(number: int) -> str:
    """Returns an order; some orders are not valid JSON, and some have an unknown currency."""
    if number % EVERY == 20:
        return f"order {number}"
    return json.dumps({"id": number, "amount": f"{number}.50", "currency": "XYZ" if number % EVERY == 30 else "USD"})


def read(servers: str, topic: str, level: str) -> list[ConsumerRecord]:
    """Returns all records in a topic's only partition."""
    with Consumer(
        bootstrap_servers=servers, isolation_level=level, auto_offset_reset="earliest", include_headers=True
    ) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        end = consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]
        records: list[ConsumerRecord] = []
        while consumer.position(TopicPartition(topic, 0)) < end:
            records += consumer.records()
        return records


def check(servers: str, orders: str, done: str, dead: str, folder: Path, kills: int) -> None:
    rates = folder / "rates.json"
    rates.write_text('{"USD": "0.5", "EUR": "1"}')
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(ORDERS):
            headers = [("trace", f"t{number}"), ("trace", b"\xff")]
            producer.send(
                orders, order(number), f"k{number % 7}", headers=headers, partition=number % 2, timestamp=number
            )
    arguments = [servers, orders, done, dead, str(rates), "worker-1"]

    def seen(level: str) -> int:
        return len(read(servers, done, level))

    def finished() -> bool:
        with Consumer(bootstrap_servers=servers, group_id=f"{orders} workers") as group:
            partitions = group.partitions_for(orders)
            committed = group.committed(partitions)
            return all(at is not None and at.offset == ORDERS // 2 for at in committed.values())

    with Program(copied("worker/worker.py", folder, *FASTER), *arguments) as worker:
        for _ in range(kills):
            # The worker is within a transaction: its records are written but not committed.
            before = seen("read_uncommitted")
            worker.until(lambda before=before: seen("read_uncommitted") > max(before, seen("read_committed")))  # type: ignore[misc]
            worker.restart()
        worker.until(finished)
    good = [n for n in range(ORDERS) if n % EVERY not in (20, 30)]
    invoices = read(servers, done, "read_committed")
    results = [json.loads(record.value or b"") for record in invoices]
    assert sorted(invoice["id"] for invoice in results) == good
    for partition in (0, 1):
        assert [i["id"] for i in results if i["id"] % 2 == partition] == [n for n in good if n % 2 == partition]
    assert all(float(i["eur"]) == round(i["id"] / 2 + 0.25, 2) for i in results)
    # Kills during a transaction caused some records to be sent again.
    assert seen("read_uncommitted") > len(invoices)
    letters = read(servers, dead, "read_committed")
    assert sorted(letter.timestamp for letter in letters) == [n for n in range(ORDERS) if n % EVERY in (20, 30)]
    for letter in letters:
        number = letter.timestamp
        assert number is not None
        assert letter.key == b"k%d" % (number % 7)
        assert letter.value == order(number).encode()
        assert letter.headers[:2] == [("trace", b"t%d" % number), ("trace", b"\xff")]
        unread = number % EVERY == 20
        headers = {name: value.decode() for name, value in letter.headers[2:] if value is not None}
        reason = headers.pop("dead.reason")
        assert ("no order: JSONDecodeError" if unread else "XYZ") in reason
        assert headers == {
            "dead.topic": orders,
            "dead.partition": str(number % 2),
            "dead.offset": str(number // 2),
            "dead.timestamp": str(number),
            "dead.attempts": "1" if unread else "4",
            "dead.error": "RejectedError" if unread else "KeyError",
        }


def test_killed_worker_processes_exactly_once(tmp_path: Path) -> None:
    with Broker(topics={"orders": 2, "invoices": 1, "dead": 1}, group_initial_rebalance_delay=0) as broker:
        check(broker.bootstrap_servers, "orders", "invoices", "dead", tmp_path, kills=3)


def test_killed_worker_processes_exactly_once_on_kafka(
    kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    check(kafka.bootstrap_servers, new_topic(2), new_topic(), new_topic(), tmp_path, kills=2)


def record(value: bytes | None) -> ConsumerRecord:
    return ConsumerRecord("orders", 1, 7, 0, 0, None, value, [])


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example loaded as a module. Its pauses are recorded, and the worker does not sleep."""
    result = module("worker/worker.py")
    waited: list[float] = []
    monkeypatch.setattr(result, "time", type("Time", (), {"sleep": waited.append, "monotonic": result.time.monotonic}))
    result.waited = waited
    return result


def test_transient_errors_are_retried(worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = tmp_path / "rates.json"

    def pause(_: float) -> None:
        rates.write_text('{"EUR": 1}')

    monkeypatch.setattr(worker.time, "sleep", pause)
    # The file is missing at the first attempt.
    result, tries, error = worker.attempt(record(b'{"id": 1, "amount": 2, "currency": "EUR"}'), rates)
    assert (json.loads(result), tries, error) == ({"id": 1, "eur": "2.00"}, 2, None)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "no value"),
        (b"\xff", "UnicodeDecodeError"),
        (b"[]", "TypeError"),
        (b"{}", "KeyError"),
        (b'{"id": 1, "amount": "much", "currency": "EUR"}', "InvalidOperation"),
        (b'{"id": 1, "amount": "NaN", "currency": "EUR"}', "NaN"),
    ],
)
def test_permanent_errors_are_not_retried(worker: Any, tmp_path: Path, value: bytes | None, reason: str) -> None:
    result, tries, error = worker.attempt(record(value), tmp_path / "rates.json")
    assert (result, tries) == (None, 1)
    assert isinstance(error, worker.RejectedError)
    assert reason in str(error)
    assert worker.waited == []


def test_backoff_grows(worker: Any, tmp_path: Path) -> None:
    _, tries, error = worker.attempt(record(b'{"id": 1, "amount": 2, "currency": "EUR"}'), tmp_path / "none.json")
    assert (tries, type(error)) == (4, FileNotFoundError)
    assert [round(waited / 0.1 / 2**i) for i, waited in enumerate(worker.waited)] == [1, 1, 1]


def test_transaction_ends_with_its_budget(worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the transaction, the rest of the batch is read again. Each record is processed once."""
    rates = tmp_path / "rates.json"
    rates.write_text('{"EUR": 1}')
    monkeypatch.setattr(worker, "BUDGET", -1.0)
    with Broker(topics={"orders": 2, "invoices": 1, "dead": 1}) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers) as feeder:
            for number in range(4):
                value = json.dumps({"id": number, "amount": 1, "currency": "EUR"})
                feeder.send("orders", value, partition=number % 2)
        config = {"bootstrap.servers": servers, "group.id": "g", "enable.auto.commit": False}
        with (
            Producer(bootstrap_servers=servers, transactional_id="t") as producer,
            Consumer(config, auto_offset_reset="earliest", include_headers=True) as consumer,
        ):
            consumer.assign(consumer.partitions_for("orders"))
            tries = 20
            while len(read(servers, "invoices", "read_committed")) < 4 and (tries := tries - 1):
                worker.work(consumer, producer, rates, ("invoices", "dead"))
            results = [json.loads(r.value or b"")["id"] for r in read(servers, "invoices", "read_committed")]
            assert sorted(results) == list(range(4))
            assert broker.requests()["EndTxn"] == 4
