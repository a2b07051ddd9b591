"""Arguments of the wrong type raise an error that names the argument."""

import pickle
import re
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from samsarrow import (
    Admin,
    AsyncConsumer,
    AsyncSchemaRegistry,
    Avro,
    Consumer,
    ConsumerGroupMetadata,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    SchemaRegistry,
    TopicPartition,
)
from samsarrow.exceptions import ConfigurationError
from samsarrow.partitioner import choose_partition
from samsarrow.types import to_committed, to_pair, to_seconds, to_setting

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        (("t", b"v"), {"on_delivery": 5}, "on_delivery must be a function"),
        (("t", b"v"), {"headers": 5}, "headers must be"),
        (("t", b"v"), {"headers": [["k", b"v"]]}, "headers must be"),
        (("t", b"v"), {"headers": [("k", b"v", 1)]}, "headers must be"),
        (("t", b"v"), {"headers": "ab"}, "headers must be"),
        (("t", b"v"), {"headers": [(None, b"v")]}, "header's name must be a str"),
        (("t", b"v"), {"headers": [("k", 5)]}, "header's value must be bytes"),
        ((5, b"v"), {}, "topic must be a str, not int"),
        (("t", 5), {}, "value must be bytes"),
        (("t", b"v", 5), {}, "key must be bytes"),
        (("t", b"v"), {"partition": "0"}, "partition must be an int, not str"),
        (("t", b"v"), {"timestamp": 1.5}, "a time is an int"),
    ],
)
def test_send_checks_argument_types(arguments, options, text):
    with Producer(bootstrap_servers=NOWHERE) as producer, pytest.raises(TypeError, match=text):
        producer.send(*arguments, **options)


def test_out_of_range_numbers_name_the_argument():
    with Producer(bootstrap_servers=NOWHERE) as producer:
        with pytest.raises(ConfigurationError, match="partition must be from 0 to 2147483647, not 1099511627776"):
            producer.send("t", b"v", partition=2**40)
        with pytest.raises(
            ConfigurationError, match="a time in milliseconds since 1970 must be from -9223372036854775808"
        ):
            producer.send("t", b"v", timestamp=2**70)
        with pytest.raises(ConfigurationError, match=r"time 0001-01-01 .* cannot be converted"):
            producer.send("t", b"v", timestamp=datetime(1, 1, 1))
    partition = TopicPartition("t", 0)
    with Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer:
        for number in (-1, 2**31, 2**70):
            with pytest.raises(
                ConfigurationError, match=rf"the partition of topic t must be from 0 to .*, not {number}"
            ):
                consumer.assign([TopicPartition("t", number)])
        consumer.assign([partition])
        for number in (2**63, OffsetAndMetadata(2**70)):
            with pytest.raises(ConfigurationError, match="an offset must be from 0 to 9223372036854775807, not "):
                consumer.seek(partition, number)
        with pytest.raises(ConfigurationError, match="a leader epoch must be from -1 to 2147483647, not 2147483648"):
            consumer.seek(partition, OffsetAndMetadata(1, "", 2**31))
    with pytest.raises(ConfigurationError, match="linger_ms is out of range"):
        Producer(bootstrap_servers=NOWHERE, linger_ms=2**70)


def test_callbacks_must_be_callable():
    with Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer:
        with pytest.raises(TypeError, match="callback must be a function"):
            consumer.commit_async(callback=5)
        with pytest.raises(TypeError, match="listener must be a RebalanceListener"):
            consumer.subscribe(["t"], listener=lambda partitions: None)
        with pytest.raises(TypeError, match="topics are names: subscribe got 5"):
            consumer.subscribe([5])
    with pytest.raises(TypeError, match="takes functions"):
        RebalanceListener(5)


@pytest.mark.parametrize(
    ("name", "pattern"), [("^a.*", "^a.*"), ("^a", "^a.*"), ("^a$", "^a$"), ("^(a|b)", "^(a|b).*")]
)
def test_patterns_of_librdkafka_are_not_topic_names(name: str, pattern: str):
    with Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer:
        with pytest.raises(ConfigurationError, match=re.escape(f"pass pattern={pattern!r}")):
            consumer.subscribe(["orders", name])
        assert consumer.subscription() is None
        consumer.subscribe(pattern=pattern)
        assert consumer.subscription() == pattern


