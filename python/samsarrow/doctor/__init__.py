"""A diagnosis of the connection to a cluster, step by step, with a remedy for each problem.

    for finding in samsarrow.doctor.check(bootstrap_servers="localhost:9092", topic="orders"):
        print(finding.status, finding.check, finding.detail, finding.remedy)

The checks, in order: `options`; `dns`, `tcp`, `tls`, `login` and `versions` of each bootstrap server; `cluster`,
`advertised`, `clock`; for a topic `topic`, `acl`, `offsets`, `timestamps`, `read`, `write`; for a group `coordinator`,
`acl`, `group`, `assignment`, `offsets`, `lag`. `samsarrow doctor` prints the same findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from samsarrow.doctor._finding import Check, Finding, Status
from samsarrow.exceptions import KafkaError
from samsarrow.types import Seconds, to_seconds

if TYPE_CHECKING:
    from samsarrow.doctor._network import Server
    from samsarrow.doctor._run import Run

__all__ = ["Finding", "Status", "check", "findings"]


def check(
    config: Mapping[str, Any] | None = None,
    *,
    topic: str | None = None,
    group: str | None = None,
    write: bool = False,
    timeout: Seconds = 10,
    **options: Any,
) -> list[Finding]:
    """Checks the connection to a cluster, and a topic and a group if they are passed.

    Checks that depend on a failed check are left out. Problems are findings and never raised. Reads only metadata and
    the ends of partitions, commits nothing, joins no group, and creates no topic. Blocks until the last check ends:
    in asyncio, call it with `asyncio.to_thread`.

    Args:
        config: options of consumers, producers and admin clients, `{"bootstrap.servers": "localhost:9092"}`.
        topic: topic to check.
        group: group to check, by default the option `group.id`.
        write: also write one record to the topic, and require the permission to write.
        timeout: seconds per check, or a `timedelta`.
        **options: the same options as keywords, `bootstrap_servers="localhost:9092"`.

    Returns:
        The findings in the order of the checks.

    Raises:
        ValueError: `timeout` is not positive, or `write` is set without a topic.
    """
    return list(findings(config, topic=topic, group=group, write=write, timeout=timeout, **options))


def findings(
    config: Mapping[str, Any] | None = None,
    *,
    topic: str | None = None,
    group: str | None = None,
    write: bool = False,
    timeout: Seconds = 10,
    **options: Any,
) -> Iterator[Finding]:
    """Like `check`, but yields each finding when its check ends."""
    seconds = to_seconds(timeout)
    if seconds is None or not 0 < seconds <= 3600:
        raise ValueError(f"timeout={timeout!r}: it must be more than 0 and at most 3600 seconds")
    for name, found in (("topic", topic), ("group", group)):
        if found is not None and not isinstance(found, str):
            raise TypeError(f"{name} is the name of one {name}, not {type(found).__name__}")
        if found == "":
            raise ValueError(f"{name} is empty: pass the name of one {name}, or leave it out")
    if write and topic is None:
        raise ValueError("write=True needs a topic")
    return _findings(config, topic, group, write, seconds, options)


def _findings(
    config: Mapping[str, Any] | None,
    topic: str | None,
    group: str | None,
    write: bool,
    timeout: float,
    keywords: Mapping[str, Any],
) -> Iterator[Finding]:
    from samsarrow.doctor._network import connect, parse, resolve
    from samsarrow.doctor._options import check_options
    from samsarrow.doctor._run import Run

    found, options = check_options(config, keywords)
    yield from found
    if options is None:
        return
    run = Run(options, topic, group or options.get("group.id") or None, write, timeout)
    servers = parse(options["bootstrap.servers"])
    names, addresses = resolve(servers, timeout)
    yield from _some_suffice(names, bool(addresses))
    reached = connect(addresses, timeout) if addresses else {}
    open_servers = [server for server, reach in reached.items() if reach.address is not None]
    yield from _some_suffice([reach.finding for reach in reached.values()], bool(open_servers))
    if open_servers:
        yield from _from_connected(run, open_servers)


def _some_suffice(found: list[Finding], some: bool) -> Iterator[Finding]:
    """Yields findings. Failures of some bootstrap servers are warnings, because clients use the others."""
    for finding in found:
        if some and finding.status is Status.FAILED:
            remedy = f"{finding.remedy}; clients use the other bootstrap servers meanwhile"
            finding = Finding(finding.check, finding.subject, Status.WARNING, finding.detail, remedy, finding.seconds)
        yield finding


def _from_connected(run: Run, servers: Sequence[Server]) -> Iterator[Finding]:
    from samsarrow import Admin
    from samsarrow.doctor._cluster import check_advertised, check_clock, check_cluster
    from samsarrow.doctor._connect import check_servers
    from samsarrow.doctor._group import check_group
    from samsarrow.doctor._topic import check_topic
    from samsarrow.doctor._write import check_write

    connected = check_servers(run, servers)
    usable = [server for server, result in connected.items() if result.cluster is not None]
    yield from _some_suffice([finding for result in connected.values() for finding in result.findings], bool(usable))
    if not usable:
        return
    described, cluster = check_cluster(connected)
    yield described
    if described.status is Status.FAILED:
        return
    advertised, good = check_advertised(run, cluster, connected)
    yield from advertised
    with Admin(run.client("admin", {"bootstrap.servers": ",".join(map(str, usable))})) as admin:
        yield check_clock(run, admin)
        if (run.topic is not None or run.group is not None) and not good:
            reason = "no broker can be used by its advertised address"
            names = [f"topic {run.topic}"] * (run.topic is not None) + [f"group {run.group}"] * (run.group is not None)
            yield from (Check(name.split()[0], name).skipped(reason) for name in names)
            return
        try:
            if run.topic is not None:
                failed = False
                for finding in check_topic(run, admin, run.topic, good):
                    failed |= finding.status is Status.FAILED
                    yield finding
                if run.write and not failed:
                    yield from check_write(run, run.topic)
            if run.group is not None:
                yield from check_group(run, admin, run.group, good)
        except KafkaError as error:
            yield Check("topic" if run.group is None else "group").failed(str(error), "run the command again")
