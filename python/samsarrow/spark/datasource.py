"""The data source as Spark calls it."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from samsarrow.spark.options import ReadOptions
from samsarrow.spark.reader import KafkaReader, with_columns
from samsarrow.spark.schema import chosen_columns, spark_schema
from samsarrow.spark.write_options import WriteOptions


class KafkaDataSource(DataSource):
    """`format("samsarrow")`: Kafka in Spark with the columns and options of Spark's own connector.

    Columns: `key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,
    timestampType int` and, with `includeHeaders`, `headers array<struct<key:string,value:binary>>`. The option
    `columns` or `.schema(...)` chooses among them, so that Spark is not given what nobody asked for.
    """

    @classmethod
    def name(cls) -> str:
        return "samsarrow"

    def schema(self) -> StructType:
        # Spark does not say here whether this is a batch or a stream: what they differ in is checked later.
        general = {name: value for name, value in self.options.items() if not name.lower().startswith(_BOUNDS)}
        options = ReadOptions.parse({**general, "commitOffsets": "false"})
        return spark_schema(options.columns, options.text)

    # Spark passes `schema` by keyword: the name is part of the contract.
    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaReader(self._options(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._options(schema, streaming=True)
        try:
            from samsarrow.spark.stream import KafkaStreamReader
        except ImportError:
            from samsarrow.spark.stream_earlier import EarlierStreamReader

            return EarlierStreamReader(options)
        return KafkaStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from samsarrow.spark.writer import KafkaWriter

        return KafkaWriter(WriteOptions.parse(dict(self.options), schema), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        # `overwrite` is the output mode complete: a topic gets the whole result each time, as with the connector.
        options = WriteOptions.parse(dict(self.options), schema)
        try:
            from samsarrow.spark.stream_writer import KafkaStreamWriter
        except ImportError:
            from samsarrow.spark.stream_writer_earlier import RowStreamWriter

            return RowStreamWriter(options, schema)
        return KafkaStreamWriter(options)

    def _options(self, schema: StructType, *, streaming: bool) -> ReadOptions:
        options = ReadOptions.parse(dict(self.options), streaming=streaming)
        return with_columns(options, *chosen_columns(schema, options.columns, options.text))


_BOUNDS = ("startingoffsets", "startingtimestamp", "ending")
