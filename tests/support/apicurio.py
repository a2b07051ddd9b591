"""Runs Apicurio's schema registry for tests, with Confluent's API, on a free loopback port.

    with Apicurio() as server, SchemaRegistry(server.url) as registry:
        registry.register("orders-value", '"long"')

Schemas are kept in memory. Apicurio's implementation of Confluent's API has no schema GUIDs.
"""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from support.kafka import QUICK_COMPILER, SUPPORT, KafkaUnavailableError, free_ports

VERSION = "2.6.13.Final"
CACHE = SUPPORT.parent.parent / ".cache" / "apicurio"
START_DEADLINE_S = 150.0


def _need_tools() -> None:
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise KafkaUnavailableError(f"Apicurio's registry and serializers need `{tool}` on PATH (JDK 17 and Maven)")


def _maven(pom: str, goal: str, *options: str) -> None:
    command = ["mvn", "-q", "-B", "-f", str(SUPPORT / pom), f"dependency:{goal}", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        raise KafkaUnavailableError(f"Maven could not fetch what {pom} names:\n{done.stdout}{done.stderr}")


def program() -> Path:
    """Returns the path of the registry's jar, which Maven downloads once and `.cache/` keeps."""
    _need_tools()
    home = CACHE / VERSION
    jar = home / f"apicurio-registry-app-{VERSION}-runner.jar"
    if not jar.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as part:
            _maven(
                "apicurio-pom.xml",
                "unpack-dependencies",
                f"-DoutputDirectory={part}/home",
                f"-DmarkersDirectory={part}/markers",
            )
            Path(part, "home").rename(home)
    return jar


def serdes_classpath() -> str:
    """Returns the class path of Avro's and Apicurio's serializers."""
    return classpath("serdes")


def glue_classpath() -> str:
    """Returns the class path of the serializers of AWS."""
    return classpath("glue")


def classpath(name: str) -> str:
    """Returns the class path of `NAME-pom.xml`, whose jars Maven downloads once; `.cache/` keeps the path."""
    _need_tools()
    remembered = CACHE / f"{name}.classpath"
    if not remembered.exists() or not all(Path(p).exists() for p in remembered.read_text().split(os.pathsep)):
        CACHE.mkdir(parents=True, exist_ok=True)
        _maven(f"{name}-pom.xml", "build-classpath", f"-Dmdep.outputFile={remembered}")
    return remembered.read_text()


class Apicurio:
    """A registry process, which is stopped at the end of the `with` block."""

    def __init__(self) -> None:
        self._port = free_ports(1)[0]
        self._dir = Path(tempfile.mkdtemp(prefix="samsarrow-apicurio-"))
        self._log = self._dir / "server.out"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Base URL of Confluent's API."""
        return f"{self.home}/apis/ccompat/v7"

    @property
    def own_url(self) -> str:
        """Base URL of Apicurio's own API, which its serializers use."""
        return f"{self.home}/apis/registry/v2"

    @property
    def home(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def __enter__(self) -> Apicurio:
        command = ["java", "-XX:+UseSerialGC", *QUICK_COMPILER, "-Xmx256m", "-Dquarkus.http.host=127.0.0.1"]
        command += [f"-Dquarkus.http.port={self._port}", "-jar", str(program())]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, cwd=self._dir, stdout=log, stderr=log, process_group=0)
        try:
            self._wait_until_ready()
        except BaseException:
            self.discard()
            raise
        return self

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline and self._process is not None and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.1)
        raise RuntimeError(f"Apicurio {VERSION} did not start at {self.home}:\n{self._log.read_text(errors='replace')}")

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=5)
        try:
            connection.request("GET", "/apis/ccompat/v7/subjects")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def discard(self) -> None:
        """Ends the process and removes its files."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(self._dir, ignore_errors=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()
