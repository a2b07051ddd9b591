"""A streaming read without limits: Spark 4.0 and 4.1 do not tell a Python source where the query is."""

from __future__ import annotations

from pyspark import __version__ as spark_version

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.offsets import Json, to_json
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.stream_base import StreamReader


class EarlierStreamReader(StreamReader):
    """Takes all there is in every micro-batch."""

    def __init__(self, options: ReadOptions) -> None:
        limits = {"maxOffsetsPerTrigger": options.max_offsets, "minOffsetsPerTrigger": options.min_offsets}
        for name, given in limits.items():
            if given:
                raise ConfigurationError(
                    f"option {name} needs Spark 4.2 or later, this is {spark_version}: before, a Python source is "
                    "asked for the latest offset without being told where the query is"
                )
        super().__init__(options)

    def latestOffset(self) -> Json:  # type: ignore[override]  # noqa: N802
        """The end of all partitions."""
        return to_json(self.planner.everything())
