"""Dependency rules between the workspace crates, checked with `cargo metadata` (docs/design.md)."""

import functools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "samsarrow-"
ALLOWED_DEPENDENCIES = {
    "crc": set(),
    "wire": {"crc"},
    "arrow": {"crc", "wire"},
    "values": {"crc", "wire"},
    "client": {"crc", "wire", "arrow"},
    "broker": {"crc", "wire"},
    "fuzz": {"crc", "wire", "arrow", "values", "client"},
    "simnet": set(),
    "simulation": {"crc", "wire", "arrow", "client", "broker", "simnet"},
    "bridge": {"crc", "wire", "arrow", "client"},
    "py": {"crc", "wire", "arrow", "values", "client", "broker", "spark", "bridge"},
    "spark": {"crc", "wire", "arrow", "values", "client"},
    "jvm": {"crc", "wire", "arrow", "values", "client", "spark"},
}
# Crates that a workspace crate must not depend on, directly or transitively.
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
def reachable(crate: str) -> frozenset[str]:
    """Returns the names of all direct and transitive dependencies of a crate, without development dependencies."""
    names = {p["id"]: p["name"] for p in metadata()["packages"]}
    nodes = {n["id"]: n for n in metadata()["resolve"]["nodes"]}
    todo = [i for i, name in names.items() if name == PREFIX + crate]
    assert todo, f"no crate {PREFIX}{crate}"
    seen: set[str] = set(todo)
    while todo:
        for dep in nodes[todo.pop()]["deps"]:
            if any(k["kind"] is None for k in dep["dep_kinds"]) and dep["pkg"] not in seen:
                seen.add(dep["pkg"])
                todo.append(dep["pkg"])
    return frozenset(names[i] for i in seen) - {PREFIX + crate}


def test_every_workspace_crate_has_a_rule() -> None:
    members = set(metadata()["workspace_members"])
    crates = {p["name"].removeprefix(PREFIX) for p in metadata()["packages"] if p["id"] in members}
    assert crates == set(ALLOWED_DEPENDENCIES)


@pytest.mark.parametrize("crate", ALLOWED_DEPENDENCIES)
def test_workspace_dependencies(crate: str) -> None:
    known = {name.removeprefix(PREFIX) for name in reachable(crate) if name.startswith(PREFIX)}
    assert known == ALLOWED_DEPENDENCIES[crate]


@pytest.mark.parametrize("crate", FORBIDDEN)
def test_forbidden_dependencies(crate: str) -> None:
    assert reachable(crate) & FORBIDDEN[crate] == set()


def test_unsafe_is_confined_to_few_files() -> None:
    """Unsafe code is permitted in the C data interface, the views (ADR 14), the Kerberos library (loaded at run time),
    AWS-LC's keystore reader, the JNI functions (ADR 34), CPU instructions (ADR 55) and the counting allocator of tests.
    The workspace lint forbids unsafe code in all other files.
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


def test_python_is_attached_in_one_module() -> None:
    """A thread that attached or detached in another module could enter Python during finalization (ADR 19)."""
    calls = re.compile(r"\b(?:py|Python)(?:\(\))?\s*(?:\.|::)\s*(?:attach|try_attach|detach)\b")
    files = [path for crate in ("bridge", "py") for path in sorted((ROOT / "rust" / crate / "src").glob("**/*.rs"))]
    assert [path.name for path in files if calls.search(path.read_text())] == ["interpreter_guard.rs"]
