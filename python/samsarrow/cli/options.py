"""`samsarrow options`: all client options, from the table that the clients use."""

from __future__ import annotations

import click

from samsarrow.cli.commands import Command


@click.command(cls=Command)
def options() -> None:
    """Print every client option, its type, default and meaning, as Markdown."""
    from samsarrow.config import options_markdown

    click.echo(options_markdown(), nl=False)
