"""How commands reach a cluster: their options, and clients that close with the command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samsarrow.cli.completion import profiles
from samsarrow.cli.settings import REGISTRY, kind_of, layered, properties_file
from samsarrow.cli.times import seconds_option
from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from samsarrow import Admin, Consumer, Producer, SchemaRegistry


@dataclass
class Connection:
    """A cluster to be reached; clients are made when first needed and closed with the command."""

    # Any of them may be a secret.
    options: dict[str, str] = field(repr=False)
    timeout: float | None
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _admin: Admin | None = None
    _registry: SchemaRegistry | None = None

    @property
    def servers(self) -> str:
        """Where the cluster was looked for."""
        return self.options["bootstrap.servers"]

    @property
    def admin(self) -> Admin:
        """One for the whole command."""
        from samsarrow import Admin

        if self._admin is None:
            self._admin = self._open.enter_context(Admin(self.options_of("admin")))
        return self._admin

    @property
    def registry(self) -> SchemaRegistry:
        """One for the whole command.

        Raises:
            click.UsageError: none is named.
        """
        if self._registry is None:
            from samsarrow import SchemaRegistry

            its = self._registry_options
            url = its.pop("url", None)
            if url is None:
                raise click.UsageError(
                    f"no schema registry: pass --registry URL, {REGISTRY}url in a --command-config file or in "
                    "a --profile, or SAMSARROW_SCHEMA_REGISTRY_URL"
                )
            context = its.pop("context", None)
            self._registry = self._open.enter_context(SchemaRegistry(url, context=context, **its))
        return self._registry

    @property
    def has_registry(self) -> bool:
        """Whether a schema registry is named."""
        return f"{REGISTRY}url" in self.options

    @property
    def _registry_options(self) -> dict[str, str]:
        its = {name.removeprefix(REGISTRY): text for name, text in self.options.items() if name.startswith(REGISTRY)}
        if self.timeout is None:
            return its
        milliseconds = str(max(1, round(self.timeout * 1000)))
        return {"http.connect.timeout.ms": milliseconds, "http.read.timeout.ms": milliseconds, **its}

    def consumer(self, typed: Mapping[str, Any] | None = None, **fixed: str | bool) -> Consumer:
        """A consumer that closes with the command.

        Args:
            typed: its formats, and what becomes of what they cannot read.
            **fixed: options that the command needs so.
        """
        from samsarrow import Consumer

        # Without committing by itself: the command knows what is done.
        named = {name.replace("_", "."): value for name, value in fixed.items()}
        return self._open.enter_context(Consumer({**self.options_of("consumer"), **named}, **(typed or {})))

    def producer(self, **fixed: str) -> Producer:
        """A producer, which the command closes: that may fail.

        Args:
            **fixed: options that the command needs so.
        """
        from samsarrow import Producer

        named = {name.replace("_", "."): value for name, value in fixed.items()}
        return Producer({**self.options_of("producer"), **named})

    def options_of(self, client: str) -> dict[str, str]:
        """The options that a client has: files and profiles have those of others too."""
        from samsarrow.config import options_of

        its = options_of(client, self.options)
        # What no client knows is refused by the client, with the name that was meant.
        others = {name: value for name, value in self.options.items() if not name.startswith(REGISTRY)}
        its |= {name: value for name, value in others.items() if kind_of(name) == "unknown"}
        limit = {} if self.timeout is None else {"default.api.timeout.ms": str(round(self.timeout * 1000))}
        return {**(limit if client != "producer" else {}), **its}

    def close(self) -> None:
        """Closes what was opened."""
        self._open.close()


def _settings(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE, for example client.id=me")
        settings[name.strip()] = text.strip()
    # References such as ${env:NAME} are no secrets.
    shown = [name for name, text in settings.items() if kind_of(name) == "secret" and not text.startswith("${")]
    if shown:
        _warn(", ".join(shown))
    return settings


def _warn(names: str) -> None:
    click.echo(f"{names}: other users can see command lines; put it into a -F file or a profile", err=True)


def _login(_context: click.Context, _parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """What logs in to a registry: a name and a password, or a token."""
    if text is None:
        return {}
    _warn("--registry-auth")
    basic, token = f"{REGISTRY}basic.auth.user.info", f"{REGISTRY}bearer.auth.token"
    # It takes the place of either: an empty one is none.
    return {basic: text, token: ""} if ":" in text else {basic: "", token: text}


def _file(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> dict[str, str]:
    return {} if path is None else properties_file(path)


def connected_as(
    kind: Callable[[dict[str, str], float | None], Connection],
    check: Callable[[dict[str, str]], None] | None = None,
    clients: Sequence[str] = ("admin",),
    registry: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of the connection, and the `Connection` as its first argument.

    Args:
        kind: makes it, of options and seconds for each request.
        check: refuses options that the command has no use for.
        clients: which the command makes. What the command line gives must be an option of one of them; files, profiles
            and the environment are for all commands.
        registry: whether it asks a schema registry. Without clients it asks nobody else, and no cluster is needed.
    """
    servers_option = click.option("-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="Bootstrap brokers.")

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.option(
            "-F",
            "--command-config",
            "from_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            callback=_file,
            help="A properties file of client options, as for Kafka's own tools.",
        )
        @click.option(
            "-X",
            "-c",
            "--config",
            "given",
            multiple=True,
            callback=_settings,
            metavar="NAME=VALUE",
            help="A client option; repeatable.",
        )
        @click.option(
            "--profile",
            metavar="NAME",
            shell_complete=profiles,
            help="Of ~/.config/samsarrow/config.toml; also SAMSARROW_PROFILE.",
        )
        @click.option("--timeout", callback=seconds_option, metavar="SECONDS", help="For each request; 5, 500ms, 1m.")
        def with_connection(
            from_file: dict[str, str],
            given: dict[str, str],
            profile: str | None,
            timeout: float | None,
            bootstrap_servers: str | None = None,
            registry_url: str | None = None,
            registry_login: dict[str, str] | None = None,
            **arguments: Any,
        ) -> None:
            _check_given(given, clients, registry)
            if bootstrap_servers is not None:
                given = {**given, "bootstrap.servers": bootstrap_servers}
            if registry_url is not None:
                given = {**given, f"{REGISTRY}url": registry_url}
            options = layered(profile, from_file, {**given, **(registry_login or {})})
            if clients and "bootstrap.servers" not in options:
                raise click.UsageError(
                    "no cluster: pass --bootstrap-servers HOST:PORT, a --command-config file with "
                    "bootstrap.servers, a --profile, or SAMSARROW_BOOTSTRAP_SERVERS"
                )
            if check is not None:
                check(options)
            connection = kind(options, timeout)
            try:
                command(connection, **arguments)
            except ConfigurationError as error:
                raise click.UsageError(str(error)) from None
            finally:
                connection.close()

        with_connection.__name__, with_connection.__doc__ = command.__name__, command.__doc__
        if clients:
            servers_option(with_connection)
        if registry:
            _registry_url(_registry_auth(with_connection))
        with_connection.__click_params__ = [  # type: ignore[attr-defined]
            *with_connection.__click_params__,  # type: ignore[attr-defined]
            *getattr(command, "__click_params__", []),
        ]
        return with_connection

    return decorate


_registry_url = click.option(
    "--registry", "registry_url", metavar="URL,...", help="A schema registry; also SAMSARROW_SCHEMA_REGISTRY_URL."
)
_registry_auth = click.option(
    "--registry-auth",
    "registry_login",
    callback=_login,
    metavar="NAME:PASSWORD",
    help="How it is logged in to; without a colon it is a token. Others can see it: better in a profile, as "
    "schema_registry_basic_auth_user_info or schema_registry_bearer_auth_token.",
)


def _check_given(given: Mapping[str, str], clients: Sequence[str], registry: bool) -> None:
    """Refuses what the command has no use for. What nobody knows the client refuses, if there is one."""
    from samsarrow.config import options_of

    users = [*clients, *(["schema registry"] if registry else [])]
    for name in given:
        its = name.replace("_", ".").startswith(REGISTRY)
        if its or not clients or kind_of(name) != "unknown":
            if registry if its else any(options_of(client, {name: ""}) for client in clients):
                continue
            hint = "" if clients else f": names of its options begin with {REGISTRY}"
            raise click.UsageError(f"{name} is not an option of the {' and the '.join(users)} of this command{hint}")


connected = connected_as(Connection)
reads_topics = connected_as(Connection, clients=("consumer", "admin"))
reads_and_writes_topics = connected_as(Connection, clients=("consumer", "producer", "admin"))
reads_values = connected_as(Connection, clients=("consumer", "admin"), registry=True)
asks_registry = connected_as(Connection, clients=(), registry=True)
writes_topics = connected_as(Connection, clients=("producer", "admin"))
writes_values = connected_as(Connection, clients=("producer", "admin"), registry=True)
