"""Connection options of commands, and clients that are closed at the end of a command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samsarrow.cli.commands import CONNECTION, section
from samsarrow.cli.completion import profiles
from samsarrow.cli.settings import REGISTRY, kind_of, layered, properties_file
from samsarrow.cli.times import seconds_option
from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from samsarrow import Admin, Consumer, Producer, ShareConsumer
    from samsarrow.cli.registry import Registry


@dataclass
class Connection:
    """Connection to a cluster. Creates clients at first use, and closes them at the end of the command."""

    # Omitted from repr, because options may be secret.
    options: dict[str, str] = field(repr=False)
    timeout: float | None
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _admin: Admin | None = None
    _registry: Registry | None = None

    @property
    def servers(self) -> str:
        """Bootstrap servers of the cluster."""
        return self.options["bootstrap.servers"]

    @property
    def admin(self) -> Admin:
        """Admin client of the command."""
        from samsarrow import Admin

        if self._admin is None:
            self._admin = self._open.enter_context(Admin(self.options_of("admin")))
        return self._admin

    @property
    def registry(self) -> Registry:
        """Schema registry client of the command.

        Raises:
            click.UsageError: no registry is configured.
        """
        if self._registry is None:
            from samsarrow.cli.registry import open_registry

            options = self._registry_options
            url = options.pop("url", None)
            if url is None:
                raise click.UsageError(
                    f"no schema registry: pass --registry URL, {REGISTRY}url in a --command-config file or in "
                    "a --profile, or SAMSARROW_SCHEMA_REGISTRY_URL"
                )
            self._registry = open_registry(url, options)
            self._open.callback(self._registry.close)
        return self._registry

    @property
    def has_registry(self) -> bool:
        """True if a schema registry is configured."""
        return f"{REGISTRY}url" in self.options

    @property
    def _registry_options(self) -> dict[str, str]:
        options = {
            name.removeprefix(REGISTRY): text for name, text in self.options.items() if name.startswith(REGISTRY)
        }
        if self.timeout is None:
            return options
        milliseconds = str(max(1, round(self.timeout * 1000)))
        return {"http.connect.timeout.ms": milliseconds, "http.read.timeout.ms": milliseconds, **options}

    def consumer(self, typed: Mapping[str, Any] | None = None, **fixed: str | bool) -> Consumer:
        """Creates a consumer that is closed at the end of the command.

        Args:
            typed: arguments of `Consumer` for formats and decode errors.
            **fixed: options that override the user's options.
        """
        from samsarrow import Consumer

        named = {name.replace("_", "."): value for name, value in fixed.items()}
        return self._open.enter_context(Consumer({**self.options_of("consumer"), **named}, **(typed or {})))

    def share_consumer(self, typed: Mapping[str, Any], max_records: int | None, **fixed: str | bool) -> ShareConsumer:
        """Creates a consumer with explicit acknowledgement that is closed at the end of the command.

        Args:
            typed: arguments of `ShareConsumer` for formats and decode errors.
            max_records: strict limit of the rows of a poll; None for the default, which is not strict.
            **fixed: options that override the user's options.
        """
        from samsarrow import ShareConsumer

        named = {name.replace("_", "."): value for name, value in fixed.items()}
        strict: dict[str, Any] = {} if max_records is None else {"acquire_mode": "record_limit"}
        if max_records is not None:
            named["max.poll.records"] = str(max_records)
        options = {**self.options_of("consumer"), **named}
        return self._open.enter_context(ShareConsumer(options, acknowledgement="explicit", **strict, **typed))

    def producer(self, **fixed: str) -> Producer:
        """Creates a producer. The command closes it, because closing may fail.

        Args:
            **fixed: options that override the user's options.
        """
        from samsarrow import Producer

        named = {name.replace("_", "."): value for name, value in fixed.items()}
        return Producer({**self.options_of("producer"), **named})

    def options_of(self, client: str) -> dict[str, str]:
        """Returns the options of one kind of client; files and profiles may also have options of other clients."""
        from samsarrow.config import options_of

        options = options_of(client, self.options)
        # Passes unknown options on, so that the client rejects them and suggests a name.
        others = {name: value for name, value in self.options.items() if not name.startswith(REGISTRY)}
        options |= {name: value for name, value in others.items() if kind_of(name) == "unknown"}
        limit = {} if self.timeout is None else {"default.api.timeout.ms": str(round(self.timeout * 1000))}
        return {**(limit if client != "producer" else {}), **options}

    def close(self) -> None:
        """Closes all clients."""
        self._open.close()


def _settings(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    settings = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not NAME=VALUE, for example client.id=me")
        settings[name.strip()] = text.strip()
    # References such as ${env:NAME} do not reveal the secret.
    secrets = [name for name, text in settings.items() if kind_of(name) == "secret" and not text.startswith("${")]
    if secrets:
        _warn(", ".join(secrets))
    return settings


def _warn(names: str) -> None:
    click.echo(f"{names}: other users can see command lines; put it into a -F file or a profile", err=True)


def _login(_context: click.Context, _parameter: click.Parameter, text: str | None) -> dict[str, str]:
    """Returns the registry options of a login, which is NAME:PASSWORD or a token."""
    if text is None:
        return {}
    _warn("--registry-auth")
    basic, token = f"{REGISTRY}basic.auth.user.info", f"{REGISTRY}bearer.auth.token"
    # Sets both options, and one of them to an empty text, because other sources may have set either.
    return {basic: text, token: ""} if ":" in text else {basic: "", token: text}


def _file(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> dict[str, str]:
    return {} if path is None else properties_file(path)


def connected_as(
    kind: Callable[[dict[str, str], float | None], Connection],
    check: Callable[[dict[str, str]], None] | None = None,
    clients: Sequence[str] = ("admin",),
    registry: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Adds the connection options to a command, which receives a `Connection` as its first argument.

    Args:
        kind: function that creates the connection from the options and from the timeout of each request in seconds.
        check: function that rejects options that the command does not support.
        clients: kinds of clients that the command uses. Options on the command line must belong to one of these
            clients; files, profiles and the environment may also have options of other clients.
        registry: whether the command uses a schema registry. If `clients` is empty, it uses only the registry and needs
            no cluster.
    """
    option = section(CONNECTION)
    servers_option = option("-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="Bootstrap brokers.")

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @option(
            "-F",
            "--command-config",
            "from_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            callback=_file,
            help="A properties file of client options, as for Kafka's own tools.",
        )
        @option(
            "-X",
            "--option",
            "given",
            old=("-c",),
            multiple=True,
            callback=_settings,
            metavar="NAME=VALUE",
            help="A client option; repeatable.",
        )
        @option(
            "--profile",
            metavar="NAME",
            shell_complete=profiles,
            help="A profile of ~/.config/samsarrow/config.toml; also SAMSARROW_PROFILE.",
        )
        @option("--timeout", callback=seconds_option, metavar="SECONDS", help="For each request; 5, 500ms, 1m.")
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
                    f"bootstrap.servers, a --profile, or SAMSARROW_BOOTSTRAP_SERVERS{_unknown(options)}"
                )
            if check is not None:
                check(options)
            connection = kind(options, timeout)
            try:
                command(connection, **arguments)
            except ConfigurationError as error:
                raise click.UsageError(f"{error}{_about_topic_settings(given)}") from None
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


