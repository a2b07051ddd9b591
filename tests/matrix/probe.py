"""Probes all features on one Kafka: each feature works, is rejected as unsupported, or has a defect.

The steps run sequentially in a child process, each with a time limit. After a step that hangs or crashes the process,
the next ones get a new child.
"""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from support.kafka import KafkaServer, server_of
from support.kafka_releases import number

from .features import FEATURES, Feature

TESTS = Path(__file__).resolve().parent.parent
# Broker settings: topics are created on first use, as before CreateTopics existed.
PROPERTIES = {"auto.create.topics.enable": "true", "num.partitions": "2", "delete.topic.enable": "true"}

WORKS, REFUSED, DEFECT = "works", "refused", "defect"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one feature.

    Attributes:
        feature: name of the feature.
        kind: `works`, `refused` or `defect`.
        text: text of the error; empty if it works.
        seconds: duration.
    """

    feature: str
    kind: str
    text: str = ""
    seconds: float = 0.0


def judge(feature: Feature, version: str, error: str | None, refusal: bool, seconds: float = 0.0) -> Outcome:
    """Classifies the result of a step.

    Args:
        feature: the tested feature.
        version: version of Kafka.
        error: the error of the step; None if it passed.
        refusal: true if the error is one of samsarrow's classes; other errors do not explain the cause to users.
        seconds: duration.
    """
    if error is None:
        return Outcome(feature.name, WORKS, "", seconds)
    # If several features are missing, the error may name the version of the first one, which is newer than this Kafka
    # and at most `since`.
    named = [number(found) for found in re.findall(r"Kafka (\d+(?:\.\d+)+)", error)]
    if (
        not feature.expected_of(version)
        and refusal
        and any(number(version) < n <= number(feature.since) for n in named)
    ):
        return Outcome(feature.name, REFUSED, error, seconds)
    return Outcome(feature.name, DEFECT, error, seconds)


class _Child:
    """A process that runs steps and prints the start and end of each."""

    def __init__(self, bootstrap_servers: str, version: str, features: Sequence[Feature]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        command = [sys.executable, "-m", "matrix.probe", bootstrap_servers, version, *(f.name for f in features)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self._errors, cwd=TESTS, text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS), "RUST_BACKTRACE": "0"},
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def outcome(self, feature: Feature, version: str) -> Outcome | None:
        """Returns the outcome of the next step; None if the process ended or was killed, with the cause in `end`."""
        try:
            line = self._lines.get(timeout=feature.limit)
        except queue.Empty:
            self._process.kill()
            return None
        if line is None:
            return None
        output = json.loads(line)
        return judge(feature, version, output["error"], output["refusal"], output["seconds"])

    def end(self, limit: float = 15.0) -> str | None:
        """Returns the error with which the process ended, or None."""
        try:
            code = self._process.wait(limit)
            problem = f"the process ended with exit code {code}" if code else None
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            problem = f"the process did not end within {limit:g} s"
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace")
        if problem is None and "panicked at" in said:
            problem = "a panic"
        return f"{problem}: {said[-1500:]}" if problem else None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()


def probe(bootstrap_servers: str, version: str, features: Sequence[Feature] = FEATURES) -> list[Outcome]:
    """Probes all features on a broker of that version."""
    outcomes: list[Outcome] = []
    left = list(features)
    while left:
        child = _Child(bootstrap_servers, version, left)
        try:
            while left:
                feature = left.pop(0)
                started = time.monotonic()
                outcome = child.outcome(feature, version)
                if outcome is None:
                    seconds = time.monotonic() - started
                    hung = f"nothing after {feature.limit:g} s; " if seconds >= feature.limit else ""
                    outcomes.append(Outcome(feature.name, DEFECT, f"{hung}{child.end()}", seconds))
                    break
                outcomes.append(outcome)
            else:
                problem = child.end()
                outcomes.append(Outcome("exit", DEFECT if problem else WORKS, problem or ""))
        finally:
            child.close()
    return outcomes


def probe_release(
    version: str, features: Sequence[Feature] = FEATURES, more: Sequence[Callable[[str, str], Outcome]] = ()
) -> list[Outcome]:
    """Starts a Kafka version, probes all features, calls the additional functions with address and version, and
    stops it.
    """
    with server_of(version, PROPERTIES) as server:
        outcomes = probe(server.bootstrap_servers, version, features)
        outcomes += [step(server.bootstrap_servers, version) for step in more]
        return [*outcomes, _still_there(server)]


def _still_there(server: KafkaServer) -> Outcome:
    """Checks that the broker has not crashed due to our requests."""
    return Outcome("broker", *((WORKS, "") if server.running else (DEFECT, server.log_path.read_text()[-1500:])))


def _main(bootstrap_servers: str, version: str, *wanted: str) -> None:
    """Runs steps in this process; prints a line of JSON for each."""
    from samsarrow import KafkaError

    from .steps import steps
    from .subject import Probe

    one = Probe(bootstrap_servers, version)
    # Redirects other output, which must not mix with the lines of JSON.
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)
        for step in steps(wanted):
            started = time.monotonic()
            error, refusal = None, False
            try:
                step(one)
            except Exception as failure:
                error, refusal = f"{type(failure).__name__}: {failure}", isinstance(failure, KafkaError)
            seconds = round(time.monotonic() - started, 2)
            out.write(json.dumps({"error": error, "refusal": refusal, "seconds": seconds}) + "\n")
            out.flush()


if __name__ == "__main__":
    _main(*sys.argv[1:])
