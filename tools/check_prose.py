"""Checks the language of comments, docstrings, identifiers and commit subjects, as part of `make check`.

CONTRIBUTING.md has the glossary. Limits only become stricter: lower `tools/prose_limits.json` when counts have fallen.

    python tools/check_prose.py                     everything
    python tools/check_prose.py --list              the comments and identifiers that count, with their lines
    python tools/check_prose.py --update            write today's counts of identifiers into the limits
    python tools/check_prose.py --message FILE      the subject of a commit message, for a commit-msg hook
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
LIMITS = ROOT / "tools" / "prose_limits.json"
# Files that are generated.
GENERATED = {f"python/samsarrow/{name}.py" for name in ("_admin/aio", "_admin/sync", "exceptions", "options")}
# First words of relative clauses and questions. A comment says more if it opens with a noun or a verb.
OPENERS = re.compile(r"(?:What|Which|Who|Whom|Whose|Where|How|When|Why|That|Those|Whatever|Whether|As far|As long)\b")
PERSONS = re.compile(r"\b(?:nobody|somebody|anybody|someone|anyone|no one)\b", re.IGNORECASE)
# Words of the glossary's left column, as parts of identifiers.
PRIVATE = {
    "asked", "bell", "desk", "heart", "mend", "nobody", "refuse", "refused", "refuses", "room", "rooms", "said",
    "somebody", "told", "veil", "wanted",
}  # fmt: skip
OPENING_SHARE = 0.02
SUBJECT = 72
# Time since which the limit on subjects applies; earlier commits keep their subjects.
SUBJECTS_SINCE = "2026-11-27T08:00:00Z"


class Comment(NamedTuple):
    """A comment or docstring of four words or more."""

    line: int
    text: str


def rust_comments(source: str) -> Iterator[Comment]:
    """Yields consecutive line comments of one kind (`//`, `///` or `//!`) as one comment."""
    block: list[str] = []
    start, kind = 0, ""
    for number, line in enumerate([*source.split("\n"), ""], 1):
        match = re.match(r"\s*(//[/!]?)\s?(.*)", line)
        if block and (match is None or match[1] != kind):
            yield Comment(start, " ".join(block))
            block = []
        if match is not None:
            if not block:
                start, kind = number, match[1]
            block.append(match[2])


def java_comments(source: str) -> Iterator[Comment]:
    """Yields Javadoc and line comments."""
    for match in re.finditer(r"/\*\*.*?\*/|//[^\n]*", source, re.DOTALL):
        yield Comment(source.count("\n", 0, match.start()) + 1, re.sub(r"\s*\n\s*\*?\s*", " ", match[0].strip("/* ")))


def python_comments(source: str) -> Iterator[Comment]:
    """Yields docstrings, and consecutive comment lines as one comment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield Comment(node.body[0].lineno, " ".join(text.split()))
    block: list[str] = []
    start = last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != last + 1:
            yield Comment(start, " ".join(block))
            block = []
        if not block:
            start = token.start[0]
        block.append(token.string.lstrip("# "))
        last = token.start[0]
    if block:
        yield Comment(start, " ".join(block))


COMMENTS = {".rs": rust_comments, ".java": java_comments, ".py": python_comments, ".pyi": python_comments}


def identifiers(source: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Yields the identifiers of a file with their lines, except words in comments and strings."""
    if suffix in (".py", ".pyi"):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.NAME:
                yield token.start[0], token.string
        return
    blank = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"', re.DOTALL)
    code = blank.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)
    for number, line in enumerate(code.split("\n"), 1):
        for match in re.finditer(r"[A-Za-z_]\w*", line):
            yield number, match[0]


def is_private(identifier: str) -> bool:
    """Returns true if a word of the identifier is in the glossary's left column."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", identifier).lower().split("_")
    return not PRIVATE.isdisjoint(words)


def folder_of(name: str) -> str:
    """Returns the crate of a file, or its folder at the top."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "rust" else parts[0]


def files(root: Path) -> list[str]:
    """Returns the files below `root` that git tracks and this tool checks."""
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.splitlines() if Path(name).suffix in COMMENTS and name not in GENERATED]
    return [name for name in names if (root / name).is_file()]


def check(root: Path, limits: dict[str, int], show: bool = False) -> tuple[list[str], Counter[str]]:
    """Returns the faults of a checkout, and how many private identifiers each folder has."""
    total: Counter[str] = Counter()
    opening: Counter[str] = Counter()
    private: Counter[str] = Counter()
    faults = []
    for name in files(root):
        folder, suffix = folder_of(name), Path(name).suffix
        source = (root / name).read_text(encoding="utf-8")
        for comment in COMMENTS[suffix](source):
            if len(comment.text.split()) < 4:
                continue
            total[folder] += 1
            if OPENERS.match(comment.text):
                opening[folder] += 1
                if show:
                    print(f"{name}:{comment.line}: {comment.text[:100]}")
            if (person := PERSONS.search(comment.text)) is not None:
                faults.append(f"{name}:{comment.line}: {person[0]!r}: name the client, the broker or the task instead")
        for line, identifier in identifiers(source, suffix):
            if is_private(identifier):
                private[folder] += 1
                if show:
                    print(f"{name}:{line}: {identifier}")
    for folder, count in sorted(total.items()):
        if opening[folder] > max(1, count * OPENING_SHARE):
            faults.append(
                f"{folder}: {opening[folder]} of {count} comments open with What, Which, How or the like, more than "
                f"{OPENING_SHARE:.0%}: start with a noun, or a function's with a verb (--list names them)"
            )
    faults += [
        f"{folder}: {count} identifiers have a word of the glossary's left column, {limits.get(folder, 0)} were there "
        "before: use the word of its right column (--list names them)"
        for folder, count in sorted(private.items())
        if count > limits.get(folder, 0)
    ]
    return faults, private


def subject_faults(subjects: list[str]) -> list[str]:
    """Returns the faults of subjects of commits."""
    return [
        f"commit subject of {len(subject)} characters, {SUBJECT} are the limit: {subject}"
        for subject in subjects
        if len(subject) > SUBJECT
    ]


def main() -> int:
    """Prints all faults; returns 1 if there are any."""
    parser = argparse.ArgumentParser(description="Checks the language of comments, identifiers and commit subjects.")
    parser.add_argument("--list", action="store_true", help="print each comment and identifier that counts")
    parser.add_argument("--update", action="store_true", help="write the counts of identifiers into the limits")
    parser.add_argument("--message", type=Path, help="check the subject of this commit message alone")
    arguments = parser.parse_args()
    if arguments.message is not None:
        faults = subject_faults(arguments.message.read_text(encoding="utf-8").split("\n")[:1])
    else:
        limits = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
        faults, private = check(ROOT, limits, arguments.list)
        if arguments.update:
            LIMITS.write_text(json.dumps(dict(sorted(private.items())), indent=2) + "\n")
        log = ["git", "log", "--no-merges", "--format=%s", f"--since={SUBJECTS_SINCE}"]
        faults += subject_faults(
            subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        )
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
