"""Outcomes of calls on several resources: results of reads, and the exception of writes that failed in part."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

from samsarrow._html import results_html
from samsarrow.exceptions import KafkaError

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Results(Mapping[K, V_co]):
    """The results for several resources, as a mapping. Looking up a resource that failed raises its error.

    `errors` has the errors of failed resources, and `found` the results of the others; neither raises. Iteration and
    `len` include failed resources.
    """

    def __init__(
        self, found: dict[K, V_co], errors: dict[K, KafkaError], order: list[K], key: type, value: Any
    ) -> None:
        self.found: Mapping[K, V_co] = types.MappingProxyType(found)
        self.errors: Mapping[K, KafkaError] = types.MappingProxyType(errors)
        self._order, self._key, self._value = order, key, value

    def __getitem__(self, key: K) -> V_co:
        if key in self.errors:
            raise self.errors[key]
        return self.found[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, key: object) -> bool:
        return key in self.found or key in self.errors

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Results):
            return dict(self.found) == dict(other.found) and list(self.errors) == list(other.errors)
        return not self.errors and self.found == other

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Results, (dict(self.found), dict(self.errors), list(self._order), self._key, self._value)

    def __repr__(self) -> str:
        failed = f", {len(self.errors)} failed: {dict(self.errors)!r}" if self.errors else ""
        return f"Results({dict(self.found)!r}{failed})"

    def _repr_html_(self) -> str:
        return results_html(self)

    def table(self) -> Any:
        """Returns the results as a `pyarrow.Table` with one row per resource. Failed resources are omitted.

        A result with several items, such as the settings of a resource, becomes one row per item. Enums and ids become
        strings, nested objects become structs.
        """
        import pyarrow as pa

        columns = dict(_columns("key", self._key))
        # A tuple or dict becomes one row per item.
        many = typing.get_origin(self._value) in (tuple, dict)
        value = typing.get_args(self._value)[-1] if many else self._value
        for name, kind in _columns("value", value):
            columns[f"{name}_" if name in columns else name] = kind
        rows = []
        for key, result in self.found.items():
            parts = result.values() if isinstance(result, dict) else result
            values = typing.cast("Iterable[Any]", parts) if many else (result,)
            rows += [(*_cells(key, self._key), *_cells(part, value)) for part in values]
        arrays = [pa.array([row[i] for row in rows], type=_arrow(kind)) for i, kind in enumerate(columns.values())]
        return pa.table(arrays, names=list(columns)) if columns else pa.table({})


class PartialFailureError(KafkaError, Generic[K, V]):
    """Some or all of several writes failed. The other writes took effect.

    If all failures have the same class, the exception is also an instance of that class:
    `except TopicAlreadyExistsError` works.

    Attributes:
        failures: the error of each failed write.
        succeeded: the result of each successful write; None if the write returns no result.
    """

    name = "PARTIAL_FAILURE"

    def __init__(self, text: str, failures: Mapping[K, KafkaError], succeeded: Mapping[K, V]) -> None:
        super().__init__(text)
        self.failures: Mapping[K, KafkaError] = types.MappingProxyType(dict(failures))
        self.succeeded: Mapping[K, V] = types.MappingProxyType(dict(succeeded))

    def __reduce__(self) -> tuple[Any, ...]:
        kind = next((base for base, created in _SUBCLASSES.items() if created is type(self)), type(self))
        state = {name: value for name, value in self._state().items() if name not in ("failures", "succeeded")}
        return _restored, (kind, str(self), dict(self.failures), dict(self.succeeded)), state


Row = tuple[Any, Any, KafkaError | None]


def reads(key: Callable[[Any], Any], value: Callable[[Any], Any], kinds: tuple[type, Any]) -> Callable[..., Any]:
    """Returns a function that converts rows (key, value, error) from the Rust client to `Results`."""

    def results(rows: list[Row]) -> Results[Any, Any]:
        found, errors, order = {}, {}, []
        for raw, row, error in rows:
            item = key(raw)
            order.append(item)
            if error is None:
                found[item] = value(row)
            else:
                errors[item] = error
        return Results(found, errors, order, *kinds)

    return results


def writes(key: Callable[[Any], Any], value: Callable[[Any, Any], Any] = lambda key, row: None) -> Callable[..., Any]:
    """Returns a function that converts rows to a dict. It raises `PartialFailureError` if any row has an error."""

    def outcome(rows: list[Row]) -> dict[Any, Any]:
        succeeded, failures = {}, {}
        for raw, row, error in rows:
            item = key(raw)
            if error is None:
                succeeded[item] = value(item, row)
            else:
                failures[item] = error
        if failures:
            raise failure(failures, succeeded)
        return succeeded

    return outcome


def failure(failures: Mapping[K, KafkaError], succeeded: Mapping[K, V]) -> PartialFailureError[K, V]:
    """Returns the exception for several failures. Its text has the first failure, followed by up to nine others."""
    first, *rest = failures.values()
    others = [str(error) for error in rest[:9]]
    more = f" (and {len(rest)} more: {'; '.join(others)}{'; …' if len(rest) > 9 else ''})" if rest else ""
    kinds = {type(error) for error in failures.values()}
    kind: type[PartialFailureError[Any, Any]] = _subclass(first.__class__) if len(kinds) == 1 else PartialFailureError
    error: PartialFailureError[K, V] = kind(f"{first}{more}", failures, succeeded)
    for flag in ("retriable", "fatal"):
        setattr(error, flag, all(getattr(each, flag) for each in failures.values()))
    if len({each.code for each in failures.values()}) == 1:
        error.code, error.name = first.code, first.name
    error.__cause__ = first.__cause__
    return error


_SUBCLASSES: dict[type[KafkaError], type[PartialFailureError[Any, Any]]] = {}


def _subclass(kind: type[KafkaError]) -> type[PartialFailureError[Any, Any]]:
    """Returns the class that is derived from both `PartialFailureError` and `kind`; creates it on first use."""
    if issubclass(PartialFailureError, kind):
        return PartialFailureError
    if kind not in _SUBCLASSES:
        names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        created = type(kind.__name__, (PartialFailureError, kind), names)
        _SUBCLASSES[kind] = typing.cast("type[PartialFailureError[Any, Any]]", created)
    return _SUBCLASSES[kind]


def _restored(
    kind: type[KafkaError], text: str, failures: Mapping[Any, KafkaError], succeeded: Mapping[Any, Any]
) -> PartialFailureError[Any, Any]:
    """Recreates an unpickled error, whose class may not exist yet in this process."""
    cls = kind if issubclass(kind, PartialFailureError) else _subclass(kind)
    return cls(text, failures, succeeded)


def _fields(kind: Any) -> list[tuple[str, Any]] | None:
    """Returns the field names and types of a dataclass or named tuple; None for any other type."""
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        hints = typing.get_type_hints(kind)
        names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)
        return [(name, hints[name]) for name in names]
    return None


def _columns(name: str, kind: Any) -> list[tuple[str, Any]]:
    fields = _fields(_without_none(kind))
    return [(name, kind)] if fields is None else fields


def _without_none(kind: Any) -> Any:
    """Returns the type of an optional type, without None; `object` for a union of several other types."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        others = [member for member in typing.get_args(kind) if member is not type(None)]
        return others[0] if len(others) == 1 else object
    return kind


