"""Calls of clients from callbacks, signal handlers, listeners, assignors, streams and finalizers."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress

import pyarrow as pa
import pytest

from samsarrow import Admin, Assignor, Consumer, Producer, RebalanceListener, TopicPartition
from samsarrow.codec import encode_batches
from samsarrow.exceptions import (
    ClosedError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    WakeupError,
)
from support.waiting import until


def run(code, *args, send=None, once=None, timeout=60):
    """Runs a program and returns its exit code, stdout and stderr.

    If `send` is set, this signal is sent as soon as the program is ready and `once`, if given, returns true.
    """
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        if send is not None:
            assert program.stdout.readline() == "ready\n"
            time.sleep(0.5)
            if once is not None:
                until(once)
            program.send_signal(send)
        out, err = program.communicate(timeout=timeout)
    finally:
        program.kill()
    assert "panicked" not in err
    return program.returncode, out, err


def test_signal_handler_closes_the_polling_consumer(servers):
    code, out, err = run(
        """
        import signal, sys
        from samsarrow import Consumer
        from samsarrow.exceptions import ClosedError
        consumer = Consumer(bootstrap_servers=sys.argv[1], group_id="handled", auto_offset_reset="earliest")
        consumer.subscribe(["t"])
        signal.signal(signal.SIGTERM, lambda number, frame: consumer.close())
        consumer.poll(0.5)
        print("ready", flush=True)
        try:
            while True:
                consumer.poll(60)
        except ClosedError:
            print("closed")
        """,
        servers,
        send=signal.SIGTERM,
    )
    assert (code, out, err) == (0, "closed\n", "")


@pytest.mark.parametrize("call", ["producer.send('t', b'h').result(10)", "admin.list_topics()", "producer.close()"])
def test_signal_handler_uses_other_clients(call, servers):
    code, out, err = run(
        f"""
        import signal, sys
        from samsarrow import Admin, Consumer, Producer, TopicPartition
        servers = sys.argv[1]
        consumer = Consumer(bootstrap_servers=servers)
        producer, admin = Producer(bootstrap_servers=servers), Admin(bootstrap_servers=servers)
        consumer.assign([TopicPartition("four", 2)])
        def handle(number, frame):
            {call}
            raise SystemExit(7)
        signal.signal(signal.SIGTERM, handle)
        print("ready", flush=True)
        while True:
            consumer.poll(60)
        """,
        servers,
        send=signal.SIGTERM,
    )
    assert (code, out, err) == (7, "", "")


def test_send_batch_from_a_consumer_reader(broker, servers):
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(100):
            producer.send("t", b"%d" % i, partition=0)
        producer.flush()
        with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            sent = producer.send_batch("four", consumer.reader())
            assert len(sent) == 100
            assert sum(receipt.count for receipt in sent.result(30)) == 100


def test_failed_stream_sends_earlier_batches(servers):
    schema = pa.schema([("value", pa.binary())])

    def batches():
        yield pa.record_batch([pa.array([b"a"], pa.binary())], schema=schema)
        raise ValueError("as planned")

    with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(Exception, match="as planned"):
            producer.send_batch("t", pa.RecordBatchReader.from_batches(schema, batches()))
        producer.flush(30)
        assert producer.metrics().records == 1


def test_callbacks_use_their_producer(broker, servers, capfd):
    """Callbacks send to known and unknown topics, wait for results, flush, and close their producer."""
    seen, done = [], threading.Event()
    producer = Producer(bootstrap_servers=servers, max_block_ms=2000)

    def second(metadata, error):
        seen.append(error or metadata.topic)
        producer.flush()
        producer.close()
        done.set()

    def first(metadata, error):
        seen.append(metadata.topic)
        # The producer has no metadata of `four`, and `nowhere` does not exist, so both calls wait for a Metadata
        # response.
        seen.append(producer.send("four", b"x").result(30).topic)
        try:
            producer.send("nowhere", b"x").result(30)
        except UnknownTopicOrPartitionError:
            seen.append("refused")
        producer.flush()
        producer.send("t", b"2", on_delivery=second)

    producer.send("t", b"1", on_delivery=first)
    assert done.wait(60)
    assert seen == ["t", "four", "refused", "t"]
    with pytest.raises(ClosedError):
        producer.send("t", b"3")
    assert "panicked" not in capfd.readouterr().err


def test_callbacks_run_in_order_on_one_thread_before_flush_returns(servers):
    threads, offsets = set(), []
    with Producer(bootstrap_servers=servers) as producer:

        def note(metadata, error):
            threads.add(threading.current_thread().name)
            offsets.append(metadata.offset)

        for _ in range(3000):
            producer.send("t", b"x", partition=0, on_delivery=note)
        producer.flush()
        assert len(offsets) == 3000
    assert offsets == sorted(offsets)
    assert threads == {"samsarrow-callbacks"}


def test_slow_callbacks_slow_down_senders(servers):
    """The number of pending callbacks is limited, even if the producer's buffer has space."""
    stop = threading.Event()
    called = []
    with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        first = producer.send("t", b"x")
        first.result(30)
        first.add_done_callback(lambda _: stop.wait(60))
        started = time.monotonic()
        for _ in range(100_000):
            first.add_done_callback(lambda _: called.append(1))
        unhindered = time.monotonic() - started
        for _ in range(2):
            first.add_done_callback(lambda _: called.append(1))
        assert time.monotonic() - started > unhindered + 1.0
        assert called == []
        stop.set()
        producer.flush()
        assert len(called) == 100_002


