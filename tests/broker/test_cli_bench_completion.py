"""`samsarrow bench` and shell completion."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

from samsarrow import Admin, Producer
from samsarrow.testing import Broker, Registry


def test_bench_produces_and_consumes(command):
    [sent] = map(
        json.loads, command("bench", "produce", "four", "-n", "5000", "--size", "1KiB", "--keys", "7").out.splitlines()
    )
    assert sent["records"] == 5000
    assert sent["records_per_second"] > 0
    assert 0 <= sent["p50_ms"] <= sent["p99_ms"] <= sent["max_ms"]
    [read] = map(json.loads, command("bench", "consume", "four").out.splitlines())
    assert read["records"] == 5000
    assert json.loads(command("bench", "consume", "four", "-n", "10").out)["records"] >= 10
    assert json.loads(command("bench", "consume", "t").out)["records"] == 0


def test_bench_latency(command):
    found = json.loads(command("bench", "latency", "t", "-n", "5", "--interval", "1ms").out)
    assert found["records"] == 5
    assert 0 < found["p50_ms"] <= found["max_ms"]


@pytest.mark.parametrize("name", ["latency", "produce", "consume"])
def test_bench_rejects_a_missing_topic(command, name):
    missing = command("bench", name, "no", code=1)
    assert (missing.out, missing.err.startswith("Error: there is no topic no at ")) == ("", True)


def test_bench_rejects_invalid_arguments(command):
    assert "not a size" in command("bench", "produce", "t", "--size", "0", code=2).err


@pytest.fixture
def complete(servers, tmp_path):
    """Returns a function that completes a command line like bash; `limit` is the timeout in seconds."""

    def complete(*words, limit=30.0, **more):
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(tmp_path), "SAMSARROW_BOOTSTRAP_SERVERS": servers,
            "_SAMSARROW_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(["samsarrow", *words]),
            "COMP_CWORD": str(len(words)), **more,
        }  # fmt: skip
        code = "import sys; sys.argv = ['samsarrow']; from samsarrow.cli import completion, main; "
        code += f"completion.LIMIT_SECONDS = {limit} or completion.LIMIT_SECONDS; main()"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=60, check=False
        )
        assert done.stderr == ""
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    return complete


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_command(command, shell):
    script = command("completion", shell).out
    assert f"_SAMSARROW_COMPLETE={shell}_complete" in script
    if shell == "bash":
        shown = subprocess.run(
            ["bash", "-c", f"{script}\ncomplete -p samsarrow"], capture_output=True, text=True, check=True, timeout=60
        )
        assert shown.stdout.rstrip().endswith(" samsarrow")


def test_completion_scripts_of_other_shells_are_an_error(command):
    assert "'ksh' is not one of 'bash', 'zsh', 'fish'" in command("completion", "ksh", code=2).err


def test_completion_of_commands_topics_groups_and_profiles(complete, servers, tmp_path, broker):
    with Producer(bootstrap_servers=servers) as producer, Admin(bootstrap_servers=servers) as admin:
        producer.send("t", b"x").result(10)
        admin.commit_offsets("billing", {("t", 0): 1})
    (tmp_path / ".config" / "samsarrow").mkdir(parents=True)
    (tmp_path / ".config" / "samsarrow" / "config.toml").write_text("[profiles.prod]\n[profiles.play]\n[profiles.dev]")
    assert complete("con") == ["config", "configs", "consume"]
    assert complete("consume", "f") == ["four"]
    assert complete("topics", "describe", "") == ["four", "t"]
    assert complete("groups", "describe", "b") == ["billing"]
    assert complete("consume", "four", "-g", "b") == ["billing"]
    assert complete("offsets", "describe", "b") == ["billing"]
    assert complete("replicas", "log-dirs", "f") == ["four"]
    assert complete("topics", "list", "--profile", "p") == ["play", "prod"]
    assert complete("configs", "get", "") == ["topic:", "broker:", "logger:", "group:", "client-metrics:"]
    assert complete("configs", "get", "topic:t", "t") == ["topic:four", "topic:t"]
    assert complete("configs", "set", "topic:f") == ["topic:four"]
    assert complete("configs", "diff", "topic:t", "group:b") == ["group:billing"]
    assert complete("configs", "get", "b") == ["broker:0"]
    # Bash splits `topic:t` into three words at the colon.
    assert complete("configs", "get", "topic", ":") == ["four", "t"]
    assert complete("configs", "get", "topic", ":", "f") == ["four"]
    assert complete("configs", "get", "nothing:t") == complete("configs", "get", "x") == []
    with Registry() as registry:
        registry.register("users-value", "long")
        registry.register("orders-value", "long")
        env = {"SAMSARROW_SCHEMA_REGISTRY_URL": registry.url}
        assert complete("schema", "show", "u", **env) == ["users-value"]
        assert complete("consume", "four", "--value-subject", "", **env) == ["orders-value", "users-value"]
        assert complete("schema", "check", "--registry", registry.url, "o") == ["orders-value"]
    # Removes the cached topics, which would be used for a minute.
    shutil.rmtree(tmp_path / ".cache")
    assert complete("consume", "f") == ["four"]
    requests = broker.requests()["Metadata"]
    assert complete("produce", "f") == ["four"]
    assert broker.requests()["Metadata"] == requests, "within a minute it is remembered"


def test_completion_with_an_unreachable_cluster_is_fast(complete):
    with Broker() as gone:
        address = gone.bootstrap_servers
    started = time.monotonic()
    assert complete("consume", "f", limit=None, SAMSARROW_BOOTSTRAP_SERVERS=address) == []
    assert complete("consume", "f", limit=None, SAMSARROW_PROFILE="nope") == []
    assert time.monotonic() - started < 40
