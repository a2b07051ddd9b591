"""Apache Kafka's Java clients, with binary data and all options, through `java/Peer.java`.

One JVM handles all calls. It is stopped at the end of the `with` block.
"""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from support.kafka import QUICK_COMPILER, SUPPORT, KafkaServer

from . import Poll, Received, Sent, dotted


class JavaError(RuntimeError):
    """Raised if a Java client throws an exception; has the text of the exception."""


class JavaPeer:
    """Java producers and consumers of the same version as `server`, which they connect to."""

    def __init__(self, server: KafkaServer) -> None:
        self._server = server
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            server.java(str(SUPPORT / "java" / "Peer.java"), jvm=["-Xmx256m", *QUICK_COMPILER]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, process_group=0,
        )  # fmt: skip

    def __enter__(self) -> JavaPeer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def call(self, op: str, *, config: Mapping[str, str] | None = None, **arguments: object) -> Any:
        """Runs one command of `Peer.java`."""
        command = {"op": op, "config": {"bootstrap.servers": self._server.bootstrap_servers, **(config or {})}}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({**command, **arguments}).encode() + b"\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            self._errors.seek(0)
            raise JavaError(f"Peer.java ended during {op}:\n{self._errors.read().decode(errors='replace')}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(f"{op}: {answer['error']}")
        return answer["ok"]

    def open(self, name: str, **config: str) -> None:
        """Opens a producer, which `call(..., name=name)` and `send` use by its name."""
        self.call("open", name=name, config=dotted(config))

    def send(self, name: str, topic: str, records: Sequence[Sent], partition: int = 0) -> list[int]:
        """Sends all records, waits until they are delivered, and returns their offsets."""
        rows = [[_text(r.key), _text(r.value), [[k, _text(v)] for k, v in r.headers], r.timestamp] for r in records]
        return self.call("send", name=name, topic=topic, partition=partition, records=rows)  # type: ignore[no-any-return]

    def produce(self, topic: str, codec: str, records: Sequence[Sent], partition: int = 0) -> None:
        """Sends all records with a new producer. It is not idempotent, because the old message formats do not support
        that.
        """
        self.open("produce", compression_type=codec, linger_ms="50", enable_idempotence="false")
        try:
            self.send("produce", topic, records, partition)
        finally:
            self.call("close", name="produce")

    def configure(self, topic: str, **configs: str) -> None:
        """Sets configs of a topic."""
        self.call("configure", topic=topic, configs=dotted(configs))

    def ends(self, topic: str, partitions: Sequence[int], **config: str) -> list[int]:
        return self.call("ends", topic=topic, partitions=list(partitions), config=dotted(config))  # type: ignore[no-any-return]

    def committed(self, group: str, topic: str, partitions: Sequence[int]) -> list[tuple[int, str] | None]:
        """Returns the offset and the metadata that a group has committed for each partition, or None."""
        found = self.call("committed", topic=topic, partitions=list(partitions), config={"group.id": group})
        return [None if row is None else (row[0], row[1]) for row in found]

    def polls(self, topic: str, partitions: Sequence[int], until: Sequence[int], **config: str) -> list[Poll]:
        """Reads from the start of the partitions until the positions have reached `until`."""
        polls = self.call("read", topic=topic, partitions=list(partitions), until=list(until), config=dotted(config))
        return [Poll(tuple((r[0], _received(r)) for r in poll["records"]), tuple(poll["positions"])) for poll in polls]

    def consume(self, topic: str, count: int, partition: int = 0) -> list[Received]:
        """Returns the first `count` records, which must have consecutive offsets."""
        polls = self.polls(topic, [partition], [count])
        return [record for poll in polls for _, record in poll.records]


def _received(row: list[Any]) -> Received:
    _, offset, timestamp, _, key, value, headers = row
    return Received(offset, timestamp, _data(key), _data(value), tuple((k, _data(v)) for k, v in headers))


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _data(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
