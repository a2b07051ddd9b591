"""Generates a Grafana dashboard from the table of metrics: `python dashboards/build.py > dashboards/samsarrow.json`."""

from __future__ import annotations

import json
import sys
from typing import Any

from samsarrow.metrics import MetricSpec, table

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
TITLES = {"producer": "Producers", "consumer": "Consumers", "admin": "Admin clients"}
# Grafana's unit names.
UNITS = {"By": "bytes", "s": "s", "1": "short", "{message}": "short"}
WIDTH, HEIGHT, COLUMNS = 8, 7, 3
# Maximum number of series in a panel, for metrics with many series.
MOST = 20
# Metrics at the top of the dashboard.
FIRST = {
    "producer": ("record-send-total", "record-error-total", "delivery-latency", "queued-records"),
    "consumer": ("records-consumed-total", "records-lag", "end-to-end-latency", "rebalance-total"),
    "admin": ("request-total", "api-latency"),
}


def targets(row: MetricSpec) -> list[dict[str, Any]]:
    """Returns the Prometheus queries of a metric's panel."""
    own = {"none": "", "topic": " {{topic}}", "partition": " {{topic}}-{{partition}}"}
    legend = "{{client_id}}" + own.get(row.label, f" {{{{{row.label}}}}}")
    chosen = f'{row.prometheus}{{client_id=~"$client_id"'
    if row.kind == "counter":
        queries = [(f"rate({chosen}}}[$__rate_interval])", legend)]
    elif row.kind == "summary":
        queries = [(f'{chosen},quantile="{q}"}}', f"{legend} p{float(q) * 100:g}") for q in ("0.5", "0.95", "0.99")]
    else:
        queries = [(f"{chosen}}}", legend)]
    if row.label == "partition":
        queries = [(f"topk({MOST}, {query})", legend) for query, legend in queries]
    return [
        {"datasource": SOURCE, "expr": query, "legendFormat": legend, "refId": chr(ord("A") + at)}
        for at, (query, legend) in enumerate(queries)
    ]


def unit(row: MetricSpec) -> str:
    """Returns Grafana's unit of a metric. Counters are shown as rates, so their unit is per second."""
    if row.prometheus and row.prometheus.endswith("start_time_seconds"):
        return "s"
    if row.kind != "counter":
        return "percentunit" if row.unit == "0 to 1" else UNITS.get(row.base_unit, "short")
    return {"By": "Bps", "s": "percentunit"}.get(row.base_unit, "cps")


def title(row: MetricSpec) -> str:
    """Returns the title of a panel; `records-consumed-total` by topic is "Records consumed by topic, a second"."""
    words = row.name.removesuffix("-total").removesuffix("-count").replace("-", " ").capitalize()
    of = "" if row.label == "none" else f" by {row.label}"
    return f"{words}{of}" + (", a second" if row.kind == "counter" else "")


def dashboard() -> dict[str, Any]:
    """Returns the complete dashboard."""
    panels: list[dict[str, Any]] = []
    y = 0
    for client, name in TITLES.items():
        rows = [row for row in table(client) if row.prometheus and row.name != "start-time-ms"]
        first = FIRST[client]
        order = sorted(rows, key=lambda row: first.index(row.name) if row.name in first else len(first))
        inside = []
        for at, row in enumerate(order):
            place = {"x": at % COLUMNS * WIDTH, "y": y + 1 + at // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT}
            inside.append(
                {
                    "id": 0,
                    "type": "timeseries",
                    "title": title(row),
                    "description": row.doc,
                    "datasource": SOURCE,
                    "gridPos": place,
                    "fieldConfig": {"defaults": {"unit": unit(row), "min": 0}, "overrides": []},
                    "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
                    "targets": targets(row),
                }
            )
        head = {"id": 0, "type": "row", "title": name, "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}}
        y += 1 + (len(inside) + COLUMNS - 1) // COLUMNS * HEIGHT
        panels += [{**head, "collapsed": False, "panels": []}, *inside]
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    clients = 'label_values({__name__=~"samsarrow_.*_connections"}, client_id)'
    return {
        "uid": "samsarrow",
        "title": "samsarrow",
        "description": "Clients of samsarrow, as samsarrow.metrics.prometheus shows them. Made by dashboards/build.py.",
        "tags": ["kafka", "samsarrow"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "client_id",
                    "type": "query",
                    "label": "Client",
                    "datasource": SOURCE,
                    "query": clients,
                    "definition": clients,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "refresh": 2,
                },
            ]
        },
        "panels": panels,
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=1)
    sys.stdout.write("\n")
