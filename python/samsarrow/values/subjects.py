"""Subject name strategies of a schema registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError

__all__ = ["SubjectStrategy", "record_name", "subject_of"]

SubjectStrategy: TypeAlias = Literal["topic", "record", "topic-record"] | Callable[[str | None, bool, str | None], str]
"""Subject name strategy: by topic, record or both; or a function of the topic, the key flag and the record's name."""


def subject_of(strategy: SubjectStrategy, topic: str | None, key: bool, record: str | None) -> str:
    """Returns the subject for values or keys of a topic, with the name of their record type."""
    if callable(strategy):
        subject = strategy(topic, key, record)
        if not isinstance(subject, str):
            raise TypeError(f"subject_strategy must return the subject as str, not {type(subject).__name__}")
        return subject
    if topic is None and strategy != "record":
        raise ConfigurationError("the schema of the rows is unknown: pass schema, subject or topic")
    if strategy == "topic":
        assert topic is not None
        return _core.topic_subject("confluent", topic, key)
    if record is None:
        raise ConfigurationError(
            f"subject_strategy={strategy!r} needs the name of a record: pass a schema that has one"
        )
    return record if strategy == "record" else f"{topic}-{record}"


def record_name(topic: str) -> str:
    """Converts the name of a topic to a valid Avro record name."""
    name = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in topic)
    return f"_{name}" if name[:1].isdigit() else name
