"""SQL over a topic with the unmodified program of examples/duckdb."""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")

from samsarrow import Producer  # noqa: E402
from samsarrow.testing import Broker  # noqa: E402
from support.examples import EXAMPLES, module  # noqa: E402

BY_CURRENCY = "SELECT json ->> 'currency' AS currency, count(*) AS orders FROM records GROUP BY 1 ORDER BY 1"
ODD = [b"no JSON", b"\xff", b"", None]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A topic of 500 orders, some other values, and an aborted transaction."""
    with Broker(topics={"orders": 3, "many": 2, "none": 1}) as broker:
        servers = broker.bootstrap_servers
        with Producer(bootstrap_servers=servers, transactional_id="feeds") as producer:
            with producer.transaction():
                for number in range(500):
                    currency = "EUR" if number % 5 else "USD"
                    value = ODD[number // 50 % 4] if number % 50 == 1 else b'{"currency":"%s"}' % currency.encode()
                    producer.send("orders", value, f"k{number}", partition=number % 3)
            producer.begin_transaction()
            producer.send("orders", b'{"currency":"GBP"}')
            producer.abort_transaction()
        with Producer(bootstrap_servers=servers) as producer:
            rows = pa.table({"value": [str(i) for i in range(300_000)], "to": [i % 2 for i in range(300_000)]})
            producer.send_batch("many", rows, partition="to").result()
        yield servers


@pytest.fixture(scope="module")
def query(servers: str) -> Callable[..., list[dict[str, Any]]]:
    sql = module("duckdb/sql.py")
    return lambda text, topic="orders": sql.query(servers, topic, text).to_pylist()


def test_query(query: Any) -> None:
    assert query(BY_CURRENCY) == [
        {"currency": "EUR", "orders": 390},
        {"currency": "USD", "orders": 100},
        {"currency": None, "orders": 10},
    ]


def test_columns_of_the_topic(query: Any) -> None:
    sql = 'SELECT topic, partition, count(*) AS n, max("offset") AS last FROM records GROUP BY ALL ORDER BY partition'
    assert query(sql) == [
        {"topic": "orders", "partition": p, "n": n, "last": n - 1} for p, n in ((0, 167), (1, 167), (2, 166))
    ]
    [row] = query("SELECT key, value, json FROM records WHERE key = 'k51'::BLOB")
    assert row == {"key": b"k51", "value": b"\xff", "json": None}


def test_many_batches(query: Any) -> None:
    [row] = query("SELECT count(*) AS n, sum(text::BIGINT)::BIGINT AS total FROM records", "many")
    assert row == {"n": 300_000, "total": 300_000 * 299_999 // 2}
    assert len(query("FROM records LIMIT 7", "many")) == 7
    assert query("FROM records", "none") == []


def test_query_that_reads_twice_materializes(query: Any) -> None:
    twice = "(SELECT count(*) FROM {0}) AS n, (SELECT count(DISTINCT key) FROM {0}) AS keys"
    with pytest.raises(duckdb.Error, match="already been consumed"):
        query("SELECT " + twice.format("records"))
    result = query("WITH t AS MATERIALIZED (FROM records) SELECT " + twice.format("t"))
    assert result == [{"n": 500, "keys": 500}]


def test_program(servers: str) -> None:
    command = [sys.executable, str(EXAMPLES / "duckdb" / "sql.py"), servers, "orders", BY_CURRENCY]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert ast.literal_eval(done.stdout)[0] == {"currency": "EUR", "orders": 390}
