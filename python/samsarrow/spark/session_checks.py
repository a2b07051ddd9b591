"""Checks of a Spark session: its version, the source that `samsarrow` is, the jar, and the Python of its workers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from samsarrow.doctor import Status
from samsarrow.doctor._finding import Check
from samsarrow.exceptions import ConfigurationError
from samsarrow.spark import jar_notice
from samsarrow.spark.jar_file import jar_version, version_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from samsarrow.doctor import Finding

# Program that prints the version of samsarrow, with the imports of Spark's workers.
_PROBE = (
    "import samsarrow, pyarrow, pyspark_samsarrow; from importlib.metadata import version; print(version('samsarrow'))"
)
# Spark whose Python UDFs hang on sources that provide columns (SPARK-58241).
_ROWS_ONLY = "4.2.0"
_JVM_CLASSES = "io.github.samsarrow."


def check_session(spark: SparkSession) -> list[Finding]:
    """Checks that a session can read and write Kafka, and with which source.

        for finding in samsarrow.spark.check_session(spark):
            print(finding.status, finding.check, finding.detail, finding.remedy)

    The checks: `spark`, its version; `source`, which source `format("samsarrow")` is, and whether the driver can load
    it; `jar`, its path and version; `python`, whether the Python of the workers can import this version of samsarrow;
    `executors`. The checks run on the driver's machine and send nothing to brokers. With Spark Connect they run on the
    server, so a client sees only its version.

    Args:
        spark: the session, already started.

    Returns:
        The findings in the order of the checks.

    Raises:
        ConfigurationError: a check failed. The message has the causes and remedies.
    """
    found = list(_findings(spark))
    failed = [f"{finding.detail}: {finding.remedy}" for finding in found if finding.status is Status.FAILED]
    if failed:
        raise ConfigurationError("; ".join(failed))
    return found


def _findings(spark: SparkSession) -> Iterator[Finding]:
    yield _spark_version(spark)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        yield Check("source").skipped(
            "a client of Spark Connect does not see the sources of its server",
            'explain() of a query shows "BatchScan samsarrow-jvm" or "(Python)"',
        )
        return
    check = Check("source")
    python = _python(spark)
    try:
        table = _table(spark)
    except Exception as error:
        if python.status is not Status.FAILED or "NativeLibraryError" in str(error):
            yield check.failed('format("samsarrow") cannot be loaded', _cause(error))
        else:
            # Without the jar, Spark runs the source in this Python.
            yield python
        return
    if str(table.getClass().getName()).startswith(_JVM_CLASSES):
        yield check.ok('format("samsarrow") is the source in the JVM')
        yield _jar(table)
        if python.status is Status.FAILED:
            # Only `samsarrow-python` and Python UDFs that import samsarrow need it.
            python = Check("python").warning(python.detail, f"for samsarrow-python, {python.remedy}")
    else:
        yield check.warning('format("samsarrow") is the source in Python', jar_notice.remedy())
    yield python
    yield _executors(spark)


def _spark_version(spark: SparkSession) -> Finding:
    check, number = Check("spark"), spark.version
    if int(number.partition(".")[0]) < 4:
        return check.failed(f"Spark is {number}", "samsarrow needs Spark 4.0 or later")
    if number == _ROWS_ONLY:
        return check.warning(f"Spark is {number}, whose Python UDFs hang on columns", "4.2.1 or later reads columns")
    return check.ok(f"Spark is {number}")


def _table(spark: SparkSession) -> Any:
    """Returns the table in Java to which Spark resolves the name. Loads the library, or starts a Python worker."""
    options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "check"}
    frame: Any = spark.read.format("samsarrow").options(**options).load()
    return frame._jdf.queryExecution().analyzed().table()


def _jar(table: Any) -> Finding:
    check = Check("jar")
    path = Path(unquote(urlsplit(str(table.getClass().getProtectionDomain().getCodeSource().getLocation())).path))
    number = jar_version(path)
    if error := version_error(path, number):
        text, _, remedy = error.partition(": ")
        return check.failed(text, remedy)
    return check.ok(f"{path} is version {number}")


def _cause(error: Exception) -> str:
    """Returns the first line of an error, without the line that Py4J adds in front of errors in Java."""
    lines = [line.removeprefix(": ") for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith("An error occurred while calling")]
    return lines[0] if lines else type(error).__name__


def _source_python(spark: SparkSession) -> tuple[str | None, str]:
    """Returns the variable that sets the Python with which Spark runs sources, or None, and that Python.

    Spark reads the variables from the environment in which its JVM was started. `spark.pyspark.python` has an effect on
    Python UDFs only, and only in `spark-submit`.
    """
    jvm: Any = spark.sparkContext._jvm
    for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        if (python := jvm.System.getenv(name)) is not None:
            return name, str(python)
    return None, "python3"


def _python(spark: SparkSession) -> Finding:
    check = Check("python")
    variable, python = _source_python(spark)
    try:
        done = subprocess.run([python, "-c", _PROBE], capture_output=True, text=True, timeout=60, check=False)
        cause = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        cause = str(error)
    workers = f"Spark's workers run {python!r}, {f'from {variable}' if variable else 'the one on their PATH'}"
    remedy = f"set PYSPARK_PYTHON={sys.executable} in the environment before Spark starts"
    if variable == "PYSPARK_DRIVER_PYTHON":
        remedy += ", and remove PYSPARK_DRIVER_PYTHON, which overrides it"
    elif spark.conf.get("spark.pyspark.python", None) is not None:
        remedy += "; spark.pyspark.python has no effect on Python sources"
    if cause:
        return check.failed(f"{workers}, where samsarrow cannot be imported ({cause})", remedy)
    # Imported here, because Spark's workers import this module and do not need the package.
    from importlib.metadata import version

    number, own = done.stdout.strip(), version("samsarrow")
    if number != own:
        return check.failed(f"{workers}, where samsarrow is {number} and not {own}", remedy)
    return check.ok(f"{workers}, where samsarrow is {number}")


def _executors(spark: SparkSession) -> Finding:
    check, master = Check("executors"), spark.sparkContext.master or ""
    if master.startswith("local"):
        return check.ok(f"tasks run in the driver, because the master is {master}")
    return check.skipped(
        f"executors of {master} are on other machines", "run a query: errors of tasks name the machine"
    )
