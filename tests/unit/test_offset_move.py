"""Moves between stores: only what differs is written, it is read back, runs that were killed end right."""

import pytest

from samsarrow import OffsetAndMetadata, TopicPartition
from samsarrow.exceptions import UnknownMemberIdError
from samsarrow.offsets import FileOffsetStore, OffsetStoreError
from samsarrow.offsets.journal import Journal, resumable
from samsarrow.offsets.move import Change, VerificationError, apply, copy, keep_equal, plan

PARTITIONS = [TopicPartition("t", p) for p in range(25)]
WANTED = {tp: OffsetAndMetadata(tp.partition, f"m{tp.partition}") for tp in PARTITIONS}


class Memory:
    """A store that can lose its connection, forget and change."""

    def __init__(self, offsets=(), fail_after=None, offsets_only=False):
        self.offsets = dict(offsets)
        self.fail_after = fail_after
        self.offsets_only = offsets_only
        self.writes = []
        self.members = False

    def load(self, partitions=None):
        return dict(self.offsets) if partitions is None else {tp: self.offsets.get(tp) for tp in partitions}

    def store(self, offsets):
        if self.members:
            raise UnknownMemberIdError("the group has members")
        if self.fail_after is not None and len(self.writes) == self.fail_after:
            raise ConnectionError("gone")
        self.writes.append(len(offsets))
        keep = (lambda at: OffsetAndMetadata(at.offset)) if self.offsets_only else (lambda at: at)
        self.offsets |= {tp: keep(at) for tp, at in offsets.items()}

    def close(self):
        pass


def test_only_what_differs_is_written_in_batches():
    target = Memory({PARTITIONS[0]: WANTED[PARTITIONS[0]], PARTITIONS[1]: OffsetAndMetadata(9)})
    seen = []
    changes = copy(Memory(WANTED), target, batch_size=10, progress=seen.append)
    assert [c.partition for c in changes] == PARTITIONS[1:]
    assert changes[0] == Change(PARTITIONS[1], OffsetAndMetadata(9), WANTED[PARTITIONS[1]])
    assert target.writes == seen == [10, 10, 4]
    assert target.offsets == WANTED
    assert copy(Memory(WANTED), target) == []
    assert target.writes == [10, 10, 4]


@pytest.mark.parametrize("after", range(3))
def test_a_run_that_failed_is_ended_by_the_next(after):
    target = Memory(fail_after=after)
    with pytest.raises(ConnectionError):
        copy(Memory(WANTED), target, batch_size=10)
    assert len(target.offsets) == 10 * after
    target.fail_after = None
    assert len(copy(Memory(WANTED), target, batch_size=10)) == 25 - 10 * after
    assert target.offsets == WANTED


def test_what_is_read_back_must_be_what_was_written():
    class Forgetful(Memory):
        def store(self, offsets):
            super().store({tp: at for tp, at in offsets.items() if tp.partition % 10})

    target = Forgetful({PARTITIONS[10]: OffsetAndMetadata(3)})
    with pytest.raises(
        VerificationError, match=r"t-0 holds nothing after offset 0 .*, and 2 more partitions differ"
    ) as e:
        copy(Memory(WANTED), target)
    assert e.value.wrong == {PARTITIONS[0]: None, PARTITIONS[10]: OffsetAndMetadata(3), PARTITIONS[20]: None}


def test_a_store_of_offsets_alone_is_equal_without_metadata():
    target = Memory(offsets_only=True)
    assert len(copy(Memory(WANTED), target)) == 25
    assert copy(Memory(WANTED), target) == []
    # The other way metadata is nothing that ZooKeeper could give: what Kafka has goes.
    back = Memory(WANTED)
    assert len(plan(back, target.offsets)) == 25


def test_leader_epochs_alone_are_no_reason_to_write():
    target = Memory({PARTITIONS[0]: OffsetAndMetadata(1, "m", None)})
    assert plan(target, {PARTITIONS[0]: OffsetAndMetadata(1, "m", 7)}) == []


def test_the_larger_offset_wins_while_both_are_kept_equal():
    a, b, c = PARTITIONS[:3]
    zookeeper = Memory({a: OffsetAndMetadata(5), b: OffsetAndMetadata(1)}, offsets_only=True)
    kafka = Memory({b: OffsetAndMetadata(4, "m")})
    rounds = []

    def on_round(old, new):
        rounds.append((old, new))
        if len(rounds) == 1:
            # The old consumers go on, then new ones take over.
            zookeeper.offsets[a] = OffsetAndMetadata(8)
        if len(rounds) == 2:
            kafka.members = True
            kafka.offsets |= {a: OffsetAndMetadata(10), c: OffsetAndMetadata(2)}

    assert keep_equal(zookeeper, kafka, 0.1, interval=0.01, on_round=on_round) == {}
    assert rounds[:3] == [(1, 1), (0, 1), (2, 0)]
    assert kafka.offsets == {a: OffsetAndMetadata(10), b: OffsetAndMetadata(4, "m"), c: OffsetAndMetadata(2)}
    assert zookeeper.offsets == {a: OffsetAndMetadata(10), b: OffsetAndMetadata(4), c: OffsetAndMetadata(2)}


def test_a_consumer_that_stays_behind_is_told_of():
    zookeeper = Memory({PARTITIONS[0]: OffsetAndMetadata(9), PARTITIONS[1]: OffsetAndMetadata(1)}, offsets_only=True)
    kafka = Memory({PARTITIONS[0]: OffsetAndMetadata(3), PARTITIONS[1]: OffsetAndMetadata(2)})
    kafka.members = True
    assert keep_equal(zookeeper, kafka, 0) == {PARTITIONS[0]: OffsetAndMetadata(9)}
    assert zookeeper.offsets[PARTITIONS[1]] == OffsetAndMetadata(2)


def test_a_journal_holds_the_plan_until_it_is_done(tmp_path):
    journal = Journal(tmp_path / "new" / "folder", ["b:1", "group g in Kafka", "-5"])
    assert journal.unfinished() is None
    journal.end()
    changes = [
        Change(PARTITIONS[0], OffsetAndMetadata(9, "m", 3), OffsetAndMetadata(4)),
        Change(PARTITIONS[1], None, OffsetAndMetadata(0)),
    ]
    journal.begin(changes)
    assert Journal(tmp_path / "new" / "folder", ["b:1", "group g in Kafka", "-6"]).unfinished() is None
    when, planned = Journal(tmp_path / "new" / "folder", ["b:1", "group g in Kafka", "-5"]).unfinished()
    assert planned == changes
    assert when
    resumable(planned, {PARTITIONS[0]: OffsetAndMetadata(4), PARTITIONS[1]: None})
    resumable(planned, {PARTITIONS[0]: OffsetAndMetadata(9), PARTITIONS[1]: OffsetAndMetadata(0)})
    with pytest.raises(OffsetStoreError, match="t-0 is at 5, neither at 9 as before nor at 4 as planned"):
        resumable(planned, {PARTITIONS[0]: OffsetAndMetadata(5), PARTITIONS[1]: None})
    journal.path.write_text("{}")
    with pytest.raises(OffsetStoreError, match="is not a journal"):
        journal.unfinished()
    journal.end()
    assert journal.unfinished() is None


def test_stores_of_all_kinds_take_part(tmp_path):
    file = FileOffsetStore(tmp_path / "o")
    copy(Memory(WANTED), file)
    back = Memory()
    copy(file, back)
    assert back.offsets == WANTED
    apply(file, [])
    file.close()
