"""Documents match the code: the README's examples run, named files exist, and generated pages are current."""

import importlib.util
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

import samsarrow
from samsarrow import _core, metrics
from samsarrow.metrics.table import table
from samsarrow.testing import Broker
from support.commands import runner
from support.fences import commands, fences, needs_spark, pages, program, run, shell, topics_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


@contextmanager
def running_broker(*topics: str) -> Iterator[str]:
    """Starts the broker of a document on a free port and yields its address."""
    options = [option for topic in topics for option in ("--topic", topic)]
    command = [sys.executable, "-m", "samsarrow.cli", "broker", "--port", "0", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as broker:
        assert broker.stdout is not None
        try:
            yield broker.stdout.readline().removeprefix("listening on ").strip()
        finally:
            broker.send_signal(signal.SIGTERM)
            assert broker.wait(60) == 0


def load_tool(name: str) -> ModuleType:
    """Imports a module of tools/."""
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_readme_examples_run_as_written(tmp_path: Path) -> None:
    programs = [one.text for one in fences(ROOT / "README.md") if one.language == "python" and not needs_spark(one)]
    (example,) = programs
    assert [line for line in run(example, tmp_path).splitlines() if f"`{line}`" not in README] == []


def test_commands_of_the_readme_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = [
        one.text for one in fences(ROOT / "README.md") if one.language == "sh" and "samsarrow consume" in one.text
    ]
    variable, *lines = commands(text)
    # The commands need it: none of them has -b.
    assert variable == "export SAMSARROW_BOOTSTRAP_SERVERS=localhost:9092"
    monkeypatch.setenv("PATH", str(program(tmp_path)), prepend=":")
    with running_broker(*(f"{name}:{count}" for name, count in topics_of(README).items())) as address:
        command = runner(address, monkeypatch, capsys, tmp_path)
        monkeypatch.chdir(tmp_path)
        for line in lines:
            shell(line, command)


def test_no_page_installs_the_package_from_an_index() -> None:
    # The name is not registered yet, so a package of that name could be from another author.
    sources = [path for path in (ROOT / "python").rglob("*.py") if path.name != "jar_file.py"]
    texts = {path: path.read_text() for path in [*pages(), ROOT / "examples" / "tour.ipynb", *sources]}
    wrong = [
        (path.name, found[0])
        for path, text in texts.items()
        for found in re.finditer(r"(.{10})pip install (?:-\S+ )*'?samsarrow", text)
        if "not run `" not in found[0]
    ]
    assert wrong == []


def test_commands_of_the_offsets_page_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = ROOT / "docs" / "offsets.md"
    [text] = [one.text for one in fences(page) if one.language == "sh"]
    programs = [one.text for one in fences(page) if one.language == "python"]
    with Broker(topics=topics_of(page.read_text())) as broker:
        # Creates the groups that the commands use.
        run(programs[0], tmp_path, broker=broker.bootstrap_servers)
        command = runner(broker.bootstrap_servers, monkeypatch, capsys, tmp_path)
        monkeypatch.chdir(tmp_path)
        for line in commands(text.replace("localhost:9092", broker.bootstrap_servers)):
            shell(line, command)


@pytest.mark.parametrize("tool", ["pages", "reference"])
def test_generated_pages_are_current(tool: str) -> None:
    for path, content in load_tool(tool).PAGES.items():
        assert path.read_text() == content(), f"{path.name}: run `make generate`"


def test_reference_has_an_entry_for_each_option_metric_and_error() -> None:
    def entries(page: str) -> set[str]:
        return set(re.findall(r"^### `([^`]+)`", (ROOT / "docs" / page).read_text(), re.MULTILINE))

    assert entries("options.md") >= {name for name, *_ in _core.option_table()} | {"api.version.NAME"}
    assert entries("metrics.md") == {spec.name for kind in ("producer", "consumer", "admin") for spec in table(kind)}
    assert entries("errors.md") >= {name for _, name, *_ in _core.error_table()} | {"ClosedError"}


def test_metrics_on_the_monitoring_page_exist() -> None:
    names = set(re.findall(r"\bsamsarrow_\w+", (ROOT / "docs" / "monitoring.md").read_text()))
    assert names
    assert names <= {spec.prometheus for kind in ("producer", "consumer", "admin") for spec in table(kind)}


def test_page_of_other_clients_options_is_current() -> None:
    for name in ("confluent_kafka", "kafka", "aiokafka"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    made = load_tool("foreign_options")
    page = made.PAGE.read_text()
    others = [f"{name} {version}" for name, version in made.versions().items() if f"{name} {version}" not in page]
    if others:
        pytest.skip(f"the page compares with other versions than {', '.join(others)}")
    assert page == made.page(), "run `make generate`"


def test_dashboard_is_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "dashboards" / "build.py"], capture_output=True, text=True, timeout=60, check=True
    )
    written = (ROOT / "dashboards" / "samsarrow.json").read_text()
    assert written == done.stdout, "run `make generate`"
    board = json.loads(written)
    shown = " ".join(target["expr"] for panel in board["panels"] for target in panel.get("targets", []))
    for client in ("producer", "consumer", "admin"):
        named = [row.prometheus for row in metrics.table(client) if row.prometheus and row.name != "start-time-ms"]
        assert [name for name in named if f"{name}{{" not in shown] == []
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in board["panels"])


def test_every_adr_has_its_sections() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert len(pages) >= 10
    for number, page in enumerate(pages, 1):
        text = page.read_text()
        assert page.name.startswith(f"{number:04}-")
        assert text.startswith(f"# {number}. ")
        assert all(part in text for part in ("**Status.**", "**Decision.**", "**Why.**", "**Consequences.**")), page


def test_file_map_names_existing_files() -> None:
    table = (ROOT / "docs" / "design.md").read_text().partition("## Source files")[2].partition("## ")[0]
    paths = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[2:]
    assert paths
    for path in re.findall(r"`((?:rust|python|tests|benches)/[^`*]*)`", " ".join(paths)):
        for one in expand(path):
            assert (ROOT / one).exists() or (ROOT / f"{one}.rs").exists(), one


def expand(path: str) -> list[str]:
    """Expands `a/{b,c}.rs` into `a/b.rs` and `a/c.rs`."""
    head, brace, rest = path.partition("{")
    if not brace:
        return [path]
    options, _, tail = rest.partition("}")
    return [head + option + tail for option in options.split(",")]


def public_members() -> Iterator[tuple[str, object]]:
    for name in samsarrow.__all__:
        public = getattr(samsarrow, name)
        yield name, public
        if inspect.isclass(public):
            # Members inherited from other classes of samsarrow count as members of the class.
            ours = [vars(of) for of in reversed(public.__mro__) if of.__module__.partition(".")[0] == "samsarrow"]
            for member, value in {name: value for names in ours for name, value in names.items()}.items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    yield f"{name}.{member}", value


def test_options_named_in_docstrings_are_on_the_options_page() -> None:
    page = (ROOT / "docs" / "options.md").read_text()
    text = "\n".join(inspect.getdoc(value) or "" for _, value in public_members())
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", text)) - {"sys.unraisablehook", "user.city"}
    # These are options of brokers and groups instead of clients. docs/share-groups.md has those of share consumers.
    named -= {name for name in named if name.startswith(("delegation.token.", "transaction.max."))}
    named -= {name for name in named if name.startswith(("share.", "group.share."))}
    named -= {name for name in named if name.startswith("samsarrow.")}
    assert "max.poll.records" in named
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []
