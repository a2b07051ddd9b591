"""An unreliable network for tests: a TCP proxy in front of each broker, with faults that can be changed at run time.

    with Broker(topics={"t": 1}) as broker, Network(broker.bootstrap_servers) as network:
        network.down.delay = 0.05
        with Consumer(bootstrap_servers=network.bootstrap_servers) as consumer: ...
        assert network.requests()["Metadata"] < 5

Responses that contain addresses of brokers (Metadata, FindCoordinator, ...) are rewritten, so that clients always
connect through the proxies. Only `127.0.0.1` and host names of the same length (`localhost`, `::0:0:0:1`) are
supported, so that a response keeps its length. One thread forwards all data, at up to about 1 GB/s, so clients do not
wait for the thread unless a bandwidth is set.

A black hole loses no bytes. TCP would retransmit lost bytes, so a client only observes that no data arrives.
"""

from __future__ import annotations

import heapq
import itertools
import random
import selectors
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

Side = Literal["request", "answer"]

APIS = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch",
    10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup", 15: "DescribeGroups",
    16: "ListGroups", 17: "SaslHandshake", 18: "ApiVersions", 19: "CreateTopics", 20: "DeleteTopics",
    22: "InitProducerId", 23: "OffsetForLeaderEpoch", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn",
    28: "TxnOffsetCommit", 36: "SaslAuthenticate", 37: "CreatePartitions", 42: "DeleteGroups", 47: "OffsetDelete",
    60: "DescribeCluster", 68: "ConsumerGroupHeartbeat", 69: "ConsumerGroupDescribe", 71: "GetTelemetrySubscriptions",
}  # fmt: skip
NAMES_BROKERS = {"Produce", "Fetch", "Metadata", "FindCoordinator", "DescribeCluster"}
# Maximum size of Fetch responses that are rewritten. Longer ones contain records and no addresses of brokers.
LONGEST_REWRITTEN_FETCH = 4096
CHUNK = 256 * 1024
# Capacity of a simulated router's buffer, in addition to the bytes in flight.
ROUTER_BUFFER = 256 * 1024
RESET = struct.pack("ii", 1, 0)


@dataclass
class Link:
    """One direction of a proxy. All connections in this direction share the bandwidth.

    Attributes:
        delay: one-way delay in seconds.
        jitter: maximum additional delay in seconds; the order is kept.
        bandwidth: bytes per second, `None` for no limit.
        hold: True to hold back all data until it is `False` again; no data is lost.
        close_after: number of bytes in this direction after which connections end, even within a message.
    """

    delay: float = 0.0
    jitter: float = 0.0
    bandwidth: float | None = None
    hold: bool = False
    close_after: int | None = None
    free_at: float = 0.0

    def due(self, now: float, size: int) -> float:
        """Returns the time at which the last of `size` bytes arrives if they are sent at `now`."""
        if self.bandwidth is not None:
            self.free_at = max(now, self.free_at) + size / self.bandwidth
            now = self.free_at
        return now + self.delay + (random.random() * self.jitter if self.jitter else 0.0)

    def capacity(self) -> int:
        """Returns the maximum number of bytes in flight in this direction."""
        speed = self.bandwidth if self.bandwidth is not None else 1e9
        return ROUTER_BUFFER + int(speed * (self.delay + self.jitter))

    def chunk(self) -> int:
        # A chunk is at most the data of 10 ms, so that bytes flow evenly.
        return CHUNK if self.bandwidth is None else max(1024, min(CHUNK, int(self.bandwidth / 100)))


@dataclass
class Cut:
    """A fault that breaks a connection within or after a message of an API."""

    api: str
    side: Side
    share: float
    times: int | None
    reset: bool


