"""Spark sessions on this machine for tests and benches, with Spark's own Kafka connector available."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from support.kafka import CACHE, SUPPORT, KafkaUnavailableError

# Path of the class archive that support/archives.py creates for Spark.
ARCHIVE = CACHE.parent / "spark" / f"{metadata.version('pyspark')}.jsa"
# Options of sessions that run for seconds or minutes: only the first compiler, and a garbage collector without threads.
# Assertions check each access to a column of the JVM reader. Not suitable for measurements.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -ea:io.github.samsarrow..."
_SHARED = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off" if ARCHIVE.exists() else ""
# The environment variable SAMSARROW_SPARK_JAVA_OPTIONS can add options, such as -Xcheck:jni.
QUICK = {
    "spark_driver_extraJavaOptions": " ".join(
        filter(None, (JAVA_OPTIONS, _SHARED, os.environ.get("SAMSARROW_SPARK_JAVA_OPTIONS")))
    ),
    "spark_ui_showConsoleProgress": "false",
}

# Profile with AWS credentials, which `set_aws_profile` writes.
AWS_PROFILE = "samsarrow-tests"

# Spark's error if a Python worker takes more than ten seconds to start, as on a busy machine. Callers retry.
STALLED = "Python worker failed to connect back"


def connector_jars() -> list[str]:
    """Returns the jars of Spark's Kafka connector and `from_avro`, downloaded by Maven once and kept in `.cache/`."""
    pom = (SUPPORT / "spark-pom.xml").read_bytes()
    remembered = CACHE.parent / "spark" / f"connector-{hashlib.sha256(pom).hexdigest()[:12]}.classpath"
    if remembered.exists() and all(Path(p).exists() for p in remembered.read_text().split(os.pathsep)):
        return remembered.read_text().split(os.pathsep)
    remembered.parent.mkdir(parents=True, exist_ok=True)
    goal = ["dependency:build-classpath", f"-Dmdep.outputFile={remembered}"]
    command = ["mvn", "-q", "-B", "-f", str(SUPPORT / "spark-pom.xml"), *goal]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except OSError as error:
        raise KafkaUnavailableError(f"Spark's connector needs Maven: {error}") from error
    if done.returncode != 0:
        remembered.unlink(missing_ok=True)
        raise KafkaUnavailableError(f"Maven could not fetch Spark's Kafka connector:\n{done.stdout}{done.stderr}")
    return remembered.read_text().split(os.pathsep)


def built_jar() -> list[str]:
    """Returns the jar of `samsarrow-jvm` in a list, which is empty if the jar has not been built."""
    from samsarrow.exceptions import ConfigurationError
    from samsarrow.spark import jar

    try:
        return [jar()]
    except ConfigurationError:
        return []


def need_jar() -> None:
    """Skips a test if the jar of `samsarrow-jvm` has not been built. In CI the test fails instead."""
    import pytest

    if not built_jar():
        reason = "the jar of samsarrow-jvm is not built: make jar"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def set_aws_profile(file: Path) -> None:
    """Leaves AWS credentials to the profile `AWS_PROFILE` in a file, in this process and in those that it starts."""
    file.write_text(f"[{AWS_PROFILE}]\naws_access_key_id = id\naws_secret_access_key = hunter2\n")
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(file)
    os.environ["AWS_CONFIG_FILE"] = os.devnull
    os.environ["AWS_EC2_METADATA_DISABLED"] = "true"


def local_session(
    scratch: Path, *, master: str = "local[2]", connector: bool = True, native: bool = True, **conf: str
) -> Any:
    """Returns a Spark session in threads of this machine. Its workers use this Python interpreter.

    Args:
        scratch: a folder for Spark's files.
        master: Spark master, which contains the number of threads.
        connector: True to add Spark's own Kafka connector, as format `kafka`.
        native: True to add the jar of `samsarrow-jvm`, if it has been built.
        **conf: further settings, with `_` for `.`.
    """
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        **{name.replace("_", "."): value for name, value in conf.items()},
    }
    jars = [*(connector_jars() if connector else []), *(built_jar() if native else [])]
    if jars:
        settings["spark.jars"] = ",".join(jars)
    builder = SparkSession.builder.master(master).appName("samsarrow tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
