"""docs/security.md: recipes are valid options, examples run, and quoted errors exist."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

from samsarrow import Admin
from samsarrow.config import kind_of
from samsarrow.exceptions import KafkaError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"### ([^\n]+)\n\n```python\n(config = .*?)```", PAGE, re.DOTALL)
MORE = [("Strimzi with a password", b) for b in re.findall(r"instead:\n\n```python\n(.*?)```", PAGE, re.DOTALL)]
# The recipe whose config providers have custom names.
NAMED = re.findall(r"may read:\n\n```python\n(config = .*?)```", PAGE, re.DOTALL)
SPARK = re.findall(r"```python\n(secured = .*?)```", PAGE, re.DOTALL)
PROGRAMS = [one for one in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import" in one or "print(" in one]
RECIPES = {
    "Confluent Cloud",
    "Amazon MSK, IAM",
    "Amazon MSK, SCRAM",
    "Azure Event Hubs",
    "Redpanda",
    "Aiven",
    "Strimzi",
    "Kerberos",
    "OAuth, any issuer",
}


def config_of(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(block, names)
    return dict(names["config"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that recipes refer to."""
    folder = tmp_path_factory.mktemp("recipes")
    authority = trustme.CA()
    shown = authority.issue_cert("client.example.com")
    for path in re.findall(r'"(/[a-z][^"]*)"', PAGE):
        file = folder / path.removeprefix("/")
        if "." not in file.name:
            file.mkdir(parents=True, exist_ok=True)
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.name in ("ca.pem", "ca.crt"):
            authority.cert_pem.write_to_path(str(file))
        elif file.suffix == ".key":
            shown.private_key_pem.write_to_path(str(file))
        else:
            shown.cert_chain_pems[0].write_to_path(str(file))
    password = folder / "var/run/secrets/my-user/password"
    password.parent.mkdir(parents=True, exist_ok=True)
    password.write_text("wonderland\n")
    return folder


def test_each_method_has_a_recipe() -> None:
    assert {name for name, _ in BLOCKS} == RECIPES


def moved(text: str, folder: Path) -> str:
    """Replaces the paths in a recipe by paths of the test."""
    return re.sub(r"(^|:)/(etc|var)/", rf"\g<1>{folder}/\2/", text)


@pytest.mark.parametrize(("name", "block"), [*BLOCKS, *MORE])
def test_recipes_are_valid_options(
    name: str, block: str, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = {key: moved(value, folder) if isinstance(value, str) else value for key, value in config_of(block).items()}
    for variable in re.findall(r"\${env:(\w+)}", block):
        monkeypatch.setenv(variable, "wonderland")
    # Replaces the host names of examples, because no connection is needed.
    config["bootstrap.servers"] = "localhost:1"
    if name == "Kerberos":
        with pytest.raises(KafkaError, match=r"keytab|GSSAPI"):
            Admin(config)
        return
    Admin(config).close()
    assert [r.getMessage() for r in caplog.records if "ignored" in r.getMessage()] == []


def test_all_options_of_the_page_exist() -> None:
    named = {n.removeprefix("kafka.") for n in re.findall(r'"((?:kafka\.)?[a-z]+(?:\.[a-z]+)+)":', PAGE)}
    assert len(named) > 20
    assert sorted(n for n in named if kind_of(n) == "unknown") == []
    table = PAGE.partition("## From other clients")[2].partition("Three things")[0]
    cells = set(re.findall(r"`([a-z_]+(?:[._][a-z]+)+)(?:=[^`]*)?`", table)) - {"oauth_cb", "ssl_context"}
    unknown = sorted(n for n in cells if kind_of(n) == "unknown" and n != "sasl_oauth_token_provider")
    assert unknown == []


def test_spark_options_exist() -> None:
    [block] = SPARK
    names: dict[str, Any] = {}
    exec(block, names)
    assert [name for name in names["secured"] if kind_of(name.removeprefix("kafka.")) == "unknown"] == []


def test_custom_provider_names() -> None:
    [block] = NAMED
    Admin(config_of(block)).close()


def test_all_code_blocks_are_tested() -> None:
    tested = [block for _, block in [*BLOCKS, *MORE]] + NAMED + SPARK + PROGRAMS
    written = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert sorted(tested) == sorted(written)


def test_examples_run(tmp_path: Path) -> None:
    assert len(PROGRAMS) == 3
    script = tmp_path / "example.py"
    script.write_text("\n".join(PROGRAMS))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "flights",
        "{'sasl.password': [hidden]} [hidden]",
        "AuthenticationError",
    ]


def test_quoted_errors_exist() -> None:
    sources = [*(ROOT / "rust").rglob("*.rs"), *(ROOT / "python").rglob("*.py")]
    code = "\n".join(path.read_text() for path in sources if "tests" not in path.parts)
    # Joins adjacent string literals as the compiler does.
    code = re.sub(r"\\\n\s*", "", code)
    code = re.sub(r'"\n\s*f?"', "", code)
    table = PAGE.partition("## Troubleshooting")[2]
    rows = re.findall(r"^\| (.*?) \|", table, re.MULTILINE)[2:]
    texts = [text for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert len(texts) > 20
    missing = []
    for text in texts:
        pieces = [piece.strip() for piece in re.split(r"…", text) if piece.strip()]
        if not all(piece in code for piece in pieces):
            missing.append(text)
    assert missing == []
