"""tools/check_prose.py on a repository with one fault of each kind."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def prose() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_prose", ROOT / "tools" / "check_prose.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_prose"] = module
    spec.loader.exec_module(module)
    return module


def repository(path: Path, **sources: str) -> Path:
    for name, text in sources.items():
        folder, _, suffix = name.rpartition("_")
        file = path / folder / f"source.{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=path, check=True)
    return path


def test_comments_of_all_languages_count(prose: ModuleType, tmp_path: Path) -> None:
    repository(
        tmp_path,
        python_py='"""What the module has for users."""\n\n# How it is done there.\n# More of it.\nX = 1\n',
        jvm_java="/** Which options the table has.\n * More. */\nclass X {}\n// That it is so here.\n",
        client_rs="//! What the members want here.\n\n/// Whether the member is in it.\nfn x() {}\n",
    )
    faults, private = prose.check(tmp_path, {})
    assert [fault.split(": ")[:2] for fault in faults] == [
        ["client", "2 of 2 comments open with What, Which, How or the like, more than 2%"],
        ["jvm", "2 of 2 comments open with What, Which, How or the like, more than 2%"],
        ["python", "2 of 2 comments open with What, Which, How or the like, more than 2%"],
    ]
    assert not private


def test_persons_are_named_with_their_lines(prose: ModuleType, tmp_path: Path) -> None:
    repository(tmp_path, python_py="X = 1\n# The task ends when nobody waits.\n")
    faults, _ = prose.check(tmp_path, {})
    assert faults == ["python/source.py:2: 'nobody': name the client, the broker or the task instead"]


def test_private_identifiers_may_only_become_fewer(prose: ModuleType, tmp_path: Path) -> None:
    repository(
        tmp_path,
        python_py="told = 1\nclass BellRinger: ...\nmandate = 'told'  # told\n",
        client_rs='fn told_all() { let toldest = "told"; /* told */ }\n',
    )
    faults, private = prose.check(tmp_path, {"python": 2})
    assert private == {"python": 2, "client": 1}
    assert [fault.split(", ")[0] for fault in faults] == [
        "client: 1 identifiers have a word of the glossary's left column"
    ]


@pytest.mark.parametrize(("length", "faults"), [(72, 0), (73, 1)])
def test_subjects_have_a_limit(prose: ModuleType, tmp_path: Path, length: int, faults: int) -> None:
    message = tmp_path / "message"
    message.write_text("x" * length + "\n\n" + "y" * 100 + "\n")
    command = [sys.executable, ROOT / "tools" / "check_prose.py", "--message", message]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("commit subject of 73 characters")) == (faults, faults)
