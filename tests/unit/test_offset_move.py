"""Copies between offset stores: only differences are written, the result is verified, and interrupted copies can be
completed.
"""

import pytest

from samsarrow import OffsetAndMetadata, TopicPartition
from samsarrow.exceptions import UnknownMemberIdError
from samsarrow.offsets import FileOffsetStore, OffsetStoreError
from samsarrow.offsets.journal import Journal, resumable
from samsarrow.offsets.move import Change, VerificationError, apply, copy, keep_equal, plan

PARTITIONS = [TopicPartition("t", p) for p in range(25)]
SOURCE_OFFSETS = {tp: OffsetAndMetadata(tp.partition, f"m{tp.partition}") for tp in PARTITIONS}


class Memory:
    """An offset store in memory that can fail, lose offsets, and change between calls."""

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


def test_copy_writes_differences_in_batches():
    target = Memory({PARTITIONS[0]: SOURCE_OFFSETS[PARTITIONS[0]], PARTITIONS[1]: OffsetAndMetadata(9)})
    seen = []
    changes = copy(Memory(SOURCE_OFFSETS), target, batch_size=10, progress=seen.append)
    assert [c.partition for c in changes] == PARTITIONS[1:]
    assert changes[0] == Change(PARTITIONS[1], OffsetAndMetadata(9), SOURCE_OFFSETS[PARTITIONS[1]])
    assert target.writes == seen == [10, 10, 4]
    assert target.offsets == SOURCE_OFFSETS
    assert copy(Memory(SOURCE_OFFSETS), target) == []
    assert target.writes == [10, 10, 4]


@pytest.mark.parametrize("after", range(3))
def test_copy_completes_a_failed_run(after):
    target = Memory(fail_after=after)
    with pytest.raises(ConnectionError):
        copy(Memory(SOURCE_OFFSETS), target, batch_size=10)
    assert len(target.offsets) == 10 * after
    target.fail_after = None
    assert len(copy(Memory(SOURCE_OFFSETS), target, batch_size=10)) == 25 - 10 * after
    assert target.offsets == SOURCE_OFFSETS


def test_copy_verifies_the_written_offsets():
    class Forgetful(Memory):
        def store(self, offsets):
            super().store({tp: at for tp, at in offsets.items() if tp.partition % 10})

    target = Forgetful({PARTITIONS[10]: OffsetAndMetadata(3)})
    with pytest.raises(
        VerificationError, match=r"t-0 holds nothing after offset 0 .*, and 2 more partitions differ"
    ) as e:
        copy(Memory(SOURCE_OFFSETS), target)
    assert e.value.wrong == {PARTITIONS[0]: None, PARTITIONS[10]: OffsetAndMetadata(3), PARTITIONS[20]: None}


def test_offsets_only_store_ignores_metadata():
    target = Memory(offsets_only=True)
    assert len(copy(Memory(SOURCE_OFFSETS), target)) == 25
    assert copy(Memory(SOURCE_OFFSETS), target) == []
    # In the other direction the source has no metadata, so the metadata in Kafka is overwritten.
    back = Memory(SOURCE_OFFSETS)
    assert len(plan(back, target.offsets)) == 25


def test_leader_epoch_difference_is_not_written():
    target = Memory({PARTITIONS[0]: OffsetAndMetadata(1, "m", None)})
    assert plan(target, {PARTITIONS[0]: OffsetAndMetadata(1, "m", 7)}) == []


def test_keep_equal_writes_the_larger_offset():
    a, b, c = PARTITIONS[:3]
    zookeeper = Memory({a: OffsetAndMetadata(5), b: OffsetAndMetadata(1)}, offsets_only=True)
    kafka = Memory({b: OffsetAndMetadata(4, "m")})
    rounds = []

    def on_round(old, new):
        rounds.append((old, new))
        if len(rounds) == 1:
            # The old consumers commit again, then new consumers replace them.
            zookeeper.offsets[a] = OffsetAndMetadata(8)
        if len(rounds) == 2:
            kafka.members = True
            kafka.offsets |= {a: OffsetAndMetadata(10), c: OffsetAndMetadata(2)}

    assert keep_equal(zookeeper, kafka, 0.1, interval=0.01, on_round=on_round) == {}
    assert rounds[:3] == [(1, 1), (0, 1), (2, 0)]
    assert kafka.offsets == {a: OffsetAndMetadata(10), b: OffsetAndMetadata(4, "m"), c: OffsetAndMetadata(2)}
    assert zookeeper.offsets == {a: OffsetAndMetadata(10), b: OffsetAndMetadata(4), c: OffsetAndMetadata(2)}


def test_keep_equal_returns_partitions_that_stay_behind():
    zookeeper = Memory({PARTITIONS[0]: OffsetAndMetadata(9), PARTITIONS[1]: OffsetAndMetadata(1)}, offsets_only=True)
    kafka = Memory({PARTITIONS[0]: OffsetAndMetadata(3), PARTITIONS[1]: OffsetAndMetadata(2)})
    kafka.members = True
    assert keep_equal(zookeeper, kafka, 0) == {PARTITIONS[0]: OffsetAndMetadata(9)}
    assert zookeeper.offsets[PARTITIONS[1]] == OffsetAndMetadata(2)


def test_journal_keeps_the_plan_of_an_unfinished_copy(tmp_path):
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


def test_copy_between_store_types(tmp_path):
    file = FileOffsetStore(tmp_path / "o")
    copy(Memory(SOURCE_OFFSETS), file)
    back = Memory()
    copy(file, back)
    assert back.offsets == SOURCE_OFFSETS
    apply(file, [])
    file.close()