@pytest.mark.parametrize("topics", [None, 5, b"t", TopicPartition("t", 0)])
def test_topics_must_be_names(topics):
    kind = type(topics).__name__
    with Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer, Producer(bootstrap_servers=NOWHERE) as producer:
        with pytest.raises(TypeError, match=f"subscribe takes a list of topics, not {kind}"):
            consumer.subscribe(topics)
        with pytest.raises(TypeError, match=f"assign_topics takes names of topics, not {kind}"):
            consumer.assign_topics(topics)
        for client in (consumer, producer):
            with pytest.raises(ConfigurationError, match=f"topic is the name of one topic, not {kind}"):
                client.partitions_for(topics)


def test_a_compiled_pattern_is_not_a_list_of_topics():
    with (
        Consumer(bootstrap_servers=NOWHERE, group_id="g") as consumer,
        pytest.raises(TypeError, match="pass a regular expression as pattern="),
    ):
        consumer.subscribe(re.compile("t.*"))


def test_mappings_whose_values_would_be_lost():
    with (
        Admin(bootstrap_servers=NOWHERE) as admin,
        pytest.raises(TypeError, match=r"topics must be .* not a mapping, whose values would be lost"),
    ):
        admin.create_topics({"t": 3})


def test_negative_offsets_of_transactions():
    group = ConsumerGroupMetadata("g", "", -1, None)
    with (
        Producer(bootstrap_servers=NOWHERE, transactional_id="x") as producer,
        pytest.raises(ConfigurationError, match="cannot commit offset -1 of t-0: offsets start at 0"),
    ):
        producer.send_offsets_to_transaction({TopicPartition("t", 0): -1}, group)


def test_huge_numbers_of_rows():
    with Consumer(bootstrap_servers=NOWHERE) as consumer:
        consumer.assign(TopicPartition("t", 0))
        assert consumer.poll(0, max_records=2**70).num_rows == 0


def test_done_callbacks_must_be_callable():
    with Producer(bootstrap_servers=NOWHERE) as producer:
        delivery = producer.send_batch("t", pa.table({"value": pa.array([], pa.binary())}))
        with pytest.raises(TypeError, match="fn must be a function"):
            delivery.add_done_callback(5)


def test_partition_and_offset_conversion():
    assert to_pair(TopicPartition("t", np.int64(1))) == ("t", 1)
    for bad, text in [(("t", "0"), "partition of a TopicPartition"), ((5, 0), "topic of a TopicPartition")]:
        with pytest.raises(TypeError, match=text):
            to_pair(TopicPartition(*bad))
    assert to_committed(np.int64(3)) == (3, "", None)
    assert to_committed(OffsetAndMetadata(np.int32(3), "m", np.int8(1))) == (3, "m", 1)
    for offset in ("3", 3.0, OffsetAndMetadata("3"), OffsetAndMetadata(3, 5), OffsetAndMetadata(3, "", "x")):
        with pytest.raises(TypeError, match="expected an offset or OffsetAndMetadata"):
            to_committed(offset)


def test_timeout_conversion():
    assert to_seconds(None) is None
    assert to_seconds(timedelta(milliseconds=5)) == 0.005
    assert to_seconds(np.float32(0.5)) == 0.5
    assert to_seconds(1e300) == to_seconds(10**400) == to_seconds(np.float64("inf")) == 1e9
    for bad in ("1", b"1", [1]):
        with pytest.raises(TypeError, match="number of seconds or a timedelta"):
            to_seconds(bad)


def test_partitioner_receives_keys_as_bytes():
    calls = []
    with pytest.raises(TypeError, match="key must be bytes"):
        # If the integer were not rejected, `bytes(10**14)` would allocate 100 TB.
        choose_partition(lambda *arguments: calls.append(arguments), "t", 10**14, b"v", 4)
    assert not calls
    assert choose_partition(lambda topic, key, value, count: np.int64(len(key)), "t", "ab", memoryview(b"v"), 4) == 2
    with pytest.raises(TypeError, match="the partitioner returned '0' for topic t"):
        choose_partition(lambda *arguments: "0", "t", b"k", b"v", 4)


