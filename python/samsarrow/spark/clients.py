"""Adaption of client options to this machine: paths of files that Spark shipped, and logins with delegation tokens."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkFiles

from samsarrow.config import Secret, kafka_name, kind_of, options_of
from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from samsarrow.admin import Admin
    from samsarrow.spark.tokens import Token

# Prefix of the options of the registry client.
REGISTRY = "schema.registry."
# By option with the path of a file, the option that accepts the content of the file as text.
_INLINE = {
    "ssl.truststore.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
    "ssl.keystore.location": "ssl.keystore.key and kafka.ssl.keystore.certificate.chain",
    "https.ca.location": "https.ca.pem",
    "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
}


def localize(kafka: Mapping[str, Any], token: Token | None = None) -> dict[str, Any]:
    """Returns the options with which a client in this process is created.

    Args:
        kafka: options without the prefix `kafka.`.
        token: delegation token that replaces the login in the options; None to keep this login.

    Raises:
        ConfigurationError: a file does not exist on this machine.
    """
    config = dict(kafka) if token is None else {**without_login(kafka), **token.login()}
    named = {kafka_name(name): value for name, value in config.items()}
    if str(named.get("security.protocol", "PLAINTEXT")).strip().upper() == "PLAINTEXT":
        return config
    return with_files(config, "kafka.", references="config.providers" in named)


def with_files(config: Mapping[str, Any], prefix: str, *, references: bool = False) -> dict[str, Any]:
    """Returns the options, in which paths are replaced by the paths of the files on this machine.

    Args:
        config: options of a client.
        prefix: prefix of the options in Spark, for errors.
        references: whether values may be references to config providers.

    Raises:
        ConfigurationError: a file does not exist on this machine.
    """
    resolved = dict(config)
    for name, value in config.items():
        if kind_of(name) == "path" and value and not (references and "${" in value):
            resolved[name] = _local_path(name, value, prefix)
    return resolved


def with_registry_files(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options, in which paths of the registry client are replaced by the paths of files on this machine.

    Raises:
        ConfigurationError: a file does not exist on this machine.
    """
    registry = {name.removeprefix(REGISTRY): value for name, value in options.items() if name.startswith(REGISTRY)}
    return {**options, **{f"{REGISTRY}{name}": value for name, value in with_files(registry, REGISTRY).items()}}


def hidden_registry(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options, in which possible secrets of the registry client are wrapped."""
    registry = {name.removeprefix(REGISTRY): value for name, value in options.items() if name.startswith(REGISTRY)}
    return {**options, **{f"{REGISTRY}{name}": value for name, value in hidden(registry).items()}}


def hidden(options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options, in which possible secrets are wrapped so that they are not printed."""
    # An unknown name may be a misspelt password option.
    return {name: Secret(value) if kind_of(name) in ("secret", "unknown") else value for name, value in options.items()}


def admin_options(kafka: Mapping[str, Any], token: Token | None = None) -> dict[str, Any]:
    """Returns the localized options that an admin client supports."""
    return options_of("admin", localize(kafka, token))


def admin(kafka: Mapping[str, Any], token: Token | None = None) -> Admin:
    """Creates an admin client in this process."""
    from samsarrow.admin import Admin

    with on_this_host():
        return Admin(admin_options(kafka, token))


def without_login(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options without the options of a login."""
    login = ("sasl.", "enable.sasl.")
    return {name: value for name, value in kafka.items() if not kafka_name(name).startswith(login)}


def _local_path(name: str, value: str, prefix: str) -> str:
    """Returns the path of a file, which may be in a folder of files that Spark shipped (`--files`, `addFile`)."""
    if value == "probe" or Path(value).exists():
        return value
    if Path(value).name == value:
        for folder in _shipped_folders():
            if (folder / value).exists():
                return str(folder / value)
    inline = _INLINE.get(kafka_name(name))
    raise ConfigurationError(
        f"option {prefix}{name}: there is no file {value} on {socket.gethostname()}. Ship it with --files "
        "(spark.files, SparkContext.addFile) and give its bare name, or put it there on every machine"
        + (f", or give its text as {prefix}{inline}" if inline else "")
    )


def _shipped_folders() -> list[Path]:
    """Returns the folders in which Spark stores shipped files on this machine."""
    try:
        root = Path(SparkFiles.getRootDirectory())
    except Exception:
        # This process is neither a Python worker nor has a SparkContext.
        return []
    # Streams and Spark Connect use a folder per session. Its parent contains the files of the application.
    return [root, root.parent]


@contextmanager
def on_this_host() -> Iterator[None]:
    """Adds the host name to errors about options, because a variable or file may be missing only on this machine."""
    try:
        yield
    except ConfigurationError as error:
        error.add_note(f"This is about {socket.gethostname()}.")
        raise
