"""The result of a check."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from samsarrow.doctor._stopwatch import Stopwatch


class Status(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    """The check found no problem."""
    WARNING = "warning"
    """Clients work, but not as most applications expect, or not for much longer."""
    FAILED = "failed"
    """A problem that clients cannot work around."""
    SKIPPED = "skipped"
    """The check was not possible; `detail` has the reason."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        check: name of the check, such as `tls` or `acl`.
        subject: the checked server, broker, topic or group; empty if the check is about the whole cluster.
        status: outcome of the check.
        detail: what was found: the cause, if the check failed.
        remedy: the option to set or the command to run; empty if there is nothing to do.
        seconds: duration of the check.
    """

    check: str
    subject: str
    status: Status
    detail: str
    remedy: str = ""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes as a dictionary, for JSON."""
        return {**asdict(self), "status": self.status.value, "seconds": round(self.seconds, 4)}


class Check:
    """A check in progress, which measures its duration and creates its findings.

    Args:
        name: name of the check.
        subject: subject of the findings.
    """

    def __init__(self, name: str, subject: str = "") -> None:
        self._name, self._subject = name, subject
        self._watch = Stopwatch()

    def ok(self, detail: str) -> Finding:
        """Returns a finding without a problem."""
        return self._finding(Status.OK, detail, "")

    def warning(self, detail: str, remedy: str) -> Finding:
        """Returns a finding with a problem that clients can work around."""
        return self._finding(Status.WARNING, detail, remedy)

    def failed(self, detail: str, remedy: str) -> Finding:
        """Returns a finding with a problem."""
        return self._finding(Status.FAILED, detail, remedy)

    def skipped(self, detail: str, remedy: str = "") -> Finding:
        """Returns a finding for a check that was not possible."""
        return self._finding(Status.SKIPPED, detail, remedy)

    def _finding(self, status: Status, detail: str, remedy: str) -> Finding:
        return Finding(self._name, self._subject, status, detail, remedy, self._watch.seconds)
