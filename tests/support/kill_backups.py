"""Commands that are killed at random times and started again, until a run completes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable


class Killer:
    """Runs commands of `samsarrow`, and kills them with SIGKILL.

    Args:
        draw: generator of the times of the kills.
    """

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.kills = 0

    def run(self, seconds: float, limit: int, progress: Callable[[], float], *arguments: str) -> list[str]:
        """Runs a command until it has ended by itself, and returns the output of each run.

        Two of three kills follow when the command has done a random part of its work, the others after a random time.

        Args:
            seconds: duration of the command.
            limit: maximum number of kills.
            progress: returns the part of the work that is done, from 0 to 1.
            *arguments: arguments of `samsarrow`.
        """
        outputs = []
        for number in range(limit + 1):
            with tempfile.TemporaryFile("w+") as out:
                process = subprocess.Popen(
                    [sys.executable, "-m", "samsarrow.cli", *arguments], stdout=out, stderr=subprocess.STDOUT
                )
                if number < limit:
                    self._kill(process, seconds, progress)
                process.wait(170)
                out.seek(0)
                outputs.append(f"{process.returncode}: {out.read()}")
            if process.returncode == 0:
                return outputs
            assert process.returncode == -signal.SIGKILL, "\n".join(outputs)
            self.kills += 1
        raise AssertionError("\n".join(outputs))

    def _kill(self, process: subprocess.Popen[bytes], seconds: float, progress: Callable[[], float]) -> None:
        deadline = time.monotonic() + self._draw.uniform(0.3, seconds)
        part = self._draw.uniform(progress(), 1.0) if self._draw.random() < 0.67 else None
        while process.poll() is None:
            if time.monotonic() > deadline if part is None else progress() >= part:
                process.send_signal(signal.SIGKILL)
                return
            time.sleep(0.002)

    def duration(self, *arguments: str) -> float:
        """Runs a command without a kill, and returns its duration."""
        started = time.monotonic()
        self.run(0.3, 0, lambda: 0.0, *arguments)
        return time.monotonic() - started
