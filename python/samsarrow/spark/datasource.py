"""The Python data source that Spark loads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

# Modules are imported in the methods that use them, because Spark unpickles the source in several processes per query,
# and most of them call no method or one.
if TYPE_CHECKING:
    from samsarrow.spark.options import ReadOptions
    from samsarrow.spark.values import Typed
    from samsarrow.spark.write_options import WriteOptions


class KafkaDataSource(DataSource):
    """`format("samsarrow")`: Kafka in Spark with the columns and options of Spark's own connector.

    Columns: `key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType
    int` and, with `includeHeaders`, `headers array<struct<key:string,value:binary>>`. The option `columns` or
    `.schema(...)` selects some of the columns; only these are sent to Spark. With `value.format`, the column `value`
    has the type of the format's schema, and `.schema(...)` may select its fields.
    """

    @classmethod
    def name(cls) -> str:
        return "samsarrow"

    # True once Spark has planned with this source. It is then pickled for tasks, which do not need its options.
    _planned = False
    # True in an unpickled source, which creates writers only to commit. These writers do not need the registry.
    _pickled = False
    # Types resolved by `schema` with the registry's response. They are pickled, because another process plans the
    # query.
    _typed: tuple[Typed, ...] | None = None

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_pickled": True}
        return {**state, "options": {}, "_typed": None} if self._planned else state

    def schema(self) -> StructType:
        # Spark does not pass to this method whether the read is a batch or a stream. Options that only one of them
        # supports are checked later.
        from samsarrow.spark.schema import spark_schema

        options = self._resolved(streaming=None)
        return spark_schema(options.columns, options.text, options.types)

    # The parameter must be named `schema`, because Spark passes it by keyword.
    def reader(self, schema: StructType) -> DataSourceReader:
        from samsarrow.spark.reader import KafkaReader

        return KafkaReader(self._options(schema, streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from samsarrow.spark.versions import has_admission_control

        options = self._options(schema, streaming=True)
        if has_admission_control():
            from samsarrow.spark.stream import KafkaStreamReader

            return KafkaStreamReader(options)
        from samsarrow.spark.stream_spark40 import Spark40StreamReader

        return Spark40StreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from samsarrow.spark.writer import KafkaWriter

        if overwrite:
            from samsarrow.exceptions import ConfigurationError

            raise ConfigurationError('a topic cannot be overwritten: write with .mode("append")')
        return KafkaWriter(self._resolved_for_tasks(self._write_options(schema, batch=True)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from samsarrow.spark.versions import has_arrow_stream_writer

        # `overwrite` is true in the output mode complete, in which every micro-batch writes the whole result to the
        # topic, as with Spark's own connector.
        options = self._resolved_for_tasks(self._write_options(schema, batch=False))
        if has_arrow_stream_writer():
            from samsarrow.spark.stream_writer import KafkaStreamWriter

            return KafkaStreamWriter(options)
        from samsarrow.spark.stream_writer_spark40 import Spark40StreamWriter

        return Spark40StreamWriter(options, schema)

    def _write_options(self, schema: StructType, *, batch: bool) -> WriteOptions:
        from samsarrow.spark.write_options import WriteOptions

        self._planned = True
        return WriteOptions.parse(self._checked_options(), schema, batch=batch)

    def _notify(self) -> None:
        """Logs how to use the source in the JVM. Writes do not, because streams plan them for each micro-batch."""
        from samsarrow.spark import jar_notice

        jar_notice.notify()

    def _checked_options(self) -> dict[str, str]:
        options = dict(self.options)
        if not options:
            from samsarrow.exceptions import ConfigurationError

            raise ConfigurationError(
                "no option is set, and kafka.bootstrap.servers must be. Spark does not pass the options of a table to "
                "a Python source: use CREATE TEMPORARY VIEW ... USING samsarrow OPTIONS (...) in place of CREATE "
                "TABLE, or the jar of samsarrow-jvm"
            )
        return options

    def _resolved_for_tasks(self, options: WriteOptions) -> WriteOptions:
        return (options if self._pickled else options.resolved()).for_tasks()

    def _options(self, schema: StructType, *, streaming: bool) -> ReadOptions:
        from samsarrow.spark.schema import chosen_columns

        self._planned = True
        self._notify()
        options = self._resolved(streaming=streaming)
        columns, text = chosen_columns(schema, options.columns, options.text, options.types)
        requested = {field.name: field.dataType for field in schema.fields}
        typed = tuple(column.selected(requested) for column in options.typed)
        return replace(options, columns=columns, text=text, typed=typed)

    def _resolved(self, *, streaming: bool | None) -> ReadOptions:
        from samsarrow.spark.options import ReadOptions

        options = ReadOptions.parse(self._checked_options(), streaming=streaming)
        if self._typed is None:
            self._typed = tuple(column.resolved() for column in options.typed)
        return replace(options, typed=self._typed)


class PythonKafkaDataSource(KafkaDataSource):
    """`format("samsarrow-python")`: the Python source, even if the session has the jar."""

    @classmethod
    def name(cls) -> str:
        return "samsarrow-python"

    def _notify(self) -> None:
        """Logs nothing, because the user has selected this source."""
