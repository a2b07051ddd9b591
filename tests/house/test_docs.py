"""What the documents say is so: the README's example runs, named files exist, generated pages are current."""

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import samsarrow
from samsarrow import _core, metrics
from samsarrow.testing import Registry

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


@contextmanager
def served(*topics: str) -> Iterator[str]:
    """A broker that a document starts, on a free port; its address."""
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


@pytest.fixture
def served_topic() -> Iterator[str]:
    """The README's broker, `samsarrow broker --topic readings:2`."""
    with served("readings:2") as address:
        yield address


def test_the_readme_examples_run_as_written(served_topic: str, tmp_path: Path) -> None:
    assert "samsarrow broker --topic readings:2" in README
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[:2]
    said = re.findall(r"^It prints `(.*?)`", README, re.MULTILINE)
    assert len(said) == 2
    for example, printed in zip(examples, said, strict=True):
        script = tmp_path / "example.py"
        script.write_text(example.replace("localhost:9092", served_topic))
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=150, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{printed}\n"


def test_the_examples_on_offsets_run_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "offsets.md").read_text()
    assert "samsarrow broker --topic flights:4 --topic readings:2" in page
    with served("flights:4", "readings:2") as address:
        script = tmp_path / "example.py"
        script.write_text(
            "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)).replace("localhost:9092", address)
        )
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, timeout=150, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-2:] == ["2 offsets copied and read back", "(1000, 499500)"]
        shell = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
        [lines] = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
        for line in lines.replace("localhost:9092", address).splitlines():
            name, *arguments = shlex.split(line)
            assert name == "samsarrow"
            command = [sys.executable, "-m", "samsarrow.cli", *arguments]
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=150, check=False, cwd=tmp_path, env=shell
            )
            assert ended.returncode == 0, f"{line}\n{ended.stdout}{ended.stderr}"


def test_the_examples_on_asyncio_run_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "asyncio.md").read_text()
    assert "samsarrow broker --topic orders:2 --topic totals:1" in page
    printed = []
    with served("orders:2", "totals:1") as address:
        for number, example in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL)):
            script = tmp_path / f"example_{number}.py"
            script.write_text(example.replace("localhost:9092", address))
            command = [sys.executable, "-W", "error", script]
            done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            printed += done.stdout.splitlines()
    assert len(printed) == 4
    assert [line for line in printed if f"`{line}`" not in page] == []


def test_the_examples_on_administration_run_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "admin.md").read_text()
    assert "samsarrow broker --topic orders:2" in page
    script = tmp_path / "example.py"
    with served("orders:2") as address:
        code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
        script.write_text(code.replace("localhost:9092", address))
        command = [sys.executable, "-W", "error", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) == 6
    assert [line for line in printed if f"`{line}`" not in page] == []


def test_the_examples_on_values_run_as_written(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "values.md").read_text()
    script = tmp_path / "example.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    command = [sys.executable, "-W", "error", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    said = re.findall(r"^It prints `(.*?)`", page, re.MULTILINE)
    assert len(said) == 12
    assert done.stdout.splitlines() == said


