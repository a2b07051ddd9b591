"""Location of the jar with the JVM source and sink, which `format("samsarrow")` uses if the session has the jar."""

from __future__ import annotations

import os
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "SAMSARROW_SPARK_JAR"
# Package that `samsarrow[spark-native]` installs; it contains only the jar.
_PACKAGE = "samsarrow_spark"
_NAME = "samsarrow-spark.jar"
# Path of the jar that `make jar` builds.
_BUILT = Path(__file__).resolve().parents[3] / "jvm" / "target" / _NAME
# Path of the version file in the jar.
_VERSION = "io/github/samsarrow/spark/version"


def jar() -> str:
    """Returns the path of the jar, to be set as `spark.jars` before the session starts.

        spark = SparkSession.builder.config("spark.jars", samsarrow.spark.jar()).getOrCreate()

    Returns:
        The path in `SAMSARROW_SPARK_JAR`, otherwise the jar that `pip install samsarrow[spark-native]` installed,
        otherwise the one that `make jar` built in this checkout.

    Raises:
        ConfigurationError: no jar was found, or the version of the jar differs from this package.
    """
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_file():
        raise ConfigurationError(f"{VARIABLE} is {named}, which has no jar: name the file {_NAME}")
    for path in [Path(named)] if named else [*_installed(), _BUILT]:
        if path.is_file():
            _check(path)
            return str(path)
    raise ConfigurationError(
        f"there is no {_NAME}: pip install 'samsarrow[spark-native]', or in a checkout `make jar`, or set {VARIABLE} "
        'to its path; format("samsarrow-python") needs no jar'
    )


def _installed() -> list[Path]:
    spec = find_spec(_PACKAGE)
    return [Path(folder) / _NAME for folder in (spec and spec.submodule_search_locations) or ()]


def _check(path: Path) -> None:
    """Raises an error if the jar and this package have different versions, because they exchange internal data."""
    from importlib.metadata import version

    try:
        with zipfile.ZipFile(path) as content:
            jar_version = content.read(_VERSION).decode()
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConfigurationError(f"{path} is not a samsarrow jar, or is damaged: {error}") from None
    if jar_version != (own := version("samsarrow")):
        raise ConfigurationError(
            f"{path} is version {jar_version}, and samsarrow is {own}: pip install 'samsarrow[spark-native]=={own}', "
            "or in a checkout `make jar`"
        )


def add_jar(spark: SparkSession) -> None:
    """Adds the jar to a running session, so that `format("samsarrow")` uses the JVM. Also works with Spark Connect.

    Args:
        spark: the session; its executors get the jar from the driver.

    Raises:
        ConfigurationError: no jar was found, or the version of the jar differs from this package.
    """
    path = jar()
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        spark.addArtifacts(path)
    else:
        spark.sql(f"ADD JAR '{path}'")
