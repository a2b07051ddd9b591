"""A streaming read without limits: Spark 4.0 and 4.1 do not give a Python source the query's offsets."""

from __future__ import annotations

from pyspark import __version__ as spark_version

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream_base import Json, StreamReader


class EarlierStreamReader(StreamReader):
    """Takes all there is in every micro-batch."""

    def __init__(self, options: ReadOptions) -> None:
        limits = {"maxOffsetsPerTrigger": options.max_offsets, "minOffsetsPerTrigger": options.min_offsets}
        for name, given in limits.items():
            if given:
                raise ConfigurationError(
                    f"option {name} needs Spark 4.2 or later, this is {spark_version}: before, Spark asks a "
                    "Python source for the latest offset without saying where the query is"
                )
        super().__init__(options)

    def latestOffset(self) -> Json:  # type: ignore[override]  # noqa: N802
        """The end of all partitions."""
        self.check_schemas()
        offsets: Json = self.driver.ask("latest")["offsets"]
        return offsets
