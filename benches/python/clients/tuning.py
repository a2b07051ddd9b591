"""Options that make a client faster than its defaults. In a process that measures defaults, no such option is set."""

import os
from typing import Any

VARIABLE = "SAMSARROW_BENCH_DEFAULTS"
# Marks a client that has its defaults, at the end of its name in the tables.
DEFAULTS = ", defaults"


def tuned(**options: Any) -> dict[str, Any]:
    """Returns the options, or none if this process measures defaults."""
    return {} if os.environ.get(VARIABLE) else options


def dotted(**options: Any) -> dict[str, Any]:
    """Returns the options as `tuned` does, with librdkafka's names: a dot instead of an underscore."""
    return {name.replace("_", "."): value for name, value in tuned(**options).items()}


def variables(client: str) -> dict[str, str]:
    """Returns the environment variables of a process of this client."""
    return {VARIABLE: "1"} if client.endswith(DEFAULTS) else {}


def module(client: str) -> str:
    """Returns the name of the module of a client."""
    return client.removesuffix(DEFAULTS)
