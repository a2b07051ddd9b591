"""Lists breaking changes of the Python API since a tag: removed or changed names and arguments.

    python tools/surface.py v0.1.0

The API consists of the names in `__all__` of `samsarrow` and of its modules without an underscore; other contents of a
module may change (docs/policy.md). Nothing is imported: griffe reads the sources and the stubs of the extension.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import griffe

PACKAGE = "samsarrow"
# Exit code if there are breaking changes; 1 means that the tool failed.
BROKEN = 3


def breaks(root: Path, tag: str) -> list[str]:
    """Returns a line per breaking change of the checkout since a tag."""
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
    """Yields the paths of all public names, where they are exported and where they are defined."""
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
