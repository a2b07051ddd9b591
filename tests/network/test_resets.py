"""Connections that break at any point: each operation still succeeds exactly once, without retries in a loop.

A lost request, half a request, a lost response and half a response are separate cases: they differ in whether the
broker has handled the request, and the client cannot know this.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from samsarrow import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.testing import Broker
from support.proxy import Network, Side

T0 = TopicPartition("t", 0)
FOUR = [TopicPartition("four", p) for p in range(4)]
CUTS: list[tuple[Side, float]] = [("request", 0.0), ("request", 0.5), ("answer", 0.0), ("answer", 0.5)]
IDS = ["request lost", "half a request", "answer lost", "half an answer"]
PROTOCOLS = ["classic", "consumer"]
each_cut = pytest.mark.parametrize(("side", "share"), CUTS, ids=IDS)
each_loss = pytest.mark.parametrize(("side", "share"), CUTS[::2], ids=IDS[::2])


def values(broker: Broker, topic: str, rows: int, **options: Any) -> dict[int, list[int]]:
    """Returns the numbers in each partition in order, and checks that no more follow."""
    results: dict[int, list[int]] = {}
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        count, until = 0, time.monotonic() + 30
        while count < rows and time.monotonic() < until:
            batch = consumer.poll(0.5)
            count += batch.num_rows
            for p, v in zip(batch["partition"].to_pylist(), batch["value"].to_pylist(), strict=True):
                results.setdefault(p, []).append(int(v))
        assert consumer.poll(0.3).num_rows == 0
    return results


@each_cut
def test_produce_across_resets(broker: Broker, network: Network, side: Side, share: float) -> None:
    with Producer(bootstrap_servers=network.bootstrap_servers, batch_size=2000, linger_ms=1000) as producer:
        deliveries = []
        for i in range(3000):
            if i % 500 == 250:
                network.each(lambda proxy: proxy.cut("Produce", side, share=share))
            deliveries.append(producer.send("four", b"%d" % i, partition=i % 4))
            if i % 100 == 0:
                producer.flush(30)
        receipts = [delivery.result(60) for delivery in deliveries]
    offsets = [[m.offset for m in receipts if m.partition == p] for p in range(4)]
    assert offsets == [list(range(750))] * 4
    assert values(broker, "four", 3000) == {p: list(range(p, 3000, 4)) for p in range(4)}
    # Twelve connections were broken. A Metadata request after each break would exceed the limit.
    assert network.requests()["Metadata"] <= 30
    assert network.requests()["Produce"] <= 3000 / 20


@each_cut
def test_fetch_across_resets(
    broker: Broker, network: Network, side: Side, share: float, read: Callable[..., list[tuple[int, int, bytes]]]
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=4000) as producer:
        for i in range(4000):
            producer.send("four", b"%d" % i + b"x" * 200, partition=i % 4)
    with Consumer(
        bootstrap_servers=network.bootstrap_servers, auto_offset_reset="earliest", max_partition_fetch_bytes=10_000
    ) as consumer:
        consumer.assign(FOUR)
        seen = []
        for _ in range(4):
            network.each(lambda proxy: proxy.cut("Fetch", side, share=share))
            seen += read(consumer, 500)
        seen += read(consumer, 4000 - len(seen))
    for p in range(4):
        assert [o for of, o, _ in seen if of == p] == list(range(1000))
    assert network.requests()["Fetch"] <= 600
    assert network.requests()["Metadata"] <= 30


@each_cut
def test_commit_across_resets(network: Network, side: Side, share: float) -> None:
    with Consumer(bootstrap_servers=network.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([T0])
        for i, api in enumerate(["FindCoordinator", "OffsetCommit", "OffsetCommit", "Metadata", "ApiVersions"]):
            network.each(lambda proxy, api=api: proxy.cut(api, side, share=share))
            consumer.commit({T0: OffsetAndMetadata(i)}, timeout=20)
        network.each(lambda proxy: proxy.cut("OffsetFetch", side, share=share))
        network.each(lambda proxy: proxy.cut("ListOffsets", side, share=share))
        assert consumer.committed([T0], timeout=20) == {T0: OffsetAndMetadata(4)}
        assert consumer.end_offsets([T0], timeout=20) == {T0: 0}
    requests = network.requests()
    assert requests["OffsetCommit"] <= 12
    assert requests["OffsetFetch"] <= 5
    assert requests["Metadata"] <= 30


@each_loss
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_membership_across_resets(
    broker: Broker,
    network: Network,
    side: Side,
    share: float,
    protocol: str,
    read: Callable[..., list[tuple[int, int, bytes]]],
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for i in range(400):
            producer.send("four", b"%d" % i, partition=i % 4)
    apis = (
        ["FindCoordinator", "JoinGroup", "SyncGroup", "OffsetFetch", "Heartbeat", "LeaveGroup"]
        if protocol == "classic"
        else ["FindCoordinator", "ConsumerGroupHeartbeat", "OffsetFetch"]
    )
    for api in apis:
        network.each(lambda proxy, api=api: proxy.cut(api, side, share=share))
    began = time.monotonic()
    consumer = Consumer(
        bootstrap_servers=network.bootstrap_servers,
        group_id="g",
        group_protocol=protocol,
        auto_offset_reset="earliest",
        **({"heartbeat_interval_ms": 200, "session_timeout_ms": 6000} if protocol == "classic" else {}),
    )
    consumer.subscribe(["four"])
    seen = read(consumer, 400)
    # During this time, the member sends the heartbeats whose connections are cut.
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        assert consumer.poll(0.1).num_rows == 0
    consumer.commit(timeout=20)
    consumer.close(10)
    took = time.monotonic() - began
    assert sorted((p, o) for p, o, _ in seen) == [(p, o) for p in range(4) for o in range(100)]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert {tp: at and at.offset for tp, at in admin.fetch_offsets("g").items()} == dict.fromkeys(FOUR, 100)
        if side == "answer":
            assert admin.describe_groups(["g"])["g"].members == (), "the broker knows that it left"
    requests = network.requests()
    assert requests["JoinGroup"] <= 8
    assert requests["SyncGroup"] <= 8
    # The member sends one heartbeat per 0.2 s (0.5 s with KIP-848), and some more for each rebalance.
    assert requests["Heartbeat"] + requests["ConsumerGroupHeartbeat"] <= 20 + took / 0.2
    assert requests["Metadata"] <= 30


@each_cut
@pytest.mark.parametrize("version", [1, 2])
def test_transactions_across_resets(
    network_of: Callable[..., tuple[Broker, Network]], side: Side, share: float, version: int
) -> None:
    broker, network = network_of(transaction_version=version)
    apis = ["FindCoordinator", "InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit"]
    with (
        Producer(bootstrap_servers=network.bootstrap_servers, transactional_id="x", linger_ms=0) as producer,
        Consumer(bootstrap_servers=network.bootstrap_servers, group_id="g") as consumer,
    ):
        for api in apis[:2]:
            network.each(lambda proxy, api=api: proxy.cut(api, side, share=share))
        producer.init_transactions(30)
        for number, api in enumerate([*apis[2:], "EndTxn"]):
            network.each(lambda proxy, api=api: proxy.cut(api, side, share=share))
            producer.begin_transaction()
            for i in range(10):
                producer.send("four", b"%d" % (number * 10 + i), partition=i % 4)
            offsets = {T0: OffsetAndMetadata(number)}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata(), timeout=30)
            producer.commit_transaction(30)
        assert consumer.committed([T0], timeout=20) == {T0: OffsetAndMetadata(4)}
    result = values(broker, "four", 50, isolation_level="read_committed")
    assert sorted(v for numbers in result.values() for v in numbers) == list(range(50))
    for p, numbers in result.items():
        assert numbers == sorted(numbers), p
    requests = network.requests()
    assert requests["EndTxn"] <= 12
    assert requests["InitProducerId"] <= 6
    assert requests["Metadata"] <= 40


@each_cut
def test_admin_across_resets(network: Network, side: Side, share: float) -> None:
    with Admin(bootstrap_servers=network.bootstrap_servers) as admin:
        network.each(lambda proxy: proxy.cut("Metadata", side, share=share))
        assert "t" in admin.list_topics(timeout=20)
        network.each(lambda proxy: proxy.cut("CreateTopics", side, share=share))
        admin.create_topics([NewTopic("new", 2, 1)], timeout=20) if side == "request" else None
        network.each(lambda proxy: proxy.cut("FindCoordinator", side, share=share))
        assert admin.find_coordinator("g", timeout=20).id in (0, 1)
    assert network.requests()["Metadata"] <= 20


@pytest.fixture
def network_of(request: pytest.FixtureRequest) -> Callable[..., tuple[Broker, Network]]:
    """Returns a function that starts brokers and their network: `network_of(transaction_version=1)`."""

    def start(**options: Any) -> tuple[Broker, Network]:
        broker = Broker(brokers=2, topics={"t": 1, "four": 4}, auto_create_topics=False, **options)
        request.addfinalizer(broker.close)
        network = Network(broker.bootstrap_servers)
        request.addfinalizer(network.close)
        return broker, network

    return start


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_repeated_resets_under_load(broker: Broker, network: Network, protocol: str) -> None:
    """For three seconds, every connection breaks 0.2 s after its start, on a link with delay and jitter."""
    network.each(lambda proxy: proxy.switch(delay=0.005, jitter=0.01))
    over = threading.Event()
    sent = [0] * 4

    def write() -> None:
        with Producer(bootstrap_servers=network.bootstrap_servers, linger_ms=2) as producer:
            while not over.is_set():
                for p in range(4):
                    producer.send("four", b"%d" % sent[p], partition=p)
                    sent[p] += 1
                time.sleep(0.002)

    def break_all() -> None:
        until = time.monotonic() + 3
        while time.monotonic() < until:
            time.sleep(0.2)
            network.each(lambda proxy: proxy.reset())
        over.set()

    threads = [threading.Thread(target=write), threading.Thread(target=break_all)]
    for thread in threads:
        thread.start()
    seen: dict[int, dict[int, int]] = {p: {} for p in range(4)}
    with Consumer(
        bootstrap_servers=network.bootstrap_servers,
        group_id="g",
        group_protocol=protocol,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=100,
    ) as consumer:
        consumer.subscribe(["four"])
        until = time.monotonic() + 60
        while any(thread.is_alive() for thread in threads) or [len(seen[p]) for p in range(4)] != sent:
            assert time.monotonic() < until, (sent, {p: len(s) for p, s in seen.items()})
            batch = consumer.poll(0.2)
            columns = (batch[name].to_pylist() for name in ("partition", "offset", "value"))
            for p, o, v in zip(*columns, strict=True):
                seen[p][o] = int(v)
    for thread in threads:
        thread.join()
    for p in range(4):
        assert list(dict(sorted(seen[p].items())).values()) == list(range(sent[p])), "each once, in order"
        assert sorted(seen[p]) == list(range(sent[p])), "no idempotent record is in the log twice"
    requests = network.requests()
    # All connections were broken 15 times. A loop without a backoff would send thousands of requests.
    assert requests["Metadata"] <= 15 * 12
    assert requests["JoinGroup"] + requests["FindCoordinator"] + requests["InitProducerId"] <= 15 * 12


def test_short_lived_connections_make_progress(
    broker: Broker, network: Network, read: Callable[..., list[tuple[int, int, bytes]]]
) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=10_000) as producer:
        for _ in range(3000):
            producer.send("t", b"x" * 1000)
    network.each(lambda proxy: proxy.switch_one("answer", close_after=300_000))
    with Consumer(
        bootstrap_servers=network.bootstrap_servers, auto_offset_reset="earliest", fetch_max_bytes=100_000
    ) as consumer:
        consumer.assign([T0])
        assert [o for _, o, _ in read(consumer, 3000)] == list(range(3000))
    assert network.accepted() <= 60
