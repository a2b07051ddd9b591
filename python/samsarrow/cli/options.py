"""`samsarrow options`: all options of the clients."""

from __future__ import annotations

import re
import textwrap
from difflib import get_close_matches

import click

from samsarrow.cli.commands import Command
from samsarrow.cli.tables import terminal_width


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def options(names: tuple[str, ...]) -> None:
    """Print client options with their types, defaults and meanings.

    Without names: all options, as a Markdown table. With names, or parts of names: these options, as text.

    \b
      samsarrow options linger.ms
      samsarrow options sasl
    """  # noqa: D301 - click needs the character
    from samsarrow.config import kafka_name, options_markdown, rejection

    page = options_markdown()
    if not names:
        click.echo(page, nl=False)
        return
    rows = {cells[0].strip("`"): cells for line in page.splitlines() if (cells := _cells(line))[0].startswith("`")}
    for name in names:
        requested = kafka_name(name)
        found = [requested] if requested in rows else [known for known in rows if requested.lower() in known]
        if not found:
            reason = rejection("consumer", {name: "x"}) or ""
            near = get_close_matches(requested, list(rows), 1)
            unknown = f"no option matches {name!r}{f'; did you mean {near[0]}?' if near else ''}"
            # An option of another client has a replacement.
            raise click.ClickException(reason if "is not supported by this client" in reason else unknown)
        for known in found:
            click.echo("\n".join(_lines(*rows[known])))


def _cells(line: str) -> list[str]:
    """Returns the cells of a row of a Markdown table."""
    return [cell.replace("\\|", "|") for cell in re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))]


def _lines(name: str, clients: str, values: str, default: str, meaning: str) -> list[str]:
    """Returns the lines of an option."""
    # An en dash stands for no default.
    by_default = "" if default == "\u2013" else f", by default {default}"
    width = (terminal_width() or 100) - 2
    lines = [f"{clients}: {values}{by_default}", *textwrap.wrap(meaning, width, break_on_hyphens=False)]
    return [name.strip("`"), *(f"  {line.replace('`', '')}" for line in lines)]
