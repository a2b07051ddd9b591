"""How the benches' clients are secured: options by Java's names in an environment variable, none without it."""

import json
import os

VARIABLE = "SAMSARROW_BENCH_SECURITY"


def options() -> dict[str, str]:
    """For our clients."""
    return dict(json.loads(os.environ.get(VARIABLE, "{}")))


def librdkafka() -> dict[str, str]:
    """The same for librdkafka."""
    names = {"ssl.truststore.location": "ssl.ca.location"}
    return {names.get(name, name): value for name, value in options().items()}
