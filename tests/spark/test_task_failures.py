"""Failed tasks that Spark repeats write their rows exactly once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from samsarrow import Consumer, Producer
from samsarrow.testing import Broker
from support.kafka import SUPPORT
from support.slow import WHOLE


@pytest.mark.timeout(400)
@pytest.mark.parametrize("sink", ["samsarrow-python", pytest.param("samsarrow-jvm", marks=WHOLE)])
def test_failed_tasks_and_repeated_batch_write_once(request: pytest.FixtureRequest, tmp_path: Path, sink: str) -> None:
    """Runs with and without adaptive execution, which decides on tasks during execution."""
    if sink == "samsarrow-jvm":
        request.getfixturevalue("built")
    topics = ("adaptive", "fixed")
    with Broker(topics={"come": 2, **dict.fromkeys(topics, 2)}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for n in range(200):
                producer.send("come", str(n), str(n % 20), partition=n % 2)
        command = [sys.executable, str(SUPPORT / "spark_repeats.py"), sink]
        command += [broker.bootstrap_servers, str(tmp_path), "come"]
        done = subprocess.run(
            [*command, *topics], capture_output=True, text=True, timeout=360, check=False, env=os.environ.copy()
        )
        assert done.returncode == 0, done.stderr[-5000:]
        for topic in topics:
            config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
            with Consumer(config, bootstrap_servers=broker.bootstrap_servers) as consumer:
                consumer.assign(consumer.partitions_for(topic))
                result = Counter(int(v) for v in consumer.reader().read_all().column("value").to_pylist())
            assert result == Counter(range(200)), topic
