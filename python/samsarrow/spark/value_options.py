"""Options of typed keys and values: those that the core does not know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.clients import hidden
from samsarrow.spark.values import FORMATS, REGISTRY, Typed
from samsarrow.values.decode import PLAIN

_SCHEMED = ("schema", "subject", "version", "framing", "fields", "ignore.rules")
_ALL = ("format", "bad", *_SCHEMED, *(name for _, own in FORMATS.values() for name in own))
_KNOWN = [f"{column}.{name}" for column in ("key", "value") for name in _ALL]


def parse(options: Mapping[str, str]) -> tuple[tuple[Typed, ...], dict[str, str]]:
    """The keys and values that are decoded, and the options that are not about that.

    Args:
        options: by their names in small letters.

    Raises:
        ConfigurationError: an option is nearly one, is of no use, or has a value that cannot be.
    """
    registry = {name.removeprefix(REGISTRY): value for name, value in options.items() if name.startswith(REGISTRY)}
    others = {}
    for name, value in options.items():
        if name.startswith(("key.", "value.")) and name not in _KNOWN:
            if name.endswith(".deadletter.topic"):
                raise ConfigurationError(_no_letters(name))
            if meant := get_close_matches(name, _KNOWN, 1, 0.85):
                raise ConfigurationError(f"option {name} is unknown; did you mean {meant[0]}?")
        if name not in _KNOWN and not name.startswith(REGISTRY):
            others[name] = value
    if registry and not registry.get("url", "").strip():
        raise ConfigurationError(f"option {REGISTRY}url must be given, for example http://localhost:8081")
    typed = tuple(one for name in ("key", "value") if (one := _typed(name, options, registry)) is not None)
    if registry and not any(one.registry for one in typed):
        raise ConfigurationError(f"option {REGISTRY}url has no effect without value.format={' or '.join(FORMATS)}")
    return typed, others


def take_out(more: Sequence[str], given: dict[str, str]) -> list[str]:
    """Takes out of the option `columns` those that the core does not know.

    Returns:
        All that it names, in small letters.
    """
    if "columns" not in given:
        return []
    names = [one.strip().lower() for one in given["columns"].split(",")]
    if not set(names).isdisjoint(more):
        if len(set(names)) < len(names):
            raise ConfigurationError(f"option columns names a column twice: {given['columns']!r}")
        # The core wants one at least.
        given["columns"] = ",".join(name for name in names if name not in more) or "offset"
    return names


def text_beside(typed: Sequence[Typed], text: frozenset[str], layout: str) -> frozenset[str]:
    """Of key and value those that are text because the option `layout` says so, and are not decoded.

    Raises:
        ConfigurationError: it names one that is.
    """
    both = text & {one.name for one in typed}
    if both and ":" in layout:
        name = min(both)
        raise ConfigurationError(f"options layout and {name}.format both set the type of {name}s: set only one of them")
    return text - both


def _typed(name: str, options: Mapping[str, str], registry: Mapping[str, str]) -> Typed | None:
    given = {one: options[f"{name}.{one}"] for one in _ALL if f"{name}.{one}" in options}
    kind = given.pop("format", "").strip().lower()
    bad = given.pop("bad", "raise").strip().lower()
    if not kind:
        if given or f"{name}.bad" in options:
            first = next(iter(given), "bad")
            raise ConfigurationError(f"option {name}.{first} has no effect without {name}.format")
        return None
    if kind not in FORMATS and kind not in PLAIN:
        raise ConfigurationError(
            f"option {name}.format must be one of {', '.join((*FORMATS, *PLAIN))}, not {options[f'{name}.format']!r}"
        )
    if bad == "deadletter":
        raise ConfigurationError(_no_letters(f"{name}.bad"))
    if bad not in ("raise", "null"):
        raise ConfigurationError(f"option {name}.bad must be raise or null, not {options[f'{name}.bad']!r}")
    own = (*_SCHEMED, *FORMATS[kind][1]) if kind in FORMATS else ()
    for one in given:
        if one not in own:
            raise ConfigurationError(f"option {name}.{one} has no effect with {name}.format={kind}")
    if kind in FORMATS and "schema" not in given and not registry:
        raise ConfigurationError(f"{name}.format={kind} needs the option {name}.schema or {REGISTRY}url")
    fields = given.pop("fields", None)
    return Typed(
        name=name,
        format=kind,
        given=tuple((one.replace(".", "_"), _value(f"{name}.{one}", one, text)) for one, text in given.items()),
        registry=tuple(hidden(registry).items()) if kind in FORMATS else (),
        bad=bad,
        topic=_topic(options),
        fields=None if fields is None else tuple(one.strip() for one in fields.split(",")),
    )


def _value(option: str, name: str, text: str) -> Any:
    plain = text.strip().lower()
    if name == "version" and plain != "latest":
        if not plain.isdecimal():
            raise ConfigurationError(f"option {option} must be a number or latest, not {text!r}")
        return int(plain)
    if name == "ignore.rules":
        if plain not in ("true", "false"):
            raise ConfigurationError(f"option {option} must be true or false, not {text!r}")
        return plain == "true"
    return plain if name in ("version", "framing") else text


def _topic(options: Mapping[str, str]) -> str | None:
    """The topic that is read, if it is clear that it is one."""
    topics = {one.strip() for one in options.get("subscribe", "").split(",")} - {""}
    if "assign" in options:
        try:
            topics |= set(json.loads(options["assign"]))
        except (TypeError, ValueError):
            # The core says what is wrong with it.
            return None
    return topics.pop() if len(topics) == 1 else None


def _no_letters(option: str) -> str:
    return (
        f"option {option}: tasks send no records elsewhere, as Spark may run them again. With bad=null, rows have "
        "value_error and raw_value: write those of them in foreachBatch, or as a query of their own"
    )
