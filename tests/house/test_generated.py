"""Files that follow from the core's tables are what the tables say."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATE = runpy.run_path(str(ROOT / "tools" / "generate.py"), run_name="generate")


@pytest.mark.parametrize("path", GENERATE["FILES"], ids=lambda path: path.name)
def test_a_file_is_what_the_table_says(path: Path) -> None:
    assert path.read_text() == GENERATE["formatted"](GENERATE["FILES"][path]()), "run `make generate`"
