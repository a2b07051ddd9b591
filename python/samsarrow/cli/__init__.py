"""The command line: `samsarrow`."""

from __future__ import annotations

import sys

import click

from samsarrow.cli.broker import broker
from samsarrow.cli.demo import demo
from samsarrow.cli.dump_log import dump_log
from samsarrow.cli.offsets import offsets
from samsarrow.cli.options import options
from samsarrow.exceptions import KafkaError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="samsarrow")
def cli() -> None:
    """Kafka for Python at Arrow speed."""


cli.add_command(broker)
cli.add_command(demo)
cli.add_command(dump_log)
cli.add_command(offsets)
cli.add_command(options)


def main() -> None:
    """Entry point of the `samsarrow` command: a Kafka error is one line on stderr and exit code 1."""
    try:
        cli()
    except KafkaError as error:
        click.echo(f"samsarrow: {error}", err=True)
        sys.exit(1)
