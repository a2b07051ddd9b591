"""PySpark for the probe: a process with a Spark session, which tests one broker after the other."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from support.kafka import CACHE

from .features import SPARK
from .probe import DEFECT, Outcome, judge

HERE = Path(__file__).resolve().parent


class SparkProcess:
    """Runs `spark_smoke.py` or a similar program with a Python; the end of the `with` block ends the program and its
    JVM.
    """

    def __init__(self, *arguments: str, python: str = sys.executable, script: str = "spark_smoke.py") -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "python")}
        self._process = subprocess.Popen(
            [python, str(HERE / script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment,
            # Spark's scripts start the JVM, so the processes form a group and end together.
            process_group=0,
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def next(self, timeout: float) -> tuple[str, str | None] | None:
        """Returns the next feature and its error; None at the end, or an error at the timeout."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            return "", f"nothing after {timeout:g} s"
        if line is None:
            code = self._process.wait()
            return None if code == 0 else ("", f"the process ended with exit code {code}: {self.last_output()}")
        output = json.loads(line)
        return output["feature"], output["error"]

    def outcomes(self, timeout: float) -> Iterator[tuple[str, str | None]]:
        """Yields all outcomes; the last one has no name if the process failed."""
        while (message := self.next(timeout)) is not None:
            yield message
            if not message[0]:
                return

    def last_output(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-1500:]

    def batch(self, bootstrap_servers: str, version: str) -> Outcome:
        """Writes a batch to that Kafka and reads it back."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(bootstrap_servers + "\n")
            self._process.stdin.flush()
        except OSError:
            return Outcome(SPARK.name, DEFECT, self.last_output())
        message = self.next(SPARK.limit)
        error = "the process ended" if message is None else message[1]
        return judge(SPARK, version, error, refusal=True)

    def __enter__(self) -> SparkProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._errors.close()


SURROUNDINGS = CACHE.parent / "surroundings"
