"""Texts that users see are plain English, without words that read like a translation."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BANNED = re.compile(
    r"\b(told|tells?|so many|whoever|one another|(?:is|are) taken for|the same is true for|mends?|comes? of it"
    r"|for ever|(?:go|goes|went) on|hears? of|comes? along|comes? into being)\b",
    re.IGNORECASE,
)
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
# String literal of Rust or Java. Format arguments in braces are removed, since variable names are not text.
STRING = re.compile(r'"((?:[^"\\\n]|\\.|\\\n)*)"')
BRACES = re.compile(r"\{[^{}]*\}")


def matches(path: Path, line: int, text: str) -> Iterator[str]:
    for word in BANNED.finditer(text):
        yield f"{path.relative_to(ROOT)}:{line + text[: word.start()].count(chr(10))}: {word[0]}"


def page_matches(path: Path) -> Iterator[str]:
    # Code and links are not checked.
    text = re.sub(
        r"^```.*?^```|`[^`\n]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), path.read_text(), flags=re.M | re.S
    )
    yield from matches(path, 1, text)


def python_matches(path: Path) -> Iterator[str]:
    """Checks every string that contains a space: docstrings, messages and help texts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from matches(path, node.lineno, node.value)


def string_literal_matches(path: Path) -> Iterator[str]:
    source = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
    for string in STRING.finditer(source):
        if " " in string[1]:
            yield from matches(path, source[: string.start()].count("\n") + 1, BRACES.sub("", string[1]))


def product(folder: str, kind: str) -> list[Path]:
    files = sorted((ROOT / folder).rglob(f"*.{kind}"))
    return [path for path in files if not {"tests", "target", "fuzz", "benches"} & set(path.relative_to(ROOT).parts)]


@pytest.mark.parametrize(
    ("files", "read"),
    [
        (PAGES, page_matches),
        (product("python", "py") + product("python", "pyi"), python_matches),
        (product("rust", "rs") + product("jvm", "java"), string_literal_matches),
    ],
    ids=["pages", "python", "rust-and-java"],
)
def test_texts_have_no_banned_words(files: list[Path], read: Callable[[Path], Iterator[str]]) -> None:
    assert len(files) > 10
    assert [where for path in files if path.stem != "tests" for where in read(path)] == []


def test_banned_words_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    page, module, source = tmp_path / "page.md", tmp_path / "module.py", tmp_path / "source.rs"
    page.write_text("`told` is code.\nThe broker is told.\n")
    module.write_text('"""Whoever calls."""\ntold = f"waits so {told} many; tell it"\n')
    source.write_text('// told\nlet x = format!("a {told} b, so many");\n')
    assert list(page_matches(page)) == ["page.md:2: told"]
    assert list(python_matches(module)) == ["module.py:1: Whoever", "module.py:2: tell"]
    assert list(string_literal_matches(source)) == ["source.rs:2: so many"]
