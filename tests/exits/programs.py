"""Programs that use clients and end in all possible ways, with their expected exit codes."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

TOPIC = "exits"
# Seconds after which a program is considered hanging.
PATIENCE = 90.0

HEAD = """
import os, sys, threading, time
import samsarrow
from samsarrow import Admin, Assignor, Consumer, Producer, RebalanceListener
SERVERS, GROUP = sys.argv[1], sys.argv[2]
def member(**options):
    return Consumer(bootstrap_servers=SERVERS, group_id=GROUP, auto_offset_reset="earliest", **options)
"""


@dataclasses.dataclass(frozen=True)
class Kind:
    """Programs of one kind, with several ways of ending."""

    name: str
    code: int
    texts: tuple[str, ...]
    # Expected output on stderr; any other output is an error.
    says: str = ""
    # Output that may be missing, because log lines at the very end may be dropped.
    may_say: str = ""


KINDS = (
    Kind("group", 0, (
        """
        with member() as consumer:
            consumer.subscribe(["exits"])
            consumer.poll(1)
        """,
        """
        consumer = member(group_protocol="consumer")
        consumer.subscribe(pattern="exit.*")
        consumer.poll(0.3)
        """,
        """
        consumers = [member() for _ in range(6)]
        for consumer in consumers:
            consumer.subscribe(["exits"])
        for consumer in consumers:
            consumer.poll(0.05)
        """,
    )),
    Kind("nobody", 0, (
        """
        with Admin(bootstrap_servers="127.0.0.1:1") as admin:
            try:
                admin.list_topics(timeout=0.2)
            except samsarrow.KafkaError:
                pass
        """,
        """
        producer = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=100)
        try:
            producer.send("exits", b"v")
        except samsarrow.KafkaError:
            pass
        """,
    ), may_say="cannot connect to the broker"),
    Kind("loops", 0, (
        """
        async def main():
            async with samsarrow.AsyncProducer(bootstrap_servers=SERVERS) as producer:
                await producer.send_and_wait("exits", b"v")
            consumer = samsarrow.AsyncConsumer(bootstrap_servers=SERVERS, group_id=GROUP, auto_offset_reset="earliest")
            consumer.subscribe(["exits"])
            asyncio.ensure_future(consumer.poll(60))
            await asyncio.sleep(0.5)
        import asyncio
        asyncio.run(main())
        """,
        """
        async def poll():
            consumer = samsarrow.AsyncConsumer(bootstrap_servers=SERVERS, group_id=GROUP, auto_offset_reset="earliest")
            consumer.subscribe(["exits"])
            while True:
                await consumer.poll(0.01)
                started.set()
        async def send():
            producer = samsarrow.AsyncProducer(bootstrap_servers=SERVERS, linger_ms=0)
            while True:
                await producer.send_and_wait("exits", b"v")
        async def main():
            await asyncio.gather(poll(), *(send() for _ in range(10)))
        import asyncio
        started = threading.Event()
        threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
        started.wait(60)
        """,
    )),
    Kind("callbacks", 0, (
        """
        producer = Producer(bootstrap_servers=SERVERS)
        for _ in range(500):
            producer.send("exits", b"v", on_delivery=lambda metadata, error: None)
        producer.flush()
        """,
        """
        producer = Producer(bootstrap_servers=SERVERS, linger_ms=1)
        for _ in range(3000):
            producer.send("exits", b"v", on_delivery=lambda metadata, error: time.sleep(0.001))
        time.sleep(0.05)
        """,
        """
        class Sink:
            def __init__(self):
                self.producer = Producer(bootstrap_servers=SERVERS)
            def __del__(self):
                self.producer.send("exits", b"last").result(10)
                self.producer.close()
        sink = Sink()
        sink.producer.send("exits", b"v", on_delivery=lambda metadata, error: None)
        """,
    )),
    Kind("assignor", 0, (
        """
        class Mine(Assignor):
            name = "mine"
            def assign(self, partitions, members):
                time.sleep(0.2)
                return {}
        consumer = member(partition_assignment_strategy=[Mine()])
        consumer.subscribe(["exits"])
        consumer.poll(float(os.getpid() % 4) / 10)
        """,
    )),
    Kind("fork", 0, (
        """
        consumer = member()
        consumer.subscribe(["exits"])
        consumer.poll(0.2)
        pid = os.fork()
        if pid == 0:
            with Producer(bootstrap_servers=SERVERS) as producer:
                producer.send("exits", b"v", on_delivery=lambda metadata, error: None).result(20)
            sys.exit(9)
        _, status = os.waitpid(pid, 0)
        sys.exit(0 if os.waitstatus_to_exitcode(status) == 9 else 70)
        """,
        """
        import logging
        logging.basicConfig(level=logging.DEBUG, stream=open(os.devnull, "w"))
        producer = Producer(bootstrap_servers=SERVERS)
        producer.send("exits", b"v").result(20)
        done = threading.Event()
        def load():
            while not done.is_set():
                producer.send("exits", b"v", on_delivery=lambda metadata, error: None)
        threading.Thread(target=load, daemon=True).start()
        codes = []
        for _ in range(5):
            pid = os.fork()
            if pid == 0:
                with Admin(bootstrap_servers=SERVERS) as admin:
                    admin.list_topics()
                sys.exit(9)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        sys.exit(0 if codes == [9] * 5 else 70)
        """,
    )),
    Kind("daemon", 0, (
        """
        consumer = member()
        consumer.subscribe(["exits"])
        def read():
            while True:
                consumer.poll(0.02)
        threading.Thread(target=read, daemon=True).start()
        time.sleep(0.3)
        """,
        """
        producer = Producer(bootstrap_servers=SERVERS)
        def write():
            while True:
                producer.send("exits", b"v" * 100, on_delivery=lambda metadata, error: None).result()
        for _ in range(4):
            threading.Thread(target=write, daemon=True).start()
        time.sleep(0.2)
        """,
        """
        listener = RebalanceListener(on_partitions_assigned=lambda partitions: time.sleep(60))
        consumer = member()
        consumer.subscribe(["exits"], listener=listener)
        threading.Thread(target=lambda: consumer.poll(60), daemon=True).start()
        time.sleep(0.5)
        """,
    )),
    Kind("exception", 1, (
        """
        consumer = member()
        consumer.subscribe(["exits"])
        consumer.poll(0.3)
        raise ValueError("as planned")
        """,
        """
        with Producer(bootstrap_servers=SERVERS) as producer:
            producer.send("exits", b"v", on_delivery=lambda metadata, error: None)
            raise ValueError("as planned")
        """,
    ), "ValueError: as planned"),
    Kind("handler", 1, (
        """
        import signal
        def ring(number, frame):
            raise ValueError("as planned")
        signal.signal(signal.SIGALRM, ring)
        consumer = member()
        consumer.subscribe(["exits"])
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        while True:
            consumer.poll(30)
        """,
        """
        import signal
        def ring(number, frame):
            consumer.close()
            raise ValueError("as planned")
        signal.signal(signal.SIGALRM, ring)
        consumer = member()
        consumer.subscribe(["exits"])
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        while True:
            consumer.poll(30)
        """,
    ), "ValueError: as planned"),
    Kind("os._exit", 3, (
        """
        consumer, producer = member(), Producer(bootstrap_servers=SERVERS)
        consumer.subscribe(["exits"])
        for _ in range(100):
            producer.send("exits", b"v", on_delivery=lambda metadata, error: None)
        consumer.poll(0.2)
        os._exit(3)
        """,
    )),
    Kind("sys.exit", 5, (
        """
        consumer = member()
        consumer.subscribe(["exits"], listener=RebalanceListener(on_partitions_assigned=lambda _: sys.exit(5)))
        while True:
            consumer.poll(1)
        """,
        """
        consumer = member(enable_auto_commit=False)
        consumer.subscribe(["exits"])
        while not consumer.poll(1).num_rows:
            pass
        consumer.commit_async(callback=lambda offsets, error: sys.exit(5))
        while True:
            consumer.poll(1)
        """,
        """
        sys.unraisablehook = lambda raised: seen.append(raised.exc_type)
        seen = []
        with Producer(bootstrap_servers=SERVERS) as producer:
            producer.send("exits", b"v", on_delivery=lambda metadata, error: sys.exit(1))
        sys.exit(5 if seen == [SystemExit] else 70)
        """,
    )),
    Kind("multiprocessing", 0, (
        """
        import multiprocessing
        def work(servers):
            with Producer(bootstrap_servers=servers) as producer:
                producer.send("exits", b"v", on_delivery=lambda metadata, error: None).result(20)
            sys.exit(9)
        if __name__ == "__main__":
            with Admin(bootstrap_servers=SERVERS) as admin:
                admin.list_topics()
            context = multiprocessing.get_context("fork")
            children = [context.Process(target=work, args=(SERVERS,)) for _ in range(2)]
            for child in children:
                child.start()
            for child in children:
                child.join()
            sys.exit(0 if [child.exitcode for child in children] == [9, 9] else 70)
        """,
        """
        import multiprocessing
        def work(servers):
            producer = Producer(bootstrap_servers=servers)
            producer.send("exits", b"v", on_delivery=lambda metadata, error: None).result(20)
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            child = context.Process(target=work, args=(SERVERS,))
            child.start()
            child.join()
            sys.exit(0 if child.exitcode == 0 else 70)
        """,
    )),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Ended:
    """The result of a program."""

    kind: Kind
    code: int | None
    stderr: str

    @property
    def well(self) -> bool:
        """True if the program ended as expected, without other output."""
        rest = [line for line in self.stderr.splitlines() if not self.kind.may_say or self.kind.may_say not in line]
        said = self.kind.says in self.stderr if self.kind.says else not rest
        noise = any(word in self.stderr for word in ("panicked", "Fatal Python error", "fatal runtime error"))
        return self.code == self.kind.code and said and not noise


def write(folder: Path) -> dict[str, list[Path]]:
    """Writes each program to a file, because `spawn` imports the main module from its file again."""
    written: dict[str, list[Path]] = {}
    for kind in KINDS:
        for number, text in enumerate(kind.texts):
            path = folder / f"{kind.name.replace('.', '_')}_{number}.py"
            path.write_text(HEAD + textwrap.dedent(text))
            written.setdefault(kind.name, []).append(path)
    return written


def end(python: str, kind: Kind, program: Path, servers: str, group: str, path: str = "") -> Ended:
    """Runs a program to completion."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    if path:
        environment["PYTHONPATH"] = path
    command = [python, str(program), servers, group]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as late:
        return Ended(kind, None, (late.stderr or b"").decode(errors="replace"))
    return Ended(kind, done.returncode, done.stderr)


def in_turn(programs: dict[str, list[Path]], runs: int) -> Iterator[tuple[Kind, Path]]:
    """Yields `runs` programs, alternating between kinds and between ways of ending."""
    for run in range(runs):
        kind = KINDS[run % len(KINDS)]
        texts = programs[kind.name]
        yield kind, texts[run // len(KINDS) % len(texts)]
