"""`samsarrow txns`: transactions, those that hang, and how they are ended."""

from __future__ import annotations

from collections.abc import Callable

import click

from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.consume.range import partitions_of
from samsarrow.cli.output import (
    attempt,
    complain,
    confirm,
    dry_run_option,
    named,
    output_option,
    settle,
    show,
    told,
    yes_option,
)
from samsarrow.cli.output import listed as sentence
from samsarrow.cli.times import seconds_option
from samsarrow.exceptions import KafkaError


@click.group()
def txns() -> None:
    """Look at transactions (KIP-664, Kafka 3.0), find those that hang, and end them.

    One that is open keeps what comes after it from consumers that read only what is committed.
    """


def longer_option(default: str | None, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`--longer-than`."""
    return click.option(
        "--longer-than", "longer", default=default, show_default=default is not None, callback=seconds_option,
        metavar="SECONDS", help=text,
    )  # fmt: skip


@txns.command("list")
@connected
@click.option("--state", "states", multiple=True, help="Only those in this state, such as Ongoing; repeatable.")
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
    """List transactional ids: producer and state."""
    found = connection.admin.list_transactions(
        states=states, producer_ids=producers, longer_than=longer, pattern=pattern
    )
    rows = [(one.transactional_id, one.producer_id, one.state) for _, one in sorted(found.items())]
    show(form, ("transactional_id", "producer_id", "state"), rows)


@txns.command()
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@connected
@output_option
def describe(connection: Connection, names: tuple[str, ...], form: str | None) -> None:
    """Describe transactional ids: coordinator, producer, and the transaction that is open.

    It began at `start`, milliseconds since 1970, and its coordinator ends it after `timeout_ms`.
    """
    wanted = list(dict.fromkeys(names))
    rows, errors = [], {}
    for name, one in told(connection.admin.describe_transactions(wanted)):
        if isinstance(one, KafkaError):
            errors[f"transactional id {name}"] = one
            continue
        rows.append((
            name, one.state, one.coordinator, one.producer_id, one.producer_epoch, one.timeout_ms,
            one.start_timestamp, [named(tp) for tp in one.partitions],
        ))  # fmt: skip
    heads = ("transactional_id", "state", "coordinator", "producer_id", "epoch", "timeout_ms", "start", "partitions")
    show(form, heads, rows)
    complain(errors, len(wanted), "transactional ids")


@txns.command()
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@connected
@longer_option("15m", "How long nothing was written: at least the brokers' transaction.max.timeout.ms.")
@output_option
def hanging(connection: Connection, names: tuple[str, ...], longer: float, form: str | None) -> None:
    """Find transactions that no coordinator will end, in all topics or some; `txns abort` ends them."""
    tps = partitions_of(connection, names, frozenset()) if names else None
    rows = [
        (
            *one.partition, one.producer.producer_id, one.producer.producer_epoch, one.producer.transaction_start,
            one.producer.last_timestamp, one.transactional_id,
        )
        for one in connection.admin.find_hanging(tps, longer_than=longer)
    ]  # fmt: skip
    heads = ("topic", "partition", "producer_id", "epoch", "start_offset", "last_write", "transactional_id")
    show(form, heads, rows)


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
    """End a transaction that hangs in a partition, as aborted, whatever its coordinator thinks.

    What `txns hanging` finds. A transaction that its coordinator still knows is refused: records of it would be lost.
    That one `txns fence` ends.
    """
    [tp] = partitions_of(connection, [topic], frozenset([partition]))
    producers = connection.admin.describe_producers([tp])[tp]
    its = [one for one in producers if one.producer_id == producer_id and one.transaction_start is not None]
    if not its:
        raise click.ClickException(f"producer {producer_id} has no open transaction in {named(tp)}: nothing was done")
    known = connection.admin.list_transactions(producer_ids=[producer_id])
    for name, one in told(connection.admin.describe_transactions(known)):
        if isinstance(one, KafkaError):
            raise one
        if tp in one.partitions and one.producer_id == producer_id:
            raise click.ClickException(
                f"the coordinator knows the transaction in {named(tp)}, as {name}: nothing was done. "
                f"`samsarrow txns fence {name}` ends it as a whole"
            )
    if dry_run:
        click.echo(f"{named(tp)}, producer {producer_id}: would be aborted from offset {its[0].transaction_start} on")
        return
    confirm(f"Aborting the transaction of producer {producer_id} in {named(tp)}", yes)
    connection.admin.abort_transaction(
        tp, producer_id, its[0].producer_epoch, coordinator_epoch=its[0].coordinator_epoch
    )
    settle([(f"{named(tp)}, producer {producer_id}", None)], "aborted")


@txns.command()
@click.argument("names", nargs=-1, required=True, metavar="TRANSACTIONAL_ID...")
@connected
@yes_option
@dry_run_option
def fence(connection: Connection, names: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Fence the producers of transactional ids: their open transactions are aborted, and they can do no more."""
    wanted = list(dict.fromkeys(names))
    # An id that nobody knows would be made by fencing it.
    described = connection.admin.describe_transactions(wanted)
    known = {name: one for name, one in told(described) if not isinstance(one, KafkaError)}
    if known and not dry_run:
        confirm(f"Fencing {sentence(list(known))}", yes)
    outcomes: dict[str, KafkaError | None] = dict(described.errors)
    if known and dry_run:
        outcomes |= dict.fromkeys(known)
    elif known:
        outcomes |= attempt(known, lambda: connection.admin.fence_producers(list(known)))
    settle([(name, outcomes[name]) for name in wanted], "would be fenced" if dry_run else "fenced")
