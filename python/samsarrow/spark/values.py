"""Values of options: text in, checked values out, with errors that name the option."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from samsarrow.exceptions import ConfigurationError
from samsarrow.types import TopicPartition

Given = Mapping[str, str]

_TIME = re.compile(r"\s*(\d+)\s*(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def boolean(given: Given, name: str, default: bool = False) -> bool:
    """`true` or `false`."""
    text = given.get(name.lower(), str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"option {name} must be true or false, not {text!r}")
    return text == "true"


def positive(given: Given, name: str) -> int | None:
    """A whole number greater than 0; None where it is not given."""
    number = natural(given, name)
    if number == 0:
        raise ConfigurationError(f"option {name} must be a whole number greater than 0, not {given[name.lower()]!r}")
    return number


def natural(given: Given, name: str) -> int | None:
    """A whole number; None where it is not given."""
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise ConfigurationError(f"option {name} must be a whole number greater than 0, not {text!r}")
    return int(text)


def duration(given: Given, name: str, default: str) -> float:
    """Seconds from a time as Spark writes it: `15m`, `500ms`; a plain number is milliseconds."""
    text = given.get(name.lower(), default)
    found = _TIME.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"option {name} must be a time such as 15m, 30s or 500ms, not {text!r}")
    return int(found[1]) * _UNITS[(found[2] or "ms").lower()]


def json_object(text: str, name: str, example: str) -> dict[str, Any]:
    """A JSON object."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(f"option {name} must be JSON like {example}, not {text!r} ({error})") from None
    if not isinstance(parsed, dict):
        raise ConfigurationError(f"option {name} must be JSON like {example}, not {text!r}")
    return parsed


def numbers_per_partition(text: str, name: str, least: int, what: str) -> dict[TopicPartition, int]:
    """`{"topic":{"0":23}}`: a number, `what` it is, for each partition."""
    result = {}
    for topic, partitions in json_object(text, name, '{"topic":{"0":23,"1":42}}').items():
        if not isinstance(partitions, dict):
            raise ConfigurationError(
                f'option {name}: {topic!r} must map to numbers per partition, like {{"{topic}":{{"0":23}}}}'
            )
        for partition, number in partitions.items():
            if not partition.isdecimal() or type(number) is not int or number < least:
                raise ConfigurationError(
                    f"option {name}: {partition!r}: {number!r} of topic {topic!r} is not a partition and {what}"
                )
            result[TopicPartition(topic, int(partition))] = number
    return result
