"""`samsarrow options`: every option, from the one table that the clients check against."""

from __future__ import annotations

import click


@click.command()
def options() -> None:
    """Print every client option, its type, default and meaning, as Markdown."""
    from samsarrow.config import options_markdown

    click.echo(options_markdown(), nl=False)
