"""Griffe extension that copies docstrings of blocking classes to their asyncio counterparts."""

from __future__ import annotations

from typing import Any

import griffe


class Faces(griffe.Extension):
    """Copies docstrings where a class is decorated with `documented_by(Other)`."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Runs after all modules are loaded."""
        for module in pkg.modules.values():
            for face in module.classes.values():
                for decorator in face.decorators if not face.is_alias else ():
                    name, mark, rest = str(decorator.value).partition("(")
                    if mark and name == "documented_by":
                        self._copy(face, module[rest.rstrip(")")])

    @staticmethod
    def _copy(face: griffe.Class, other: griffe.Object | griffe.Alias) -> None:
        for name, member in face.members.items():
            source = other.all_members.get(name)
            if not member.is_alias and not member.has_docstring and source is not None and source.has_docstring:
                member.docstring = source.docstring
