"""Downloads requirements for ARM code on another machine into `.cache/arm`: qemu, an aarch64 Python, and pyarrow.

No root permission is required: Debian packages are unpacked, not installed, and apt uses a separate state.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "arm"
# Folder with zig, maturin and cargo-zigbuild, which the Makefile installs.
CROSS = ROOT / ".cache" / "cross"


class NotHereError(Exception):
    """A component is not available on this machine. The message names the component and the remedy."""


@dataclasses.dataclass(frozen=True)
class Python:
    """An aarch64 Python in its own folder."""

    root: Path
    executable: Path
    version: str


def qemu() -> Path:
    """Returns the path of qemu for aarch64. If it is not installed, unpacks Debian's package."""
    for name in ("qemu-aarch64-static", "qemu-aarch64"):
        if result := shutil.which(name):
            return Path(result)
    unpacked = CACHE / "qemu" / "usr" / "bin" / "qemu-aarch64-static"
    if not unpacked.exists():
        apt_tools()
        folder = CACHE / "deb"
        folder.mkdir(parents=True, exist_ok=True)
        call(["apt-get", *SANDBOX, "download", "qemu-user-static"], "the package qemu-user-static", folder)
        unpack(max(folder.glob("qemu-user-static_*.deb"), key=os.path.getmtime), CACHE / "qemu")
    return unpacked


def rust_target(target: str) -> None:
    """Installs Rust's standard library for another target."""
    if shutil.which("rustup") is None:
        raise NotHereError(f"`rustup` is not on PATH; it installs Rust's standard library for {target}")
    call(["rustup", "--quiet", "target", "add", target], f"Rust's standard library for {target}")


def python_root() -> Python:
    """Unpacks Debian's aarch64 Python with all dependencies into a folder."""
    root = CACHE / "root"
    complete = root / ".complete"
    if not complete.exists():
        apt_tools()
        state, archives = CACHE / "apt", CACHE / "apt" / "archives"
        for folder in (state / "lists" / "partial", archives / "partial"):
            folder.mkdir(parents=True, exist_ok=True)
        # Uses an empty dpkg status, so that apt downloads all dependencies, down to the C library.
        (state / "status").touch()
        options = [
            "APT::Architecture=arm64", "APT::Architectures=arm64", f"Dir::State::Lists={state / 'lists'}",
            f"Dir::State::status={state / 'status'}", f"Dir::Cache={state}", f"Dir::Cache::archives={archives}",
            f"Dir::State::extended_states={state / 'extended'}", "Debug::NoLocking=1",
        ]  # fmt: skip
        apt = ["apt-get", "-qq", *SANDBOX, *(f"-o{option}" for option in options)]
        call([*apt, "update"], "Debian's list of arm64 packages")
        required = ["python3", "libstdc++6"]
        install = [*apt, "install", "--download-only", "--yes", "--no-install-recommends", *required]
        call(install, f"Debian's arm64 packages {' and '.join(required)}")
        shutil.rmtree(root, ignore_errors=True)
        for package in sorted(archives.glob("*.deb")):
            unpack(package, root)
        complete.touch()
    actual = sorted((root / "usr" / "bin").glob("python3.[0-9]*[0-9]"))
    if not actual:
        raise NotHereError(f"Debian's arm64 packages brought no Python; remove {root} to try again")
    version = actual[-1].name.removeprefix("python")
    if int(version.split(".")[1]) < 11:
        raise NotHereError(f"this Debian has Python {version} for arm64, and 3.11 is the oldest that samsarrow runs on")
    return Python(root, actual[-1], version)


def packages(wheel: Path, version: str) -> Path:
    """Installs `wheel` and, for aarch64, its dependencies into a folder."""
    folder = CACHE / f"site-{version}"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", str(folder)]
    platforms = ["manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"]
    pip += [part for platform in platforms for part in ("--platform", platform)]
    pip += ["--only-binary=:all:", "--python-version", version]
    if not (folder / "pyarrow").exists():
        call([*pip, f"pyarrow=={pyarrow_version()}", "click"], "pyarrow's wheel for aarch64")
    call([*pip, "--no-deps", "--upgrade", str(wheel)], "the wheel's own files")
    return folder


def pyarrow_version() -> str:
    """Returns the version of the installed pyarrow. Both sides of the comparison must use this version."""
    import pyarrow

    return str(pyarrow.__version__)


# Disables apt's sandbox, whose user cannot write to these folders.
SANDBOX = ["-oAPT::Sandbox::User="]


def apt_tools() -> None:
    """Checks that this is Debian."""
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise NotHereError(
                f"`{tool}` is missing. On a machine without Debian's tools install qemu-user (for the Rust tests) "
                "and run the wheel's tests on an ARM machine"
            )


def unpack(package: Path, folder: Path) -> None:
    """Unpacks a Debian package into a folder."""
    call(["dpkg", "-x", str(package), str(folder)], f"the files of {package.name}")


def call(command: list[str], what: str, folder: Path = ROOT) -> None:
    """Runs a download command; if it fails, raises an error with the name of the download."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotHereError(f"{what} cannot be had: {' '.join(command)}\n{done.stdout}{done.stderr}")
