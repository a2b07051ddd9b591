"""Kafka's responses to requests of share groups, rule by rule; the embedded broker returns the same responses.

Most of these rules are in no documentation, and clients depend on them: what ends a session, what releases records,
and which acknowledgements are rejected.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator

import pytest

from samsarrow import Admin, KafkaError, Producer, TopicPartition
from samsarrow.admin_types import ConfigResource
from samsarrow.testing import Broker
from support.fixtures import create_topic
from support.kafka import QUICK_COMPILER, KafkaServer
from support.kafka_releases import number
from support.raw import error
from support.shares import ACCEPT, RELEASE, RENEW, ShareMember, outcome, ranges

_names = itertools.count()


@pytest.fixture(scope="module", params=["4.2.2", "4.3.1", "4.4.0"])
def share_kafka(request: pytest.FixtureRequest) -> Iterator[KafkaServer]:
    """A node of Apache Kafka that allows short locks."""
    limits = {"group.share.min.record.lock.duration.ms": "1000", "group.share.min.partition.max.record.locks": "100"}
    with KafkaServer(request.param, limits, jvm=QUICK_COMPILER) as server:
        # The first member waits until the coordinators have loaded their state.
        first = ShareMember(server.bootstrap_servers, "first", "first", create_topic(server))
        first.join(timeout=60)
        first.fetch()
        first.close()
        yield server


class Script:
    """A topic with one partition, and a share group that starts at its first record. `lines` are the responses."""

    def __init__(self, address: str, topic: str) -> None:
        self.address, self.topic, self.group = address, topic, f"{topic}-group"
        self._members: list[ShareMember] = []
        self.lines: list[tuple[object, ...]] = []
        self.configure("share.auto.offset.reset", "earliest")

    def configure(self, name: str, value: str) -> None:
        with Admin(bootstrap_servers=self.address) as admin:
            admin.alter_configs({ConfigResource.group(self.group): {name: value}})
        # A Kafka broker applies configs after the response.
        time.sleep(0.3)

    def member(self, name: str = "a", *, join: bool = True) -> ShareMember:
        """Opens a connection of a member, which joins the group."""
        member = ShareMember(self.address, self.group, name, self.topic)
        self._members.append(member)
        if join:
            member.join()
        return member

    def add(self, *line: object) -> None:
        self.lines.append(line)

    def close(self) -> None:
        for member in self._members:
            member.close()


def merged(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Merges consecutive ranges with the same delivery count. Brokers may split them."""
    result: list[tuple[int, int, int]] = []
    for first, last, count in found:
        if result and result[-1][1] + 1 == first and result[-1][2] == count:
            result[-1] = (result[-1][0], last, count)
        else:
            result.append((first, last, count))
    return result


def errors(response: object) -> list[tuple[str, str]]:
    """Returns the error of each partition of a ShareFetch response, and that of its acknowledgements, sorted.

    Brokers return partitions in the order of a hash.
    """
    partitions = [one for topic in response["responses"] for one in topic["partitions"]]  # type: ignore[index]
    return sorted((error(one["error_code"]), error(one["acknowledge_error_code"])) for one in partitions)


def altered(admin: Admin, group: str, offsets: dict[TopicPartition, int]) -> str:
    """Returns the name of the error of a change of start offsets."""
    try:
        admin.alter_share_offsets(group, offsets)
    except KafkaError as failure:
        return type(failure).__name__
    return "OK"


def first_request_of_a_session(script: Script) -> None:
    """Rule 1: a request with epoch 0 must have no acknowledgements. Unknown sessions and epochs are errors."""
    a = script.member()
    a.produce(3)
    script.add("unknown session", outcome(a.fetch(session=5)), outcome(a.acknowledge((0, 0, [ACCEPT]), session=5)))
    script.add("acknowledgements", outcome(a.fetch((0, 0, [ACCEPT]), session=0)))
    script.add("acknowledge with epoch 0", outcome(a.acknowledge((0, 0, [ACCEPT]), session=0)))
    script.add("acquired", a.acquire())
    script.add("wrong epoch", outcome(a.fetch(session=a.session + 1)), outcome(a.fetch(session=a.session - 1)))
    script.add("open again", outcome(a.fetch(session=0)))
    a.session = 1
    script.add("rows of the earlier session", outcome(a.acknowledge((0, 2, [ACCEPT]))))


