"""Newer versions of the schemas that a streaming query reads with."""

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

# A registry that does not answer keeps no micro-batch waiting for longer.
_IMPATIENT = {"max.retries": "0", "http.connect.timeout.ms": "2000", "http.read.timeout.ms": "5000"}


@dataclass
class _Watched:
    typed: Typed
    registry: SchemaRegistry
    # The time of the next look.
    due: float = field(default=float("-inf"))


class Evolution:
    """Looks now and then whether subjects have newer versions than a query reads with, in the driver.

    Args:
        typed: keys and values of the query; those without `evolution` are left out.
        clock: seconds.
    """

    def __init__(self, typed: Sequence[Typed], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        with on_this_host():
            self._watched = [
                _Watched(one, registry_client({**dict(one.registry), **_IMPATIENT}.items()))
                for one in typed
                if one.evolution is not None
            ]

    def check(self) -> None:
        """Asks for those that are due. A registry that cannot be asked is no reason to stop a query.

        Raises:
            SchemaEvolvedError: one has a newer version.
        """
        for one in self._watched:
            if self._clock() >= one.due and one.typed.evolution is not None:
                one.due = self._clock() + one.typed.evolution
                for subject, found in one.typed.found:
                    _compare(one, subject, found.version or 0)

    def close(self) -> None:
        """Ends what is being asked."""
        for one in self._watched:
            one.registry.close()


def _compare(one: _Watched, subject: str, version: int) -> None:
    name = one.typed.name
    try:
        latest = max(one.registry.versions(subject), default=version)
    except KafkaError as error:
        _log.warning("whether subject %s has a newer version than %d cannot be found out: %s", subject, version, error)
        return
    if latest > version:
        raise SchemaEvolvedError(
            f"subject {subject} has version {latest}, and this query reads {name}s as version {version} has them: load "
            f"the stream again and restart it from its checkpoint, and it reads them as version {latest} has them "
            f"({name}.evolution=restart)"
        )
