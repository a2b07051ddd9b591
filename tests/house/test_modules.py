"""No circle among the modules of a crate's `src/`: each knows those below it only (docs/design.md, ADR 52)."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = ("arrow", "client", "wire")
# Comments and literals, in which nothing is named.
SILENT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:[^"\\]|\\.)*"|b?'(?:[^'\\\n]|\\[^u]|\\x..|\\u\{[^}]*\})'""",
    re.DOTALL,
)
PATH = re.compile(r"(?<![\w:])(?:crate|super)(?:\s*::\s*(?:\w+|(?=\{)))+")
CLOSING = {"{": "}", "[": "]", "(": ")"}


def closed(text: str, start: int) -> int:
    """Where the bracket at `start` is closed."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in CLOSING) - (text[at] in CLOSING.values())
        if depth == 0:
            return at
    raise AssertionError(f"a bracket that nothing closes: {text[start : start + 80]!r}")


def untested(text: str) -> str:
    """Without what is compiled for tests alone: tests may use whatever the crate has."""
    while found := re.search(r"#\[cfg\(test\)\]", text):
        at = found.end()
        while (mark := re.compile(r"[;{]|#\[").search(text, at)) and mark.group() == "#[":
            at = closed(text, mark.start() + 1)
        assert mark is not None
        end = mark.start() if mark.group() == ";" else closed(text, mark.start())
        text = text[: found.start()] + text[end + 1 :]
    return text


def listed(tree: str) -> Iterator[str]:
    """The first names of what stands in the braces of a `use`."""
    depth = 0
    for part in re.split(r"([{},])", tree):
        if depth == 0 and (name := re.match(r"\s*(\w+)", part)):
            yield name[1]
        depth += (part == "{") - (part == "}")


def named(text: str, depth: int) -> Iterator[str]:
    """What source that lies `depth` modules below the root names in the root: the first word of each path."""
    for path in PATH.finditer(text):
        words = re.split(r"\s*::\s*", path.group())
        above = sum(word == "super" for word in words)
        if words[0] == "super" and above < depth:
            continue
        rest = [word for word in words if word not in ("crate", "super", "")]
        if rest:
            yield rest[0]
        elif text[path.end() : path.end() + 1] == "{":
            yield from listed(text[path.end() + 1 : closed(text, path.end())])


def edges(src: Path) -> dict[str, dict[str, set[str]]]:
    """Which module of the root names which, and in which files."""
    texts = {path: untested(SILENT.sub(" ", path.read_text())) for path in sorted(src.rglob("*.rs"))}
    root = texts.pop(src / "lib.rs")
    modules = set(re.findall(r"\bmod\s+(\w+)\s*;", root))
    # What the root gives out under a name of its own is its module's.
    given: dict[str, str] = {}
    for module, tree in re.findall(r"\buse\s+(\w+)::([^;]+);", root):
        given |= dict.fromkeys(re.findall(r"\w+", tree), module)
    found: dict[str, dict[str, set[str]]] = {module: {} for module in sorted(modules)}
    for path, text in texts.items():
        below = path.relative_to(src).with_suffix("").parts
        # Files of tests are declared for tests alone, beside the file or in it.
        if below[0] not in modules or any(name == "tests" or name.endswith("_tests") for name in below):
            continue
        depth = len(below) - (below[-1] == "mod")
        for name in named(text, depth):
            module = name if name in modules else given.get(name, "")
            if module in modules and module != below[0]:
                found[below[0]].setdefault(module, set()).add(str(path.relative_to(src)))
    return found


def circle(known: dict[str, dict[str, set[str]]]) -> list[str]:
    """Modules each of which names the next, and the last the first; none where there is no circle."""
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


@functools.cache
def found(crate: str) -> dict[str, dict[str, set[str]]]:
    return edges(ROOT / "rust" / crate / "src")


@pytest.mark.parametrize("crate", CRATES)
def test_modules_know_each_other_in_no_circle(crate: str) -> None:
    known = found(crate)
    way = circle(known)
    steps = [f"{a} -> {b} ({', '.join(sorted(known[a][b]))})" for a, b in zip(way, way[1:] + way[:1], strict=True)]
    assert not steps, f"a circle among the modules of rust/{crate}:\n" + "\n".join(steps)


def test_what_is_named_is_seen() -> None:
    """A reader of sources that finds nothing would find no circle."""
    known = found("client")
    assert {"auth", "config", "tls"} <= known["security"].keys()
    assert {"security", "config", "auth"} <= known["connection"].keys()
    assert {"error_code", "messages"} <= found("wire")["frame"].keys()
    assert len(found("arrow")) > 8


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
def test_a_circle_is_found_and_its_steps_are_named(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / "lib.rs").write_text("mod a;\npub mod b;\nmod c;\nmod error;\npub use a::{A, B};")
    others = {"a.rs": "use crate::c::C;", "c.rs": "use super::b;", "error.rs": "// crate::a"}
    for name, content in {**others, file: text}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    known = edges(tmp_path)
    assert circle(known) == ["a", "c", "b"]
    assert known["b"]["a"] == {file}
    (tmp_path / file).write_text("use crate::error; // crate::a\n#[cfg(test)] use crate::a;\nuse super::b::x;")
    assert circle(edges(tmp_path)) == []
