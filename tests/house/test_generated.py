"""Files that are generated from tables of the core are current."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTICES = runpy.run_path(str(ROOT / "tools" / "notices.py"), run_name="notices")
GENERATE = runpy.run_path(str(ROOT / "tools" / "generate.py"), run_name="generate")


@pytest.mark.parametrize("path", GENERATE["FILES"], ids=lambda path: path.name)
def test_generated_file_is_current(path: Path) -> None:
    assert path.read_text() == GENERATE["formatted"](GENERATE["FILES"][path]()), "run `make generate`"


def test_notices_name_everything_in_the_wheels() -> None:
    text = NOTICES["PAGE"].read_text()
    assert text == NOTICES["page"](), "run `make generate`"
    # C sources within crates have separate licences.
    for name in ("aws-lc-sys ", "Zstandard", "pyo3 ", "OpenSSL"):
        assert name in text
