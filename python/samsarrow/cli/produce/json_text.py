"""JSON with the place of each value in its text, so that a value is sent as the file has it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
# Longer integers are in no field that is read here, and Python limits their digits.
LONGEST_INTEGER = 40

_space = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Json:
    """A value in a JSON text.

    Attributes:
        value: the value as Python has it; numbers may be rounded.
        text: the whole text.
        start: position of its first character.
        end: position after its last character.
    """

    value: Any
    text: str
    start: int
    end: int

    @property
    def raw(self) -> str:
        """The value as it stands in the text."""
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
    """Returns the members of an object, or None if the text is another value.

    Raises:
        ValueError: it is not JSON, or not UTF-8.
        RecursionError: it is nested too deeply.
    """
    text = _decoded(line)
    start = _after_space(text, 0)
    if text[start : start + 1] != "{":
        _check_end(text, _value(text, start).end)
        return None
    found, end = _object(text, start)
    _check_end(text, end)
    return found


def objects(whole: bytes) -> list[dict[str, Json] | None] | None:
    """Returns the members of each object of an array, and None for other items; None if the text is not an array.

    Raises:
        ValueError: it is not JSON, or not UTF-8.
        RecursionError: it is nested too deeply.
    """
    text = _decoded(whole)
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
    return int(digits) if len(digits) <= LONGEST_INTEGER else float(digits)


_decoder = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer)


def _after_space(text: str, at: int) -> int:
    found = _space.match(text, at)
    return at if found is None else found.end()


def _check_end(text: str, at: int) -> None:
    at = _after_space(text, at)
    if at != len(text):
        raise json.JSONDecodeError("Extra data", text, at)


def _value(text: str, at: int) -> Json:
    value, end = _decoder.raw_decode(text, at)
    return Json(value, text, at, end)


def _any(text: str, at: int) -> tuple[Json, int]:
    value = _value(text, at)
    return value, value.end


def _item(text: str, at: int) -> tuple[dict[str, Json] | None, int]:
    if text[at : at + 1] == "{":
        return _object(text, at)
    return None, _value(text, at).end


def _object(text: str, at: int) -> tuple[dict[str, Json], int]:
    found: dict[str, Json] = {}
    at = _after_space(text, at + 1)
    if text[at : at + 1] == "}":
        return found, at + 1
    while True:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
        name, end = _decoder.raw_decode(text, at)
        if name in found:
            raise json.JSONDecodeError(f"Member {name!r} is there twice", text, at)
        at = _after_space(text, end)
        if text[at : at + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
        found[name] = value = _value(text, _after_space(text, at + 1))
        at = _after_space(text, value.end)
        if text[at : at + 1] == "}":
            return found, at + 1
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = _after_space(text, at + 1)


def _array(text: str, at: int, read: Callable[[str, int], tuple[T, int]]) -> tuple[list[T], int]:
    found: list[T] = []
    at = _after_space(text, at + 1)
    if text[at : at + 1] == "]":
        return found, at + 1
    while True:
        item, end = read(text, at)
        found.append(item)
        at = _after_space(text, end)
        if text[at : at + 1] == "]":
            return found, at + 1
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = _after_space(text, at + 1)
