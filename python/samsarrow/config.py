"""Options: a mapping with dotted names, keywords with underscores, or both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samsarrow._core import options_markdown
from samsarrow.exceptions import ConfigurationError

__all__ = ["merge", "options_markdown", "options_of"]


def options_of(client: str) -> frozenset[str]:
    """The names of the options that a client takes.

    Args:
        client: `producer`, `consumer` or `admin`.
    """
    rows = [line.split(" | ") for line in options_markdown().splitlines() if line.startswith("| `")]
    return frozenset(row[0].strip("|` ") for row in rows if row[1] == "all" or client in row[1].split(", "))


def merge(config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """All options as pairs; the core checks them and finds those that are given twice.

    Raises:
        ConfigurationError: `config` is no mapping with text keys, or an option is None.
    """
    if config is not None and not isinstance(config, Mapping):
        raise ConfigurationError(
            f"the configuration must be a mapping such as {{'bootstrap.servers': ...}}, not {type(config).__name__}"
        )
    pairs = [*(config or {}).items(), *options.items()]
    for name, value in pairs:
        if not isinstance(name, str):
            raise ConfigurationError(f"option names are text, not {name!r}")
        if value is None:
            raise ConfigurationError(f"option {name} is None: leave it out to get its default")
    return pairs
