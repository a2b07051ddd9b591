"""Names of topics on the command line, which may be patterns."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from samsarrow.cli.errors import NotFound

if TYPE_CHECKING:
    from samsarrow.cli.connection import Connection
    from samsarrow.types import TopicListing


def is_pattern(name: str) -> bool:
    """True if a name has wildcards, which names of topics cannot have."""
    return bool(set("*?[") & set(name))


def chosen_topics(connection: Connection, names: Sequence[str], if_exists: bool = False) -> dict[str, TopicListing]:
    """Returns the topics with these names or that match these patterns. Patterns do not match internal topics.

    Args:
        connection: connection to the cluster.
        names: names and patterns.
        if_exists: whether names and patterns without a topic are ignored.

    Raises:
        NotFound: a topic does not exist, or a pattern matches none.
    """
    listed = connection.admin.list_topics(None if any(map(is_pattern, names)) else dict.fromkeys(names))
    found: dict[str, TopicListing] = {}
    for name in names:
        matching = [t for t in listed if t == name or (fnmatchcase(t, name) and not listed[t].internal)]
        if not matching and not if_exists:
            raise NotFound(f"topic {name}", connection.servers)
        found.update((t, listed[t]) for t in sorted(matching))
    return found
