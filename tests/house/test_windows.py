"""Names that exist only on Unix, found by reading the sources, since these tests do not run on Windows."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
NAMES = {
    "os": {"fchmod", "fork", "geteuid", "getuid", "kill", "killpg", "mkfifo", "pread", "pwrite", "setsid", "sysconf"},
    "signal": {"SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "pause", "pthread_kill", "setitimer", "sigwait"},
}
PYTHON = sorted((ROOT / "python").rglob("*.py"))
RUST = sorted(path for path in (ROOT / "rust").glob("*/src/**/*.rs") if "std::os::unix" in path.read_text())


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_modules_import_on_windows(path: Path) -> None:
    tree = ast.parse(path.read_text())
    imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    assert not imported & MODULES, "import it in the function that needs it"
    used = {
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    assert not [f"{module}.{name}" for module, name in used if name in NAMES.get(module, ())]


@pytest.mark.parametrize("path", RUST, ids=lambda path: str(path.relative_to(ROOT)))
def test_unix_modules_of_rust_are_behind_a_cfg(path: Path) -> None:
    lines = path.read_text().splitlines()
    for at in (number for number, line in enumerate(lines) if "std::os::unix" in line):
        before = lines[max(at - 3, 0) : at]
        assert any(re.search(r"cfg\((all\()?unix", line) for line in before), f"line {at + 1}: {lines[at]}"
