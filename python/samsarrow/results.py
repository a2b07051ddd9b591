"""Outcomes of calls on several resources: reads return a mapping, failed writes raise one exception."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar
from uuid import UUID

from samsarrow.exceptions import KafkaError

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Results(Mapping[K, V_co]):
    """The results for several resources, as a mapping. Looking up a resource that failed raises its error.

    `errors` has the failures and `found` the rest: neither raises. Iteration and `len` include both.
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

    def table(self) -> Any:
        """Returns the found values as a `pyarrow.Table`, one row each; failures are left out.

        A value with several parts, such as the settings of a resource, becomes one row per part. Enums and ids become
        strings, nested values structs.
        """
        import pyarrow as pa

        columns = dict(_columns("key", self._key))
        # A tuple or a dict of things gives a row for each of them.
        many = typing.get_origin(self._value) in (tuple, dict)
        value = typing.get_args(self._value)[-1] if many else self._value
        for name, kind in _columns("value", value):
            columns[f"{name}_" if name in columns else name] = kind
        rows = []
        for key, found in self.found.items():
            several = found.values() if isinstance(found, dict) else found
            some = typing.cast("Iterable[Any]", several) if many else (found,)
            rows += [(*_cells(key, self._key), *_cells(one, value)) for one in some]
        arrays = [pa.array([row[at] for row in rows], type=_arrow(kind)) for at, kind in enumerate(columns.values())]
        return pa.table(arrays, names=list(columns)) if columns else pa.table({})


class PartialFailureError(KafkaError, Generic[K, V]):
    """Some or all of several writes failed; the others are done.

    If all failures are of one class, the exception is of that class too: `except TopicAlreadyExistsError` works.

    Attributes:
        failures: the error of each failed write.
        succeeded: the result of each successful write, None if it has no result.
    """

    name = "PARTIAL_FAILURE"

    def __init__(self, text: str, failures: Mapping[K, KafkaError], succeeded: Mapping[K, V]) -> None:
        super().__init__(text)
        self.failures: Mapping[K, KafkaError] = types.MappingProxyType(dict(failures))
        self.succeeded: Mapping[K, V] = types.MappingProxyType(dict(succeeded))

    def __reduce__(self) -> tuple[Any, ...]:
        kind = next((one for one, made in _MADE.items() if made is type(self)), type(self))
        state = {name: value for name, value in self._state().items() if name not in ("failures", "succeeded")}
        return _copied, (kind, str(self), dict(self.failures), dict(self.succeeded)), state


Row = tuple[Any, Any, KafkaError | None]


def reads(key: Callable[[Any], Any], value: Callable[[Any], Any], kinds: tuple[type, Any]) -> Callable[..., Any]:
    """Makes `Results` of what the core found: keys, values, errors."""

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
    """Makes a dict of what is done, or raises the failures with it."""

    def done(rows: list[Row]) -> dict[Any, Any]:
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

    return done


def failure(failures: Mapping[K, KafkaError], succeeded: Mapping[K, V]) -> PartialFailureError[K, V]:
    """The exception of several failures: its text is the first one's, and says how many there are."""
    first, *rest = failures.values()
    some = [str(error) for error in rest[:9]]
    more = f" (and {len(rest)} more: {'; '.join(some)}{'; …' if len(rest) > 9 else ''})" if rest else ""
    kinds = {type(error) for error in failures.values()}
    kind: type[PartialFailureError[Any, Any]] = _both(first.__class__) if len(kinds) == 1 else PartialFailureError
    raised: PartialFailureError[K, V] = kind(f"{first}{more}", failures, succeeded)
    for flag in ("retriable", "fatal"):
        setattr(raised, flag, all(getattr(error, flag) for error in failures.values()))
    if len({error.code for error in failures.values()}) == 1:
        raised.code, raised.name = first.code, first.name
    raised.__cause__ = first.__cause__
    return raised


_MADE: dict[type[KafkaError], type[PartialFailureError[Any, Any]]] = {}


def _both(kind: type[KafkaError]) -> type[PartialFailureError[Any, Any]]:
    if issubclass(PartialFailureError, kind):
        return PartialFailureError
    if kind not in _MADE:
        names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        made = type(kind.__name__, (PartialFailureError, kind), names)
        _MADE[kind] = typing.cast("type[PartialFailureError[Any, Any]]", made)
    return _MADE[kind]


def _copied(
    kind: type[KafkaError], text: str, failures: Mapping[Any, KafkaError], succeeded: Mapping[Any, Any]
) -> PartialFailureError[Any, Any]:
    """Returns a copy; its class does not exist in another process before."""
    made = kind if issubclass(kind, PartialFailureError) else _both(kind)
    return made(text, failures, succeeded)


def _fields(kind: Any) -> list[tuple[str, Any]] | None:
    """Names and types of what is a record, None for anything else."""
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        hints = typing.get_type_hints(kind)
        names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else list(kind._fields)
        return [(name, hints[name]) for name in names]
    return None


def _columns(name: str, kind: Any) -> list[tuple[str, Any]]:
    found = _fields(_plain(kind))
    return [(name, kind)] if found is None else found


def _plain(kind: Any) -> Any:
    """The type without None."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        some = [one for one in typing.get_args(kind) if one is not type(None)]
        return some[0] if len(some) == 1 else object
    return kind


def _arrow(kind: Any) -> Any:
    import pyarrow as pa

    kind = _plain(kind)
    found, origin, inner = _fields(kind), typing.get_origin(kind), typing.get_args(kind)
    if found is not None:
        return pa.struct([(name, _arrow(of)) for name, of in found])
    if origin is tuple and (len(inner) == 1 or inner[-1] is Ellipsis):
        return pa.list_(_arrow(inner[0]))
    if origin is tuple:
        return pa.struct([(f"f{at}", _arrow(of)) for at, of in enumerate(inner)])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return pa.map_(_arrow(inner[0]), _arrow(inner[1]))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return pa.string()
    return {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), bytes: pa.binary()}.get(kind, pa.string())


def _cells(value: Any, kind: Any) -> list[Any]:
    found = _fields(_plain(kind))
    return [_cell(value)] if found is None else [_cell(getattr(value, name)) for name, _ in found]


def _cell(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, UUID | Exception):
        return str(value)
    found = _fields(kind)
    if found is not None:
        return {name: _cell(getattr(value, name)) for name, _ in found}
    if isinstance(value, Mapping):
        return [(_cell(key), _cell(of)) for key, of in value.items()]
    if isinstance(value, tuple):
        return [_cell(of) for of in value]
    return value