def session_hangs_on_its_connection(script: Script) -> None:
    """Rule 2: the session and its records end with the connection that opened it."""
    gone = script.member()
    gone.produce(3)
    script.add("acquired", gone.acquire())
    second = script.member(join=False)
    second.session = gone.session
    script.add("another connection", outcome(second.acknowledge((0, 0, [ACCEPT]))))
    gone.close()
    b = script.member("b")
    script.add("available at once", merged(b.acquire()))
    script.add("session is gone", outcome(second.acknowledge((1, 1, [ACCEPT]))))


def one_request_at_a_time(script: Script) -> None:
    """Rule 3: a request of the session makes the fetch that waits invalid; its records stay locked."""
    import threading

    a = script.member()
    a.produce(1)
    script.add("acquired", a.acquire())
    second = script.member(join=False)
    second.session = a.session + 1
    waiting: list[str] = []
    thread = threading.Thread(target=lambda: waiting.append(outcome(a.fetch(wait=20_000))))
    thread.start()
    time.sleep(0.5)
    script.add("acknowledged", outcome(second.acknowledge((0, 0, [ACCEPT]))))
    second.produce(1)
    thread.join()
    script.add("waiting fetch", waiting)
    script.add("locked", script.member("b").acquire(timeout=0.5))


def leaving_releases_nothing(script: Script) -> None:
    """Rule 4: leaving the group keeps the locks, closing the session releases them."""
    a, b = script.member(), script.member("b")
    a.produce(2)
    script.add("acquired", a.acquire())
    left = a.heartbeat(epoch=-1)
    script.add("left", outcome({**left, "responses": []}), left["member_epoch"])
    script.add("locked", b.acquire(timeout=0.5))
    script.add("closed", outcome(a.acknowledge((0, 0, [ACCEPT]), session=-1)))
    script.add("released", merged(b.acquire()))
    script.add("closed twice", outcome(a.acknowledge(session=-1)))
    script.add("fetch after close", outcome(a.fetch()))


def all_or_nothing(script: Script) -> None:
    """Rule 5: one offset that is not held rejects all acknowledgements of the partition."""
    a, b = script.member(), script.member("b")
    a.produce(20)
    script.add("acquired", a.acquire())
    script.add("one", outcome(a.acknowledge((8, 8, [ACCEPT]))))
    script.add("with it", outcome(a.acknowledge((8, 12, [ACCEPT]))), outcome(a.acknowledge((0, 5, [1]), (8, 8, [1]))))
    b.fetch()
    script.add("of another member", outcome(b.acknowledge((10, 10, [ACCEPT]))))
    script.add("past the records", outcome(a.acknowledge((20, 22, [ACCEPT]))), outcome(a.acknowledge((15, 22, [1]))))
    script.add("nothing was applied", outcome(a.acknowledge((0, 7, [ACCEPT]), (9, 12, [ACCEPT]))))
    script.add("before the start", outcome(a.acknowledge((0, 7, [ACCEPT]))), outcome(a.acknowledge((10, 13, [1]))))
    script.add("the rest", outcome(a.acknowledge((14, 19, [ACCEPT]))))
    script.add("done", outcome(a.acknowledge((14, 19, [ACCEPT]))), outcome(a.acknowledge((30, 30, [ACCEPT]))))


def fields(script: Script) -> None:
    """Rule 6: batches are sorted and disjoint, with one type or one for each offset."""
    a = script.member()
    a.produce(20)
    script.add("acquired", a.acquire())
    for acks in (
        [(5, 4, [ACCEPT])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 2, [])],
        [(0, 2, [5])],
        [(0, 2, [-1])],
        [(0, 2, [RENEW])],
        [(4, 6, [ACCEPT]), (0, 2, [ACCEPT])],
        [(0, 4, [ACCEPT]), (4, 6, [ACCEPT])],
    ):
        script.add(acks, outcome(a.acknowledge(*acks)))


def renew_is_disabled(script: Script) -> None:
    """Rule 6: a group can disable the renewal of locks."""
    script.configure("share.renew.acknowledge.enable", "false")
    a = script.member()
    a.produce(2)
    script.add("acquired", a.acquire())
    script.add("renew", outcome(a.acknowledge((0, 0, [RENEW]), renew=True)))
    script.add("accept", outcome(a.acknowledge((0, 1, [ACCEPT]))))


