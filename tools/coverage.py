"""Prints the share of covered lines, by crate and by Python package, from reports of cargo-llvm-cov and coverage.py."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def rust_lines(report: Path) -> dict[str, tuple[int, int]]:
    """Returns covered and all lines of each crate."""
    lines: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for file in json.loads(report.read_text())["data"][0]["files"]:
        parts = Path(file["filename"]).relative_to(ROOT).parts
        if len(parts) > 2 and parts[0] == "rust" and parts[2] == "src":
            crate, summary = "/".join(parts[:2]), file["summary"]["lines"]
            lines[crate] = (lines[crate][0] + summary["covered"], lines[crate][1] + summary["count"])
    return lines


def python_lines(report: Path) -> dict[str, tuple[int, int]]:
    """Returns covered and all lines of each Python package."""
    lines: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for name, file in json.loads(report.read_text())["files"].items():
        package, summary = str(Path(name).parent), file["summary"]
        covered = lines[package][0] + summary["covered_lines"]
        lines[package] = (covered, lines[package][1] + summary["num_statements"])
    return lines


def main() -> int:
    """Prints a table."""
    rust, python = map(Path, sys.argv[1:])
    for lines in (rust_lines(rust), python_lines(python)):
        total = tuple(map(sum, zip(*lines.values(), strict=True)))
        for name, (covered, count) in [*sorted(lines.items()), ("all", total)]:
            print(f"{name:34} {covered:7} of {count:7} lines  {covered / max(count, 1):6.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
