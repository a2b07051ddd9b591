"""Delegation tokens (KIP-48), which the driver creates and with which tasks log in instead of with passwords."""

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

# Share of a token's lifetime after which the driver creates another token. The rest remains for running tasks.
RENEW_AFTER = 0.75
# Maximum seconds to wait until brokers know a new token.
PROPAGATION_S = 5.0


@dataclass(frozen=True)
class Token:
    """A delegation token with which tasks log in.

    Attributes:
        id: id of the token, which is not secret.
        jaas: value of `sasl.jaas.config` for the token.
        mechanism: SASL mechanism with which tasks log in.
    """

    id: str
    jaas: Secret
    mechanism: str

    def login(self) -> dict[str, str]:
        """Returns the options of a client that logs in with the token."""
        return {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self.jaas}


class TokenIssuer:
    """Issuer of the tokens of a driver process for one login. It replaces a token before the token expires.

    Args:
        create: function that creates a token on the brokers.
        mechanism: SASL mechanism with which tasks log in.
        clock: function that returns the current time in seconds.
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
        """Returns a token with at least a quarter of its lifetime left."""
        with self._lock:
            if self._token is None or self._clock() >= self._until:
                before = self._clock()
                created = self._create()
                life = (created.expiry_timestamp - created.issue_timestamp) / 1000
                self._until = before + RENEW_AFTER * life
                self._token = Token(created.token_id, created.jaas_config, self._mechanism)
            return self._token


_issuers: dict[tuple[tuple[str, Any], ...], TokenIssuer] = {}
_pid = os.getpid()
_lock = threading.Lock()


def token_for(kafka: Mapping[str, Any], mechanism: str) -> Token:
    """Returns a token for tasks, which is created with the login in the options and reused until it must be replaced.

    Spark keeps its planning processes for a minute or more, so several queries and micro-batches share a token.
    """
    global _pid
    key = (*sorted(kafka.items()), ("", mechanism))
    with _lock:
        if _pid != os.getpid():
            _issuers.clear()
            _pid = os.getpid()
        issuer = _issuers.setdefault(key, TokenIssuer(lambda: _create(kafka), mechanism))
    return issuer.token()


def _create(kafka: Mapping[str, Any]) -> DelegationToken:
    with clients.admin(kafka) as admin:
        created = admin.create_delegation_token()
        # Waits until brokers know the token, because until then they would reject the logins of tasks.
        deadline = _core.Deadline(PROPAGATION_S)
        while not deadline.passed():
            if any(token.token_id == created.token_id for token in admin.describe_delegation_tokens()):
                break
            deadline.sleep(0.05)
    return created