def limits(script: Script) -> None:
    """Rule 9: the record limit is soft, or strict in acquire mode 1. Small batch sizes split ranges."""
    a = script.member()
    a.produce(20, 4, 4, 4)
    script.add("soft", a.acquire(max_records=5))
    script.add("split", a.acquire(max_records=12, batch_size=4))
    script.add("accepted", outcome(a.acknowledge((0, 31, [ACCEPT]))))
    a.produce(10)
    script.add("strict", merged(a.acquire(max_records=4, mode=1)))
    script.add("strict", merged(a.acquire(max_records=4, mode=1)))
    script.add("strict", merged(a.acquire(max_records=4, mode=1)))
    script.add("none", ranges(a.fetch(max_records=0)))


def record_locks(script: Script) -> None:
    """Rule 9: a partition has a limit of records in flight, which is soft too."""
    script.configure("share.partition.max.record.locks", "100")
    a = script.member()
    a.produce(40, 40, 40, 40, 40)
    script.add("acquired", merged(a.acquire()))
    script.add("full", merged(a.acquire(timeout=0.5)))
    script.add("in the middle", outcome(a.acknowledge((40, 79, [ACCEPT]))), merged(a.acquire(timeout=0.5)))
    script.add("at the start", outcome(a.acknowledge((0, 39, [ACCEPT]))), merged(a.acquire()))


def delivery_limit(script: Script) -> None:
    """Rule 10: near the delivery limit, parts of a batch are delivered, and at last single records."""
    a = script.member()
    a.produce(10)
    for _ in range(40):
        found = merged(a.acquire(timeout=0.6))
        script.add(found)
        if not found:
            break
        assert outcome(a.acknowledge(*[(first, last, [RELEASE]) for first, last, _ in found])) == "OK"


def parts_near_the_limit(script: Script) -> None:
    """Rule 10: a batch with a record that is released often."""
    a = script.member()
    a.produce(10, 3)
    script.add(merged(a.acquire()))
    script.add(outcome(a.acknowledge((0, 8, [RELEASE]), (9, 9, [ACCEPT]), (10, 12, [ACCEPT]))))
    for _ in range(30):
        found = merged(a.acquire(timeout=0.6))
        script.add(found)
        if not found:
            break
        types = [(first, last, [RELEASE if (first <= 3 <= last) else ACCEPT]) for first, last, _ in found]
        assert outcome(a.acknowledge(*types)) == "OK"


def new_group_starts_at_the_end(script: Script) -> None:
    """Rule 13: a group without `share.auto.offset.reset` starts at the end."""
    script.configure("share.auto.offset.reset", "latest")
    a = script.member()
    a.produce(5)
    script.add("nothing", a.acquire(timeout=1))
    a.produce(2)
    script.add("new", a.acquire())


def heartbeats(script: Script) -> None:
    """Errors of heartbeats, and the epochs of a member."""
    a = script.member(join=False)
    script.add("unknown group", outcome({**a.heartbeat(epoch=3), "responses": []}))
    script.add("no topics", outcome({**a.heartbeat(), "responses": []}))
    script.add("empty topics", outcome({**a.heartbeat([]), "responses": []}))
    script.add("invalid epoch", outcome({**a.heartbeat([script.topic], epoch=-2), "responses": []}))
    a.join()
    script.add("assignment once", a.heartbeat()["assignment"])
    script.add("unknown member", outcome({**script.member("b", join=False).heartbeat(epoch=3), "responses": []}))
    script.add("fenced", outcome({**a.heartbeat(epoch=77), "responses": []}))
    for name in ("", "x" * 37):
        other = script.member(name, join=False)
        script.add(len(name), outcome({**other.heartbeat([script.topic]), "responses": []}))
    unknown = script.member("c", join=False).heartbeat(["no-such-topic"])
    script.add("unknown topic", unknown["error_code"], unknown["assignment"])


