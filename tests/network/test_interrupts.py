"""Ctrl-C ends every blocking call promptly, including `close`, while brokers are unresponsive."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import IO

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker
from support.proxy import Network, Proxy

# The goal is 200 ms. On a busy machine the median may reach a second, but no call may take five seconds.
MOSTLY, SOON = 1.0, 5.0

# This program creates its clients and prints a line; then it makes one call after the other, and each call runs until
# it is interrupted.
PROGRAM = """
    import contextlib, signal, sys, time
    within = False

    def interrupt(*_):
        # An interrupt just after the end of a call is ignored.
        if within:
            raise KeyboardInterrupt

    # Also in background jobs of a shell, which ignore SIGINT.
    signal.signal(signal.SIGINT, interrupt)
    import pyarrow as pa
    from samsarrow import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, TopicPartition

    servers = sys.argv[1]
    # Not within the calls: a Ctrl-C is lost while pyarrow imports pandas for its first table.
    one, ten = pa.table({"value": [b"x"]}), pa.table({"value": [b"x" * 8000] * 10})
    t0 = TopicPartition("t", 0)
    calls = {}

    def consumer(group, protocol=None, **options):
        # A member whose session has expired has left the group, and its close returns.
        session = {"session_timeout_ms": 600_000} if protocol == "classic" else {}
        made = Consumer(
            bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest",
            **({"group_protocol": protocol} if protocol else {}), **session, **options,
        )
        made.subscribe(["t"]) if protocol else made.assign([t0])
        while not made.poll(0.2).num_rows:
            pass
        return made

    def producer(**options):
        made = Producer(bootstrap_servers=servers, linger_ms=0, **options)
        if "transactional_id" not in options:
            made.send("p", b"x").result(30)
        return made

    def transaction(name):
        made = producer(transactional_id=name)
        made.init_transactions(30)
        made.begin_transaction()
        made.send("p", b"x").result(30)
        return made

    c, admin, p, small = consumer("a"), Admin(bootstrap_servers=servers), producer(), producer(buffer_memory=20_000)
    admin.list_topics()
    calls["poll"] = lambda: c.poll(60)
    calls["commit"] = lambda: c.commit({t0: OffsetAndMetadata(1)})
    calls["committed"] = lambda: c.committed([t0])
    calls["end_offsets"] = lambda: c.end_offsets([t0])
    calls["offsets_for_times"] = lambda: c.offsets_for_times({t0: 0})
    calls["position"] = lambda: (c.seek_to_end(t0), c.position(t0))
    calls["partitions_for"] = lambda: c.partitions_for("other")
    calls["reader"] = lambda: c.reader().read_all()
    calls["records"] = lambda: list(c.records(60))
    calls["close, assigned"] = lambda: c.close()
    for protocol in ("classic", "consumer"):
        for what in ("poll", "unsubscribe", "close"):
            m = consumer(protocol + what, protocol)
            arguments = [60] if what == "poll" else []
            calls[f"{what}, {protocol}"] = lambda m=m, what=what, a=arguments: getattr(m, what)(*a)
    leaving = consumer("leaving", "classic", enable_auto_commit=False)
    calls["close, nothing to commit"] = lambda: leaving.close()
    again = consumer("again", "classic")
    calls["close, interrupted before"] = lambda: again.close()
    calls["close, for the second time"] = lambda: (again.close(), time.sleep(60))
    late = Consumer(bootstrap_servers=servers, group_id="late")
    late.subscribe(["t"])
    calls["poll of a new member"] = lambda: late.poll(60)
    calls["close of a new member"] = lambda: (late.close(), time.sleep(60))
    calls["result"] = lambda: p.send("p", b"x").result()
    calls["result of a table"] = lambda: p.send_batch("p", one).result()
    calls["flush"] = lambda: p.flush()
    calls["send to another topic"] = lambda: p.send("four", b"x")
    calls["send without memory"] = lambda: [small.send("p", b"x" * 8000) for _ in range(10)]
    calls["table without memory"] = lambda: small.send_batch("p", ten)
    calls["close, producer"] = lambda: p.close()
    new = Producer(bootstrap_servers=servers, transactional_id="new")
    calls["init_transactions"] = lambda: new.init_transactions()
    for what in ("commit_transaction", "abort_transaction", "close"):
        x = transaction(what)
        calls[f"{what}, transaction"] = lambda x=x, what=what: getattr(x, what)()
    calls["list_topics"] = lambda: admin.list_topics()
    calls["create_topics"] = lambda: admin.create_topics([NewTopic("n", 1, 1)])
    calls["fetch_offsets"] = lambda: admin.fetch_offsets("g")
    calls["describe_groups"] = lambda: admin.describe_groups(["g"])
    calls["list_groups"] = lambda: admin.list_groups()

    print("made", flush=True)
    sys.stdin.readline()
    for name, call in calls.items():
        try:
            # Precedes the report of the call: an earlier Ctrl-C would interrupt no call.
            within = True
            print(name, flush=True)
            call()
            within = False
            print("returned", flush=True)
        except KeyboardInterrupt:
            within = False
            print(time.monotonic(), flush=True)
        except Exception as error:
            within = False
            print(f"raised {type(error).__name__}: {error}", flush=True)
        sys.stdin.readline()
    print("end", flush=True)
    sys.stdin.readline()
    for client in (c, late, p, small, new, admin):
        with contextlib.suppress(Exception):
            client.close()
