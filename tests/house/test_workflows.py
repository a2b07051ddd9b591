"""Workflows of hosted runners call only targets of the Makefile."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
NEVER_RUN = "# Never run on a hosted runner"


def jobs(path: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load(path.read_text())["jobs"].values()


def commands(path: Path) -> list[str]:
    """Returns every `run:` command after the matrix is expanded."""
    found = []
    for job in jobs(path):
        matrix = job.get("strategy", {}).get("matrix", {})
        for step in job["steps"]:
            if "run" not in step:
                continue
            command = step["run"]
            cells = matrix.get("include", [{}]) if "matrix." in command else [{}]
            found += [
                re.sub(r"\$\{\{ matrix\.(\w+) \}\}", lambda name, cell=cell: cell[name[1]], command) for cell in cells
            ]
    return found


def test_workflows_and_targets_are_found() -> None:
    assert {"ci.yml", "nightly.yml"} <= {path.name for path in WORKFLOWS}
    assert {"check", "test", "help"} <= TARGETS


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_runs_only_makefile_targets(path: Path) -> None:
    found = commands(path)
    assert found
    for command in found:
        made = re.fullmatch(r"make ([a-z-]+)", command)
        assert made, command
        assert made[1] in TARGETS, command


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflow_header_and_permissions(path: Path) -> None:
    assert path.read_text().startswith(NEVER_RUN)
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    for job in jobs(path):
        assert job["timeout-minutes"] <= 180
        # Workflows use only actions of GitHub itself, pinned to a version.
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert [one for one in used if not re.fullmatch(r"actions/[a-z-]+@v\d+", one)] == []


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda path: path.name
)
def test_issue_forms_are_complete(path: Path) -> None:
    form = yaml.safe_load(path.read_text())
    if path.name == "config.yml":
        assert set(form) == {"blank_issues_enabled", "contact_links"}
        return
    assert set(form) == {"name", "description", "labels", "body"}
    kinds = {"input", "textarea", "markdown", "dropdown", "checkboxes"}
    assert all(part["type"] in kinds and part["attributes"]["label"] for part in form["body"])
    names = [part["id"] for part in form["body"]]
    assert len(set(names)) == len(names)


def test_contributing_names_existing_targets_and_files() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`(?:nice )?make ([a-z-]+)", page))
    assert named - TARGETS == set()
    # Targets that need no description, for example because they are parts of other targets.
    parts = {"archives", "help", "clean", "deny", "bench-rust", "bench-python"}
    parts |= {"check-python", "check-rust", "check-stub", "test-built", "test-rust", "test-simulation"}
    assert {target for target in TARGETS if f"make {target}" not in page} <= parts
    first = page.partition("## A first change")[2].partition("## Commands")[0]
    paths = re.findall(r"`((?:rust|python|tests|jvm|docs)/[\w/*.]*)`", first)
    assert len(paths) > 20
    assert [path for path in paths if not list(ROOT.glob(path))] == []
