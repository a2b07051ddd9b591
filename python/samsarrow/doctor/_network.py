"""Checks of name resolution and of TCP connections."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from samsarrow.doctor._finding import Check, Finding, Status
from samsarrow.doctor._parallel import map_until


class Server(NamedTuple):
    """The address of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if the address is this machine's own."""
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"


class Reach(NamedTuple):
    """Result of the checks of a server. The server can be used if `address` is not None."""

    finding: Finding
    address: str | None


def parse(bootstrap: str | Sequence[str]) -> list[Server]:
    """Returns the servers of `bootstrap.servers`, which the client has accepted."""
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else bootstrap
    servers = []
    for text in (text.strip() for text in texts if text.strip()):
        host, _, port = text.rpartition(":")
        servers.append(Server(host.removeprefix("[").removesuffix("]"), int(port)))
    return list(dict.fromkeys(servers))


def resolve(servers: Sequence[Server], timeout: float) -> tuple[list[Finding], dict[Server, list[str]]]:
    """Checks that the names of servers can be resolved. Returns the findings, and addresses by server."""

    def one(host: str) -> tuple[Finding, list[str]]:
        return _lookup(host)

    hosts = list(dict.fromkeys(server.host for server in servers))
    started = Check("dns")
    findings, addresses = [], {}
    for host, found in zip(hosts, map_until(one, hosts, timeout), strict=True):
        if found is None:
            late = started.failed(f"the resolver did not respond within {timeout:g} s", "check the DNS of this machine")
            found = Finding("dns", host, late.status, late.detail, late.remedy, late.seconds), []
        findings.append(found[0])
        addresses[host] = found[1]
    return findings, {server: addresses[server.host] for server in servers if addresses[server.host]}


def _lookup(host: str) -> tuple[Finding, list[str]]:
    check = Check("dns", host)
    if "/" in host:
        scheme = host.partition("://")[0]
        return check.failed(f"{host!r} is a URL", f"write host:port in bootstrap.servers, without {scheme}://"), []
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        text = error.strerror if isinstance(error, socket.gaierror) else str(error)
        return check.failed(
            f"the host name cannot be resolved: {text}",
            f"check the spelling in bootstrap.servers, and compare with `getent hosts {host}` on this machine; names "
            "of containers and private zones resolve only inside their network",
        ), []
    addresses = list(dict.fromkeys(str(row[4][0]) for row in found))
    if _is_address(host):
        return check.ok("an address, no name to resolve"), addresses
    count = sum(":" in address for address in addresses)
    kinds = f"{len(addresses) - count} IPv4, {count} IPv6"
    return check.ok(f"{', '.join(addresses[:4])}{', …' if len(addresses) > 4 else ''} ({kinds})"), addresses


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def connect(servers: Mapping[Server, Sequence[str]], timeout: float) -> dict[Server, Reach]:
    """Checks TCP connections to all addresses of servers.

    Args:
        servers: addresses by server.
        timeout: seconds for all connections.
    """
    pairs = [(server, address) for server, addresses in servers.items() for address in addresses]

    def one(pair: tuple[Server, str]) -> tuple[Finding, int]:
        return _connect(pair[0], pair[1], timeout * 0.9)

    started = Check("tcp")
    results = dict(zip(pairs, map_until(one, pairs, timeout), strict=True))
    reached = {}
    for server, addresses in servers.items():
        found = {address: results[server, address] for address in addresses}
        good = [address for address, result in found.items() if result is not None and result[1] == 0]
        bad = [address for address in addresses if address not in good]
        results_of_bad = [found[address] for address in bad]
        failures = [result[0] for result in results_of_bad if result is not None]
        if not good:
            worst = failures[0] if failures else started.failed(f"not tried within {timeout:g} s", "pass a --timeout")
            others = f" (as for {', '.join(bad[1:])})" if len(failures) > 1 else ""
            reached[server] = Reach(_of(worst, server, worst.detail + others), None)
        elif failures:
            detail = f"connected to {good[0]}, but not to {bad[0]}: {failures[0].detail}"
            if all(result is not None and result[1] == errno.ECONNREFUSED for result in results_of_bad):
                # Clients try the next address at once. `localhost` often has an IPv6 address on which brokers do not
                # listen.
                done = Finding("tcp", str(server), Status.OK, detail, "", failures[0].seconds)
                reached[server] = Reach(done, good[0])
                continue
            remedy = (
                f"clients try each address in turn, so they connect late: fix the route to {bad[0]}, or its DNS entry"
            )
            warned = Finding("tcp", str(server), Status.WARNING, detail, remedy, failures[0].seconds)
            reached[server] = Reach(warned, good[0])
        else:
            first = found[good[0]]
            assert first is not None
            reached[server] = Reach(_of(first[0], server, f"connected to {', '.join(good[:4])}"), good[0])
    return reached


def _of(finding: Finding, server: Server, detail: str) -> Finding:
    return Finding(finding.check, str(server), finding.status, detail, finding.remedy, finding.seconds)


def _connect(server: Server, address: str, timeout: float) -> tuple[Finding, int]:
    """Connects once. Returns the finding, and the error number or 0."""
    check = Check("tcp", str(server))
    try:
        socket.create_connection((address, server.port), timeout).close()
    except TimeoutError:
        return check.failed(
            f"{address} does not respond on port {server.port} within {timeout:g} s",
            "check the host, and firewalls, security groups and VPN between this machine and the broker",
        ), errno.ETIMEDOUT
    except OSError as error:
        number = error.errno or errno.EIO
        if number == errno.ECONNREFUSED:
            return check.failed(
                f"connection refused: no process listens on port {server.port} of {address}",
                "check that the broker runs, and that the port is one of its `listeners` (9092 by default)",
            ), number
        text = error.strerror or str(error)
        return check.failed(
            f"{address} cannot be reached: {text}", "check the routes and the network of this machine"
        ), (number)
    return check.ok(f"connected to {address}"), 0
