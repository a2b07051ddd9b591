"""Clients that start before their broker, and clients whose brokers become unreachable.

`SAMSARROW_AWAY_SECONDS=600` sets an outage of ten minutes, as in `make test-chaos`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.testing import Broker
from support.proxy import Network, Proxy
from support.resilience import IMPATIENT, Clients, warned
from support.waiting import until

AWAY = float(os.environ.get("SAMSARROW_AWAY_SECONDS", "5"))
FOUR = [TopicPartition("four", p) for p in range(4)]
FAULTS: dict[str, Callable[[Proxy], Any]] = {"refused": Proxy.refuse, "half open": Proxy.silence}


def numbers(consumer: Consumer, count: int, seconds: float = 60) -> list[int]:
    """Returns the values of `count` rows, and checks that no more follow."""
    results: list[int] = []
    until = time.monotonic() + seconds
    while len(results) < count:
        assert time.monotonic() < until, f"{len(results)} of {count}"
        results += [int(v) for v in consumer.poll(0.5)["value"].to_pylist()]
    return results + [int(v) for v in consumer.poll(0.3)["value"].to_pylist()]


@pytest.fixture
def gone(broker: Broker, network: Network) -> Network:
    """Brokers that have 40 records and are unreachable at first."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for i in range(40):
            producer.send("four", b"%d" % i, partition=i % 4)
    network.each(Proxy.refuse)
    return network


@pytest.mark.parametrize("protocol", ["assigned", "classic", "consumer"])
def test_consumer_starts_before_its_broker(gone: Network, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    group = {} if protocol == "assigned" else {"group_protocol": protocol}
    with Consumer(
        bootstrap_servers=gone.bootstrap_servers, group_id="g", auto_offset_reset="earliest", **IMPATIENT, **group
    ) as consumer:
        consumer.subscribe(["four"]) if group else consumer.assign(FOUR)
        until = time.monotonic() + 4
        # The client logs a warning about the unreachable broker.
        while time.monotonic() < until or not warned(caplog.records):
            assert consumer.poll(0.3).num_rows == 0
        gone.each(Proxy.heal)
        assert sorted(numbers(consumer, 40)) == list(range(40))
        consumer.commit(timeout=30)
        offsets = consumer.committed(FOUR, timeout=30)
        assert {tp: at and at.offset for tp, at in offsets.items()} == dict.fromkeys(FOUR, 10)
    warnings = warned(caplog.records)
    assert max(warnings.values()) <= 6, warnings
    assert gone.requests()["Metadata"] <= 20


def test_pattern_subscription_starts_before_its_broker(gone: Network) -> None:
    with Consumer(
        bootstrap_servers=gone.bootstrap_servers, group_id="g", auto_offset_reset="earliest", **IMPATIENT
    ) as consumer:
        consumer.subscribe(pattern="fo.*")
        until = time.monotonic() + 3
        while time.monotonic() < until:
            assert consumer.poll(0.3).num_rows == 0
        gone.each(Proxy.heal)
        assert sorted(numbers(consumer, 40)) == list(range(40))


@pytest.mark.parametrize("kind", ["plain", "table", "transactional"])
def test_producer_starts_before_its_broker(
    broker: Broker, gone: Network, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    import pyarrow as pa

    caplog.set_level(logging.WARNING, "samsarrow")
    table = pa.table({"value": pa.array([b"%d" % i for i in range(40, 80)], pa.binary())})
    options = {"transactional_id": "x"} if kind == "transactional" else {}
    odd: list[BaseException] = []

    def write() -> None:
        try:
            with Producer(bootstrap_servers=gone.bootstrap_servers, **options) as producer:
                if kind == "transactional":
                    producer.init_transactions()
                    producer.begin_transaction()
                if kind == "table":
                    producer.send_batch("four", table).result(30)
                else:
                    for value in table["value"].to_pylist():
                        producer.send("four", value)
                if kind == "transactional":
                    producer.commit_transaction()
        except BaseException as error:
            odd.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    thread.join(3)
    # The client logs a warning about the unreachable broker.
    until(lambda: warned(caplog.records))
    assert thread.is_alive(), odd
    gone.each(Proxy.heal)
    thread.join(60)
    assert not thread.is_alive()
    assert odd == []
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(FOUR)
        assert sorted(numbers(consumer, 80)) == list(range(80))
    assert gone.requests()["Metadata"] <= 20
    assert gone.requests()["InitProducerId"] <= 4


def test_admin_and_queries_wait_for_the_broker(gone: Network) -> None:
    results: dict[str, Any] = {}

    def ask() -> None:
        with (
            Admin(bootstrap_servers=gone.bootstrap_servers) as admin,
            Consumer(bootstrap_servers=gone.bootstrap_servers, group_id="g") as consumer,
        ):
            results["topics"] = admin.list_topics(timeout=30)
            results["ends"] = consumer.end_offsets(FOUR, timeout=30)

    thread = threading.Thread(target=ask)
    thread.start()
    time.sleep(2)
    assert not results
    gone.each(Proxy.heal)
    thread.join(40)
    assert "four" in results["topics"]
    assert results["ends"] == dict.fromkeys(FOUR, 10)


@pytest.mark.timeout(AWAY + 240)
@pytest.mark.parametrize(("protocol", "fault"), [("classic", "refused"), ("consumer", "half open")])
def test_clients_recover_from_broker_outage(
    network: Network, protocol: str, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "samsarrow")
    clients = Clients(network.bootstrap_servers, [protocol], away=AWAY)
    try:
        clients.wait(more=50)
        before, accepted = network.requests(), network.accepted()
        network.each(FAULTS[fault])
        began = time.monotonic()
        # The client logs a warning about the unreachable broker.
        while time.monotonic() - began < AWAY or not warned(caplog.records):
            assert clients.odd == []
            time.sleep(0.2)
        requests, connected = network.requests() - before, network.accepted() - accepted
        away = time.monotonic() - began
        network.each(Proxy.heal)
        clients.wait()
    finally:
        network.each(Proxy.heal)
        clients.end()
    clients.check()
    # Three clients with several connections to each of two brokers try each connection about once per second.
    assert connected <= 40 + 24 * away, connected
    assert max(requests.values(), default=0) <= 40 + 20 * away, requests
    warnings = warned(caplog.records)
    # Clients log a warning once per cause, not once per attempt.
    assert sum(warnings.values()) <= 40 + AWAY, warnings
