"""Checks of arguments against an operation's annotations, for errors that name the invalid argument."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from samsarrow.exceptions import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")


def names_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Decorates a function so that errors about the type or the size of an argument name this argument.

    Arguments are checked only after the function has raised TypeError, AttributeError or OverflowError, so successful
    calls have no checking overhead.
    """
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            try:
                return await function(*args, **kwargs)
            except (TypeError, AttributeError, OverflowError) as error:
                if (fault := _fault_of_call(error, function, args, kwargs)) is None:
                    raise
                raise fault from error

        return cast("Callable[P, R]", call_async)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except (TypeError, AttributeError, OverflowError) as error:
            if (fault := _fault_of_call(error, function, args, kwargs)) is None:
                raise
            raise fault from error

    return call


def _fault_of_call(
    error: Exception, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Exception | None:
    """Returns an error that names the invalid argument of a call; None if another cause raised `error`."""
    # An error raised after rows were queued must keep its attribute `delivery`.
    if hasattr(error, "delivery"):
        return None
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    names = vars(sys.modules[function.__module__])
    for name, value in bound.arguments.items():
        annotation = function.__annotations__.get(name)
        fault = None if name == "core" else _fault(_evaluated(annotation, names), value, name)
        if fault is not None:
            return TypeError(f"{function.__name__}: {fault}")
    if isinstance(error, OverflowError):
        # Arguments of 64 bits are checked first, because most of them may exceed 32 bits.
        for limit in (2**63 - 1, 2**31 - 1):
            for name, value in bound.arguments.items():
                if name != "core" and (fault := _excess(value, name, limit)) is not None:
                    return ConfigurationError(f"{function.__name__}: {fault}")
    return None


def _excess(value: Any, path: str, limit: int) -> str | None:
    """Returns the path of the first integer beyond a limit, with its range; None if none does."""
    if isinstance(value, Mapping):
        items = [
            *((key, f"key {key!r} of {path}") for key in value),
            *((v, f"{path}[{k!r}]") for k, v in value.items()),
        ]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = [(getattr(value, field.name), f"{path}.{field.name}") for field in dataclasses.fields(value)]
    elif hasattr(value, "_fields"):
        items = [(getattr(value, name), f"{path}.{name}") for name in value._fields]
    elif isinstance(value, Sequence | Set) and not isinstance(value, str | bytes):
        items = [(item, f"{path}[{at}]") for at, item in enumerate(value)]
    elif _is_instance(int, value) and not -limit - 1 <= (number := operator.index(value)) <= limit:
        return f"{path} must be at most {limit}, not {number}" if number > 0 else f"{path} is out of range: {number}"
    else:
        return None
    return next((fault for item, where in items if (fault := _excess(item, where, limit)) is not None), None)


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    """Returns the type of an annotation, or `Any` for names that are imported for type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    try:
        # Safe, because annotations are source code of this package.
        return eval(annotation, names)  # noqa: S307
    except (NameError, TypeError, AttributeError):
        return Any


def _fault(kind: Any, value: Any, path: str) -> str | None:
    """Returns the reason why a value does not have a type, with the path of the wrong item; None if it has the type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Union or origin is types.UnionType:
        return _fault_of_union(inner, value, path)
    if origin is typing.Literal:
        return None if value in inner else f"{path} must be {' or '.join(map(repr, inner))}, not {value!r}"
    if origin is not None and issubclass(origin, Mapping):
        return _fault_of_mapping(inner, value, path)
    if origin is not None and issubclass(origin, Iterable):
        return _fault_of_items(inner, value, path)
    if kind is Any or not isinstance(kind, type):
        return None
    if not _is_instance(kind, value):
        return f"{path} must be {_name(kind)}, not {type(value).__name__}"
    return _fault_of_fields(value, path)


def _fault_of_union(kinds: tuple[Any, ...], value: Any, path: str) -> str | None:
    faults = [_fault(kind, value, path) for kind in kinds]
    if None in faults:
        return None
    if isinstance(value, str) and any(typing.get_origin(kind) is not None for kind in kinds):
        return f"{path} must be {' or '.join(map(_name, kinds))}, not one str"
    # If an item has the wrong type, its path helps more than the list of allowed types.
    deeper = [fault for fault in faults if fault is not None and not fault.startswith(f"{path} ")]
    if deeper:
        return deeper[0]
    return f"{path} must be {' or '.join(map(_name, kinds))}, not {type(value).__name__}"


def _fault_of_mapping(kinds: tuple[Any, ...], value: Any, path: str) -> str | None:
    if not isinstance(value, Mapping):
        return f"{path} must be a mapping, not {type(value).__name__}"
    for key, item in value.items():
        where = f"{path}[{key!r}]"
        if (fault := _fault(kinds[0], key, f"key {key!r} of {path}") or _fault(kinds[1], item, where)) is not None:
            return fault
    return None


def _fault_of_items(kinds: tuple[Any, ...], value: Any, path: str) -> str | None:
    if isinstance(value, str | bytes):
        return f"{path} must be an iterable of {_name(kinds[0])}, not one {type(value).__name__}"
    if not isinstance(value, Iterable):
        return f"{path} must be an iterable of {_name(kinds[0])}, not {type(value).__name__}"
    # The function has already consumed an iterator, so its items cannot be checked.
    items = list(value) if isinstance(value, Sequence | Set) else []
    fixed = len(kinds) == len(items) and Ellipsis not in kinds and len(kinds) > 1
    for index, item in enumerate(items):
        if (fault := _fault(kinds[index if fixed else 0], item, f"{path}[{index}]")) is not None:
            return fault
    return None


def _fault_of_fields(value: Any, path: str) -> str | None:
    """Checks the fields of dataclasses and named tuples, whose constructors do not check them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
    else:
        names = list(getattr(value, "_fields", ()))
    known = vars(sys.modules[type(value).__module__])
    annotations = getattr(type(value), "__annotations__", {})
    for name in names:
        kind = _evaluated(annotations.get(name, Any), known)
        if (fault := _fault(kind, getattr(value, name), f"{path}.{name}")) is not None:
            return fault
    return None


def _is_instance(kind: type, value: Any) -> bool:
    if kind is int:
        # Accepts numpy's integers too.
        return isinstance(value, int) or _has_index(value)
    if kind is float:
        return isinstance(value, int | float) or hasattr(value, "__float__")
    return isinstance(value, kind)


def _has_index(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _name(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin is typing.Union or origin is types.UnionType:
        return " or ".join(map(_name, typing.get_args(kind)))
    if origin is typing.Literal:
        return " or ".join(map(repr, typing.get_args(kind)))
    if kind is type(None):
        return "None"
    if origin is not None and issubclass(origin, Mapping):
        return "a mapping"
    if origin is not None and issubclass(origin, Iterable):
        return f"an iterable of {_name(typing.get_args(kind)[0])}"
    return getattr(kind, "__name__", str(kind))


def to_uuid(value: object, subject: str) -> UUID:
    """Returns a UUID that is passed as such or as text.

    Args:
        value: the argument.
        subject: name of the argument for the error.

    Raises:
        ConfigurationError: the text is not a UUID.
        TypeError: the argument is neither.
    """
    if isinstance(value, UUID):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{subject} must be a UUID or its text, not {type(value).__name__}")
    try:
        return UUID(value)
    except ValueError:
        text = f"{subject} must be a UUID, such as 89791762-2336-4186-9674-299b90a802e2, not {value!r}"
        raise ConfigurationError(text) from None
