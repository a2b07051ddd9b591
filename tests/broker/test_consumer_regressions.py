"""Regression tests of group consumers, on a broker with injected faults."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from samsarrow import Admin, Consumer, GroupDescription, OffsetAndMetadata, Producer, RebalanceListener, TopicPartition
from samsarrow.exceptions import (
    ClosedError,
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    WakeupError,
)
from samsarrow.testing import Broker
from support.waiting import until

P0, P1 = TopicPartition("pair", 0), TopicPartition("pair", 1)
T0 = TopicPartition("t", 0)
T0_ROWS = 100
FAULTS: dict[str, dict[str, Any]] = {
    "success": {},
    "illegal generation": {"error": "ILLEGAL_GENERATION"},
    "rebalance in progress": {"error": "REBALANCE_IN_PROGRESS"},
    "unknown member": {"error": "UNKNOWN_MEMBER_ID"},
    "not coordinator": {"error": "NOT_COORDINATOR"},
    "dropped before": {"drop": "before"},
    "dropped after": {"drop": "after"},
    "garbage": {"garbage": True},
    "timeout": {"delay": 0.6},
}
STEPS = ["stable", "revoked", "joining", "syncing", "assigned"]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1, "pair": 2}, auto_create_topics=False, group_min_session_timeout=0.5) as broker:
        yield broker


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def new_member(servers: str) -> Iterator[Callable[..., Consumer]]:
    """Returns a function that creates members of group g and closes them after the test."""
    made = []

    def make(**options: Any) -> Consumer:
        quick: dict[str, Any] = {
            "bootstrap_servers": servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 50,
            "session_timeout_ms": 6000,
            "retry_backoff_ms": 10,
            "fetch_max_wait_ms": 50,
            "enable_auto_commit": False,
        }
        made.append(Consumer(quick | options))
        return made[-1]

    yield make
    for consumer in made:
        with suppress(KafkaError):
            consumer.close(5)


def fill(servers: str, tp: TopicPartition, count: int, start: int = 0) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        for i in range(start, start + count):
            producer.send(tp.topic, b"%d" % i, partition=tp.partition)


def read(consumer: Consumer, rows: int, seconds: float = 60) -> list[tuple[int, int]]:
    """Polls until at least `rows` rows have arrived. Returns partition and offset of each."""
    found: list[tuple[int, int]] = []
    deadline = time.monotonic() + seconds
    while len(found) < rows:
        assert time.monotonic() < deadline, found
        batch = consumer.poll(0.1)
        found += zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True)
    return found


def subscribe(consumer: Consumer, *topics: str, listener: RebalanceListener | None = None) -> None:
    """Subscribes and polls until partitions are assigned. The polls return no rows."""
    delegate = listener or RebalanceListener()
    waiting = True

    def new(partitions: list[TopicPartition]) -> None:
        # The partitions are paused, since rows could arrive before the poll that assigns them returns.
        if waiting:
            consumer.pause(*partitions)
        delegate.on_partitions_assigned(partitions)

    consumer.subscribe(
        topics or ["pair"], listener=RebalanceListener(new, delegate.on_partitions_revoked, delegate.on_partitions_lost)
    )
    until(lambda: consumer.poll(0).num_rows == 0 and consumer.assignment())
    waiting = False
    consumer.resume(*consumer.assignment())


def committed(consumer: Consumer, tp: TopicPartition) -> int | None:
    found = consumer.committed([tp])[tp]
    return None if found is None else found.offset


class Stepped:
    """A consumer that commits at the step `step` of a rebalance: with `commit`, `commit_async` or automatic commits."""

    def __init__(self, make: Callable[..., Consumer], broker: Broker, how: str, step: str, fault: dict[str, Any]):
        self.broker, self.how, self.step, self.fault = broker, how, step, fault
        automatic = {"enable_auto_commit": True, "auto_commit_interval_ms": 1} if how == "auto" else {}
        # The session timeout is short if the broker rejects the member as unknown, so that the group does not wait for
        # the old member id.
        waits = {"session_timeout_ms": 600} if fault.get("error") == "UNKNOWN_MEMBER_ID" else {}
        self.consumer = make(group_id=f"g-{how}-{step}", **automatic, **waits)
        self.notified: list[str] = []
        self.acknowledged = 0
        self.sent = 0
        self.armed = False
        listener = RebalanceListener(lambda _: self._at("assigned"), lambda _: self._at("revoked"))
        subscribe(self.consumer, "t", listener=listener)

    def _at(self, step: str) -> None:
        self.notified.append(step)
        if self.armed and step == self.step:
            self.armed = False
            self.commit()

    def commit(self) -> None:
        if self.fault:
            self.broker.fail("OffsetCommit", **self.fault)
        before = time.monotonic()
        with suppress(KafkaError):
            if self.how == "sync":
                self.consumer.commit(timeout=0.2)
            elif self.how == "async":
                self.sent += 1
                self.consumer.commit_async(callback=lambda *_: self._done())
            else:
                # Automatic commits are sent by poll.
                pass
        assert time.monotonic() - before < 5

    def _done(self) -> None:
        self.acknowledged += 1

    def rebalance(self) -> None:
        self.armed, before = True, len(self.notified)
        if self.step == "stable":
            self.commit()
            return
        if self.step in ("joining", "syncing"):
            self.broker.fail("JoinGroup" if self.step == "joining" else "SyncGroup", delay=0.1)
        # Heartbeats fail with this error until the member has rejoined.
        self.broker.fail("Heartbeat", error="REBALANCE_IN_PROGRESS", times=None)
        until(lambda: self.consumer.poll(0.01) is not None and len(self.notified) > before)
        self.broker.heal("Heartbeat")
        if self.step in ("joining", "syncing"):
            self.commit()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("how", ["sync", "async", "auto"])
def test_commit_during_a_rebalance(
    broker: Broker, servers: str, new_member: Callable[..., Consumer], how: str, fault: str
) -> None:
    fill(servers, T0, 5)
    for step in STEPS:
        stepped = Stepped(new_member, broker, how, step, FAULTS[fault])
        consumer = stepped.consumer
        consumer.seek(T0, 0)
        read(consumer, 5)
        stepped.rebalance()
        end = consumer.end_offsets([T0])[T0]
        fill(servers, T0, 1, end)
        # New records can be read and committed, even if the earlier commit has failed.
        deadline = time.monotonic() + 60
        seen: list[tuple[int, int]] = []
        while (0, end) not in seen:
            assert time.monotonic() < deadline, (step, stepped.notified, seen)
            seen += read(consumer, 1)
        broker.heal()
        until(lambda c=consumer: c.poll(0.01) is not None and c.group_metadata().generation > 0)
        # A member that was removed from the group reads uncommitted records again.
        until(lambda c=consumer, end=end: done(c) and committed(c, T0) == end + 1)
        consumer.close(5)
        assert stepped.acknowledged <= stepped.sent
        if how == "async":
            # The commit counts as sent even if `commit_async` itself raised an error.
            assert stepped.sent == 1


def done(consumer: Consumer) -> bool:
    """Commits the positions. Returns False if a rebalance prevented the commit, so that another poll is required."""
    consumer.poll(0.01)
    try:
        consumer.commit(timeout=30)
    except (RebalanceInProgressError, UnknownMemberIdError):
        return False
    return True


def test_stored_offsets_are_dropped_on_revocation(servers: str, new_member: Callable[..., Consumer]) -> None:
    for tp in (P0, P1):
        fill(servers, tp, 20)
    a, b = (new_member(enable_auto_offset_store=False) for _ in range(2))
    subscribe(a)
    assert a.assignment() == {P0, P1}
    a.store_offsets({P0: 3, P1: 3})
    b.subscribe(["pair"])
    until(lambda: (a.poll(0.01), b.poll(0.01)) and len(a.assignment()) == len(b.assignment()) == 1)
    [moved] = b.assignment()
    with pytest.raises(ConfigurationError, match=f"cannot store an offset of pair-{moved.partition}"):
        a.store_offsets({moved: 4})
    b.commit({moved: 10})
    b.close()
    until(lambda: a.poll(0.01) is not None and a.assignment() == {P0, P1})
    a.commit()
    assert committed(a, moved) == 10
    # Without stored offsets the consumer commits nothing. It starts at the offset that the other member has committed.
    assert a.position(moved) >= 10


CRASH = """
import os, sys, time
from samsarrow import Consumer
servers, store, automatic = sys.argv[1], sys.argv[2] == "store", sys.argv[3] == "poll stores"
consumer = Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", max_poll_records=10,
                    auto_commit_interval_ms=1, enable_auto_offset_store=automatic)
