"""Processes whose `threading` is replaced by greenlets: gevent and eventlet."""

import os
import subprocess
import sys
import textwrap

import pytest

PATCHES = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}
# Timeout of a program in seconds; a program that takes longer counts as hanging.
TIMEOUT = 120.0

patched = pytest.mark.parametrize("library", PATCHES)


def run(library, code, *args, first="", code_expected=0):
    """Runs a program that executes `first`, monkey-patches, and then executes `code`. Returns its output."""
    program = "\n".join([first, PATCHES[library], "import samsarrow as s, sys", textwrap.dedent(code)])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *args],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code_expected, ""), done.stdout + done.stderr
    return done.stdout


@patched
@pytest.mark.parametrize("first", ["", "import samsarrow"], ids=["patched first", "imported first"])
def test_clients_work(library, first, servers):
    out = run(
        library,
        """
        import threading
        import pyarrow as pa
        servers, delivered, changes, commits = sys.argv[1], [], [], []

        class Mine(s.Assignor):
            name = "mine"
            def assign(self, partitions, members):
                return {member: [s.TopicPartition("t", 0)] for member in members}

        with s.Producer(bootstrap_servers=servers) as producer:
            for number in range(200):
                producer.send("t", str(number), on_delivery=lambda metadata, error: delivered.append(error))
            producer.send("t", b"v").result(30)
            producer.flush(30)
            assert delivered == [None] * 200, delivered
            producer.send_batch("t", pa.table({"value": ["a"] * 10})).result(30)
        listener = s.RebalanceListener(changes.append, changes.append)
        with s.Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest",
                        partition_assignment_strategy=[Mine()]) as consumer:
            consumer.subscribe(["t"], listener=listener)
            rows = 0
            while rows < 211:
                rows += consumer.poll(1).num_rows
            consumer.commit_async(callback=lambda offsets, error: commits.append(error))
            while not commits:
                consumer.poll(0.1)
            consumer.commit()
        assert changes == [[s.TopicPartition("t", 0)]] * 2 and commits == [None], (changes, commits)

        def work():
            with s.Admin(bootstrap_servers=servers) as admin:
                assert "t" in admin.list_topics()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        unclosed = s.Producer(bootstrap_servers=servers, linger_ms=100)
        unclosed.send("t", b"last", on_delivery=lambda metadata, error: print("last", error))
        member = s.Consumer(bootstrap_servers=servers, group_id="other")
        member.subscribe(["t"])
        member.poll(0.1)
        sys.exit(3)
        """,
        servers,
        first=first,
        code_expected=3,
    )
    assert out == "last None\n"


@patched
def test_callbacks_are_called_while_greenlets_run(library, servers):
    out = run(
        library,
        """
        import time
        import threading
        done = []
        producer = s.Producer(bootstrap_servers=sys.argv[1])
        producer.send("t", b"v", on_delivery=lambda metadata, error: done.append(threading.current_thread().name))
        # No call of the client is waiting during this loop.
        deadline = time.monotonic() + 60
        while not done and time.monotonic() < deadline:
            time.sleep(0.01)
        print(len(done))
        producer.close()
        """,
        servers,
    )
    assert out == "1\n"


@patched
def test_logging_while_a_greenlet_holds_a_lock(library, servers, tmp_path):
    path = tmp_path / "log"
    run(
        library,
        """
        import logging, threading, time
        logging.basicConfig(level=logging.DEBUG, filename=sys.argv[2])
        log = logging.getLogger("program")
        def work():
            with s.Producer(bootstrap_servers=sys.argv[1], linger_ms=0) as producer:
                for number in range(100):
                    log.info("before")
                    producer.send("t", b"v", on_delivery=lambda metadata, error: log.info("delivered")).result(30)
                    log.info("after")
                    if number % 10 == 0:
                        time.sleep(0)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """,
        servers,
        os.fspath(path),
    )
    lines = path.read_text().splitlines()
    assert sum(line.endswith("delivered") for line in lines) == 400
    assert any("samsarrow.producer" in line for line in lines)


@patched
def test_flush_during_and_within_a_callback(library, servers):
    out = run(
        library,
        """
        import threading, time
        producer = s.Producer(bootstrap_servers=sys.argv[1], linger_ms=0)
        def slow(metadata, error):
            producer.flush(30)
            # Lets another greenlet flush.
            time.sleep(0.2)
            done.append(error)
        done = []
        for _ in range(3):
            producer.send("t", b"v", on_delivery=slow)
        time.sleep(0.1)
        thread = threading.Thread(target=producer.flush)
        thread.start()
        producer.flush()
        thread.join()
        while len(done) < 3:
            time.sleep(0.01)
        producer.close()
        print(done)
        """,
        servers,
    )
    assert out == "[None, None, None]\n"


def test_callbacks_after_the_hub_thread_has_ended(servers):
    out = run(
        "gevent",
        """
        import gevent
        done = []
        def first():
            producer = s.Producer(bootstrap_servers=sys.argv[1])
            producer.send("t", b"v", on_delivery=lambda metadata, error: done.append(error))
            return producer
        pool = gevent.get_hub().threadpool
        producer = pool.apply(first)
        pool.kill()
        producer.flush(30)
        print(done)
        producer.close()
        """,
        servers,
    )
    assert out == "[None]\n"


@patched
def test_test_registry_rejects_monkey_patched_threads(library):
    out = run(
        library,
        """
        from samsarrow.testing import Registry
        try:
            Registry()
        except RuntimeError as error:
            print(error)
        """,
    )
    assert library in out
    assert "start it in another process" in out
