"""Options of typed keys and values, which are parsed here and not by the Rust client."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.clients import hidden
from samsarrow.spark.options import VALUE_PREFIXES
from samsarrow.spark.types import written_type
from samsarrow.spark.value_encoders import Encoded
from samsarrow.spark.values import FORMATS, REGISTRY, Typed
from samsarrow.values.decode import PLAIN

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

# Options of all formats with schemas.
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
    """Returns the names of all options of keys and values, in a fixed order."""
    names = ("format", *more, *(name for own in of.values() for name in own))
    return {f"{column}.{name}": None for column in ("key", "value") for name in names}


_ON_ERROR = "onerror"
_READS = _names(_ON_ERROR, "deadletter.topic", "evolution", "evolution.interval.ms", of=_READ)
_WRITES = _names(of=_WRITTEN)
# Default interval between checks for newer versions of a schema.
_INTERVAL_MS = "10000"
_STRATEGIES = ("topic", "record", "topic-record")


def parse(options: Mapping[str, str]) -> tuple[tuple[Typed, ...], dict[str, str]]:
    """Returns the keys and values to decode, and all other options.

    Args:
        options: options by lower-case name.

    Raises:
        ConfigurationError: an option is misspelled, has no effect or has an invalid value.
    """
    registry, others = _split_registry(options, _READS, _WRITES, "writes")
    typed = tuple(column for name in ("key", "value") if (column := _typed(name, options, registry)) is not None)
    _reject_unused_registry(registry, any(column.registry for column in typed))
    return typed, others


def parse_written(
    options: Mapping[str, str], columns: Mapping[str, DataType]
) -> tuple[tuple[Encoded, ...], dict[str, str]]:
    """Returns the columns to encode as keys and values, and all other options.

    Args:
        options: options by lower-case name.
        columns: types of the DataFrame's columns.

    Raises:
        ConfigurationError: an option is misspelled, has no effect or has an invalid value, or the column is missing in
            the DataFrame.
    """
    registry, others = _split_registry(options, _WRITES, _READS, "reads")
    topic = options.get("topic", "").strip() or None
    parsed = (_encoded(name, options, registry, columns, topic) for name in ("key", "value"))
    encoded = tuple(column for column in parsed if column is not None)
    _reject_unused_registry(registry, any(column.registry for column in encoded))
    return encoded, others


def _split_registry(
    options: Mapping[str, str], known: Mapping[str, None], opposite: Mapping[str, None], opposite_name: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the options of the registry client, and the options that are not about keys and values.

    Args:
        options: options by lower-case name.
        known: options of keys and values that are valid here.
        opposite: options that are valid only in the opposite direction: in writes if `known` is for reads, otherwise in
        reads.
        opposite_name: name of the opposite direction for errors, `reads` or `writes`.
    """
    registry = {name.removeprefix(REGISTRY): value for name, value in options.items() if name.startswith(REGISTRY)}
    others = {}
    for name, value in options.items():
        if name in known or name.startswith(REGISTRY):
            continue
        if name in opposite:
            raise ConfigurationError(f"option {_shown(name)} is for {opposite_name}")
        if name.startswith(VALUE_PREFIXES) and (meant := get_close_matches(name, (*known, f"{REGISTRY}url"), 1, 0.85)):
            raise ConfigurationError(f"option {name} is unknown; did you mean {_shown(meant[0])}?")
        others[name] = value
    if registry and not registry.get("url", "").strip():
        raise ConfigurationError(f"option {REGISTRY}url must be given, for example http://localhost:8081")
    return registry, others


def _shown(option: str) -> str:
    """Returns the name of an option as it is spelled in the documentation. Spark passes lower-case names."""
    return option.replace(_ON_ERROR, "onError")


