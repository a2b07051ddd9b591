"""Reads a log segment of Kafka into Arrow, and dumps it record by record, compared with Kafka's own tool."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

from clients import data
from clients.checksum import checksum
from harness import RECORDS, Result, create_topic, record, run_client
from samsarrow import read_segment
from support.kafka import KafkaServer

ROUNDS = 5
TOOL = "org.apache.kafka.tools.DumpLogSegments"


@pytest.fixture(scope="module")
def segment(kafka: KafkaServer) -> Path:
    topic = create_topic(kafka, "segment")
    run_client("ours", "produce", kafka, topic)
    (path,) = kafka.segments(topic)
    return path


def timed(command: list[str], count: bytes) -> Result:
    """Runs a process to completion; returns its cost and the number of output lines that begin with `count`."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        text = b"\n"
        rows = 0
        while piece := process.stdout.read(1 << 20):
            # A line may span two chunks.
            text = text[-len(count) :] + piece
            rows += text.count(b"\n" + count)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    seconds = time.perf_counter() - started
    return {"rows": rows, "seconds": seconds, "cpu": usage.ru_utime + usage.ru_stime, "rss_mib": usage.ru_maxrss / 1024}


@pytest.mark.parametrize("tool", ["dump-log", TOOL.rpartition(".")[2]])
def test_dump(benchmark: Any, kafka: KafkaServer, segment: Path, tool: str) -> None:
    ours = [sys.executable, "-m", "samsarrow.cli", "dump-log", "--deep", str(segment)]
    java = kafka.java(TOOL, "--deep-iteration", "--files", str(segment), jvm=["-Xmx512m"])

    def once() -> None:
        result = timed(ours if tool == "dump-log" else java, b"| offset: ")
        assert result["rows"] == RECORDS
        record("segment, record by record as text", tool, result)

    benchmark.pedantic(once, rounds=ROUNDS if tool == "dump-log" else 1)


# The program drops each batch after it was read, like a reader of a large file.
READ = """
import json, sys, time
from pathlib import Path
from samsarrow import read_segment
path, layout, mmap = sys.argv[1], sys.argv[2], sys.argv[3] == "True"
started, cpu = time.perf_counter(), time.process_time()
rows = sum(batch.num_rows for batch in read_segment(path, layout=layout, mmap=mmap))
seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
# The maximum of getrusage includes the process before exec.
rss = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
print(json.dumps({"rows": rows, "seconds": seconds, "cpu": cpu, "rss_mib": rss}))
"""


@pytest.mark.parametrize("mmap", [True, False], ids=["mapped", "copied"])
@pytest.mark.parametrize("layout", ["binary", "view"])
def test_read_segment(benchmark: Any, segment: Path, layout: Literal["binary", "view"], mmap: bool) -> None:
    def once() -> None:
        command = [sys.executable, "-c", READ, str(segment), layout, str(mmap)]
        result = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
        assert result["rows"] == RECORDS
        # Mapped pages count as memory of the process, although they belong to the page cache.
        record("segment into Arrow", f"{layout} {'map' if mmap else 'copy'}", result)

    benchmark.pedantic(once, rounds=ROUNDS)
    values = (batch.column("value").cast(pa.binary()) for batch in read_segment(segment, layout=layout, mmap=mmap))
    assert checksum(values) == checksum(data.table(RECORDS).column("value").chunks)