def _arrow(kind: Any) -> Any:
    import pyarrow as pa

    kind = _without_none(kind)
    fields, origin, inner = _fields(kind), typing.get_origin(kind), typing.get_args(kind)
    if fields is not None:
        return pa.struct([(name, _arrow(field)) for name, field in fields])
    if origin is tuple and (len(inner) == 1 or inner[-1] is Ellipsis):
        return pa.list_(_arrow(inner[0]))
    if origin is tuple:
        return pa.struct([(f"f{index}", _arrow(member)) for index, member in enumerate(inner)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return pa.map_(_arrow(inner[0]), _arrow(inner[1]))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return pa.string()
    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), bytes: pa.binary()}.get(kind, pa.string())


def _cells(value: Any, kind: Any) -> list[Any]:
    fields = _fields(_without_none(kind))
    return [_cell(value)] if fields is None else [_cell(getattr(value, name)) for name, _ in fields]


def _cell(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, UUID | Exception):
        return str(value)
    fields = _fields(kind)
    if fields is not None:
        return {name: _cell(getattr(value, name)) for name, _ in fields}
    if isinstance(value, Mapping):
        return [(_cell(key), _cell(item)) for key, item in value.items()]
    if isinstance(value, tuple):
        return [_cell(item) for item in value]
    return value
