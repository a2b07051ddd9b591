"""`samsarrow cluster`: brokers, controller, features, quorum."""

from __future__ import annotations

import click

from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.numbers import MetadataVersion, timestamp_or_none
from samsarrow.cli.output import output_option, show
from samsarrow.exceptions import UnsupportedVersionError


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Show a cluster: brokers, controller, features and metadata quorum."""


@cluster.command()
@connected
@output_option
def describe(connection: Connection, form: str | None) -> None:
    """Describe the cluster in one line: id, controller, brokers, metadata version, leader and voters of the quorum.

    Values that brokers do not support are empty: features before Kafka 2.7, the quorum before 3.3 or with ZooKeeper.
    """
    admin = connection.admin
    found = admin.describe_cluster()
    version: int | None = None
    leader, voters = None, None
    try:
        levels = admin.describe_features().finalized.get("metadata.version")
        version = None if levels is None else MetadataVersion(levels[1])
    except UnsupportedVersionError:
        pass
    try:
        quorum = admin.describe_quorum()
        leader, voters = quorum.leader, [voter.id for voter in quorum.voters]
    except UnsupportedVersionError:
        pass
    heads = ("cluster_id", "controller", "brokers", "metadata_version", "quorum_leader", "voters")
    show(form, heads, [(found.cluster_id, found.controller, len(found.brokers), version, leader, voters)])


@cluster.command()
@connected
@click.option("--fenced", is_flag=True, help="Include brokers that are registered but fenced (Kafka 4.0).")
@output_option
def brokers(connection: Connection, fenced: bool, form: str | None) -> None:
    """List brokers with their addresses. Marks the controller, or the broker that forwards requests to it."""
    found = connection.admin.describe_cluster(include_fenced=fenced)
    rows = [(b.id, b.host, b.port, b.rack, b.id == found.controller, b.fenced) for b in found.brokers]
    show(form, ("broker", "host", "port", "rack", "controller", "fenced"), rows)


@cluster.command()
@connected
@output_option
def features(connection: Connection, form: str | None) -> None:
    """List features with the level in use and the levels that the responding broker supports (KIP-584)."""
    found = connection.admin.describe_features()
    rows = []
    for name in sorted({*found.finalized, *found.supported}):
        used, supported = found.finalized.get(name, (None, None)), found.supported.get(name, (None, None))
        levels: tuple[int | None, ...] = (used[1], *supported)
        if name == "metadata.version":
            levels = tuple(None if level is None else MetadataVersion(level) for level in levels)
        rows.append((name, *levels))
    show(form, ("feature", "level", "lowest", "highest"), rows)


@cluster.command()
@connected
@output_option
def quorum(connection: Connection, form: str | None) -> None:
    """List the nodes of the metadata quorum: voters and observers with their lag (KIP-836, Kafka 3.3).

    CAUGHT UP is the time at which a node last had all records; in JSON and CSV, milliseconds since 1970.
    """
    found = connection.admin.describe_quorum()
    ends = [voter.log_end_offset for voter in found.voters if voter.id == found.leader]
    rows = []
    for kind, nodes in (("voter", found.voters), ("observer", found.observers)):
        for node in nodes:
            state = "leader" if kind == "voter" and node.id == found.leader else kind
            lag = max(ends[0] - node.log_end_offset, 0) if ends and node.log_end_offset >= 0 else None
            where = [f"{e.name}://{e.host}:{e.port}" for e in found.nodes.get(node.id, ())]
            caught_up = timestamp_or_none(node.last_caught_up_timestamp)
            rows.append((node.id, state, node.log_end_offset, lag, caught_up, node.directory_id, where))
    show(form, ("node", "state", "end", "lag", "caught_up", "directory_id", "endpoints"), rows)
