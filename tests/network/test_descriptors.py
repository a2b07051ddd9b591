"""A process out of file descriptors gets an error that says so, and recovers when descriptors are available again."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from samsarrow import Producer
from samsarrow.testing import Broker
from support.proxy import Network

PROGRAM = """
    import os, resource, sys, time
    from samsarrow import Admin, Consumer, KafkaError, Producer, TopicPartition

    servers = sys.argv[1]

    def reads(consumer, count):
        rows, until = 0, time.monotonic() + 30
        while rows < count:
            assert time.monotonic() < until, rows
            rows += consumer.poll(0.2).num_rows

    # These clients have connections; `late` has none.
    old = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    old.assign([TopicPartition("t", 0)])
    reads(old, 1)
    producer = Producer(bootstrap_servers=servers, linger_ms=0)
    producer.send("t", b"x").result(30)
    reads(old, 1)

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 50, limits[1]))
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    texts = []
    for make, use in (
        (Admin, lambda client: client.list_topics(timeout=1)),
        (Consumer, lambda client: client.end_offsets([TopicPartition("t", 0)], timeout=1)),
        (lambda **options: Producer(max_block_ms=1000, **options), lambda client: client.send("t", b"y")),
    ):
        try:
            client = make(bootstrap_servers=servers)
            try:
                use(client)
            finally:
                client.close()
        except (KafkaError, OSError) as error:
            texts.append(str(error))
    late = Consumer(bootstrap_servers=servers, auto_offset_reset="earliest")
    late.assign([TopicPartition("t", 0)])
    until = time.monotonic() + 2
    while time.monotonic() < until:
        late.poll(0.2)
    # Connected clients are not affected.
    producer.send("t", b"x").result(30)
    reads(old, 1)

    for one in taken:
        os.close(one)
    reads(late, 3)
    with Admin(bootstrap_servers=servers) as admin:
        admin.list_topics(timeout=30)
    for client in (old, late, producer):
        client.close()
    print("\\n".join(texts))
"""


def test_recovers_from_exhausted_file_descriptors(broker: Broker, network: Network) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as filler:
        filler.send("t", b"x").result(30)
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), network.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    texts = done.stdout.splitlines()
    assert len(texts) == 3, texts
    for text in texts:
        # The error has the message of the operating system, and no advice to check the network.
        assert "Too many open files" in text, texts
    assert "panicked" not in done.stderr
    requests = network.requests()
    assert requests["Metadata"] <= 40, requests
    assert network.accepted() <= 60
