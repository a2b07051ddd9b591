"""How commands reach a cluster: their options, and clients that close with the command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samsarrow.cli.completion import profiles
from samsarrow.cli.settings import layered, properties_file
from samsarrow.cli.times import seconds_option
from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from samsarrow import Admin, Consumer, Producer


@dataclass
class Connection:
    """A cluster to be reached; clients are made when first needed and closed with the command."""

    # Any of them may be a secret.
    options: dict[str, str] = field(repr=False)
    timeout: float | None
    _open: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _admin: Admin | None = None

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

    def consumer(self, **fixed: str) -> Consumer:
        """A consumer that closes with the command.

        Args:
            **fixed: options that the command needs so.
        """
        from samsarrow import Consumer

        # Without committing by itself: the command knows what is done.
        named = {name.replace("_", "."): value for name, value in fixed.items()}
        return self._open.enter_context(Consumer({**self.options_of("consumer"), **named}))

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
        from samsarrow.config import kind_of, options_of

        its = options_of(client, self.options)
        # What no client knows is refused by the client, with the name that was meant.
        its |= {name: value for name, value in self.options.items() if kind_of(name) == "unknown"}
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
    if settings:
        from samsarrow.config import kind_of

        # References such as ${env:NAME} are no secrets.
        shown = [name for name, text in settings.items() if kind_of(name) == "secret" and not text.startswith("${")]
        if shown:
            click.echo(
                f"{', '.join(shown)}: others can see what is on a command line; put it into a -F file or a profile",
                err=True,
            )
    return settings


def _file(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> dict[str, str]:
    return {} if path is None else properties_file(path)


def connected_as(
    kind: Callable[[dict[str, str], float | None], Connection],
    check: Callable[[dict[str, str]], None] | None = None,
    clients: Sequence[str] = ("admin",),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of the connection, and the `Connection` as its first argument.

    Args:
        kind: makes it, of options and seconds for each request.
        check: refuses options that the command has no use for.
        clients: which the command makes. What the command line gives must be an option of one of them; files, profiles
            and the environment are for all commands.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @click.option("-b", "--bootstrap-servers", metavar="HOST:PORT,...", help="Brokers to start from.")
        @click.option(
            "-F",
            "--command-config",
            "from_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            callback=_file,
            help="A properties file of client options, as Kafka's own tools take it.",
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
            bootstrap_servers: str | None,
            from_file: dict[str, str],
            given: dict[str, str],
            profile: str | None,
            timeout: float | None,
            **arguments: Any,
        ) -> None:
            if bootstrap_servers is not None:
                given = {**given, "bootstrap.servers": bootstrap_servers}
            options = layered(profile, from_file, given)
            if "bootstrap.servers" not in options:
                raise click.UsageError(
                    "no cluster is named: give --bootstrap-servers HOST:PORT, a --command-config file with "
                    "bootstrap.servers, a --profile, or SAMSARROW_BOOTSTRAP_SERVERS"
                )
            if check is not None:
                check(options)
            _check_clients(given, clients)
            connection = kind(options, timeout)
            try:
                command(connection, **arguments)
            except ConfigurationError as error:
                raise click.UsageError(str(error)) from None
            finally:
                connection.close()

        with_connection.__name__, with_connection.__doc__ = command.__name__, command.__doc__
        with_connection.__click_params__ = [  # type: ignore[attr-defined]
            *with_connection.__click_params__,  # type: ignore[attr-defined]
            *getattr(command, "__click_params__", []),
        ]
        return with_connection

    return decorate


def _check_clients(given: Mapping[str, str], clients: Sequence[str]) -> None:
    from samsarrow.config import kind_of, options_of

    for name in given:
        if kind_of(name) != "unknown" and not any(options_of(client, {name: ""}) for client in clients):
            raise click.UsageError(f"{name} is no option of the {' and the '.join(clients)} that this command uses")


connected = connected_as(Connection)
reads_topics = connected_as(Connection, clients=("consumer", "admin"))
reads_and_writes_topics = connected_as(Connection, clients=("consumer", "producer", "admin"))
writes_topics = connected_as(Connection, clients=("producer", "admin"))
