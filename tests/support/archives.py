"""Archives of loaded classes (JEP 350), with which Kafka and Spark start in two thirds of the processor time.

    python tests/support/archives.py

Creates missing archives. A JVM starts without an archive that does not match it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support import spark
from support.kafka import DEFAULT_VERSION, ZOOKEEPER_VERSION, archive_of, server_of


def of_kafka(version: str, made: Path) -> None:
    """Archives the classes of a broker; tools use some of them."""
    server = server_of(version, jvm=[f"-XX:ArchiveClassesAtExit={made}"])
    try:
        server.start()
        server.stop()
    finally:
        server.discard()


def of_spark(made: Path) -> None:
    """Archives the classes of a session with one query."""
    from pyspark import SparkContext

    options = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off"
    conf = spark.QUICK | {"spark_driver_extraJavaOptions": f"{spark.JAVA_OPTIONS} {options}"}
    with tempfile.TemporaryDirectory() as folder:
        session = spark.local_session(Path(folder), connector=False, native=False, **conf)
        session.range(1000).selectExpr("id % 7 AS a").groupBy("a").count().collect()
        session.stop()
        # Waits for the JVM, which writes the archive when it exits.
        gateway = SparkContext._gateway
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(120)


def main() -> None:
    makers = [(archive_of(v), lambda made, v=v: of_kafka(v, made)) for v in (DEFAULT_VERSION, ZOOKEEPER_VERSION)]
    for archive, make in [*makers, (spark.ARCHIVE, of_spark)]:
        made = archive.with_suffix(f".{os.getpid()}")
        archive.parent.mkdir(parents=True, exist_ok=True)
        try:
            if not archive.exists():
                make(made)
                # Renamed immediately, so that other JVMs can start from it.
                made.replace(archive)
        # Fails without Java or Maven, or if the JVM writes no archive.
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as reason:
            sys.stderr.write(f"no archive {archive.name}: {reason}\n")


if __name__ == "__main__":
    main()
