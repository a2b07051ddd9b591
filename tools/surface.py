"""What users of an earlier version would miss: names and arguments of the Python surface that are gone or changed.

    python tools/surface.py v0.1.0

The surface is what is in `__all__` of `samsarrow` and of its modules without an underscore; what else a module holds
may change (docs/policy.md). Nothing is imported: griffe reads sources, and the stubs of the core.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

PACKAGE = "samsarrow"
# The exit code where there are any; 1 is that of a program that failed.
BROKEN = 3


def breaks(root: Path, tag: str) -> list[str]:
    """A line for each, of the checkout against a tag of its repository."""
    options = {"allow_inspection": False, "resolve_aliases": True, "resolve_external": False}
    before = griffe.load_git(PACKAGE, ref=tag, repo=root, search_paths=["python"], **options)
    after = griffe.load(PACKAGE, search_paths=[root / "python"], try_relative_path=False, **options)
    faces = set(_faces(before))
    return sorted(
        {
            found.explain(griffe.ExplanationStyle.MARKDOWN)
            for found in griffe.find_breaking_changes(before, after)
            if any(found.obj.path == face or found.obj.path.startswith(f"{face}.") for face in faces)
        }
    )


def _faces(package: griffe.Module) -> Iterator[str]:
    """The paths of all that is public, where it is named and where it is."""
    modules = [package, *(m for name, m in package.modules.items() if not name.startswith("_"))]
    for module in modules:
        for name in module.exports or ():
            yield f"{module.path}.{name}"
            if str(name) in module.members:
                yield module.members[str(name)].canonical_path


if __name__ == "__main__":
    checkout = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).resolve().parents[1]
    lines = breaks(checkout, sys.argv[1])
    print("\n".join(lines))
    sys.exit(BROKEN if lines else 0)
