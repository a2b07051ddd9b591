"""Measures one client in this process with `Watch`."""

import functools
import importlib
import json
import sys
from typing import Any

from . import data
from .checksum import checksum
from .watch import Watch

# Verbs that write records. Those in PLACED also write keys or partitions.
PLACED = {"keyed", "placed", "placed_keyed"}
WRITES = {"produce", "spread", "send", "encode", *PLACED}


def main() -> None:
    name, verb, bootstrap, topic, count, kind, codec = sys.argv[1:8]
    print(json.dumps(run(importlib.import_module(f"clients.{name}"), verb, bootstrap, topic, int(count), kind, codec)))


def run(client: Any, verb: str, bootstrap: str, topic: str, count: int, kind: str, codec: str) -> Any:
    if verb == "check":
        rows, crc = checksum(client.consume(bootstrap, topic, count))
        return {"rows": rows, "crc": crc}
    if verb == "check_placed":
        return data.described(client.batches(bootstrap, topic, count))
    if verb == "waited":
        # Drops the first results, because these sends connect and warm up the broker.
        result = client.waited(bootstrap, topic, data.values(count, kind).to_pylist())[200:]
        return [second * 1e6 for second in result]
    if verb not in WRITES:
        work = getattr(client, verb)
        watch = Watch()
        return watch.found(sum(len(array) for array in work(bootstrap, topic, count)))
    work = functools.partial(getattr(client, verb), codec=codec)
    table = data.table(count, kind)
    if verb == "send":
        # Creates one Python object per record, as an application does that sends records one by one.
        values = table.column("value").to_pylist()
        watch = Watch()
        steps = work(bootstrap, topic, values)
        next(steps)
        calls = watch.seconds
        return watch.found(next(steps), calls=calls)
    if verb in PLACED:
        table = data.placed(table)
    watch = Watch()
    return watch.found(work(bootstrap, topic, table))


main()
