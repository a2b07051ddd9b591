"""Options of typed keys and values: those that the core does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.clients import hidden
from samsarrow.spark.encoded import Encoded
from samsarrow.spark.types import written_type
from samsarrow.spark.values import FORMATS, REGISTRY, Typed
from samsarrow.values.decode import PLAIN

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

# What the names of our options begin with, as far as the core does not know them.
_OURS = ("key.", "value.", "schema.")

# Of formats with schemas.
_SCHEMED = ("schema", "subject", "version", "framing", "ignore.rules")
_READ = {
    "avro": (*_SCHEMED, "fields", "recursion"),
    "json": (*_SCHEMED, "fields"),
    "protobuf": (*_SCHEMED, "fields", "recursion", "message", "imports"),
}
_WRITTEN = {
    "avro": (*_SCHEMED, "auto.register", "name", "use.latest", "subject.strategy"),
    "json": (*_SCHEMED, "auto.register"),
    "protobuf": (*_SCHEMED, "auto.register", "message", "imports", "use.latest"),
}


def _names(*more: str, of: Mapping[str, Sequence[str]]) -> dict[str, None]:
    """Options of keys and values, in one order."""
    names = ("format", *more, *(name for own in of.values() for name in own))
    return {f"{column}.{name}": None for column in ("key", "value") for name in names}


_ON_ERROR = "onerror"
_READS = _names(_ON_ERROR, "deadletter.topic", "evolution", "evolution.interval.ms", of=_READ)
_WRITES = _names(of=_WRITTEN)
# Between looks for newer versions of a schema.
_INTERVAL_MS = "10000"
_STRATEGIES = ("topic", "record", "topic-record")


def parse(options: Mapping[str, str]) -> tuple[tuple[Typed, ...], dict[str, str]]:
    """The keys and values that are decoded, and the options that are not about that.

    Args:
        options: by their names in small letters.

    Raises:
        ConfigurationError: an option is misspelled, has no effect, or has an invalid value.
    """
    registry, others = _taken_out(options, _READS, _WRITES, "writes")
    typed = tuple(one for name in ("key", "value") if (one := _typed(name, options, registry)) is not None)
    _refuse_idle(registry, any(one.registry for one in typed))
    return typed, others


def parse_written(
    options: Mapping[str, str], columns: Mapping[str, DataType]
) -> tuple[tuple[Encoded, ...], dict[str, str]]:
    """The columns that are encoded as keys and values, and the options that are not about that.

    Args:
        options: by their names in small letters.
        columns: of the DataFrame.

    Raises:
        ConfigurationError: an option is misspelled, has no effect, or has an invalid value; or there is no such
            column.
    """
    registry, others = _taken_out(options, _WRITES, _READS, "reads")
    topic = options.get("topic", "").strip() or None
    written = (_encoded(name, options, registry, columns, topic) for name in ("key", "value"))
    given = tuple(one for one in written if one is not None)
    _refuse_idle(registry, any(one.registry for one in given))
    return given, others


def _taken_out(
    options: Mapping[str, str], known: Mapping[str, None], elsewhere: Mapping[str, None], where: str
) -> tuple[dict[str, str], dict[str, str]]:
    """The options of the registry's client, and those that are not about keys and values."""
    registry = {name.removeprefix(REGISTRY): value for name, value in options.items() if name.startswith(REGISTRY)}
    others = {}
    for name, value in options.items():
        if name in known or name.startswith(REGISTRY):
            continue
        if name in elsewhere:
            raise ConfigurationError(f"option {_shown(name)} is for {where}")
        if name.startswith(_OURS) and (meant := get_close_matches(name, (*known, f"{REGISTRY}url"), 1, 0.85)):
            raise ConfigurationError(f"option {name} is unknown; did you mean {_shown(meant[0])}?")
        others[name] = value
    if registry and not registry.get("url", "").strip():
        raise ConfigurationError(f"option {REGISTRY}url must be given, for example http://localhost:8081")
    return registry, others


def _shown(option: str) -> str:
    """Returns an option's name as the documentation spells it: Spark gives names in small letters."""
    return option.replace(_ON_ERROR, "onError")


