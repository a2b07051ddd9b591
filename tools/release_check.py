"""Checks that this checkout may be released (`make release-check`), and says how to fix problems.

Quick checks run first and report all their problems; the hour-long gates run only if these pass.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Wheels of a release: tags in their file names, and their platforms. Wheels that were never imported in a test are
# excluded.
WHEELS = {
    "manylinux_2_17_x86_64": "Linux with glibc on x86-64",
    "manylinux_2_17_aarch64": "Linux with glibc on 64-bit ARM",
}
LARGEST = 8_000_000
GATES = ("check", "test")
HEADING = re.compile(r"^## (\S+), (\S+)$", re.MULTILINE)


class Checkout:
    """The checkout to release, and the wheels built from it."""

    def __init__(self, root: Path, dist: Path) -> None:
        self.root = root
        self.dist = dist

    @property
    def version(self) -> str:
        """Returns the version of the workspace, which maturin uses for the wheels."""
        cargo = tomllib.loads((self.root / "Cargo.toml").read_text())
        return str(cargo["workspace"]["package"]["version"])

    def git(self, *arguments: str) -> str:
        """Runs git and returns its output."""
        done = subprocess.run(["git", *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.rstrip()

    def last_tag(self) -> str | None:
        """Returns the tag with the highest version, other than this one."""
        tags = [tag for tag in self.git("tag", "--list", "v*").split() if re.fullmatch(r"v\d+\.\d+\.\d+", tag)]
        return max((tag for tag in tags if tag != f"v{self.version}"), key=_numbers, default=None)


def tree(at: Checkout) -> Iterator[str]:
    """Checks that the work tree is clean and the version is not released yet."""
    if changed := at.git("status", "--porcelain"):
        yield f"the tree is not clean: commit, or ignore, {', '.join(line[3:] for line in changed.splitlines()[:5])}"
    tag = f"v{at.version}"
    if tag in at.git("tag", "--list", tag).split() and at.git("rev-parse", f"{tag}^{{}}") != at.git(
        "rev-parse", "HEAD"
    ):
        yield f"{tag} is tagged at another commit: raise the version in Cargo.toml"
    last = at.last_tag()
    if last and _numbers(last) > _numbers(tag):
        yield f"the version {at.version} is below {last}, which is out"


def versions(at: Checkout) -> Iterator[str]:
    """Checks that all files that contain the version of the package have the same version as the workspace."""
    results = {}
    project = tomllib.loads((at.root / "pyproject.toml").read_text())["project"]
    if "version" in project:
        results["pyproject.toml, project.version"] = project["version"]
    for name in project.get("optional-dependencies", {}).get("spark", []):
        if name.startswith("samsarrow-spark=="):
            results["pyproject.toml, samsarrow-spark"] = name.partition("==")[2].partition(";")[0]
    lock = tomllib.loads((at.root / "Cargo.lock").read_text())["package"]
    for package in lock:
        if package["name"].startswith("samsarrow-"):
            results[f"Cargo.lock, {package['name']}"] = package["version"]
    if heading := HEADING.search((at.root / "CHANGELOG.md").read_text()):
        results["CHANGELOG.md, its first entry"] = heading[1]
    if (pom := at.root / "jvm" / "pom.xml").exists() and (
        written := re.search(r"<version>(.+?)</version>", pom.read_text())
    ):
        results["jvm/pom.xml"] = written[1]
    for where, version in results.items():
        if version != at.version:
            yield f"{where} says {version}, and Cargo.toml {at.version}"


def changelog(at: Checkout) -> Iterator[str]:
    """Checks that the first entry has a past date and text."""
    text = (at.root / "CHANGELOG.md").read_text()
    heading = HEADING.search(text)
    if heading is None:
        yield "CHANGELOG.md has no entry: `## VERSION, YYYY-MM-DD`"
        return
    try:
        date = datetime.date.fromisoformat(heading[2])
    except ValueError:
        yield f"CHANGELOG.md dates {heading[1]} with `{heading[2]}`: write the day as YYYY-MM-DD"
    else:
        if date > datetime.datetime.now(datetime.UTC).date():
            yield f"CHANGELOG.md dates {heading[1]} with {date}, which is still to come"
    if not re.search(r"^- ", text[heading.end() :].partition("\n## ")[0], re.MULTILINE):
        yield f"CHANGELOG.md says nothing of {heading[1]}"


def surface(at: Checkout) -> Iterator[str]:
    """Checks that no name or argument of the last release was removed, unless the version number permits it."""
    last = at.last_tag()
    if last is None:
        print("  no earlier release: there is nothing to compare names and arguments with")
        return
    command = [sys.executable, str(ROOT / "tools" / "surface.py"), last, str(at.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        yield f"{last} cannot be compared with:\n{done.stderr.strip()}"
    elif done.returncode == 3 and not _may_break(last, at.version):
        broken = done.stdout.strip()
        yield f"{at.version} breaks what {last} had, and its number does not say so (docs/policy.md):\n{broken}"


def wheels(at: Checkout) -> Iterator[str]:
    """Checks that each wheel exists, is of this commit, is small enough, and contains its SBOM and licences."""
    built = int(at.git("log", "-1", "--format=%ct"))
    named = f"samsarrow-{at.version}"
    for tag, what in WHEELS.items():
        results = [path for path in at.dist.glob(f"{named}-cp311-abi3-*.whl") if tag in path.name]
        if not results:
            yield f"no wheel for {what} in {at.dist.name}/: `make wheels`"
        for path in results:
            yield from _wheel(path, built)
    sources = at.dist / f"{named}.tar.gz"
    if not sources.exists():
        yield f"no {sources.name} in {at.dist.name}/: `make sdist`"
    elif sources.stat().st_mtime < built:
        yield f"{sources.name} is older than the commit: `make sdist`"


def _wheel(path: Path, built: int) -> Iterator[str]:
    if path.stat().st_mtime < built:
        yield f"{path.name} is older than the commit: `make wheels`"
    if path.stat().st_size > LARGEST:
        yield f"{path.name} has {path.stat().st_size / 1_000_000:.2f} MB, and {LARGEST // 1_000_000} are the most"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        boms = [name for name in names if re.search(r"\.dist-info/sboms/.+\.json$", name)]
        if not any(json.loads(wheel.read(name)).get("components") for name in boms):
            yield f"{path.name} has no SBOM"
    for expected in ("LICENSE", "THIRD-PARTY-NOTICES"):
        if not any(re.search(rf"\.dist-info/licenses/{expected}$", name) for name in names):
            yield f"{path.name} has no {expected}"


def gates(at: Checkout) -> Iterator[str]:
    """Runs `make check` and `make test`."""
    for target in GATES:
        print(f"  make {target}", flush=True)
        if subprocess.run(["make", "--no-print-directory", target], cwd=at.root, check=False).returncode != 0:
            yield f"`make {target}` failed"
            return


QUICK: tuple[Callable[[Checkout], Iterator[str]], ...] = (tree, versions, changelog, surface, wheels)


def main(arguments: list[str] | None = None) -> int:
    """Prints the result of each check; returns 1 if any failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--dist", type=Path, help="where the wheels are; by default dist/")
    options = parser.parse_args(arguments)
    at = Checkout(options.root, options.dist or options.root / "dist")
    refused = [name for check in QUICK if (name := _looked(check, at))]
    if refused:
        print(f"not to be released: {', '.join(refused)}; the gates were not run")
        return 1
    if _looked(gates, at):
        print("not to be released")
        return 1
    print(f"{at.version} may be released: git tag v{at.version}")
    return 0


def _looked(check: Callable[[Checkout], Iterator[str]], at: Checkout) -> str | None:
    problems = list(check(at))
    print(f"{'NO' if problems else 'ok'}  {check.__name__}", flush=True)
    for problem in problems:
        print("    " + problem.replace("\n", "\n    "))
    return check.__name__ if problems else None


def _numbers(tag: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", tag)[:3])


def _may_break(last: str, version: str) -> bool:
    """Returns true for a minor release before 1.0 and a major one afterwards (docs/policy.md)."""
    before, after = _numbers(last), _numbers(version)
    return after[0] > before[0] or (after[0] == 0 and after[1] > before[1])


if __name__ == "__main__":
    sys.exit(main())