def read_committed(script: Script) -> None:
    """Rule 7: aborted records are not acquired with `share.isolation.level=read_committed`."""
    script.configure("share.isolation.level", "read_committed")
    options = {"bootstrap_servers": script.address, "transactional_id": script.topic}
    with Producer(options) as producer:
        producer.init_transactions()
        for commit in (True, False, True):
            producer.begin_transaction()
            for _ in range(3):
                producer.send(script.topic, "v", partition=0)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
    a = script.member()
    found = merged(a.acquire())
    script.add("committed", found)
    acks = [(first, last, [ACCEPT]) for first, last, _ in found]
    script.add("accepted", outcome(a.acknowledge(*acks)), a.acquire(timeout=0.5))


def group_without_members(script: Script) -> None:
    """Partitions have no share state before a member of the group has subscribed to them."""
    a = script.member(join=False)
    a.produce(3)
    script.add("opened", errors(a.fetch()), errors(a.fetch(wait=500)))
    script.add("acquired", a.acquire(timeout=1))
    script.add("accepted", outcome(a.acknowledge((0, 1, [ACCEPT]))))
    script.add("in a fetch", errors(a.fetch((0, 1, [ACCEPT]))))
    b = script.member("b")
    script.add("with a member", errors(a.fetch(wait=2000)), b.acquire(timeout=3), a.acquire(timeout=0.5))


def unknown_topic_ids(script: Script) -> None:
    """Rule 12: partitions of unknown topics fail alone; on Kafka 4.3, each fetch of a session with one fails."""
    a = script.member()
    a.produce(3)
    known = a.topic_id
    script.add("acquired", a.acquire())
    a.topic_id = uuid.UUID(int=7)
    script.add("acknowledged", outcome(a.acknowledge((0, 0, [ACCEPT]))))
    script.add("listed", errors(a.fetch(wait=300, listed=True)), errors(a.fetch(wait=300)))
    a.topic_id = known
    script.add("known partition", outcome(a.acknowledge((0, 0, [ACCEPT]))), errors(a.fetch((1, 1, [ACCEPT]))))
    script.add("another partition", errors(a.fetch(index=7)), errors(a.fetch(wait=300)))
    script.add("accepted", outcome(a.acknowledge((2, 2, [ACCEPT]))))
    b = script.member("b")
    b.produce(2)
    script.add("acquired", b.acquire())
    b.topic_id = uuid.UUID(int=8)
    found = b.fetch((0, 0, [ACCEPT]), wait=300)
    script.add("acknowledged in a fetch", outcome(found), errors(found))
    b.topic_id = known
    script.add("session", outcome(b.acknowledge((3, 3, [ACCEPT]))))
    script.add("next epoch", outcome(b.acknowledge((3, 3, [ACCEPT]), session=b.session + 1)))


def trimmed_log(script: Script) -> None:
    """Records that are deleted from the log are no longer delivered; acknowledgements of them are no errors."""
    a = script.member()
    a.produce(5, 5, 5, 5)
    script.add("acquired", merged(a.acquire(max_records=5)), merged(a.acquire(max_records=5)))
    script.add("released", outcome(a.acknowledge((0, 4, [RELEASE]))))
    with Admin(bootstrap_servers=script.address) as admin:
        admin.delete_records({TopicPartition(script.topic, 0): 7})
    time.sleep(0.3)
    script.add("before the log", outcome(a.acknowledge((0, 4, [ACCEPT]))))
    script.add("at its start", outcome(a.acknowledge((5, 9, [ACCEPT]))))
    script.add("later ones", merged(a.acquire()))
    script.add("accepted", outcome(a.acknowledge((10, 19, [ACCEPT]))))
    with Admin(bootstrap_servers=script.address) as admin:
        a.produce(3, 3)
        admin.delete_records({TopicPartition(script.topic, 0): 24})
    time.sleep(0.3)
    script.add("in the middle of a batch", merged(a.acquire()))


def release_in_the_same_fetch(script: Script) -> None:
    """A ShareFetch applies its acknowledgements first, so that it may acquire the records that it releases."""
    a = script.member()
    a.produce(4)
    script.add("acquired", a.acquire())
    script.add("all", ranges(a.fetch((0, 3, [RELEASE]), wait=500)))
    script.add("some", ranges(a.fetch((0, 3, [ACCEPT, RELEASE, RELEASE, ACCEPT]), wait=500)))
    a.produce(2)
    script.add("with new ones", merged(ranges(a.fetch((1, 2, [RELEASE]), wait=500))))
    script.add("rejected", errors(a.fetch((1, 5, [RELEASE]), (9, 9, [RELEASE]), wait=300)))
    script.add("the last one", ranges(a.fetch((1, 4, [ACCEPT]), (5, 5, [RELEASE]), wait=500)))


