"""Every public name has a docstring, in `samsarrow` and in the modules that users import from."""

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
from samsarrow._names import OtherClientsMethod

PACKAGE = Path(samsarrow.__file__).parent
MODULES = ["samsarrow", *sorted(f"samsarrow.{name}" for name in samsarrow._SUBMODULES), "samsarrow.offsets.move"]


def names(module: ModuleType) -> list[str]:
    """Returns the public names of a module: `__all__` if it exists, otherwise the classes and functions that it
    defines.
    """
    if hasattr(module, "__all__"):
        return list(module.__all__)
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return [name for name in own if not name.startswith("_")]


def documented(module: ModuleType) -> Iterator[tuple[str, bool]]:
    """Yields each public name and the names of its members, with True if the name has a docstring."""
    yield module.__name__, bool(module.__doc__)
    for name in names(module):
        public = getattr(module, name)
        if inspect.isclass(public):
            # `__doc__` is used because `inspect.getdoc` also returns inherited docstrings.
            yield f"{module.__name__}.{name}", bool(public.__doc__)
            ours = [vars(of) for of in reversed(public.__mro__) if of.__module__.partition(".")[0] == "samsarrow"]
            for member, value in {key: value for of in ours for key, value in of.items()}.items():
                plain = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                if isinstance(value, OtherClientsMethod):
                    continue
                if not member.startswith("_") and (inspect.isroutine(plain) or isinstance(value, property)):
                    yield f"{module.__name__}.{name}.{member}", bool(inspect.getdoc(getattr(public, member)))
        elif inspect.isroutine(public):
            yield f"{module.__name__}.{name}", bool(inspect.getdoc(public))
        elif not isinstance(public, ModuleType | TypeVar):
            # The docstring of a type alias is the string literal after its assignment.
            yield f"{module.__name__}.{name}", name in described()


@cache
def described() -> set[str]:
    """Returns the names whose assignment is followed by a string literal."""
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
    if (package := samsarrow._REQUIRES.get(name.removeprefix("samsarrow."))) is not None:
        pytest.importorskip(package, reason=f"{package} is not installed")
    found = dict(documented(importlib.import_module(name)))
    assert [one for one, there in found.items() if not there] == []


def test_public_names_are_found() -> None:
    found = dict(documented(samsarrow))
    assert {f"samsarrow.{one}" for one in ("Consumer.poll", "Delivery.result", "Admin.create_topics")} <= found.keys()
    assert len(found) > 300


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_core_stubs_have_the_same_docstrings() -> None:
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
            docstring = inspect.getdoc(getattr(getattr(samsarrow, name), method)) or ""
            # Only the words are compared, since the stub may have other line breaks.
            assert words(text or "") == words(docstring), f"{name}.{method}"