class Loop(threading.Thread):
    """Thread that forwards the bytes of all proxies."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="proxy")
        self.selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self.selector.register(self._woken, selectors.EVENT_READ, self._wake)
        self._over = False

    def call(self, work: Callable[[], Any]) -> Any:
        """Runs `work` in the proxy thread and returns its result."""
        done: Future[Any] = Future()
        self._calls.append((work, done))
        self._waker.send(b"x")
        return done.result(30)

    def at(self, when: float, work: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when, next(self._numbers), work))

    def _wake(self, _mask: int) -> None:
        with suppress(BlockingIOError):
            self._woken.recv(4096)

    def run(self) -> None:
        while not self._over:
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None
            for key, mask in self.selector.select(wait):
                key.data(mask)
            while self._calls:
                work, done = self._calls.popleft()
                try:
                    done.set_result(work())
                except Exception as error:
                    done.set_exception(error)
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()

    def end(self) -> None:
        self.call(lambda: setattr(self, "_over", True))
        self.join(10)
        self.selector.close()
        self._waker.close()
        self._woken.close()


class Frames:
    """Parses the messages in one direction of a connection to count them, cut them and rewrite addresses."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._head = bytearray()
        self._needed = 12 if pipe.side == "request" else 8
        self._left = 0
        self._whole: bytearray | None = None
        self._cut: Cut | None = None

    def feed(self, data: memoryview) -> Iterable[bytes | memoryview | Cut]:
        """Yields the bytes to forward, in order. A `Cut` means that the connection must be broken."""
        while data:
            if self._left == 0:
                taken = self._needed - len(self._head)
                self._head += data[:taken]
                data = data[taken:]
                if len(self._head) < self._needed:
                    return
                yield from self._begin(bytes(self._head))
                self._head.clear()
                if self._left == 0 and self._cut is None:
                    continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            if self._whole is None:
                if piece:
                    yield piece
            else:
                self._whole += piece
                if self._left == 0:
                    yield self._pipe.connection.proxy.network.rewritten(self._whole)
                    self._whole = None
            if self._left == 0 and self._cut is not None:
                yield self._cut
                return

    def _begin(self, head: bytes) -> Iterable[bytes]:
        size = int.from_bytes(head[:4], "big")
        rest = size + 4 - len(head)
        connection = self._pipe.connection
        if self._pipe.side == "request":
            key, _version, correlation = struct.unpack(">hhi", head[4:12])
            api = APIS.get(key, str(key))
            connection.proxy.counted[api] += 1
            connection.waiting[correlation] = (api, connection.proxy.cut_of(api, "answer"))
            self._cut = connection.proxy.cut_of(api, "request")
        else:
            api, self._cut = connection.waiting.pop(int.from_bytes(head[4:8], "big"), ("", None))
            named = api in NAMES_BROKERS and (api not in ("Fetch", "Produce") or size <= LONGEST_REWRITTEN_FETCH)
            if named and self._cut is None:
                self._whole = bytearray(head)
                self._left = rest
                if rest == 0:
                    whole, self._whole = bytes(self._whole), None
                    yield whole
                return
        if self._cut is not None:
            # With a share of 0 no byte of the message is forwarded.
            rest = int(rest * self._cut.share)
            if self._cut.share == 0:
                self._left = 0
                return
        self._left = rest
        yield head