def test_none_selects_the_default_of_every_option():
    with (
        Consumer(bootstrap_servers=NOWHERE, group_id=None, partition_assignment_strategy=None, ssl_context=None) as one,
        pytest.raises(ConfigurationError, match=r"group\.id"),
    ):
        one.group_metadata()
    with Consumer({"bootstrap.servers": NOWHERE, "group.id": "g"}, group_id=None) as one:
        assert one.group_metadata().group_id == "g"
    with Producer(bootstrap_servers=NOWHERE, partitioner=None, on_event=None, acks=None):
        pass
    with Admin(bootstrap_servers=NOWHERE, sasl_oauthbearer_token_provider=None):
        pass
    with SchemaRegistry("http://127.0.0.1:1", max_retries=None):
        pass
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers must be given"):
        Producer(bootstrap_servers=None)
    with pytest.raises(ConfigurationError, match="nonsense is unknown"):
        Producer(bootstrap_servers=NOWHERE, nonsense=None)
    with pytest.raises(ConfigurationError, match="nonsense is not a schema registry option"):
        SchemaRegistry("http://127.0.0.1:1", nonsense=None)


@pytest.mark.parametrize(
    ("name", "length", "good"),
    [
        ("linger_ms", timedelta(seconds=1), True),
        ("linger.ms", timedelta(milliseconds=5), True),
        ("linger_ms", timedelta(microseconds=5), False),
        ("linger_ms", timedelta(seconds=-1), False),
        ("sasl_login_refresh_buffer_seconds", timedelta(minutes=2), True),
        ("sasl_login_refresh_buffer_seconds", timedelta(seconds=1.5), False),
        ("batch_size", timedelta(seconds=1), False),
        ("client_id", timedelta(seconds=1), False),
    ],
)
def test_timedelta_options(name, length, good):
    if good:
        Producer({"bootstrap.servers": NOWHERE, name: length}).close()
    else:
        with pytest.raises(ConfigurationError, match=f"{name.replace('_', '.')} must be .*, not .* s$"):
            Producer({"bootstrap.servers": NOWHERE, name: length})
    with SchemaRegistry("http://127.0.0.1:1", http_read_timeout_ms=timedelta(seconds=5)):
        pass


def test_numpy_scalars_are_accepted_as_options():
    Producer(
        bootstrap_servers=NOWHERE, linger_ms=np.int64(5), batch_size=np.float32(1000), enable_idempotence=np.bool_(True)
    ).close()
    with pytest.raises(ConfigurationError, match="must be text, a number"):
        Producer(bootstrap_servers=NOWHERE, linger_ms=np.array([1, 2]))


def test_value_format_must_be_a_format():
    with pytest.raises(ConfigurationError, match=r"value_format must be Avro.*, not 5"):
        Consumer(bootstrap_servers=NOWHERE, value_format=5)


def test_out_of_range_numbers_of_admin_operations():
    cases = [
        (
            lambda a: a.create_topics([NewTopic("t", 2**40)]),
            r"topics\[0\].num_partitions must be at most 2147483647, not 1",
        ),
        (
            lambda a: a.create_topics([NewTopic("t", 2**70)]),
            r"topics\[0\].num_partitions must be at most 92233720368547",
        ),
        (
            lambda a: a.create_topics([NewTopic("t", assignment=[[-(2**40)]])]),
            r"assignment\[0\]\[0\] is out of range: -1",
        ),
        (
            lambda a: a.create_partitions({"t": 2**40}),
            r"create_partitions: partitions\['t'\] must be at most 2147483647",
        ),
    ]
    with Admin(bootstrap_servers=NOWHERE) as admin:
        for call, text in cases:
            with pytest.raises(ConfigurationError, match=text):
                call(admin)


def test_formats_are_checked_at_creation():
    cases = [
        ("json", r"value_format='json' needs a schema: pass Json\(schema\)"),
        (Avro, r"value_format=Avro needs a schema: pass Avro\(schema\) or Avro\(registry\)"),
        ("avor", r"not 'avor'; did you mean Avro\(…\)\?"),
        ("Long", "not 'Long'; did you mean long?"),
        (str, "not str; did you mean string?"),
        (lambda value: value, r"value_format must be Avro\(…\), .* not <function"),
    ]
    for create in (Consumer, AsyncConsumer):
        for value, text in cases:
            with pytest.raises(ConfigurationError, match=text):
                create(bootstrap_servers=NOWHERE, value_format=value)
        with pytest.raises(ConfigurationError, match="key_format='json' needs a schema"):
            create(bootstrap_servers=NOWHERE, key_format="json")


