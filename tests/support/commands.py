"""Runs command lines in the test process, since starting a Python process for each would take most of the time."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from samsarrow.cli import main


@dataclass
class Ended:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str


def runner(
    servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> Callable[..., Ended]:
    """Returns a function that runs a command with a cluster: `command("consume", "t", code=0, stdin=b"")`.

    Args:
        servers: bootstrap servers of the cluster.
        monkeypatch: fixture of the test.
        capsys: fixture of the test.
        folder: folder for files that commands keep, such as caches.
    """
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder))
    for name in ("SAMSARROW_PROFILE", "SAMSARROW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAMSARROW_BOOTSTRAP_SERVERS", servers)
    # Other tests of this process use pandas.
    monkeypatch.setattr("samsarrow.cli._block_imports", lambda: None)

    def run(*arguments: object, code: int = 0, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "argv", ["samsarrow", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))  # type: ignore[arg-type]
        with pytest.raises(SystemExit) as ended:
            main()
        done = Ended(int(ended.value.code or 0), *capsys.readouterr())
        assert done.code == code, done
        assert "Traceback" not in done.err
        return done

    return run
