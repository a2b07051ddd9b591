"""Where schemas are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from samsarrow.exceptions import ConfigurationError

__all__ = ["SubjectStrategy", "legal", "subject_of"]

SubjectStrategy: TypeAlias = Literal["topic", "record", "topic-record"] | Callable[[str | None, bool, str | None], str]
"""How subjects are named: after topics, records or both; or by topic, whether it is for keys, and the record's name."""


def subject_of(strategy: SubjectStrategy, topic: str | None, key: bool, record: str | None) -> str:
    """The subject of a topic's values or keys that are such records."""
    if callable(strategy):
        return strategy(topic, key, record)
    if topic is None and strategy != "record":
        raise ConfigurationError("the schema of the rows is unknown: pass schema, subject or topic")
    if strategy == "topic":
        return f"{topic}-{'key' if key else 'value'}"
    if record is None:
        raise ConfigurationError(
            f"subject_strategy={strategy!r} needs the name of a record: pass a schema that has one"
        )
    return record if strategy == "record" else f"{topic}-{record}"


def legal(topic: str) -> str:
    """A topic's name as that of a record."""
    name = "".join(one if one.isascii() and one.isalnum() else "_" for one in topic)
    return f"_{name}" if name[:1].isdigit() else name
