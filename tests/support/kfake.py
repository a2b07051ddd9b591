"""Runs franz-go's fake cluster for tests, in a Go program that is built once and controlled by commands.

with KFake(brokers=3, topics={"t": 1}) as kfake:
    kfake.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from samsarrow import exceptions

TESTS = Path(__file__).resolve().parent.parent
SOURCE = TESTS / "foreign" / "kfake"
CACHE = TESTS.parent / ".cache" / "kfake"
BUILD_DEADLINE_S = 600.0
CODES = {e.name: e.code for e in vars(exceptions).values() if isinstance(e, type) and hasattr(e, "code")}


class KFakeUnavailableError(RuntimeError):
    """The fake cluster cannot be built on this machine. The message contains the reason."""


def program() -> Path:
    """Returns the path of the binary. Go builds it again only if its source has changed; `.cache/` keeps it."""
    state = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        state.update((SOURCE / name).read_bytes())
    built = CACHE / f"kfake-{state.hexdigest()[:16]}"
    if built.exists():
        return built
    if shutil.which("go") is None:
        raise KFakeUnavailableError("franz-go's fake cluster needs `go` on PATH (1.26 or later)")
    CACHE.mkdir(parents=True, exist_ok=True)
    # The binary is built under a temporary name, since other test runs may build at the same time.
    fresh = CACHE / f"{built.name}.{os.getpid()}"
    done = subprocess.run(
        ["go", "build", "-o", str(fresh), "."],
        cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_DEADLINE_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise KFakeUnavailableError(f"Go could not build franz-go's fake cluster:\n{done.stderr}")
    return fresh.rename(built)


class KFake:
    """A cluster process on free loopback ports.

    Args:
        brokers: number of brokers.
        topics: partition counts by topic.
        configs: broker configs.
    """

    def __init__(
        self, brokers: int = 1, topics: Mapping[str, int] | None = None, configs: Mapping[str, str] | None = None
    ) -> None:
        self._arguments = [
            f"-brokers={brokers}",
            "-topics=" + ",".join(f"{name}:{count}" for name, count in (topics or {}).items()),
            "-configs=" + ",".join(f"{name}={value}" for name, value in (configs or {}).items()),
        ]
        self._process: subprocess.Popen[str] | None = None
        self.bootstrap_servers = ""

    def __enter__(self) -> KFake:
        self._process = subprocess.Popen(
            [str(program()), *self._arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.bootstrap_servers = ",".join(self._read_response()["addresses"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def _read_response(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"kfake ended with code {self._process.wait(10)}"
        answer: dict[str, Any] = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer

    def _request(self, do: str, **fields: object) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self._process.stdin.flush()
        return self._read_response()

    def fail(
        self,
        api: str,
        error: str,
        times: int | None = 1,
        *,
        topic: str = "",
        partitions: Sequence[int] = (),
        group: str = "",
        txn: str = "",
        whole: bool = False,
    ) -> None:
        """Makes the next `times` requests fail with an error, or all requests until `heal` if `times` is None.

        The error is set for the given topics, partitions or groups, or for all. `whole` sets the top-level error.
        """
        self._request(
            "fail", api=api, error=CODES[error], times=-1 if times is None else times, topic=topic,
            partitions=list(partitions), group=group, txn=txn, whole=whole,
        )  # fmt: skip

    def drop(self, api: str, times: int | None = 1) -> None:
        """Closes the connection instead of responding to the next requests."""
        self._request("drop", api=api, times=-1 if times is None else times)

    def delay(self, api: str, seconds: float, times: int | None = 1) -> None:
        """Delays the next requests."""
        self._request("delay", api=api, ms=round(1000 * seconds), times=-1 if times is None else times)

    def heal(self) -> None:
        """Ends the effects of all calls of `fail`, `drop` and `delay`."""
        self._request("heal")

    def requests(self, api: str) -> int:
        """Returns the number of requests so far."""
        return int(self._request("requests").get("requests", {}).get(api, 0))

    def leader(self, topic: str, partition: int = 0) -> int:
        """Returns the leader of a partition."""
        return int(self._request("leader", topic=topic, partitions=[partition])["node"])

    def move(self, topic: str, partition: int, node: int) -> None:
        """Moves the leadership of a partition to another broker."""
        self._request("move", topic=topic, partitions=[partition], node=node)

    def coordinator(self, name: str) -> int:
        """Returns the coordinator of a group or transactional id."""
        return int(self._request("coordinator", group=name)["node"])

    def move_coordinators(self) -> None:
        """Moves all groups and transactional ids to other coordinators."""
        self._request("move coordinators")

    def delete_records(self, topic: str, partition: int) -> None:
        """Deletes all records of a partition."""
        self._request("delete records", topic=topic, partitions=[partition])

    def add_broker(self) -> int:
        """Starts another broker."""
        return int(self._request("add broker")["node"])

    def remove_broker(self, node: int) -> None:
        """Stops a broker permanently, and moves its partitions to other brokers."""
        self._request("remove broker", node=node)
