"""JSON parser that keeps the position of each value in its text, so that values are sent unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
# Integers with more digits are read as floats, because Python limits the digits of integers and no field that is parsed
# has such integers.
MAX_INTEGER_DIGITS = 40

_space = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Json:
    """A value in a JSON text.

    Attributes:
        value: Python value, in which numbers may be rounded.
        text: whole text that contains the value.
        start: position of the value's first character.
        end: position after the value's last character.
    """

    value: Any
    text: str
    start: int
    end: int

    @property
    def raw(self) -> str:
        """The text of the value, unchanged."""
        return self.text[self.start : self.end]

    def members(self) -> dict[str, Json]:
        """Returns the members of an object.

        Raises:
            JSONDecodeError: two members have the same name.
        """
        return _object(self.text, self.start)[0]

    def items(self) -> list[Json]:
        """Returns the items of an array."""
        return _array(self.text, self.start, _any)[0]


def members(line: bytes) -> dict[str, Json] | None:
    """Returns the members of a JSON object, or None if the text is valid JSON but not an object.

    Raises:
        ValueError: the text is not JSON, or not UTF-8.
        RecursionError: the value is nested too deeply.
    """
    text = _decoded(line)
    start = _after_space(text, 0)
    if text[start : start + 1] != "{":
        _check_end(text, _value(text, start).end)
        return None
    found, end = _object(text, start)
    _check_end(text, end)
    return found


def objects(data: bytes) -> list[dict[str, Json] | None] | None:
    """Returns the members of each item of a JSON array, None for items that are not objects.

    Returns None if the text is valid JSON but not an array.

    Raises:
        ValueError: the text is not JSON, or not UTF-8.
        RecursionError: the value is nested too deeply.
    """
    text = _decoded(data)
    start = _after_space(text, 0)
    if text[start : start + 1] != "[":
        _check_end(text, _value(text, start).end)
        return None
    found, end = _array(text, start, _item)
    _check_end(text, end)
    return found


def _decoded(text: bytes) -> str:
    return text.decode(json.detect_encoding(text))


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_INTEGER_DIGITS else float(digits)


_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)


def _after_space(text: str, position: int) -> int:
    found = _space.match(text, position)
    return position if found is None else found.end()


def _check_end(text: str, position: int) -> None:
    position = _after_space(text, position)
    if position != len(text):
        raise json.JSONDecodeError("Extra data", text, position)


def _value(text: str, position: int) -> Json:
    value, end = _decoder.raw_decode(text, position)
    return Json(value, text, position, end)


def _any(text: str, position: int) -> tuple[Json, int]:
    value = _value(text, position)
    return value, value.end


def _item(text: str, position: int) -> tuple[dict[str, Json] | None, int]:
    if text[position : position + 1] == "{":
        return _object(text, position)
    return None, _value(text, position).end


def _object(text: str, position: int) -> tuple[dict[str, Json], int]:
    found: dict[str, Json] = {}
    position = _after_space(text, position + 1)
    if text[position : position + 1] == "}":
        return found, position + 1
    while True:
        if text[position : position + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, position)
        name, end = _decoder.raw_decode(text, position)
        if name in found:
            raise json.JSONDecodeError(f"Member {name!r} is there twice", text, position)
        position = _after_space(text, end)
        if text[position : position + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, position)
        found[name] = value = _value(text, _after_space(text, position + 1))
        position = _after_space(text, value.end)
        if text[position : position + 1] == "}":
            return found, position + 1
        if text[position : position + 1] != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
        position = _after_space(text, position + 1)


def _array(text: str, position: int, read: Callable[[str, int], tuple[T, int]]) -> tuple[list[T], int]:
    found: list[T] = []
    position = _after_space(text, position + 1)
    if text[position : position + 1] == "]":
        return found, position + 1
    while True:
        item, end = read(text, position)
        found.append(item)
        position = _after_space(text, end)
        if text[position : position + 1] == "]":
            return found, position + 1
        if text[position : position + 1] != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, position)
        position = _after_space(text, position + 1)
