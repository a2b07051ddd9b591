"""`make release-check` rejects each fault of a release, but no valid release."""

import os
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = runpy.run_path(str(ROOT / "tools" / "release_check.py"), run_name="release_check")
POLL = """
__all__ = ["poll"]
def poll(timeout: float = 1.0) -> None:
    '''Waits.'''
def inner(timeout: float = 1.0) -> None:
    '''For other modules.'''
"""
FILES = {
    "Cargo.toml": '[workspace.package]\nversion = "0.2.0"\n',
    "Cargo.lock": """
[[package]]
name = "samsarrow-wire"
version = "0.2.0"
[[package]]
name = "bytes"
version = "1.0.0"
""",
    "pyproject.toml": """
[project]
name = "x"
[project.optional-dependencies]
spark = ["pyspark>=4", "samsarrow-spark==0.2.0; sys_platform == 'linux'"]
""",
    "CHANGELOG.md": "# Changelog\n\n## 0.2.0, 2026-11-01\n\n- News.\n\n## 0.1.0, 2026-01-01\n",
    "Makefile": "check test:\n\t@echo made $@\n",
    "python/samsarrow/__init__.py": POLL,
    ".gitignore": "dist\n__pycache__\n",
}


def git(folder: Path, *arguments: str) -> None:
    name = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commit(folder: Path, **changes: str) -> None:
    for name, text in changes.items():
        write(folder, name, text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "A change")
    wheels(folder / "dist")


def wheel(path: Path, *, bom: str = '{"components": [{"name": "bytes"}]}', notices: bool = True) -> None:
    with zipfile.ZipFile(path, "w") as content:
        content.writestr("samsarrow-0.2.0.dist-info/sboms/samsarrow-py.cyclonedx.json", bom)
        content.writestr("samsarrow-0.2.0.dist-info/licenses/LICENSE", "Apache-2.0")
        if notices:
            content.writestr("samsarrow-0.2.0.dist-info/licenses/THIRD-PARTY-NOTICES", "bytes")


def wheels(dist: Path) -> None:
    dist.mkdir(exist_ok=True)
    for tag in TOOL["WHEELS"]:
        wheel(dist / f"samsarrow-0.2.0-cp311-abi3-{tag}.whl")
    (dist / "samsarrow-0.2.0.tar.gz").touch()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Creates a checkout from which a release is allowed."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet")
    commit(folder, **FILES)
    return folder


@pytest.fixture
def check(checkout: Path, capfd: pytest.CaptureFixture[str]) -> Callable[[], tuple[int, str]]:
    def checked() -> tuple[int, str]:
        code = TOOL["main"](["--root", str(checkout)])
        return code, capfd.readouterr().out

    return checked


def test_checkout_in_order_may_be_released(check: Any) -> None:
    code, output = check()
    assert code == 0
    assert output.count("ok  ") == 6
    assert "no earlier release" in output
    assert "made check" in output
    assert "made test" in output
    assert output.endswith("0.2.0 may be released: git tag v0.2.0\n")


REJECTED: list[tuple[str, str, str]] = [
    ("Cargo.lock", FILES["Cargo.lock"].replace("0.2.0", "0.1.9"), "samsarrow-wire says 0.1.9, and Cargo.toml 0.2.0"),
    ("pyproject.toml", FILES["pyproject.toml"].replace("0.2.0", "0.1.9"), "samsarrow-spark says 0.1.9"),
    ("pyproject.toml", '[project]\nversion = "0.3"\n', "project.version says 0.3"),
    ("jvm/pom.xml", "<version>0.1.9</version>", "jvm/pom.xml says 0.1.9"),
    ("CHANGELOG.md", "# Changelog\n\n## 0.3.0, 2026-11-01\n\n- News.\n", "its first entry says 0.3.0"),
    ("CHANGELOG.md", "# Changelog\n\n## 0.2.0, unreleased\n\n- News.\n", "with `unreleased`: write the day"),
    ("CHANGELOG.md", "# Changelog\n\n## 0.2.0, 9999-01-01\n\n- News.\n", "which is still to come"),
    (
        "CHANGELOG.md",
        "# Changelog\n\n## 0.2.0, 2026-11-01\n\n## 0.1.0, 2026-01-01\n\n- Old.\n",
        "says nothing of 0.2.0",
    ),
    ("CHANGELOG.md", "# Changelog\n", "has no entry"),
]


@pytest.mark.parametrize(("name", "text", "reason"), REJECTED, ids=[reason for *_, reason in REJECTED])
def test_wrong_versions_and_changelogs_are_rejected(
    checkout: Path, check: Any, name: str, text: str, reason: str
) -> None:
    commit(checkout, **{name: text})
    code, output = check()
    assert code == 1
    assert reason in output
    assert "made check" not in output, "the gates take an hour"


