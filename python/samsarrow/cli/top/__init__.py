"""`samsarrow top`."""

from __future__ import annotations

import click

from samsarrow.cli.commands import Command
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.output import FORMS
from samsarrow.cli.signals import Signals
from samsarrow.cli.times import seconds_option
from samsarrow.cli.top import live, plain
from samsarrow.cli.top.history import History
from samsarrow.cli.top.sampler import MOST_GROUPS, Sampler
from samsarrow.cli.top.terminal import interactive

SORTS = ("lag", "consumed", "produced", "members", "rebalances", "name")
# Seconds for each request, so that lost brokers are shown soon. `--timeout` overrides them.
TIMEOUT = 5.0


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@connected
@click.option(
    "-t", "--topic", "topics", multiple=True, metavar="NAME", shell_complete=complete_topics,
    help="Only partitions of this topic, or of topics that match this pattern; repeatable.",
)  # fmt: skip
@click.option(
    "-i", "--interval", default="2s", show_default=True, callback=seconds_option, metavar="SECONDS",
    help="The interval between samples.",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Print one table with the rates over one interval, and exit.")
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Print N samples as tables, and exit.")
@click.option("--sort", type=click.Choice(SORTS), default="lag", show_default=True, help="Sort by this column.")
@click.option("--partitions", "by_partition", is_flag=True, help="Print each partition instead of groups.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each group; short for -o ndjson.")
@click.option("-o", "--output", "form", type=click.Choice(FORMS), help="By default table, also in a pipe.")
def top(
    connection: Connection,
    names: tuple[str, ...],
    topics: tuple[str, ...],
    interval: float,
    once: bool,
    count: int | None,
    sort: str,
    by_partition: bool,
    as_json: bool,
    form: str | None,
) -> None:
    """Show the lag, rates, members and rebalances of groups, live.

    Shows all groups, or those with these names or that match these patterns: 'billing-*'. On a terminal it is a screen:
    arrows select a group, enter shows its partitions, ? shows all keys. Without a terminal, and with --once, --count,
    --partitions, --json or -o, it prints the groups after each interval.
    """
    if once and count is not None:
        raise click.UsageError("pass --once or --count, not both")
    if as_json and form not in (None, "ndjson"):
        raise click.UsageError(f"pass --json or -o {form}, not both")
    form = "ndjson" if as_json else form
    sampler = Sampler(connection.admin, names, topics, interval, connection.timeout or TIMEOUT)
    history = History(topics=bool(topics), by_partition=None if by_partition else set())
    column = "key" if sort == "name" else sort
    if interactive() and not (once or count or by_partition or form):
        sampler.limit = MOST_GROUPS
        live.run(sampler, connection.servers, history, column)
        return
    with Signals():
        plain.run(sampler, history, form, column, 2 if once else count, 1 if once else 0, by_partition)
