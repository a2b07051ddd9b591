"""Classes that block and classes for event loops are two faces of one thing: same names, same arguments, same texts."""

import inspect
from typing import Any

import pytest

import samsarrow

# Of the face for loops alone.
MORE = {"AsyncProducer": {"send_and_wait"}}
# Texts that say how something goes in a loop; all others are those of the blocking face.
OWN_TEXTS = {"AsyncConsumer": {"reader"}, "AsyncProducer": {"send_and_wait", "transaction"}}
FACES = [name for name in ("Consumer", "Producer", "Admin", "SchemaRegistry") if f"Async{name}" in samsarrow.__all__]
# What does no I/O, and so is a plain call of both.
PLAIN = {
    "Consumer": {
        "subscribe", "subscription", "assign", "assignment", "enforce_rebalance", "wakeup", "commit_async",
        "store_offsets", "group_metadata", "seek", "pause", "resume", "paused", "records", "reader", "metrics",
    },
    "Producer": {"metrics", "transaction"},
    "Admin": {"metrics"},
    "SchemaRegistry": set(),
}  # fmt: skip


def public(face: type) -> dict[str, Any]:
    names = {name for cls in face.__mro__[:-1] for name in vars(cls) if not name.startswith("_")}
    return {name: inspect.getattr_static(face, name) for name in sorted(names)}


def faces(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return public(getattr(samsarrow, name)), public(getattr(samsarrow, f"Async{name}"))


def arguments(method: Any) -> list[tuple[str, Any, Any, Any]]:
    given = inspect.signature(method).parameters.values()
    return [(one.name, one.kind, one.default, one.annotation) for one in given]


def test_there_are_faces_to_compare() -> None:
    assert {"Consumer", "Producer"} <= set(FACES)


@pytest.mark.parametrize("name", FACES)
def test_both_have_the_same_methods_with_the_same_arguments(name: str) -> None:
    blocking, awaited = faces(name)
    assert set(awaited) - set(blocking) == MORE.get(f"Async{name}", set())
    assert set(blocking) - set(awaited) == set()
    for method, body in blocking.items():
        if callable(body):
            assert arguments(awaited[method]) == arguments(body), method
    made = [inspect.signature(getattr(samsarrow, face)).parameters for face in (name, f"Async{name}")]
    assert made[0] == made[1]


@pytest.mark.parametrize("name", FACES)
def test_both_have_the_same_texts(name: str) -> None:
    blocking, awaited = faces(name)
    others = {method for method in blocking if inspect.getdoc(blocking[method]) != inspect.getdoc(awaited[method])}
    assert others == OWN_TEXTS.get(f"Async{name}", set()) & set(blocking)
    assert [method for method in awaited if not inspect.getdoc(awaited[method])] == []


@pytest.mark.parametrize("name", [name for name in FACES if name in PLAIN])
def test_what_does_io_is_awaited_and_nothing_else(name: str) -> None:
    _, awaited = faces(name)
    methods = {method for method, body in awaited.items() if callable(body)}
    coroutines = {method for method in methods if inspect.iscoroutinefunction(awaited[method])}
    assert methods - coroutines == PLAIN[name]
