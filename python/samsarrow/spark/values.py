"""Typed keys and values: what the options say of them, what Spark sees of them, and how tasks decode them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, NullType, StringType

from samsarrow._faces import Blocking, now
from samsarrow.exceptions import ConfigurationError
from samsarrow.registry import SchemaRegistry
from samsarrow.spark.clients import hidden, on_this_host, with_files
from samsarrow.spark.types import selected, spark_type
from samsarrow.values import Avro
from samsarrow.values.columns import TypedColumns

Schemed: TypeAlias = Avro
"""A format that has schemas."""

# Those by name, each with the options that it alone has.
FORMATS: dict[str, tuple[Callable[..., Schemed], tuple[str, ...]]] = {
    "avro": (Avro, ()),
}
# Those of Kafka's own serializers, which have none.
PLAIN = ("string", "short", "int", "long", "float", "double", "boolean", "uuid")

_UNKNOWN = NullType()
_REGISTRY = "schema.registry."
_SCHEMED = ("schema", "subject", "version", "framing", "fields", "ignore.rules")
_ALL = ("format", "bad", *_SCHEMED, *(name for _, own in FORMATS.values() for name in own))
_KNOWN = [f"{column}.{name}" for column in ("key", "value") for name in _ALL]


@dataclass(frozen=True)
class Typed:
    """A key or a value that is decoded.

    Attributes:
        name: `key` or `value`.
        format: one of `FORMATS`, or of `PLAIN`.
        given: arguments of the format.
        registry: options of the registry's client; none without one.
        bad: `raise` or `null`.
        topic: that is read, where it is one.
        fields: only these; None is all.
        found: what the registry says that rows look like, once it was asked: the subject, the schema, what that needs.
        type: of the column.
    """

    name: str
    format: str
    given: tuple[tuple[str, Any], ...]
    registry: tuple[tuple[str, str], ...]
    bad: str
    topic: str | None
    fields: tuple[str, ...] | None = None
    found: tuple[tuple[str, tuple[str, tuple[str, ...]]], ...] = ()
    type: DataType = _UNKNOWN

    @property
    def columns(self) -> dict[str, DataType]:
        """The columns that there are of it."""
        more = {f"raw_{self.name}": BinaryType(), f"{self.name}_error": StringType()} if self.bad == "null" else {}
        return {self.name: self.type, **more}

    def resolved(self) -> Typed:
        """The same with the type of its column, for which a registry may have to be asked.

        Raises:
            ConfigurationError: the schema cannot be read, or has a type that Spark has not.
            RegistryError: the registry cannot be asked.
        """
        format = self._format()  # noqa: A001 - as everywhere
        if not isinstance(format, str) and self.topic is None and not {"schema", "subject"} & set(dict(self.given)):
            raise ConfigurationError(
                f"what {self.name}s look like is not known where several topics are read: give the option "
                f"{self.name}.subject or {self.name}.schema"
            )
        columns = self._columns(format)
        none = pa.record_batch({"key": pa.nulls(0, pa.binary()), "value": pa.nulls(0, pa.binary())})
        made = columns.empty(none).schema.field(self.name).type
        found = () if isinstance(format, str) else tuple(format._found.items())
        return replace(self, found=found, type=spark_type(made, self.name))

    def selected(self, wanted: Mapping[str, DataType]) -> Typed:
        """The same with those fields only that `.schema(...)` chooses.

        Args:
            wanted: types of its columns.

        Raises:
            ConfigurationError: one is no choice of what is there.
        """
        for name, there in self.columns.items():
            if name in wanted and wanted[name] != there:
                paths = selected(there, wanted[name], name)
                return replace(self, fields=tuple(paths), type=wanted[name])
        return self

    def decoder(self) -> TypedColumns:
        """What decodes batches in this process."""
        return self._columns(self._format())

    def _columns(self, format: Schemed | str) -> TypedColumns:  # noqa: A002
        columns = TypedColumns(
            format if self.name == "key" else None,  # type: ignore[arg-type]
            format if self.name == "value" else None,  # type: ignore[arg-type]
            self.bad,  # type: ignore[arg-type]
            raw_values=False,
            include_headers=True,
        )
        now(columns.prepare(Blocking._do, set() if self.topic is None else {self.topic}))
        return columns

    def _format(self) -> Schemed | str:
        if self.format not in FORMATS:
            return self.format
        given = dict(self.given)
        if self.registry:
            given["registry"] = _client(dict(self.registry))
        if self.fields is not None:
            given["fields"] = self.fields
        made = FORMATS[self.format][0](**given)
        made._found.update(self.found)
        return made


def parse(options: Mapping[str, str]) -> tuple[tuple[Typed, ...], dict[str, str]]:
    """The keys and values that are decoded, and the options that are not about that.

    Args:
        options: by their names in small letters.

    Raises:
        ConfigurationError: an option is nearly one, is of no use, or has a value that cannot be.
    """
    registry = {name.removeprefix(_REGISTRY): value for name, value in options.items() if name.startswith(_REGISTRY)}
    others = {}
    for name, value in options.items():
        if name.startswith(("key.", "value.")) and name not in _KNOWN:
            if name.endswith(".deadletter.topic"):
                raise ConfigurationError(_no_letters(name))
            if meant := get_close_matches(name, _KNOWN, 1, 0.85):
                raise ConfigurationError(f"option {name} is unknown; did you mean {meant[0]}?")
        if name not in _KNOWN and not name.startswith(_REGISTRY):
            others[name] = value
    if registry and not registry.get("url", "").strip():
        raise ConfigurationError(f"option {_REGISTRY}url must be given, for example http://localhost:8081")
    typed = tuple(one for name in ("key", "value") if (one := _typed(name, options, registry)) is not None)
    if registry and not any(one.registry for one in typed):
        raise ConfigurationError(f"option {_REGISTRY}url is of no use without value.format={' or '.join(FORMATS)}")
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
        raise ConfigurationError(f"options layout and {name}.format both say what {name}s are: leave one of them out")
    return text - both


def decoded(typed: Sequence[Typed], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches with their keys and values decoded.

    Raises:
        BadValueError: one cannot be read; rows before it are given first.
        RegistryError: the registry cannot be asked what they were written with.
    """
    decoders = [_decoder(one) for one in typed]
    for batch in batches:
        error = None
        for decoder in decoders:
            # The second sees the rows before what is bad of the first: an error of its own is before that.
            batch, bad, _ = now(decoder.read(Blocking._do, batch))
            error = bad or error
        if batch.num_rows:
            yield batch
        if error is not None:
            raise error


