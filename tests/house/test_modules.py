"""The top-level modules of a crate form no cycle (docs/design.md, ADR 63)."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = ("arrow", "broker", "client", "crc", "fuzz", "jvm", "py", "wire")
# Crates with known cycles. Their modules may form no other cycles.
KNOWN_CYCLES = {
    "bridge": [{"aio", "call"}, {"callback_threads", "logging", "runtime"}],
    "spark": [{"columns", "options", "typed"}],
    "values": [
        {"arrow_types", "avro", "builders", "byte_reader", "error", "json", "layout", "path"},
        {"decoder", "proto"},
    ],
}
# Comments and literals, which are removed because they contain no module paths.
COMMENTS_AND_LITERALS = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\[^u]|\\x..|\\u\{[^}]*\})'""",
    re.DOTALL,
)
PATH = re.compile(r"(?<![\w:])(?:crate|super)(?:\s*::\s*(?:\w+|(?=\{)))+")
CLOSING = {"{": "}", "[": "]", "(": ")"}


def closed(text: str, start: int) -> int:
    """Returns the index of the bracket that closes the bracket at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in CLOSING) - (text[at] in CLOSING.values())
        if depth == 0:
            return at
    raise AssertionError(f"a bracket that nothing closes: {text[start : start + 80]!r}")


def without_tests(text: str) -> str:
    """Removes items under `#[cfg(test)]`, since tests may use every module of the crate."""
    while found := re.search(r"#\[cfg\(test\)\]", text):
        at = found.end()
        while (mark := re.compile(r"[;{]|#\[").search(text, at)) and mark.group() == "#[":
            at = closed(text, mark.start() + 1)
        assert mark is not None
        end = mark.start() if mark.group() == ";" else closed(text, mark.start())
        text = text[: found.start()] + text[end + 1 :]
    return text


def braced_paths(tree: str) -> Iterator[tuple[str, ...]]:
    """Yields the paths in the braces of a `use` declaration."""
    way: tuple[str, ...] = ()
    ahead = [way]
    for part in re.findall(r"[{},]|[^{},]+", tree):
        if part == "{":
            ahead.append(way)
        elif part == "}":
            ahead.pop()
        elif part != ",":
            way = (*ahead[-1], *(word for word in re.findall(r"\w+", part.split(" as ")[0]) if word != "self"))
            yield way


def named_paths(text: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yields the paths of items that the source of `module` uses, relative to the crate root."""
    for path in PATH.finditer(text):
        words = [word for word in re.split(r"\s*::\s*", path.group()) if word]
        above = sum(word == "super" for word in words)
        start = module[: len(module) - above] if above else ()
        rest = tuple(word for word in words if word not in ("crate", "super"))
        yield (*start, *rest)
        if text[path.end() : path.end() + 1] == "{":
            for way in braced_paths(text[path.end() + 1 : closed(text, path.end())]):
                yield (*start, *rest, *way)


def module_path(src: Path, path: Path) -> tuple[str, ...]:
    """Returns the module path of a source file."""
    below = path.relative_to(src).with_suffix("").parts
    return below[:-1] if below[-1] in ("mod", "lib") else below


@functools.cache
def sources(src: Path) -> dict[tuple[str, ...], str]:
    """Returns the source of each module of a crate, without comments, literals and test code."""
    texts = {
        module_path(src, path): without_tests(COMMENTS_AND_LITERALS.sub(" ", path.read_text()))
        for path in sorted(src.rglob("*.rs"))
    }
    # Test modules may also be separate files, which the parent declares under `#[cfg(test)]`.
    return {
        at: text for at, text in texts.items() if not any(name == "tests" or name.endswith("_tests") for name in at)
    }


def edges(src: Path, parent: tuple[str, ...] = ()) -> dict[str, dict[str, set[str]]]:
    """Returns the siblings that each direct submodule of `parent` uses, with the modules that use them."""
    texts = sources(src)
    own = texts.get(parent, "")
    modules = {at[len(parent)] for at in texts if at[: len(parent)] == parent and at != parent}
    # A name that the parent re-exports counts as a use of its module.
    reexported: dict[str, str] = {}
    for module, tree in re.findall(r"\buse\s+(?:self::)?(\w+)::([^;]+);", own):
        reexported |= dict.fromkeys(re.findall(r"\w+", tree), module)
    found: dict[str, dict[str, set[str]]] = {module: {} for module in sorted(modules)}
    depth = len(parent)
    for at, text in texts.items():
        if at[:depth] != parent or len(at) == depth:
            continue
        for way in named_paths(text, at):
            if way[:depth] != parent or len(way) == depth:
                continue
            module = way[depth] if way[depth] in modules else reexported.get(way[depth], "")
            if module in modules and module != at[depth]:
                found[at[depth]].setdefault(module, set()).add("::".join(at))
    return found


