"""What the matrix found, as lines and as docs/compatibility.md."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from support.kafka_releases import RELEASES

from .features import FEATURES, SPARK
from .probe import DEFECT, REFUSED, WORKS, Outcome
from .surroundings import NOT_RUN, Row

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compatibility.md"
_CELLS = {WORKS: "yes", REFUSED: "no", DEFECT: "**defect**", NOT_RUN: "not run"}
_ROWS = {
    **{f.name: f.title for f in (*FEATURES, SPARK)},
    "exit": "the process ends with exit code 0",
    "broker": "the broker starts, and stays up",
}


def report(what: str, outcomes: Sequence[Outcome], seconds: float) -> None:
    """What came of one Kafka, and every text that is no success."""
    counts = ", ".join(f"{sum(o.kind == kind for o in outcomes)} {kind}" for kind in (WORKS, REFUSED, DEFECT))
    print(f"{what}: {counts} ({seconds:.0f} s)")
    for outcome in outcomes:
        if outcome.kind != WORKS:
            print(f"  {outcome.kind} {outcome.feature} ({outcome.seconds:.1f} s): {_line(outcome.text)}", flush=True)


def _line(text: str) -> str:
    return " ".join(text.split())[:500]


def _short(version: str) -> str:
    """A Kafka without the number of its last release of mends, which names nothing."""
    return version.rpartition(".")[0]


def kafka_table(found: Mapping[str, Sequence[Outcome]]) -> str:
    """A row for each feature, a column for each Kafka."""
    cells = {version: {o.feature: o.kind for o in outcomes} for version, outcomes in found.items()}
    lines = [f"| | {' | '.join(map(_short, found))} |", f"|---|{'---|' * len(found)}"]
    for name, title in _ROWS.items():
        row = (_CELLS.get(cells[version].get(name, ""), "") for version in found)
        lines.append(f"| {title} | {' | '.join(row)} |")
    return "\n".join(lines)


def surroundings_tables(rows: Iterable[Row]) -> str:
    """One table for each group of rows."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    parts = []
    for group, its in groups.items():
        lines = [f"## {group}", "", "| | | |", "|---|---|---|"]
        lines += [f"| {r.what} | {_CELLS[r.kind]} | {_line(r.text).replace('|', '/')} |" for r in its]
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def write(found: Mapping[str, Sequence[Outcome]], rows: Iterable[Row]) -> None:
    """docs/compatibility.md."""
    PAGE.write_text(_PAGE.format(kafka=kafka_table(found), refusals=_refusals(found), rest=surroundings_tables(rows)))


def _refusals(found: Mapping[str, Sequence[Outcome]]) -> str:
    """What the newest Kafka without it gets, for each feature that some have not."""
    texts: dict[str, tuple[str, str]] = {}
    for version, outcomes in found.items():
        for outcome in outcomes:
            if outcome.kind == REFUSED:
                texts[outcome.feature] = (version, _line(outcome.text))
    since = {f.name: f.since for f in FEATURES}
    lines = ["| | since | what an older one gets |", "|---|---|---|"]
    for name, (version, text) in texts.items():
        lines.append(f"| {_ROWS[name]} | {since[name]} | {_short(version)}: {_generic(text)} |")
    return "\n".join(lines)


def _generic(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text)
    return re.sub(r"\bm\d+-\d+(-\d+)?\b", "NAME", text).replace("|", "/")


_PAGE = f"""# Compatibility

Written by `make test-matrix`, which tries all of it and checks every value that comes back; nothing here is taken from
documents. *yes*: it works. *no*: that version cannot do it, and the error says which one can. There is no third kind:
what is silently wrong, hangs, or fails with a text that does not help is a defect, and fails the run.

## Apache Kafka

The oldest is Kafka 0.8.2. Kafkas up to 3.0 run with ZooKeeper here, later ones as one KRaft node; the last release of
mends of each: {", ".join(RELEASES)}.

{{kafka}}

What is refused, and how:

{{refusals}}

{{rest}}
"""
