"""Checks of the cluster: advertised addresses, clocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from samsarrow.admin import Admin
from samsarrow.cluster_types import BrokerDescription, ClusterDescription
from samsarrow.doctor._connect import Connected, check_servers
from samsarrow.doctor._finding import Check, Finding, Status
from samsarrow.doctor._network import Server, connect, resolve
from samsarrow.doctor._run import Run
from samsarrow.doctor._stopwatch import Stopwatch
from samsarrow.doctor._texts import cause_of
from samsarrow.exceptions import KafkaError

# Seconds of difference. Kerberos allows 300; tokens and times of records are affected earlier.
_CLOCK_WARNING, _CLOCK_FAILURE = 5.0, 60.0
_SAMPLES = 3
# The clock of the machine, which tests replace.
now: Callable[[], float] = time.time


def check_cluster(connected: Mapping[Server, Connected]) -> tuple[Finding, ClusterDescription]:
    """Checks that all bootstrap servers belong to one cluster. At least one of them must be usable."""
    check = Check("cluster")
    clusters = {server: found.cluster for server, found in connected.items() if found.cluster is not None}
    first = next(iter(clusters.values()))
    ids = {server: cluster.cluster_id for server, cluster in clusters.items() if cluster.cluster_id is not None}
    if len(set(ids.values())) > 1:
        text = ", ".join(f"{server} to {cluster_id}" for server, cluster_id in ids.items())
        return check.failed(
            f"the bootstrap servers belong to different clusters: {text}",
            "list only servers of one cluster in bootstrap.servers: clients use any of them",
        ), first
    if not first.brokers:
        return check.failed("the cluster has no broker", "check the logs of the brokers"), first
    controller = "unknown" if first.controller is None else f"broker {first.controller}"
    count = len(first.brokers)
    text = f"cluster {first.cluster_id or 'without id'}, {count} broker{'s' * (count != 1)}, controller {controller}"
    return check.ok(text), first


def check_advertised(
    run: Run, cluster: ClusterDescription, tested: Mapping[Server, Connected]
) -> tuple[list[Finding], set[int]]:
    """Checks that clients can use the addresses that brokers advertise.

    Args:
        run: arguments of the diagnosis.
        cluster: the cluster, with at least one broker.
        tested: results of bootstrap servers, which are not checked again.

    Returns:
        The findings, and the ids of usable brokers.
    """
    check = Check("advertised")
    brokers = {broker.id: Server(broker.host, broker.port) for broker in cluster.brokers}
    new = [server for server in dict.fromkeys(brokers.values()) if server not in tested]
    names, addresses = resolve(new, run.timeout) if new else ([], {})
    unresolved = {finding.subject: finding for finding in names if finding.status is Status.FAILED}
    reached = connect(addresses, run.timeout) if addresses else {}
    usable = [server for server, reach in reached.items() if reach.address is not None]
    connected = {**tested, **(check_servers(run, usable) if usable else {})}
    findings, good = [], set()
    for broker in cluster.brokers:
        server = brokers[broker.id]
        fault: Finding | None = None
        if server in connected:
            fault = connected[server].failure
            other = connected[server].cluster
            if fault is None and other is not None and cluster.cluster_id != other.cluster_id:
                fault = check.failed(f"another cluster ({other.cluster_id}) responds there", "")
        elif server in reached:
            fault = reached[server].finding
        else:
            fault = unresolved.get(server.host)
        if fault is None:
            good.add(broker.id)
        else:
            findings.append(_unusable(broker, server, fault, list(tested)))
    if not findings:
        shown = ", ".join(f"{broker} {server}" for broker, server in list(brokers.items())[:5])
        findings = [
            check.ok(f"all brokers can be used by their advertised addresses: {shown}{' …' * (len(brokers) > 5)}")
        ]
    return findings, good


def _unusable(broker: BrokerDescription, server: Server, fault: Finding, bootstrap: Sequence[Server]) -> Finding:
    cause = f"the advertised address {server} cannot be used from here: {fault.detail}"
    if fault.check == "login":
        remedy = fault.remedy
    elif fault.check in ("tls", "versions"):
        remedy = (
            f"check advertised.listeners of broker {broker.id}: the listener that clients use must advertise its own "
            f"port, and a name of its certificate; otherwise {fault.remedy}"
        )
    else:
        host = next((known.host for known in bootstrap), "HOST")
        remedy = (
            f"set advertised.listeners of broker {broker.id} to an address that this machine can use, such as "
            f"NAME://{host}:{server.port} with the NAME of its listener, and restart it; or run the client where "
            f"{server.host} can be reached"
        )
        if server.is_loopback and not any(known.is_loopback for known in bootstrap):
            cause += ", because the broker advertises itself as this machine"
    return Finding("advertised", f"broker {broker.id}", Status.FAILED, cause, remedy, fault.seconds)


def check_clock(run: Run, admin: Admin) -> Finding:
    """Compares this machine's clock with that of the leader of the metadata quorum.

    DescribeQuorum (KIP-836) returns the time at which the leader's own log was caught up, which is the leader's current
    time. The uncertainty is half the duration of the request.
    """
    check = Check("clock")
    best: tuple[float, float] | None = None
    try:
        for _ in range(_SAMPLES):
            sent, clock = Stopwatch(), now()
            quorum = admin.describe_quorum(timeout=run.timeout / _SAMPLES)
            duration = sent.seconds
            times = [voter.last_caught_up_timestamp for voter in quorum.voters if voter.id == quorum.leader]
            if times and times[0] is not None and (best is None or duration < best[1]):
                best = clock + duration / 2 - times[0] / 1000, duration
    except KafkaError as error:
        why = cause_of(error)
    else:
        why = "the quorum reports no times"
    if best is not None:
        return compare_clocks(check, best[0], best[1] / 2, "the controller")
    return check.skipped(
        f"the brokers' clock cannot be read: {why}",
        "DescribeQuorum needs Kafka 3.3 with KRaft and DESCRIBE on the cluster; or pass --write and a topic with "
        "message.timestamp.type=LogAppendTime",
    )


def compare_clocks(check: Check, difference: float, uncertainty: float, other: str) -> Finding:
    """Returns a finding about the difference of two clocks.

    Args:
        check: the check.
        difference: seconds by which this machine's clock is ahead.
        uncertainty: seconds by which `difference` may be wrong.
        other: owner of the other clock.
    """
    certain = max(0.0, abs(difference) - uncertainty)
    if certain < _CLOCK_WARNING:
        return check.ok(f"differs from {other} by {abs(difference):.2f} s (± {uncertainty:.2f} s)")
    text = f"this machine's clock is {span(abs(difference))} {'ahead of' if difference > 0 else 'behind'} {other}"
    effects = "certificates, tokens, Kerberos, times of records and reads by time depend on it"
    remedy = "synchronise both with NTP: `timedatectl` or `chronyc tracking` shows which of them is wrong"
    return (check.failed if certain >= _CLOCK_FAILURE else check.warning)(f"{text}: {effects}", remedy)


def span(seconds: float) -> str:
    """Returns a duration as text, in the largest unit."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        # Rounds 59.99 minutes up to an hour.
        if seconds >= size * 0.95:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
