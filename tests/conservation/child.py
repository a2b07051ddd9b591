"""Runs a reading interface in a separate process: SIGTERM ends it with `close`, SIGUSR1 without, SIGUSR2 forks it."""

from __future__ import annotations

import json
import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

from conservation.clusters import Row
from conservation.reading import INTERFACES, Application


class Printing(Application):
    """Prints rows as they are returned."""

    def add(self, rows: list[Row]) -> None:
        if rows:
            os.write(1, json.dumps(rows).encode() + b"\n")


def main() -> None:
    config = json.loads(sys.argv[1])
    cluster: Any = SimpleNamespace(options=lambda: config["cluster"])
    [interface] = [interface for interface in INTERFACES if interface.name == config["interface"]]
    app = Printing(cluster, config["topic"], config["group"], os.getpid(), config["options"])

    def end(_number: int, _frame: object) -> None:
        app.stopped.set()
        if app.consumer is not None:
            app.consumer.wakeup()

    def leave(_number: int, _frame: object) -> None:
        app.closes = False
        app.stopped.set()
        sys.exit()

    def fork(_number: int, _frame: object) -> None:
        if os.fork() == 0:
            # Rows that the forked process reads are not printed, so they do not count.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            app.stopped.set()
            if interface.loop is not None:
                # An event loop that ends removes its sockets from the epoll that both processes share.
                os._exit(0)
            sys.exit()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, leave)
    signal.signal(signal.SIGUSR2, fork)
    interface.run(app)


if __name__ == "__main__":
    main()
