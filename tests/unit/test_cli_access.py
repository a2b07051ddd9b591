"""`samsarrow users` and `samsarrow acls` without a cluster: sources of passwords, and rejected command lines."""

import json
import os

import pytest
from click.testing import CliRunner

from samsarrow import (
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from samsarrow.cli import cli
from samsarrow.cli.connection import Connection
from samsarrow.exceptions import ClusterAuthorizationFailedError, ResourceNotFoundError
from samsarrow.results import Results, failure

SHA256, SHA512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


class Recorder:
    """Replaces Admin for a cluster with one user, `old`, with SCRAM-SHA-256, and without ACLs."""

    def __init__(self):
        self.calls = []

    def describe_users(self, users=None):
        known = {"old": (ScramCredentialInfo(SHA256, 4096),)}
        names = list(known if users is None else users)
        missing = {user: ResourceNotFoundError("none") for user in names if user not in known}
        return Results({u: known[u] for u in names if u in known}, missing, names, str, tuple[ScramCredentialInfo])

    def alter_users(self, changes):
        self.calls += changes
        return dict.fromkeys(change.user for change in changes)

    def describe_acls(self, filters):
        self.calls.append(filters)
        return []

    def create_acls(self, acls):
        self.calls += acls
        return dict.fromkeys(acls)

    def delete_acls(self, filters):
        self.calls += filters
        return dict.fromkeys(filters, ())


@pytest.fixture
def admin(monkeypatch):
    recorder = Recorder()
    monkeypatch.setattr(Connection, "admin", recorder)
    return recorder


def run(*arguments, code=0, stdin="", env=None, connect=True):
    where = ["-b", "127.0.0.1:1"] if connect else []
    done = CliRunner().invoke(cli, [*arguments, *where], input=stdin, env=env)
    assert done.exit_code == code, done.output
    assert "hunter" not in done.output
    return done.output


@pytest.mark.parametrize("stdin", ["hunter2 é\n", "hunter2 é\r\n", "hunter2 é"])
def test_password_from_standard_input(admin, stdin):
    assert run("users", "set", "new", "--password-stdin", stdin=stdin) == "user new: password set for SCRAM-SHA-512\n"
    assert admin.calls == [UserScramCredentialUpsertion("new", SHA512, "hunter2 é", 4096)]


def test_password_from_an_environment_variable(admin):
    output = run(
        "users", "set", "old", "--password-env", "SECRET", "--iterations", "8192", "--mechanism", "scram-sha-512",
        env={"SECRET": "hunter2"},
    )  # fmt: skip
    assert "password changed for SCRAM-SHA-512" in output
    assert "user old: SCRAM-SHA-256 keeps the password that it had" in output
    assert admin.calls == [UserScramCredentialUpsertion("old", SHA512, "hunter2", 8192)]


def test_password_change_keeps_the_mechanism_of_the_user(admin):
    run("users", "set", "old", "--password-stdin", stdin="hunter2")
    assert admin.calls == [UserScramCredentialUpsertion("old", SHA256, "hunter2", 4096)]


def test_password_prompt_on_a_terminal():
    """The command runs on a pseudo-terminal, since click reads passwords from the terminal instead of stdin."""
    import pty
    import sys

    pid, terminal = pty.fork()
    if pid == 0:
        arguments = ["-m", "samsarrow.cli", "users", "set", "new", "-b", "127.0.0.1:1", "--timeout", "0.2"]
        os.execv(sys.executable, [sys.executable, *arguments])
    shown = b""
    for prompt, answer in [(b"Password for new: ", b"hunter2\n"), (b"Repeat for confirmation: ", b"hunter2\n")]:
        while not shown.endswith(prompt):
            shown += os.read(terminal, 1024)
        os.write(terminal, answer)
    while chunk := _read(terminal):
        shown += chunk
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 1
    assert b"127.0.0.1:1" in shown
    assert b"Traceback" not in shown
    assert b"hunter" not in shown


def _read(terminal):
    try:
        return os.read(terminal, 1024)
    except OSError:
        # On Linux, reading raises EIO after the other end of the terminal was closed.
        return b""


@pytest.mark.parametrize(
    ("arguments", "stdin", "text"),
    [
        (["users", "set", "a"], "", "no terminal to read the password from"),
        (["users", "set", "a", "--password-env", "NOT_THERE"], "", "no environment variable NOT_THERE"),
        (["users", "set", "a", "--password-stdin", "--password-env", "HOME"], "x", "not both"),
        (["users", "set", "a", "--password-stdin"], "", "the password is empty"),
        (["users", "set", "a", "--password-stdin"], "hunter2\nhunter3\n", "more than one line"),
        (["users", "set", "a", "--password-stdin", "--iterations", "1"], "x", "4096<=x<=16384"),
        (["users", "set", "a", "--password-stdin", "--mechanism", "PLAIN"], "x", "'PLAIN' is not one of"),
        (["users", "set", "a", "--password", "x"], "", "No such option"),
        (["users", "delete"], "", "Missing argument 'USER...'"),
        (["acls", "add", "--topic", "t", "--operation", "read"], "", "--principal TYPE:NAME"),
        (["acls", "add", "--principal", "User:a", "--operation", "read"], "", "give a resource"),
        (["acls", "add", "--topic", "t", "--principal", "User:a"], "", "--operation, --producer or --consumer"),
        (["acls", "add", "--topic", "t", "--principal", "alice", "--operation", "read"], "", "'alice' is not TYPE"),
        (["acls", "add", "--topic", "t", "--principal", "User:a", "--operation", "reed"], "", "'reed' is not one of"),
        (
            ["acls", "add", "--group", "g", "--principal", "User:a", "--operation", "write"], "",
            "write is not an operation on a group; use read, describe,",
        ),
        (["acls", "add", "--group", "g", "--principal", "User:a", "--producer"], "", "a producer does not use a"),
        (
            ["acls", "add", "--cluster", "--prefixed", "--principal", "User:a", "--operation", "all"], "",
            "--cluster has no names with a prefix",
        ),
        (["acls", "add", "--topic", "", "--principal", "User:a", "--operation", "all"], "", "the name is empty"),
        (["acls", "list", "--pattern", "match"], "", "needs the name of a resource"),
        (["acls", "list", "--permission", "maybe"], "", "'maybe' is not one of deny, allow"),
        (["acls", "remove"], "", "pass --all"),
        (["acls", "remove", "--all", "--topic", "t"], "", "pass --all"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(admin, arguments, stdin, text):
    assert text in " ".join(run(*arguments, code=2, stdin=stdin).split())
    assert admin.calls == []


def test_acls_add_creates_every_combination(admin):
    output = run(
        "acls", "add", "--topic", "t", "--topic", "u", "--group", "g", "--principal", "User:a", "--principal", "User:b",
        "--operation", "Describe", "--consumer", "--host", "10.0.0.1", "--prefixed", "--deny",
    )  # fmt: skip
    assert output.endswith("12 ACLs added, or already present\n")
    assert len(admin.calls) == 12
    assert {(a.resource_type, a.resource_name, a.operation) for a in admin.calls} == {
        (kind, name, operation)
        for kind, name in [(ResourceType.TOPIC, "t"), (ResourceType.TOPIC, "u"), (ResourceType.GROUP, "g")]
        for operation in (AclOperation.DESCRIBE, AclOperation.READ)
    }
    assert {(a.permission, a.pattern_type, a.host) for a in admin.calls} == {
        (AclPermission.DENY, PatternType.PREFIXED, "10.0.0.1")
    }


def test_acls_of_a_producer(admin):
    run("acls", "add", "--topic", "t", "--transactional-id", "x", "--principal", "User:a", "--producer")
    assert [(a.resource_type.name, a.operation.name) for a in admin.calls] == [
        ("TOPIC", "WRITE"), ("TOPIC", "DESCRIBE"), ("TOPIC", "CREATE"),
        ("TRANSACTIONAL_ID", "WRITE"), ("TRANSACTIONAL_ID", "DESCRIBE"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "pattern"),
    [(["--topic", "*"], "LITERAL"), (["--topic", "t", "--prefixed"], "PREFIXED"), (["--principal", "User:a"], "ANY")],
    ids=str,
)
def test_acls_remove_matches_the_pattern_type(admin, arguments, pattern):
    assert run("acls", "remove", *arguments, "--yes").endswith("0 ACLs removed\n")
    run("acls", "remove", *arguments, "--dry-run")
    assert [one.pattern_type.name for one in admin.calls] == [pattern, pattern]


def test_dry_runs_change_nothing(admin):
    assert "dry run" in run("acls", "add", "--topic", "t", "--principal", "User:a", "--operation", "all", "--dry-run")
    output = run("users", "delete", "old", "nobody", "--dry-run")
    assert output.splitlines() == [
        "user old: the password for SCRAM-SHA-256 goes", "user nobody: nothing to delete", "dry run: nothing is deleted"
    ]  # fmt: skip
    assert admin.calls == []


def test_list_output_formats(admin, monkeypatch):
    flat = {"user": "old", "mechanism": "SCRAM-SHA-256", "iterations": 4096}
    assert json.loads(run("users", "list")) == flat
    assert json.loads(run("users", "list", "-o", "json")) == [flat]
    assert run("users", "list", "-o", "csv") == "user,mechanism,iterations\nold,SCRAM-SHA-256,4096\n"
    acl = AclBinding(ResourceType.TOPIC, "t", "User:a", AclOperation.READ, AclPermission.ALLOW)
    monkeypatch.setattr(admin, "describe_acls", lambda filters: [acl])
    listed = {"resource": "TOPIC", "name": "t", "pattern": "LITERAL", "principal": "User:a", "host": "*",
              "operation": "READ", "permission": "ALLOW"}  # fmt: skip
    assert json.loads(run("acls", "list")) == listed
    assert run("acls", "list", "-o", "csv").splitlines() == [",".join(listed), ",".join(listed.values())]


def test_options_from_a_properties_file(admin, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text('bootstrap.servers : b:1\nsasl.jaas.config=a.b.C required \\\n  password="hunter2";\n')
    assert run("acls", "list", "-o", "table", "-F", str(file), connect=False) == "no ACLs\n"
    file.write_bytes(b"sasl.password=hunter2\xff\n")
    assert "it is not UTF-8" in run("acls", "list", "--command-config", str(file), code=2)
    file.write_text("sasl.password=hunter2\\u12\n")
    assert "is not a properties file" in run("acls", "list", "--command-config", str(file), code=2)


def test_secret_on_the_command_line_logs_a_warning(admin):
    assert "sasl.password: other users can see" in run("acls", "list", "-c", "sasl.password=hunter2")
    assert "other users can see" not in run("acls", "list", "-c", "sasl.password=${env:P}", "-c", "sasl.username=hunt")


@pytest.mark.parametrize(("failing", "code"), [(1, 3), (2, 1)])
def test_partial_failure_is_exit_code_3(admin, monkeypatch, failing, code):
    error = ClusterAuthorizationFailedError("not you")

    def some_fail(items):
        keys = list(dict.fromkeys(getattr(item, "user", item) for item in items))
        raise failure(dict.fromkeys(keys[:failing], error), dict.fromkeys(keys[failing:], ()))

    for name in ("create_acls", "delete_acls", "alter_users"):
        monkeypatch.setattr(admin, name, some_fail)
    acl = ("--topic", "t", "--principal", "User:a", "--operation")
    added = run("acls", "add", *acl, "read", "--operation", "write", code=code)
    assert f"{2 - failing} ACLs added" in added
    assert "TOPIC t LITERAL User:a * READ ALLOW: not you" in added
    removed = run("acls", "remove", *acl, "read", "--operation", "write", "--yes", code=code)
    assert "TOPIC t LITERAL User:a any READ ANY: not you" in removed
    both = {user: (ScramCredentialInfo(SHA256, 4096),) for user in ("old", "new")}
    monkeypatch.setattr(admin, "describe_users", lambda users: both)
    assert "user old: not you" in run("users", "delete", "old", "new", "--yes", code=code)
