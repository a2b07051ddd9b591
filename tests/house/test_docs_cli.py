"""docs/cli.md: its commands run in their order, and print what it says."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from samsarrow.testing import Broker, Registry
from support.commands import runner

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text()
# What needs a shell; all else runs in this process, or most of the time would be starts of Python.
SHELL = re.compile(r"[|<>;&$`]")


def test_the_commands_of_the_page_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "samsarrow broker --topic orders:4 --topic settings:1" in PAGE
    program = tmp_path / "bin" / "samsarrow"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m samsarrow.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    fences = re.findall(r"^```(sh|console)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(fences) > 8
    shells = 0
    with Broker(topics={"orders": 4, "settings": 1}) as broker, Registry() as registry:
        command = runner(broker.bootstrap_servers, monkeypatch, capsys, tmp_path)
        monkeypatch.setenv("SAMSARROW_CONFIG", str(tmp_path / "none.toml"))
        for kind, text in fences:
            lines = text.replace("localhost:9092", broker.bootstrap_servers).splitlines()
            lines = [line.replace("http://localhost:8081", registry.url) for line in lines]
            wanted = None
            if kind == "console":
                wanted = "\n".join(line for line in lines if not line.startswith("$ ")) + "\n"
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            printed = ""
            for line in lines:
                words = shlex.split(line, comments=True)
                if words[0] == "samsarrow" and not SHELL.search(" ".join(words)):
                    printed += command(*words[1:]).out
                    continue
                shells += 1
                done = subprocess.run(
                    ["bash", "-e", "-o", "pipefail", "-c", line],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                printed += done.stdout
            assert wanted in (None, printed), text
    assert shells < 12, "commands without a pipe run in this process"
    assert {path.name for path in work.iterdir()} == {
        "kcat.conf", "orders.csv", "records.json", "orders.parquet", "orders-000001.arrow", "orders-000002.arrow",
        "new.parquet", "sale.avsc", "sales.parquet",
    }  # fmt: skip
