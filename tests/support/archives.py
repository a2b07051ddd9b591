"""Class data archives (JEP 350), which reduce the processor time for starting Kafka and Spark by a third.

    python tests/support/archives.py

Creates missing archives. If an archive does not match a JVM, the JVM ignores it and starts without it.
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
    """Creates the archive of a broker's classes. Tools of Kafka use some of the same classes."""
    server = server_of(version, jvm=[f"-XX:ArchiveClassesAtExit={made}"])
    try:
        server.start()
        server.stop()
    finally:
        server.discard()


def of_spark(made: Path) -> None:
    """Creates the archive of the classes that a Spark session with one query loads."""
    from pyspark import SparkContext

    options = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off"
    conf = spark.QUICK | {"spark_driver_extraJavaOptions": f"{spark.JAVA_OPTIONS} {options}"}
    with tempfile.TemporaryDirectory() as folder:
        session = spark.local_session(Path(folder), connector=False, native=False, **conf)
        session.range(1000).selectExpr("id % 7 AS a").groupBy("a").count().collect()
        session.stop()
        # Waits until the JVM has exited, since it writes the archive at exit.
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
                # The complete file is renamed, so that other JVMs never see an incomplete archive.
                made.replace(archive)
        # Creating an archive fails without Java or Maven, or if the JVM writes no archive.
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as reason:
            sys.stderr.write(f"no archive {archive.name}: {reason}\n")


if __name__ == "__main__":
    main()
