"""A private PostgreSQL server that listens on a socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class PostgresUnavailableError(RuntimeError):
    """PostgreSQL cannot run on this machine. The message names the missing requirement."""


def programs() -> Path:
    """Returns the folder of the programs initdb and postgres, which is not on the PATH on Debian."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if found := shutil.which("initdb"):
        candidates.append(Path(found).parent)
    for folder in candidates:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise PostgresUnavailableError("PostgreSQL's initdb and postgres are not installed")


def account() -> str | None:
    """Returns the user under which the server runs: `postgres` for root, since PostgreSQL does not run as root."""
    return "postgres" if os.geteuid() == 0 else None


@contextmanager
def server() -> Iterator[str]:
    """Runs a server and yields the connection string."""
    folder = programs()
    with tempfile.TemporaryDirectory(prefix="samsarrow-postgres-") as home:
        user = account()
        if user is not None:
            try:
                shutil.chown(home, user)
            except LookupError as missing:
                raise PostgresUnavailableError(f"PostgreSQL refuses to run as root, and {missing}") from None
        data = Path(home, "data")
        subprocess.run(
            [folder / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-N", "-E", "UTF8", "--locale=C"],
            user=user, cwd=home, check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        log = Path(home, "log")
        control = [folder / "pg_ctl", "-D", data, "-w", "-t", "60", "-l", log]
        # Fsync is disabled, since tests need no durability.
        options = f"-k {home} -c listen_addresses='' -F"
        try:
            subprocess.run([*control, "-o", options, "start"], user=user, cwd=home, check=True, timeout=90,
                           stdout=subprocess.DEVNULL)  # fmt: skip
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text()}") from error
        try:
            yield f"host={home} user=postgres dbname=postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], user=user, cwd=home, check=True, timeout=90,
                           stdout=subprocess.DEVNULL)  # fmt: skip
