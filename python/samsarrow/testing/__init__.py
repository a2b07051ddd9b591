"""A Kafka broker and a schema registry in memory, for tests and demos.

    with Broker(topics={"flights": 4}) as broker:
        Producer(bootstrap_servers=broker.bootstrap_servers)

    with Broker(security="SASL_SSL", users={"alice": "secret"}) as broker:
        Producer(**broker.client_options("alice"))

    with Registry() as registry:
        SchemaRegistry(registry.url)

Once samsarrow is installed, pytest loads the fixture `samsarrow_broker` automatically.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samsarrow.testing.broker import Broker, TelemetryPush
    from samsarrow.testing.registry import Registry
    from samsarrow.testing.security import ClientCertificate, Connections, Logins

_HOMES = {
    "Broker": "broker",
    "ClientCertificate": "security",
    "Connections": "security",
    "Logins": "security",
    "Registry": "registry",
    "TelemetryPush": "broker",
}

__all__ = ["Broker", "ClientCertificate", "Connections", "Logins", "Registry", "TelemetryPush"]


def __getattr__(name: str) -> Any:
    # Modules are imported at first use (PEP 562), because pytest imports this package in every run to load the fixture.
    if name not in _HOMES:
        raise AttributeError(f"module 'samsarrow.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"samsarrow.testing.{_HOMES[name]}"), name)
