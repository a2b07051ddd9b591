"""Runs Apache Kafka for tests and benches: one node on free loopback ports, with jars that Maven downloads.

    with KafkaServer() as kafka:
        Consumer(bootstrap_servers=kafka.bootstrap_servers, ...)

The server is a child process with its data in a temporary folder. It is stopped even if the `with` block raises an
error. `KafkaServer` runs the newest Kafka as one KRaft node. `ZooKeeperKafkaServer` runs the last version with
ZooKeeper, which supports the record formats v0 and v1 and every request version since Kafka 0.8. `server_of` returns
a server of any version in support/kafka_releases.py.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from support.kafka_releases import RELEASES, number

SUPPORT = Path(__file__).resolve().parent
CACHE = SUPPORT.parent.parent / ".cache" / "kafka"
DEFAULT_VERSION = os.environ.get("SAMSARROW_KAFKA_VERSION", "4.3.1")
# Last Kafka version with ZooKeeper and the old record formats.
ZOOKEEPER_VERSION = "3.9.1"
START_DEADLINE_S = 180.0
# Options of JVMs that run for seconds or minutes. They disable the second compiler, which would take more time than it
# saves. Such JVMs also start from a class archive if one exists. Not suitable for measurements.
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# Settings of brokers that are not measured. Each further thread would wake up three times a second.
_FEW_THREADS = {"num.network.threads": "1", "num.io.threads": "2", "background.threads": "2"}


# Files of formatted storage folders, by version, roles and options.
_FORMATTED: dict[tuple[str, ...], dict[str, bytes]] = {}


class KafkaUnavailableError(RuntimeError):
    """Kafka cannot run on this machine. The message names the missing requirement."""


def classpath(version: str = DEFAULT_VERSION) -> str:
    """Returns the class path of Kafka's broker and tools, which Maven downloads once and `.cache/` keeps."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise KafkaUnavailableError(f"real Kafka needs `{tool}` on PATH (JDK 17 and Maven)")
    remembered = CACHE / f"{version}.classpath"
    if remembered.exists():
        paths = remembered.read_text()
        if all(Path(p).exists() for p in paths.split(os.pathsep)):
            return paths
    CACHE.mkdir(parents=True, exist_ok=True)
    release = RELEASES[version]
    profiles = [f"-P{','.join(release.profiles)}"] if release.profiles else []
    done = subprocess.run(
        [
            "mvn", "-q", "-B", "-f", str(SUPPORT / "kafka-pom.xml"), f"-Dkafka.version={version}",
            f"-Dscala.version={release.scala}", *profiles,
            "dependency:build-classpath", f"-Dmdep.outputFile={remembered}",
        ],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        remembered.unlink(missing_ok=True)
        raise KafkaUnavailableError(f"Maven could not fetch Kafka {version}:\n{done.stdout}{done.stderr}")
    return remembered.read_text()


def archive_of(version: str) -> Path:
    """Returns the path of the class archive that support/archives.py creates for this Kafka version."""
    return CACHE / f"{version}.jsa"


def free_ports(count: int) -> list[int]:
    """Returns distinct ports of 127.0.0.1 that are not in use at this time.

    Ephemeral ports are excluded, since another connection could get one before the server has started.
    """
    port_range = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(port_range.read_text().split()[0]) if port_range.exists() else 0
    draw, found = random.SystemRandom(), list[int]()
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            s = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                s.bind(("127.0.0.1", draw.randrange(15_000, first) if first > 20_000 else 0))
                found.append(s.getsockname()[1])
    return found


def new_cluster_id() -> str:
    """Returns a random cluster id in Kafka's format, without a leading dash, which tools would parse as an option."""
    drawn = uuid.uuid4().bytes
    return base64.urlsafe_b64encode(bytes([drawn[0] & 0x7F]) + drawn[1:]).decode().rstrip("=")


def write_properties(path: Path, properties: Mapping[str, str]) -> None:
    """Writes a file in the format of `java.util.Properties`."""
    path.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))