def _reject_unused_registry(registry: Mapping[str, str], used: bool) -> None:
    if registry and not used:
        raise ConfigurationError(f"option {REGISTRY}url has no effect without value.format={' or '.join(FORMATS)}")


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
    names = ("evolution", "evolution.interval.ms")
    evolution: dict[str, str] = {option: given.pop(option) for option in names if option in given}
    _reject_foreign(name, kind, given if kind in FORMATS else {**given, **evolution}, _READ)
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
    """Splits paths at commas, except for commas in back-quotes."""
    return [path.strip() for path in re.split(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", text)]


def _evolution(
    name: str, evolution: Mapping[str, str], given: Mapping[str, str], registry: Mapping[str, str]
) -> float | None:
    """Returns the seconds between checks for newer schema versions; None for no checks."""
    mode = evolution.get("evolution", "ignore")
    interval = evolution.get("evolution.interval.ms", _INTERVAL_MS).strip()
    if mode.strip().lower() not in ("ignore", "restart"):
        raise ConfigurationError(f"option {name}.evolution must be ignore or restart, not {mode!r}")
    if not interval.isdecimal():
        raise ConfigurationError(f"option {name}.evolution.interval.ms must be a whole number, not {interval!r}")
    if mode.strip().lower() == "ignore":
        if "evolution.interval.ms" in evolution:
            raise ConfigurationError(
                f"option {name}.evolution.interval.ms has no effect without {name}.evolution=restart"
            )
        return None
    fixed = {"schema": "schema" in given, "version": given.get("version", "latest").strip().lower() != "latest"}
    for option, is_set in fixed.items():
        if is_set:
            raise ConfigurationError(
                f"options {name}.evolution=restart and {name}.{option} contradict each other: only the latest version "
                "of a subject has newer ones"
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
    _reject_foreign(name, kind, given, _WRITTEN)
    if name not in columns:
        names = ", ".join(columns) or "none"
        makes_one = "; select(struct('*').alias('value')) makes one of all" if name == "value" else ""
        raise ConfigurationError(f"there is no column {name} to be written as {kind}, only {names}{makes_one}")
    arguments = _arguments(name, given)
    column = Encoded(
        name=name,
        format=kind,
        given=arguments,
        registry=tuple(hidden(registry).items()) if kind in FORMATS else (),
        topic=topic,
        type=written_type(columns[name], name),
    )
    if kind in FORMATS:
        _check_subject(column, dict(arguments))
    return column


def _check_subject(column: Encoded, given: Mapping[str, Any]) -> None:
    """Rejects options that have no effect on the schema or subject, and options that do not determine the subject."""
    if not column.registry:
        if column.format != "json" and "schema" not in given:
            raise ConfigurationError(
                f"{column.name}.format={column.format} needs {column.name}.schema or {REGISTRY}url"
            )
        if column.format != "json" and given.get("framing", "auto") not in ("none", "single-object"):
            raise ConfigurationError(
                f"{column.name}.format={column.format} writes the id of its schema, which a registry gives: give the "
                f"option {REGISTRY}url, or {column.name}.framing=none"
            )
        for name in ("subject", "version", "auto_register", "use_latest", "subject_strategy"):
            if name in given:
                dotted = f"{column.name}.{name.replace('_', '.')}"
                raise ConfigurationError(f"option {dotted} has no effect without {REGISTRY}url")
        return
    registered = given.get("use_latest", False) or (column.format != "avro" and "schema" not in given)
    for name, used in (("version", registered), ("auto_register", not registered)):
        if name in given and not used:
            written = "written" if registered else "not what is written"
            latest = "" if column.format == "json" else f" ({column.name}.use.latest)"
            dotted = f"{column.name}.{name.replace('_', '.')}"
            raise ConfigurationError(f"option {dotted} has no effect where the subject's version is {written}{latest}")
    if column.topic is None and "subject" not in given and given.get("subject_strategy") != "record":
        record = f", or {column.name}.subject.strategy=record" if column.format == "avro" else ""
        raise ConfigurationError(
            f"schemas are registered before rows are looked at, and only those say which topics there are: give the "
            f"option topic or {column.name}.subject{record}"
        )


def _format(name: str, options: Mapping[str, str], known: Mapping[str, None]) -> tuple[str, dict[str, str]]:
    """Returns the format of keys or values, empty if none is set, and the other options of keys or values."""
    prefix = f"{name}."
    given = {
        option.removeprefix(prefix): options[option]
        for option in known
        if option.startswith(prefix) and option in options
    }
    kind = given.pop("format", "").strip().lower()
    if not kind:
        if given:
            raise ConfigurationError(f"option {name}.{_shown(next(iter(given)))} has no effect without {name}.format")
    elif kind not in FORMATS and kind not in PLAIN:
        raise ConfigurationError(
            f"option {name}.format must be one of {', '.join((*FORMATS, *PLAIN))}, not {options[f'{name}.format']!r}"
        )
    return kind, given


def _reject_foreign(name: str, kind: str, given: Mapping[str, str], own: Mapping[str, Sequence[str]]) -> None:
    """Rejects options that the format does not have."""
    for option in given:
        if option not in own.get(kind, ()):
            raise ConfigurationError(f"option {name}.{_shown(option)} has no effect with {name}.format={kind}")


def _arguments(name: str, given: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    """Returns the options as arguments of the format's class."""
    return tuple((option.replace(".", "_"), _value(f"{name}.{option}", option, text)) for option, text in given.items())


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
    """Parses the names and texts of imported files, which are a JSON object."""
    try:
        files = json.loads(text)
    except ValueError:
        files = None
    if not isinstance(files, dict) or not all(isinstance(content, str) for content in files.values()):
        raise ConfigurationError(
            f'option {option} must be JSON like {{"shop/user.proto":"syntax = ..."}}, not {text!r}'
        )
    return tuple(files.items())


def _letters(name: str, bad: str, topic: str, options: Mapping[str, str]) -> str | None:
    """Returns the dead letter topic; None if bad records are not sent on."""
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
    """Returns the topic that is read, if the options name exactly one topic; otherwise None."""
    topics = _topics(options)
    return topics.pop() if len(topics) == 1 else None


def _topics(options: Mapping[str, str]) -> set[str]:
    """Returns the topics that the options name; empty for a pattern."""
    topics = {name.strip() for name in options.get("subscribe", "").split(",")} - {""}
    if "assign" in options:
        try:
            topics |= set(json.loads(options["assign"]))
        except (TypeError, ValueError):
            # An invalid value is ignored here, because the Rust client reports it.
            return set()
    return topics
