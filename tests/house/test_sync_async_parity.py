"""Blocking and async classes have the same methods, arguments and docstrings."""

import inspect
from typing import Any

import pytest

import samsarrow
from samsarrow import aio, ranges

# Methods that only the async class has.
ASYNC_ONLY = {"AsyncProducer": {"send_and_wait"}}
# Async methods that have their own docstring. All others have the docstring of the blocking method.
OWN_DOCSTRINGS = {"AsyncConsumer": {"reader"}, "AsyncProducer": {"send_and_wait", "transaction"}}
NAMES = ("Consumer", "ShareConsumer", "Producer", "Admin", "SchemaRegistry", "GlueSchemaRegistry")
CLASSES = [name for name in NAMES if f"Async{name}" in samsarrow.__all__]
# Methods that do no I/O, so they are plain functions in both classes.
NO_IO = {
    "Consumer": {
        "subscribe", "subscription", "assign", "assignment", "enforce_rebalance", "wakeup", "commit_async", "stream",
        "store_offsets", "group_metadata", "seek", "pause", "resume", "paused", "records", "reader", "metrics",
    },
    "ShareConsumer": {
        "subscribe", "unsubscribe", "subscription", "assignment", "acknowledge", "commit_async", "locked_for", "wakeup",
        "records", "metrics",
    },
    "Producer": {"metrics", "transaction"},
    "Admin": {"metrics"},
    "SchemaRegistry": set(),
    "GlueSchemaRegistry": set(),
}  # fmt: skip


def public(cls: type) -> dict[str, Any]:
    names = {name for base in cls.__mro__[:-1] for name in vars(base) if not name.startswith("_")}
    return {name: inspect.getattr_static(cls, name) for name in sorted(names)}


def members(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return public(getattr(samsarrow, name)), public(getattr(samsarrow, f"Async{name}"))


def arguments(method: Any) -> list[tuple[str, Any, Any, Any]]:
    parameters = inspect.signature(method).parameters.values()
    return [(one.name, one.kind, one.default, one.annotation) for one in parameters]


def test_classes_are_found() -> None:
    assert {"Consumer", "Producer"} <= set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_signatures_are_equal(name: str) -> None:
    blocking, awaited = members(name)
    assert set(awaited) - set(blocking) == ASYNC_ONLY.get(f"Async{name}", set())
    assert set(blocking) - set(awaited) == set()
    for method, body in blocking.items():
        if callable(body):
            assert arguments(awaited[method]) == arguments(body), method
    constructors = [inspect.signature(getattr(samsarrow, full)).parameters for full in (name, f"Async{name}")]
    assert constructors[0] == constructors[1]


@pytest.mark.parametrize("name", CLASSES)
def test_docstrings_are_equal(name: str) -> None:
    blocking, awaited = members(name)
    others = {method for method in blocking if inspect.getdoc(blocking[method]) != inspect.getdoc(awaited[method])}
    assert others == OWN_DOCSTRINGS.get(f"Async{name}", set()) & set(blocking)
    assert [method for method in awaited if not inspect.getdoc(awaited[method])] == []


@pytest.mark.parametrize("name", [name for name in CLASSES if name in NO_IO])
def test_only_methods_with_io_are_coroutines(name: str) -> None:
    _, awaited = members(name)
    methods = {method for method, body in awaited.items() if callable(body)}
    coroutines = {method for method in methods if inspect.iscoroutinefunction(awaited[method])}
    assert methods - coroutines == NO_IO[name]


@pytest.mark.parametrize("blocking", [samsarrow.read, samsarrow.write, ranges.plan])
def test_functions_have_equal_signatures(blocking: Any) -> None:
    awaited = getattr(aio, blocking.__name__)
    assert inspect.iscoroutinefunction(awaited)
    assert arguments(awaited) == arguments(blocking)
    assert inspect.signature(awaited).return_annotation == inspect.signature(blocking).return_annotation
