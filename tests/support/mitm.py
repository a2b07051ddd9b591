"""A proxy between a client and a plaintext broker that records requests and can modify responses.

    with Middle(broker.bootstrap_servers, answer=strip) as middle:
        Admin(bootstrap_servers=middle.address, ...)

Only connections to this address pass through the proxy, since the broker's metadata contains its own address.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from types import TracebackType

HANDSHAKE, VERSIONS, AUTHENTICATE = 17, 18, 36

# Function that gets the API key of a request, or None for an unframed SASL token, and the body of the broker's
# response. It returns the bytes to send, including the length prefix.
Answer = Callable[[int | None, bytes], bytes]


def framed(body: bytes) -> bytes:
    """Returns a frame: the body with its length prefix."""
    return len(body).to_bytes(4, "big") + body


class Middle:
    """Accepts connections until it is closed. `asked`: API keys of requests, `seen`: all bytes from clients."""

    def __init__(self, broker: str, *, answer: Answer | None = None, cut: int | None = None) -> None:
        host, port = broker.split(",")[0].rsplit(":", 1)
        self._broker = host, int(port)
        self._answer = answer or (lambda _, body: framed(body))
        # Number of response bytes after which each connection is closed; None for no limit.
        self._cut = cut
        self.asked: list[int | None] = []
        self.seen = bytearray()
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            broker, to_broker = await asyncio.open_connection(*self._broker)
            try:
                await self._relay(client, to_client, broker, to_broker)
            finally:
                to_broker.close()
        to_client.close()

    async def _relay(
        self,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        broker: asyncio.StreamReader,
        to_broker: asyncio.StreamWriter,
    ) -> None:
        raw, sent = False, 0
        while True:
            request = await self._frame(client)
            self.seen += request
            api = None if raw else int.from_bytes(request[:2], "big")
            # After SaslHandshake v0, SASL tokens are sent without a request header.
            raw = raw or (api == HANDSHAKE and request[2:4] == b"\0\0")
            self.asked.append(api)
            to_broker.write(framed(request))
            answer = self._answer(api, await self._frame(broker))
            if self._cut is not None and sent + len(answer) > self._cut:
                to_client.write(answer[: self._cut - sent])
                await to_client.drain()
                return
            sent += len(answer)
            to_client.write(answer)
            await to_client.drain()

    @staticmethod
    async def _frame(stream: asyncio.StreamReader) -> bytes:
        return await stream.readexactly(int.from_bytes(await stream.readexactly(4), "big"))

    def __enter__(self) -> Middle:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
