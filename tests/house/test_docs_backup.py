"""docs/backup.md: its commands run in order."""

from pathlib import Path

import pytest

from samsarrow.testing import Broker
from support.commands import runner
from support.fences import ROOT, commands, fences, program, shell, topics_of


def test_commands_of_the_backup_page_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "backup.md"
    monkeypatch.setenv("PATH", str(program(tmp_path)), prepend=":")
    monkeypatch.chdir(tmp_path)
    with Broker(topics=topics_of(page.read_text())) as broker:
        command = runner(broker.bootstrap_servers, monkeypatch, capsys, tmp_path)
        for one in fences(page):
            if one.language == "sh":
                for line in commands(one.text.replace("localhost:9092", broker.bootstrap_servers)):
                    shell(line, command)
    assert (tmp_path / "backups" / "orders" / "manifest.json").exists()
