"""A cluster of several Apache Kafka brokers with a separate controller, for tests that stop some of the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from support.kafka import DEFAULT_VERSION, QUICK_COMPILER, KafkaServer, free_ports, new_cluster_id


class Node(KafkaServer):
    """A broker or controller process of a cluster."""

    def __init__(
        self,
        number: int,
        role: str,
        cluster_id: str,
        controller: int,
        replicas: int,
        heap: str,
        version: str,
        properties: Mapping[str, str],
    ) -> None:
        self._number, self._kind, self._cluster_id, self._controller = number, role, cluster_id, controller
        super().__init__(
            version,
            heap=heap,
            jvm=QUICK_COMPILER,
            properties={
                "offsets.topic.replication.factor": str(replicas),
                "transaction.state.log.replication.factor": str(replicas),
                "share.coordinator.state.topic.replication.factor": str(replicas),
                "default.replication.factor": str(replicas),
                # Consumers that set client.rack read from the replica in their rack (KIP-392).
                "broker.rack": f"rack-{number}",
                "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
                **properties,
            },
        )

    def _role(self) -> dict[str, str]:
        roles = super()._role()
        controller = f"CONTROLLER://127.0.0.1:{self._controller}"
        broker = f"PLAINTEXT://127.0.0.1:{self._port}"
        return roles | {
            "process.roles": self._kind,
            "node.id": str(self._number),
            "controller.quorum.voters": f"100@127.0.0.1:{self._controller}",
            "listeners": controller if self._kind == "controller" else broker,
            "broker.session.timeout.ms": "6000",
        }

    def _prepare(self, config: Path) -> None:
        if self._kind == "controller":
            # A controller advertises no address to clients.
            lines = config.read_text().splitlines(keepends=True)
            config.write_text("".join(line for line in lines if not line.startswith("advertised.listeners")))
        self.format(config, self._cluster_id)

    def _answers(self) -> bool:
        return self._kind == "controller" or super()._answers()


class KafkaCluster:
    """A controller and the brokers, which are numbered from 1."""

    def __init__(
        self,
        brokers: int = 2,
        heap: str = "384m",
        version: str = DEFAULT_VERSION,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        cluster_id = new_cluster_id()
        [controller] = free_ports(1)
        more = properties or {}
        self._controller = Node(100, "controller", cluster_id, controller, brokers, "192m", version, more)
        self.brokers = {
            n: Node(n, "broker", cluster_id, controller, brokers, heap, version, more) for n in range(1, brokers + 1)
        }
        self._stack = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def restart(self, number: int) -> None:
        """Stops a broker gracefully and starts it again."""
        self.brokers[number].stop()
        self.brokers[number].start()

    def __enter__(self) -> KafkaCluster:
        with ExitStack() as stack:
            for node in (self._controller, *self.brokers.values()):
                stack.enter_context(node)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
