"""Measures one client in this process: seconds, CPU seconds of user and system, peak resident memory."""

import functools
import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from . import data
from .checksum import checksum


def peak_rss_mib() -> float:
    """Of this program alone: what getrusage counts begins with the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    name, verb, bootstrap, topic, count, kind, codec = sys.argv[1:8]
    client = importlib.import_module(f"clients.{name}")
    writes = verb in {"produce", "spread", "send"}
    work: Any = functools.partial(getattr(client, verb), codec=codec) if writes else getattr(client, "consume", None)
    if verb == "check":
        rows, crc = checksum(work(bootstrap, topic, int(count)))
        print(json.dumps({"rows": rows, "crc": crc}))
        return
    prepared: Any = data.table(int(count), kind) if writes or verb == "waited" else None
    if verb == "waited":
        # The first ones connect and warm the broker up.
        found = client.waited(bootstrap, topic, prepared.column("value").to_pylist())[200:]
        print(json.dumps([second * 1e6 for second in found]))
        return
    if verb == "send":
        # One Python object a record, as a program has them that sends them one by one.
        prepared = prepared.column("value").to_pylist()
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    rows = work(bootstrap, topic, prepared) if writes else sum(len(a) for a in work(bootstrap, topic, int(count)))
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu": cpu, "rss_mib": peak_rss_mib()}))


main()