class Pipe:
    """One direction of a connection."""

    def __init__(self, connection: Connection, side: Side, source: socket.socket, sink: socket.socket) -> None:
        self.connection, self.side, self.source, self.sink = connection, side, source, sink
        self.link = connection.proxy.up if side == "request" else connection.proxy.down
        self._frames = Frames(self)
        self._queue: deque[tuple[float, bytes | memoryview | Cut | None]] = deque()
        self._queued = 0
        self._last_due = 0.0
        self._passed = 0
        self._ended = False
        self.finished = False
        self._timed: float | None = None

    def wants_to_read(self) -> bool:
        return not self._ended and not self.link.hold and self._queued < self.link.capacity()

    def wants_to_write(self) -> bool:
        return bool(self._queue) and not self.link.hold and self._queue[0][0] <= time.monotonic()

    def read(self) -> None:
        try:
            data = self.source.recv(self.link.chunk())
        except BlockingIOError:
            return
        except OSError:
            self.connection.end(reset=True)
            return
        if not data:
            self._ended = True
            self._push(None, 0)
            return
        for piece in self._frames.feed(memoryview(data)):
            if isinstance(piece, Cut):
                self._ended = True
                self._push(piece, 0)
                return
            self._push(piece, len(piece))

    def _push(self, what: bytes | memoryview | Cut | None, size: int) -> None:
        due = max(self._last_due, self.link.due(time.monotonic(), size))
        self._last_due = due
        self._queue.append((due, what))
        self._queued += size

    def write(self) -> None:
        """Sends the data that is due. Other data waits until it is due or the socket has space."""
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now and not self.link.hold:
            due, what = self._queue[0]
            if what is None:
                self._queue.popleft()
                self.finished = True
                with suppress(OSError):
                    self.sink.shutdown(socket.SHUT_WR)
                self.connection.finish()
                return
            if isinstance(what, Cut):
                self.connection.end(reset=what.reset)
                return
            limit = self.link.close_after
            allowed = what if limit is None else what[: max(0, limit - self._passed)]
            if limit is not None and not allowed:
                self.connection.end(reset=False)
                return
            try:
                sent = self.sink.send(allowed)
            except BlockingIOError:
                return
            except OSError:
                self.connection.end(reset=True)
                return
            self._passed += sent
            self._queued -= sent
            self.connection.proxy.carried[self.side] += sent
            if sent == len(what):
                self._queue.popleft()
            else:
                self._queue[0] = (due, memoryview(what)[sent:])
        self._wait()

    def _wait(self) -> None:
        """Schedules `_due` for the time at which the next data is due."""
        if self._queue and not self.link.hold and self._timed != self._queue[0][0]:
            when = self._queue[0][0]
            if when > time.monotonic():
                self._timed = when
                self.connection.proxy.network.loop.at(when, self._due)

    def _due(self) -> None:
        self._timed = None
        if not self.connection.over:
            self.write()
            self.connection.watch()


