"""Client options: both spellings of their names, and error messages."""

import re
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from samsarrow import Admin, Consumer, Producer
from samsarrow.config import options_markdown
from samsarrow.exceptions import ConfigurationError

SERVERS = {"bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_dotted_and_snake_case_names(client):
    client(SERVERS).close()
    client(bootstrap_servers="localhost:9092").close()
    client(SERVERS, client_id="me").close()
    client(bootstrap_servers=["localhost:9092", "localhost:9093"]).close()


@pytest.mark.parametrize(
    ("client", "options", "text"),
    [
        (Producer, {"linger_mss": 5}, "linger.ms"),
        (Consumer, {"group.idd": "g"}, "group.id"),
        (Consumer, {"fetch_max_bites": 5}, "fetch.max.bytes"),
        (Producer, {"linger_ms": "soon"}, "linger.ms"),
        (Producer, {"linger_ms": -1}, "linger.ms"),
        (Producer, {"batch_size": 1.5}, "batch.size"),
        (Producer, {"acks": "most"}, "acks"),
        (Producer, {"compression_type": "brotli"}, "compression.type"),
        (Producer, {"enable_idempotence": True, "acks": 0}, "acks=all"),
        (Consumer, {"check_crcs": "perhaps"}, "check.crcs"),
        (Consumer, {"auto_offset_reset": "middle"}, "earliest"),
        (Consumer, {"client_id": object()}, "client_id"),
        (Producer, {"group_id": "g"}, "group.id belongs to a consumer"),
        (Consumer, {"linger_ms": 5}, "linger.ms belongs to a producer"),
        (Producer, {"security_protocol": "TLS"}, "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        (Consumer, {"transactional_id": "t"}, "belongs to a producer"),
        (Producer, {"transactional_id": ""}, "option transactional_id must not be empty: leave it out"),
        (Producer, {"transactional_id": "t", "acks": 1}, "not acks=1"),
        (Producer, {"transactional_id": "t", "enable_idempotence": False}, "not enable.idempotence=false"),
        (Producer, {"transactional_id": "t", "retries": 0}, "not retries=0"),
        (Producer, {"transactional_id": "t", "message_format_version": "v1"}, "transactional.id needs message"),
        (Producer, {"transactional_id": "t", "max_in_flight": 6}, "max.in.flight"),
        (Producer, {"partitioner_rack_aware": True}, "set client.rack to the broker.rack"),
        (Admin, {"client_rack": "r"}, "client.rack belongs to"),
        (Consumer, {"metadata_cluster_checks_enable": False}, "metadata.cluster.check.enable"),
        (Consumer, {"bootstrap_resolve_timeout_ms": -1}, "option bootstrap.resolve.timeout.ms must be"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_errors_name_the_option(client, options, text):
    with pytest.raises(ConfigurationError, match=text.replace(".", r"\.")):
        client(SERVERS, **options)


def test_duplicate_option_is_an_error():
    with pytest.raises(ConfigurationError, match="twice"):
        Producer(SERVERS, bootstrap_servers="localhost:9093")
    with pytest.raises(ConfigurationError, match="twice"):
        Producer({**SERVERS, "linger.ms": 1, "linger_ms": 1})


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        ("", "must be given, for example localhost:9092"),
        ("localhost", '"localhost" is not host:port, for example localhost:9092'),
        ("localhost:x", "the port is a number from 1 to 65535"),
        (":9092", "for example localhost:9092"),
        ("localhost:99999", "the port is a number from 1 to 65535"),
        ("h:1,http://h:9092", '"http://h:9092" is not host:port; write h:9092, without http://'),
        ("PLAINTEXT://h:9092", "write h:9092 and set security.protocol=PLAINTEXT"),
        ("ssl://h:9092", "write h:9092 and set security.protocol=SSL"),
        (["SASL_SSL://h:9092"], "write h:9092 and set security.protocol=SASL_SSL"),
        ("h:1;i:2", "separate several servers by commas"),
        ("h:1 i:2", "separate several servers by commas"),
        (("h", 9092), "must be a list of texts, and has an item of type int"),
        (b"h:9092", "must be text, .*, not bytes"),
        (9092, "must be text, separated by commas, not 9092"),
    ],
)
@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_bootstrap_servers_are_checked_by_the_constructor(client, servers, text):
    with pytest.raises(ConfigurationError, match=f"option bootstrap[._]servers.*{text}"):
        client(bootstrap_servers=servers)


def test_users_in_bootstrap_servers_are_not_shown():
    with pytest.raises(
        ConfigurationError, match=r"set user and password as sasl\.username and sasl\.password"
    ) as caught:
        Consumer(bootstrap_servers="alice:canary@h:9092")
    assert "canary" not in str(caught.value)


def test_errors_have_the_maximum_of_numbers():
    for options, text in [
        ({"linger_ms": 2**40}, "option linger.ms must be milliseconds, from 0 to 2147483647, not 1099511627776"),
        (
            {"linger_ms": timedelta(days=30)},
            "option linger.ms must be milliseconds, from 0 to 2147483647, not 2592000 s",
        ),
        ({"batch_size": 2**40}, "option batch.size must be a whole number, from 0 to 2147483647, not 1099511627776"),
        ({"batch_size": -1}, "option batch.size must be a whole number, at least 0, not -1"),
        ({"linger_ms": 2**70}, f"option linger_ms is out of range: {2**70}"),
    ]:
        with pytest.raises(ConfigurationError, match=f"^{text}$"):
            Producer(SERVERS, **options)


@pytest.mark.parametrize("value", ["smallest", "beginning", "largest", "END", "error"])
def test_values_of_other_clients_are_accepted(value):
    Consumer(SERVERS, auto_offset_reset=value).close()


@pytest.mark.parametrize("client", [Producer, Consumer, Admin])
def test_none_is_the_default_and_timedeltas_are_durations(client):
    options = {"request_timeout_ms": timedelta(seconds=3), "retry_backoff_ms": np.int64(5), "client_id": None}
    client(SERVERS, **options).close()
    with pytest.raises(ConfigurationError, match=r"option send\.buffer\.bytes must be a whole number, .*, not 3 s"):
        client(SERVERS, send_buffer_bytes=timedelta(seconds=3))


def test_internals_of_other_clients_are_to_be_left_out():
    """Every option of the list in docs/migrating/options.md has an error that says so."""
    page = (Path(__file__).parents[2] / "docs" / "migrating" / "options.md").read_text()
    names = re.findall("`([^`]+)`", page.partition("## Unknown options")[2])
    assert len(names) > 30
    for name in names:
        text = "configures a part of another client, which this client does not have: leave it out"
        with pytest.raises(ConfigurationError, match=f"^option {re.escape(name)} {text}$"):
            Consumer({**SERVERS, name: print})


def test_bootstrap_servers_are_required():
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        Producer()


def test_configuration_must_be_a_mapping():
    with pytest.raises(ConfigurationError, match=r"mapping.*, not str; servers are passed as bootstrap_servers="):
        Producer("localhost:9092")
    with pytest.raises(ConfigurationError, match="text"):
        Producer({1: 2})


def test_a_configuration_error_is_a_value_error():
    assert issubclass(ConfigurationError, ValueError)


def test_every_option_is_in_the_documentation():
    page = options_markdown()
    for name in ("bootstrap.servers", "linger.ms", "max.poll.records", "layout", "isolation.level"):
        assert f"`{name}`" in page


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("value_serializer", str.encode, "encode them before send"),
        ("key_serializer", str.encode, "encode them before send"),
        ("value_deserializer", bytes.decode, "binary column"),
        ("key_deserializer", bytes.decode, "binary column"),
        ("log_cb", print, "loggers"),
        ("error_cb", print, "errors of a call are raised by it"),
        ("stats_cb", print, "metrics()"),
        ("throttle_cb", print, "on_event"),
        ("on_delivery", print, "pass on_delivery= to send"),
        ("on_commit", print, "pass a callback to commit_async"),
        ("default_offset_commit_callback", print, "pass a callback to commit_async"),
        ("logger", print, "loggers"),
        ("queue.buffering.max.kbytes", 5, "buffer.memory"),
        ("queue.buffering.max.messages", 5, "buffer.memory"),
        ("compression.level", 3, "compression.zstd.level"),
        ("batch.num.messages", 3, "batch.size"),
        ("max.batch.size", 3, "batch.size"),
        ("auto.commit.enable", True, "enable.auto.commit"),
        ("rebalance.timeout.ms", 5, "max.poll.interval.ms"),
        ("fetch.error.backoff.ms", 5, "retry.backoff.ms"),
        ("ssl.ca.certificate.stores", "Root", "ssl.truststore.location"),
        ("api.version", "2.0", "broker.version.fallback"),
        ("api.version.auto.timeout.ms", 5, "request.timeout.ms"),
        ("schema.registry.url", "http://localhost", "SchemaRegistry"),
        ("dr_cb", print, "pass on_delivery= to send"),
        ("dr_msg_cb", print, "pass on_delivery= to send"),
        ("rebalance_cb", print, "listener=RebalanceListener"),
        ("on_assign", print, "on_partitions_assigned"),
        ("offset_commit_cb", print, "commit_async"),
        ("loop", object(), "any running event loop"),
        ("topic", "orders", "pass topics to subscribe or send"),
        ("topics", ["orders"], "pass topics to subscribe or send"),
        ("bootstrap_timeout_ms", 5, "default.api.timeout.ms"),
        ("log_level", 7, "loggers"),
    ],
)
@pytest.mark.parametrize("client", [Consumer, Producer])
def test_options_of_other_clients_name_their_replacement(client, name, value, instead):
    with pytest.raises(ConfigurationError) as caught:
        client({"bootstrap.servers": "localhost:1", name: value})
    text = str(caught.value)
    assert text.startswith(f"option {name} is not supported by this client: ")
    assert instead in text


def test_unknown_names_are_reported_before_types():
    with pytest.raises(ConfigurationError, match=r"option lingerms is unknown; did you mean linger\.ms\?"):
        Producer(bootstrap_servers="localhost:1", lingerms=print)
    with pytest.raises(ConfigurationError, match="option linger_ms must be text, a number"):
        Producer(bootstrap_servers="localhost:1", linger_ms=print)
