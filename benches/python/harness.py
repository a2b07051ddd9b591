"""Runs clients in separate processes, and collects their measurements for the final table."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clients.tuning import DEFAULTS, module, variables
from support.kafka import KafkaServer

HERE = Path(__file__).resolve().parent
BYTECODE = HERE.parent.parent / ".cache" / "bytecode"
# Variables of containers that make Python slower than where it is installed by other means.
UNUSUAL = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
# Width of the column of names.
NAME = 24
RECORDS = int(os.environ.get("SAMSARROW_BENCH_RECORDS", "3000000"))
Result = dict[str, Any]
results: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
# Lines by title of their section, for results that do not fit the table of rates.
sections: dict[str, list[str]] = defaultdict(list)
groups, metrics = sections["groups"], sections["metrics"]
# Figures by bench and row that are no rate of records: latencies, ratios, times. They go to the file of results.
measured: dict[str, dict[str, Any]] = defaultdict(dict)


@dataclass(frozen=True)
class Secured:
    """Address and options of a secured listener of the same Kafka."""

    bootstrap_servers: str
    options: dict[str, str]


def run_client(
    name: str,
    verb: str,
    kafka: KafkaServer,
    topic: str,
    count: int = RECORDS,
    kind: str = "100B",
    codec: str = "none",
    secured: Secured | None = None,
) -> Any:
    """Runs one client once for one verb, in a fresh process. A name that ends in `DEFAULTS` runs it untuned."""
    servers = kafka.bootstrap_servers if secured is None else secured.bootstrap_servers
    environment = {} if secured is None else {"SAMSARROW_BENCH_SECURITY": json.dumps(secured.options)}
    environment |= variables(name)
    return run_module("clients", module(name), verb, servers, topic, count, kind, codec, **environment)


def python(module: str, *arguments: object) -> list[str]:
    """Returns the command line that runs a bench module, for a process that has the variables of `environment`."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Returns the variables of bench processes.

    Bytecode of modules is written, as pip does when it installs them. Without bytecode, the command line takes 0.13 s
    more to start.
    """
    kept = {name: text for name, text in os.environ.items() if name not in UNUSUAL}
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    return kept | {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(BYTECODE)} | more


def run_module(module: str, *arguments: object, **more: str) -> Any:
    """Runs a module to completion, with additional environment variables."""
    return run_command(python(module, *arguments), environment(**more))


def run_command(command: Sequence[str], variables: dict[str, str] | None = None) -> Any:
    """Runs a program that prints its result as one line of JSON."""
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def record(verb: str, client: str, result: Result) -> None:
    """Adds one measured run to the table."""
    results[verb][client].append(result)


def create_topic(kafka: KafkaServer, topic: str, partitions: int = 1) -> str:
    """Creates a topic with Kafka's own tool."""
    kafka.tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap_servers,
        "--create", "--topic", topic, "--partitions", str(partitions),
    )  # fmt: skip
    return topic


def median(runs: list[Result]) -> Result:
    """Returns the run with the median time."""
    return sorted(runs, key=lambda r: float(r["seconds"]))[len(runs) // 2]


def medians(verb: str) -> dict[str, Result]:
    """Returns the median run of each client."""
    return {client: median(runs) for client, runs in results[verb].items()}


def turns(clients: Sequence[str], runs: int) -> Iterable[str]:
    """Yields clients one after the other, in opposite order in every second run, so that none is always first."""
    for number in range(runs):
        yield from clients if number % 2 == 0 else reversed(clients)


def each_run(name: str, figures: dict[str, list[float]], unit: str = "us", digits: int = 0) -> str:
    """Returns a line with the figures of each run, so that readers can compare the runs."""
    cells = (f"{what} {', '.join(f'{x:,.{digits}f}' for x in found)} {unit}" for what, found in figures.items())
    return f"{name:<{NAME}}" + "  ".join(f"{cell:<32}" for cell in cells).rstrip()


def table() -> list[str]:
    """Returns medians of the runs, and each client's rate relative to confluent-kafka and to the raw loop."""
    lines = []
    for what in results:
        middle = medians(what)
        faulty = any("faults" in r for r in middle.values())
        head = f"{'client':<{NAME}}{'records/s':>14}{'CPU us/record':>16}{'peak RSS MiB':>15}"
        head += f"{'faults/million':>17}" if faulty else ""
        lines += ["", f"{what}: Apache Kafka on this machine, median of runs"]
        lines.append(head + "".join(f"{title:>14}" for title in ("x confluent", "x raw loop")))
        # Clients with their defaults come first, and are compared with each other.
        for name, r in sorted(middle.items(), key=lambda item: (not item[0].endswith(DEFAULTS), -rate(item[1]))):
            untuned = middle.get(f"confluent{DEFAULTS}") if name.endswith(DEFAULTS) else None
            peers = untuned or middle.get("confluent"), middle.get("raw")
            ratios = [f"{rate(r) / rate(p):.2f}" if p else "-" for p in peers]
            line = f"{name:<{NAME}}{rate(r):>14,.0f}{cpu_us(r):>16.3f}{r['rss_mib']:>15,.0f}"
            faults = f"{r['faults'] / r['rows'] * 1e6:,.0f}" if "faults" in r else "-"
            line += f"{faults:>17}" if faulty else ""
            lines.append(line + "".join(f"{ratio:>14}" for ratio in ratios))
    for title, found in sections.items():
        lines += ["", title, *found] if found else []
    return lines


def figures() -> dict[str, Any]:
    """Returns the medians of each client for the file of results, and the lines of the sections."""
    medians_of = {what: medians(what) for what in results}
    rows = {
        what: {
            client: {
                "records_per_second": round(rate(r)),
                "cpu_us_per_record": round(cpu_us(r), 4),
                "peak_rss_mib": round(r["rss_mib"]),
                **({"faults_per_million": round(r["faults"] / r["rows"] * 1e6)} if "faults" in r else {}),
            }
            for client, r in middle.items()
        }
        for what, middle in medians_of.items()
    }
    return {
        "medians": rows,
        "measured": measured,
        "lines": {title: lines for title, lines in sections.items() if lines},
    }


def rate(result: Result) -> float:
    """Returns records per second."""
    return float(result["rows"] / result["seconds"])


def cpu_us(result: Result) -> float:
    """Returns microseconds of CPU per record."""
    return float(result["cpu"] / result["rows"] * 1e6)
