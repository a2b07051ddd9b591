"""Two Apache Kafka nodes with a dynamic quorum (KIP-853). The first is the only voter; tests can add the second."""

from __future__ import annotations

import base64
import uuid
from contextlib import ExitStack
from pathlib import Path

from support.kafka import QUICK_COMPILER, KafkaServer, new_cluster_id


class QuorumNode(KafkaServer):
    """A node that is broker and controller and has two log directories."""

    def __init__(self, number: int, cluster_id: str, first: QuorumNode | None) -> None:
        self._number, self._cluster_id, self._first = number, cluster_id, first
        super().__init__(
            heap="384m",
            jvm=QUICK_COMPILER,
            properties={
                # Permits transactional records whose transaction the coordinator does not know.
                "transaction.partition.verification.enable": "false",
                "broker.session.timeout.ms": "6000",
                "broker.heartbeat.interval.ms": "500",
                # The timeouts are long, so that a short pause does not start an election.
                "controller.quorum.fetch.timeout.ms": "10000",
                "controller.quorum.request.timeout.ms": "10000",
                # Leaders are elected only when a test requests it.
                "auto.leader.rebalance.enable": "false",
            },
        )
        self.disks = [str(self.data_dir), f"{self.data_dir}-more"]
        self._properties["log.dirs"] = ",".join(self.disks)
        # Clients with bootstrap.controllers connect to the advertised addresses of the controllers.
        self._properties["advertised.listeners"] += f",CONTROLLER://{self.controller}"

    @property
    def controller(self) -> str:
        """Address of the controller."""
        return f"127.0.0.1:{self._other_port}"

    @property
    def controller_port(self) -> int:
        """Port of the controller."""
        return self._other_port

    @property
    def directory_id(self) -> uuid.UUID:
        """Directory id of the node's metadata log directory."""
        lines = Path(self.disks[0], "meta.properties").read_text().splitlines()
        [text] = [line.partition("=")[2] for line in lines if line.startswith("directory.id=")]
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text.replace("\\", "") + "=="))

    def _role(self) -> dict[str, str]:
        role = super()._role()
        del role["controller.quorum.voters"]
        first = self._first or self
        return role | {
            "node.id": str(self._number),
            "controller.quorum.bootstrap.servers": first.controller,
        }

    def _prepare(self, config: Path) -> None:
        kind = "--standalone" if self._first is None else "--no-initial-controllers"
        self.tool("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(config), kind)


class Quorum:
    """The two nodes. Node 1 is the only voter."""

    def __init__(self) -> None:
        cluster_id = new_cluster_id()
        self.first = QuorumNode(1, cluster_id, None)
        self.second = QuorumNode(2, cluster_id, self.first)
        self._stack = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.first.bootstrap_servers},{self.second.bootstrap_servers}"

    def __enter__(self) -> Quorum:
        with ExitStack() as stack:
            for node in (self.first, self.second):
                stack.enter_context(node)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
