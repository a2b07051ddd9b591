"""What the processes of a test are doing that should be doing something else."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """A process and all below it, with their names."""
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
    for one in parents:
        above = one
        while above in parents and above != pid:
            above = parents[above]
        if above == pid:
            found[one] = names[one]
    return found


def dump_stacks(pid: int) -> str:
    """The stacks of all threads of the JVMs below a process.

    Python processes are made to write theirs to their standard error, which needs `PYTHONFAULTHANDLER=1` in their
    environment; they end by it.
    """
    below = descendants(pid)
    said = [f"processes: {below}"]
    for one, name in below.items():
        if name == "java":
            done = subprocess.run(["jstack", str(one)], capture_output=True, text=True, timeout=30, check=False)
            said.append(done.stdout)
    # The process itself comes last: it may end the others.
    for one in sorted(below, key=lambda one: one == pid):
        if below[one].startswith("python"):
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGABRT)
            time.sleep(0.1)
    time.sleep(2)
    return "\n".join(said)
