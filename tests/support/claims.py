"""Sentences of other pages with measured numbers, computed from the tables of docs/benchmarks.md."""

import re

from support.benchmarks import Table, number, tables
from support.tuning_numbers import effects

READ = "A topic into Arrow"
WRITE = "An Arrow table into a topic"
CPU = "CPU, µs per record"


def ratio(table: Table, column: str, slow: str, fast: str) -> float:
    return number(table.cell(slow, column)) / number(table.cell(fast, column))


def claims() -> dict[str, list[str]]:
    """Returns the sentences with measured numbers, as the tables have them, by page."""
    read, write = tables(READ)[0], tables(WRITE)[0]
    loops, values, spark = tables("Event loops")[0], tables("Typed values")[0], tables("Spark")[0]
    by_call = ratio(write, "records/s", "samsarrow, `send_batch`", "samsarrow, `send`")
    cpu_by_call = ratio(write, CPU, "samsarrow, `send`", "samsarrow, `send_batch`")
    rates = spark.rows[: [row[0] for row in spark.rows].index("**milliseconds**")]
    python, jvm = ([re.findall(r"\(([\d.]+) ×\)", row[column])[0] for row in rates] for column in (2, 3))
    reads = read.cell("samsarrow", "× confluent-kafka", of="100 B")
    writes, cost = write.cell("samsarrow, `send_batch`", "× confluent-kafka"), read.cell("samsarrow", CPU, of="100 B")
    fastest = (
        f"samsarrow reads a topic into Arrow {reads} times as fast as confluent-kafka, and writes an Arrow table "
        f"{writes} times as fast. Reading a record takes {cost} µs of CPU."
    )
    loop = f"{by_call:.1f} times as fast as a loop over `send`, and takes a {cpu_by_call:.0f}th of its CPU time"
    return {
        "README.md": [fastest],
        "docs/index.md": [fastest],
        "docs/produce.md": [loop],
        "docs/migrating/confluent-kafka.md": [loop],
        "docs/migrating/spark-sql-kafka.md": [
            f"{min(python, key=float)} to {max(python, key=float)} times in Python, {min(jvm, key=float)} to "
            f"{max(jvm, key=float)} times in the JVM"
        ],
        "docs/asyncio.md": [
            f"{loops.cell('deliveries awaited after `send`', CPU)} µs of CPU per record. `send_and_wait` in a `gather` "
            f"takes {loops.cell('10,000 awaited sends at a time (`gather`)', CPU)} µs"
            for loops in [Table(loops.head, [row for row in loops.rows if row[1] == "samsarrow, defaults"])]
        ],
        "docs/compared.md": [
            f"| {title} | {' | '.join(table.cell(client, column, **of) for client in clients)} |"
            for title, table, column, clients, of in (
                (
                    "100-byte records into Arrow, records/s",
                    read,
                    "records/s",
                    ("samsarrow", "confluent-kafka", "aiokafka"),
                    {"of": "100 B"},
                ),
                ("CPU, µs per record", read, CPU, ("samsarrow", "confluent-kafka", "aiokafka"), {"of": "100 B"}),
                (
                    "an Arrow table into a topic, records/s",
                    write,
                    "records/s",
                    ("samsarrow, `send_batch`", "confluent-kafka, out of a table", "aiokafka"),
                    {},
                ),
                (
                    "one call per record, records/s",
                    write,
                    "records/s",
                    ("samsarrow, `send`", "confluent-kafka, `produce`"),
                    {},
                ),
            )
        ],
        "docs/tuning.md": [loop, *effects().values()],
        "docs/values.md": [
            f"{number(values.rows[1][2]) / number(values.rows[0][2]):.2f} times the CPU time for two of eight fields"
        ],
    }
