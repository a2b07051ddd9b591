"""Compares runs of several sources: interleaves them, and returns medians, their spread, and the CPU time used."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Taken:
    """Measurements of the runs of one source."""

    seconds: list[float] = field(default_factory=list)
    # CPU seconds of the JVM, of Python's workers, and of the broker.
    cpu: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """The difference between the slowest and the fastest run, relative to the median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


class Clock:
    """Measures runs.

    Args:
        rounds: number of measured runs of each source, after one warm-up.
        jvm: process of Spark's driver.
        broker: process of Kafka.
    """

    def __init__(self, rounds: int, jvm: int, broker: int) -> None:
        self._rounds, self._jvm, self._broker = rounds, jvm, broker

    def by_turns(self, runs: dict[str, Callable[[], object]]) -> dict[str, Taken]:
        """Runs each source once as a warm-up, then all sources interleaved, so that slow phases of the machine
        affect all.
        """
        for run in runs.values():
            run()
        taken = {name: Taken() for name in runs}
        for _ in range(self._rounds):
            for name, run in runs.items():
                before, start = self._cpu(), time.perf_counter()
                run()
                taken[name].seconds.append(time.perf_counter() - start)
                spent = zip(taken[name].cpu, self._cpu(), before, strict=True)
                # The CPU time of a Python worker daemon is lost when it ends.
                taken[name].cpu = [so_far + max(after - ahead, 0) for so_far, after, ahead in spent]
        return taken

    def _cpu(self) -> list[float]:
        return [_of(self._jvm), _of_workers(), _of(self._broker)]

    def peak(self) -> int:
        """The peak memory of the JVM, in MiB."""
        status = Path(f"/proc/{self._jvm}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


def _of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS


def _of_workers() -> float:
    """Returns the CPU time of all Python descendants of this process, including those that ended and were reaped."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        parents[int(entry.name)] = int(fields[1])
        name = text[text.index("(") + 1 : text.rindex(")")]
        used[int(entry.name)] = sum(map(int, fields[11:15])) if name.startswith("python") else 0
    total = 0
    for pid, ticks in used.items():
        above = pid
        while above in parents and above not in (0, os.getpid()):
            above = parents[above]
        if above == os.getpid() and pid != above:
            total += ticks
    return total / TICKS
