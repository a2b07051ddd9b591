"""Generated files are current."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTICES = runpy.run_path(str(ROOT / "tools" / "notices.py"), run_name="notices")
TOOLS = {
    name: runpy.run_path(str(ROOT / "tools" / f"{name}.py"), run_name=name) for name in ("generate", "admin_methods")
}
FILES = [pytest.param(tool, path, id=path.name) for tool in TOOLS.values() for path in tool["FILES"]]


@pytest.mark.parametrize(("tool", "path"), FILES)
def test_generated_file_is_current(tool: dict[str, Any], path: Path) -> None:
    assert path.read_text() == tool["formatted"](tool["FILES"][path]()), "run `make generate`"


def test_notices_name_everything_in_the_wheels() -> None:
    text = NOTICES["PAGE"].read_text()
    assert text == NOTICES["page"](), "run `make generate`"
    # C sources within crates have separate licences.
    for name in ("aws-lc-sys ", "Zstandard", "pyo3 ", "OpenSSL"):
        assert name in text
