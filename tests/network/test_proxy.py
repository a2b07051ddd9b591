"""Tests the faults that the test proxy itself injects."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from support.measurements import tell
from support.proxy import Network, Proxy


class Echo:
    """Echoes every frame after its correlation id, like a broker with a single response."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.taken = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            while size := connection.recv(4, socket.MSG_WAITALL):
                body = connection.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
                self.taken += len(body)
                answer = body[4:8] + b"127.0.0.1" + struct.pack(">I", int(self.address.rpartition(":")[2])) + body[8:]
                connection.sendall(len(answer).to_bytes(4, "big") + answer)
        except OSError:
            pass

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Network(echo.address) as network:
        yield network.proxies[0]


def connect(proxy: Proxy, timeout: float = 10) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=timeout)


def request(api: int, size: int = 0, correlation: int = 1) -> bytes:
    return struct.pack(">ihhi", 8 + size, api, 0, correlation) + b"x" * size


def answer(s: socket.socket) -> bytes:
    """Returns a complete response, or the part received before the end of the connection."""
    whole = b""
    while (missing := 4 - len(whole) if len(whole) < 4 else 4 + int.from_bytes(whole[:4], "big") - len(whole)) > 0:
        part = s.recv(missing)
        if not part:
            return whole
        whole += part
    return whole


def test_frames_are_forwarded_counted_and_rewritten(proxy: Proxy) -> None:
    with connect(proxy) as s:
        # Sends two frames byte by byte.
        for byte in request(3, 5) + request(12, 3, correlation=2):
            s.sendall(bytes([byte]))
        response = answer(s)
        assert response[8:].startswith(b"127.0.0.1" + struct.pack(">I", proxy.port))
        assert response.endswith(b"xxxxx")
        response = answer(s)
        assert b"127.0.0.1" in response
        assert struct.pack(">I", proxy.port) not in response, "a heartbeat response has no addresses"
    assert proxy.requests() == {"Metadata": 1, "Heartbeat": 1}
    assert proxy.accepted == 1


def test_delay_per_direction(proxy: Proxy) -> None:
    proxy.switch(delay=0.1)
    with connect(proxy) as s:
        began = time.monotonic()
        s.sendall(request(12))
        answer(s)
        assert 0.2 <= time.monotonic() - began < 10
        proxy.switch_one("answer", delay=0.0)
        began = time.monotonic()
        s.sendall(request(12))
        answer(s)
        assert 0.1 <= time.monotonic() - began < 10


def test_bandwidth_is_shared(proxy: Proxy) -> None:
    proxy.switch(bandwidth=4e6, delay=0.05)

    def move() -> None:
        with connect(proxy, 60) as s:
            s.sendall(request(1, 2_000_000))
            moved.append(len(answer(s)))

    moved: list[int] = []
    threads = [threading.Thread(target=move) for _ in range(2)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Two connections each send 2 MB up and down. This takes one second for each direction; the directions overlap in
    # part.
    assert 1.0 <= time.monotonic() - began < 10
    assert len(moved) == 2
    assert min(moved) > 2_000_000


def test_jitter_preserves_order(proxy: Proxy) -> None:
    proxy.switch(jitter=0.02)
    with connect(proxy) as s:
        for i in range(50):
            s.sendall(request(12, 4, correlation=i))
        assert [int.from_bytes(answer(s)[4:8], "big") for _ in range(50)] == list(range(50))


def test_proxy_throughput() -> None:
    # Discards data, so that only the proxy is measured.
    sink = socket.create_server(("127.0.0.1", 0))
    size = 256 * 1024 * 1024

    def swallow() -> None:
        connection, _ = sink.accept()
        buffer = bytearray(1 << 20)
        got = 0
        while got < size + 12:
            got += connection.recv_into(buffer)
        connection.sendall(b"\0\0\0\x04\0\0\0\x01")

    threading.Thread(target=swallow, daemon=True).start()
    with sink, Network(f"127.0.0.1:{sink.getsockname()[1]}") as network, connect(network.proxies[0], 60) as s:
        block = memoryview(b"\0" * (1 << 20))
        began, worked = time.monotonic(), time.process_time()
        s.sendall(struct.pack(">ihhi", 8 + size, 0, 0, 1))
        for _ in range(256):
            s.sendall(block)
        assert len(answer(s)) == 8
        speed = size / (time.monotonic() - began) / 1e6
        busy = size / (time.process_time() - worked) / 1e6
    tell(f"{speed:.0f} MB/s through the proxy, {busy:.0f} MB in a second of work")
    # The goal is 200 MB/s. On a shared machine the CPU time counts: the limit is twice the rate of the fastest
    # simulated link.
    assert busy > 100
    assert speed > 20


@pytest.mark.parametrize(("side", "share"), [("request", 0.0), ("request", 0.5), ("answer", 0.0), ("answer", 0.5)])
def test_cut_at_position(echo: Echo, proxy: Proxy, side: str, share: float) -> None:
    proxy.cut("Fetch", side, share=share, reset=False)
    with connect(proxy) as s:
        s.sendall(request(12, 10))
        assert len(answer(s)) == 4 + 4 + 13 + 10
        s.sendall(request(1, 1000))
        came = answer(s)
        assert len(came) < 700
        assert (len(came) > 400) == (side == "answer" and share > 0)
        # The broker has received the whole request only if the response was cut.
        assert (echo.taken > 1000) == (side == "answer")
    with connect(proxy) as s:
        s.sendall(request(1, 1000))
        assert len(answer(s)) > 1000, "once only"


def test_resets_and_closes(proxy: Proxy) -> None:
    with connect(proxy) as s:
        s.sendall(request(12))
        answer(s)
        assert proxy.reset() == 1
        with pytest.raises(ConnectionResetError):
            s.recv(1)
    with connect(proxy) as s:
        s.sendall(request(12))
        answer(s)
        proxy.reset(reset=False)
        assert s.recv(1) == b""
    proxy.switch_one("answer", close_after=100)
    with connect(proxy) as s:
        s.sendall(request(1, 1000))
        assert len(answer(s)) == 100


def test_half_open_black_hole_and_refusal_can_be_healed(proxy: Proxy) -> None:
    with connect(proxy) as old:
        proxy.silence()
        old.sendall(request(12))
        with connect(proxy, 0.3) as new:
            new.sendall(request(12))
            for s in (old, new):
                s.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    s.recv(1)
            proxy.heal()
            old.settimeout(10)
            answer(old)
            with pytest.raises(ConnectionResetError):
                new.recv(1)
        proxy.black_hole()
        with pytest.raises(TimeoutError):
            connect(proxy, 0.3)
        proxy.heal()
        old.sendall(request(12))
        answer(old)
    proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.heal()
    old_port = proxy.port
    proxy.move()
    assert proxy.port != old_port
    connect(proxy).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", old_port), timeout=1)