def test_the_examples_on_integrations_run_as_written(tmp_path: Path) -> None:
    for name in ("polars", "duckdb", "deltalake", "pyiceberg.catalog.sql"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    page = (ROOT / "docs" / "integrations.md").read_text()
    assert "samsarrow broker --topic orders:2" in page
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    with served("orders:2") as address:
        script = tmp_path / "example.py"
        script.write_text(code.replace("localhost:9092", address))
        done = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, timeout=150, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
    said = re.findall(r"^It prints `(.*?)`", page, re.MULTILINE)
    assert len(said) == 4
    assert done.stdout.splitlines() == said
    for path in re.findall(r"examples/\w+/\w+\.py", page):
        assert (ROOT / path).exists(), path


def test_programs_before_and_after_print_the_same(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    page = (ROOT / "docs" / "migrating.md").read_text()
    assert "samsarrow broker --topic orders:1" in page
    script = tmp_path / "example.py"

    def printed(*programs: str) -> str:
        """By the last of these, one after the other on a broker of their own."""
        with served("orders:1") as address:
            for program in programs:
                script.write_text(program.replace("localhost:9092", address))
                done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
                assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    [produce, *others] = page.split("\n### ")[1:4]
    fill: list[str] = []
    for section in (produce, *others):
        before, *after = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        wanted = printed(*fill, before)
        assert wanted
        assert after
        assert [printed(*fill, program) for program in after] == [wanted] * len(after)
        fill = fill or [before]


def test_serializers_before_and_after_print_the_same(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka.schema_registry.avro", reason="confluent-kafka[avro] is not installed")
    page = (ROOT / "docs" / "migrating.md").read_text()
    assert "samsarrow broker --topic sales:1" in page
    [section] = [one for one in page.split("\n### ") if one.startswith("Serializers\n")]
    script = tmp_path / "example.py"
    printed = []
    for program in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        with served("sales:1") as address, Registry() as registry:
            script.write_text(program.replace("localhost:9092", address).replace("http://localhost:8081", registry.url))
            done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout)
    assert printed == ["{'id': 0, 'city': 'Rome'}\n{'id': 1, 'city': 'Ulm'}\n"] * 2


def test_the_options_page_is_the_table() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "samsarrow.cli", "options"], capture_output=True, text=True, timeout=60, check=True
    )
    assert (ROOT / "docs" / "options.md").read_text() == done.stdout, "run `make generate`"


def test_the_metrics_page_is_the_table() -> None:
    assert (ROOT / "docs" / "metrics.md").read_text() == _core.metrics_markdown(), "run `make docs`"


def test_the_dashboard_is_the_table() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "dashboards" / "build.py"], capture_output=True, text=True, timeout=60, check=True
    )
    written = (ROOT / "dashboards" / "samsarrow.json").read_text()
    assert written == done.stdout, "run `make docs`"
    board = json.loads(written)
    shown = " ".join(target["expr"] for panel in board["panels"] for target in panel.get("targets", []))
    for client in ("producer", "consumer", "admin"):
        named = [row.prometheus for row in metrics.table(client) if row.prometheus and row.name != "start-time-ms"]
        assert [name for name in named if f"{name}{{" not in shown] == []
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in board["panels"])


def test_every_decision_says_what_and_why() -> None:
    pages = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert len(pages) >= 10
    for number, page in enumerate(pages, 1):
        text = page.read_text()
        assert page.name.startswith(f"{number:04}-")
        assert text.startswith(f"# {number}. ")
        assert all(part in text for part in ("**Decision.**", "**Why.**", "**Consequences.**")), page


def test_the_file_map_names_what_exists() -> None:
    table = (ROOT / "docs" / "design.md").read_text().partition("## Where things are")[2].partition("## ")[0]
    paths = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[2:]
    assert paths
    for path in re.findall(r"`((?:rust|python|tests|benches)/[^`*]*)`", " ".join(paths)):
        for one in expand(path):
            assert (ROOT / one).exists() or (ROOT / f"{one}.rs").exists(), one


def expand(path: str) -> list[str]:
    """`a/{b,c}.rs` as `a/b.rs` and `a/c.rs`."""
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
            # What it inherits from classes of our own is its own.
            ours = [vars(of) for of in reversed(public.__mro__) if of.__module__.partition(".")[0] == "samsarrow"]
            for member, value in {name: value for names in ours for name, value in names.items()}.items():
                if not member.startswith("_") and (callable(value) or isinstance(value, property)):
                    yield f"{name}.{member}", value


def test_every_public_name_is_documented() -> None:
    documented = {name: inspect.getdoc(value) for name, value in public_members()}
    assert {"Consumer.poll", "Producer.send_batch", "Delivery.result", "Admin.create_topics"} <= documented.keys()
    assert [name for name, text in documented.items() if not text] == []


def test_every_option_that_a_docstring_names_is_on_the_options_page() -> None:
    page = (ROOT / "docs" / "options.md").read_text()
    text = "\n".join(inspect.getdoc(value) or "" for _, value in public_members())
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", text)) - {"sys.unraisablehook"}
    named -= {name for name in named if name.startswith(("delegation.token.", "transaction.max."))}  # of brokers
    assert "max.poll.records" in named
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []
