"""Admin on the embedded broker."""

import re

import pytest

from samsarrow import Admin, NewTopic
from samsarrow.admin_types import ConfigResource
from samsarrow.exceptions import (
    ClosedError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidTopicError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from samsarrow.results import PartialFailureError
from samsarrow.testing import Broker
from support.topic_settings import REJECTED_SETTINGS


@pytest.fixture
def admin(servers):
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


def test_create_list_delete(admin):
    admin.create_topics(["a", NewTopic("b", 3)], num_partitions=2)
    listed = admin.list_topics()
    assert {n: listed[n].partitions for n in ("a", "b", "t", "four")} == {"a": 2, "b": 3, "t": 1, "four": 4}
    assert listed["a"].name == "a"
    assert not listed["a"].internal
    assert admin.list_topics(["b", "nope"]) == {"b": listed["b"]}
    assert admin.list_topics([]) == {}
    admin.delete_topics(["a"], timeout=10)
    assert "a" not in admin.list_topics()
    assert admin.list_topics(["a"]) == {}


def test_invalid_topic_name_fails_alone(admin):
    listed = admin.list_topics(["a b", "t", "nope"])
    assert list(listed.found) == ["t"]
    assert list(listed.errors) == ["a b"]
    with pytest.raises(InvalidTopicError, match="topic a b"):
        listed["a b"]


@pytest.mark.parametrize(("name", "value", "message"), REJECTED_SETTINGS)
def test_invalid_topic_configs_are_rejected(admin, name, value, message):
    with pytest.raises(InvalidConfigError, match=re.escape(message)):
        admin.create_topics([NewTopic("new", configs={name: value})])
    with pytest.raises(InvalidConfigError, match=re.escape(message)):
        admin.alter_configs({ConfigResource.topic("t"): {name: value}})
    assert "new" not in admin.list_topics()


def test_valid_topic_configs_are_stored(admin):
    configs = {"retention.ms": "-1", "cleanup.policy": "compact,delete", "preallocate": "TRUE", "flush.ms": " 5 "}
    admin.create_topics([NewTopic("new", configs=configs)])
    found = admin.describe_configs([ConfigResource.topic("new")])[ConfigResource.topic("new")]
    assert {name: found[name].value for name in configs} == {**configs, "flush.ms": "5"}


def test_error_mentions_a_retried_request():
    """The broker rejects the repeated request, because it has applied the first one, whose response was lost."""
    with Broker(topics={"t": 1, "more": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        twice = "was sent again because no response came, and the first may have done it"
        for api, call, error in (
            ("CreateTopics", lambda: admin.create_topics(["new"]), TopicAlreadyExistsError),
            ("CreatePartitions", lambda: admin.create_partitions({"more": 2}), InvalidPartitionsError),
        ):
            broker.fail(api, drop="after")
            with pytest.raises(error, match=f"{api} {twice}"):
                call()
            with pytest.raises(error) as raised:
                call()
            assert twice not in str(raised.value)
        # A topic is deleted by its id, so a repeated request that does not find the id any more has succeeded.
        broker.fail("DeleteTopics", drop="after")
        admin.delete_topics(["t"])
        with pytest.raises(UnknownTopicOrPartitionError) as raised:
            admin.delete_topics(["t"])
        assert twice not in str(raised.value)


def test_partial_failure_has_all_outcomes(admin):
    with pytest.raises(TopicAlreadyExistsError, match="t") as raised:
        admin.create_topics(["t", "new", "four"])
    assert raised.value.code == 36
    assert "four" in str(raised.value)
    assert isinstance(raised.value, PartialFailureError)
    assert list(raised.value.failures) == ["t", "four"]
    assert raised.value.succeeded["new"].partitions == 1
    assert "new" in admin.list_topics()
    with pytest.raises(UnknownTopicOrPartitionError, match="nope"):
        admin.delete_topics(["nope"])


def test_str_instead_of_a_list_is_a_type_error(admin):
    with pytest.raises(TypeError, match="topics must be an iterable"):
        admin.create_topics("abc")
    with pytest.raises(TypeError, match="topics must be an iterable"):
        admin.delete_topics("abc")
    with pytest.raises(TypeError, match="names must be an iterable"):
        admin.list_topics("abc")


def test_closed_admin_rejects_calls(admin):
    admin.close()
    admin.close()
    with pytest.raises(ClosedError):
        admin.list_topics()


def test_broker_close_is_idempotent_and_frees_the_port():
    with Broker() as broker:
        port = int(broker.bootstrap_servers.rsplit(":", 1)[1])
        with pytest.raises(OSError, match=r"."):
            Broker(port=port)
    broker.close()
    with Broker(port=port) as again:
        assert again.bootstrap_servers.endswith(f":{port}")


def test_errors_have_the_broker_text_once(admin):
    with pytest.raises(TopicAlreadyExistsError) as caught:
        admin.create_topics(["t"])
    assert str(caught.value) == "CreateTopics of topic t: TOPIC_ALREADY_EXISTS (36): topic 't' already exists"
