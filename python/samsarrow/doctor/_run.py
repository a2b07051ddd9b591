"""The arguments of a diagnosis, and the clients that it uses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samsarrow.config import kind_of, options_of

_USERNAME = re.compile(r"""\busername=["']?([^"'\s;]+)""")


@dataclass(frozen=True)
class Run:
    """Arguments of a diagnosis.

    Attributes:
        options: options of all kinds of clients, by Kafka's names.
        topic: topic to check; None for no topic.
        group: group to check; None for no group.
        write: whether to write a record to the topic.
        timeout: seconds per check.
    """

    # Omitted from repr, because options may be secret.
    options: Mapping[str, Any] = field(repr=False)
    topic: str | None
    group: str | None
    write: bool
    timeout: float

    @property
    def protocol(self) -> str:
        """The security protocol."""
        return str(self.options.get("security.protocol", "PLAINTEXT")).upper()

    @property
    def uses_tls(self) -> bool:
        """True if clients use TLS."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_login(self) -> bool:
        """True if clients log in."""
        return self.protocol.startswith("SASL_")

    def client(self, kind: str, fixed: Mapping[str, str] | None = None, without: Iterable[str] = ()) -> dict[str, Any]:
        """Returns the options of one kind of client.

        Args:
            kind: `admin`, `consumer` or `producer`.
            fixed: options that override those of the user.
            without: Kafka's names of options to leave out.
        """
        known = options_of(kind, {name: value for name, value in self.options.items() if kind_of(name) != "unknown"})
        return {name: value for name, value in known.items() if name not in set(without)} | dict(fixed or {})

    def command(self, *words: str) -> str:
        """Returns a command of the command line for this cluster, without secrets."""
        servers = self.options["bootstrap.servers"]
        text = servers if isinstance(servers, str) else ",".join(servers)
        line = shlex.join(["samsarrow", *words, "-b", text])
        return f"`{line}`" + (" (with your connection options)" if self.protocol != "PLAINTEXT" else "")

    @property
    def principal(self) -> str:
        """The principal of the client in ACLs, as far as it can be derived from the options."""
        return f"User:{self.user}" if self.user else "User:NAME"

    @property
    def user(self) -> str | None:
        """The user that logs in; None if the options do not name one."""
        if not self.uses_login:
            return None
        in_jaas = _USERNAME.search(str(self.options.get("sasl.jaas.config", "")))
        return self.options.get("sasl.username") or (in_jaas[1] if in_jaas else None)
