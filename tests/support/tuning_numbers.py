"""Measured effects that docs/tuning.md states, computed from the tables of docs/benchmarks.md."""

from support.benchmarks import Table, number, tables

CPU = "CPU, µs per record"


def effects() -> dict[str, str]:
    """Returns the sentences of the page, by their subject."""
    read, growth = tables("A topic into Arrow")[0], tables("Growth")[0]
    batches, values = tables("Kept data, small polls and small batches")[2], tables("Typed values")[0]
    _, columns, single = tables("An Arrow table into a topic")
    loops, decoded = tables("Event loops")[0], tables("Decoding and encoding by themselves")[0]
    tls, processes = tables("TLS")[0], tables("From one process to another")[0]
    rows = Table(loops.head, [row for row in loops.rows if row[0] == "`records()`"])
    (commits,) = [row[1] for row in tables("Groups")[0].rows if row[0] == "commits, samsarrow"]

    def partitions(count: str) -> str:
        return growth.cell(f"3,000,000 records, {count}", "records/s")

    return {
        "loop": f"columns take {read.cell('samsarrow', CPU, of='100 B')} µs of CPU per record, `records()` takes "
        f"{rows.cell('samsarrow, blocking', CPU)} µs",
        "values": f"JSON takes {values.cell('JSON, samsarrow', CPU)} µs of CPU per record, and "
        f"{values.cell('by orjson', CPU)} µs with orjson in a loop",
        "fields": f"{number(values.rows[1][2]) / number(values.rows[0][2]):.2f} times the CPU time for two of eight "
        "fields",
        "commits": f"{commits}, one after the other",
        "batches": f"{batches.cell('100', 'records/s')} records/s with 100 records in a record batch, "
        f"{batches.cell('10', 'records/s')} with 10, {batches.cell('1', 'records/s')} with 1",
        "partitions": f"{partitions('1 partition')} records/s from 1 partition, {partitions('1,000 partitions')} from "
        "1,000 with little data in each",
        "codecs": f"{read.cell('samsarrow', CPU, of='JSON, lz4')} µs of CPU per record with lz4, "
        f"{read.cell('samsarrow', CPU, of='JSON, zstd')} µs with zstd",
        "tls": f"{tls.cell('100 B', 'samsarrow')} µs of CPU per record, "
        f"{tls.cell('100 B', 'samsarrow without TLS')} µs without TLS",
        "view": f"values of 1 KB are decoded at {decoded.cell('1 KB', 'decoded, `view`')} million per second, at "
        f"{decoded.cell('1 KB', 'decoded, `binary`')} million with `binary`",
        "single": f"{single.cell('samsarrow, in three runs', 'p50, µs')} µs (p50 of three runs)",
        "produced": f"{columns.cell('none', 'records/s', of='100,000 keys')} records/s without compression, "
        f"{columns.cell('lz4', 'records/s', of='100,000 keys')} with lz4, on a fast network",
        "latency": f"{processes.cell('samsarrow, defaults', 'p50, µs')} µs or less (three runs)",
        "rss": f"reads 100-byte records needs {read.cell('samsarrow', 'peak RSS, MiB', of='100 B')} MiB",
    }
