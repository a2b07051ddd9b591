"""Other Python versions: unpacks Debian's packages into `.cache/pythons`, without root permission."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "pythons"
# Debian's suite with the newest Python versions. Its Pythons need the C library of the suite.
SUITE = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main"
LOADER = "usr/lib64/ld-linux-x86-64.so.2"


class NotHereError(Exception):
    """A Python version is not available on this machine. The message has the reason."""


def find(version: str) -> tuple[str, str]:
    """Returns an interpreter, given its path or a version such as 3.14, and the PYTHONPATH with samsarrow and pyarrow
    for it.
    """
    package = str(ROOT / "python")
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable, package
    executable = version if os.sep in version else str(unpacked(version))
    asked = [executable, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    output = subprocess.run(asked, capture_output=True, text=True, check=False)
    if output.returncode != 0:
        raise NotHereError(f"{executable} does not run: {output.stderr}")
    return executable, os.pathsep.join([package, str(packages(output.stdout.strip()))])


def packages(version: str) -> Path:
    """Returns a folder with samsarrow's dependencies for that version."""
    folder = CACHE / f"site-{version}"
    if not (folder / "pyarrow").exists():
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--target",
            str(folder),
        ]
        pip += ["--only-binary=:all:", "--python-version", version, f"pyarrow=={installed('pyarrow')}", "click"]
        call(pip, f"pyarrow for Python {version}")
    return folder


def spark() -> Path:
    """Returns a folder that contains only PySpark and py4j, which any Python version can import.

    Other packages in site-packages may be compiled for the running Python version.
    """
    folder = CACHE / "spark"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("pyspark", "py4j"):
        result = find_spec(name)
        if result is None or result.origin is None:
            raise NotHereError(f"no {name} here")
        link = folder / name
        link.unlink(missing_ok=True)
        link.symlink_to(Path(result.origin).parent)
    return folder


def unpacked(version: str) -> Path:
    """Unpacks Debian's Python of that version."""
    root = CACHE / f"root-{version}"
    starter = CACHE / f"python{version}"
    if starter.exists():
        return starter
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise NotHereError(f"`{tool}` is missing: name an interpreter by its path")
    state, archives = CACHE / f"apt-{version}", CACHE / f"apt-{version}" / "archives"
    for folder in (state / "lists" / "partial", archives / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (state / "sources.list").write_text(SUITE + "\n")
    # Uses an empty dpkg status, so that apt downloads all dependencies, down to the C library.
    (state / "status").touch()
    options = [
        "APT::Sandbox::User=", f"Dir::Etc::sourcelist={state / 'sources.list'}", "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::Lists={state / 'lists'}", f"Dir::State::status={state / 'status'}", f"Dir::Cache={state}",
        f"Dir::Cache::archives={archives}", f"Dir::State::extended_states={state / 'extended'}", "Debug::NoLocking=1",
    ]  # fmt: skip
    apt = ["apt-get", "-qq", *(f"-o{option}" for option in options)]
    call([*apt, "update"], "Debian's list of packages")
    required = [f"python{version}", "libstdc++6"]
    install = [*apt, "install", "--download-only", "--yes", "--no-install-recommends", *required]
    call(install, f"Debian's packages {' and '.join(required)}")
    shutil.rmtree(root, ignore_errors=True)
    for package in sorted(archives.glob("*.deb")):
        call(["dpkg", "-x", str(package), str(root)], f"the files of {package.name}")
    libraries = root / "usr" / "lib" / "x86_64-linux-gnu"
    # Starts Python with the unpacked loader and C library; `--argv0` lets `multiprocessing` start this script again.
    starter.write_text(
        f"#!/bin/sh\nPYTHONHOME={root / 'usr'} exec {root / LOADER} --argv0 {starter} --library-path {libraries} "
        f'{root / "usr" / "bin" / f"python{version}"} "$@"\n'
    )
    starter.chmod(0o755)
    return starter


def call(command: list[str], what: str) -> None:
    """Runs a download command; if it fails, raises an error with the name of the download."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotHereError(f"{what} cannot be had: {' '.join(command)}\n{done.stdout}{done.stderr}")
