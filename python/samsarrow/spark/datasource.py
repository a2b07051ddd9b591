"""The data source as Spark calls it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.capabilities import streams_arrow_to_sinks, tells_where_a_stream_is
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.reader import KafkaReader
from samsarrow.spark.schema import chosen_columns, spark_schema
from samsarrow.spark.values import Typed
from samsarrow.spark.write_options import WriteOptions


class KafkaDataSource(DataSource):
    """`format("samsarrow")`: Kafka in Spark with the columns and options of Spark's own connector.

    Columns: `key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType
    int` and, with `includeHeaders`, `headers array<struct<key:string,value:binary>>`. The option `columns` or
    `.schema(...)` selects some of them, and Spark does not receive the others. With `value.format`, `value` has the
    type of its schema, and `.schema(...)` may select fields.
    """

    @classmethod
    def name(cls) -> str:
        return "samsarrow"

    # Whether Spark plans with it: then it is pickled once more, for tasks, which look at no option of it.
    _planned = False
    # Whether it was made elsewhere: a source that comes pickled makes writers only to commit, which asks no registry.
    _pickled = False
    # What a registry said as the schema was asked for: the query is planned with that, elsewhere.
    _typed: tuple[Typed, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        mine = {**self.__dict__, "_pickled": True}
        return {**mine, "options": {}, "_typed": None} if self._planned else mine

    def schema(self) -> StructType:
        # Spark does not say here whether this is a batch or a stream: what they differ in is checked later.
        options = self._resolved(streaming=None)
        return spark_schema(options.columns, options.text, options.types)

    # Spark passes `schema` by keyword: the name is part of the contract.
    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaReader(self._options(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._options(schema, streaming=True)
        if tells_where_a_stream_is():
            from samsarrow.spark.stream import KafkaStreamReader

            return KafkaStreamReader(options)
        from samsarrow.spark.stream_earlier import EarlierStreamReader

        return EarlierStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from samsarrow.spark.writer import KafkaWriter

        options = self._write_options(schema)
        options.check_batch(overwrite=overwrite)
        return KafkaWriter(self._settled(options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        # `overwrite` is the output mode complete: a topic gets the whole result each time, as with the connector.
        options = self._settled(self._write_options(schema))
        if streams_arrow_to_sinks():
            from samsarrow.spark.stream_writer import KafkaStreamWriter

            return KafkaStreamWriter(options)
        from samsarrow.spark.stream_writer_earlier import RowStreamWriter

        return RowStreamWriter(options, schema)

    def _write_options(self, schema: StructType) -> WriteOptions:
        self._planned = True
        return WriteOptions.parse(self._given(), schema)

    def _given(self) -> dict[str, str]:
        given = dict(self.options)
        if not given:
            raise ConfigurationError(
                "no option is set, and kafka.bootstrap.servers must be. Spark does not pass the options of a table to "
                "a Python source: use CREATE TEMPORARY VIEW ... USING samsarrow OPTIONS (...) in place of CREATE "
                "TABLE, or the jar of samsarrow-jvm"
            )
        return given

    def _settled(self, options: WriteOptions) -> WriteOptions:
        return (options if self._pickled else options.settled()).for_tasks()

    def _options(self, schema: StructType, *, streaming: bool) -> ReadOptions:
        self._planned = True
        options = self._resolved(streaming=streaming)
        columns, text = chosen_columns(schema, options.columns, options.text, options.types)
        wanted = {field.name: field.dataType for field in schema.fields}
        typed = tuple(one.selected(wanted) for one in options.typed)
        return replace(options, columns=columns, text=text, typed=typed)

    def _resolved(self, *, streaming: bool | None) -> ReadOptions:
        options = ReadOptions.parse(self._given(), streaming=streaming)
        if self._typed is None:
            self._typed = tuple(one.resolved() for one in options.typed)
        return replace(options, typed=self._typed)


class PythonKafkaDataSource(KafkaDataSource):
    """`format("samsarrow-python")`: the same source, whether or not the session has the jar."""

    @classmethod
    def name(cls) -> str:
        return "samsarrow-python"