"""


@pytest.fixture
def program(broker: Broker, network: Network) -> Iterator[subprocess.Popen[bytes]]:
    # Consumers poll a separate topic, so that they get no rows while they wait.
    broker.create_topic("p")
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"x").result(30)
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), network.bootstrap_servers]
    # Pipes are unbuffered: otherwise, if a call returns immediately, both lines would be in the buffer and `select`
    # would find the pipe empty.
    with subprocess.Popen(
        command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def slow(broker: Broker, _: Network) -> None:
    """Accepts connections and responds to some requests, but delays the others, for example those that a member sends
    on close.
    """
    for api in broker.requests():
        if api not in ("ApiVersions", "Metadata", "FindCoordinator", "Heartbeat", "ConsumerGroupHeartbeat"):
            broker.fail(api, delay=40, times=None)
    for api in ("LeaveGroup", "OffsetCommit", "EndTxn", "CreateTopics"):
        broker.fail(api, delay=40, times=None)


FAULTS: dict[str, Callable[[Broker, Network], None]] = {
    "half open": lambda _, network: network.each(Proxy.silence),
    "refused": lambda _, network: network.each(Proxy.refuse),
    "slow": slow,
}
# Calls that end without Ctrl-C, because the slow broker responds to them immediately.
ANSWERED = {"partitions_for", "send to another topic", "list_topics", "position", "lag"}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("fault", FAULTS)
def test_ctrl_c_interrupts_every_call(
    program: subprocess.Popen[bytes], broker: Broker, network: Network, fault: str
) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    commands, answers = program.stdin, program.stdout
    assert answers.readline() == b"made\n"
    FAULTS[fault](broker, network)
    took: dict[str, float] = {}
    odd: dict[str, str] = {}

    def go() -> None:
        commands.write(b"\n")

    def line() -> str:
        return answers.readline().decode().strip()

    before = network.accepted()
    go()
    while (name := line()) not in ("end", ""):
        # Waits until the call has started.
        time.sleep(0.3)
        sent = time.monotonic()
        for _ in range(10):
            if _readable(answers):
                break
            os.kill(program.pid, signal.SIGINT)
            # If the first Ctrl-C has no effect in time, sends another, so that the remaining calls are tested.
            if _readable(answers, 2 * SOON):
                break
        else:
            odd[name] = "does not hear Ctrl-C"
            break
        outcome = line()
        if outcome[:1].isdigit():
            took[name] = float(outcome) - sent
        elif name not in MAY_RETURN and not (fault == "slow" and name in ANSWERED):
            odd[name] = outcome
        go()
    assert odd == {}
    assert {name: round(seconds, 2) for name, seconds in took.items() if seconds > SOON} == {}
    assert median(took.values()) < MOSTLY, took
    assert len(took) >= (20 if fault == "slow" else 30), took
    assert network.accepted() - before <= 600
    network.each(Proxy.heal)
    broker.heal()
    go()
    _, err = program.communicate(timeout=60)
    # The process succeeds although its calls were interrupted.
    assert program.returncode == 0, err.decode()
    assert b"panicked" not in err, err.decode()


# A member that has joined no group, or cannot reach its coordinator, may have nothing to wait for on close.
MAY_RETURN = {"close of a new member", "close, nothing to commit"}


def _readable(pipe: IO[bytes], seconds: float = 0) -> bool:
    return bool(select.select([pipe], [], [], seconds)[0])
