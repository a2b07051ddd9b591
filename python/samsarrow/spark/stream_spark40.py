"""Streaming reads without limits for Spark 4.0 and 4.1, which do not pass the query's offsets to a Python source."""

from __future__ import annotations

from pyspark import __version__ as spark_version

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream_base import Json, StreamReader


class Spark40StreamReader(StreamReader):
    """A streaming read whose micro-batches extend to the current end of all partitions."""

    def __init__(self, options: ReadOptions) -> None:
        limits = {"maxOffsetsPerTrigger": options.max_offsets, "minOffsetsPerTrigger": options.min_offsets}
        for name, limit in limits.items():
            if limit:
                raise ConfigurationError(
                    f"option {name} needs Spark 4.2 or later, this is {spark_version}: before, Spark asks a "
                    "Python source for the latest offset without saying where the query is"
                )
        super().__init__(options)

    def latestOffset(self) -> Json:  # type: ignore[override]  # noqa: N802
        """Returns the end offsets of all partitions."""
        self.check_schemas()
        offsets: Json = self.driver.request("latest")["offsets"]
        return offsets