def _refuse_idle(registry: Mapping[str, str], used: bool) -> None:
    if registry and not used:
        raise ConfigurationError(f"option {REGISTRY}url has no effect without value.format={' or '.join(FORMATS)}")


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
    kind, given = _format(name, options, _READS)
    if not kind:
        return None
    bad = given.pop(_ON_ERROR, "raise").strip().lower()
    if bad not in ("raise", "null", "deadletter"):
        raise ConfigurationError(
            f"option {name}.onError must be raise, null or deadletter, not {options[f'{name}.{_ON_ERROR}']!r}"
        )
    letters = _letters(name, bad, given.pop("deadletter.topic", "").strip(), options)
    evolution: dict[str, str] = {one: given.pop(one) for one in ("evolution", "evolution.interval.ms") if one in given}
    _refuse_others(name, kind, given if kind in FORMATS else {**given, **evolution}, _READ)
    if kind in FORMATS and "schema" not in given and not registry:
        raise ConfigurationError(f"{name}.format={kind} needs the option {name}.schema or {REGISTRY}url")
    fields = given.pop("fields", None)
    return Typed(
        name=name,
        format=kind,
        given=_arguments(name, given),
        registry=tuple(hidden(registry).items()) if kind in FORMATS else (),
        bad=bad,
        topic=_topic(options),
        letters=letters,
        evolution=_evolution(name, evolution, given, registry),
        fields=None if fields is None else tuple(_listed(fields)),
    )


