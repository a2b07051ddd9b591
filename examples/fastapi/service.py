"""A web service over a compacted topic: what is written goes into the topic, what is read is the state that came of it.

    BOOTSTRAP_SERVERS=localhost:9092 TOPIC=devices uvicorn service:app

    curl -X PUT localhost:8000/devices/lamp -H 'content-type: application/json' -d '{"on": true}'
    {"partition":0,"offset":17}
    curl 'localhost:8000/devices/lamp?partition=0&offset=17'
    {"on":true}

The topic is the only store: each instance reads all of it from its beginning, in a task of its lifespan, and answers
from memory. `/ready` is 503 until what was there at the start is read, and again if reading does not go on.

- PUT and DELETE answer when the record is stored (`acks=all`); with 503 and what went wrong if it is not.
- GET shows what was read so far. With the partition and offset that PUT gave, it waits until that is read: own writes
  are seen, by whichever instance answers.
- A value in the topic that is no JSON is logged and passed over.

Partitions that the topic gets later are read from the next start on.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any

from fastapi import Body, FastAPI, HTTPException, Query, Request, Response
from fastapi.responses import JSONResponse

from samsarrow import AsyncConsumer, AsyncProducer, KafkaError
from samsarrow.exceptions import MessageTooLargeError

SERVERS = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
TOPIC = os.environ.get("TOPIC", "devices")
PATIENCE, PAUSE = 5.0, 1.0
# Nobody waits longer for a web page.
TIMES = {"request.timeout.ms": 5_000, "delivery.timeout.ms": 10_000, "max.block.ms": 5_000}
log = logging.getLogger("service")


class Devices:
    """The latest state of each device, and how far the topic is read; None before all that was there is read."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] | None = None
        self.positions: dict[int, int] = {}
        self.ready = False
        self._moved = asyncio.Condition()

    async def moved(self, latest: dict[str, Any], positions: dict[int, int]) -> None:
        """Shows what was read, and wakes those who wait for it."""
        async with self._moved:
            self.latest, self.positions, self.ready = latest, positions, True
            self._moved.notify_all()

    async def reached(self, partition: int, offset: int) -> None:
        """Waits until a record is read."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.positions.get(partition, 0) > offset)


def take(latest: dict[str, Any], key: bytes | None, value: bytes | None) -> None:
    """One record."""
    device = (key or b"").decode(errors="replace")
    if value is None:
        latest.pop(device, None)
        return
    try:
        latest[device] = json.loads(value, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        log.warning("device %r has a state that is no JSON: %s", device, error)


def no_number(name: str) -> None:
    """Python would take NaN and infinities, and answers could not have them."""
    raise ValueError(f"{name} is no JSON")


async def read(devices: Devices) -> None:
    """Reads the topic for ever; what was there at the start is shown at once."""
    async with AsyncConsumer(
        bootstrap_servers=SERVERS, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        partitions = await consumer.partitions_for(TOPIC)
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        latest: dict[str, Any] = {}
        caught_up = False
        while True:
            # Without a wait at first: there may be nothing.
            batch = await consumer.poll(1.0 if caught_up else 0.05)
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                take(latest, key, value)
            found = {tp: await consumer.position(tp) for tp in partitions}
            caught_up = caught_up or all(at >= ends[tp] for tp, at in found.items())
            if caught_up:
                await devices.moved(latest, {tp.partition: at for tp, at in found.items()})


async def keep_reading(devices: Devices) -> None:
    """Reads, and begins anew after an error; until that has caught up, what was read before is shown."""
    while True:
        try:
            await read(devices)
        except Exception:
            log.exception("reading %s failed", TOPIC)
            devices.ready = False
            await asyncio.sleep(PAUSE)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """One producer and one reader, for as long as the service runs."""
    devices = Devices()
    async with AsyncProducer(TIMES, bootstrap_servers=SERVERS, linger_ms=0) as producer:
        reading = asyncio.create_task(keep_reading(devices))
        try:
            yield {"devices": devices, "producer": producer}
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading


app = FastAPI(lifespan=lifespan)


@app.exception_handler(KafkaError)
async def unavailable(_: Request, error: Exception) -> JSONResponse:
    """Nothing was stored, or nobody knows whether it was."""
    status = 413 if isinstance(error, MessageTooLargeError) else 503
    return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, status)


@app.put("/devices/{device}")
async def put(request: Request, device: str, state: Annotated[Any, Body()]) -> dict[str, int]:
    """Stores a state."""
    try:
        text = json.dumps(state, allow_nan=False)
    except ValueError as error:
        raise HTTPException(422, f"no JSON: {error}") from None
    stored = await request.state.producer.send_and_wait(TOPIC, text, key=device)
    return {"partition": stored.partition, "offset": stored.offset}


@app.delete("/devices/{device}")
async def delete(request: Request, device: str) -> dict[str, int]:
    """Forgets a device."""
    stored = await request.state.producer.send_and_wait(TOPIC, None, key=device)
    return {"partition": stored.partition, "offset": stored.offset}


@app.get("/devices/{device}")
async def get(
    request: Request,
    device: str,
    partition: Annotated[int, Query(ge=0)] = 0,
    offset: Annotated[int | None, Query(ge=0)] = None,
) -> Any:
    """The latest state."""
    devices: Devices = request.state.devices
    if offset is not None:
        try:
            async with asyncio.timeout(PATIENCE):
                await devices.reached(partition, offset)
        except TimeoutError:
            raise HTTPException(504, f"offset {offset} of partition {partition} is not read yet") from None
    if devices.latest is None:
        raise HTTPException(503, "what is in the topic is not read yet")
    if device not in devices.latest:
        raise HTTPException(404, f"there is no device {device!r}")
    return devices.latest[device]


@app.get("/ready")
async def ready(request: Request) -> Response:
    """Whether answers are as new as the topic was at the start."""
    return Response(status_code=200 if request.state.devices.ready else 503)
