"""Group offsets through Admin, on the embedded broker."""

import warnings

import pytest

from samsarrow import Admin, Consumer, KafkaError, OffsetAndMetadata, TopicPartition
from samsarrow.exceptions import (
    ConfigurationError,
    KafkaTimeoutError,
    OffsetMetadataTooLargeError,
    OffsetStorageWarning,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from samsarrow.results import PartialFailureError
from samsarrow.testing import Broker

T0, FOUR1, FOUR3 = TopicPartition("t", 0), TopicPartition("four", 1), TopicPartition("four", 3)


@pytest.fixture
def admin(servers):
    with Admin(bootstrap_servers=servers) as admin:
        yield admin


def test_fetch_offsets_returns_committed_offsets_or_none(admin, servers):
    at = OffsetAndMetadata(7, "größe", 3)
    assert admin.commit_offsets("g", {T0: 5, FOUR3: at}) == {T0: None, FOUR3: None}
    assert admin.fetch_offsets("g") == {FOUR3: at, T0: OffsetAndMetadata(5)}
    assert list(admin.fetch_offsets("g", [FOUR1, FOUR3])) == [FOUR1, FOUR3]
    assert admin.fetch_offsets("g", [FOUR1, FOUR3]) == {FOUR1: None, FOUR3: at}
    assert admin.fetch_offsets("g", []) == {}
    assert admin.fetch_offsets("nobody") == {}
    assert admin.commit_offsets("g", {}) == {}
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        assert consumer.committed([FOUR3]) == {FOUR3: at}


@pytest.mark.parametrize("commit", range(11))
def test_every_version_of_commit_and_fetch(admin, commit):
    timed = {"timestamp": 1} if commit == 1 else {"retention": 3600} if 2 <= commit <= 4 else {}
    assert admin.commit_offsets("g", {T0: 5, FOUR1: 6}, api_version=commit, **timed) == {T0: None, FOUR1: None}
    # OffsetCommit v0 stores offsets in ZooKeeper, separate from those of later versions.
    for fetch in range(1, 11) if commit else [0]:
        found = admin.fetch_offsets("g", [FOUR1, FOUR3, T0], api_version=fetch, require_stable=fetch >= 7)
        assert found == {FOUR1: OffsetAndMetadata(6), FOUR3: None, T0: OffsetAndMetadata(5)}
        if fetch >= 2:
            assert admin.fetch_offsets("g", api_version=fetch) == {
                FOUR1: OffsetAndMetadata(6),
                T0: OffsetAndMetadata(5),
            }


def test_api_version_argument_overrides_the_option(servers):
    with Admin(bootstrap_servers=servers, api_version_offset_commit=1, api_version_offset_fetch=1) as admin:
        with pytest.raises(ConfigurationError, match=r"v2 to v4 only, and v1 is in use"):
            admin.commit_offsets("g", {T0: 5}, retention=60)
        assert admin.commit_offsets("g", {T0: 5}, retention=60, api_version=4) == {T0: None}
        with pytest.raises(ConfigurationError, match="v1 cannot request all"):
            admin.fetch_offsets("g")
        assert admin.fetch_offsets("g", api_version=2) == {T0: OffsetAndMetadata(5)}


def test_arguments_unsupported_by_the_version_are_rejected(admin):
    retention, timestamp = "v2 to v4 only, and v", "has no commit timestamp, only v1 does"
    for version, bad, text in [
        (None, {"retention": 1}, retention),
        (5, {"retention": 1}, retention),
        (2, {"timestamp": 1}, timestamp),
        (0, {"timestamp": 1}, timestamp),
    ]:
        with pytest.raises(ConfigurationError, match=text):
            admin.commit_offsets("g", {T0: 5}, api_version=version, **bad)
    with pytest.raises(ConfigurationError, match="require_stable needs OffsetFetch v7"):
        admin.fetch_offsets("g", api_version=6, require_stable=True)
    with pytest.raises(ConfigurationError, match="offset -2 of t-0"):
        admin.commit_offsets("g", {T0: -2})
    with pytest.raises(UnsupportedVersionError, match=r"OffsetCommit v11 was chosen, .* supports v0 to v10"):
        admin.commit_offsets("g", {T0: 2}, api_version=11)
    with pytest.raises(UnsupportedVersionError, match=r"OffsetFetch v11 was chosen, .* supports v0 to v10"):
        admin.fetch_offsets("g", api_version=11)
    assert admin.fetch_offsets("g") == {}


@pytest.mark.parametrize("version", [None, 0, 1, 9, 10])
def test_commit_offsets_reports_each_partition(admin, version):
    nowhere, beyond = TopicPartition("nowhere", 0), TopicPartition("t", 9)
    offsets = {T0: 5, nowhere: 1, beyond: 2, FOUR1: OffsetAndMetadata(3, "x" * 5000)}
    with pytest.raises(PartialFailureError, match="and 2 more") as raised:
        admin.commit_offsets("g", offsets, api_version=version)
    done = raised.value.failures
    assert list(done) == [nowhere, beyond, FOUR1]
    assert raised.value.succeeded == {T0: None}
    assert isinstance(done[nowhere], UnknownTopicOrPartitionError)
    assert isinstance(done[beyond], UnknownTopicOrPartitionError)
    assert "t-9" in str(done[beyond])
    assert isinstance(done[FOUR1], OffsetMetadataTooLargeError)
    found = admin.fetch_offsets("g", [T0, nowhere, FOUR1], api_version=version)
    assert found == {T0: OffsetAndMetadata(5), nowhere: None, FOUR1: None}


def test_many_groups_over_several_coordinators():
    with Broker(brokers=3, topics={"t": 1}) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        groups = [f"g{i}" for i in range(12)]
        assert len({admin.find_coordinator(g) for g in groups}) == 3
        for offset, group in enumerate(groups):
            admin.commit_offsets(group, {T0: offset})
            admin.commit_offsets(group, {T0: offset}, api_version=0)
        expected = {g: {T0: OffsetAndMetadata(i)} for i, g in enumerate(groups)}
        for version in [None, 2, 8, 10]:
            found = admin.fetch_offsets_many([*groups, "none"], api_version=version)
            assert found == {**expected, "none": {}}
            assert list(found) == [*groups, "none"]
        for version in [0, 1, 7]:
            requested = {"g1": [T0, TopicPartition("t", 5)], "none": [T0]}
            found = admin.fetch_offsets_many(requested, api_version=version)
            assert found == {"g1": {T0: OffsetAndMetadata(1), TopicPartition("t", 5): None}, "none": {T0: None}}
        assert admin.fetch_offsets_many([]) == {}
        with pytest.raises(TypeError, match="not one str"):
            admin.fetch_offsets_many("g1")


def test_find_coordinator(admin, servers):
    node = admin.find_coordinator("g")
    assert f"{node.host}:{node.port}" == servers
    assert node.id == 0


def test_unreachable_broker_is_a_timeout_with_its_cause():
    with Broker(topics={"t": 1}) as broker:
        servers = broker.bootstrap_servers
    with Admin(bootstrap_servers=servers) as admin:
        for call in (
            lambda: admin.commit_offsets("g", {T0: 1}, timeout=1),
            lambda: admin.fetch_offsets("g", timeout=1),
            lambda: admin.find_coordinator("g", timeout=1),
            lambda: admin.fetch_offsets_many(["a", "b"], timeout=1),
        ):
            with pytest.raises(KafkaTimeoutError, match=servers):
                call()


@pytest.mark.parametrize("client", [Consumer, Admin])
@pytest.mark.parametrize(
    ("commit", "fetch", "texts"),
    [(0, None, ["v0, which is ZooKeeper", "newest"]), (0, 1, ["v1, which is Kafka"]), (5, 0, ["v5, which is Kafka"])],
)
def test_different_offset_storages_warn_once_at_the_constructor(servers, client, commit, fetch, texts):
    versions = {"api.version.offset_commit": commit, "api.version.offset_fetch": fetch}
    options = {"bootstrap.servers": servers, **{k: v for k, v in versions.items() if v is not None}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The garbage collector may report unclosed clients of other tests during this call.
        warnings.simplefilter("ignore", ResourceWarning)
        client(options).close()
    [warned] = caught
    assert warned.category is OffsetStorageWarning
    assert warned.filename == __file__
    assert all(text in str(warned.message) for text in texts)


def test_equal_offset_storages_do_not_warn(servers):
    for version in (0, 4):
        Consumer(bootstrap_servers=servers, api_version_offset_commit=version, api_version_offset_fetch=version).close()


def test_errors_are_kafka_errors(admin):
    with pytest.raises(KafkaError) as raised:
        admin.commit_offsets("g", {TopicPartition("nope", 0): 1})
    assert isinstance(raised.value, UnknownTopicOrPartitionError)