def test_send_batch_checks_formats_before_columns():
    rows = pa.table({"x": [1]})
    with Producer(bootstrap_servers=NOWHERE) as producer:
        for options, text in [
            ({"value_format": "jsn"}, "not 'jsn'; did you mean json?"),
            ({"value_format": "avro"}, r"value_format='avro' needs a schema: pass Avro"),
            ({"key_format": "json"}, r"key_format='json' needs a schema: pass Json"),
        ]:
            with pytest.raises(ConfigurationError, match=text):
                producer.send_batch("t", rows, value="x", **options)


def test_registry_clients_accept_a_mapping():
    for create in (SchemaRegistry, AsyncSchemaRegistry):
        for config in (
            {"url": "http://h:1"},
            {"schema.registry.url": "http://h:1", "basic.auth.user.info": "u:canary"},
        ):
            assert repr(create(config, max_retries=1)) == f"{create.__name__}('http://h:1')"
        for config, error, text in [
            ({}, ConfigurationError, "a schema registry needs option url"),
            ({"url": "http://h:1", "max_retries": 1}, ConfigurationError, "option max.retries is given twice"),
            ({"url": "http://h:1", "retries": 1}, ConfigurationError, "option retries is not a schema registry option"),
            ({"url": "http://h:1", 5: 1}, ConfigurationError, "option names are text, not int"),
            (5, TypeError, "url must be text, a list of texts or a mapping with url, not int"),
            (None, TypeError, "not NoneType"),
        ]:
            with pytest.raises(error, match=text):
                create(config, max_retries=1)
    copy = pickle.loads(pickle.dumps(SchemaRegistry({"url": ["http://h:1", "http://i:1"], "max.retries": 1})))
    assert repr(copy) == "SchemaRegistry(['http://h:1', 'http://i:1'])"


def test_values_of_settings():
    for name, value, text in [
        ("retention.ms", 5, "5"),
        ("retention.ms", np.int64(5), "5"),
        ("retention.ms", timedelta(days=1), "86400000"),
        ("preallocate", True, "true"),
        ("min.cleanable.dirty.ratio", 0.25, "0.25"),
        ("cleanup.policy", ["compact", "delete"], "compact,delete"),
        ("cleanup.policy", "compact", "compact"),
    ]:
        assert to_setting(name, value) == text
    with pytest.raises(
        ConfigurationError, match=r"setting retention\.ms must be a multiple of a millisecond, not 0:00:00"
    ):
        to_setting("retention.ms", timedelta(microseconds=5))
    with pytest.raises(TypeError, match=r"setting retention\.bytes must be text, a number, .*, not timedelta"):
        to_setting("retention.bytes", timedelta(days=1))


def test_arguments_of_registry_clients():
    calls = [
        (lambda r: r.schema(id="x"), TypeError, "id must be int, not str"),
        (lambda r: r.schema(id=-1), ConfigurationError, "id must be from 0 to 9223372036854775807, not -1"),
        (lambda r: r.schema(id=2**70), ConfigurationError, "id must be from 0 to 9223372036854775807"),
        (lambda r: r.schema(subject=5), TypeError, "subject must be str, not int"),
        (lambda r: r.schema(subject="s", version=2**40), ConfigurationError, "version must be from 1 to 2147483647"),
        (lambda r: r.versions(5), TypeError, "versions: subject must be str, not int"),
        (lambda r: r.register(5, "x"), TypeError, "register: subject must be str, not int"),
        (lambda r: r.register("s", "x", schema_type=5), TypeError, "register: schema_type must be 'AVRO' or 'JSON'"),
        (lambda r: r.check("s", "x", references=[5]), TypeError, r"check: references\[0\] must be SchemaReference"),
    ]
    with SchemaRegistry("http://127.0.0.1:1") as registry:
        for call, error, text in calls:
            with pytest.raises(error, match=text):
                call(registry)
    registry = AsyncSchemaRegistry("http://127.0.0.1:1")
    for call, error, text in calls:
        with pytest.raises(error, match=text):
            call(registry).send(None)
