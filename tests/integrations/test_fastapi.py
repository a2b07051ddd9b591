"""The service of examples/fastapi: all instances return the latest writes, and errors are reported."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker
from support.examples import module

pytest.importorskip("fastapi", reason="FastAPI is not installed")
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

JSON = {"content-type": "application/json"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"devices": 2}) as broker:
        yield broker


@pytest.fixture
def service(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example loaded as a module."""
    monkeypatch.setenv("BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    result = module("fastapi/service.py")
    monkeypatch.setattr(result, "PAUSE", 0.05)
    monkeypatch.setattr(result, "PATIENCE", 30.0)
    return result


@asynccontextmanager
async def instance(service: Any) -> AsyncIterator[Any]:
    """An instance of the service with its lifespan, and a client for it."""
    async with service.app.router.lifespan_context(service.app) as state:

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await service.app({**scope, "state": dict(state)}, receive, send)

        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60) as client:
            yield client


async def until_ready(client: Any, status: int = 200) -> None:
    deadline = time.monotonic() + 60
    while (await client.get("/ready")).status_code != status:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_writes_are_visible_on_all_instances(service: Any) -> None:
    async def main() -> None:
        async with instance(service) as one, instance(service) as other:
            for number in range(20):
                written = await one.put(f"/devices/d{number % 5}", json={"number": number})
                assert written.status_code == 200
                place = written.json()
                # Each instance returns the write, because the request waits until the instance has read the record.
                for client in (one, other):
                    shown = await client.get(f"/devices/d{number % 5}", params=place)
                    assert shown.json() == {"number": number}
            gone = (await one.delete("/devices/d3")).json()
            assert (await other.get("/devices/d3", params=gone)).status_code == 404
        # An instance that starts later builds the same state from the topic.
        async with instance(service) as later:
            await until_ready(later)
            shown = [(await later.get(f"/devices/d{n}")).json() for n in (0, 1, 2, 3, 4)]
        assert shown == [
            {"number": 15},
            {"number": 16},
            {"number": 17},
            {"detail": "there is no device 'd3'"},
            {"number": 19},
        ]

    asyncio.run(main())


def test_concurrent_writes_share_requests(service: Any, broker: Broker) -> None:
    async def main() -> None:
        async with instance(service) as client:
            await until_ready(client)
            puts = [client.put(f"/devices/d{number}", json=number) for number in range(300)]
            places = [response.json() for response in await asyncio.gather(*puts)]
            assert len({(place["partition"], place["offset"]) for place in places}) == 300
            gets = [client.get(f"/devices/d{n}", params=place) for n, place in enumerate(places)]
            assert [response.json() for response in await asyncio.gather(*gets)] == list(range(300))

    asyncio.run(main())
    assert broker.requests()["Produce"] < 300


def test_service_is_ready_after_initial_read(service: Any, broker: Broker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(20_000):
            producer.send("devices", str(number), f"d{number % 100}", partition=number % 2)
        for odd in (b"{", b"NaN", b"\xff", b"[" * 100_000):
            producer.send("devices", odd, "d7", partition=1)
        producer.send("devices", "1", None)
    broker.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=None)

    async def main() -> None:
        async with instance(service) as client:
            # Until the initial records are read, the service returns 503 instead of 404.
            assert {(await client.get(path)).status_code for path in ("/ready", "/devices/d7")} == {503}
            broker.heal()
            await until_ready(client)
            # Values that are not JSON were skipped, so the state is that of the last valid value.
            assert (await client.get("/devices/d7")).json() == 19_907

    asyncio.run(main())


def test_write_errors_are_reported(service: Any, broker: Broker) -> None:
    async def main() -> None:
        async with instance(service) as client:
            await until_ready(client)
            place = (await client.put("/devices/a", json=1)).json()
            broker.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED")
            failed = await client.put("/devices/a", json=2)
            assert failed.status_code == 503
            assert "TopicAuthorizationFailedError" in failed.json()["detail"]
            for wrong in (b"NaN", b"{"):
                assert (await client.put("/devices/a", content=wrong, headers=JSON)).status_code == 422
            assert (await client.put("/devices/a", json="x" * (2 << 20))).status_code == 413
            assert (await client.get("/devices/a", params=place)).json() == 1
            service.PATIENCE = 0.05
            late = await client.get("/devices/a", params={"partition": 0, "offset": 1000})
            assert late.json() == {"detail": "offset 1000 of partition 0 is not read yet"}
            assert late.status_code == 504
            assert (await client.get("/devices/a", params={"offset": -1})).status_code == 422

    asyncio.run(main())


def test_reading_resumes_after_an_error(service: Any, broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with instance(service) as client:
            await until_ready(client)
            place = (await client.put("/devices/a", json=1)).json()
            assert (await client.get("/devices/a", params=place)).json() == 1
            broker.fail("Fetch", error="TOPIC_AUTHORIZATION_FAILED", times=None)
            await until_ready(client, 503)
            # The state that was read before the error remains visible.
            assert (await client.get("/devices/a")).json() == 1
            broker.heal()
            await until_ready(client)
            place = (await client.put("/devices/a", json=2)).json()
            assert (await client.get("/devices/a", params=place)).json() == 2

    asyncio.run(main())
    assert "reading devices failed" in caplog.text