class Connection:
    """A connection between a client and a broker, with the data in flight."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self.proxy, self.client, self.broker = proxy, client, broker
        # APIs of pending requests by correlation id, each with the cut that applies to the response.
        self.waiting: dict[int, tuple[str, Cut | None]] = {}
        self.over = False
        for s in (client, broker):
            s.setblocking(False)
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.up = Pipe(self, "request", client, broker)
        self.down = Pipe(self, "answer", broker, client)
        self._masks: dict[socket.socket, int] = {client: 0, broker: 0}
        self.watch()

    def watch(self) -> None:
        """Registers the sockets for exactly those events that can be handled at present."""
        if self.over:
            return
        for s, reads, writes in ((self.client, self.up, self.down), (self.broker, self.down, self.up)):
            mask = (selectors.EVENT_READ if reads.wants_to_read() else 0) | (
                selectors.EVENT_WRITE if writes.wants_to_write() else 0
            )
            if mask == self._masks[s]:
                continue
            selector = self.proxy.network.loop.selector
            if self._masks[s] == 0:
                selector.register(s, mask, self._ready(reads, writes))
            elif mask == 0:
                selector.unregister(s)
            else:
                selector.modify(s, mask, self._ready(reads, writes))
            self._masks[s] = mask

    def _ready(self, reads: Pipe, writes: Pipe) -> Callable[[int], None]:
        def ready(mask: int) -> None:
            if mask & selectors.EVENT_WRITE and not self.over:
                writes.write()
            if mask & selectors.EVENT_READ and not self.over and reads.wants_to_read():
                reads.read()
                if not self.over:
                    reads.write()
            self.watch()

        return ready

    def touch(self) -> None:
        """Continues to forward data after a fault was changed."""
        for pipe in (self.up, self.down):
            if not self.over:
                pipe.write()
        self.watch()

    def finish(self) -> None:
        if self.up.finished and self.down.finished:
            self.end(reset=False)

    def end(self, *, reset: bool) -> None:
        if self.over:
            return
        self.over = True
        for s, mask in self._masks.items():
            if mask:
                self.proxy.network.loop.selector.unregister(s)
            with suppress(OSError):
                if reset:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                s.close()
        self.proxy.alive.discard(self)


class Proxy:
    """A proxy in front of one broker."""

    def __init__(self, network: Network, upstream: tuple[str, int], host: str) -> None:
        self.network, self.upstream, self.host = network, upstream, host
        # Address to which connections are forwarded, which is another broker's after `route_to`.
        self._target = upstream
        self.up, self.down = Link(), Link()
        self.alive: set[Connection] = set()
        self.counted: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()
        self.accepted = 0
        self._cuts: list[Cut] = []
        self._silent = False
        # Connections that fill the backlog of a black hole, and accepted connections that are never served.
        self._idle: list[socket.socket] = []
        self._bind(0)

    def _bind(self, port: int) -> None:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1" if family == socket.AF_INET else self.host, port))
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._listening = False

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def _listen(self) -> None:
        self._listener.listen(512)
        if not self._listening:
            self._listening = True
            self.network.loop.selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _deaf(self) -> None:
        if self._listening:
            self._listening = False
            self.network.loop.selector.unregister(self._listener)

    def _accept(self, _mask: int) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self._silent:
                self._idle.append(client)
                continue
            try:
                broker = socket.create_connection(self._target, timeout=2)
            except OSError:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                client.close()
                continue
            self.alive.add(Connection(self, client, broker))

    def cut_of(self, api: str, side: Side) -> Cut | None:
        for cut in self._cuts:
            if cut.api == api and cut.side == side and cut.times != 0:
                if cut.times is not None:
                    cut.times -= 1
                return cut
        return None

    # Tests call the following methods from their own threads.

    def cut(
        self, api: str, side: Side = "answer", *, share: float = 0.0, times: int | None = 1, reset: bool = True
    ) -> None:
        """Breaks the connection in the next messages of an API.

        Args:
            api: name of the API.
            side: `request` cuts before the broker has read it, `answer` after the broker has handled it.
            share: fraction of the message that still arrives.
            times: number of messages, `None` for all.
            reset: True for RST, False for an orderly close.
        """
        self.network.loop.call(lambda: self._cuts.append(Cut(api, side, share, times, reset)))

    def reset(self, *, reset: bool = True) -> int:
        """Closes all connections, by RST or in an orderly way, and returns their number."""

        def work() -> int:
            connections = list(self.alive)
            for connection in connections:
                connection.end(reset=reset)
            return len(connections)

        return int(self.network.loop.call(work))

    def switch(self, **faults: Any) -> None:
        """Sets faults in both directions, for example `switch(delay=0.05, bandwidth=10e6)`."""

        def work() -> None:
            for link in (self.up, self.down):
                for name, value in faults.items():
                    setattr(link, name, value)
            for connection in list(self.alive):
                connection.touch()

        self.network.loop.call(work)

    def switch_one(self, side: Side, **faults: Any) -> None:
        """Sets faults of one direction."""

        def work() -> None:
            for name, value in faults.items():
                setattr(self.up if side == "request" else self.down, name, value)
            for connection in list(self.alive):
                connection.touch()

        self.network.loop.call(work)

    def refuse(self) -> None:
        """Closes all connections and rejects new ones, like a host on which no broker runs. The port stays reserved."""

        def work() -> None:
            self._deaf()
            self._listener.close()
            self._bind(self.port)

        self.network.loop.call(work)
        self.reset()

    def silence(self) -> None:
        """Simulates half-open connections: they stay open and new ones are accepted, but no data is forwarded."""
        self.switch(hold=True)
        self.network.loop.call(lambda: setattr(self, "_silent", True))

    def black_hole(self) -> None:
        """Accepts no connections and acknowledges no SYN. Existing connections stay open, but forward no data."""

        def work() -> None:
            self._deaf()
            self._listener.listen(0)
            family = self._listener.family
            for _ in range(4):
                filler = socket.socket(family)
                filler.setblocking(False)
                filler.connect_ex(self._listener.getsockname())
                self._idle.append(filler)

        self.switch(hold=True)
        self.network.loop.call(work)

    def heal(self) -> None:
        """Ends all faults, and resets connections that the broker has never seen."""

        def work() -> None:
            self._cuts.clear()
            self._silent = False
            for s in self._idle:
                with suppress(OSError):
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    s.close()
            self._idle.clear()
            self._listen()

        self.network.loop.call(work)
        self.switch(delay=0.0, jitter=0.0, bandwidth=None, hold=False, close_after=None)

    def route_to(self, server: str | None) -> None:
        """Forwards new connections to another server, or with None to this proxy's broker. Existing ones stay."""
        host, _, port = (server or "").rpartition(":")
        target = (host, int(port)) if server else self.upstream
        self.network.loop.call(lambda: setattr(self, "_target", target))

    def move(self) -> None:
        """Moves the proxy to another port and closes the old port."""

        def work() -> None:
            self._deaf()
            self._listener.close()
            self._bind(0)
            self._listen()

        self.network.loop.call(work)
        self.reset()

    def requests(self) -> Counter[str]:
        """Returns the number of requests by API."""
        return Counter(self.network.loop.call(self.counted.copy))

    def close(self) -> None:
        """Closes the port and all connections; called in the proxy thread."""
        self._deaf()
        self._listener.close()
        for s in self._idle:
            s.close()
        for connection in list(self.alive):
            connection.end(reset=True)