def cycle(known: dict[str, dict[str, set[str]]]) -> list[str]:
    """Returns the modules of a cycle, or an empty list if none exists."""
    ways: dict[str, list[str]] = {}

    def search(module: str, way: list[str]) -> list[str]:
        if module in way:
            return way[way.index(module) :]
        if module in ways:
            return ways[module]
        found = (search(other, [*way, module]) for other in known[module])
        ways[module] = next((way for way in found if way), [])
        return ways[module]

    return next((way for module in known if (way := search(module, []))), [])


def src(crate: str) -> Path:
    return ROOT / "rust" / crate / "src"


@pytest.mark.parametrize("crate", CRATES)
def test_top_level_modules_form_no_cycle(crate: str) -> None:
    known = edges(src(crate))
    way = cycle(known)
    steps = [f"{a} -> {b} ({', '.join(sorted(known[a][b]))})" for a, b in zip(way, way[1:] + way[:1], strict=True)]
    assert not steps, f"a cycle among the modules of {crate}:\n" + "\n".join(steps)


@pytest.mark.parametrize("crate", KNOWN_CYCLES)
def test_modules_form_no_new_cycle(crate: str) -> None:
    known = edges(src(crate))
    for modules in KNOWN_CYCLES[crate]:
        first = min(modules)
        # The modules of a known cycle are merged into one module.
        merged: dict[str, dict[str, set[str]]] = {}
        for module, others in known.items():
            steps = merged.setdefault(first if module in modules else module, {})
            for other, by in others.items():
                target = first if other in modules else other
                if target != first or module not in modules:
                    steps.setdefault(target, set()).update(by)
        known = merged
    assert not (way := cycle(known)), f"a cycle among the modules of {crate}: {' -> '.join(way)}"


def python_edges(package: Path) -> dict[str, dict[str, set[str]]]:
    """Returns the siblings that each module of a package imports at run time, with the importing modules."""
    modules = {
        ".".join(
            (package.name, *module_path(package, path.with_name("mod.py" if path.stem == "__init__" else path.name)))
        ): path
        for path in sorted(package.rglob("*.py"))
    }
    found: dict[str, dict[str, set[str]]] = {name.split(".")[1]: {} for name in modules if "." in name}
    for name, path in modules.items():
        if "." not in name:
            continue
        for node in runtime_nodes(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                imported = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            else:
                continue
            for other in imported:
                parts = other.split(".")
                if parts[0] == package.name and len(parts) > 1 and parts[1] in found and parts[1] != name.split(".")[1]:
                    found[name.split(".")[1]].setdefault(parts[1], set()).add(name)
    return found


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes below a node, except those under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from runtime_nodes(child)


def test_python_modules_form_no_cycle() -> None:
    known = python_edges(ROOT / "python" / "samsarrow")
    assert "consumer" in known
    assert "_consumer" in known["consumer"]
    way = cycle(known)
    steps = [f"{a} -> {b} ({', '.join(sorted(known[a][b]))})" for a, b in zip(way, way[1:] + way[:1], strict=True)]
    assert not steps, "a cycle among the modules of python/samsarrow:\n" + "\n".join(steps)


def test_known_dependencies_are_found() -> None:
    """Checks that the parser finds known dependencies. If it found none, the tests for cycles would always pass."""
    known = edges(src("client"))
    assert {"config", "error", "secret"} <= known["security"].keys()
    assert {"security", "config", "api_versions"} <= known["net"].keys()
    assert {"error_code", "messages"} <= edges(src("wire"))["frame"].keys()
    assert len(edges(src("arrow"))) > 8
    assert "shared" in edges(src("client"), ("producer", "transactions"))["partitions"]


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("b.rs", "use crate::a::A;"),
        ("b/mod.rs", "use crate::{error::Error, a::{A, B}};"),
        ("b/deep.rs", 'fn f() { let _ = super::super::a::f("}"); }'),
        ("b.rs", "#[cfg(test)]\nmod tests { use crate::c; }\nuse super::{a, c};"),
        ("b.rs", 'fn f() -> crate::A { \'"\'; "\\""; todo!() }'),
    ],
)
def test_cycle_is_reported_with_its_steps(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / "lib.rs").write_text("mod a;\npub mod b;\nmod c;\nmod error;\npub use a::{A, B};")
    others = {"a.rs": "use crate::c::C;", "c.rs": "use super::b;", "error.rs": "// crate::a"}
    for name, content in {**others, file: text}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    known = edges(tmp_path)
    assert cycle(known) == ["a", "c", "b"]
    assert known["b"]["a"] == {"::".join(module_path(tmp_path, tmp_path / file))}
    sources.cache_clear()
    (tmp_path / file).write_text("use crate::error; // crate::a\n#[cfg(test)] use crate::a;\nuse super::b::x;")
    assert cycle(edges(tmp_path)) == []
