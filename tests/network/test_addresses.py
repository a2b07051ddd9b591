"""Host names with several addresses, IPv6, and brokers that return at other addresses or with other ids."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.testing import Broker
from support.proxy import Network

FOUR = [TopicPartition("four", p) for p in range(4)]
# Resolves `several.test` to the addresses in an environment variable, which would otherwise require root.
RESOLVER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

typedef int (*resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    resolve real = (resolve)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *told = getenv("SEVERAL_ADDRESSES");
    if (node == NULL || told == NULL || strcmp(node, "several.test") != 0) return real(node, service, hints, found);
    char *addresses = strdup(told), *rest = addresses, *one;
    struct addrinfo **last = found;
    int failed = EAI_NONAME;
    while ((one = strsep(&rest, ",")) != NULL) {
        failed = real(one, service, hints, last);
        if (failed) break;
        while (*last != NULL) last = &(*last)->ai_next;
    }
    free(addresses);
    return failed;
}
"""
READER = """
    import sys, time
    from samsarrow import Consumer, TopicPartition
    began = time.monotonic()
    with Consumer(
        bootstrap_servers=sys.argv[1], auto_offset_reset="earliest", request_timeout_ms=2000,
        socket_connection_setup_timeout_ms=2000,
    ) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        while not consumer.poll(1).num_rows:
            assert time.monotonic() - began < 30
    print(time.monotonic() - began)
"""


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("a name with several addresses needs cc and Linux's LD_PRELOAD")
    folder = tmp_path_factory.mktemp("resolver")
    (folder / "resolver.c").write_text(RESOLVER)
    command = [compiler, "-shared", "-fPIC", "-o", "resolver.so", "resolver.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "resolver.so"


def fill(broker: Broker, topic: str = "t") -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send(topic, b"x").result(30)


@pytest.fixture
def dead(network: Network) -> Iterator[Callable[[str, bool], None]]:
    """Returns a function that uses the first proxy's port on another address: closed, or silent after it accepts."""
    sockets = []

    def make(host: str, accepts: bool) -> None:
        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sockets.append(s)
        s.bind((host, network.proxies[0].port))
        if accepts:
            s.listen(64)

    yield make
    for s in sockets:
        s.close()


@pytest.mark.parametrize("first", ["127.0.0.2", "::1"])
@pytest.mark.parametrize("how", ["refuses", "accepts and is silent"])
def test_unreachable_first_address_falls_back_to_next(
    broker: Broker, network: Network, resolver: Path, dead: Callable[[str, bool], None], first: str, how: str
) -> None:
    """If an address accepts connections but is silent, the client waits for a timeout and then tries the next one
    (KIP-302).
    """
    fill(broker)
    dead(first, how == "accepts and is silent")
    # The bootstrap server is the only name with several addresses; each broker in its metadata has one.
    command = [sys.executable, "-c", textwrap.dedent(READER), f"several.test:{network.proxies[0].port}"]
    environment = {**os.environ, "LD_PRELOAD": str(resolver), "SEVERAL_ADDRESSES": f"{first},127.0.0.1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    # The wait for the dead address takes 2 s. The limit leaves time for a busy machine.
    assert float(done.stdout) < 15
    assert network.requests()["Metadata"] <= 10


@pytest.mark.parametrize("host", ["localhost", "::0:0:0:1"])
def test_brokers_with_host_name_or_ipv6(broker: Broker, host: str) -> None:
    try:
        network = Network(broker.bootstrap_servers, host=host)
    except OSError as error:
        pytest.skip(f"no IPv6 on loopback: {error}")
    with network:
        servers = network.bootstrap_servers
        assert servers.startswith("[" if ":" in host else "localhost:")
        with Producer(bootstrap_servers=servers) as producer:
            for i in range(40):
                producer.send("four", b"%d" % i, partition=i % 4)
        with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["four"])
            rows, until = 0, time.monotonic() + 30
            while rows < 40:
                assert time.monotonic() < until
                rows += consumer.poll(0.5).num_rows
            consumer.commit(timeout=20)
        with Admin(bootstrap_servers=servers.replace("::0:0:0:1", "::1")) as admin:
            assert [at.offset for at in admin.fetch_offsets("g").values() if at] == [10] * 4
        # Shows that all connections went through the proxies.
        requests = network.requests()
        assert requests["OffsetCommit"] >= 1
        assert requests["Metadata"] <= 30


class LiveClients:
    """A producer, an assigned consumer and a group member that run continuously; results are checked at the end."""

    def __init__(self, servers: str, protocol: str, **options: Any) -> None:
        config = {"bootstrap_servers": servers, "request_timeout_ms": 2000, **options}
        self.producer = Producer(linger_ms=0, delivery_timeout_ms=120_000, **config)
        self.assigned = Consumer(auto_offset_reset="earliest", **config)
        self.member = Consumer(
            group_id="g",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            group_protocol=protocol,
            **({"session_timeout_ms": 6000, "heartbeat_interval_ms": 500} if protocol == "classic" else {}),
            **config,
        )
        self.over = threading.Event()
        self.sent = 0
        self.deliveries: list[Any] = []
        self.seen: dict[str, list[tuple[int, int]]] = {"assigned": [], "member": []}
        self.odd: list[BaseException] = []
        self.assigned.assign(FOUR)
        self.member.subscribe(["four"])
        works: list[Callable[[], None]] = [
            self._send,
            lambda: self._read("assigned", self.assigned),
            lambda: self._read("member", self.member),
        ]
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            while not self.over.is_set():
                work()
        except BaseException as error:
            self.odd.append(error)

    def _send(self) -> None:
        self.deliveries.append(self.producer.send("four", b"%d" % self.sent, partition=self.sent % 4))
        self.sent += 1
        time.sleep(0.01)

    def _read(self, name: str, consumer: Consumer) -> None:
        batch = consumer.poll(0.2)
        self.seen[name] += zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)

    def wait_for_more(self, seconds: float = 60) -> None:
        """Waits until each client has made progress from now on."""
        before = (self.sent, {name: len(rows) for name, rows in self.seen.items()})
        mark, until = len(self.deliveries), time.monotonic() + seconds
        while True:
            done = sum(delivery.done() for delivery in self.deliveries[mark:])
            if done > 20 and all(len(rows) > before[1][name] + 20 for name, rows in self.seen.items()):
                return
            assert self.odd == []
            state = (done, before, {name: len(rows) for name, rows in self.seen.items()})
            assert time.monotonic() < until, f"nothing goes on: {state}"
            time.sleep(0.05)

    def end(self) -> None:
        """Checks that every record was delivered once and read."""
        until = time.monotonic() + 60
        deliveries = list(self.deliveries)
        expected = {(m.partition, m.offset) for m in (delivery.result(60) for delivery in deliveries)}
        assert len(expected) == len(deliveries), "an idempotent record has a place of its own"
        while not all(expected <= set(rows) for rows in self.seen.values()):
            assert time.monotonic() < until, {name: len(rows) for name, rows in self.seen.items()}
            time.sleep(0.1)
        self.close()
        assert self.odd == []
        assigned = self.seen["assigned"]
        assert len(assigned) == len(set(assigned)), "an assigned consumer is given each once"

    def close(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(30)
        for client in (self.producer, self.assigned, self.member):
            client.close(5)


@pytest.fixture
def live(request: pytest.FixtureRequest) -> Callable[..., LiveClients]:
    def make(servers: str, protocol: str, **options: Any) -> LiveClients:
        life = LiveClients(servers, protocol, **options)
        request.addfinalizer(life.close)
        return life

    return make


def few(count: int, began: float) -> float:
    """Returns the limit for requests: `count`, or ten per second after `began` if that is more, because clients retry
    until they recover.
    """
    return max(count, 10 * (time.monotonic() - began))


PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@PROTOCOLS
def test_recovers_when_all_brokers_move(
    broker: Broker, network: Network, live: Callable[..., LiveClients], protocol: str
) -> None:
    """All known addresses fail at the same time. The bootstrap server then returns the new addresses (KIP-899)."""
    # Another address of the first broker, which is in no metadata response.
    entrance = network.add(broker.bootstrap_servers.split(",")[0])
    life = live(entrance.address, protocol)
    life.wait_for_more()
    for _ in range(2):
        before, began = network.requests(), time.monotonic()
        network.each(lambda proxy: proxy is entrance or proxy.move())
        life.wait_for_more()
        assert (network.requests() - before)["Metadata"] <= few(60, began)
    life.end()


@PROTOCOLS
def test_recovers_when_all_brokers_move_behind_black_holes(
    broker: Broker, network: Network, live: Callable[..., LiveClients], protocol: str
) -> None:
    """The old addresses are black holes: connections time out instead of failing immediately."""
    servers = broker.bootstrap_servers.split(",")
    entrance = network.add(servers[0])
    life = live(
        entrance.address,
        protocol,
        socket_connection_setup_timeout_ms=1000,
    )
    life.wait_for_more()
    began = time.monotonic()
    old = [proxy for proxy in network.proxies if proxy is not entrance]
    for proxy in old:
        proxy.black_hole()
    network.prefer([network.add(server) for server in servers])
    life.wait_for_more(90)
    assert network.requests()["Metadata"] <= few(150, began)
    life.end()


@PROTOCOLS
def test_recovers_when_all_brokers_are_replaced(live: Callable[..., LiveClients], protocol: str) -> None:
    """Two brokers with other ids and addresses replace the two known brokers, so none of the brokers that clients know
    remains.
    """
    with Broker(brokers=4, topics={"four": 4}, auto_create_topics=False) as broker:
        servers = broker.bootstrap_servers.split(",")
        for node in (2, 3):
            broker.stop_broker(node)
        for partition in range(4):
            broker.move_leader("four", partition, partition % 2)
        with Network(",".join(servers)) as network:
            entrance = network.add(servers[0])
            life = live(entrance.address, protocol)
            life.wait_for_more()
            before, began = network.requests(), time.monotonic()
            for proxy in network.proxies[:2]:
                proxy.refuse()
            for node in (2, 3):
                broker.start_broker(node)
            for partition in range(4):
                broker.move_leader("four", partition, 2 + partition % 2)
            for node in (0, 1):
                broker.stop_broker(node)
            entrance.route_to(servers[2])
            entrance.reset()
            life.wait_for_more()
            assert (network.requests() - before)["Metadata"] <= few(60, began)
            life.end()
