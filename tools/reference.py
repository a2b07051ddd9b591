"""Generates the reference pages of options and metrics from the tables of the Rust client.

Each option and metric has a heading, so that it has an anchor on GitHub and on the site. `make generate` runs this
through pages.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from samsarrow import _core
from samsarrow.metrics.table import MetricSpec, table

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = ROOT / "docs" / "options.md"
METRICS = ROOT / "docs" / "metrics.md"
MARK = "<!-- Below: by `make generate`, from the tables of the Rust client. -->\n"
CLIENTS = ("producer", "consumer", "admin")


class Option(NamedTuple):
    """A row of the table of options.

    Attributes:
        name: Kafka's name.
        clients: `all`, or names separated by commas.
        values: description of the type.
        default: default in backticks, or a dash.
        meaning: description, with the aliases.
    """

    name: str
    clients: str
    values: str
    default: str
    meaning: str


# Areas of options in the order of the page, with beginnings of names. The longest beginning of a name decides.
AREAS: dict[str, tuple[str, ...]] = {
    "Connections": ("bootstrap.", "client.", "socket.", "connections.", "reconnect.", "receive.", "send.buffer"),
    "Timeouts and retries": (
        "request.timeout", "default.api.timeout", "retry.backoff", "retries", "delivery.timeout", "max.block",
    ),
    "Metadata": ("metadata.",),
    "API versions": ("api.version.", "broker.version.fallback"),
    "Logins": ("security.protocol", "sasl.", "sasl.login.callback"),
    "OAUTHBEARER": ("sasl.oauthbearer.", "sasl.login.", "enable.sasl.oauthbearer.", "https.ca."),
    "Kerberos": ("sasl.kerberos.",),
    "TLS": ("ssl.", "enable.ssl."),
    "Configuration providers": ("config.providers",),
    "Client metrics": ("metrics.", "enable.metrics.push"),
    "Groups": (
        "group.", "session.", "heartbeat.", "max.poll.interval", "partition.assignment", "exclude.internal",
        "allow.auto.create",
    ),
    "Offsets": ("enable.auto.", "auto."),
    "Fetching": ("isolation.", "fetch.", "max.partition.fetch", "queued.max", "check.crcs", "max.decompressed"),
    "Batches of a consumer": ("max.poll.records", "layout", "include."),
    "Share consumers": ("share.",),
    "Delivery": ("acks", "enable.idempotence", "max.in.flight"),
    "Transactions": ("transaction",),
    "Batches of a producer": ("linger.", "batch.", "buffer.", "max.request", "compression.", "message.format"),
    "Partitioning": ("partitioner",),
}  # fmt: skip


def option_rows() -> list[Option]:
    """Returns all options, with those whose names contain NAME."""
    rows = [line for line in _core.options_markdown().splitlines() if line.startswith("| `")]
    return [Option(cells[0].strip("`"), *cells[1:]) for cells in (row[2:-2].split(" | ") for row in rows)]


def area_of(name: str) -> str:
    """Returns the area of an option.

    Raises:
        SystemExit: no area has a beginning of the name.
    """
    found = [(len(start), area) for area, starts in AREAS.items() for start in starts if name.startswith(start)]
    if not found:
        raise SystemExit(f"option {name} is in no area of tools/reference.py: add a beginning of its name to one")
    return max(found)[1]


def options() -> str:
    """Returns docs/options.md: lines up to the marker are hand-written."""
    areas: dict[str, list[Option]] = {area: [] for area in AREAS}
    for option in option_rows():
        areas[area_of(option.name)].append(option)
    parts = [_contents({area: len(found) for area, found in areas.items()})]
    for area, found in areas.items():
        parts.append(f"## {area}")
        for option in found:
            clients = "all clients" if option.clients == "all" else option.clients
            values = option.values.replace("whole number", "integer")
            default = "no default" if not option.default.startswith("`") else f"default {option.default}"
            parts.append(f"### `{option.name}`\n\n*{clients} · {values} · {default}*\n\n{option.meaning}")
    return _page(OPTIONS, parts)


def metrics() -> str:
    """Returns docs/metrics.md: lines up to the marker are hand-written."""
    sections: dict[str, dict[tuple[str, str, str], list[tuple[str, MetricSpec]]]] = {}
    for area in METRIC_AREAS:
        sections[area] = {}
    specs = [(client, spec) for client in CLIENTS for spec in table(client)]
    everywhere = {
        key for key in {_key(spec) for _, spec in specs} if len({c for c, s in specs if _key(s) == key}) == len(CLIENTS)
    }
    for client, spec in specs:
        shared = _key(spec) in everywhere
        area = _metric_area(client, spec, shared)
        sections[area].setdefault((*_key(spec), "" if shared else client), []).append((client, spec))
    parts = [_contents({area: len(found) for area, found in sections.items()})]
    seen: set[str] = set()
    for area, found in sections.items():
        parts.append(f"## {area}")
        for (name, label, client), its in found.items():
            heading = f"`{name}`"
            if name in seen:
                heading += f" of each {LABELS[label]}" if label != "none" else f" of {client}s"
            seen.add(name)
            parts.append("\n\n".join([f"### {heading}", *_metric(its)]))
    conventions = (
        "OpenTelemetry's names that begin with `messaging.` follow its semantic conventions "
        f"{_core.opentelemetry_conventions()}, whose messaging part is still in development."
    )
    return _page(METRICS, [conventions, *parts])


LABELS = {"topic": "topic", "partition": "partition", "node": "broker", "api": "kind of request"}
METRIC_AREAS = (
    "All clients", "Each broker", "Producer", "Producer, each topic", "Fetching", "Fetching, each topic and partition",
    "Polls", "Groups and commits",
)  # fmt: skip


def _key(spec: MetricSpec) -> tuple[str, str]:
    return spec.name, spec.label


def _metric_area(client: str, spec: MetricSpec, shared: bool) -> str:
    if spec.label == "node":
        return "Each broker"
    if shared:
        return "All clients"
    if client == "producer":
        return "Producer, each topic" if spec.label == "topic" else "Producer"
    if spec.label in ("topic", "partition"):
        return "Fetching, each topic and partition"
    group = spec.group
    return "Groups and commits" if "coordinator" in group else "Polls" if group == "consumer-metrics" else "Fetching"


def _metric(its: list[tuple[str, MetricSpec]]) -> Iterator[str]:
    """Yields the paragraphs of a metric: its kind, its meaning, and its names."""
    first = its[0][1]
    each = f" · of each {LABELS[first.label]}" if first.label != "none" else ""
    clients = "all clients" if len(its) == len(CLIENTS) else ", ".join(client for client, _ in its)
    yield f"*{clients} · {first.kind} · {first.unit}{each}*"
    meanings = {spec.doc: client for client, spec in its}
    if len(meanings) == 1:
        yield first.doc
    else:
        yield " ".join(f"{client.capitalize()}: {doc}" for doc, client in meanings.items())
    names = {
        "Java's group": [spec.group for _, spec in its],
        "Prometheus": [spec.prometheus for _, spec in its],
        "OpenTelemetry": [spec.opentelemetry for _, spec in its],
        "KIP-714": [spec.telemetry for _, spec in its],
    }
    lines = []
    for system, found in names.items():
        given = [f"`{name}`" for name in dict.fromkeys(found) if name]
        if given:
            lines.append(f"- {system}: {', '.join(given)}")
    yield "\n".join(lines)


def _contents(sections: dict[str, int]) -> str:
    """Returns links to the sections, with the number of their entries."""
    links = [f"[{title}](#{slug(title)}) ({count})" for title, count in sections.items()]
    return " · ".join(links)


def slug(heading: str) -> str:
    """Returns the anchor of a heading of ASCII letters, on GitHub and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _page(path: Path, parts: list[str]) -> str:
    own, mark, _ = path.read_text().partition(MARK)
    if not mark:
        raise SystemExit(f"{path.name} has no line {MARK!r}")
    return own + mark + "\n" + "\n\n".join(parts) + "\n"


PAGES = {OPTIONS: options, METRICS: metrics}
