"""Administration of a cluster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

from samsarrow import _core
from samsarrow._admin.sync import AdminMethods
from samsarrow._names import unknown_name
from samsarrow.config import identity, merge
from samsarrow.exceptions import ClosedError
from samsarrow.metrics.client import AdminMetrics, of_admin, to_uuid
from samsarrow.types import Seconds, to_seconds

if TYPE_CHECKING:
    from samsarrow.options import AdminOptions


class Admin(AdminMethods):
    """Administers a cluster: topics, settings, groups, replicas, transactions, users and more.

    The client connects on the first call. Calls on several resources continue after a failure. Reads return `Results`,
    which raises the error of a failed resource when the resource is looked up. Writes raise `PartialFailureError` if
    any resource fails; the error has every outcome. If a broker is too old, a call raises `UnsupportedVersionError`,
    which names the required version.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092"}`.
        **options: the same options as keywords, `bootstrap_servers="localhost:9092"`. docs/options.md lists all
            options. `sasl_oauthbearer_token_provider` also takes a function (`TokenProvider`).

    Raises:
        ConfigurationError: an option is unknown, given twice or has an invalid value.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Unpack[AdminOptions]) -> None:
        pairs = merge(config, options)
        self._core: _core.Admin | None = _core.Admin(pairs)
        self._identity = identity(pairs)

    @property
    def _open(self) -> _core.Admin:
        if self._core is None:
            raise ClosedError("the admin client is closed")
        return self._core

    @property
    def closed(self) -> bool:
        """True if the client is closed."""
        return self._core is None

    def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        """The id under which brokers store this client's metrics (KIP-714).

        Use it to find the client in the logs and metrics of the brokers.

        Args:
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            IllegalStateError: `enable.metrics.push` is off, which is the default here.
            UnsupportedVersionError: the brokers accept no metrics, because they are older than Kafka 3.7 or have no
                telemetry plugin.
            KafkaTimeoutError: no broker responded in time.
        """
        return self._open.client_instance_id(to_seconds(timeout)).then(to_uuid).wait()

    def metrics(self) -> AdminMetrics:
        """Counts and latencies since the client was created. Makes no request."""
        return of_admin(self._open.metrics())

    def close(self) -> None:
        """Closes all connections. May be called again."""
        core, self._core = self._core, None
        if core is not None:
            core.close().wait()

    def __enter__(self) -> Admin:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def __getattr__(name: str) -> Any:
    # Modules of confluent-kafka and kafka-python with this name have all classes for administration.
    raise unknown_name(name, ["Admin"], __name__, sys._getframe().f_back)
