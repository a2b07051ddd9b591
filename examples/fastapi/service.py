"""A web service over a compacted topic: writes go to the topic, and reads return the state built from the topic.

    BOOTSTRAP_SERVERS=localhost:9092 TOPIC=devices uvicorn service:app

    curl -X PUT localhost:8000/devices/lamp -H 'content-type: application/json' -d '{"on": true}'
    {"partition":0,"offset":17}
    curl 'localhost:8000/devices/lamp?partition=0&offset=17'
    {"on":true}

The topic is the only store: each instance reads it from the beginning, in a task of its lifespan, and responds from
memory. `/ready` returns 503 until the records present at the start are read, and again while reading fails.

- PUT and DELETE return when the record is stored (`acks=all`), or 503 with the error if it is not.
- GET returns the state read so far. With the partition and offset returned by PUT, it waits until that record is read:
  clients see their own writes on every instance.
- A value in the topic that is not JSON is logged and skipped.

Partitions added later are read after a restart.
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
# Timeouts of the producer, since web clients do not wait longer.
TIMES = {"request.timeout.ms": 5_000, "delivery.timeout.ms": 10_000, "max.block.ms": 5_000}
log = logging.getLogger("service")


class Devices:
    """The latest state of each device and the offset reached per partition; None until the initial records are read."""

    def __init__(self) -> None:
        self.latest: dict[str, Any] | None = None
        self.positions: dict[int, int] = {}
        self.ready = False
        self._moved = asyncio.Condition()

    async def moved(self, latest: dict[str, Any], positions: dict[int, int]) -> None:
        """Publishes the records read so far and wakes the waiting requests."""
        async with self._moved:
            self.latest, self.positions, self.ready = latest, positions, True
            self._moved.notify_all()

    async def reached(self, partition: int, offset: int) -> None:
        """Waits until the record at this offset has been read."""
        async with self._moved:
            await self._moved.wait_for(lambda: self.positions.get(partition, 0) > offset)


def take(latest: dict[str, Any], key: bytes | None, value: bytes | None) -> None:
    """Applies one record to the state."""
    device = (key or b"").decode(errors="replace")
    if value is None:
        latest.pop(device, None)
        return
    try:
        latest[device] = json.loads(value, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        log.warning("device %r has a state that is no JSON: %s", device, error)


def no_number(name: str) -> None:
    """Rejects NaN and infinities, which Python parses but a JSON response cannot contain."""
    raise ValueError(f"{name} is no JSON")


async def read(devices: Devices) -> None:
    """Reads the topic without end; publishes the state as soon as the initial records are read."""
    async with AsyncConsumer(
        bootstrap_servers=SERVERS, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        partitions = await consumer.partitions_for(TOPIC)
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        latest: dict[str, Any] = {}
        caught_up = False
        while True:
            # Polls almost without waiting until the state is complete, because the topic may be empty.
            batch = await consumer.poll(1.0 if caught_up else 0.05)
            for key, value in zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True):
                take(latest, key, value)
            results = {tp: await consumer.position(tp) for tp in partitions}
            caught_up = caught_up or all(at >= ends[tp] for tp, at in results.items())
            if caught_up:
                await devices.moved(latest, {tp.partition: at for tp, at in results.items()})


async def keep_reading(devices: Devices) -> None:
    """Restarts reading after an error; requests see the previous state until the new reader has caught up."""
    while True:
        try:
            await read(devices)
        except Exception:
            log.exception("reading %s failed", TOPIC)
            devices.ready = False
            await asyncio.sleep(PAUSE)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Runs one producer and one reader during the lifetime of the service."""
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
    """Returns 503, because the record was not stored or its outcome is unknown."""
    status = 413 if isinstance(error, MessageTooLargeError) else 503
    return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, status)


@app.put("/devices/{device}")
async def put(request: Request, device: str, state: Annotated[Any, Body()]) -> dict[str, int]:
    """Stores the state of a device."""
    try:
        text = json.dumps(state, allow_nan=False)
    except ValueError as error:
        raise HTTPException(422, f"no JSON: {error}") from None
    stored = await request.state.producer.send_and_wait(TOPIC, text, key=device)
    return {"partition": stored.partition, "offset": stored.offset}


@app.delete("/devices/{device}")
async def delete(request: Request, device: str) -> dict[str, int]:
    """Deletes a device."""
    stored = await request.state.producer.send_and_wait(TOPIC, None, key=device)
    return {"partition": stored.partition, "offset": stored.offset}


@app.get("/devices/{device}")
async def get(
    request: Request,
    device: str,
    partition: Annotated[int, Query(ge=0)] = 0,
    offset: Annotated[int | None, Query(ge=0)] = None,
) -> Any:
    """Returns the latest state of a device."""
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
    """Returns 200 if the state includes all records that the topic had at the start, otherwise 503."""
    return Response(status_code=200 if request.state.devices.ready else 503)