def locks_of_records(script: Script) -> None:
    """Rule 6: a renewal extends the locks of its records alone; the other locks of the batch end in time."""
    script.configure("share.record.lock.duration.ms", "2000")
    a, b = script.member(), script.member("b")
    a.produce(6)
    script.add("acquired", a.acquire())
    time.sleep(1.2)
    script.add("renewed", outcome(a.acknowledge((2, 3, [RENEW]), renew=True)))
    time.sleep(1.3)
    # The timers of the records end one after another, and the first one would complete a waiting fetch.
    script.add("others", merged(b.acquire()))
    script.add("expired", outcome(a.acknowledge((0, 1, [ACCEPT]))))
    script.add("accepted", outcome(a.acknowledge((2, 2, [ACCEPT]))))
    time.sleep(1.5)
    script.add("last", merged(b.acquire()))


def altered_start_offsets(script: Script) -> None:
    """An administrator moves the start of a group without members, backwards and forwards."""
    a = script.member()
    a.produce(4, 4)
    script.add("acquired", merged(a.acquire()))
    script.add("accepted", outcome(a.acknowledge((0, 7, [ACCEPT]))))
    tp = TopicPartition(script.topic, 0)
    with Admin(bootstrap_servers=script.address) as admin:
        script.add("with members", altered(admin, script.group, {tp: 2}))
        a.acknowledge(session=-1)
        a.heartbeat(epoch=-1)
        for offset in (2, 6, 0):
            script.add(offset, altered(admin, script.group, {tp: offset}))
            b = script.member(f"b{offset}", join=False)
            # Brokers keep the state of a group in memory until a connection of a session closes and no session is left.
            found = merged(b.acquire(timeout=2))
            script.add("again", found)
            if offset == 6:
                script.add("released", outcome(b.acknowledge((found[0][0], found[0][1], [RELEASE]))))
            b.acknowledge(session=-1)
            b.close()
            time.sleep(0.3)


SCRIPTS: list[Callable[[Script], None]] = [
    first_request_of_a_session,
    session_hangs_on_its_connection,
    one_request_at_a_time,
    leaving_releases_nothing,
    all_or_nothing,
    fields,
    renew_is_disabled,
    limits,
    record_locks,
    delivery_limit,
    parts_near_the_limit,
    new_group_starts_at_the_end,
    heartbeats,
    read_committed,
    group_without_members,
    unknown_topic_ids,
    trimmed_log,
    release_in_the_same_fetch,
    locks_of_records,
    altered_start_offsets,
]


def lines(script: Callable[[Script], None], address: str, topic: str) -> list[tuple[object, ...]]:
    running = Script(address, topic)
    try:
        script(running)
    finally:
        running.close()
    return running.lines


# Settings of groups that are settings of the broker before Kafka 4.3.
NEEDS_4_3 = {renew_is_disabled, record_locks}


# Kafka applies configs of groups, closed connections and timers of locks after delays that vary with its load, so that
# a fixed wait of a script may be too short.
@pytest.mark.flaky(reruns=2)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_embedded_broker_matches_kafka(share_kafka: KafkaServer, script: Callable[[Script], None]) -> None:
    if script in NEEDS_4_3 and number(share_kafka.version) < (4, 3):
        pytest.skip("the setting of the group needs Kafka 4.3")
    expected = lines(script, share_kafka.bootstrap_servers, create_topic(share_kafka, 1))
    topic = f"share-{next(_names)}"
    release = ".".join(map(str, number(share_kafka.version)[:2]))
    with Broker(topics={topic: 1}, auto_create_topics=False, kafka_version=release) as broker:
        given = lines(script, broker.bootstrap_servers, topic)
    assert expected
    for index, (theirs, ours) in enumerate(itertools.zip_longest(expected, given)):
        assert ours == theirs, f"line {index}, after {expected[:index]}"
