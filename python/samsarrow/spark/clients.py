"""Options of clients as they hold where the client is made: files that Spark brought, a token in place of a login."""

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

# The option that takes as text what is in the file.
_INLINE = {
    "ssl.truststore.location": "ssl.truststore.certificates",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
    "ssl.keystore.location": "ssl.keystore.key and kafka.ssl.keystore.certificate.chain",
    "https.ca.location": "https.ca.pem",
    "sasl.oauthbearer.assertion.private.key.file": "sasl.oauthbearer.assertion.private.key.pem",
}


def here(kafka: Mapping[str, Any], token: Token | None = None) -> dict[str, Any]:
    """The options for a client of this process.

    Args:
        kafka: options as they were given, the prefix `kafka.` taken off.
        token: to log in with, where the driver has one for this.

    Raises:
        ConfigurationError: a file is not on this machine.
    """
    config = dict(kafka) if token is None else {**without_login(kafka), **token.login()}
    given = {kafka_name(name): value for name, value in config.items()}
    if str(given.get("security.protocol", "PLAINTEXT")).strip().upper() == "PLAINTEXT":
        return config
    return with_files(config, "kafka.", references="config.providers" in given)


def with_files(config: Mapping[str, Any], prefix: str, *, references: bool = False) -> dict[str, Any]:
    """The options, with the paths that files have on this machine.

    Args:
        config: options of a client.
        prefix: that they have in Spark.
        references: whether a value may stand for another one.

    Raises:
        ConfigurationError: a file is not on this machine.
    """
    found = dict(config)
    for name, value in config.items():
        if kind_of(name) == "path" and value and not (references and "${" in value):
            found[name] = _found(name, value, prefix)
    return found


def hidden(options: Mapping[str, str]) -> dict[str, str]:
    """Options of a client; those that may be secrets do not show in any text."""
    # A misspelt name may be that of a password.
    return {name: Secret(value) if kind_of(name) in ("secret", "unknown") else value for name, value in options.items()}


def admin_options(kafka: Mapping[str, Any], token: Token | None = None) -> dict[str, Any]:
    """Those of the options, as `here` gives them, that an admin client has."""
    return options_of("admin", here(kafka, token))


def admin(kafka: Mapping[str, Any], token: Token | None = None) -> Admin:
    """An admin client of this process."""
    from samsarrow.admin import Admin

    with on_this_host():
        return Admin(admin_options(kafka, token))


def without_login(kafka: Mapping[str, Any]) -> dict[str, Any]:
    """The options without those of a login."""
    login = ("sasl.", "enable.sasl.")
    return {name: value for name, value in kafka.items() if not kafka_name(name).startswith(login)}


def _found(name: str, value: str, prefix: str) -> str:
    """The path of a file: as it is, or among those that Spark brought here (`--files`, `addFile`)."""
    if value == "probe" or Path(value).exists():
        return value
    if Path(value).name == value:
        for folder in _brought():
            if (folder / value).exists():
                return str(folder / value)
    inline = _INLINE.get(kafka_name(name))
    raise ConfigurationError(
        f"option {prefix}{name}: there is no file {value} on {socket.gethostname()}. Ship it with --files "
        "(spark.files, SparkContext.addFile) and give its bare name, or put it there on every machine"
        + (f", or give its text as {prefix}{inline}" if inline else "")
    )


def _brought() -> list[Path]:
    """Where Spark puts files here."""
    try:
        root = Path(SparkFiles.getRootDirectory())
    except Exception:
        # Neither in a worker nor beside a SparkContext.
        return []
    # Streams and Connect are given a folder of their session; what was added to the application is beside that.
    return [root, root.parent]


@contextmanager
def on_this_host() -> Iterator[None]:
    """Errors about options say which machine they are about: a variable or a file may be missing on one of many."""
    try:
        yield
    except ConfigurationError as error:
        error.add_note(f"This is about {socket.gethostname()}.")
        raise
