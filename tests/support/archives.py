"""Archives of loaded classes (JEP 350): Kafka and Spark start from them in two thirds of the processor time.

    python tests/support/archives.py

Makes what is missing. A JVM that an archive does not fit starts without it.
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
    """A broker's; tools need some of its classes."""
    server = server_of(version, jvm=[f"-XX:ArchiveClassesAtExit={made}"])
    try:
        server.start()
        server.stop()
    finally:
        server.discard()


def of_spark(made: Path) -> None:
    """A session's, with a query."""
    from pyspark import SparkContext

    options = f"-XX:ArchiveClassesAtExit={made} -Xlog:cds=off"
    conf = spark.QUICK | {"spark_driver_extraJavaOptions": f"{spark.JAVA_OPTIONS} {options}"}
    with tempfile.TemporaryDirectory() as folder:
        session = spark.local_session(Path(folder), connector=False, native=False, **conf)
        session.range(1000).selectExpr("id % 7 AS a").groupBy("a").count().collect()
        session.stop()
        # Waited for, as the JVM writes it when it ends.
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
                # At once: others may start from it now.
                made.replace(archive)
        # Without Java or Maven, or in a JVM that writes none.
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as reason:
            sys.stderr.write(f"no archive {archive.name}: {reason}\n")


if __name__ == "__main__":
    main()
