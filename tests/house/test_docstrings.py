"""Every public name has a docstring: those of `samsarrow`, and of the modules that users import from."""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest

import samsarrow

PACKAGE = Path(samsarrow.__file__).parent
MODULES = ["samsarrow", *sorted(f"samsarrow.{name}" for name in samsarrow._SUBMODULES), "samsarrow.offsets.move"]


def names(module: ModuleType) -> list[str]:
    """What a module offers: its `__all__`, else the classes and functions that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return [name for name in own if not name.startswith("_")]


def documented(module: ModuleType) -> Iterator[tuple[str, bool]]:
    """Public names, those of members too, and whether there is a docstring."""
    yield module.__name__, bool(module.__doc__)
    for name in names(module):
        public = getattr(module, name)
        if inspect.isclass(public):
            # Its own: one of a base says nothing of it.
            yield f"{module.__name__}.{name}", bool(public.__doc__)
            ours = [vars(of) for of in reversed(public.__mro__) if of.__module__.partition(".")[0] == "samsarrow"]
            for member, value in {key: value for of in ours for key, value in of.items()}.items():
                plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                if not member.startswith("_") and (inspect.isroutine(plain) or isinstance(value, property)):
                    yield f"{module.__name__}.{name}.{member}", bool(inspect.getdoc(getattr(public, member)))
        elif inspect.isroutine(public):
            yield f"{module.__name__}.{name}", bool(inspect.getdoc(public))
        elif not isinstance(public, ModuleType | TypeVar):
            # A type's other name: its text stands below it.
            yield f"{module.__name__}.{name}", name in described()


@cache
def described() -> set[str]:
    """Names of modules that have a text below their assignment."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        body = ast.parse(path.read_text()).body
        for one, after in pairwise(body):
            text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if text and isinstance(one, ast.Assign | ast.AnnAssign):
                target = one.targets[0] if isinstance(one, ast.Assign) else one.target
                found.add(ast.unparse(target))
    return found


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_has_a_docstring(name: str) -> None:
    for optional in ("polars", "spark"):
        if name == f"samsarrow.{optional}":
            pytest.importorskip({"spark": "pyspark"}.get(optional, optional), reason=f"{optional} is not installed")
    found = dict(documented(importlib.import_module(name)))
    assert [one for one, there in found.items() if not there] == []


def test_there_are_many() -> None:
    found = dict(documented(samsarrow))
    assert {f"samsarrow.{one}" for one in ("Consumer.poll", "Delivery.result", "Admin.create_topics")} <= found.keys()
    assert len(found) > 300


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_stubs_of_the_core_have_its_texts() -> None:
    tree = ast.parse((PACKAGE / "_core.pyi").read_text())
    classes = {one.name: one for one in tree.body if isinstance(one, ast.ClassDef)}
    for name in samsarrow._MODULES["_core"]:
        written = {
            one.name: ast.get_docstring(one)
            for one in classes[name].body
            if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")
        }
        assert written
        for method, text in written.items():
            said = inspect.getdoc(getattr(getattr(samsarrow, name), method)) or ""
            # The stub's first sentence may end earlier, as a line of source has to.
            assert words(text or "") == words(said), f"{name}.{method}"
