"""Stacks of a test's child processes, for reports of tests that hang."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """Returns the names of a process and all of its descendants, by process id."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            names[int(entry.name)] = text[text.index("(") + 1 : text.rindex(")")]
            parents[int(entry.name)] = int(text.rpartition(")")[2].split()[1])
    found = {}
    for child in parents:
        above = child
        while above in parents and above != pid:
            above = parents[above]
        if above == pid:
            found[child] = names[child]
    return found


def dump_stacks(pid: int) -> str:
    """Returns the stacks of all threads of the JVMs among a process and its descendants.

    Python processes write their stacks to standard error and end, if `PYTHONFAULTHANDLER=1` is set in their
    environment.
    """
    below = descendants(pid)
    lines = [f"processes: {below}"]
    for child, name in below.items():
        if name == "java":
            done = subprocess.run(["jstack", str(child)], capture_output=True, text=True, timeout=30, check=False)
            lines.append(done.stdout)
    # The process itself comes last, because its descendants may end with it.
    for child in sorted(below, key=lambda child: child == pid):
        if below[child].startswith("python"):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGABRT)
            time.sleep(0.1)
    time.sleep(2)
    return "\n".join(lines)
