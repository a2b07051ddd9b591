"""Options: a mapping with dotted names, keywords with underscores, or both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from samsarrow._core import option_table, options_markdown
from samsarrow.exceptions import ConfigurationError

__all__ = ["Secret", "kafka_name", "kind_of", "merge", "options_markdown", "options_of"]

HIDDEN = "[hidden]"


class Secret(str):
    """Text that is hidden when it is printed, logged or formatted: `Producer({"sasl.password": Secret(...)})`.

    Clients accept it like any text, and it compares as text. Results of `+`, a slice or `encode` are not hidden.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Secret:
        """Of a text, or of another secret, whose `str` would be what it shows."""
        return text if isinstance(text, Secret) else super().__new__(cls, text)

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def reveal(self) -> str:
        """The text itself."""
        return str.__str__(self)


# Kafka's name, kind and clients of every option, by each of its names.
_ROWS: dict[str, tuple[str, str, frozenset[str]]] = {
    known.replace("_", "."): (name, kind, frozenset(clients))
    for name, aliases, kind, clients in option_table()
    for known in (name, *aliases)
}

# Options that are not in the table: no text can stand for their values.
_OBJECTS = frozenset({"ssl.context", "on.event"})


def kafka_name(name: str) -> str:
    """Kafka's name for an option in any spelling; an unknown name is returned with dots."""
    dotted = name.replace("_", ".")
    return _ROWS[dotted][0] if dotted in _ROWS else dotted


def kind_of(name: str) -> str:
    """Whether an option, in any spelling, is `secret`, `path` or `plain`, or `unknown`."""
    row = _ROWS.get(name.replace("_", "."))
    if row is not None:
        return row[1]
    return "plain" if name.replace("_", ".").startswith(("config.providers.", "api.version.")) else "unknown"


def options_of(client: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of `options` that a client supports, in any spelling.

    Args:
        client: `producer`, `consumer` or `admin`.
        options: of any client.
    """
    return {name: value for name, value in options.items() if _has(client, name.replace("_", "."))}


def _has(client: str, dotted: str) -> bool:
    row = _ROWS.get(dotted)
    return dotted.startswith(("config.providers.", "api.version.")) if row is None else client in row[2]


def merge(config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns all options that are not None as pairs; the core checks them and finds those that are given twice.

    Raises:
        ConfigurationError: `config` is no mapping with text keys, or `ssl_context` cannot be taken.
    """
    if config is not None and not isinstance(config, Mapping):
        raise ConfigurationError(
            f"the configuration must be a mapping such as {{'bootstrap.servers': ...}}, not {type(config).__name__}"
        )
    pairs = []
    contexts = []
    for name, value in [*(config or {}).items(), *options.items()]:
        if not isinstance(name, str):
            # Somebody's value may have come to stand for a name: it is not shown.
            raise ConfigurationError(f"option names are text, not {type(name).__name__}")
        if value is None and (name.replace("_", ".") in _OBJECTS or kind_of(name) != "unknown"):
            # The core rejects names that no option has.
            continue
        if name.replace("_", ".") == "ssl.context":
            contexts.append(value)
        else:
            pairs.append((name, os.fsdecode(value) if isinstance(value, os.PathLike) else value))
    if len(contexts) > 1:
        raise ConfigurationError("option ssl_context is given twice, in the mapping and as a keyword")
    if contexts:
        # Only here: `ssl` takes its time to be imported.
        from samsarrow._ssl_context import options_of_context

        pairs += options_of_context(contexts[0], frozenset(kafka_name(name) for name, _ in pairs))
    return pairs
