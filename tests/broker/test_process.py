"""Processes, signals and threads: fork, Ctrl-C, the GIL, and interpreter exit."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.exceptions import ForkError


def python(code, *args):
    """Starts a Python process whose output is text."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def in_child(work):
    """Calls `work` in a forked child process and returns the result as text."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, str(work()).encode())
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        output = pipe.read()
    os.waitpid(pid, 0)
    return output


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_clients_of_the_parent_raise_in_a_forked_child(broker):
    servers = broker.bootstrap_servers
    with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        delivery = producer.send("t", b"parent")
        delivery.result(10)
        consumer.assign([TopicPartition("t", 0)])
        for use in (
            lambda: producer.send("t", b"x"),
            lambda: consumer.poll(1),
            lambda: admin.list_topics(),
            lambda: delivery.result(),
            lambda: broker.create_topic("x"),
        ):
            output = in_child(use)
            assert output.startswith("ForkError:"), output
            assert f"created in process {os.getpid()}" in output
            assert "make a new one" in output

        assert in_child(lambda: repr(consumer)).endswith(", of the process that forked this one>")

        def child():
            with Producer(bootstrap_servers=servers) as own:
                return own.send("t", b"child").result(30).offset

        assert in_child(child) == "1"
        # The clients of the parent process still work.
        assert producer.send("t", b"parent").result(10).offset == 2
        assert consumer.poll(30).num_rows >= 1
    assert issubclass(ForkError, Exception)


def test_ctrl_c_ends_a_blocking_call(servers):
    waiting = python(
        """
        import sys, time
        from samsarrow import Consumer, TopicPartition
        consumer = Consumer(bootstrap_servers=sys.argv[1])
        consumer.assign([TopicPartition("t", 0)])
        try:
            print("ready", flush=True)
            consumer.poll(60)
        except KeyboardInterrupt:
            print(time.time(), flush=True)
        consumer.close()
        """,
        servers,
    )
    assert waiting.stdout.readline() == "ready\n"
    time.sleep(0.5)
    sent = time.time()
    waiting.send_signal(signal.SIGINT)
    out, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, err
    # The documented limit is 200 ms. The test allows 10 s on a busy machine; without the signal, the call would take a
    # minute.
    assert float(out) - sent < 10.0


def test_other_threads_run_while_a_call_waits(consumer):
    ticks = 0
    stop = threading.Event()

    def tick():
        nonlocal ticks
        while not stop.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = ticks
        # On an idle machine the thread ticks thousands of times; on a busy machine it waits for processor time.
        consumer.poll(4.0)
        assert ticks - before > 50
    finally:
        stop.set()
        thread.join()


def test_exit_without_close(servers):
    careless = python(
        """
        import sys
        from samsarrow import Consumer, Producer, TopicPartition
        producer = Producer(bootstrap_servers=sys.argv[1])
        for i in range(1000):
            producer.send("t", b"x", on_delivery=lambda m, e: None)
        consumer = Consumer(bootstrap_servers=sys.argv[1], auto_offset_reset="earliest")
        consumer.assign([TopicPartition("t", 0)])
        consumer.poll(5)
        """,
        servers,
    )
    _, err = careless.communicate(timeout=60)
    assert (careless.returncode, err) == (0, "")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_drops_no_log_line(servers):
    forks = python(
        """
        import logging, os, sys, time
        # Called after the client's own hook, and so while the client holds its log lines.
        os.register_at_fork(before=lambda: time.sleep(0.2))
        from samsarrow import Producer
        logging.basicConfig()
        # The client writes all lines, and only warnings are printed.
        logging.getLogger("samsarrow").setLevel(logging.DEBUG)
        logging.root.handlers[0].setLevel(logging.WARNING)
        with Producer(bootstrap_servers=sys.argv[1], linger_ms=0) as producer:
            for number in range(3):
                # Each connects anew, and says so at DEBUG.
                other = Producer(bootstrap_servers=sys.argv[1])
                other.send("t", b"v")
                if os.fork() == 0:
                    with Producer(bootstrap_servers=sys.argv[1]) as own:
                        own.send("t", b"child").result(30)
                    os._exit(0)
                os.wait()
                other.close()
            producer.send("t", b"v").result(30)
        """,
        servers,
    )
    _, err = forks.communicate(timeout=120)
    assert (forks.returncode, err) == (0, "")


def test_import_starts_no_thread():
    quiet = python(
        """
        import os, samsarrow.consumer, samsarrow.producer, samsarrow.admin
        print(len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1)
        import pyarrow
        """
    )
    alone = python(
        "import os, pyarrow; print(len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else 1)"
    )
    assert quiet.communicate(timeout=60)[0] == alone.communicate(timeout=60)[0]


def test_pytest_fixture_of_the_readme(samsarrow_broker):
    with Producer(bootstrap_servers=samsarrow_broker.bootstrap_servers) as producer:
        assert producer.send("made-on-demand", b"x").result(10).offset == 0