consumer.subscribe(["t"])
polls = 0
while polls < 3:
    batch = consumer.poll(0.1)
    if batch.num_rows:
        polls += 1
        if store and polls < 3:
            consumer.store_offsets(batch)
        time.sleep(0.1)
# The rows of the third poll are returned and not processed, with enough time for automatic commits.
time.sleep(1)
os._exit(1)
"""


@pytest.mark.parametrize(
    ("store", "automatic", "expected"), [("-", "poll stores", 20), ("store", "-", 20), ("-", "-", None)]
)
def test_crash_between_poll_and_processing(
    servers: str, new_member: Callable[..., Consumer], store: str, automatic: str, expected: int | None
) -> None:
    fill(servers, T0, T0_ROWS)
    command = [sys.executable, "-c", CRASH, servers, store, automatic]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    found = committed(new_member(), T0)
    assert found == expected or (expected is not None and found == 10), "the rows of the last poll are not committed"


@pytest.mark.parametrize("stored", [True, False])
def test_exception_in_a_with_block(servers: str, new_member: Callable[..., Consumer], stored: bool) -> None:
    fill(servers, T0, T0_ROWS)
    options = {"enable_auto_commit": True, "max_poll_records": 10, "enable_auto_offset_store": not stored}

    def block() -> None:
        with new_member(**options) as consumer:
            consumer.subscribe(["t"])
            rows = 0
            while rows < 20:
                rows += consumer.poll(0.1).num_rows
                if stored and rows == 10:
                    consumer.store_offsets({T0: 10})
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        block()
    again = new_member(enable_auto_commit=True, max_poll_records=10)
    assert committed(again, T0) == 10
    # The `with` block has failed, but its offsets are committed, so reading continues there.
    with again:
        subscribe(again, "t")
        assert read(again, 1)[0] == (0, 10)
    assert committed(new_member(), T0) == 20


def test_fetch_errors_do_not_move_the_position(
    broker: Broker, servers: str, new_member: Callable[..., Consumer]
) -> None:
    fill(servers, T0, T0_ROWS)
    consumer = new_member(enable_auto_commit=True, auto_commit_interval_ms=1)
    consumer.assign([T0])
    read(consumer, T0_ROWS)
    broker.fail("Fetch", error="TOPIC_AUTHORIZATION_FAILED", times=3)
    before, errors = broker.requests("Fetch"), 0

    def polled() -> bool:
        nonlocal errors
        for _ in range(30):
            try:
                consumer.poll(0.05)
            except KafkaError:
                errors += 1
            assert consumer.position(T0) == T0_ROWS
        # Another Fetch request shows that the last of the three errors has been received and raised.
        return errors > 0 and broker.requests("Fetch") > before + 4

    until(polled)
    for _ in range(10):
        with suppress(KafkaError):
            consumer.poll(0.01)
    fill(servers, T0, 1, T0_ROWS)
    assert read(consumer, 1) == [(0, T0_ROWS)]
    until(lambda: consumer.poll(0.01) is not None and committed(consumer, T0) == T0_ROWS + 1)


def test_seek_and_pause_between_prefetch_and_poll(servers: str, new_member: Callable[..., Consumer]) -> None:
    for tp in (P0, P1):
        fill(servers, tp, 50)
    consumer = new_member(max_poll_records=10)
    consumer.assign([P0, P1])
    assert consumer.position(P0) == 0
    read(consumer, 10)
    time.sleep(0.2)  # all other records are prefetched
    consumer.seek(P0, 5)
    consumer.pause(P1)
    at = consumer.position(P1)
    assert read(consumer, 45) == [(0, o) for o in range(5, 50)]
    assert consumer.position(P1) == at
    consumer.resume(P1)
    assert read(consumer, 50 - at) == [(1, o) for o in range(at, 50)]
    # Resuming a partition that is not paused has no effect, and pausing twice is the same as pausing once.
    consumer.seek(P0, 40)
    consumer.resume(P0)
    consumer.pause(P0)
    consumer.pause(P0)
    consumer.resume(P0)
    assert read(consumer, 10) == [(0, o) for o in range(40, 50)]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_revocation_between_prefetch_and_poll(servers: str, new_member: Callable[..., Consumer], strategy: str) -> None:
    for tp in (P0, P1):
        fill(servers, tp, 60)
    options = {"max_poll_records": 10, "partition_assignment_strategy": strategy, "enable_auto_commit": True}
    a, b = new_member(**options), new_member(**options)
    subscribe(a)
    rows = read(a, 1)
    time.sleep(0.1)
    b.subscribe(["pair"])
    deadline = time.monotonic() + 60
    while len(rows) < 120:
        assert time.monotonic() < deadline, rows
        for consumer in (a, b):
            batch = consumer.poll(0.02)
            owned = consumer.assignment()
            new = list(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))
            assert {TopicPartition("pair", p) for p, _ in new} <= owned
            rows += new
    assert sorted(rows) == [(p, o) for p in range(2) for o in range(60)]


@pytest.mark.parametrize("api", ["ListOffsets", "OffsetFetch", "Fetch"])
def test_response_to_a_request_from_before_a_seek(
    broker: Broker, servers: str, new_member: Callable[..., Consumer], api: str
) -> None:
    fill(servers, T0, T0_ROWS)
    consumer = new_member(max_poll_records=5)
    if api == "OffsetFetch":
        consumer.commit({T0: 50})
    broker.fail(api, delay=1.0)
    before = broker.requests(api)
    consumer.assign([T0])
    assert consumer.poll(0.05).num_rows == 0
    until(lambda: broker.requests(api) > before)
    consumer.seek(T0, 7)
    consumer.pause(T0)
    consumer.resume(T0)
    assert consumer.position(T0) == 7
    assert read(consumer, 5) == [(0, o) for o in range(7, 12)]
    time.sleep(1.1)
    assert read(consumer, 5) == [(0, o) for o in range(12, 17)]


def test_seek_in_the_listener_overrides_the_committed_offset(
    broker: Broker, servers: str, new_member: Callable[..., Consumer]
) -> None:
    fill(servers, T0, T0_ROWS)
    consumer = new_member()
    consumer.commit({T0: 50})
    broker.fail("OffsetFetch", delay=0.3)
    consumer.subscribe(["t"], listener=RebalanceListener(lambda new: [consumer.seek(tp, 90) for tp in new]))
    assert read(consumer, 10) == [(0, o) for o in range(90, 100)]
    time.sleep(0.4)
    assert consumer.poll(0.1).num_rows == 0
    assert consumer.position(T0) == 100


def test_positions_within_batches(servers: str, new_member: Callable[..., Consumer]) -> None:
    # All records are in one batch. If any offset in the batch is fetched, the broker returns the whole batch.
    with Producer(bootstrap_servers=servers, linger_ms=500) as producer:
        for i in range(50):
            producer.send("t", b"%d" % i)
    for start, size in itertools.product([0, 1, 24, 49], [1, 7, 500]):
        consumer = new_member(max_poll_records=size)
        consumer.assign([T0])
        consumer.seek(T0, start)
        first = read(consumer, 1)
        assert first == [(0, o) for o in range(start, min(start + size, 50))]
        assert consumer.position(T0) == first[-1][1] + 1
        consumer.commit()
        assert committed(consumer, T0) == first[-1][1] + 1
        consumer.close()
    # The log end offset is a valid position, from which no rows are returned.
    consumer = new_member()
    consumer.assign([T0])
    consumer.seek(T0, 50)
    assert consumer.poll(0.2).num_rows == 0
    assert consumer.position(T0) == 50


@pytest.mark.parametrize("fault", ["success", "not coordinator", "dropped before", "dropped after", "timeout"])
def test_late_responses_of_commit_async(
    broker: Broker, servers: str, new_member: Callable[..., Consumer], fault: str
) -> None:
    consumer = new_member()
    consumer.assign([T0])
    notified: list[tuple[int, KafkaError | None]] = []
    if FAULTS[fault]:
        broker.fail("OffsetCommit", **FAULTS[fault])
    for i in range(1, 6):
        consumer.commit_async({T0: i}, lambda offsets, error: notified.append((offsets[T0].offset, error)))
    consumer.commit({T0: 6})
    # A blocking commit waits for earlier asynchronous commits and runs their callbacks.
    assert notified == [(i, None) for i in range(1, 6)]
    assert committed(consumer, T0) == 6
    consumer.commit_async({T0: 7}, lambda offsets, error: notified.append((offsets[T0].offset, error)))
    consumer.close()
    assert notified[-1] == (7, None)
    assert committed(new_member(), T0) == 7


def test_failed_async_commits_call_back_in_order(broker: Broker, new_member: Callable[..., Consumer]) -> None:
    consumer = new_member()
    consumer.assign([T0])
    notified: list[int] = []
    for _ in range(50):
        broker.fail("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED")
        broker.fail("OffsetCommit", error="INVALID_COMMIT_OFFSET_SIZE")
    for i in range(100):
        consumer.commit_async({T0: i}, lambda offsets, error: notified.append(offsets[T0].offset))
    until(lambda: consumer.poll(0.01) is not None and len(notified) == 100)
    assert notified == list(range(100))


@pytest.mark.parametrize("then", ["poll", "commit", "commit_async", "seek", "close", "unsubscribe"])
def test_max_poll_interval_exceeded(servers: str, new_member: Callable[..., Consumer], then: str) -> None:
    fill(servers, T0, 20)
    events: list[str] = []
    listener = RebalanceListener(
        lambda _: events.append("assigned"), lambda _: events.append("revoked"), lambda _: events.append("lost")
    )
    consumer = new_member(max_poll_interval_ms=2000, enable_auto_commit=True, auto_commit_interval_ms=60000)
    subscribe(consumer, "t", listener=listener)
    read(consumer, 20)
    with Admin(bootstrap_servers=servers) as admin:
        # Also waits for the member, which is notified of its removal a moment after the coordinator has removed it.
        until(lambda: not members(admin))
        time.sleep(1)
        before = time.monotonic()
        if then == "commit":
            with pytest.raises(UnknownMemberIdError, match=r"max\.poll\.interval\.ms"):
                consumer.commit()
        elif then == "commit_async":
            notified: list[KafkaError | None] = []
            consumer.commit_async(callback=lambda _, error: notified.append(error))
            consumer.commit({})
            assert isinstance(notified[0], UnknownMemberIdError)
        elif then == "seek":
            consumer.seek(T0, 3)
        elif then == "unsubscribe":
            consumer.unsubscribe()
            assert consumer.assignment() == set()
            consumer.subscribe(["t"], listener=listener)
        if then != "close":
            # Rows that were read but not committed are returned again.
            assert read(consumer, 20)[-20:] == [(0, o) for o in range(20)]
            assert events.count("assigned") == 2
            consumer.commit()
        consumer.close(5)
        assert time.monotonic() - before < 20, "nobody waits for a session to end"
        assert not members(admin)
    assert "revoked" not in events[:2], "others may have them: they are lost"


def test_polling_paused_partitions_keeps_the_membership(servers: str, new_member: Callable[..., Consumer]) -> None:
    fill(servers, T0, 20)
    consumer = new_member(max_poll_interval_ms=2000)
    subscribe(consumer, "t")
    generation = consumer.group_metadata().generation
    read(consumer, 20)
    consumer.pause(T0)
    fill(servers, T0, 1, 20)
    for _ in range(10):
        time.sleep(0.3)
        assert consumer.poll(0).num_rows == 0
    consumer.resume(T0)
    consumer.commit()
    assert committed(consumer, T0) == 20
    assert consumer.group_metadata().generation == generation
    assert read(consumer, 1) == [(0, 20)]


def members(admin: Admin, group: str = "g") -> int:
    described = admin.describe_groups([group])[group]
    assert isinstance(described, GroupDescription)
    return len(described.members)


def test_commits_with_and_without_leader_epoch(servers: str, new_member: Callable[..., Consumer]) -> None:
    fill(servers, T0, T0_ROWS)
    consumer = new_member()
    for epoch in (None, 0):
        consumer.commit({T0: OffsetAndMetadata(40, "here", epoch)})
        assert consumer.committed([T0]) == {T0: OffsetAndMetadata(40, "here", epoch)}
        again = new_member()
        subscribe(again, "t")
        assert read(again, 1)[0] == (0, 40)
        again.commit()
        assert committed(again, T0) == T0_ROWS
        again.close()


def test_wakeup_from_another_thread_and_from_a_signal_handler(
    servers: str, new_member: Callable[..., Consumer]
) -> None:
    fill(servers, T0, 5)
    consumer = new_member()
    subscribe(consumer, "t")
    read(consumer, 5)
    timer = threading.Timer(0.2, consumer.wakeup)
    timer.start()
    before = time.monotonic()
    with pytest.raises(WakeupError):
        consumer.poll(20)
    timer.join()
    old = signal.signal(signal.SIGALRM, lambda *_: consumer.wakeup())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(WakeupError):
            consumer.poll(20)
    finally:
        signal.signal(signal.SIGALRM, old)
    assert time.monotonic() - before < 10
    # Wakeups before a poll interrupt only the next poll, and no row is lost.
    fill(servers, T0, 5, 5)
    consumer.wakeup()
    consumer.wakeup()
    with pytest.raises(WakeupError):
        consumer.poll(1)
    assert read(consumer, 5) == [(0, o) for o in range(5, 10)]


@pytest.mark.parametrize("api", ["LeaveGroup", "OffsetCommit", "everything"])
def test_close_is_bounded_and_may_be_called_again(
    broker: Broker, servers: str, new_member: Callable[..., Consumer], api: str
) -> None:
    fill(servers, T0, 5)
    consumer = new_member(enable_auto_commit=True)
    subscribe(consumer, "t")
    read(consumer, 5)
    if api == "everything":
        broker.stop_broker(0)
    else:
        broker.fail(api, delay=20)
    before = time.monotonic()
    consumer.close(1)
    assert time.monotonic() - before < 10
    consumer.close()
    consumer.close(0)
    with pytest.raises(ClosedError):
        consumer.poll(0)


EXIT = """
import sys
from samsarrow import Consumer
consumer = Consumer(bootstrap_servers=sys.argv[1], group_id="g")
consumer.subscribe(["t"])
while not consumer.assignment():
    consumer.poll(0.05)