def test_uncommitted_changes_are_rejected(checkout: Path, check: Any) -> None:
    write(checkout, "new.txt", "")
    code, output = check()
    assert (code, "not clean: commit, or ignore, new.txt" in output) == (1, True)
    write(checkout, "Makefile", "")
    assert "not clean: commit, or ignore, Makefile, new.txt" in check()[1]


def test_released_version_is_rejected(checkout: Path, check: Any) -> None:
    git(checkout, "tag", "v0.2.0")
    assert check()[0] == 0, "tagged here, and not pushed yet"
    commit(checkout, more="")
    code, output = check()
    assert (code, "v0.2.0 is tagged at another commit" in output) == (1, True)
    git(checkout, "tag", "v0.10.0")
    assert "is below v0.10.0, which is out" in check()[1]


def test_missing_outdated_or_incomplete_wheels_are_rejected(checkout: Path, check: Any) -> None:
    paths = sorted((checkout / "dist").iterdir())
    arm = next(path for path in paths if "manylinux_2_17_aarch64" in path.name)
    arm.unlink()
    assert "no wheel for Linux with glibc on 64-bit ARM in dist/: `make wheels`" in check()[1]
    wheel(arm, notices=False)
    assert f"{arm.name} has no THIRD-PARTY-NOTICES" in check()[1]
    wheel(arm, bom='{"components": []}')
    assert f"{arm.name} has no SBOM" in check()[1]
    wheel(arm)
    os.utime(arm, (0, 0))
    code, output = check()
    assert (code, f"{arm.name} is older than the commit" in output) == (1, True)
    (checkout / "dist" / "samsarrow-0.2.0.tar.gz").unlink()
    assert "no samsarrow-0.2.0.tar.gz in dist/: `make sdist`" in check()[1]


def test_oversized_wheel_is_rejected(checkout: Path, check: Any) -> None:
    path = next((checkout / "dist").glob("*manylinux_2_17_x86_64.whl"))
    with zipfile.ZipFile(path, "a") as content:
        content.writestr("samsarrow/_core.abi3.so", os.urandom(9_000_000))
    assert f"{path.name} has 9.00 MB, and 8 are the most" in check()[1]


def test_failing_checks_are_rejected(checkout: Path, check: Any) -> None:
    commit(checkout, Makefile="check:\n\t@echo made $@\ntest:\n\t@false\n")
    code, output = check()
    assert code == 1
    assert "made check" in output
    assert "`make test` failed" in output


def test_breaking_change_needs_a_breaking_version(checkout: Path, check: Any) -> None:
    pytest.importorskip("griffe", reason="griffe is not installed")
    git(checkout, "tag", "v0.1.7")
    assert check()[0] == 0
    broken = POLL.replace("poll(timeout: float = 1.0)", "poll()")
    commit(checkout, **{"python/samsarrow/__init__.py": broken})
    assert check()[0] == 0, "before 1.0 a minor release may break"
    git(checkout, "tag", "--delete", "v0.1.7")
    git(checkout, "tag", "v0.1.9", "HEAD~1")
    older = {name: FILES[name].replace("0.2.0", "0.1.10") for name in ("Cargo.toml", "Cargo.lock", "pyproject.toml")}
    commit(checkout, **older, **{"CHANGELOG.md": FILES["CHANGELOG.md"].replace("0.2.0", "0.1.10")})
    code, output = check()
    assert code == 1
    assert "0.1.10 breaks what v0.1.9 had" in output
    assert "Parameter was removed" in output
    inner = POLL.replace("inner(timeout: float = 1.0)", "inner()")
    commit(checkout, **{"python/samsarrow/__init__.py": inner})
    assert "ok  surface" in check()[1], "no name of the surface"


@pytest.mark.parametrize(
    ("last", "version", "may"),
    [
        ("v0.1.0", "0.1.1", False),
        ("v0.1.9", "0.2.0", True),
        ("v0.9.0", "1.0.0", True),
        ("v1.0.0", "1.1.0", False),
        ("v1.9.9", "2.0.0", True),
    ],
)
def test_may_break(last: str, version: str, may: bool) -> None:
    assert TOOL["_may_break"](last, version) is may


def test_versions_of_this_checkout_agree() -> None:
    at = TOOL["Checkout"](ROOT, ROOT / "dist")
    assert list(TOOL["versions"](at)) == []


def test_command_line_help() -> None:
    command = [sys.executable, str(ROOT / "tools" / "release_check.py"), "--help"]
    assert "--dist" in subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
