"""Runs SQL over the current contents of a topic with DuckDB, batch by batch, without loading them into a table.

    python sql.py localhost:9092 orders \
        "SELECT json ->> 'currency' AS currency, count(*) AS orders FROM records GROUP BY 1 ORDER BY 1"

The view `records` has the columns of the topic, and `json`: the value if it is JSON, otherwise null. It can be read
once, from the beginning of each partition to its end at the start of the query. A query that reads it twice must
materialize it first: `WITH t AS MATERIALIZED (FROM records) …`.
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
    """Returns the result of a query over `records`."""
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
