"""Offset stores check the types and ranges of their arguments."""

import sqlite3

import pytest

from samsarrow import AsyncAdmin, OffsetAndMetadata, TopicPartition
from samsarrow.exceptions import ConfigurationError
from samsarrow.offsets import FileOffsetStore, KafkaOffsetStore, OffsetStoreError, SqlOffsetStore

ONLY = TopicPartition("t", 0)


@pytest.fixture(params=["file", "sql"])
def store(request, tmp_path):
    if request.param == "file":
        created = FileOffsetStore(tmp_path / "offsets.json")
    else:
        created = SqlOffsetStore(sqlite3.connect(":memory:"), "g")
    yield created
    created.close()


@pytest.mark.parametrize(
    ("offsets", "error", "text"),
    [
        ("t", TypeError, "offsets must be a mapping of TopicPartition to the next offset, not str"),
        ([ONLY], TypeError, "offsets must be a mapping .*, not list"),
        ({"t": 1}, TypeError, "expected a TopicPartition, got 't'"),
        ({TopicPartition("t", "0"): 1}, TypeError, "the partition of a TopicPartition is an int"),
        ({ONLY: "1"}, TypeError, "expected an offset or OffsetAndMetadata, got '1'"),
        ({ONLY: 1.5}, TypeError, "expected an offset or OffsetAndMetadata, got 1.5"),
        ({ONLY: None}, TypeError, "expected an offset or OffsetAndMetadata, got None"),
        ({ONLY: OffsetAndMetadata(1, 5)}, TypeError, "expected an offset or OffsetAndMetadata"),
        ({ONLY: -1}, OffsetStoreError, "cannot store offset -1 of t-0: offsets start at 0"),
        ({ONLY: 2**63}, ConfigurationError, "an offset must be from 0 to 9223372036854775807, not 9223372036854775808"),
        ({TopicPartition("t", -1): 1}, ConfigurationError, "the partition of topic t must be from 0 to"),
    ],
)
def test_offsets(store, offsets, error, text):
    with pytest.raises(error, match=text):
        store.store(offsets)
    assert store.load() == {}


def test_partitions(store):
    store.store({("t", 0): 1})
    assert store.load([("t", 0)]) == {ONLY: OffsetAndMetadata(1)}
    for partitions, text in [
        ("t", "partitions must be a list of TopicPartitions, not 't'"),
        (5, "partitions must be a list of TopicPartitions, not 5"),
        (ONLY, r"partitions must be a list, not one TopicPartition: pass \[TopicPartition"),
        (["t"], "expected a TopicPartition, got 't'"),
    ]:
        with pytest.raises(TypeError, match=text):
            store.load(partitions)


def test_constructors():
    connection = sqlite3.connect(":memory:")
    for create, error, text in [
        (lambda: SqlOffsetStore("x.db", "g"), TypeError, "connection must be an open database connection.*, not str"),
        (lambda: SqlOffsetStore(connection, 5), TypeError, "group must be text, not int"),
        (lambda: SqlOffsetStore(connection, ""), ConfigurationError, "group must not be empty"),
        (lambda: SqlOffsetStore(connection, "g", table=5), TypeError, "table must be text, not int"),
        (lambda: KafkaOffsetStore(5, bootstrap_servers="h:1"), TypeError, "group must be text, not int"),
        (lambda: KafkaOffsetStore("g", "h:1"), ConfigurationError, "the configuration must be a mapping"),
        (
            lambda: KafkaOffsetStore("g", admin=AsyncAdmin(bootstrap_servers="h:1")),
            TypeError,
            "admin must be an Admin, not AsyncAdmin",
        ),
    ]:
        with pytest.raises(error, match=text):
            create()
    with pytest.raises(TypeError, match="not one TopicPartition"):
        SqlOffsetStore(connection, "g").claim(ONLY)
    with pytest.raises(TypeError, match="not 't'"):
        KafkaOffsetStore("g", bootstrap_servers="h:1").load("t")
