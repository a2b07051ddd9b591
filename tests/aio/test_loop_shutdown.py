"""If an event loop or the interpreter ends during calls, no warnings appear, and no threads or descriptors remain."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from samsarrow import Admin
from samsarrow.testing import Broker
from support.waiting import settled, until

RUNS = int(os.environ.get("SAMSARROW_LOOPS", "30"))

PROGRAM = """
import asyncio, gc, os, sys, threading, time, warnings
import uvloop
from samsarrow import AsyncConsumer, AsyncProducer, TopicPartition

servers, runs = sys.argv[1], int(sys.argv[2])
sys.unraisablehook = lambda what: (sys.__unraisablehook__(what), os._exit(7))
warnings.simplefilter("error")
# These clients are left unclosed on purpose.
warnings.filterwarnings("ignore", "unclosed AsyncProducer", ResourceWarning)
unclosed = []
shared = AsyncProducer(bootstrap_servers=servers, linger_ms=30)


async def main():
    consumer = AsyncConsumer(bootstrap_servers=servers, group_id="g")
    consumer.assign([TopicPartition("quiet", 0)])
    own = AsyncProducer(bootstrap_servers=servers, linger_ms=5)
    # Collected only after the loop has ended, with requests in flight.
    unclosed.extend([consumer, own])
    deliveries = [await shared.send("t", b"v"), await own.send("t", b"v")]

    async def just(awaited):
        await awaited

    pending = [
        asyncio.ensure_future(just(work))
        for work in (consumer.poll(60), consumer.position(TopicPartition("quiet", 0)), shared.flush(), *deliveries,
                     shared.send_and_wait("t", b"w"), consumer.commit({TopicPartition("quiet", 0): 0}))
    ]
    await asyncio.sleep(0.001)
    assert not pending[0].done()


def left():
    unclosed.clear()
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")), threading.active_count()


def run(times):
    for number in range(times):
        if number % 2:
            asyncio.run(main())
        else:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(main())
        unclosed.clear()


run(6)
# From here on the shared producer has all its connections, and the earlier clients have ended.
asyncio.run(shared.flush())
before = None
while before != (before := left()):
    time.sleep(1)
run(runs)
deadline = time.monotonic() + 60
# Unclosed clients are closed in the background.
while any(now > then for now, then in zip(left(), before)) and time.monotonic() < deadline:
    time.sleep(0.05)
print(before, left())
assert all(now <= then for now, then in zip(left(), before)), (before, left())
"""


def test_asyncio_run_with_pending_work_leaves_no_resources() -> None:
    with Broker(topics={"t": 1, "quiet": 1}) as broker:
        command = [sys.executable, "-W", "error", "-c", PROGRAM, broker.bootstrap_servers, str(RUNS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=170 + RUNS, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


INTERRUPTED = """
import asyncio, sys, trio
from samsarrow import AsyncConsumer

async def main():
    async with AsyncConsumer(bootstrap_servers=sys.argv[1], group_id="g") as consumer:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            await consumer.poll(0.1)
        print("reads", flush=True)
        await consumer.poll(60)

(asyncio.run if sys.argv[2] == "asyncio" else trio.run)(*([main()] if sys.argv[2] == "asyncio" else [main]))
"""


def state(pid: int) -> str:
    """Returns the state of the main thread of a process, and its number of voluntary context switches."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return "\n".join(line for line in lines if line.startswith(("State:", "voluntary_ctxt_switches:")))


@pytest.mark.parametrize("kind", ["asyncio", "trio"])
def test_ctrl_c_ends_a_poll_and_leaves_the_group(kind: str) -> None:
    with Broker(topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        command = [sys.executable, "-c", INTERRUPTED, broker.bootstrap_servers, kind]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "reads\n"
            # Waits until the loop sleeps. If a signal arrives just before epoll_wait, asyncio handles it only after
            # epoll_wait has returned.
            until(lambda: " (sleeping)" in settled(lambda: state(program.pid)))
            program.send_signal(signal.SIGINT)
            _, errors = program.communicate(timeout=60)
        assert program.returncode != 0
        assert "KeyboardInterrupt" in errors
        # The member must have left the group explicitly, since its session would expire only after 45 s.
        assert not admin.describe_groups(["g"])["g"].members
