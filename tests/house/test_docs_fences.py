"""Fences of the README and docs/: every program runs, and prints the output that its page shows."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from samsarrow.testing import Broker, Registry
from support import postgres
from support.commands import runner
from support.fences import (
    ROOT,
    SPARK,
    console,
    fences,
    needs_spark,
    pages,
    program,
    run,
    shell,
    stated_output,
    topics_of,
)

# Pages whose fences form one program when they are joined in order. On other pages each fence is a program.
SINGLE_PROGRAM = {
    "docs/admin.md", "docs/consume.md", "docs/integrations.md", "docs/offsets.md", "docs/produce.md", "docs/values.md",
}  # fmt: skip
# Pages whose programs another test runs.
TESTED_ELSEWHERE = {
    "README.md": "tests/house/test_docs.py",
    "docs/cli.md": "tests/house/test_docs_cli.py",
    "docs/guarantees.md": "tests/kafka/test_guarantees.py",
    "docs/migrating/aiokafka.md": "tests/house/test_docs_migrating.py",
    "docs/migrating/confluent-kafka.md": "tests/house/test_docs_migrating.py",
    "docs/migrating/kafka-python.md": "tests/house/test_docs_migrating.py",
    "docs/processes.md": "tests/house/test_docs_processes.py",
    "docs/production.md": "tests/house/test_docs_production.py",
    "docs/security.md": "tests/security/test_guide.py",
}
# Last output lines of programs whose pages do not show the output.
LAST_LINES = {
    "docs/notebooks.md": ["2 rows", "3 points"],
    "docs/offsets.md": ["2 offsets copied and read back", "(1000, 499500)"],
}
# Modules that the programs of a page import.
NEEDS = {
    # `make test-engines` has all of them.
    "docs/engines.md": ("ray", "daft", "datafusion", "dlt", "duckdb", "polars"),
    "docs/integrations.md": ("polars", "duckdb", "deltalake", "pyiceberg.catalog.sql"),
    "docs/monitoring.md": ("prometheus_client", "opentelemetry.sdk"),
    "docs/recipes/cdc.md": ("duckdb",),
    "docs/recipes/pandas.md": ("pandas",),
    "docs/recipes/postgres.md": ("psycopg",),
}
# Pages whose modules emit warnings, so that they do not run in strict mode.
WARNS = {"docs/engines.md", "docs/integrations.md"}
# Pages whose programs connect to PostgreSQL.
POSTGRES = {"docs/recipes/postgres.md"}
# Characters in a line of code on the site, in the narrowest window with both columns of links.
WIDTH = 84
LANGUAGES = {"python", "console", "sh", "toml", "text", "mermaid", ""}
FENCES = [fence for page in pages() for fence in fences(page)]
RUN = [one for one in FENCES if one.language in ("python", "console")]
TESTED_HERE = [one for one in RUN if not (one.reason or needs_spark(one) or one.page in TESTED_ELSEWHERE)]


def test_every_fence_is_run() -> None:
    assert {one.language for one in FENCES} <= LANGUAGES, "fences are run by their language: these have another name"
    ways = Counter(
        "not run" if one.reason else SPARK if needs_spark(one) else TESTED_ELSEWHERE.get(one.page, "here")
        for one in RUN
    )
    assert sum(ways.values()) == len(RUN)
    assert ways["here"] == len(TESTED_HERE) > 25
    # At present every program is tested. Programs that cannot be tested, such as a login at an external cluster, would
    # be counted here.
    assert ways["not run"] == 0
    assert [one.page for one in FENCES if one.title and one.reason is None] == []
    assert [one.page for one in FENCES if one.reason == ""] == []
    for page in SINGLE_PROGRAM:
        assert "The examples are one program: run them in order" in (ROOT / page).read_text(), page
    for page, test in TESTED_ELSEWHERE.items():
        text = (ROOT / test).read_text()
        assert page in text or Path(page).name in text, f"{test} does not speak of {page}"


def test_fences_fit_the_width_of_a_page() -> None:
    texts = [one for path in (ROOT / "docs").rglob("*.md") for one in fences(path)] + list(fences(ROOT / "README.md"))
    # Diagrams are not shown as text, and log lines are not wrapped.
    lines = [
        f"{one.page}:{one.line + number}"
        for one in texts
        for number, line in enumerate(one.text.splitlines(), 1)
        if one.language != "mermaid" and one.page != "docs/logging.md" and len(line) > WIDTH
    ]
    assert lines == [], f"lines of code that are longer than {WIDTH} characters are cut off on the site"


@contextmanager
def database(page: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starts the PostgreSQL server of a page that needs one, and sets libpq's environment variables."""
    if page not in POSTGRES:
        yield
        return
    try:
        postgres.programs()
    except postgres.PostgresUnavailableError as reason:
        pytest.skip(str(reason))
    with postgres.server() as where:
        home, user = re.findall(r"(?:host|user)=(\S+)", where)
        monkeypatch.setenv("PGHOST", home)
        monkeypatch.setenv("PGUSER", user)
        yield


@pytest.mark.parametrize("page", list(dict.fromkeys(one.page for one in TESTED_HERE)))
def test_programs_run_as_written(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NEEDS.get(page, ()):
        pytest.importorskip(name, reason=f"{name} is not installed")
    text = (ROOT / page).read_text()
    own = [one for one in TESTED_HERE if one.page == page]
    printed = ""
    work = tmp_path / "work"
    work.mkdir()
    with Broker(topics=topics_of(text)) as broker, Registry() as registry, database(page, monkeypatch):
        addresses = {"broker": broker.bootstrap_servers, "registry": registry.url, "strict": page not in WARNS}
        if page in SINGLE_PROGRAM:
            assert {one.language for one in own} == {"python"}
            printed = run("\n".join(one.text for one in own), work, **addresses)
        else:
            for one in own:
                if one.language == "python":
                    printed += run(one.text, work, **addresses)
                    continue
                monkeypatch.setenv("PATH", f"{program(tmp_path)}{os.pathsep}{os.environ['PATH']}")
                monkeypatch.chdir(work)
                command = runner(broker.bootstrap_servers, monkeypatch, capsys, tmp_path)
                lines, expected = console(one.text.replace("localhost:9092", broker.bootstrap_servers))
                assert "".join(shell(line, command)[0] for line in lines) == expected
    lines = printed.splitlines()
    assert lines == stated_output(text) or lines[-2:] == LAST_LINES.get(page)


def test_examples_named_on_pages_exist() -> None:
    named = {(page, path) for page in pages() for path in re.findall(r"examples/\w+/\w+\.py", page.read_text())}
    assert named
    assert [(page, path) for page, path in named if not (ROOT / path).exists()] == []
