"""Profiles, environment variables, and settings imported from other clients."""

import json
import sys

import pytest
from click.testing import CliRunner

from samsarrow import Consumer
from samsarrow.cli import cli
from samsarrow.cli.config.yaml import YamlError, parse
from samsarrow.cli.settings import layered
from samsarrow.exceptions import ConfigurationError

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    """Returns a function that writes the file with the profiles."""
    monkeypatch.setenv("SAMSARROW_CONFIG", str(tmp_path / "config.toml"))
    for name in ("SAMSARROW_PROFILE", "SAMSARROW_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)

    def write(text):
        (tmp_path / "config.toml").write_text(text)
        (tmp_path / "config.toml").chmod(0o600)

    return write


def run(*arguments, code=0, env=None):
    done = CliRunner().invoke(cli, list(map(str, arguments)), env=env)
    assert done.exit_code == code, done.output
    assert SECRET not in done.output
    return done.output


PROFILES = """
default_profile = "local"
[profiles.local]
bootstrap_servers = "localhost:9092"
[profiles.prod]
bootstrap.servers = ["a:9093", "b:9093"]
security_protocol = "SASL_SSL"
sasl.username = "ann"
check_crcs = false
request_timeout_ms = 5000
"""


def test_setting_precedence(config, monkeypatch):
    config(PROFILES)
    assert layered(None, {}, {}) == {"bootstrap.servers": "localhost:9092"}
    prod = layered("prod", {}, {})
    assert prod == {
        "bootstrap.servers": "a:9093,b:9093", "security.protocol": "SASL_SSL", "sasl.username": "ann",
        "check.crcs": "false", "request.timeout.ms": "5000",
    }  # fmt: skip
    monkeypatch.setenv("SAMSARROW_PROFILE", "prod")
    monkeypatch.setenv("SAMSARROW_METADATA_BROKER_LIST", "env:9092")
    monkeypatch.setenv("SAMSARROW_BENCH_RECORDS", "5")
    assert layered(None, {}, {}) == {**prod, "bootstrap.servers": "env:9092"}
    # Environment variables do not apply to a profile from the command line, since it may describe another cluster.
    assert layered("local", {}, {}) == {"bootstrap.servers": "localhost:9092"}
    command_line = {"request_timeout_ms": "2"}
    assert layered(None, {"request.timeout.ms": "1", "client.id": "f"}, command_line) == {
        **prod, "bootstrap.servers": "env:9092", "client.id": "f", "request.timeout.ms": "2",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "there is no profile 'nope'"),
        (PROFILES, "it has local, prod"),
        ("[profiles", "is not TOML"),
        ("bootstrap_servers = 'x'", "it takes default_profile and [profiles.NAME]"),
        ("default_profile = 5", "default_profile is the name of a profile"),
        ("[profiles]\nnope = 1", "profiles are tables"),
        ("[profiles.nope]\nclient_id = 2026-01-01", "client.id must be text"),
        ("[profiles.nope]\nbootstrap_servers = [1]", "bootstrap.servers must be text"),
        ("[profiles.nope]\nclient_id_command = 'echo x'", "client.id, which is not a secret option"),
        ("[profiles.nope]\npassword_command = ''", "password.command is empty"),
        ("[profiles.nope]\npassword_command = 'no-such-program hunter2'", "no-such-program cannot be run"),
        ("[profiles.nope]\npassword_command = \"sh -c 'echo hunter2; exit 3'\"", "sh ended with exit code 3"),
        ("[profiles.nope]\npassword_command = 'true'", "true printed nothing"),
        ('[profiles.nope]\npassword_command = "echo \'hunter2"', "No closing quotation"),
        ("[profiles.nope]\npassword_command = 'echo x'\nsasl_password = 'hunter2'", "one of them"),
        ("[profiles.nope]\nclient_id = 'x'", "no cluster: pass"),
        ("[profiles.nope]\nbootstrap_server = 'x:1'", "; unknown options are bootstrap.server"),
        ("[profiles.nope]\nbootstrap_servers = 'localhost:1'\nbotstrap = 'x'", "option botstrap is unknown"),
    ],
)
def test_profile_errors(config, text, why):
    config(text)
    assert why in run("topics", "list", "--profile", "nope", code=2)


def test_secrets_from_commands_are_hidden(config, tmp_path):
    words = json.dumps([sys.executable, "-c", f"print({SECRET!r}); print('second line')"])
    config(
        f"[profiles.a]\nbootstrap_servers='h:1'\n"
        f"password_command = {words}\nssl.key.password.command = 'echo {SECRET}k'"
    )
    assert layered("a", {}, {}) == {
        "bootstrap.servers": "h:1",
        "sasl.password": SECRET,
        "ssl.key.password": SECRET + "k",
    }
    shown = [json.loads(line) for line in run("config", "show", "--profile", "a").splitlines()]
    assert {row["option"]: row["value"] for row in shown} == {
        "bootstrap.servers": "h:1", "sasl.password": "[hidden]", "ssl.key.password": "[hidden]",
    }  # fmt: skip
    # If other users can read a file with a secret, a warning is printed, but the command continues.
    config(f"[profiles.a]\nbootstrap_servers='h:1'\nsasl_password = '{SECRET}'")
    (tmp_path / "config.toml").chmod(0o644)
    assert "others can read it" in run("config", "show", "--profile", "a")


def test_config_show_names_the_source_of_a_setting(config):
    config(PROFILES)
    shown = run("config", "show", "-o", "csv", env={"SAMSARROW_SASL_PASSWORD": SECRET, "SAMSARROW_CLIENT_ID": "me"})
    assert shown.splitlines() == [
        "option,value,from", "bootstrap.servers,localhost:9092,profile", "client.id,me,environment",
        "sasl.password,[hidden],environment",
    ]  # fmt: skip
    config("")
    assert "nothing is set" in run("config", "show")


def test_schema_registry_settings(config):
    config(
        f"[profiles.a]\nschema_registry_url = 'http://h:8081'\nschema_registry_max_retries = 1\n"
        f"schema_registry_basic_auth_user_info_command = 'echo ann:{SECRET}'"
    )
    assert layered("a", {}, {"schema.registry.ssl.ca.location": "/x"}) == {
        "schema.registry.url": "http://h:8081", "schema.registry.max.retries": "1",
        "schema.registry.basic.auth.user.info": f"ann:{SECRET}", "schema.registry.ssl.ca.location": "/x",
    }  # fmt: skip
    shown = [json.loads(line) for line in run("config", "show", "--profile", "a").splitlines()]
    assert {row["option"]: row["value"] for row in shown} == {
        "schema.registry.url": "http://h:8081", "schema.registry.max.retries": "1",
        "schema.registry.basic.auth.user.info": "[hidden]",
    }  # fmt: skip
    env = {"SAMSARROW_SCHEMA_REGISTRY_BEARER_AUTH_TOKEN": SECRET, "SAMSARROW_SCHEMA_REGISTRY_NOPE": SECRET}
    assert [json.loads(line)["value"] for line in run("config", "show", env=env).splitlines()] == ["[hidden]"]
    # A command that does not use a registry rejects registry options on the command line, but ignores those in a
    # profile.
    command = ("topics", "list", "-b", "localhost:1", "--timeout", "10ms")
    why = "schema.registry.url has no effect here: it is an option of a schema registry client"
    assert why in run(*command, "-X", "schema.registry.url=http://h", code=2)
    assert "schema.registry" not in CliRunner().invoke(cli, [*command, "--profile", "a"]).output


LIBRDKAFKA = f"""# kcat's
metadata.broker.list = a:9092,b:9092
security.protocol=sasl_plaintext
sasl.mechanisms=PLAIN
sasl.username=ann
sasl.password={SECRET}
queue.buffering.max.ms=50
enable.partition.eof=true
topic.auto.offset.reset=earliest
isolation.level=read_committed
"""
RPK = f"""
version: 2
current_profile: prod
profiles:
    - name: local
      kafka_api:
          brokers: [localhost:9092]
    - name: prod  # ours
      kafka_api:
          brokers:
              - a:9092
              - "b:9092"
          tls:
              insecure_skip_verify: true
          sasl:
              user: ann
              password: '{SECRET}'
              mechanism: SCRAM-SHA-256
      admin_api:
          addresses: [a:9644]
"""
KAF = f"""
current-cluster: local
clusteroverride: ""
clusters:
- name: local
  version: ""
  brokers:
  - localhost:9092
  SASL:
    mechanism: PLAIN
    username: ann
    password: {SECRET}
  TLS: null
  security-protocol: SASL_PLAINTEXT
  schema-registry-url: http://localhost:8081
"""


@pytest.mark.parametrize(
    ("name", "text", "code", "lines"),
    [
        ("kcat.conf", LIBRDKAFKA, 1, [
            "read as settings of librdkafka", '"bootstrap.servers" = "a:9092,b:9092"', '"linger.ms" = "50"',
            "\n# sasl.password is not shown", '\n# password_command = "pass show',
            '"auto.offset.reset" = "earliest"', "enable.partition.eof: option",
            "partitioner: by default consistent_random there and murmur2 here", "enable.idempotence: by default false",
        ]),
        ("java.properties", "bootstrap.servers=a\\:9092\nmax.poll.records=\\\n  7\nsasl.jaas.config=org.apache.kafka."
         f"common.security.plain.PlainLoginModule required username=\"u\" password=\"{SECRET}\";\n"
         "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n", 0, [
             "settings of java", '"bootstrap.servers" = "a:9092"', '"max.poll.records" = "7"',
             "\n# sasl.jaas.config is not shown", "\n# sasl_jaas_config_command = ",
         ]),
        ("app.json", json.dumps({"bootstrap.servers": "a:9092", "sasl.password": SECRET, "sasl.username": "u",
                                 "enable.idempotence": True, "linger.ms": 5}), 0,
         ["settings of librdkafka", '"enable.idempotence" = "true"', "isolation.level: by default read_committed"]),
        ("rpk.yaml", RPK, 0, [
            "settings of rpk", '"bootstrap.servers" = "a:9092,b:9092"', '"security.protocol" = "SASL_SSL"',
            '"sasl.mechanism" = "SCRAM-SHA-256"', '"enable.ssl.certificate.verification" = "false"',
            "admin_api: not for Kafka",
        ]),
        ("config", KAF, 0, [
            "settings of kaf", '"bootstrap.servers" = "localhost:9092"', '"security.protocol" = "SASL_PLAINTEXT"',
            '"sasl.username" = "ann"', '"schema.registry.url" = "http://localhost:8081"',
        ]),
        ("bad.properties", f"bootstrap.servers=a:9092\nacks=maybe\nmy.secret={SECRET}\n", 1, ["acks", "my.secret"]),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 20 else "",
)  # fmt: skip
def test_config_check_reads_files_of_other_clients(tmp_path, name, text, code, lines):
    (tmp_path / name).write_text(text)
    printed = run("config", "check", tmp_path / name, code=code)
    assert [line for line in lines if line not in printed] == []


def test_config_check_and_clients_have_the_same_texts(tmp_path):
    text = "metadata.broker.list=a:9092\nauto.offset.reset=smallest\nsocket.nagle.disable=true\nbatch.num.messages=5\n"
    (tmp_path / "kcat.conf").write_text(text)
    printed = run("config", "check", tmp_path / "kcat.conf", code=1)
    assert '"auto.offset.reset" = "smallest"' in printed
    for name in ("socket.nagle.disable", "batch.num.messages"):
        with pytest.raises(ConfigurationError) as caught:
            Consumer({"bootstrap.servers": "a:9092", name: "5"})
        assert str(caught.value) in printed


def test_config_check_warns_once_of_ignored_options(tmp_path, caplog):
    (tmp_path / "p.properties").write_text("bootstrap.servers=h:1\nsasl.password=secret\n")
    run("config", "check", tmp_path / "p.properties")
    assert [record.getMessage()[:60] for record in caplog.records] == [
        "with security.protocol=PLAINTEXT these options are ignored: "
    ]


def test_config_check_prints_a_profile(tmp_path, config):
    (tmp_path / "rpk.yaml").write_text(RPK)
    printed = run("config", "check", tmp_path / "rpk.yaml", "--section", "local", "--name", "dev")
    config(printed.partition("\nDifferences:")[0])
    assert layered("dev", {}, {}) == {"bootstrap.servers": "localhost:9092"}
    assert "it has local, prod" in run("config", "check", tmp_path / "rpk.yaml", "--section", "x", code=1)


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("x.yaml", b"a: 1\n  b: 2\n", "line 2"),
        ("x.yaml", b"profiles: *anchor\n", "line 1: unsupported YAML"),
        ("x.yaml", b"a:\n\t- b\n", "line 2: a tab"),
        ("x.yaml", b"- a\n", "begins with a name"),
        ("x.yaml", b"a: 1\n", "has no kafka_api"),
        ("x.yaml", b"hunter2\n", "line 1: no name"),
        ("x.json", b"{nope", "is not JSON"),
        ("x.json", b'{"a": [1]}', "a is neither text nor a number"),
        ("x.properties", b"a=\\u12", "is not a properties file"),
        ("x.properties", b"\xff", "is not UTF-8"),
        ("y.yaml", ("a:\n" + "".join(" " * i + "a:\n" for i in range(1, 80))).encode(), "deeper than 50"),
    ],
)
def test_config_check_rejects_invalid_files(tmp_path, name, data, why):
    (tmp_path / name).write_bytes(data)
    printed = CliRunner().invoke(cli, ["config", "check", str(tmp_path / name)])
    assert printed.exit_code in (1, 2)
    assert why in printed.output
    assert SECRET not in printed.output


def test_yaml_parser():
    text = "---\na: b # c\n'q: r': \"x\\ny\"\nlist:\n- 1\n- - no\n  - x\nm:\n  n: 'it''s'\n  e: {}\n  url: http://a:1/b#c\nz:\n"
    assert parse(text.replace("- - no\n  - x\n", "")) == {
        "a": "b", "q: r": "x\ny", "list": ["1"], "m": {"n": "it's", "e": {}, "url": "http://a:1/b#c"}, "z": None,
    }  # fmt: skip
    assert parse("") == {}
    with pytest.raises(YamlError, match="line 1"):
        parse("just text")
