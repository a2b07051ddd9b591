"""Recipes in docs/recipes that are interrupted: the next run writes each record exactly once."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import samsarrow
from samsarrow.testing import Broker
from support.fences import BROKER, ROOT, fences


class KilledError(Exception):
    """Interrupts a run."""


def functions(page: str, servers: str) -> dict[str, Any]:
    """Returns the names that the first program of a page defines, without running what follows its functions."""
    program = next(one.text for one in fences(ROOT / "docs" / "recipes" / page) if one.language == "python")
    names: dict[str, Any] = {}
    exec(program.split("\n\n\nlake = ")[0].replace(BROKER, servers), names)
    return names


def test_an_interrupted_export_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*values: str) -> None:
        samsarrow.write("orders", pa.table({"value": values}), bootstrap_servers=servers)

    def rows() -> list[bytes]:
        files = tmp_path.glob("run=*/*.parquet")
        return sorted(value for path in files for value in pq.read_table(path)["value"].to_pylist())

    def killed(_: object) -> str:
        raise KilledError

    with Broker(topics={"orders": 2}) as broker:
        servers = broker.bootstrap_servers
        export = functions("files.md", servers)["export"]
        url = tmp_path.as_uri()
        write("a", "b")
        assert export("orders", url) == 2
        write("c")
        with monkeypatch.context() as patch:
            # Fails after the files were written, and before the state.
            patch.setattr(json, "dumps", killed)
            with pytest.raises(KilledError):
                export("orders", url)
        assert rows() == [b"a", b"b", b"c"]
        write("d")
        assert export("orders", url) == 2
        assert export("orders", url) == 0
        assert rows() == [b"a", b"b", b"c", b"d"]
