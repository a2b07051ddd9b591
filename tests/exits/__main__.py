"""`make test-exits`: runs programs that use clients until they end, and checks their exit codes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import programs
import pythons

from samsarrow.testing import Broker

# Share of Spark workers in all runs. It is small, because a worker takes longer than a program.
SPARK_SHARE = 1 / 11


def main() -> int:
    """Runs the programs and prints the results."""
    options = arguments()
    try:
        python, path = pythons.find(options.python)
    except pythons.NotHereError as error:
        print(error, file=sys.stderr)
        return 2
    broker = None if options.bootstrap else Broker(topics={programs.TOPIC: 4})
    servers = options.bootstrap or broker.bootstrap_servers
    codes: dict[str, Counter[int | None]] = {}
    bad: list[programs.Ended] = []
    started, tasks = time.monotonic(), round(options.runs * SPARK_SHARE)
    with tempfile.TemporaryDirectory() as folder:
        written = programs.write(Path(folder))
        runs = programs.in_turn(written, options.runs - tasks)
        for run, (kind, program) in enumerate(runs):
            ended = programs.end(python, kind, program, servers, f"exits-{time.time_ns()}-{run}", path)
            codes.setdefault(kind.name, Counter())[ended.code] += 1
            if not ended.well:
                bad.append(ended)
                print(f"{kind.name}: {program.name} ended with {ended.code}\n{ended.stderr}", flush=True)
    spark = worked(python, path, servers, tasks)
    if broker:
        broker.close()
    print(f"{options.runs} exits of Python {options.python} in {time.monotonic() - started:.0f} s")
    print(f"{'kind':<16}{'runs':>5}  {'code':>4}  codes seen")
    for kind in programs.KINDS:
        seen = codes.get(kind.name, Counter())
        shown = ", ".join(f"{'none' if code is None else code}: {count}" for code, count in seen.items())
        print(f"{kind.name:<16}{seen.total():>5}  {kind.code:>4}  {shown}")
    print(f"{'spark worker':<16}{tasks:>5}  {0:>4}  {spark}")
    return 1 if bad or not spark.startswith(("0:", "not run")) else 0


def worked(python: str, path: str, servers: str, tasks: int) -> str:
    """Runs a Spark job whose tasks end their workers."""
    try:
        spark = pythons.spark()
    except pythons.NotHereError as error:
        return f"not run: {error}"
    search = os.pathsep.join([path, str(spark), str(Path(__file__).parent)])
    environment = {**os.environ, "PYSPARK_PYTHON": python, "PYTHONPATH": search}
    command = [python, str(Path(__file__).with_name("spark.py")), servers, str(tasks)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stderr, flush=True)
    return f"{done.returncode}: {tasks}"


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    parser.add_argument("--bootstrap", default="", help="a Kafka with the topic exits; by default the embedded broker")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
