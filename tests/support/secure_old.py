"""Old Kafka versions with logins for tests: user alice can log in over plaintext with PLAIN or SCRAM-SHA-256."""

from __future__ import annotations

from pathlib import Path

from support.kafka import QUICK_COMPILER, ZooKeeperKafkaServer, free_ports
from support.secure import USERS, jaas


class OldSecureKafka(ZooKeeperKafkaServer):
    """A broker with ZooKeeper, version 0.10.2 or later, with a SASL_PLAINTEXT listener in addition to the usual one."""

    def __init__(self, folder: Path, version: str) -> None:
        entries = [
            jaas("PLAIN", **{f"user_{name}": password for name, password in USERS.items()}),
            jaas("SCRAM-SHA-256"),
        ]
        logins = folder / f"{version}.jaas"
        # The logins are in a JAAS file, since the oldest of these versions have no settings per listener.
        logins.write_text("\n".join(["KafkaServer {", *entries, "};", ""]))
        super().__init__(version=version, jvm=QUICK_COMPILER)
        self._jvm.append(f"-Djava.security.auth.login.config={logins}")
        [self._secure_port] = free_ports(1)
        own, secure = f"PLAINTEXT://127.0.0.1:{self._port}", f"SASL_PLAINTEXT://{self.secure_servers}"
        self._properties |= {
            "listeners": f"{own},{secure}",
            "advertised.listeners": f"{own},{secure}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        }

    @property
    def secure_servers(self) -> str:
        """Address of the SASL_PLAINTEXT listener."""
        return f"127.0.0.1:{self._secure_port}"

    def _prepare(self, config: Path) -> None:
        super()._prepare(config)
        self.tool(
            "kafka.admin.ConfigCommand", "--zookeeper", self.zookeeper, "--alter",
            "--entity-type", "users", "--entity-name", "alice",
            "--add-config", f"SCRAM-SHA-256=[iterations=4096,password={USERS['alice']}]",
        )  # fmt: skip
