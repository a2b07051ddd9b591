"""The bridge between the core's threads and event loops: results come, and loops end without a trace."""

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
    """Asks for one topic; gives how many there are of that name."""
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


def test_a_call_is_made_once(admin: Admin) -> None:
    async def main() -> None:
        once = call(admin)
        assert await once == 1
        with pytest.raises(RuntimeError, match="this call was already started"):
            await once

    RUN["asyncio"](main)
    with Admin(bootstrap_servers="127.0.0.1:1") as nowhere, pytest.raises(RuntimeError, match="no running event loop"):
        call(nowhere).__await__()


def test_one_wake_up_for_all_that_is_done_by_then(admin: Admin) -> None:
    """While the loop is busy, results of a hundred calls come: it is woken for few of them."""

    async def main() -> int:
        await call(admin)
        before = _core.loop_wake_ups()
        begun = [asyncio.ensure_future(just(call(admin))) for _ in range(100)]
        await asyncio.sleep(0)
        # The loop does not turn meanwhile, and the answers to what was asked before are there.
        for _ in range(100):
            call(admin).wait()
        assert await asyncio.gather(*begun) == [1] * 100
        return _core.loop_wake_ups() - before

    assert 1 <= RUN["asyncio"](main) <= 30


@pytest.mark.parametrize("kind", RUN)
def test_loops_that_end_with_work_pending_leave_nothing(broker: Broker, admin: Admin, kind: str) -> None:
    async def main() -> None:
        assert await call(admin) == 1
        for _ in range(3):
            begun.append(call(admin))
            await stops_waiting(kind, begun[-1])

    begun: list[_core.Call[int]] = []
    for _ in range(3):
        RUN[kind](main)
    # What others have left may still be going, and never comes back.
    before = settled(left)
    for _ in range(20):
        RUN[kind](main)
    until(lambda: nothing_new(before), left, seconds=20)


def left() -> tuple[int, set[str], int]:
    gc.collect()
    return descriptors(), threads(), threading.active_count()


def nothing_new(before: tuple[int, set[str], int]) -> bool:
    now = left()
    return now[0] <= before[0] and now[1] <= before[1] and now[2] <= before[2]


async def stops_waiting(kind: str, one: "_core.Call[int]") -> None:
    """Begins a call and leaves it as it is."""
    if kind == "trio":
        with trio.CancelScope() as scope:
            scope.cancel()
            await one
    else:
        task = asyncio.ensure_future(just(one))
        await asyncio.sleep(0)
        task.cancel()


async def just(one: "_core.Call[int]") -> int:
    return await one


def test_a_loop_that_is_thrown_away_is_collected_with_what_it_waits_for(admin: Admin) -> None:
    """Nobody closed it: its own warning is not ours."""

    def throw_away() -> None:
        running = asyncio.SelectorEventLoop()
        waiting = running.create_task(just(call(admin)))
        running.run_until_complete(asyncio.sleep(0))
        waiting.cancel()
        running.run_until_complete(asyncio.sleep(0))

    # The client has its connection, whose both ends are in this process.
    call(admin).wait()
    throw_away()
    before = settled(left)
    for _ in range(5):
        throw_away()
        gc.collect()
    until(lambda: nothing_new(before), left, seconds=20)


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
def test_an_interpreter_ends_with_calls_under_way_on_other_threads(calls: str) -> None:
    """As a service's loop may run: nothing of the core goes to Python any more, whatever it was at."""
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
        asked = [sys.executable, "-c", program, str(pause)]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
        assert (pause, done.returncode, done.stderr) == (pause, 0, "")
