"""The wheels `samsarrow` and `samsarrow-spark`, installed by pip with PySpark into an empty environment.

    python tests/wheels/spark.py dist

Runs the README's query without any configuration: with the jar, after `pip uninstall samsarrow-spark`, and after the
jar is installed again. Prints a line for each. PySpark comes from the package index of pip.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The README's query.
QUERY = re.compile(r"## PySpark\n\n```python\n(.*?)```", re.DOTALL)
BROKER = "localhost:9092"
PIP = ["-m", "pip", "--quiet", "--disable-pip-version-check"]
# The query between a broker with ten records and the output that is checked.
PROGRAM = """
from pyspark.sql import SparkSession
from samsarrow import Producer
from samsarrow.testing import Broker

with Broker(topics={{"flights": 2}}) as broker:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send("flights", str(number))
    bootstrap = broker.bootstrap_servers
    spark = SparkSession.builder.getOrCreate()
{query}
    flights.explain()
    print("rows:", flights.count())
    spark.stop()
"""
NOTICE = 'INFO samsarrow: format("samsarrow") is the Python source'
# Variables that select another Spark, another jar or packages outside of the environment.
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "SAMSARROW_SPARK_JAR", "PYSPARK_PYTHON")


def program() -> str:
    """Returns the README's query as a program of its own broker."""
    found = QUERY.findall((ROOT / "README.md").read_text())
    if len(found) != 1 or f'"{BROKER}"' not in found[0]:
        sys.exit(f"README.md: the section PySpark has no query of {BROKER}; adapt {Path(__file__).name}")
    query = found[0].replace(f'"{BROKER}"', "bootstrap")
    return PROGRAM.format(query="".join(f"    {line}\n" for line in query.splitlines()))


def newest(dist: Path, pattern: str, target: str) -> str:
    """Returns the newest wheel of a pattern."""
    wheels = sorted(dist.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not wheels:
        sys.exit(f"{dist} has no {pattern}: make {target}")
    return str(wheels[-1].absolute())


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command in an activated environment, outside of the checkout; exits with its output if it fails.

    Spark's workers run the first `python3` of PATH.
    """
    env = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    env["PATH"] = os.pathsep.join([str(folder / "bin"), env["PATH"]])
    done = subprocess.run(
        command,
        cwd=folder,
        env={**env, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)[:200]}:\n{done.stdout}{done.stderr}")
    return done


def query(python: str, folder: Path, when: str, *, jvm: bool) -> None:
    """Runs the README's query, and exits if another source reads it or the log lines differ."""
    done = run([python, "-c", program()], folder)
    notices = [line for line in done.stderr.splitlines() if NOTICE in line]
    [scan, *_] = [line.strip() for line in done.stdout.splitlines() if "BatchScan" in line] or ["no BatchScan"]
    expected = "BatchScan samsarrow-jvm" if jvm else "(Python)"
    advice = all("pip install 'samsarrow-spark==" in line for line in notices)
    if expected not in scan or "rows: 10" not in done.stdout or len(notices) != (0 if jvm else 1) or not advice:
        sys.exit(f"{when}: expected a scan with {expected!r} of 10 rows:\n{done.stdout}\n{done.stderr}")
    print(f"{when}: {scan[:60]}")
    for line in notices:
        print(f"  {line}")


def main(dist: Path) -> None:
    package = newest(dist, "samsarrow-[0-9]*.whl", "wheel-native")
    jar = newest(dist, "samsarrow_spark-[0-9]*.whl", "wheel-spark-native")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([sys.executable, "-m", "venv", str(folder)], folder)
        python = str(folder / "bin" / "python")
        run([python, *PIP, "install", "--find-links", str(dist.absolute()), f"{package}[spark]"], folder)
        query(python, folder, "pip install samsarrow[spark]", jvm=True)
        run([python, *PIP, "uninstall", "--yes", "samsarrow-spark"], folder)
        query(python, folder, "pip uninstall samsarrow-spark", jvm=False)
        run([python, *PIP, "install", "--no-index", "--no-deps", jar], folder)
        run([python, *PIP, "install", "--no-index", "--no-deps", "--force-reinstall", jar], folder)
        query(python, folder, "pip install --force-reinstall", jvm=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
