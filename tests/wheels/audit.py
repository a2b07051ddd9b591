"""Audit of a wheel: platform, stable ABI, size, SBOM, licences."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 8_000_000
# Platforms of wheels: the oldest C library that a wheel may require, and the machine, as in file names.
PLATFORMS = re.compile(r"(manylinux_2_17|musllinux_1_2)_(x86_64|aarch64)")


class WheelError(Exception):
    """A wheel that must not be published; the message has the reason."""


def version() -> str:
    """Returns the version of the package."""
    return str(tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"])


def check(wheel: Path, tools: Path) -> str:
    """Runs all checks that are independent of the machine; returns the platform."""
    platform = PLATFORMS.search(wheel.name)
    if platform is None:
        raise WheelError(f"its name has none of the platforms that are handed out: {PLATFORMS.pattern}")
    # Sets a search path, because libraries of this machine do not belong to the platform.
    output = _output_of(tools / "auditwheel", "show", "--json", "--ldpaths", wheel.parent, wheel)
    result = json.loads(output)
    # musl's loader provides `libc.so` on every system; auditwheel knows only Alpine's file name.
    of_musl = platform[1].startswith("musllinux") and result["external_libs"].keys() == {"libc.so"}
    if result["sym_tag" if of_musl else "overall_tag"] != platform[0]:
        raise WheelError(f"auditwheel does not find that it is {platform[0]}:\n{output}")
    _output_of(tools / "abi3audit", "--strict", wheel)
    with zipfile.ZipFile(wheel) as content:
        _licences(content)
        _simulation(content)
        sbom(content)
    return platform[0]


def _simulation(content: zipfile.ZipFile) -> None:
    for path in content.namelist():
        if path.endswith((".so", ".pyd")) and b"simnet" in content.read(path):
            raise WheelError(f"{path} has parts of the simulated network, which is for tests only")


def _licences(content: zipfile.ZipFile) -> None:
    for name in ("LICENSE", "THIRD-PARTY-NOTICES"):
        [path] = [path for path in content.namelist() if path.endswith(f".dist-info/licenses/{name}")] or [""]
        if not path or content.read(path) != (ROOT / name).read_bytes():
            raise WheelError(f"{name} is missing, or not the checkout's")


def sbom(content: zipfile.ZipFile) -> set[tuple[str, str]]:
    """Checks that the crates in the SBOM are those of Cargo.lock."""
    [path] = [path for path in content.namelist() if re.search(r"\.dist-info/sboms/.*\.json$", path)] or [""]
    if not path:
        raise WheelError("it has no SBOM")
    page = json.loads(content.read(path))
    if page["bomFormat"] != "CycloneDX":
        raise WheelError(f"{path} is no CycloneDX")
    named = {
        (part["name"], part["version"])
        for part in page["components"]
        if str(part.get("purl", "")).startswith("pkg:cargo/")
    }
    if foreign := named - _locked():
        raise WheelError(f"the SBOM names what Cargo.lock does not: {sorted(foreign)[:5]}")
    notices = (ROOT / "THIRD-PARTY-NOTICES").read_text()
    noticed = set(re.findall(r"^(\S+) (\d+\.\d+\S*) \(", notices, re.MULTILINE))
    if silent := {item for item in noticed & _linux() if item not in named}:
        raise WheelError(f"the SBOM is silent about {sorted(silent)[:5]}")
    return named


@functools.cache
def _locked() -> frozenset[tuple[str, str]]:
    packages = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    return frozenset((package["name"], package["version"]) for package in packages)


@functools.cache
def _linux() -> frozenset[tuple[str, str]]:
    """Returns name and version of the crates that are linked on Linux."""
    chosen = ["-p", "samsarrow-py", "--edges", "normal,no-proc-macro", "--target", "x86_64-unknown-linux-gnu"]
    command = ["cargo", "tree", "--locked", *chosen, "--prefix", "none", "--format", "{p}"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return frozenset((line.split()[0], line.split()[1].removeprefix("v")) for line in lines)


def _output_of(tool: Path, *arguments: str | Path) -> str:
    done = subprocess.run([str(tool), *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WheelError(f"{tool.name} fails:\n{done.stdout}{done.stderr}")
    return done.stdout
