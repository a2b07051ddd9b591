"""Options of clients, which are passed as a mapping with dotted names, as keywords with underscores, or both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from samsarrow import _core
from samsarrow._core import option_table, options_markdown
from samsarrow.exceptions import ConfigurationError

__all__ = ["Secret", "identity", "kafka_name", "kind_of", "merge", "options_markdown", "options_of"]

HIDDEN = "[hidden]"


class Secret(str):
    """Text that is hidden when it is printed, logged or formatted: `Producer({"sasl.password": Secret(...)})`.

    Clients accept a secret like any text, and it compares equal to the text. The results of `+`, slicing and `encode`
    are not hidden.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Secret:
        """Creates a secret. Returns `text` itself if it already is a secret, because its `str()` is the hidden form."""
        return text if isinstance(text, Secret) else super().__new__(cls, text)

    def __repr__(self) -> str:
        return HIDDEN

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def reveal(self) -> str:
        """Returns the text."""
        return str.__str__(self)


# Kafka's name, kind and clients of every option. The keys are all spellings of the option.
_ROWS: dict[str, tuple[str, str, frozenset[str]]] = {
    known.replace("_", "."): (name, kind, frozenset(clients))
    for name, aliases, kind, clients in option_table()
    for known in (name, *aliases)
}

# Options whose values are objects. They have no text form and are not in the Rust client's table.
_OBJECTS = frozenset({"ssl.context", "on.event"})


def kafka_name(name: str) -> str:
    """Returns Kafka's name of an option, which may have any spelling. An unknown name is returned with dots."""
    dotted = name.replace("_", ".")
    return _ROWS[dotted][0] if dotted in _ROWS else dotted


def kind_of(name: str) -> str:
    """Returns the kind of an option, whose name may have any spelling: `secret`, `path`, `plain` or `unknown`."""
    row = _ROWS.get(name.replace("_", "."))
    if row is not None:
        return row[1]
    return "plain" if name.replace("_", ".").startswith(("config.providers.", "api.version.")) else "unknown"


def options_of(client: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of `options` that a client supports. Names may have any spelling.

    Args:
        client: `producer`, `consumer` or `admin`.
        options: options of any client.
    """
    return {name: value for name, value in options.items() if _has(client, name.replace("_", "."))}


def _has(client: str, dotted: str) -> bool:
    row = _ROWS.get(dotted)
    return dotted.startswith(("config.providers.", "api.version.")) if row is None else client in row[2]


# Options that identify a client, in the order of its `repr`. None of them is a secret.
_IDENTITY = (
    "bootstrap.servers",
    "bootstrap.controllers",
    "client.id",
    "group.id",
    "group.instance.id",
    "transactional.id",
)


def identity(pairs: Iterable[tuple[str, Any]]) -> str:
    """Returns the options that identify a client, for its `repr`: `bootstrap_servers='localhost:9092' group_id='g'`.

    Args:
        pairs: result of `merge`.
    """
    values = {kafka_name(name): value for name, value in pairs}
    texts = {
        name: value if isinstance(value, str) else ",".join(value)
        for name, value in values.items()
        if name in _IDENTITY
    }
    return " ".join(f"{name.replace('.', '_')}={texts[name]!r}" for name in _IDENTITY if texts.get(name))


def merge(config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Returns all options that are not None as pairs of name and value.

    The Rust client checks them and rejects duplicates.

    Raises:
        ConfigurationError: `config` is not a mapping with text keys, or `ssl_context` cannot be converted to options.
    """
    if config is not None and not isinstance(config, Mapping):
        # The value is not shown, because it may contain a secret.
        usual = (
            "; servers are passed as bootstrap_servers=…, and topics to subscribe, assign or send"
            if isinstance(config, str | list | tuple)
            else ""
        )
        kind = type(config).__name__
        raise ConfigurationError(
            f"the configuration must be a mapping such as {{'bootstrap.servers': ...}}, not {kind}{usual}"
        )
    pairs = []
    contexts = []
    for name, value in [*(config or {}).items(), *options.items()]:
        if not isinstance(name, str):
            # The error does not show the name, because it may be a value that was passed as a name by mistake.
            raise ConfigurationError(f"option names are text, not {type(name).__name__}")
        if value is None and (name.replace("_", ".") in _OBJECTS or kind_of(name) != "unknown"):
            # Unknown names are kept, because the Rust client rejects them with a helpful error.
            continue
        if name.replace("_", ".") == "ssl.context":
            contexts.append(value)
        else:
            pairs.append((name, os.fsdecode(value) if isinstance(value, os.PathLike) else value))
    if len(contexts) > 1:
        raise ConfigurationError("option ssl_context is given twice, in the mapping and as a keyword")
    if contexts:
        # Imported here because importing `ssl` is slow.
        from samsarrow._ssl_context import options_of_context

        pairs += options_of_context(contexts[0], frozenset(kafka_name(name) for name, _ in pairs))
    return pairs


def rejection(client: str, options: Mapping[str, Any]) -> str | None:
    """Returns the reason why a client rejects options; None if it accepts them.

    Creates a client, which does not connect, with other bootstrap servers if the options have none.

    Args:
        client: `producer`, `consumer` or `admin`.
        options: options, whose names may have any spelling.
    """
    # Not the public classes, because these import pyarrow.
    pairs = merge(options, {})
    if not any(kafka_name(name) == "bootstrap.servers" for name, _ in pairs):
        pairs.append(("bootstrap.servers", "localhost:9092"))
    try:
        if client == "admin":
            _core.Admin(pairs).close().wait()
        elif client == "consumer":
            _core.Consumer(pairs, []).close(0.0).wait()
        else:
            _core.Producer(pairs).close(0.0, False).wait()
    except ConfigurationError as error:
        return str(error)
    return None


def max_poll_records(pairs: Iterable[tuple[str, Any]]) -> int:
    """Returns `max.poll.records`; its default if the option is a reference of a config provider."""
    for name, value in pairs:
        if kafka_name(name) == "max.poll.records" and value is not None:
            with suppress(ValueError, TypeError):
                return int(value)
    return 65_536
