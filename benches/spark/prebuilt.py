"""A Python source without work of its own, which shows the upper limit of Spark's path from Python to rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

PARTITIONS = 2
ROWS = 8_000


class Prebuilt(DataSource):
    """Yields a batch of the source's schema until the requested number of rows is reached."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> Any:
        from samsarrow.spark.schema import spark_schema

        return spark_schema(self._columns())

    def _columns(self) -> tuple[str, ...]:
        from samsarrow.spark.schema import COLUMNS

        return tuple(self.options["columns"].split(",")) if "columns" in self.options else COLUMNS[:-1]

    def reader(self, schema: Any) -> DataSourceReader:
        return PrebuiltReader(self._columns(), int(self.options["rows"]) // PARTITIONS)


class PrebuiltReader(DataSourceReader):
    def __init__(self, columns: tuple[str, ...], rows: int) -> None:
        self._columns, self._rows = columns, rows

    def partitions(self) -> Any:
        return [InputPartition(p) for p in range(PARTITIONS)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from samsarrow.spark.schema import arrow_schema

        full = {
            "key": pa.array([None] * ROWS, pa.binary()),
            "value": pa.array([b"%0100d" % i for i in range(ROWS)], pa.binary()),
            "topic": pa.repeat(pa.scalar("bench-plain"), ROWS),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), ROWS),
            "offset": pa.array(range(ROWS), pa.int64()),
            "timestamp": pa.array([0] * ROWS, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "timestampType": pa.repeat(pa.scalar(0, pa.int32()), ROWS),
        }
        schema = arrow_schema(self._columns)
        batch = pa.RecordBatch.from_arrays([full[name] for name in self._columns], schema=schema)
        left = self._rows
        while left > 0:
            yield batch.slice(0, min(ROWS, left))
            left -= ROWS
