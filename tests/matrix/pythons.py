"""Python versions: this machine's, and Debian's newest, unpacked into `.cache/surroundings`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .spark import SURROUNDINGS

NEWEST = "sid"
# Disables apt's sandbox, whose user cannot write to these folders.
_SANDBOX = "APT::Sandbox::User="


class NotHereError(Exception):
    """A component is not available on this machine. The message names the component."""


@dataclass(frozen=True)
class Python:
    """The command and environment of a Python."""

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def run(self, *arguments: str, path: Sequence[Path] = (), timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs Python to completion, with only these folders on its path."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        own = {"PYTHONPATH": os.pathsep.join(map(str, path)), "PYTHONDONTWRITEBYTECODE": "1", **dict(self.environment)}
        return subprocess.run(
            [*self.command, *arguments], capture_output=True, text=True, env=kept | own, timeout=timeout, check=False
        )


def python(version: str) -> Python:
    """Returns a Python of that version, such as `3.13`."""
    if sys.version.startswith(f"{version}."):
        return Python((sys.executable,))
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    results = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python{version}")))]
    for name in filter(None, results):
        one = Python((name,))
        if one.run("-c", "").returncode == 0:
            return one
    return _debian(version)


def _debian(version: str) -> Python:
    """Unpacks Debian's Python with all dependencies. They include the C library and the loader that finds it."""
    root = SURROUNDINGS / f"debian-{version}"
    if not (root / ".complete").exists():
        _unpack(f"python{version}", root)
    [loader] = [p for p in (root / "usr/lib64/ld-linux-x86-64.so.2", root / "lib64/ld-linux-x86-64.so.2") if p.exists()]
    libraries = [root / "usr/lib/x86_64-linux-gnu", root / "lib/x86_64-linux-gnu"]
    command = (str(loader), "--library-path", ":".join(map(str, libraries)), str(root / f"usr/bin/python{version}"))
    return Python(command, (("PYTHONHOME", str(root / "usr")),))


def _unpack(package: str, root: Path) -> None:
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise NotHereError(f"no {package} here, and no `{tool}` to get Debian's")
    state = SURROUNDINGS / "apt"
    archives = state / "archives"
    shutil.rmtree(archives, ignore_errors=True)
    for folder in (state / "lists" / "partial", archives / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    # Uses an empty dpkg status, so that apt downloads all dependencies of the package.
    (state / "status").touch()
    listed = _call(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"], "apt's sources")
    mirrors = [uri for uri in listed.split() if uri.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise NotHereError(f"no {package} here, and no Debian among apt's sources")
    sources = state / "sources.list"
    sources.write_text(f"deb {mirrors[0]} {NEWEST} main\n")
    options = [
        f"Dir::State::Lists={state / 'lists'}", f"Dir::State::status={state / 'status'}", f"Dir::Cache={state}",
        f"Dir::Cache::archives={archives}", f"Dir::State::extended_states={state / 'extended'}",
        f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-", "Debug::NoLocking=1", _SANDBOX,
    ]  # fmt: skip
    apt = ["apt-get", "-qq", *(f"-o{option}" for option in options)]
    _call([*apt, "update"], f"the packages of Debian {NEWEST}")
    install = [*apt, "install", "--download-only", "--yes", "--no-install-recommends", package, "libstdc++6"]
    _call(install, f"Debian's {package}")
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    for archive in sorted(archives.glob("*.deb")):
        _call(["dpkg", "-x", str(archive), str(root)], f"the files of {archive.name}")
    (root / ".complete").touch()


def site(name: str, version: str, *requirements: str) -> Path:
    """Installs packages for that Python into a folder, from wheels only."""
    folder = SURROUNDINGS / name
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--target", str(folder), "--only-binary=:all:", "--python-version", version]
        _call([*pip, *requirements], f"{' and '.join(requirements)} for Python {version}")
        (folder / ".complete").touch()
    return folder


def virtual_environment(name: str, *requirements: str) -> Path:
    """Creates a virtual environment with the version of the running Python, and returns the environment's Python."""
    folder = SURROUNDINGS / name
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        _call([sys.executable, "-m", "venv", str(folder)], "a virtual environment")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _call([*pip, *requirements], " and ".join(requirements))
        (folder / ".complete").touch()
    return folder / "bin" / "python"


def _call(command: list[str], what: str) -> str:
    """Runs a download command; if it fails, raises an error with the name of the download."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotHereError(f"{what} cannot be had here: {said[-1] if said else done.returncode}")
    return done.stdout