class KafkaServer:
    """One combined KRaft node (controller and broker).

    Args:
        version: Apache Kafka version, one of `RELEASES`.
        properties: broker settings that override the defaults below.
        heap: maximum heap of the JVM.
        jvm: further options of the JVM.
        listeners: further listeners, `NAME://host:port`, each with its security protocol.
    """

    def __init__(
        self,
        version: str = DEFAULT_VERSION,
        properties: Mapping[str, str] | None = None,
        heap: str = "768m",
        jvm: Sequence[str] = (),
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self._jvm = [f"-Xmx{heap}", *jvm]
        self._dir = Path(tempfile.mkdtemp(prefix="samsarrow-kafka-"))
        # The second port is used by the controller or by ZooKeeper.
        self._port, self._other_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self.log_path = self._dir / "server.out"
        self.data_dir = self._dir / "data"
        self._properties = {
            **self._role(),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(self.data_dir),
            "num.partitions": "1",
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "2",
            # Transactions are aborted soon after their timeout.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "log.segment.bytes": "1073741824",
            # Retention is disabled, since it would delete the old records that tests write.
            "log.retention.ms": "-1",
            # Compaction starts soon.
            "log.cleaner.backoff.ms": "1000",
            **(_FEW_THREADS if set(QUICK_COMPILER) <= set(jvm) else {}),
            **RELEASES[version].properties,
            **(properties or {}),
        }
        if listeners:
            for name in ("listeners", "advertised.listeners"):
                self._properties[name] = ",".join([self._properties[name], *listeners])
            kinds = [f"{listener.partition('://')[0]}:{protocol}" for listener, protocol in listeners.items()]
            kinds = ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *kinds]
            self._properties["listener.security.protocol.map"] = ",".join(kinds)

    def _role(self) -> dict[str, str]:
        """Returns the settings that depend on the roles of the node."""
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._other_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._other_port}",
            "controller.listener.names": "CONTROLLER",
            # Disables the no-op records that are written twice a second for monitoring and cause a quarter of an idle
            # broker's load.
            "metadata.max.idle.interval.ms": "0",
            # With KIP-848 the broker determines the heartbeat interval of all members.
            "group.consumer.heartbeat.interval.ms": "300",
            "group.consumer.min.heartbeat.interval.ms": "300",
            "group.consumer.session.timeout.ms": "6000",
            "group.consumer.min.session.timeout.ms": "3000",
        }

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the running broker. Fails if the broker was never started."""
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    def java(self, main: str, *arguments: str, jvm: Sequence[str] = ()) -> list[str]:
        """Returns the command line that runs a Java class, or a `.java` file, with the class path of this Kafka
        version.
        """
        logging = f"-Dlog4j2.configurationFile={SUPPORT / 'log4j2.properties'}"
        if not RELEASES[self.version].log4j2:
            logging = f"-Dlog4j.configuration=file:{SUPPORT / 'log4j.properties'}"
        archive = archive_of(self.version)
        quick = set(QUICK_COMPILER) <= set(jvm) and archive.exists()
        shared = [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off"] if quick else []
        return ["java", "-XX:+UseSerialGC", *shared, *jvm, logging, "-cp", classpath(self.version), main, *arguments]

    def tool(
        self, main: str, *arguments: str, stdin: bytes | None = None, timeout: float = 90
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command line tool of this Kafka version. If the tool fails, raises an error with its output."""
        command = self.java(main, *arguments, jvm=["-Xmx256m", *QUICK_COMPILER])
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=timeout, check=False)
        if done.returncode != 0:
            output = done.stdout.decode() + done.stderr.decode()
            raise RuntimeError(f"{main} {' '.join(arguments)} failed ({done.returncode}):\n{output}")
        return done

    def start(self) -> None:
        """Starts the broker and waits until it responds. The first start also prepares the storage."""
        config = self._dir / "server.properties"
        if not config.exists():
            write_properties(config, self._properties)
            self._prepare(config)
        self._process = self._spawn(self.java("kafka.Kafka", str(config), jvm=self._jvm))
        self._wait_until_ready()

    def _prepare(self, config: Path) -> None:
        self.format(config, new_cluster_id())

    def format(self, config: Path, cluster_id: str, *options: str) -> None:
        """Formats the storage like `kafka-storage.sh format`. Nodes that differ only in their ids share one run of the
        tool.
        """
        kind = (self.version, self._properties["process.roles"], *options)
        if kind not in _FORMATTED:
            self.tool("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config), *options)
            # From 4.4 on, the metadata of the new cluster is in a subdirectory.
            files = [path for path in self.data_dir.rglob("*") if path.is_file()]
            _FORMATTED[kind] = {str(path.relative_to(self.data_dir)): path.read_bytes() for path in files}
            return
        self.data_dir.mkdir()
        ids = {"cluster.id": cluster_id, "node.id": self._properties["node.id"], "directory.id": new_cluster_id()}
        for name, content in _FORMATTED[kind].items():
            if name == "meta.properties":
                lines = [line.partition("=") for line in content.decode().splitlines()]
                content = "".join(f"{k}{equals}{ids.get(k, value)}\n" for k, equals, value in lines).encode()
            (self.data_dir / name).parent.mkdir(exist_ok=True)
            (self.data_dir / name).write_bytes(content)

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        # A separate process group does not receive Ctrl-C. A separate session would also get a share of processor time
        # as large as that of all tests (Linux autogroups), so tests would be slow while brokers start.
        with self.log_path.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, process_group=0)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        while time.monotonic() < deadline:
            if self._process is not None and self._process.poll() is not None:
                break
            if self._answers():
                return
            time.sleep(0.1)
        output = self.log_path.read_text(errors="replace")
        self.kill()
        raise RuntimeError(f"Kafka {self.version} did not start on {self.bootstrap_servers}:\n{output}")

    def _answers(self) -> bool:
        """Returns true if the broker responds to ApiVersions. An open port alone does not mean that the broker is
        ready.
        """
        return len(self._response(b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff", 8)) == 8

    def _response(self, request: bytes, size: int) -> bytes:
        """Returns the first `size` bytes of the response to a request, or no bytes if the broker is not reachable."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=2) as s:
                s.sendall(len(request).to_bytes(4, "big") + request)
                return s.recv(size, socket.MSG_WAITALL)
        except OSError:
            return b""

    def stop(self, timeout: float = 30) -> None:
        """Stops the broker with SIGTERM, or with SIGKILL after a timeout. Its data is kept for the next `start`."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self) -> None:
        """Stops the broker with SIGKILL, which resembles a power failure."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def segments(self, topic: str) -> Iterable[Path]:
        """Returns the `.log` files of a topic."""
        return sorted(self.data_dir.glob(f"{topic}-*/*.log"))

    def discard(self) -> None:
        """Kills the broker and removes its folder."""
        self.kill()
        shutil.rmtree(self._dir, ignore_errors=True)

    def __enter__(self) -> KafkaServer:
        try:
            self.start()
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()


class ZooKeeperKafkaServer(KafkaServer):
    """A broker of an old version with its own ZooKeeper.

    The default version stores a topic in the record format named by the topic's `message.format.version`:
    v0 with `0.9.0`, v1 with `0.10.0`, otherwise v2.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        heap: str = "512m",
        version: str = ZOOKEEPER_VERSION,
        jvm: Sequence[str] = (),
    ) -> None:
        super().__init__(version, properties, heap, jvm)
        self._zookeeper: subprocess.Popen[bytes] | None = None

    def _role(self) -> dict[str, str]:
        role = {
            "broker.id": "1",
            "zookeeper.connect": f"127.0.0.1:{self._other_port}",
            "zookeeper.connection.timeout.ms": "60000",
        }
        if number(self.version) < (0, 9):
            # Before 0.9 a broker has a single address instead of listeners.
            return role | {
                "host.name": "127.0.0.1",
                "advertised.host.name": "127.0.0.1",
                "port": str(self._port),
                "advertised.port": str(self._port),
            }
        role["listeners"] = f"PLAINTEXT://127.0.0.1:{self._port}"
        if self.version == ZOOKEEPER_VERSION:
            # From inter-broker protocol 3.0 on, brokers ignore the record format settings of topics.
            role["inter.broker.protocol.version"] = "2.8"
            # Permits old timestamps.
            role["log.message.timestamp.before.max.ms"] = "9223372036854775807"
        return role

    def _prepare(self, config: Path) -> None:
        """Starts ZooKeeper, which runs until `discard`. The broker waits for ZooKeeper."""
        properties = config.with_name("zookeeper.properties")
        write_properties(
            properties,
            {
                "dataDir": str(self._dir / "zookeeper"),
                "clientPort": str(self._other_port),
                "clientPortAddress": "127.0.0.1",
                "admin.enableServer": "false",
            },
        )
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper = self._spawn(self.java(main, str(properties), jvm=["-Xmx128m", *QUICK_COMPILER]))

    def _answers(self) -> bool:
        """Returns true if the broker responds to a Metadata request and knows the controller, which takes longer."""
        answer = self._response(b"\x00\x03\x00\x00\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00", 12)
        # Before 0.10, a response without topics contains no brokers.
        return len(answer) == 12 and (answer[8:] != bytes(4) or number(self.version) < (0, 10))

    @property
    def zookeeper(self) -> str:
        """Address of the ZooKeeper server."""
        return f"127.0.0.1:{self._other_port}"

    def zookeeper_shell(self, commands: Iterable[str]) -> list[str]:
        """Runs commands in Kafka's ZooKeeper shell and returns the lines that it prints."""
        main = "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"
        done = self.tool(main, "-server", self.zookeeper, stdin="\n".join([*commands, "quit", ""]).encode())
        return done.stdout.decode().splitlines()

    def discard(self) -> None:
        """Kills the broker and ZooKeeper, and removes their folder."""
        zookeeper, self._zookeeper = self._zookeeper, None
        if zookeeper is not None:
            zookeeper.kill()
        try:
            super().discard()
        finally:
            if zookeeper is not None:
                zookeeper.wait()


def server_of(version: str, properties: Mapping[str, str] | None = None, jvm: Sequence[str] = ()) -> KafkaServer:
    """Returns a small server of any version that starts quickly, with settings that this version supports."""
    jvm = [*QUICK_COMPILER, *jvm]
    if RELEASES[version].zookeeper:
        return ZooKeeperKafkaServer(properties, "512m", version, jvm)
    return KafkaServer(version, properties, "512m", jvm)
