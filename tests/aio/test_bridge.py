"""The bridge between the core's threads and event loops: calls return their results, and ended loops leave no resources
open.
"""

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import trio

from aio.loops import RUN, descriptors, threads
from samsarrow import Admin, KafkaError, _core
from samsarrow.testing import Broker
from support.waiting import settled, until


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def call(admin: Admin, topic: str = "t") -> "_core.Call[int]":
    """Starts a call that requests the metadata of one topic. Its result is the number of topics in the response."""
    return _core.admin_list_topics(admin._open, [topic], 10.0).then(len)


@pytest.mark.parametrize("kind", RUN)
def test_a_call_is_awaited_in_any_loop(admin: Admin, kind: str) -> None:
    async def main() -> tuple[int, int]:
        return await call(admin), await call(admin, "none")

    assert RUN[kind](main) == (1, 0)


@pytest.mark.parametrize("kind", RUN)
def test_an_error_is_raised_by_the_await(kind: str) -> None:
    async def main() -> None:
        with Admin(bootstrap_servers="127.0.0.1:1") as nowhere, pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
            await _core.admin_list_topics(nowhere._open, None, 1.0)

    RUN[kind](main)


def test_a_call_can_be_awaited_once(admin: Admin) -> None:
    async def main() -> None:
        once = call(admin)
        assert await once == 1
        with pytest.raises(RuntimeError, match="this call was already started"):
            await once

    RUN["asyncio"](main)
    with Admin(bootstrap_servers="127.0.0.1:1") as nowhere, pytest.raises(RuntimeError, match="no running event loop"):
        call(nowhere).__await__()


def test_wake_ups_of_a_busy_loop_are_coalesced(admin: Admin) -> None:
    """A hundred calls complete while the loop is busy, but they wake the loop only a few times."""

    async def main() -> int:
        await call(admin)
        before = _core.loop_wake_ups()
        begun = [asyncio.ensure_future(await_call(call(admin))) for _ in range(100)]
        await asyncio.sleep(0)
        # These calls block the loop until responses have arrived, including those of the earlier calls.
        for _ in range(100):
            call(admin).wait()
        assert await asyncio.gather(*begun) == [1] * 100
        return _core.loop_wake_ups() - before

    assert 1 <= RUN["asyncio"](main) <= 30


@pytest.mark.parametrize("kind", RUN)
def test_loops_with_pending_calls_leave_no_resources(broker: Broker, admin: Admin, kind: str) -> None:
    async def main() -> None:
        assert await call(admin) == 1
        for _ in range(3):
            begun.append(call(admin))
            await abandon(kind, begun[-1])

    begun: list[_core.Call[int]] = []
    for _ in range(3):
        RUN[kind](main)
    # Waits first, because other tests may still be ending threads and closing descriptors.
    before = settled(resources)
    for _ in range(20):
        RUN[kind](main)
    until(lambda: no_new_resources(before), resources, seconds=20)


def resources() -> tuple[int, set[str], int]:
    gc.collect()
    return descriptors(), threads(), threading.active_count()


def no_new_resources(before: tuple[int, set[str], int]) -> bool:
    now = resources()
    return now[0] <= before[0] and now[1] <= before[1] and now[2] <= before[2]


async def abandon(kind: str, one: "_core.Call[int]") -> None:
    """Starts a call and cancels the wait for its result."""
    if kind == "trio":
        with trio.CancelScope() as scope:
            scope.cancel()
            await one
    else:
        task = asyncio.ensure_future(await_call(one))
        await asyncio.sleep(0)
        task.cancel()


async def await_call(one: "_core.Call[int]") -> int:
    return await one


def test_unclosed_loop_with_a_pending_call_is_collected(admin: Admin) -> None:
    """The loop is never closed, which makes asyncio itself report a ResourceWarning."""

    def drop_loop() -> None:
        running = asyncio.SelectorEventLoop()
        waiting = running.create_task(await_call(call(admin)))
        running.run_until_complete(asyncio.sleep(0))
        waiting.cancel()
        running.run_until_complete(asyncio.sleep(0))

    # Opens the client's connection before descriptors are counted, since the broker's end is in this process too.
    call(admin).wait()
    drop_loop()
    before = settled(resources)
    for _ in range(5):
        drop_loop()
        gc.collect()
    until(lambda: no_new_resources(before), resources, seconds=20)


AWAITED = """
import asyncio
async def ask():
    while True:
        try:
            await _core.admin_list_topics(admin._open, None, 0.01)
        except Exception:
            started.set()
async def main():
    await asyncio.gather(*(ask() for _ in range(20)))
work = [lambda: asyncio.run(main())]
"""
BLOCKING = """
from samsarrow import Producer, codec
def forever(call):
    while True:
        try:
            call()
        except Exception:
            started.set()
calls = [lambda: admin.list_topics(timeout=0.01), lambda: Producer(acks="x"), lambda: codec.decode_batches(b"x" * 99)]
work = [lambda call=call: forever(call) for call in calls]
"""


@pytest.mark.parametrize("calls", [AWAITED, BLOCKING], ids=["awaited", "blocking"])
def test_interpreter_exits_during_calls_on_daemon_threads(calls: str) -> None:
    """The loop runs on a daemon thread, as in a service. The core must not enter Python while the interpreter is
    finalized.
    """
    program = f"""
import logging, sys, threading, time
logging.disable()
from samsarrow import Admin, _core
admin = Admin(bootstrap_servers="127.0.0.1:1")
started = threading.Event()
{calls}
for one in work:
    threading.Thread(target=one, daemon=True).start()
assert started.wait(60)
time.sleep(float(sys.argv[1]))
"""
    for pause in (0.0, 0.01, 0.02, 0.03, 0.04, 0.05):
        command = [sys.executable, "-c", program, str(pause)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (pause, done.returncode, done.stderr) == (pause, 0, "")
