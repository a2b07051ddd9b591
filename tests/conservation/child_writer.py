"""Sends rows in a separate process: SIGTERM ends it with `close`, SIGUSR1 without, SIGUSR2 forks it."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import time

from samsarrow import Producer


def main() -> None:
    config = json.loads(sys.argv[1])
    # Ids begin with the number of the process, so that ids of different processes differ.
    rows = (f"row {config['first']}.{number}" for number in itertools.count())
    received: list[int] = []

    def note(number: int, _frame: object) -> None:
        received.append(number)

    def fork(_number: int, _frame: object) -> None:
        if os.fork() == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit()

    signal.signal(signal.SIGTERM, note)
    signal.signal(signal.SIGUSR1, note)
    signal.signal(signal.SIGUSR2, fork)
    producer = Producer(**config["options"])
    while not received:
        some = list(itertools.islice(rows, 20))
        for row in some:
            producer.send(config["topic"], b"v" * 100, row)
        os.write(1, json.dumps(some).encode() + b"\n")
        time.sleep(0.002)
    if signal.SIGTERM in received:
        producer.close()


if __name__ == "__main__":
    main()