def _listed(text: str) -> list[str]:
    """Paths with commas between them, but for commas in back-quotes."""
    return [one.strip() for one in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", text)]


def _evolution(
    name: str, evolution: Mapping[str, str], given: Mapping[str, str], registry: Mapping[str, str]
) -> float | None:
    """Seconds between looks for newer versions; None where there are none."""
    what = evolution.get("evolution", "ignore")
    interval = evolution.get("evolution.interval.ms", _INTERVAL_MS).strip()
    if what.strip().lower() not in ("ignore", "restart"):
        raise ConfigurationError(f"option {name}.evolution must be ignore or restart, not {what!r}")
    if not interval.isdecimal():
        raise ConfigurationError(f"option {name}.evolution.interval.ms must be a whole number, not {interval!r}")
    if what.strip().lower() == "ignore":
        if "evolution.interval.ms" in evolution:
            raise ConfigurationError(
                f"option {name}.evolution.interval.ms has no effect without {name}.evolution=restart"
            )
        return None
    fixed = {"schema": "schema" in given, "version": given.get("version", "latest").strip().lower() != "latest"}
    for one, there in fixed.items():
        if there:
            raise ConfigurationError(
                f"options {name}.evolution=restart and {name}.{one} contradict each other: only the latest version of "
                "a subject has newer ones"
            )
    if not registry:
        raise ConfigurationError(f"option {name}.evolution has no effect without {REGISTRY}url")
    return int(interval) / 1000


def _encoded(
    name: str,
    options: Mapping[str, str],
    registry: Mapping[str, str],
    columns: Mapping[str, DataType],
    topic: str | None,
) -> Encoded | None:
    kind, given = _format(name, options, _WRITES)
    if not kind:
        return None
    _refuse_others(name, kind, given, _WRITTEN)
    if name not in columns:
        there = ", ".join(columns) or "none"
        makes_one = "; select(struct('*').alias('value')) makes one of all" if name == "value" else ""
        raise ConfigurationError(f"there is no column {name} to be written as {kind}, only {there}{makes_one}")
    arguments = _arguments(name, given)
    one = Encoded(
        name=name,
        format=kind,
        given=arguments,
        registry=tuple(hidden(registry).items()) if kind in FORMATS else (),
        topic=topic,
        type=written_type(columns[name], name),
    )
    if kind in FORMATS:
        _check_subject(one, dict(arguments))
    return one


def _check_subject(one: Encoded, given: Mapping[str, Any]) -> None:
    """Refuses what says nothing about where the schema is, and what leaves that open."""
    if not one.registry:
        if one.format != "json" and "schema" not in given:
            raise ConfigurationError(f"{one.name}.format={one.format} needs {one.name}.schema or {REGISTRY}url")
        if one.format != "json" and given.get("framing", "auto") not in ("none", "single-object"):
            raise ConfigurationError(
                f"{one.name}.format={one.format} writes the id of its schema, which a registry gives: give the option "
                f"{REGISTRY}url, or {one.name}.framing=none"
            )
        for name in ("subject", "version", "auto_register", "use_latest", "subject_strategy"):
            if name in given:
                dotted = f"{one.name}.{name.replace('_', '.')}"
                raise ConfigurationError(f"option {dotted} has no effect without {REGISTRY}url")
        return
    there = given.get("use_latest", False) or (one.format != "avro" and "schema" not in given)
    for name, use in (("version", there), ("auto_register", not there)):
        if name in given and not use:
            what = "the subject's version is written" if there else "the subject's version is not what is written"
            latest = "" if one.format == "json" else f" ({one.name}.use.latest)"
            raise ConfigurationError(f"option {one.name}.{name.replace('_', '.')} has no effect where {what}{latest}")
    if one.topic is None and "subject" not in given and given.get("subject_strategy") != "record":
        record = f", or {one.name}.subject.strategy=record" if one.format == "avro" else ""
        raise ConfigurationError(
            f"schemas are registered before rows are looked at, and only those say which topics there are: give the "
            f"option topic or {one.name}.subject{record}"
        )


def _format(name: str, options: Mapping[str, str], known: Mapping[str, None]) -> tuple[str, dict[str, str]]:
    """The format of keys or values, empty without one, and its other options."""
    dotted = f"{name}."
    given = {one.removeprefix(dotted): options[one] for one in known if one.startswith(dotted) and one in options}
    kind = given.pop("format", "").strip().lower()
    if not kind:
        if given:
            raise ConfigurationError(f"option {name}.{_shown(next(iter(given)))} has no effect without {name}.format")
    elif kind not in FORMATS and kind not in PLAIN:
        raise ConfigurationError(
            f"option {name}.format must be one of {', '.join((*FORMATS, *PLAIN))}, not {options[f'{name}.format']!r}"
        )
    return kind, given


def _refuse_others(name: str, kind: str, given: Mapping[str, str], own: Mapping[str, Sequence[str]]) -> None:
    """Refuses options that another format has."""
    for one in given:
        if one not in own.get(kind, ()):
            raise ConfigurationError(f"option {name}.{_shown(one)} has no effect with {name}.format={kind}")


def _arguments(name: str, given: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """The options as arguments of the format."""
    return tuple((one.replace(".", "_"), _value(f"{name}.{one}", one, text)) for one, text in given.items())


def _value(option: str, name: str, text: str) -> Any:
    plain = text.strip().lower()
    if name == "version" and plain != "latest":
        if not plain.isdecimal():
            raise ConfigurationError(f"option {option} must be a number or latest, not {text!r}")
        return int(plain)
    if name == "recursion":
        if not plain.isdecimal():
            raise ConfigurationError(f"option {option} must be a whole number, not {text!r}")
        return int(plain)
    if name == "imports":
        return _imports(option, text)
    if name in ("ignore.rules", "auto.register", "use.latest"):
        if plain not in ("true", "false"):
            raise ConfigurationError(f"option {option} must be true or false, not {text!r}")
        return plain == "true"
    if name == "subject.strategy" and plain not in _STRATEGIES:
        raise ConfigurationError(f"option {option} must be one of {', '.join(_STRATEGIES)}, not {text!r}")
    return plain if name in ("version", "framing", "subject.strategy") else text


def _imports(option: str, text: str) -> tuple[tuple[str, str], ...]:
    """Names and texts of files."""
    try:
        files = json.loads(text)
    except ValueError:
        files = None
    if not isinstance(files, dict) or not all(isinstance(one, str) for one in files.values()):
        raise ConfigurationError(
            f'option {option} must be JSON like {{"shop/user.proto":"syntax = ..."}}, not {text!r}'
        )
    return tuple(files.items())


def _letters(name: str, bad: str, topic: str, options: Mapping[str, str]) -> str | None:
    """The topic of bad records, if they go to one."""
    option = f"{name}.deadletter.topic"
    if bad != "deadletter":
        if topic:
            raise ConfigurationError(f"option {option} has no effect without {name}.onError=deadletter")
        return None
    if not topic:
        raise ConfigurationError(f"{name}.onError=deadletter needs the option {option}, where bad records go")
    if topic in _topics(options):
        raise ConfigurationError(f"option {option}: topic {topic} is read, and would grow by what is bad in it")
    return topic


def _topic(options: Mapping[str, str]) -> str | None:
    """The topic that is read, if it is clear that it is one."""
    topics = _topics(options)
    return topics.pop() if len(topics) == 1 else None


def _topics(options: Mapping[str, str]) -> set[str]:
    """The topics that are read, as far as options name them."""
    topics = {one.strip() for one in options.get("subscribe", "").split(",")} - {""}
    if "assign" in options:
        try:
            topics |= set(json.loads(options["assign"]))
        except (TypeError, ValueError):
            # The core says what is wrong with it.
            return set()
    return topics