def test_an_assignor_uses_clients(broker, servers):
    """The number of groups whose assignors wait for a client exceeds the number of threads of the runtime."""

    class Looking(Assignor):
        name = "looking"

        def __init__(self):
            self.admin = Admin(bootstrap_servers=servers)

        def assign(self, partitions, members):
            with Producer(bootstrap_servers=servers) as producer:
                producer.send("t", b"assigned").result(10)
            assert self.admin.list_topics()
            [member] = members
            return {member: [TopicPartition(topic, i) for topic, count in partitions.items() for i in range(count)]}

    consumers = []
    for i in range(6):
        strategy = [Looking()]
        consumers.append(
            Consumer(bootstrap_servers=servers, group_id=f"looking-{i}", partition_assignment_strategy=strategy)
        )
        consumers[-1].subscribe(["t"])
    deadline = time.monotonic() + 60
    while not all(consumer.assignment() for consumer in consumers):
        assert time.monotonic() < deadline
        for consumer in consumers:
            consumer.poll(0.05)
    for consumer in consumers:
        consumer.close()


@pytest.mark.parametrize("within", ["close", "unsubscribe", "poll"])
def test_listener_closes_on_revocation(within, broker, servers):
    revocations = []

    def revoked(partitions):
        revocations.append(len(partitions))
        consumer.close()

    consumer = Consumer(bootstrap_servers=servers, group_id=f"closing-{within}", auto_offset_reset="earliest")
    consumer.subscribe(["four"], listener=RebalanceListener(on_partitions_revoked=revoked))
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        consumer.poll(0.1)
        assert time.monotonic() < deadline
    if within == "poll":
        other = Consumer(bootstrap_servers=servers, group_id=f"closing-{within}")
        other.subscribe(["four"])
        polling = threading.Thread(target=lambda: [other.poll(0.2) for _ in range(20)])
        polling.start()
        while not revocations:
            assert time.monotonic() < deadline
            with suppress(ClosedError):
                consumer.poll(1)
        polling.join()
        other.close()
    elif within == "close":
        consumer.close()
    else:
        with pytest.raises(ClosedError):
            consumer.unsubscribe()
    assert len(revocations) == 1
    with pytest.raises(ClosedError):
        consumer.poll(1)