class Network:
    """A proxy in front of each broker.

    Args:
        servers: addresses of the brokers, all on 127.0.0.1.
        host: host name of the proxies: `127.0.0.1`, `localhost` or `::0:0:0:1`.
    """

    def __init__(self, servers: str, host: str = "127.0.0.1") -> None:
        assert len(host) == len("127.0.0.1"), "a name of the same length: answers are rewritten in place"
        self.loop = Loop()
        self.loop.start()
        self._host = host
        self.proxies: list[Proxy] = []
        for server in servers.split(","):
            self.add(server)

    def add(self, server: str) -> Proxy:
        """Adds a proxy for another broker."""
        host, _, port = server.rpartition(":")

        def work() -> Proxy:
            proxy = Proxy(self, (host, int(port)), self._host)
            proxy._listen()
            self.proxies.append(proxy)
            return proxy

        made: Proxy = self.loop.call(work)
        return made

    def prefer(self, proxies: Iterable[Proxy]) -> None:
        """Makes responses contain the addresses of these proxies, for brokers that have several proxies."""

        def work() -> None:
            chosen = list(proxies)
            self.proxies = chosen + [proxy for proxy in self.proxies if proxy not in chosen]

        self.loop.call(work)

    def rewritten(self, answer: bytearray) -> bytes:
        """Returns the response with the addresses of brokers replaced by those of their proxies."""
        message = bytes(answer)
        if b"127.0.0.1" in message:
            # Each address is replaced in two steps, since a proxy may have the former port of another broker.
            for i, proxy in enumerate(self.proxies):
                message = message.replace(_encoded_address(*proxy.upstream), b"<<<<<<<<<" + struct.pack(">I", i))
            for i, proxy in enumerate(self.proxies):
                message = message.replace(b"<<<<<<<<<" + struct.pack(">I", i), _encoded_address(proxy.host, proxy.port))
        return message

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(proxy.address for proxy in self.proxies)

    def requests(self) -> Counter[str]:
        """Returns the number of requests to all brokers, by API."""
        return Counter(self.loop.call(lambda: sum((proxy.counted for proxy in self.proxies), Counter())))

    def accepted(self) -> int:
        """Returns the number of connections that all proxies have accepted."""
        return sum(proxy.accepted for proxy in self.proxies)

    def carried(self, side: Side) -> int:
        """Returns the number of bytes that have arrived at all proxies."""
        return sum(proxy.carried[side] for proxy in self.proxies)

    def each(self, work: Callable[[Proxy], Any]) -> None:
        """Calls a function with each proxy."""
        for proxy in self.proxies:
            work(proxy)

    def close(self) -> None:
        self.loop.call(lambda: self.each(Proxy.close))
        self.loop.end()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _encoded_address(host: str, port: int) -> bytes:
    """Returns an address as encoded in responses: the host followed by the port in four bytes."""
    return host.encode() + struct.pack(">I", port)