def needs_headers(typed: Sequence[Typed]) -> bool:
    """Whether headers of records may say what keys or values were written with."""
    return any(_decoder(one).needs_headers for one in typed)


@lru_cache(maxsize=32)
def _decoder(typed: Typed) -> TypedColumns:
    """One for all tasks of a worker, which knows the schemas that they met."""
    with on_this_host():
        return typed.decoder()


def _typed(name: str, options: Mapping[str, str], registry: Mapping[str, str]) -> Typed | None:
    given = {one: options[f"{name}.{one}"] for one in _ALL if f"{name}.{one}" in options}
    kind = given.pop("format", "").strip().lower()
    bad = given.pop("bad", "raise").strip().lower()
    if not kind:
        if given or f"{name}.bad" in options:
            first = next(iter(given), "bad")
            raise ConfigurationError(f"option {name}.{first} is of no use without {name}.format")
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
            raise ConfigurationError(f"option {name}.{one} is of no use with {name}.format={kind}")
    if kind in FORMATS and "schema" not in given and not registry:
        raise ConfigurationError(f"{name}.format={kind} needs the option {name}.schema or {_REGISTRY}url")
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


def _client(options: dict[str, str]) -> SchemaRegistry:
    given = with_files(options, _REGISTRY)
    url, context = given.pop("url"), given.pop("context", None)
    name, password = given.pop("username", None), given.pop("password", None)
    if (name is None) != (password is None):
        raise ConfigurationError(f"options {_REGISTRY}username and {_REGISTRY}password go together: give both")
    try:
        return SchemaRegistry(
            url, auth=None if name is None or password is None else (name, password), context=context, **given
        )
    except ConfigurationError as error:
        error.add_note(f"This is about the options {_REGISTRY}*.")
        raise


def _no_letters(option: str) -> str:
    return (
        f"option {option}: tasks send no records elsewhere, as Spark may run them again. With bad=null, rows have "
        "value_error and raw_value: write those of them in foreachBatch, or as a query of their own"
    )
