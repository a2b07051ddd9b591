"""The engines of samsarrow.integrations, each as a function that reads a plan into a table."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import samsarrow
from samsarrow import Consumer
from samsarrow.ranges import Plan
from support.waiting import until

ENGINES = ("ray", "daft", "datafusion", "dlt")
PLANNED = ("ray", "daft", "datafusion")
COLUMNS = ["partition", "offset", "key", "value"]
Read = Callable[[Plan], pa.Table]


def need(name: str) -> None:
    """Skips the test if the package of an engine is not installed."""
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed: `make test-engines` has all engines")


def in_order(table: pa.Table) -> pa.Table:
    """Returns the compared columns, in the order of partitions and offsets, with plain types."""
    # Keys and values are of other binary types in some engines.
    schema = pa.schema(
        [("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()), ("value", pa.binary())]
    )
    table = table.select(COLUMNS).cast(schema)
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")]).combine_chunks()


def digest(table: pa.Table) -> str:
    """Returns a digest of all rows."""
    return hashlib.sha256(repr(in_order(table).to_pydict()).encode()).hexdigest()


def polled(servers: str, topic: str, rows: int) -> pa.Table:
    """Reads a topic by polls, without a plan."""
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        batches: list[pa.RecordBatch] = []
        until(lambda: batches.append(consumer.poll(0.5)) or sum(batch.num_rows for batch in batches) >= rows)
        return pa.Table.from_batches(batches, consumer.schema)


def ray_table(plan: Plan) -> pa.Table:
    """Reads a plan with Ray Data."""
    import ray

    dataset = ray.data.read_datasource(samsarrow.ray.Topic(plan))
    blocks = [ray.get(one) for one in dataset.to_arrow_refs()]
    blocks = [block for block in blocks if block.num_rows]
    return pa.concat_tables(blocks) if blocks else plan.schema.empty_table()


def daft_table(plan: Plan) -> pa.Table:
    """Reads a plan with Daft."""
    return samsarrow.daft.read_topic(plan).to_arrow()


def datafusion_table(plan: Plan) -> pa.Table:
    """Reads a plan with DataFusion."""
    import datafusion

    context = datafusion.SessionContext()
    context.register_table("t", samsarrow.datafusion.table(plan))
    return context.sql("SELECT * FROM t").to_arrow_table()


class Pipeline:
    """Pipeline of dlt into a file of DuckDB.

    Args:
        folder: folder of the pipeline and the file.
    """

    def __init__(self, folder: Path) -> None:
        import dlt

        self._file = folder / "rows.duckdb"
        self.dlt = dlt.pipeline(
            "rows",
            destination=dlt.destinations.duckdb(str(self._file)),
            dataset_name="kafka",
            pipelines_dir=str(folder / "state"),
        )

    def run(self, resource: Any) -> None:
        """Runs a resource."""
        self.dlt.run(resource)

    def table(self, name: str = "rows") -> pa.Table:
        """Returns the loaded rows."""
        import duckdb

        with duckdb.connect(str(self._file)) as connection:
            columns = ", ".join(f'"{one}"' for one in COLUMNS)
            with contextlib.suppress(duckdb.CatalogException):
                return connection.sql(f"SELECT {columns} FROM kafka.{name}").to_arrow_table()
        return pa.table({name: [] for name in COLUMNS})


READS: dict[str, Read] = {"ray": ray_table, "daft": daft_table, "datafusion": datafusion_table}


def started_ray() -> Iterator[None]:
    """Runs Ray with two processors while a session of tests needs it."""
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield
    finally:
        ray.shutdown()
