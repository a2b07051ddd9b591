"""The law of the house: which room may know which, read from `cargo metadata` (docs/design.md)."""

import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "samsarrow-"
ALLOWED_ROOMS = {
    "crc": set(),
    "wire": {"crc"},
    "arrow": {"crc", "wire"},
    "values": {"crc", "wire"},
    "client": {"crc", "wire", "arrow"},
    "broker": {"crc", "wire"},
    "fuzz": {"crc", "wire", "arrow", "values", "client"},
    "bridge": {"crc", "wire", "arrow", "client"},
    "py": {"crc", "wire", "arrow", "values", "client", "broker", "spark", "bridge"},
    "spark": {"crc", "wire", "arrow", "values", "client"},
    "jvm": {"crc", "wire", "arrow", "values", "client", "spark"},
}
# Crates that must not be reachable from a room, however deep.
FORBIDDEN = {
    "wire": {"tokio", "pyo3", "arrow-array", "arrow-buffer", "arrow-schema"},
    "arrow": {"tokio", "pyo3"},
    "values": {"tokio", "pyo3"},
    "client": {"pyo3"},
    "broker": {"pyo3", "arrow-array"},
    "fuzz": {"pyo3"},
    "spark": {"pyo3"},
    "jvm": {"pyo3"},
}


@functools.cache
def metadata() -> Any:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120).stdout)


@functools.cache
def reachable(room: str) -> frozenset[str]:
    """Names of all crates that a room is built from, development dependencies left out."""
    names = {p["id"]: p["name"] for p in metadata()["packages"]}
    nodes = {n["id"]: n for n in metadata()["resolve"]["nodes"]}
    todo = [i for i, name in names.items() if name == PREFIX + room]
    assert todo, f"no crate {PREFIX}{room}"
    seen: set[str] = set(todo)
    while todo:
        for dep in nodes[todo.pop()]["deps"]:
            if any(k["kind"] is None for k in dep["dep_kinds"]) and dep["pkg"] not in seen:
                seen.add(dep["pkg"])
                todo.append(dep["pkg"])
    return frozenset(names[i] for i in seen) - {PREFIX + room}


def test_every_room_has_its_law() -> None:
    members = set(metadata()["workspace_members"])
    rooms = {p["name"].removeprefix(PREFIX) for p in metadata()["packages"] if p["id"] in members}
    assert rooms == set(ALLOWED_ROOMS)


@pytest.mark.parametrize("room", ALLOWED_ROOMS)
def test_rooms_know_only_the_rooms_below(room: str) -> None:
    known = {name.removeprefix(PREFIX) for name in reachable(room) if name.startswith(PREFIX)}
    assert known == ALLOWED_ROOMS[room]


@pytest.mark.parametrize("room", FORBIDDEN)
def test_rooms_reach_no_forbidden_crate(room: str) -> None:
    assert reachable(room) & FORBIDDEN[room] == set()


def test_unsafe_lives_in_few_places() -> None:
    """The capsules, the views (ADR 14), the Kerberos library (loaded at run time), AWS-LC's reader of stores, what Java
    calls (ADR 34), instructions of processors (ADR 55) and tests' counting allocator; the workspace's lint holds the
    rest.
    """
    permitting = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "rust").glob("*/src/**/*.rs"))
        if "allow(unsafe_code" in path.read_text()
    ]
    assert permitting == [
        "rust/arrow/src/layout/view.rs",
        "rust/bridge/src/arrow_ffi.rs",
        "rust/client/src/security/sasl/gss_dl.rs",
        "rust/client/src/security/tls/awslc.rs",
        "rust/crc/src/arm.rs",
        "rust/crc/src/x86.rs",
        "rust/fuzz/src/memory.rs",
        "rust/jvm/src/native.rs",
    ]


def test_only_the_interpreter_guard_attaches_to_python() -> None:
    """A thread that attaches or detaches elsewhere may be about to attach while the interpreter exits."""
    calls = re.compile(r"\b(?:py|Python)(?:\(\))?\s*(?:\.|::)\s*(?:attach|try_attach|detach)\b")
    files = [path for room in ("bridge", "py") for path in sorted((ROOT / "rust" / room / "src").glob("**/*.rs"))]
    assert [path.name for path in files if calls.search(path.read_text())] == ["interpreter_guard.rs"]
