"""Location of the jar with the JVM source and sink, which `format("samsarrow")` uses if the session has the jar."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "SAMSARROW_SPARK_JAR"
# Package that `samsarrow[spark]` installs. It contains only the jar, in the folder from which PySpark loads jars.
_PACKAGE = "samsarrow-spark"
_NAME = "samsarrow-spark.jar"
_PLACE = f"pyspark/jars/{_NAME}"
# Path of the jar that `make jar` builds.
_BUILT = Path(__file__).resolve().parents[3] / "jvm" / "target" / _NAME
# Path of the version file in the jar.
_VERSION = "io/github/samsarrow/spark/version"


def jar() -> str:
    """Returns the path of the jar, for a Spark that does not load it by itself.

    The Spark of the package `pyspark` loads the jar that `pip install samsarrow[spark]` has installed. For a Spark in
    `SPARK_HOME`, or on a cluster, set `spark.jars` before the session starts:

        spark = SparkSession.builder.config("spark.jars", samsarrow.spark.jar()).getOrCreate()

    Returns:
        The path in `SAMSARROW_SPARK_JAR`, otherwise the jar of the installed package `samsarrow-spark`, otherwise the
        one that `make jar` built in this checkout.

    Raises:
        ConfigurationError: no jar was found, or the version of the jar differs from this package.
    """
    named = os.environ.get(VARIABLE)
    if named and not Path(named).is_file():
        raise ConfigurationError(f"{VARIABLE} is {named}, which has no jar: name the file {_NAME}")
    installed = installed_jar()
    if not named and installed is not None and not installed.is_file():
        raise ConfigurationError(
            f"the package samsarrow-spark is installed, but {installed} is missing: pip install --force-reinstall "
            f"{requirement()}"
        )
    for path in [Path(named)] if named else filter(None, (installed, _BUILT)):
        if path.is_file():
            if error := version_error(path, jar_version(path)):
                raise ConfigurationError(error)
            return str(path)
    raise ConfigurationError(
        f"there is no {_NAME}: pip install {requirement()}, or in a checkout `make jar`, or set {VARIABLE} to its "
        'path; format("samsarrow-python") needs no jar'
    )


def installed_jar() -> Path | None:
    """Returns the path of the jar that the installed package samsarrow-spark has, or None without this package."""
    # Imported here, because Spark's workers import this module and do not need the package.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return Path(str(distribution(_PACKAGE).locate_file(_PLACE)))
    except PackageNotFoundError:
        return None


def _own_version() -> str:
    from importlib.metadata import version

    return version("samsarrow")


def requirement() -> str:
    """Returns the argument of `pip install` for the jar that goes with this package."""
    return f"'samsarrow-spark=={_own_version()}'"


def jar_version(path: Path) -> str:
    """Returns the version of a jar.

    Raises:
        ConfigurationError: the file is not a jar of samsarrow.
    """
    try:
        with zipfile.ZipFile(path) as content:
            return content.read(_VERSION).decode()
    except (zipfile.BadZipFile, KeyError) as error:
        raise ConfigurationError(f"{path} is not a samsarrow jar, or is damaged: {error}") from None


def version_error(path: str | Path, number: str) -> str | None:
    """Returns the error of a jar whose version is not that of this package. They exchange internal data."""
    own = _own_version()
    if number == own:
        return None
    return (
        f"{path} is version {number}, and samsarrow is {own}: pip install {requirement()}, or in a checkout `make jar`"
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
