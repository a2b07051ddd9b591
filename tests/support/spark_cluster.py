"""A standalone Spark cluster: a master and two workers, each in its own process."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from support.kafka import free_ports
from support.waiting import until


@contextlib.contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Starts a master and two workers with one core each, from PySpark's jars, and yields the master's address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    port, *web = free_ports(4)
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    address = f"spark://127.0.0.1:{port}"
    commands = [["master.Master", "-h", "127.0.0.1", "-p", str(port), "--webui-port", str(web[0])]]
    for number in (1, 2):
        place = ["-c", "1", "-m", "1g", "-d", str(folder / f"worker{number}"), "--webui-port", str(web[number])]
        commands.append(["worker.Worker", "-h", "127.0.0.1", *place, address])
    started: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for number, (main, *rest) in enumerate(commands):
            log = folder / f"{number}.log"
            with log.open("wb") as out:
                command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{main}", *rest]
                started.append((subprocess.Popen(command, env=environment, stdout=out, stderr=out), log))
            wait_for(log, "I have been elected leader" if number == 0 else "Successfully registered with master")
        yield address
    finally:
        for process, _ in reversed(started):
            process.terminate()
        for process, _ in started:
            process.wait(30)


def wait_for(log: Path, words: str) -> None:
    """Waits until a log contains a text."""
    until(lambda: words in log.read_text(errors="replace"), lambda: log.read_text(errors="replace"), 120, 0.2)
