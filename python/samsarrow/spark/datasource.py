"""The data source as Spark calls it."""

from __future__ import annotations

from functools import cached_property

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.reader import KafkaReader
from samsarrow.spark.schema import spark_schema


class KafkaDataSource(DataSource):
    """`spark.read.format("samsarrow")`: Kafka as a DataFrame with the columns and options of Spark's own connector.

    Columns: `key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,
    timestampType int` and, with `includeHeaders`, `headers array<struct<key:string,value:binary>>`.
    """

    @classmethod
    def name(cls) -> str:
        return "samsarrow"

    @cached_property
    def _read_options(self) -> ReadOptions:
        return ReadOptions.parse(dict(self.options))

    def schema(self) -> StructType:
        return spark_schema(self._read_options.include_headers)

    # Spark passes `schema` by keyword: the name is part of the contract.
    def reader(self, schema: StructType) -> DataSourceReader:
        expected = self.schema()
        if schema != expected:
            raise ConfigurationError(
                f"this source has a fixed schema, {expected.simpleString()}: drop .schema(...), select columns"
            )
        return KafkaReader(self._read_options)