def test_listener_closes_on_assignment(servers):
    revocations = []
    listener = RebalanceListener(
        on_partitions_assigned=lambda partitions: consumer.close(),
        on_partitions_revoked=lambda gone: revocations.append(gone),
    )
    consumer = Consumer(bootstrap_servers=servers, group_id="brief")
    consumer.subscribe(["t"], listener=listener)
    with pytest.raises(ClosedError):
        consumer.poll(30)
    assert len(revocations) == 1


def test_raising_commit_callback_does_not_skip_others(servers):
    called = []
    with Consumer(bootstrap_servers=servers, group_id="raising") as consumer:
        consumer.assign([TopicPartition("t", 0)])

        def bad(offsets, error):
            called.append("bad")
            raise ValueError("as planned")

        consumer.commit_async({TopicPartition("t", 0): 1}, bad)
        consumer.commit_async({TopicPartition("t", 0): 2}, lambda offsets, error: called.append("good"))
        with pytest.raises(ValueError, match="as planned"):
            consumer.commit()
        consumer.commit()
        assert called == ["bad", "good"]


def test_consumer_used_by_eight_threads(servers, capfd):
    total = 4000
    with Producer(bootstrap_servers=servers) as producer:
        for i in range(total):
            producer.send("four", b"%d" % i)
    seen, failures, lock, polling = [], [], threading.Lock(), threading.Lock()
    with Consumer(
        bootstrap_servers=servers, group_id="eight", auto_offset_reset="earliest", max_poll_records=50
    ) as consumer:
        consumer.subscribe(["four"])
        deadline = time.monotonic() + 90

        def work(number):
            try:
                while len(seen) < total and time.monotonic() < deadline:
                    with polling:
                        rows = consumer.poll(0.2)
                    with lock:
                        seen.extend(rows.column("value").to_pylist())
                    if number % 4 == 0 and rows.num_rows:
                        consumer.commit(rows)
                    elif number % 4 == 1:
                        for tp in consumer.assignment():
                            consumer.pause(tp)
                            consumer.resume(tp)
                    elif number % 4 == 2:
                        consumer.commit_async(callback=lambda offsets, error: None)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    # A thread may receive rows that were fetched before another thread paused the partition. No row may be lost.
    assert {int(value) for value in seen} == set(range(total))
    assert "panicked" not in capfd.readouterr().err


def test_exit_hooks_and_finalizers_use_clients(broker, servers):
    """Callbacks are called while exit hooks of the application run. Producers in finalizers deliver records, but call
    no callbacks.
    """
    code, out, err = run(
        """
        import atexit, sys
        from samsarrow import Producer
        class Sink:
            def __init__(self):
                self.producer = Producer(bootstrap_servers=sys.argv[1])
            def __del__(self):
                print("offset", self.producer.send("t", b"last").result(10).offset)
                self.producer.flush()
                self.producer.close()
        def hook():
            sink.producer.send("t", b"first", on_delivery=lambda metadata, error: print("called", error))
            sink.producer.flush()
        atexit.register(hook)
        sink = Sink()
        """,
        servers,
    )
    assert (code, out, err) == (0, "called None\noffset 1\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_children_of_a_logging_process_do_not_block(servers):
    """The process forks while other threads log continuously; each child logs, sends and exits."""
    code, out, err = run(
        """
        import logging, os, sys, threading, warnings
        from samsarrow import Admin, Producer
        warnings.simplefilter("ignore")
        logging.basicConfig(level=logging.DEBUG, stream=open(os.devnull, "w"))
        servers, stop = sys.argv[1], threading.Event()
        def load(admin):
            while not stop.is_set():
                try:
                    # Every attempt is logged.
                    admin.list_topics(timeout=0.05)
                except Exception:
                    pass
        unreachable = [Admin(bootstrap_servers="127.0.0.1:1", reconnect_backoff_ms=1) for _ in range(4)]
        threads = [threading.Thread(target=load, args=(admin,)) for admin in unreachable]
        for thread in threads:
            thread.start()
        codes = []
        for _ in range(25):
            pid = os.fork()
            if pid == 0:
                with Producer(bootstrap_servers=servers) as producer:
                    producer.send("t", b"x", on_delivery=lambda metadata, error: None).result(30)
                sys.exit(9)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        stop.set()
        for thread in threads:
            thread.join()
        print(set(codes))
        """,
        servers,
        timeout=150,
    )
    assert (code, out, err) == (0, "{9}\n", "")


@pytest.mark.parametrize("api", ["OffsetCommit", "LeaveGroup"])
def test_ctrl_c_ends_closing_a_consumer(api, broker, servers):
    """`close` of a consumer waits for the responses to OffsetCommit and LeaveGroup, even if the broker is slow."""
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"x").result(10)
    broker.fail(api, delay=40.0)
    code, out, err = run(
        """
        import sys, time
        from samsarrow import Consumer
        consumer = Consumer(bootstrap_servers=sys.argv[1], group_id="hanging", auto_offset_reset="earliest")
        consumer.subscribe(["t"])
        while not consumer.poll(1).num_rows:
            pass
        try:
            print("ready", flush=True)
            consumer.close()
            print("not interrupted")
        except KeyboardInterrupt:
            print(time.time())
        """,
        servers,
        send=signal.SIGINT,
        once=lambda: broker.requests(api),
    )
    broker.heal()
    assert (code, err) == (0, "")
    # The documented limit is 200 ms. The test allows 10 s on a busy machine; the delayed request takes 40 s.
    assert time.time() - float(out) < 10.0