print("a member", flush=True)
"""


@pytest.mark.parametrize("end", ["", "raise RuntimeError('over')", "sys.exit(3)", "import threading, time\n"
                                 "threading.Thread(target=lambda: list(consumer), daemon=True).start()\n"
                                 "time.sleep(0.2)"])  # fmt: skip
def test_unclosed_consumer_leaves_the_group_at_exit(servers: str, end: str) -> None:
    began = time.monotonic()
    command = [sys.executable, "-c", EXIT + end, servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "a member\n", done.stderr
    assert done.returncode == (1 if "raise" in end else 3 if "exit" in end else 0), done.stderr
    with Admin(bootstrap_servers=servers) as admin:
        assert members(admin) == 0
    # The consumer has left the group explicitly. Otherwise the test would have waited 45 s for its session to expire.
    assert time.monotonic() - began < 40


def test_listener_errors_are_raised_by_poll_and_close(servers: str, new_member: Callable[..., Consumer]) -> None:
    fill(servers, T0, 5)

    def fail(what: str) -> Callable[[object], None]:
        def listener(_: object) -> None:
            raise RuntimeError(what)

        return listener

    consumer = new_member(enable_auto_commit=True)
    consumer.subscribe(["t"], listener=RebalanceListener(fail("assigned"), fail("revoked"), fail("lost")))
    with pytest.raises(RuntimeError, match="assigned"):
        consumer.poll(20)
    assert read(consumer, 5) == [(0, o) for o in range(5)]
    with pytest.raises(RuntimeError, match="revoked"):
        consumer.close()
    with Admin(bootstrap_servers=servers) as admin:
        assert not members(admin)
    assert committed(new_member(), T0) == 5
    # The consumer is closed although `close` has raised an error, so this call has no effect.
    consumer.close()


def test_timed_out_commit_does_not_block_the_next(broker: Broker, new_member: Callable[..., Consumer]) -> None:
    consumer = new_member()
    consumer.assign([T0])
    broker.fail("OffsetCommit", delay=2)
    with pytest.raises(KafkaTimeoutError):
        consumer.commit({T0: 1}, timeout=0.2)
    before = time.monotonic()
    consumer.commit({T0: 2}, timeout=20)
    assert time.monotonic() - before < 10
    assert committed(consumer, T0) == 2
