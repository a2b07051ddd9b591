"""Security options of the benches' clients. An environment variable contains the options with Java's names. For
plaintext it is not set.
"""

import json
import os

VARIABLE = "SAMSARROW_BENCH_SECURITY"


def options() -> dict[str, str]:
    """Returns the options of samsarrow."""
    return dict(json.loads(os.environ.get(VARIABLE, "{}")))


def librdkafka() -> dict[str, str]:
    """Returns the options of librdkafka."""
    names = {"ssl.truststore.location": "ssl.ca.location"}
    return {names.get(name, name): value for name, value in options().items()}
