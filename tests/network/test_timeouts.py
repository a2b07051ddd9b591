"""Calls end within their timeouts under all network faults, and clients do not retry in a hot loop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from samsarrow import Admin, Consumer, KafkaError, NewTopic, OffsetAndMetadata, Producer, TopicPartition
from samsarrow.testing import Broker
from support.proxy import Network, Proxy

# Timeout of the calls. It exceeds MORE, so that a call that takes twice the timeout fails.
T = 4.0
# Maximum number of seconds by which a call may exceed its timeout.
MORE = 3.5
T0 = TopicPartition("t", 0)
FAULTS: dict[str, Callable[[Proxy], Any]] = {
    "half open": Proxy.silence,
    "black hole": Proxy.black_hole,
    "refused": Proxy.refuse,
    "no answers": lambda proxy: proxy.switch_one("answer", hold=True),
    "no requests": lambda proxy: proxy.switch_one("request", hold=True),
    "closed at once": lambda proxy: (proxy.switch_one("request", close_after=0), proxy.reset()),
}
Call = Callable[[], Any]


def used_consumer(stack: ExitStack, servers: str, **options: Any) -> Consumer:
    """A consumer with open connections, assigned partitions, and offsets to commit."""
    consumer = Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", default_api_timeout_ms=int(T * 1000), **options
    )
    stack.callback(closed, consumer)
    if options.get("group_protocol"):
        consumer.subscribe(["t"])
    else:
        consumer.assign([T0])
    until = time.monotonic() + 30
    while not consumer.poll(0.2).num_rows:
        assert time.monotonic() < until
    return consumer


def closed(client: Any) -> None:
    """Closes a client in any state."""
    with suppress(KafkaError):
        client.close(*([] if isinstance(client, Admin) else [0]))


def calls(stack: ExitStack, servers: str) -> Iterator[tuple[str, Call]]:
    """Yields every blocking call with the timeout T. Each call has its own client, which has worked before."""
    offsets = {T0: OffsetAndMetadata(1)}
    on_consumer: dict[str, Callable[[Consumer], Any]] = {
        "poll": lambda c: c.poll(T),
        "commit": lambda c: c.commit(timeout=T),
        "committed": lambda c: c.committed([T0], timeout=T),
        "end_offsets": lambda c: c.end_offsets([T0], timeout=T),
        "beginning_offsets": lambda c: c.beginning_offsets([T0], timeout=T),
        "offsets_for_times": lambda c: c.offsets_for_times({T0: 0}, timeout=T),
        "position": lambda c: (c.seek_to_end(T0), c.position(T0, timeout=T)),
        "lag": lambda c: c.lag(timeout=T),
        "partitions_for": lambda c: c.partitions_for("other", timeout=T),
        "close": lambda c: c.close(T),
        "close with a commit": lambda c: (c.commit_async(offsets), c.close(T)),
    }
    for name, work in on_consumer.items():
        consumer = used_consumer(stack, servers, group_id=f"assigned {name}")
        yield f"consumer: {name}", lambda work=work, consumer=consumer: work(consumer)
    for protocol in ("classic", "consumer"):
        for name in ("poll", "commit", "close", "unsubscribe"):
            member = used_consumer(stack, servers, group_id=f"{protocol} {name}", group_protocol=protocol)
            on_member: dict[str, Callable[[Consumer], Any]] = {
                **on_consumer,
                "unsubscribe": lambda c: c.unsubscribe(timeout=T),
            }
            yield f"{protocol}: {name}", lambda work=on_member[name], member=member: work(member)

    def producer(**options: Any) -> Producer:
        made = Producer(bootstrap_servers=servers, max_block_ms=int(T * 1000), linger_ms=0, **options)
        stack.callback(closed, made)
        return made

    on_producer: dict[str, Callable[[Producer], Any]] = {
        "result": lambda p: p.send("t", b"x").result(T),
        "flush": lambda p: (p.send("t", b"x"), p.flush(T)),
        "close": lambda p: (p.send("t", b"x"), p.close(T)),
        "send to another topic": lambda p: p.send("four", b"x"),
        "partitions_for": lambda p: p.partitions_for("four"),
    }
    for name, send in on_producer.items():
        used = producer()
        used.send("t", b"x").result(30)
        yield f"producer: {name}", lambda send=send, used=used: send(used)
    small = producer(buffer_memory=20_000, delivery_timeout_ms=60_000)
    small.send("t", b"x").result(30)
    yield "producer: send without memory", lambda: [small.send("t", b"x" * 8000) for _ in range(10)]
    new = producer(transactional_id="init")
    yield "transaction: init", lambda: new.init_transactions(T)
    in_transaction: dict[str, Callable[[Producer], Any]] = {
        "commit": lambda p: p.commit_transaction(T),
        "abort": lambda p: p.abort_transaction(T),
        "close": lambda p: p.close(T),
    }
    for name, end in in_transaction.items():
        open_ = producer(transactional_id=name)
        open_.init_transactions(30)
        open_.begin_transaction()
        open_.send("t", b"x").result(30)
        yield f"transaction: {name}", lambda end=end, open_=open_: end(open_)
    on_admin: dict[str, Callable[[Admin], Any]] = {
        "list_topics": lambda a: a.list_topics(timeout=T),
        "create_topics": lambda a: a.create_topics([NewTopic("new", 1, 1)], timeout=T),
        "fetch_offsets": lambda a: a.fetch_offsets("g", timeout=T),
        "commit_offsets": lambda a: a.commit_offsets("g", offsets, timeout=T),
        "describe_groups": lambda a: a.describe_groups(["g"], timeout=T),
        "list_groups": lambda a: a.list_groups(timeout=T),
        "find_coordinator": lambda a: a.find_coordinator("g", timeout=T),
        "close": lambda a: a.close(),
    }
    for name, ask in on_admin.items():
        admin = Admin(bootstrap_servers=servers)
        stack.callback(closed, admin)
        admin.list_topics(timeout=30)
        yield f"admin: {name}", lambda ask=ask, admin=admin: ask(admin)
    # Clients that have never reached a broker.
    late = Consumer(bootstrap_servers=servers, group_id="late", default_api_timeout_ms=int(T * 1000))
    late.subscribe(["t"])
    stack.callback(closed, late)
    yield "new consumer: poll", lambda: late.poll(T)
    for name in ("end_offsets", "committed", "close"):
        fresh = Consumer(bootstrap_servers=servers, group_id="fresh", default_api_timeout_ms=int(T * 1000))
        stack.callback(closed, fresh)
        yield f"new consumer: {name}", lambda name=name, fresh=fresh: on_consumer[name](fresh)
    unused = producer()
    yield "new producer: send", lambda: unused.send("t", b"x")
    asking = Admin(bootstrap_servers=servers)
    stack.callback(closed, asking)
    yield "new admin: list_topics", lambda: asking.list_topics(timeout=T)


# If a broker closes the connection, the client retries once, because brokers without ApiVersions close it.
TRIES = {"closed at once": 2}


@pytest.mark.parametrize("fault", FAULTS)
def test_calls_end_within_their_timeouts(broker: Broker, network: Network, fault: str) -> None:
    took: dict[str, float] = {}
    odd: dict[str, BaseException] = {}
    with Producer(bootstrap_servers=broker.bootstrap_servers) as filler:
        filler.send("t", b"x").result(30)
    with ExitStack() as stack:
        todo = dict(calls(stack, network.bootstrap_servers))
        together = threading.Barrier(len(todo) + 1)

        def run(name: str, work: Call) -> None:
            together.wait(60)
            began = time.monotonic()
            try:
                work()
            except KafkaError:
                pass
            except BaseException as error:
                odd[name] = error
            took[name] = time.monotonic() - began

        threads = [threading.Thread(target=run, args=item, daemon=True) for item in todo.items()]
        for thread in threads:
            thread.start()
        network.each(FAULTS[fault])
        before, accepted = network.requests(), network.accepted()
        together.wait(60)
        until = time.monotonic() + 20
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        lasted = time.monotonic() - until + 20
        requests, connected = network.requests() - before, network.accepted() - accepted
        network.each(Proxy.heal)
    for name in todo:
        took.setdefault(name, 99.0)
    assert {name: round(seconds, 2) for name, seconds in took.items() if seconds > T + MORE} == {}
    assert odd == {}
    # A client has a few connections to each of two brokers, and tries each connection about six times in two seconds.
    assert connected <= len(todo) * 20 * TRIES.get(fault, 1) * max(1.0, lasted / 2), connected
    assert max(requests.values(), default=0) <= len(todo) * 20 * max(1.0, lasted / 2), requests


@pytest.mark.parametrize(
    ("protocol", "fault"), [("classic", "refused"), ("consumer", "half open"), ("consumer", "closed at once")]
)
def test_waiting_clients_back_off(broker: Broker, network: Network, protocol: str, fault: str) -> None:
    """Three clients without a broker for four seconds open few connections, and then recover."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as filler:
        filler.send("t", b"x").result(30)
    options: dict[str, Any] = {"bootstrap_servers": network.bootstrap_servers, "request_timeout_ms": 1000}
    with (
        Producer(linger_ms=0, delivery_timeout_ms=60_000, **options) as producer,
        Consumer(auto_offset_reset="earliest", **options) as assigned,
        Consumer(group_id="g", group_protocol=protocol, auto_offset_reset="earliest", **options) as member,
    ):
        producer.send("four", b"x").result(30)
        assigned.assign([T0])
        member.subscribe(["t"])
        for consumer in (assigned, member):
            until = time.monotonic() + 30
            while not consumer.poll(0.2).num_rows:
                assert time.monotonic() < until
        before, accepted = network.requests(), network.accepted()
        began = time.monotonic()
        network.each(FAULTS[fault])
        delivery = producer.send("four", b"y")
        while time.monotonic() - began < 4:
            assigned.poll(0.1)
            member.poll(0.1)
        requests, connected = network.requests() - before, network.accepted() - accepted
        longer = max(1.0, (time.monotonic() - began) / 4.5)
        network.each(Proxy.heal)
        # The backoff grows from 50 ms to 1 s, with a jitter of 20 %: seven or eight attempts in four seconds, to two
        # brokers, on a few connections each. In measurements, clients opened 94 to 101 connections.
        assert connected <= 150 * TRIES.get(fault, 1) * longer, connected
        assert max(requests.values(), default=0) <= 120 * longer, requests
        assert delivery.result(60).offset >= 0
        producer.send("t", b"z").result(60)
        for consumer in (assigned, member):
            values: list[bytes] = []
            until = time.monotonic() + 60
            while b"z" not in values:
                assert time.monotonic() < until, "it goes on when the brokers are back"
                values += consumer.poll(0.5)["value"].to_pylist()
