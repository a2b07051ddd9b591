"""`samsarrow broker`: runs the embedded broker in the foreground."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import click

from samsarrow.cli.commands import Command, section

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
security = section("Security")


def _topic(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    topics = {}
    for value in values:
        name, _, partitions = value.partition(":")
        if not name or not (partitions or "1").isdecimal() or int(partitions or 1) < 1:
            raise click.BadParameter(f"{value!r} is not NAME:PARTITIONS, for example flights:4")
        topics[name] = int(partitions or 1)
    return topics


def _users(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    users = {}
    for value in values:
        name, colon, password = value.partition(":")
        if not name or not colon or not password:
            raise click.BadParameter(f"{value!r} is not NAME:PASSWORD")
        users[name] = password
    return users


@click.command(cls=Command)
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True, help="0 takes any free port.")
@click.option(
    "--brokers", type=click.IntRange(1, 64), default=1, show_default=True, help="Virtual brokers, on following ports."
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    callback=_topic,
    metavar="NAME:PARTITIONS",
    help="A topic to create at the start; repeatable.",
)
@click.option("--no-auto-create", is_flag=True, help="Do not create missing topics when clients request them.")
@click.option(
    "--kafka-version",
    metavar="VERSION",
    help="The Kafka version to emulate, such as 2.8: its requests, limits and defaults; 0.8.2 or later. By default all "
    "requests that the broker implements.",
)
@click.option(
    "--registry-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Also run a schema registry in memory, at this port: 8081 is usual, 0 takes any free port.",
)
@security(
    "--security",
    type=click.Choice(PROTOCOLS, case_sensitive=False),
    metavar="PROTOCOL",
    default="PLAINTEXT",
    show_default=True,
    help=f"The security.protocol of clients: {', '.join(PROTOCOLS)}.",
)
@security(
    "--user",
    "users",
    multiple=True,
    callback=_users,
    metavar="NAME:PASSWORD",
    help="A user of PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; repeatable. For tests only: other users can see it.",
)
@security(
    "--sasl-mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISMS, case_sensitive=False),
    metavar="NAME",
    help=f"An allowed mechanism, by default all: {', '.join(MECHANISMS)}; repeatable.",
)
@security(
    "--ca-file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="With TLS: a file for the certificate that clients must trust, ssl.ca.location.",
)
def broker(
    port: int,
    brokers: int,
    topics: dict[str, int],
    no_auto_create: bool,
    kafka_version: str | None,
    registry_port: int | None,
    security: str,
    users: dict[str, str],
    mechanisms: tuple[str, ...],
    ca_file: Path | None,
) -> None:
    """Run a Kafka broker in memory, on loopback, until Ctrl-C.

    It supports Kafka's wire protocol, so every Kafka client can use it. Nothing is written to disk.

    \b
      samsarrow broker --topic orders:4
      samsarrow broker --registry-port 8081
      samsarrow broker --kafka-version 2.8 --no-auto-create
      samsarrow broker --security SASL_SSL --user ann:secret --ca-file ca.pem
    """  # noqa: D301 - click needs the character
    tls, sasl = security.endswith("SSL"), security.startswith("SASL")
    for invalid, reason in (
        (sasl and not users and mechanisms != ("OAUTHBEARER",), f"--security {security} needs a --user NAME:PASSWORD"),
        (not sasl and bool(users or mechanisms),
         "--user and --sasl-mechanism need --security SASL_PLAINTEXT or SASL_SSL"),
        (not tls and ca_file is not None, "--ca-file needs --security SSL or SASL_SSL"),
        (tls and ca_file is None, f"--security {security} needs --ca-file FILE: clients must trust its certificate"),
    ):  # fmt: skip
        if invalid:
            raise click.UsageError(reason)
    from samsarrow.testing import Broker, Registry

    # SIGTERM is handled like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        started = Broker(
            brokers=brokers,
            topics=topics,
            port=port,
            auto_create_topics=not no_auto_create,
            kafka_version=kafka_version,
            security=security,
            users=users,
            sasl_mechanisms=mechanisms or None,
        )
    except OSError as error:
        raise click.ClickException(f"{error}: choose another --port, or 0 for any free one") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with started as running, ExitStack() as stack:
        if registry_port is not None:
            try:
                registry = stack.enter_context(Registry(port=registry_port))
            except OSError as error:
                raise click.ClickException(
                    f"the registry cannot listen on port {registry_port}: {error.strerror}; choose another "
                    "--registry-port, or 0 for any free one"
                ) from None
        if ca_file is not None:
            ca_file.write_text(running.ca_pem)
        click.echo(f"listening on {running.bootstrap_servers}")
        if registry_port is not None:
            click.echo(f"schema registry at {registry.url}")
        try:
            while True:
                # Windows has no signal.pause.
                time.sleep(3600)
        except KeyboardInterrupt:
            click.echo("stopped")
