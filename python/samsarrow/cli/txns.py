"""`samsarrow txns`: transactions, including hanging ones."""

from __future__ import annotations

from collections.abc import Callable

import click

from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.consume.range import partitions_of
from samsarrow.cli.numbers import timestamp_or_none
from samsarrow.cli.output import (
    confirm,
    dry_run_option,
    each_result,
    named,
    output_option,
    print_outcomes,
    report_errors,
    run_batch,
    show,
    states_option,
    yes_option,
)
from samsarrow.cli.output import listed as joined
from samsarrow.cli.times import seconds_option
from samsarrow.exceptions import KafkaError

# States of Kafka's TransactionState.
STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip


@click.group(cls=CommandGroup)
def txns() -> None:
    """Show transactions (KIP-664, Kafka 3.0), find hanging ones, and end them.

    An open transaction hides the records after it from consumers with isolation.level=read_committed.
    """


def longer_option(default: str | None, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns the option `--longer-than`."""
    return click.option(
        "--longer-than", "longer", default=default, show_default=default is not None, callback=seconds_option,
        metavar="SECONDS", help=text,
    )  # fmt: skip


@txns.command("list")
@connected
@states_option(STATES, "Only transactional ids in this state; repeatable")
@click.option("--producer-id", "producers", type=click.IntRange(0), multiple=True, help="Only this one's; repeatable.")
@longer_option(None, "Only those that are open for longer: 90, 15m (Kafka 3.8).")
@click.option("--pattern", metavar="REGEX", help="Only ids that match this expression (RE2, Kafka 4.1).")
@output_option
def list_transactions(
    connection: Connection,
    states: tuple[str, ...],
    producers: tuple[int, ...],
    longer: float | None,
    pattern: str | None,
    form: str | None,
) -> None:
    """List transactional ids with their producers and states."""
    found = connection.admin.list_transactions(
        states=states, producer_ids=producers, longer_than=longer, pattern=pattern
    )
    rows = [(txn.transactional_id, txn.producer_id, txn.state) for _, txn in sorted(found.items())]
    selected = states or producers or longer is not None or pattern is not None
    empty = "no transactional ids" + (" match" if selected else "")
    show(form, ("transactional_id", "producer_id", "state"), rows, empty)


@txns.command()
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@connected
@output_option
def describe(connection: Connection, names: tuple[str, ...], form: str | None) -> None:
    """Describe transactional ids: coordinator, producer, and the open transaction.

    A transaction began at START, in JSON and CSV milliseconds since 1970. Its coordinator ends it after TIMEOUT MS.
    """
    ids = list(dict.fromkeys(names))
    rows, errors = [], {}
    for name, txn in each_result(connection.admin.describe_transactions(ids)):
        if isinstance(txn, KafkaError):
            errors[f"transactional id {name}"] = txn
            continue
        rows.append((
            name, txn.state, txn.coordinator, txn.producer_id, txn.producer_epoch, txn.timeout_ms,
            timestamp_or_none(txn.start_timestamp), [named(tp) for tp in txn.partitions],
        ))  # fmt: skip
    heads = ("transactional_id", "state", "coordinator", "producer_id", "epoch", "timeout_ms", "start", "partitions")
    show(form, heads, rows)
    report_errors(errors, len(ids), "transactional ids")


@txns.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@connected
@longer_option("15m", "The time since the last write: at least the brokers' transaction.max.timeout.ms.")
@output_option
def hanging(connection: Connection, names: tuple[str, ...], longer: float, form: str | None) -> None:
    """Find transactions that no coordinator will end, in all topics or some; `txns abort` ends them."""
    tps = partitions_of(connection, names, frozenset()) if names else None
    rows = [
        (
            *txn.partition, txn.producer.producer_id, txn.producer.producer_epoch, txn.producer.transaction_start,
            timestamp_or_none(txn.producer.last_timestamp), txn.transactional_id,
        )
        for txn in connection.admin.find_hanging(tps, longer_than=longer)
    ]  # fmt: skip
    heads = ("topic", "partition", "producer_id", "epoch", "start_offset", "last_write", "transactional_id")
    show(form, heads, rows, "no hanging transactions")


@txns.command()
@click.argument("topic", shell_complete=complete_topics)
@click.argument("partition", type=click.IntRange(0))
@connected
@click.option("--producer-id", type=click.IntRange(0), required=True, help="The producer's id, from `txns hanging`.")
@yes_option
@dry_run_option
def abort(
    connection: Connection, topic: str, partition: int, producer_id: int, yes: bool, dry_run: bool
) -> None:  # fmt: skip
    """Abort a hanging transaction in a partition, as found by `txns hanging`, without its coordinator.

    A transaction that its coordinator still knows is rejected, since its records would be lost: `txns fence` ends it.
    """
    [tp] = partitions_of(connection, [topic], frozenset([partition]))
    producers = connection.admin.describe_producers([tp])[tp]
    matching = [p for p in producers if p.producer_id == producer_id and p.transaction_start is not None]
    if not matching:
        raise click.ClickException(f"producer {producer_id} has no open transaction in {named(tp)}: nothing was done")
    known = connection.admin.list_transactions(producer_ids=[producer_id])
    for name, txn in each_result(connection.admin.describe_transactions(known)):
        if isinstance(txn, KafkaError):
            raise txn
        if tp in txn.partitions and txn.producer_id == producer_id:
            raise click.ClickException(
                f"the transaction in {named(tp)} is not hanging, its coordinator has it as {name}: nothing was done. "
                f"`samsarrow txns fence {name}` ends it as a whole"
            )
    if dry_run:
        start = matching[0].transaction_start
        click.echo(f"{named(tp)}, producer {producer_id}: would be aborted from offset {start} on")
        return
    confirm(f"Aborting the transaction of producer {producer_id} in {named(tp)}", yes)
    connection.admin.abort_transaction(
        tp, producer_id, matching[0].producer_epoch, coordinator_epoch=matching[0].coordinator_epoch
    )
    print_outcomes([(f"{named(tp)}, producer {producer_id}", None)], "aborted")


@txns.command()
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@connected
@yes_option
@dry_run_option
def fence(connection: Connection, names: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Fence the producers of transactional ids: open transactions are aborted, and these producers cannot continue."""
    ids = list(dict.fromkeys(names))
    # Ids are looked up first, because fencing an unknown id would create it.
    described = connection.admin.describe_transactions(ids)
    known = {name: txn for name, txn in each_result(described) if not isinstance(txn, KafkaError)}
    if known and not dry_run:
        confirm(f"Fencing {joined(list(known))}", yes)
    outcomes: dict[str, KafkaError | None] = dict(described.errors)
    if known and dry_run:
        outcomes |= dict.fromkeys(known)
    elif known:
        outcomes |= run_batch(known, lambda: connection.admin.fence_producers(list(known)))
    print_outcomes([(name, outcomes[name]) for name in ids], "would be fenced" if dry_run else "fenced")
