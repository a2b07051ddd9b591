"""Delegation tokens (KIP-48): the driver gets them from the brokers, tasks log in with them and see no password."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from samsarrow import _core
from samsarrow.access import DelegationToken
from samsarrow.config import Secret
from samsarrow.spark import clients

# The part of a token's life after which tasks get another one: what is left is for them.
FRESH = 0.75
# How long brokers have to hear of a token.
HEARD_S = 5.0


@dataclass(frozen=True)
class Token:
    """A delegation token as tasks log in with it.

    Attributes:
        id: its public name.
        jaas: with which clients log in.
        mechanism: to log in with.
    """

    id: str
    jaas: Secret
    mechanism: str

    def login(self) -> dict[str, str]:
        """The options of a client that logs in with it."""
        return {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self.jaas}


class Mint:
    """The tokens of a driver process for one login, one after the other.

    Args:
        create: gets a token from the brokers.
        mechanism: that tasks log in with.
        clock: seconds.
    """

    def __init__(
        self, create: Callable[[], DelegationToken], mechanism: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._create = create
        self._mechanism = mechanism
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._until = 0.0

    def token(self) -> Token:
        """One that has a quarter of its life left at least."""
        with self._lock:
            if self._token is None or self._clock() >= self._until:
                before = self._clock()
                created = self._create()
                life = (created.expiry_timestamp - created.issue_timestamp) / 1000
                self._until = before + FRESH * life
                self._token = Token(created.token_id, created.jaas_config, self._mechanism)
            return self._token


_mints: dict[tuple[tuple[str, Any], ...], Mint] = {}
_pid = os.getpid()
_lock = threading.Lock()


def token_for(kafka: Mapping[str, Any], mechanism: str) -> Token:
    """A token for tasks, got with the login of these options. This process asks for one when the last is growing old.

    Spark keeps the processes in which it plans for a minute or more: queries and micro-batches share tokens there.
    """
    global _pid
    key = (*sorted(kafka.items()), ("", mechanism))
    with _lock:
        if _pid != os.getpid():
            _mints.clear()
            _pid = os.getpid()
        mint = _mints.setdefault(key, Mint(lambda: _create(kafka), mechanism))
    return mint.token()


def _create(kafka: Mapping[str, Any]) -> DelegationToken:
    with clients.admin(kafka) as admin:
        created = admin.create_delegation_token()
        # A broker that has not heard of a token refuses it, and tasks would fail.
        deadline = _core.Deadline(HEARD_S)
        while not deadline.passed():
            if any(token.token_id == created.token_id for token in admin.describe_delegation_tokens()):
                break
            deadline.sleep(0.05)
    return created
