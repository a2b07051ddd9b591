"""The worker of docs/share-groups.md processes each job although it is killed again and again."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.testing import Broker
from support.fences import ROOT, fences
from support.share_cases import earliest

KILLS = int(os.environ.get("SAMSARROW_SHARE_KILLS", "4"))
JOBS = 200 * KILLS


def program(servers: str) -> str:
    """Returns the example without its first part, which creates jobs, and with small polls."""
    [code] = [fence.text for fence in fences(ROOT / "docs" / "share-groups.md") if "def work(" in fence.text]
    before, _, rest = code.partition("with Admin(")
    _, _, loop = rest.partition("counts = ")
    whole = f"{before}counts = {loop}".replace("localhost:9092", servers)
    small = whole.replace("max_poll_records=100", "max_poll_records=20, acquire_mode='record_limit'")
    assert small != whole != code
    # Work takes time, so that kills happen during it.
    return small.replace("    if job.startswith", "    import time; time.sleep(0.002)\n    if job.startswith")


@pytest.mark.timeout(120 + 10 * KILLS)
def test_each_job_is_done(tmp_path: Path) -> None:
    chance = random.Random(int(os.environ.get("SAMSARROW_CHAOS_SEED", "1")))
    # Each kill costs a delivery of the jobs in progress.
    with Broker(topics={"jobs": 1, "results": 1, "failed": 1}, share_delivery_limit=10) as broker:
        servers = broker.bootstrap_servers
        earliest(servers, "workers")
        jobs = [f"{'broken' if number % 10 == 0 else 'job'} {number}" for number in range(JOBS)]
        with Producer(bootstrap_servers=servers) as producer:
            for job in jobs:
                producer.send("jobs", job, partition=0)
        worker = tmp_path / "worker.py"
        worker.write_text(program(servers))
        for number in range(KILLS):
            with subprocess.Popen([sys.executable, str(worker)]) as process:
                done = len(values(servers, "results"))
                deadline = time.monotonic() + 30
                while len(values(servers, "results")) <= done + 20 * (number % 2):
                    assert time.monotonic() < deadline, values(servers, "results")
                    assert process.poll() is None, process.returncode
                time.sleep(chance.uniform(0, 0.1))
                process.kill()
        subprocess.run([sys.executable, str(worker)], check=True, timeout=120)
        results, failed = Counter(values(servers, "results")), Counter(values(servers, "failed"))
    assert set(results) == {job.upper() for job in jobs if job.startswith("job")}
    assert set(failed) == {job for job in jobs if job.startswith("broken")}
    # A kill repeats at most the jobs of one poll.
    assert results.total() - len(results) <= 20 * KILLS


def values(servers: str, topic: str) -> list[str]:
    with Consumer(bootstrap_servers=servers) as consumer:
        partition = TopicPartition(topic, 0)
        [end] = consumer.end_offsets(partition).values()
        consumer.assign([partition])
        consumer.seek_to_beginning()
        found: list[str] = []
        while len(found) < end:
            found += [value.decode() for value in consumer.poll(5).column("value").to_pylist()]
        return found
