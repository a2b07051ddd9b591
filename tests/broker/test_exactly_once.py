"""Records are stored in a database together with their offsets. Each record is stored exactly once, even if workers
die.
"""

import contextlib
import signal
import subprocess
import sys
import time

import psycopg
import pytest

from samsarrow import Producer
from samsarrow.testing import Broker
from support import postgres

RECORDS = 3000
WORKER = """
import sys
import psycopg
from samsarrow import Consumer
from samsarrow.offsets import SqlOffsetStore, next_offsets

servers, where, owner, rests = sys.argv[1:]
batches = 0
connection = psycopg.connect(where)
store = SqlOffsetStore(connection, "sink", owner=owner)
with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=50) as consumer:
    partitions = consumer.partitions_for("t")
    consumer.assign(partitions)
    for partition, stored in store.claim(partitions).items():
        if stored is not None:
            consumer.seek(partition, stored.offset)
    while sum(consumer.lag().values()):
        batch = consumer.poll(1.0)
        rows = zip(batch["partition"].to_pylist(), batch["offset"].to_pylist())
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO results VALUES (%s, %s)", rows)
            store.store(next_offsets(batch), cursor)
        connection.commit()
        print(batch.num_rows, flush=True)
        batches += 1
        if batches == int(rests):
            sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def database():
    try:
        postgres.programs()
    except postgres.PostgresUnavailableError as reason:
        pytest.skip(str(reason))
    with postgres.server() as where:
        yield where


@pytest.fixture
def servers(database):
    with Broker(topics={"t": 3}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for i in range(RECORDS):
                producer.send("t", b"%d" % i, partition=i % 3)
        with psycopg.connect(database) as connection:
            connection.execute("DROP TABLE IF EXISTS results, samsarrow_offsets")
            connection.execute("CREATE TABLE results (p INTEGER, o BIGINT)")
        yield broker.bootstrap_servers


def worker(servers, database, owner, rests=0):
    """Starts a worker. After `rests` batches, outside of a transaction, it waits for a line of input, so that it does
    not end before the test continues.
    """
    command = [sys.executable, "-c", WORKER, servers, database, owner, str(rests)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check(database):
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT p, o FROM results ORDER BY p, o").fetchall()
    assert rows == [(p, o) for p in range(3) for o in range(RECORDS // 3)]


def test_killed_workers(servers, database):
    for round_ in range(4):
        with worker(servers, database, str(round_), rests=4 + 3 * round_) as killed:
            for _ in range(1 + 3 * round_):
                assert killed.stdout.readline()
            # The delay differs per round, so that workers are killed between two commits or during a commit.
            time.sleep(0.003 * round_)
            killed.send_signal(signal.SIGKILL)
    with worker(servers, database, "last") as last:
        _, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    check(database)


def test_suspended_worker_is_fenced(servers, database):
    with contextlib.ExitStack() as stack:
        zombie = stack.enter_context(worker(servers, database, "zombie", rests=1))
        stack.callback(zombie.kill)
        assert zombie.stdout.readline()
        # The worker is outside of a transaction when it is stopped. Otherwise the next worker would wait for the rows
        # that it has locked.
        zombie.send_signal(signal.SIGSTOP)
        with worker(servers, database, "heir") as heir:
            for _ in range(5):
                assert heir.stdout.readline()
            zombie.send_signal(signal.SIGCONT)
            _, err = zombie.communicate(timeout=120)
            assert zombie.returncode == 1
            assert "FencedOwnerError: t-" in err
            assert "is claimed by heir (generation 2), and this worker's claim is of generation 1" in err
            _, err = heir.communicate(timeout=120)
        assert heir.returncode == 0, err
    check(database)
