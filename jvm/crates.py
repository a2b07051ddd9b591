"""Licence notices and SBOM of the third-party crates in the native library, from cargo metadata."""

from __future__ import annotations

import json
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CRATE = "samsarrow-jvm"
OWN = "samsarrow-"
# Licence files are in the root folder of a crate, or in one of its subfolders, such as bundled C sources.
TEXTS = tuple(f"{folder}{name}*" for folder in ("", "*/") for name in ("LICENSE", "LICENCE", "COPYING", "NOTICE"))
RULE = "=" * 100
HEAD = (
    "The native libraries in this jar have Rust crates of others linked into them, and Rust's standard library\n"
    "(MIT OR Apache-2.0, The Rust Project Developers). META-INF/LICENSE has the text of Apache-2.0."
)


@dataclass(frozen=True)
class Crate:
    """A crate that is linked into the library.

    Attributes:
        licence: an SPDX expression.
        checksum: SHA-256 of the published crate.
    """

    name: str
    version: str
    licence: str
    authors: tuple[str, ...]
    repository: str
    checksum: str
    folder: Path

    def texts(self) -> list[str]:
        """Returns the licence and notice texts of the crate."""
        paths = sorted({path for pattern in TEXTS for path in self.folder.glob(pattern) if path.is_file()})
        return [path.read_text(encoding="utf-8", errors="replace").strip() for path in paths]


def version() -> str:
    """Returns the version of the workspace."""
    return str(tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"])


def linked(targets: Iterable[str], library: str = CRATE) -> list[Crate]:
    """Returns the third-party crates that are linked into the library for these targets, sorted by name."""
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(p["name"], p["version"]): p.get("checksum", "") for p in lock}
    crates = {}
    for target in targets:
        names = set(_tree(target, library))
        for package in _metadata(target):
            key = (package["name"], package["version"])
            if key in names and not package["name"].startswith(OWN):
                crates[key] = Crate(
                    *key,
                    licence=(package["license"] or "").replace("/", " OR "),
                    authors=tuple(package["authors"]),
                    repository=package["repository"] or "",
                    checksum=checksums[key],
                    folder=Path(package["manifest_path"]).parent,
                )
    return [crates[key] for key in sorted(crates)]


def notices(crates: Iterable[Crate], head: str = HEAD) -> str:
    """Formats the licence notices. Each licence text appears once, below the list of the crates that use it."""
    by_text: dict[str, list[Crate]] = {}
    for crate in crates:
        for text in crate.texts() or ["The licence is named by its SPDX expression; the crate has no text of it."]:
            by_text.setdefault(text, []).append(crate)
    parts = [head]
    for text, users in by_text.items():
        parts += [RULE, "\n".join(_line(crate) for crate in users), text]
    return "\n\n".join(parts) + "\n"


def sbom(crates: Iterable[Crate]) -> str:
    """Formats a CycloneDX SBOM. It has no timestamp, so that builds are reproducible."""
    components = []
    for crate in crates:
        component: dict[str, Any] = {
            "type": "library",
            "name": crate.name,
            "version": crate.version,
            "purl": f"pkg:cargo/{crate.name}@{crate.version}",
            "licenses": [{"expression": crate.licence}],
        }
        if crate.checksum:
            component["hashes"] = [{"alg": "SHA-256", "content": crate.checksum}]
        components.append(component)
    own = {
        "type": "library",
        "name": "samsarrow-spark",
        "version": version(),
        "licenses": [{"expression": "Apache-2.0"}],
    }
    page = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
    }
    return json.dumps(page, indent=1) + "\n"


def _line(crate: Crate) -> str:
    authors = f", {', '.join(crate.authors)}" if crate.authors else ""
    return f"{crate.name} {crate.version} ({crate.licence}){authors} {crate.repository}".rstrip()


def _tree(target: str, library: str) -> Iterator[tuple[str, str]]:
    """Yields the names and versions of all crates that are linked with the features that this library enables."""
    chosen = ["-p", library, "--edges", "normal,no-proc-macro", "--target", target]
    for line in _cargo("tree", *chosen, "--prefix", "none", "--format", "{p}").splitlines():
        name, number, *_ = line.split()
        yield name, number.removeprefix("v")


def _metadata(target: str) -> list[dict[str, Any]]:
    packages: list[dict[str, Any]] = json.loads(
        _cargo("metadata", "--format-version", "1", "--filter-platform", target)
    )["packages"]
    return packages


def _cargo(*arguments: str) -> str:
    done = subprocess.run(
        ["cargo", *arguments, "--locked"], cwd=ROOT, check=False, capture_output=True, text=True, timeout=300
    )
    if done.returncode != 0:
        raise SystemExit(f"cargo {arguments[0]} failed:\n{done.stderr}")
    return done.stdout
