"""`samsarrow broker`: runs the embedded broker in the foreground."""

from __future__ import annotations

import signal
import time

import click


def _topic(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    topics = {}
    for value in values:
        name, _, partitions = value.partition(":")
        if not name or not (partitions or "1").isdecimal() or int(partitions or 1) < 1:
            raise click.BadParameter(f"{value!r} is not NAME:PARTITIONS, for example flights:4")
        topics[name] = int(partitions or 1)
    return topics


@click.command()
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
    help="A topic to begin with; repeatable.",
)
def broker(port: int, brokers: int, topics: dict[str, int]) -> None:
    """Run a Kafka broker in memory, on loopback, until Ctrl-C.

    It speaks Kafka's wire protocol, so every Kafka client can use it. Nothing is written to disk.
    """
    from samsarrow.testing import Broker

    # SIGTERM is handled like Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        started = Broker(brokers=brokers, topics=topics, port=port)
    except OSError as error:
        raise click.ClickException(f"{error}: choose another --port, or 0 for any free one") from None
    with started as running:
        click.echo(f"listening on {running.bootstrap_servers}")
        try:
            while True:
                # Windows has no signal.pause.
                time.sleep(3600)
        except KeyboardInterrupt:
            click.echo("stopped")
