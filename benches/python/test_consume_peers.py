"""Clients in other languages read the same topics, and their results are in the same tables.

These clients create no Arrow arrays. Some create an object per record, others create nothing. Each counts the records
and the bytes of their values. Java's JVM is warm, as in a service; franz-go's program is compiled in advance, and its
time includes connecting, as ours does.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from cases import JSON_LZ4, JSON_ZSTD, NOISE, Case
from clients import data
from harness import HERE, Result, record, run_command
from support.kafka import KafkaServer

GO = HERE / "go"
BUILT = HERE.parent.parent / ".cache" / "franz-go"
ROUNDS = 5
CASES = [NOISE, JSON_LZ4, JSON_ZSTD]


@pytest.fixture(scope="module")
def franz_go() -> Path:
    """Builds the program with Go, once for each version of its source."""
    state = hashlib.sha256(b"".join((GO / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")))
    program = BUILT / f"consume-{state.hexdigest()[:16]}"
    if program.exists():
        return program
    if shutil.which("go") is None:
        pytest.skip("franz-go needs `go` on PATH (1.26 or later)")
    BUILT.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=GO, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0 and not os.environ.get("CI"):
        pytest.skip(f"Go could not build the program for franz-go:\n{done.stderr}")
    assert done.returncode == 0, done.stderr
    return program


def compare(case: Case, client: str, result: Result) -> None:
    """Checks that the client counted all records that were sent."""
    sent = pc.sum(pc.binary_length(data.values(case.count, case.kind))).as_py()
    assert (result["rows"], result.pop("bytes")) == (case.count, sent)
    record(case.name, client, result)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_java(benchmark: Any, kafka: KafkaServer, written: Callable[[Case], str], case: Case) -> None:
    topic = written(case)
    arguments = [kafka.bootstrap_servers, topic, str(case.count), str(ROUNDS)]
    command = kafka.java(str(HERE / "java" / "Consume.java"), *arguments, jvm=["-Xmx1g"])
    passes = benchmark.pedantic(lambda: run_command(command), rounds=1)
    assert len(passes) == ROUNDS
    for result in passes:
        compare(case, "java, no Arrow", result)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_franz_go(
    benchmark: Any, kafka: KafkaServer, franz_go: Path, written: Callable[[Case], str], case: Case
) -> None:
    topic = written(case)
    command = [str(franz_go), kafka.bootstrap_servers, topic, str(case.count)]
    benchmark.pedantic(lambda: compare(case, "franz-go, no Arrow", run_command(command)), rounds=ROUNDS)