def test_ctrl_c_ends_closing_a_producer(broker, servers):
    broker.fail("Produce", delay=40.0)
    code, out, err = run(
        """
        import sys, time
        from samsarrow import Producer
        producer = Producer(bootstrap_servers=sys.argv[1])
        producer.send("t", b"x")
        try:
            print("ready", flush=True)
            producer.close()
            print("not interrupted")
        except KeyboardInterrupt:
            print(time.time())
        """,
        servers,
        send=signal.SIGINT,
    )
    broker.heal()
    assert (code, err) == (0, "")
    assert time.time() - float(out) < 10.0


class Stops(BaseException):
    """An error that is neither an `Exception` nor an error of samsarrow, like `KeyboardInterrupt`."""


@pytest.mark.parametrize(
    "error", [OffsetOutOfRangeError("gone"), WakeupError("up"), ZeroDivisionError("x"), Stops("s")]
)
@pytest.mark.parametrize("how", ["rows", "partitioner", "format"])
def test_send_batch_raises_errors_of_its_reader(error, how, servers):
    def batches():
        yield pa.record_batch({"value": ["a"]})
        raise error

    options = {"partitioner": lambda topic, key, value, count: 0} if how == "partitioner" else {}
    reader = pa.RecordBatchReader.from_batches(pa.schema({"value": pa.string()}), batches())
    with Producer(bootstrap_servers=servers, **options) as producer:
        with pytest.raises(type(error)) as raised:
            producer.send_batch("t", reader, **({"value_format": "string"} if how == "format" else {}))
        assert raised.value is error
        if isinstance(error, Exception):
            # The row before the error stays queued.
            assert len(raised.value.delivery) == 1


def test_encode_batches_raises_errors_of_its_reader():
    def batches():
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        encode_batches(pa.RecordBatchReader.from_batches(pa.schema({"value": pa.binary()}), batches()))


def test_send_batch_raises_errors_of_a_consumer_reader(broker, servers):
    with (
        Producer(bootstrap_servers=servers, linger_ms=0) as producer,
        Admin(bootstrap_servers=servers) as admin,
        Consumer(bootstrap_servers=servers, auto_offset_reset="none") as consumer,
    ):
        for number in range(10):
            producer.send("t", str(number)).result(10)
        admin.delete_records({TopicPartition("t", 0): 5})
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek(TopicPartition("t", 0), 1)
        with pytest.raises(OffsetOutOfRangeError):
            producer.send_batch("four", consumer.reader())
