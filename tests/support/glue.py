"""AWS Glue Schema Registry for tests: moto's server, and the serializers of AWS in a JVM."""

from __future__ import annotations

import base64
import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pytest

from support.apicurio import glue_classpath
from support.kafka import QUICK_COMPILER, SUPPORT


class Moto:
    """A server with the API of AWS Glue, which is stopped at the end of the `with` block."""

    def __init__(self) -> None:
        server = pytest.importorskip("moto.server", reason="moto is not installed")
        self._server = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)

    def __enter__(self) -> Moto:
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        # Servers of a process share their schemas.
        reset = urllib.request.Request(f"{self.url}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset, timeout=60).close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()


class GlueSerdes:
    """A JVM with the serializers of AWS, which is stopped at the end of the `with` block."""

    def __init__(self, endpoint: str) -> None:
        self._config = {"endpoint": endpoint, "region": "eu-central-1"}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        command = ["java", "-XX:+UseSerialGC", *QUICK_COMPILER, "-Xmx256m", "-cp", glue_classpath()]
        self._process = subprocess.Popen(
            [*command, str(SUPPORT / "java" / "GlueSerdes.java")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8",
        )  # fmt: skip

    def _request(self, op: str, values: Sequence[bytes], config: dict[str, str], **task: Any) -> list[bytes]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        encoded = [base64.b64encode(value).decode() for value in values]
        request = {"op": op, "values": encoded, "config": {**self._config, **config}, **task}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._log.seek(0)
            raise RuntimeError(f"Java ended:\n{self._log.read().decode(errors='replace')}")
        response = json.loads(line)
        if "error" in response:
            raise RuntimeError(response["error"])
        return [base64.b64decode(value) for value in response["values"]]

    def write(self, values: Sequence[bytes], *, compression: str = "NONE", **task: Any) -> list[bytes]:
        """Returns values with frames, for values that are encoded without frames.

        Args:
            values: encoded values.
            compression: `NONE` or `ZLIB`.
            **task: `format`, `topic`, and `schema`, or `file` and `message`.
        """
        return self._request("write", values, {"compression": compression}, **task)

    def read(self, values: Sequence[bytes], **task: Any) -> list[bytes]:
        """Returns values without frames, as AWS's deserializer reads them."""
        return self._request("read", values, {}, **task)

    def __enter__(self) -> GlueSerdes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
