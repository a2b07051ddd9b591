"""docs/cli.md: its commands run in order and print the documented output."""

from pathlib import Path

import pytest

from samsarrow.testing import Broker, Registry
from support.commands import runner
from support.fences import ROOT, commands, console, fences, program, shell, topics_of

PAGE = ROOT / "docs" / "cli.md"
TEXT = PAGE.read_text()


def test_commands_of_the_cli_page_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "samsarrow broker --topic orders:4 --topic settings:1" in TEXT
    monkeypatch.setenv("PATH", str(program(tmp_path)), prepend=":")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    shown = [one for one in fences(PAGE) if one.language in ("sh", "console")]
    assert len(shown) > 8
    shells = 0
    with Broker(topics=topics_of(TEXT)) as broker, Registry() as registry:
        command = runner(broker.bootstrap_servers, monkeypatch, capsys, tmp_path)
        monkeypatch.setenv("SAMSARROW_CONFIG", str(tmp_path / "none.toml"))
        for one in shown:
            text = one.text.replace("localhost:9092", broker.bootstrap_servers)
            text = text.replace("http://localhost:8081", registry.url)
            lines, expected = console(text) if one.language == "console" else (commands(text), None)
            printed = ""
            for line in lines:
                out, in_shell = shell(line, command)
                printed += out
                shells += in_shell
            assert expected in (None, printed), text
    assert shells < 12, "commands without a pipe run in this process"
    assert {path.name for path in work.iterdir()} == {
        "kcat.conf", "orders.csv", "records.json", "orders.parquet", "orders-000001.arrow", "orders-000002.arrow",
        "archive-000001.parquet", "backup", "sale.avsc", "sales.parquet",
    }  # fmt: skip
