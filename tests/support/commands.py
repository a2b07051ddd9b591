"""Commands of the command line, run in the test's own process: a start of Python each would be most of the time."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from samsarrow.cli import main


@dataclass
class Ended:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str


def runner(
    servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> Callable[..., Ended]:
    """What runs a command against a cluster: `command("consume", "t", code=0, stdin=b"")`.

    Args:
        servers: of the cluster.
        monkeypatch: of the test.
        capsys: of the test.
        folder: for what commands keep.
    """
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(folder))
    for name in ("SAMSARROW_PROFILE", "SAMSARROW_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SAMSARROW_BOOTSTRAP_SERVERS", servers)

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
