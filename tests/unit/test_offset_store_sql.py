"""`SqlOffsetStore` on sqlite3 and on PostgreSQL, with the same tests for both."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from samsarrow import OffsetAndMetadata, TopicPartition
from samsarrow.exceptions import ConfigurationError
from samsarrow.offsets import BackwardsOffsetError, FencedOwnerError, OffsetStore, OffsetStoreError, SqlOffsetStore
from support import postgres

A, B = TopicPartition("a", 0), TopicPartition("b", 7)
Connect = Callable[[], Any]


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[str]:
    try:
        postgres.programs()
    except postgres.PostgresUnavailableError as reason:
        pytest.skip(str(reason))
    with postgres.server() as where:
        yield where


@pytest.fixture(params=["sqlite3", "postgresql"])
def connect(request, tmp_path) -> Iterator[Connect]:
    """Returns a function that opens connections to an empty database."""
    opened: list[Any] = []
    if request.param == "sqlite3":

        def make() -> Any:
            opened.append(sqlite3.connect(tmp_path / "db", check_same_thread=False, timeout=20))
            return opened[-1]
    else:
        where = request.getfixturevalue("postgres_server")
        name = f"test_{os.getpid()}_{time.monotonic_ns()}"
        with psycopg.connect(where, autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")

        def make() -> Any:
            opened.append(psycopg.connect(where, dbname=name))
            return opened[-1]

    yield make
    for connection in opened:
        connection.close()


def test_stored_offsets_are_loaded_by_other_instances(connect):
    store = SqlOffsetStore(connect(), "g")
    assert isinstance(store, OffsetStore)
    assert store.load([A]) == {A: None}
    assert store.load() == {}
    store.store({A: 5, B: OffsetAndMetadata(2**62, "größe 'x'; --", 4)})
    other = SqlOffsetStore(connect(), "g")
    assert other.load([B, TopicPartition("c", 0)]) == {
        B: OffsetAndMetadata(2**62, "größe 'x'; --", 4),
        TopicPartition("c", 0): None,
    }
    store.store({A: 6})
    store.store({A: 6})
    assert other.load() == {A: OffsetAndMetadata(6), B: OffsetAndMetadata(2**62, "größe 'x'; --", 4)}
    assert SqlOffsetStore(connect(), "h").load() == {}
    store.close()
    store.close()


def test_store_joins_the_callers_transaction(connect):
    connection = connect()
    store = SqlOffsetStore(connection, "g")
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE results (n INTEGER)")
    connection.commit()
    cursor.execute("INSERT INTO results VALUES (1)")
    store.store({A: 1}, cursor)
    assert store.load(cursor=cursor) == {A: OffsetAndMetadata(1)}
    assert SqlOffsetStore(connect(), "g").load([A]) == {A: None}, "nothing is to be seen before the commit"
    connection.rollback()
    assert store.load() == {}
    cursor.execute("INSERT INTO results VALUES (2)")
    store.store({A: 2, B: 3}, cursor)
    connection.commit()
    seen = connect()
    assert SqlOffsetStore(seen, "g").load() == {A: OffsetAndMetadata(2), B: OffsetAndMetadata(3)}
    assert seen.cursor().execute("SELECT n FROM results").fetchall() == [(2,)]


def test_smaller_offsets_need_backwards(connect):
    store = SqlOffsetStore(connect(), "g")
    store.store({A: 10, B: 10})
    with pytest.raises(BackwardsOffsetError, match=r"b-7 of group g would move back from offset 10 to 9"):
        store.store({A: 11, B: 9})
    assert store.load() == {A: OffsetAndMetadata(10), B: OffsetAndMetadata(10)}, "all or nothing"
    store.store({A: 4, B: 9}, backwards=True)
    assert store.load() == {A: OffsetAndMetadata(4), B: OffsetAndMetadata(9)}
    with pytest.raises(OffsetStoreError, match="offset -1 of a-0"):
        store.store({A: -1})


def test_previous_owner_is_fenced(connect):
    zombie = SqlOffsetStore(connect(), "g", owner="one")
    assert zombie.claim([B, A]) == {B: None, A: None}
    zombie.store({A: 3, B: 4})
    heir = SqlOffsetStore(connect(), "g", owner="two")
    assert heir.claim([A]) == {A: OffsetAndMetadata(3)}
    with pytest.raises(FencedOwnerError, match=r"a-0 of group g is claimed by two \(generation 2\).* of generation 1"):
        zombie.store({A: 5})
    with pytest.raises(FencedOwnerError):
        zombie.store({A: 1}, backwards=True)
    zombie.store({B: 6})
    with pytest.raises(FencedOwnerError, match="this worker never claimed it"):
        SqlOffsetStore(connect(), "g").store({A: 9})
    heir.store({A: 4})
    assert heir.load() == {A: OffsetAndMetadata(4), B: OffsetAndMetadata(6)}


def test_fenced_owner_cannot_commit_its_transaction(connect):
    connection = connect()
    zombie = SqlOffsetStore(connection, "g", owner="one")
    connection.cursor().execute("CREATE TABLE results (n INTEGER)")
    connection.commit()
    zombie.claim([A])
    heir = SqlOffsetStore(connect(), "g", owner="two")
    heir.claim([A])
    cursor = connection.cursor()
    cursor.execute("INSERT INTO results VALUES (1)")
    with pytest.raises(FencedOwnerError):
        zombie.store({A: 1}, cursor)
    connection.rollback()
    assert cursor.execute("SELECT count(*) FROM results").fetchone() == (0,)


def test_claim_waits_for_an_open_transaction_of_the_previous_owner(connect):
    connection = connect()
    old = SqlOffsetStore(connection, "g", owner="one")
    old.claim([A])
    heir = SqlOffsetStore(connect(), "g", owner="two")
    old.store({A: 8}, connection.cursor())
    claimed = {}
    thread = threading.Thread(target=lambda: claimed.update(heir.claim([A])))
    thread.start()
    time.sleep(0.3)
    assert thread.is_alive(), "the row belongs to a transaction that may still commit"
    connection.commit()
    thread.join(60)
    assert claimed == {A: OffsetAndMetadata(8)}, "the heir goes on after what the other committed last"
    with pytest.raises(FencedOwnerError):
        old.store({A: 9})


def test_concurrent_claims_do_not_deadlock(connect):
    partitions = [TopicPartition("t", i) for i in range(20)]
    stores = [SqlOffsetStore(connect(), "g", owner=str(i)) for i in range(4)]
    failures = []

    def work(store, order):
        try:
            for _ in range(3):
                store.claim(order)
        except Exception as error:
            failures.append(error)

    orders = [partitions, partitions[::-1], partitions[7:] + partitions[:7], partitions]
    threads = [threading.Thread(target=work, args=pair) for pair in zip(stores, orders, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    owned = []
    for store in stores:
        try:
            store.store(dict.fromkeys(partitions, 1))
            owned.append(store.owner)
        except FencedOwnerError:
            pass
    assert len(owned) == 1, "the last one has all"


def test_existing_table_and_table_name(connect):
    for _ in range(2):
        SqlOffsetStore(connect(), "g", table="my_offsets").store({A: 1})
    connection = connect()
    assert connection.cursor().execute("SELECT count(*) FROM my_offsets").fetchone() == (1,)
    for bad in ("offsets; DROP TABLE x", "", "1a", 'a"b', "a.b.c"):
        with pytest.raises(ConfigurationError, match="is not a valid table name"):
            SqlOffsetStore(connection, "g", table=bad)


def test_a_thousand_partitions(connect):
    store = SqlOffsetStore(connect(), "g")
    offsets = {TopicPartition(f"t{i % 7}", i): OffsetAndMetadata(i) for i in range(1000)}
    store.store(offsets)
    assert store.load(offsets) == offsets


@pytest.mark.parametrize("style", ["qmark", "numeric", "named"])
def test_paramstyles(style):
    connection = sqlite3.connect(":memory:")
    store = SqlOffsetStore(connection, "g", paramstyle=style)
    store.store({A: 5, B: OffsetAndMetadata(6, "m", 1)})
    store.claim([A])
    assert store.load([A, B]) == {A: OffsetAndMetadata(5), B: OffsetAndMetadata(6, "m", 1)}


def test_unknown_paramstyle_is_an_error():
    class Mine(sqlite3.Connection):
        pass

    assert SqlOffsetStore(sqlite3.connect(":memory:", factory=Mine), "g").load() == {}
    with pytest.raises(ConfigurationError, match=r"types.SimpleNamespace does not declare its paramstyle"):
        SqlOffsetStore(SimpleNamespace(cursor=list), "g")
    with pytest.raises(ConfigurationError, match="'mark' is not one of qmark, numeric"):
        SqlOffsetStore(sqlite3.connect(":memory:"), "g", paramstyle="mark")


def test_autocommit_connections_need_a_cursor(postgres_server):
    lite = sqlite3.connect(":memory:", isolation_level=None)
    store = SqlOffsetStore(lite, "g")
    with pytest.raises(ConfigurationError, match="switch autocommit off"):
        store.store({A: 1})
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        store = SqlOffsetStore(connection, "autocommit")
        with pytest.raises(ConfigurationError, match="switch autocommit off"):
            store.store({A: 1})
        with connection.transaction(), connection.cursor() as cursor:
            store.store({A: 1}, cursor)
        assert store.load() == {A: OffsetAndMetadata(1)}


def test_read_only_database_error_has_a_note(tmp_path):
    path = tmp_path / "db"
    sqlite3.connect(path).close()
    readonly = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    with pytest.raises(sqlite3.OperationalError, match="samsarrow_offsets") as raised:
        SqlOffsetStore(readonly, "g")
    assert "could not be created" in raised.value.__notes__[0]
