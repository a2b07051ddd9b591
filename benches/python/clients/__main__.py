"""Measures one client in this process: seconds, CPU seconds of user and system, peak resident memory."""

import importlib
import json
import resource
import sys
import time

from . import data
from .checksum import checksum


def main() -> None:
    name, verb, bootstrap, topic, count = sys.argv[1:6]
    client = importlib.import_module(f"clients.{name}")
    work = client.consume if verb != "produce" else client.produce
    if verb == "check":
        rows, crc = checksum(work(bootstrap, topic, int(count)))
        print(json.dumps({"rows": rows, "crc": crc}))
        return
    prepared = data.table(int(count)) if verb == "produce" else None
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    rows = (
        work(bootstrap, topic, prepared)
        if verb == "produce"
        else sum(len(a) for a in work(bootstrap, topic, int(count)))
    )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"rows": rows, "seconds": seconds, "cpu": cpu, "rss_mib": after.ru_maxrss / 1024}))


main()
