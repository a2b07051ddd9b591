"""No cycle among the top-level modules of a crate (docs/design.md, ADR 63)."""

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = ("arrow", "client", "crc", "wire")
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


def listed(tree: str) -> Iterator[tuple[str, ...]]:
    """The paths that stand in the braces of a `use`."""
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


def named(text: str, module: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """What the source of `module` names in its crate: paths from the root."""
    for path in PATH.finditer(text):
        words = [word for word in re.split(r"\s*::\s*", path.group()) if word]
        above = sum(word == "super" for word in words)
        start = module[: len(module) - above] if above else ()
        rest = tuple(word for word in words if word not in ("crate", "super"))
        yield (*start, *rest)
        if text[path.end() : path.end() + 1] == "{":
            for way in listed(text[path.end() + 1 : closed(text, path.end())]):
                yield (*start, *rest, *way)


def place(src: Path, path: Path) -> tuple[str, ...]:
    """The path of the module that a file holds."""
    below = path.relative_to(src).with_suffix("").parts
    return below[:-1] if below[-1] in ("mod", "lib") else below


@functools.cache
def sources(src: Path) -> dict[tuple[str, ...], str]:
    """The text of each module of a crate, without what is silent and what is for tests."""
    texts = {place(src, path): untested(SILENT.sub(" ", path.read_text())) for path in sorted(src.rglob("*.rs"))}
    # Files of tests are declared for tests alone, beside the file or in it.
    return {
        at: text for at, text in texts.items() if not any(name == "tests" or name.endswith("_tests") for name in at)
    }


def edges(src: Path, room: tuple[str, ...] = ()) -> dict[str, dict[str, set[str]]]:
    """Which module of a room names which, and in which modules."""
    texts = sources(src)
    own = texts.get(room, "")
    modules = {at[len(room)] for at in texts if at[: len(room)] == room and at != room}
    # What a room gives out under a name of its own is its module's.
    given: dict[str, str] = {}
    for module, tree in re.findall(r"\buse\s+(?:self::)?(\w+)::([^;]+);", own):
        given |= dict.fromkeys(re.findall(r"\w+", tree), module)
    found: dict[str, dict[str, set[str]]] = {module: {} for module in sorted(modules)}
    depth = len(room)
    for at, text in texts.items():
        if at[:depth] != room or len(at) == depth:
            continue
        for way in named(text, at):
            if way[:depth] != room or len(way) == depth:
                continue
            module = way[depth] if way[depth] in modules else given.get(way[depth], "")
            if module in modules and module != at[depth]:
                found[at[depth]].setdefault(module, set()).add("::".join(at))
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


def src(crate: str) -> Path:
    return ROOT / "rust" / crate / "src"


@pytest.mark.parametrize("crate", CRATES)
def test_top_level_modules_form_no_cycle(crate: str) -> None:
    known = edges(src(crate))
    way = circle(known)
    steps = [f"{a} -> {b} ({', '.join(sorted(known[a][b]))})" for a, b in zip(way, way[1:] + way[:1], strict=True)]
    assert not steps, f"a cycle among the modules of {crate}:\n" + "\n".join(steps)


def test_what_is_named_is_seen() -> None:
    """A reader of sources that finds nothing would find no circle."""
    known = edges(src("client"))
    assert {"config", "error", "secret"} <= known["security"].keys()
    assert {"security", "config", "api_versions"} <= known["net"].keys()
    assert {"error_code", "messages"} <= edges(src("wire"))["frame"].keys()
    assert len(edges(src("arrow"))) > 8
    assert "guard" in edges(src("client"), ("producer", "transactions"))["partitions"]


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
    assert known["b"]["a"] == {"::".join(place(tmp_path, tmp_path / file))}
    sources.cache_clear()
    (tmp_path / file).write_text("use crate::error; // crate::a\n#[cfg(test)] use crate::a;\nuse super::b::x;")
    assert circle(edges(tmp_path)) == []
