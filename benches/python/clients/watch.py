"""Resources that this process uses: seconds, user and system CPU seconds, memory, page faults."""

import resource
import time
from pathlib import Path
from typing import Any

Measured = dict[str, Any]


def peak_rss_mib() -> float:
    """Returns the peak memory of this process. The value of getrusage would include the process that started this
    one.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def forget_peak() -> None:
    """Resets the peak memory."""
    Path("/proc/self/clear_refs").write_text("5")


class Watch:
    """Measures resources from its construction on."""

    def __init__(self) -> None:
        self._used = resource.getrusage(resource.RUSAGE_SELF)
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def found(self, rows: int, **more: Any) -> Measured:
        seconds, used, before = self.seconds, resource.getrusage(resource.RUSAGE_SELF), self._used
        cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        faults = used.ru_minflt - before.ru_minflt
        return {"rows": rows, "seconds": seconds, "cpu": cpu, "rss_mib": peak_rss_mib(), "faults": faults, **more}
