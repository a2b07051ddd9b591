"""Fences of the documents: their content, how to run them, and the output that their pages show."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from support.commands import Ended

ROOT = Path(__file__).resolve().parents[2]
# Addresses of the broker and the schema registry that programs of pages use.
BROKER, REGISTRY = "localhost:9092", "http://localhost:8081"
OPENS = re.compile(r"^( *)(`{3,})([\w+-]*) *(.*)$")
TITLE = re.compile(r'^title="(.*)"$')
NOT_RUN = "not run: "
# Pattern of command lines that need a shell. All others run in this process, since starting Python takes most of the
# time.
SHELL = re.compile(r"[|<>;&$`]")
# Test that runs the programs that need a Spark session.
SPARK = "tests/spark/test_guide.py"


@dataclass(frozen=True)
class Fence:
    """A fence of a page.

    Attributes:
        page: path such as `docs/values.md`.
        line: number of its opening line.
        language: language such as `python`, or empty.
        title: title that the site shows above the fence.
        text: content of the fence.
    """

    page: str
    line: int
    language: str
    title: str
    text: str

    @property
    def reason(self) -> str | None:
        """Reason for not running the fence, taken from its title: `title="not run: needs a Spark session"`."""
        return self.title.removeprefix(NOT_RUN) if self.title.startswith(NOT_RUN) else None


def fences(path: Path) -> Iterator[Fence]:
    """Yields the fences of a page, in order."""
    page = str(path.relative_to(ROOT))
    indent, mark, language, title, start = "", "", "", "", 0
    inside: list[str] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if mark:
            if line.strip() == mark:
                yield Fence(page, start, language, title, "".join(f"{one.removeprefix(indent)}\n" for one in inside))
                mark, inside = "", []
            else:
                inside.append(line)
        elif found := OPENS.match(line):
            indent, mark, language, rest = found.groups()
            named = TITLE.match(rest)
            assert named or not rest, f"{page}:{number}: a fence says no more than language and title"
            title, start = named[1] if named else "", number
    assert not mark, f"{page}:{start}: the fence does not end"


def pages() -> list[Path]:
    """Returns the pages for users that may have fences. Pages about internals are excluded."""
    docs = [path for path in (ROOT / "docs").rglob("*.md") if "adr" not in path.parts and path.stem != "design"]
    return [ROOT / "README.md", *sorted(docs)]


def topics_of(text: str) -> dict[str, int]:
    """Returns the topics of the broker that a page starts with `samsarrow broker --topic orders:2`."""
    found = re.search(r"samsarrow broker((?: --topic [\w.-]+:\d+)+)", text)
    named = re.findall(r"--topic ([\w.-]+):(\d+)", found[1]) if found else []
    return {name: int(partitions) for name, partitions in named}


def stated_output(text: str) -> list[str]:
    """Returns the output lines that the text of a page states, as in "It prints `1 found` and `2 failed`"."""
    sentences = re.findall(r"\bprints ((?:`[^`\n]+`(?:, | and )?)+)", text)
    return [line for sentence in sentences for line in re.findall(r"`([^`]+)`", sentence)]


def needs_spark(fence: Fence) -> bool:
    """Returns true if the fence is a program that needs a Spark session."""
    return (
        fence.language == "python"
        and re.search(r"\bspark\.(read|createDataFrame)|SparkSession", fence.text) is not None
    )


def run(
    code: str, folder: Path, *, broker: str = BROKER, registry: str = REGISTRY, strict: bool = True, seconds: int = 150
) -> str:
    """Runs a program and returns its output. If it has functions named `test_…`, pytest runs it.

    Args:
        code: source text.
        folder: working directory.
        broker: address to use instead of `localhost:9092`.
        registry: URL to use instead of `http://localhost:8081`.
        strict: True if warnings are errors and standard error must stay empty.
        seconds: timeout.
    """
    tests = re.search(r"^(?:async )?def test_", code, re.MULTILINE) is not None
    script = folder / ("test_example.py" if tests else "example.py")
    script.write_text(code.replace(REGISTRY, registry).replace(BROKER, broker))
    options = ["-W", "error"] if strict else []
    command = [*options, "-m", "pytest", "-q", "-p", "no:cacheprovider", script] if tests else [*options, script]
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=seconds, check=False, cwd=folder
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}{done.stderr}"
    assert not strict or done.stderr == "", done.stderr
    return "" if tests else done.stdout


def console(text: str) -> tuple[list[str], str]:
    """Returns the commands of a fence with a shell session, and their expected output."""
    lines = text.splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    return commands, "".join(f"{line}\n" for line in lines if not line.startswith("$ "))


def commands(text: str) -> list[str]:
    """Returns the commands of a fence: lines that end with a backslash or a pipe, or within quotes, continue."""
    found: list[str] = []
    line = ""
    for part in text.splitlines():
        # POSIX removes a backslash with its newline, `shlex` does not.
        line = f"{line}\n{part}" if line and not line.endswith("\\") else line[:-1] + part
        try:
            shlex.split(line, comments=True)
        except ValueError:
            # A quotation or an escape continues in the next line.
            continue
        if not line.endswith("|"):
            found.append(line)
            line = ""
    assert not line, f"the last command does not end: {line}"
    return found


def program(folder: Path) -> Path:
    """Creates a folder with a `samsarrow` command like an installation's, to be put on the PATH of shells."""
    script = folder / "bin" / "samsarrow"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m samsarrow.cli "$@"\n')
    script.chmod(0o755)
    return script.parent


def shell(line: str, command: Callable[..., Ended]) -> tuple[str, bool]:
    """Returns the output of a command line, and True if the command line needed a shell.

    Args:
        line: the command line.
        command: function that runs `samsarrow` commands in this process.
    """
    words = shlex.split(line, comments=True)
    if words[0] == "samsarrow" and not SHELL.search(" ".join(words)):
        return command(*words[1:]).out, False
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", line],
        capture_output=True, text=True, timeout=60, check=False, env=os.environ,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    return done.stdout, True
