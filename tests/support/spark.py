"""Spark for tests and benches: sessions on this machine, with Spark's own Kafka connector beside ours."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from support.kafka import CACHE, SUPPORT, KafkaUnavailableError

# Where support/archives.py keeps Spark's loaded classes.
ARCHIVE = CACHE.parent / "spark" / f"{metadata.version('pyspark')}.jsa"
# For sessions that live for seconds or minutes: the quick compiler only, whose code is good enough, and a collector
# without threads of its own. Each access to a column of the JVM reader is checked. No measurement may run with it.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -ea:io.github.samsarrow..."
_SHARED = f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:cds=off" if ARCHIVE.exists() else ""
# SAMSARROW_SPARK_JAVA_OPTIONS has more options, such as -Xcheck:jni.
QUICK = {
    "spark_driver_extraJavaOptions": " ".join(
        filter(None, (JAVA_OPTIONS, _SHARED, os.environ.get("SAMSARROW_SPARK_JAVA_OPTIONS")))
    ),
    "spark_ui_showConsoleProgress": "false",
}

# Spark gives a Python worker ten seconds to start, whatever else the machine does; who meets this tries again.
STALLED = "Python worker failed to connect back"


def connector_jars() -> list[str]:
    """The jars of Spark's own Kafka connector and of `from_avro`, through Maven once, remembered under `.cache/`."""
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
    """The jar of `samsarrow-jvm`, where it is built."""
    from samsarrow.exceptions import ConfigurationError
    from samsarrow.spark import jar

    try:
        return [jar()]
    except ConfigurationError:
        return []


def need_jar() -> None:
    """Skips a test where the jar is not built, which takes a build of its own; in CI it fails."""
    import pytest

    if not built_jar():
        reason = "the jar of samsarrow-jvm is not built: make jar"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def local_session(
    scratch: Path, *, master: str = "local[2]", connector: bool = True, native: bool = True, **conf: str
) -> Any:
    """A Spark session on threads of this machine, whose workers run this Python.

    Args:
        scratch: a folder for what Spark writes.
        master: how many threads.
        connector: whether Spark's own Kafka connector is there too, as format `kafka`.
        native: whether the jar of `samsarrow-jvm` is there, if it is built.
        **conf: more settings, with `_` for `.`.
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
