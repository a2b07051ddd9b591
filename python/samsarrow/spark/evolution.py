"""Checks for newer versions of the schemas that a streaming query reads with."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from samsarrow.exceptions import KafkaError
from samsarrow.registry import SchemaRegistry
from samsarrow.spark.clients import on_this_host
from samsarrow.spark.errors import SchemaEvolvedError
from samsarrow.spark.values import Typed, registry_client

_log = logging.getLogger(__name__)

# Options that limit how long a registry that does not respond can delay a micro-batch.
_FAIL_FAST = {"max.retries": "0", "http.connect.timeout.ms": "2000", "http.read.timeout.ms": "5000"}


@dataclass
class _Watched:
    typed: Typed
    registry: SchemaRegistry
    # Time of the next check, in seconds of the clock.
    due: float = field(default=float("-inf"))


class Evolution:
    """Periodic check, in the driver, for newer versions of the schemas that a query reads with.

    Args:
        typed: keys and values that the query decodes. Those without `evolution` are not checked.
        clock: function that returns the current time in seconds.
    """

    def __init__(self, typed: Sequence[Typed], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        with on_this_host():
            self._watched = [
                _Watched(column, registry_client({**dict(column.registry), **_FAIL_FAST}.items()))
                for column in typed
                if column.evolution is not None
            ]

    def check(self) -> None:
        """Checks the subjects whose interval has passed. If the registry cannot be reached, logs a warning.

        Raises:
            SchemaEvolvedError: a subject has a newer version.
        """
        for watched in self._watched:
            if self._clock() >= watched.due and watched.typed.evolution is not None:
                watched.due = self._clock() + watched.typed.evolution
                for subject, schema in watched.typed.found:
                    _check_version(watched, subject, schema.version or 0)

    def close(self) -> None:
        """Cancels pending requests."""
        for watched in self._watched:
            watched.registry.close()


def _check_version(watched: _Watched, subject: str, version: int) -> None:
    name = watched.typed.name
    try:
        latest = max(watched.registry.versions(subject), default=version)
    except KafkaError as error:
        _log.warning("whether subject %s has a newer version than %d cannot be found out: %s", subject, version, error)
        return
    if latest > version:
        raise SchemaEvolvedError(
            f"subject {subject} has version {latest}, and this query reads {name}s as version {version} has them: load "
            f"the stream again and restart it from its checkpoint, and it reads them as version {latest} has them "
            f"({name}.evolution=restart)"
        )