_registry_url = section(CONNECTION)(
    "--registry",
    "registry_url",
    metavar="URL,...",
    help="A schema registry, or glue://REGION/REGISTRY; also SAMSARROW_SCHEMA_REGISTRY_URL.",
)
_registry_auth = section(CONNECTION)(
    "--registry-auth",
    "registry_login",
    callback=_login,
    metavar="NAME:PASSWORD",
    help="The login of the registry; without a colon a token. Other users can see it: prefer a profile with "
    "schema_registry_basic_auth_user_info or schema_registry_bearer_auth_token.",
)


def _check_given(given: Mapping[str, str], clients: Sequence[str], registry: bool) -> None:
    """Rejects options that the command does not use. Unknown options are left to the client, if the command has one."""
    from samsarrow.config import options_of

    users = [*clients, *(["schema registry"] if registry else [])]
    for name in given:
        of_registry = name.replace("_", ".").startswith(REGISTRY)
        if of_registry or not clients or kind_of(name) != "unknown":
            if registry if of_registry else any(options_of(client, {name: ""}) for client in clients):
                continue
            raise click.UsageError(_unused_option(name, users, bool(clients)))


def _unknown(options: Mapping[str, str]) -> str:
    """Returns a hint if a file or profile has unknown options, such as a misspelt `bootstrap.servers`."""
    names = sorted(name for name in options if not name.startswith(REGISTRY) and kind_of(name) == "unknown")
    return f"; unknown options are {', '.join(names)}" if names else ""


def _about_topic_settings(given: Mapping[str, str]) -> str:
    """Returns a hint if `-X` has a name that no client has, and the command has `--config` for settings of topics."""
    existing = {name for param in click.get_current_context().command.params for name in param.opts}
    unknown = [name for name in given if kind_of(name) == "unknown"]
    return f"; --config {unknown[0]}=VALUE is for settings of topics" if unknown and "--config" in existing else ""


def _unused_option(name: str, users: Sequence[str], cluster: bool) -> str:
    """Returns the error for an option of a client that the command does not use."""
    from samsarrow.config import options_of

    if not cluster:
        return f"{name} has no effect here: this command connects only to a registry, whose options are {REGISTRY}NAME"
    owners = [client for client in ("consumer", "producer", "admin") if options_of(client, {name: ""})]
    if name.replace("_", ".").startswith(REGISTRY):
        owners = ["schema registry"]
    used = " and ".join(f"{'an' if user == 'admin' else 'a'} {user} client" for user in users)
    used = used.replace(" and ", ", ", max(len(users) - 2, 0))
    return f"{name} has no effect here: it is an option of a {' or '.join(owners)} client, and this command uses {used}"


connected = connected_as(Connection)
reads_topics = connected_as(Connection, clients=("consumer", "admin"))
reads_and_writes_topics = connected_as(Connection, clients=("consumer", "producer", "admin"))
reads_values = connected_as(Connection, clients=("consumer", "admin"), registry=True)
asks_registry = connected_as(Connection, clients=(), registry=True)
writes_topics = connected_as(Connection, clients=("producer", "admin"))
writes_values = connected_as(Connection, clients=("producer", "admin"), registry=True)
