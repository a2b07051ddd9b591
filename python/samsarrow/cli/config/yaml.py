"""Parser of the YAML subset in settings files: mappings and lists by indentation, plain and quoted scalars."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#:'"\[{&*!|>-][^:#]*?)\s*:(?:\s+(.*))?$""")
DEEPEST = 50


class YamlError(ValueError):
    """The text is invalid YAML, or uses a feature that this parser does not support."""


@dataclass
class Line:
    """A line with content, without its indentation."""

    number: int
    indent: int
    text: str


def parse(text: str) -> dict[str, Any]:
    """Parses a document, which must be a mapping.

    Raises:
        YamlError: the document is invalid. The text has the line number, but not the line, which may be secret.
    """
    lines = []
    for number, raw in enumerate(text.splitlines(), 1):
        stripped = raw.strip()
        if not stripped or stripped.startswith("#") or stripped == "---":
            continue
        indent = len(raw) - len(raw.lstrip(" "))
        if raw[indent] == "\t":
            raise YamlError(f"line {number}: a tab cannot indent")
        lines.append(Line(number, indent, stripped))
    if not lines:
        return {}
    value, rest = _block(lines, 0, lines[0].indent, 0)
    if rest != len(lines):
        raise YamlError(f"line {lines[rest].number}: its indentation matches no earlier line")
    if not isinstance(value, dict):
        raise YamlError(f"line {lines[0].number}: a file of settings begins with a name and a colon")
    return value


def _block(lines: list[Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    if depth > DEEPEST:
        raise YamlError(f"line {lines[at].number}: deeper than {DEEPEST} levels")
    return (_list if _is_item(lines[at].text) else _mapping)(lines, at, indent, depth)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _list(lines: list[Line], at: int, indent: int, depth: int) -> tuple[list[Any], int]:
    items = []
    while at < len(lines) and lines[at].indent == indent and _is_item(lines[at].text):
        line = lines[at]
        inner = line.text[1:].lstrip()
        if not inner:
            value, at = _nested(lines, at, indent, depth)
        elif _KEY.match(inner):
            # A mapping begins after the dash. Its other names are indented like its first name.
            lines[at] = Line(line.number, indent + len(line.text) - len(inner), inner)
            value, at = _mapping(lines, at, lines[at].indent, depth + 1)
        else:
            value, at = _scalar(inner, line), at + 1
        items.append(value)
    return items, at


def _mapping(lines: list[Line], at: int, indent: int, depth: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at].indent == indent and not _is_item(lines[at].text):
        line = lines[at]
        parted = _KEY.match(line.text)
        if parted is None:
            raise YamlError(f"line {line.number}: no name followed by a colon")
        name = str(_scalar(parted[1], line))
        value = (parted[2] or "").strip()
        if not value or value.startswith("#"):
            found[name], at = _nested(lines, at, indent, depth)
        else:
            found[name], at = _scalar(value, line), at + 1
    return found, at


def _nested(lines: list[Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """Parses the block below a name or a dash; None if no block follows.

    A list in a mapping may have the same indentation as its name.
    """
    following = at + 1
    if following < len(lines):
        line = lines[following]
        if line.indent > indent or (line.indent == indent and _is_item(line.text) and not _is_item(lines[at].text)):
            return _block(lines, following, line.indent, depth + 1)
    return None, following


def _scalar(text: str, line: Line) -> Any:
    if text.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', text)
        try:
            return json.loads(end[0]) if end else None
        except ValueError:
            raise YamlError(f"line {line.number}: an invalid quoted text") from None
    if text.startswith("'"):
        end = re.match(r"'((?:[^']|'')*)'", text)
        return end[1].replace("''", "'") if end else None
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part.strip(), line) for part in text[1:-1].split(",") if part.strip()]
    if text in ("{}", "[]"):
        return {} if text == "{}" else []
    if text[0] in "{&*!|>%@`":
        raise YamlError(f"line {line.number}: unsupported YAML")
    plain = re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    return {"true": True, "false": False, "null": None, "~": None}.get(plain.lower(), plain)
