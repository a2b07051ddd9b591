"""SQL over a topic as it is at this moment, by DuckDB, batch for batch as they come: no table is made of it before.

    python sql.py localhost:9092 orders \
        "SELECT json ->> 'currency' AS currency, count(*) AS orders FROM records GROUP BY 1 ORDER BY 1"

The view `records` has the columns of the topic and `json`, the value where it is JSON and null where it is not. It can
be read once, from the first record of each partition to what is its end when the query begins; a query that reads it
twice makes a table of it first: `WITH t AS MATERIALIZED (FROM records) …`.
"""

import sys

import duckdb
import pyarrow as pa

from samsarrow import Consumer

RECORDS = """
SELECT *, CASE WHEN json_valid(text) THEN text::JSON END AS json
FROM (SELECT *, TRY(decode(value)) AS text FROM topic)
"""


def query(servers: str, topic: str, sql: str) -> pa.Table:
    """The result of a query over `records`."""
    with (
        Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed") as consumer,
        duckdb.connect() as database,
    ):
        consumer.assign(consumer.partitions_for(topic))
        database.register("topic", consumer.reader())
        database.execute(f"CREATE TEMP VIEW records AS {RECORDS}")
        return database.sql(sql).arrow().read_all()


if __name__ == "__main__":
    print(query(*sys.argv[1:]).to_pylist())  # noqa: T201
