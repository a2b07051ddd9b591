"""`samsarrow top`: samples with a bounded number of groups, rates, lag over time, rebalances."""

import math

import pytest

from samsarrow import GroupListing, KafkaError, OffsetAndMetadata, Results, TopicPartition
from samsarrow.admin_types import GroupLag, PartitionLag
from samsarrow.cli.top.history import POINTS, History, Row, Series, sorted_rows
from samsarrow.cli.top.sampler import GroupSample, Member, Progress, Sample, Sampler
from samsarrow.exceptions import GroupIdNotFoundError, KafkaTimeoutError, UnknownTopicOrPartitionError
from samsarrow.group_types import (
    ShareGroupDescription,
    ShareMember,
    ShareOffset,
    StreamsGroupDescription,
    StreamsMember,
    StreamsTasks,
)
from samsarrow.types import GroupDescription, MemberDescription, OffsetAndTimestamp

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def group(time, state="Stable", members=(), name="g", error=None, epoch=None, **offsets):
    partitions = {TopicPartition("t", int(tp[1:])): Progress(o, e, max(e - o, 0)) for tp, (o, e) in offsets.items()}
    return GroupSample(name, "classic", state, "range", time, members, epoch, partitions, error)


def sample(time, *groups, names=None):
    return Sample(time, 0.1, tuple(names or sorted(g.group for g in groups)), {g.group: g for g in groups})


def member(name, *partitions):
    return Member(name, None, "c", "/h", partitions, len(partitions))


def test_rates_over_ten_seconds():
    series = Series()
    assert series.rates() == (None, None)
    for second in range(0, 40, 2):
        # Commits every 4 s: single intervals have 0 or 400 consumed records.
        series.add(100.0 + second, 5, 200, 400 if second % 4 == 0 else 0)
    produced, consumed = series.rates()
    assert produced == pytest.approx(100)
    assert consumed == pytest.approx(80, abs=21)
    made, read = series.speeds()
    assert (set(made), set(read)) == ({100.0}, {0.0, 200.0})


def test_rates_of_samples_that_are_far_apart_use_the_last_two():
    series = Series()
    for at, read in ((0.0, 0), (60.0, 600), (120.0, 60)):
        series.add(at, 0, 0, read)
    assert series.rates() == (0.0, 1.0)


def test_series_are_bounded():
    series = Series()
    for at in range(10 * POINTS):
        series.add(at, None if at % 2 else at, 1, 1)
    assert len(series.times) < 2 * POINTS
    assert len(series.trend()) == POINTS
    assert series.trend()[-2:] == [10 * POINTS - 2, None]
    assert series.rates() == (1.0, 1.0)


def test_offsets_that_move_back_are_not_consumption():
    history = History(by_partition=None)
    history.add(sample(0.0, group(0.0, p0=(50, 100), p1=(0, 10))))
    history.add(sample(2.0, group(2.0, p0=(10, 120), p1=(10, 10))))
    [row] = history.rows()
    assert (row.lag, row.produced, row.consumed) == (110, 10.0, 5.0)
    first, second = history.partition_rows("g")
    assert (first.lag, first.produced, first.consumed) == (110, 10.0, 0.0)
    assert (second.key, second.offset, second.end, second.consumed, second.eta) == (T1, 10, 10, 5.0, 0.0)
    # The topic was created again.
    history.add(sample(4.0, group(4.0, p0=(10, 0))))
    assert history.rows()[0].produced == 5.0
    assert [row.key for row in history.partition_rows("g")] == [T0]


def test_seconds_until_the_lag_is_zero():
    assert Row("g", 0).eta == 0.0
    assert Row("g", 10).eta is None
    assert Row("g", 10, produced=5.0, consumed=10.0).eta == 2.0
    assert Row("g", 10, produced=5.0, consumed=5.0).eta == math.inf


def test_rebalances_count_states_and_changed_assignments():
    history = History()
    steps = [
        ("Stable", [member("a", T0, T1)], 0),
        ("Stable", [member("a", T0, T1)], 0),
        ("PreparingRebalance", [member("a", T0, T1), member("b")], 1),
        ("CompletingRebalance", [member("a"), member("b")], 1),
        ("Stable", [member("a", T0), member("b", T1)], 1),
        ("Stable", [member("a", T0), member("b", T1)], 1),
        # A rebalance between two samples.
        ("Stable", [member("a", T0, T1)], 2),
        ("Reconciling", [member("a", T0, T1)], 3),
        ("Empty", [], 3),
    ]
    for at, (state, members, expected) in enumerate(steps):
        history.add(sample(at, group(at, state, tuple(members), p0=(0, 0))))
        assert history.groups["g"].rebalances == expected, at


def test_rebalances_of_share_groups_are_their_assignment_epochs():
    history = History()
    for at, epoch in enumerate((4, 4, 5)):
        history.add(sample(at, group(at, members=(member("a"),), epoch=epoch)))
    assert history.groups["g"].rebalances == 1


def test_failed_requests_leave_earlier_values():
    history = History()
    history.add(sample(0.0, group(0.0, members=(member("a", T0),), p0=(5, 10))))
    error = KafkaTimeoutError("no response")
    history.add(sample(2.0, GroupSample("g", time=2.0, error=error)))
    [row] = history.rows()
    assert (row.state, row.members, row.lag, row.error) == ("Stable", 1, 5, "no response")
    assert len(history.total.times) == 1
    history.add(sample(4.0, group(4.0, p0=(9, 14))))
    [row] = history.rows()
    assert (row.consumed, row.error) == (1.0, "")


def test_deleted_groups_and_groups_without_a_selected_topic_are_left_out():
    history = History(topics=True)
    history.add(sample(0.0, group(0.0, name="a", p0=(0, 1)), group(0.0, name="b"), names=("a", "b", "c")))
    assert [row.key for row in history.rows()] == ["a"]
    history.add(sample(1.0, names=()))
    assert (history.rows(), history.groups) == ([], {})


def test_unknown_values_are_sorted_last_in_both_directions():
    rows = [Row("a", None), Row("b", 1), Row("c", 5), Row("d", 5)]
    assert [row.key for row in sorted_rows(rows, "lag", True)] == ["c", "d", "b", "a"]
    assert [row.key for row in sorted_rows(rows, "lag", False)] == ["b", "c", "d", "a"]


class FakeAdmin:
    """Admin client with groups `g0`, `g1`, …, the share group `s`, the streams group `k`, and a log of calls."""

    def __init__(self, count=0, share=False, streams=False):
        self.calls = []
        self.listed = {f"g{n}": GroupListing(f"g{n}", "consumer", "Stable", "classic") for n in range(count)}
        if share:
            self.listed["s"] = GroupListing("s", "share", "Stable", "share")
        if streams:
            self.listed["k"] = GroupListing("k", "streams", "Stable", "streams")
        self.down = None

    def list_groups(self, timeout):
        self.calls.append(("list_groups", 0))
        if self.down:
            raise self.down
        return self.listed

    def _results(self, name, groups, make, missing=GroupIdNotFoundError):
        self.calls.append((name, len(groups)))
        found = {g: make(g) for g in groups if g in self.listed}
        return Results(found, {g: missing(g) for g in groups if g not in found}, list(groups), str, object)

    def describe_groups(self, groups, timeout):
        one = MemberDescription("m", None, "app", "/10.0.0.1", (T0, T1), None)
        return self._results(
            "describe_groups", groups, lambda g: GroupDescription(g, "classic", "Stable", "consumer", "range", (one,))
        )

    def group_lag(self, groups, timeout):
        gone = PartitionLag(TopicPartition("gone", 0), OffsetAndMetadata(1), None, UnknownTopicOrPartitionError("x"))
        return self._results(
            "group_lag", groups, lambda g: GroupLag(g, (PartitionLag(T0, OffsetAndMetadata(4), 9, None), gone))
        )

    def list_offsets(self, partitions, timeout):
        self.calls.append(("list_offsets", len(partitions)))
        return Results(
            {tp: OffsetAndTimestamp(20, -1) for tp in partitions}, {}, list(partitions), TopicPartition, object
        )

    def describe_share_groups(self, groups, timeout):
        one = ShareMember("m", None, 3, "app", "/10.0.0.1", ("t",), (T0,))
        return self._results(
            "describe_share_groups", groups, lambda g: ShareGroupDescription(g, "Stable", 7, 6, "simple", (one,))
        )

    def describe_streams_groups(self, groups, timeout):
        tasks = StreamsTasks({"0": (0, 1), "1": (0,)}, {}, {})
        one = StreamsMember("m", 1, None, None, "app", "/10.0.0.1", 1, "p", tasks, tasks)
        make = lambda g: StreamsGroupDescription(g, "Stable", 7, 6, 1, (), (one,))  # noqa: E731
        return self._results("describe_streams_groups", groups, make)

    def list_share_offsets(self, groups, timeout):
        offsets = {T0: ShareOffset(15, None, None), T1: ShareOffset(1, None, 3)}
        return self._results(
            "list_share_offsets", groups, lambda g: Results(offsets, {}, list(offsets), TopicPartition, object)
        )


def test_sample_of_a_group_with_an_uncommitted_and_a_deleted_partition():
    admin = FakeAdmin(1)
    taken = Sampler(admin).sample()
    found = taken.groups["g0"]
    assert (found.state, found.type, found.assignor, found.error) == ("Stable", "classic", "range", None)
    assert found.partitions == {
        TopicPartition("gone", 0): Progress(1, None, None), T0: Progress(4, 9, 5), T1: Progress(None, 20, None)
    }  # fmt: skip
    assert [name for name, _ in admin.calls] == ["list_groups", "describe_groups", "group_lag", "list_offsets"]
    assert Sampler(admin, topics=("go*",)).sample().groups["g0"].partitions.keys() == {TopicPartition("gone", 0)}


def test_sample_of_share_groups():
    found = Sampler(FakeAdmin(0, share=True)).sample().groups["s"]
    assert (found.type, found.state, found.epoch, found.error) == ("share", "Stable", 6, None)
    assert found.partitions == {T0: Progress(15, 20, 5), T1: Progress(1, 20, 3)}
    assert found.members == (Member("m", None, "app", "/10.0.0.1", (T0,), 1),)


def test_sample_of_streams_groups():
    found = Sampler(FakeAdmin(0, streams=True)).sample().groups["k"]
    assert (found.type, found.state, found.epoch, found.error) == ("streams", "Stable", 6, None)
    assert found.members == (Member("m", None, "app", "/10.0.0.1", (), 3),)
    assert found.partitions[T0] == Progress(4, 9, 5)


def test_patterns_and_groups_that_do_not_exist():
    taken = Sampler(FakeAdmin(12), patterns=("g1*", "nope")).sample()
    assert taken.names == ("g1", "g10", "g11", "nope")
    assert (taken.groups["nope"].state, type(taken.groups["nope"].error)) == ("Dead", GroupIdNotFoundError)


def test_each_sample_has_a_bounded_number_of_groups_and_takes_turns():
    admin = FakeAdmin(250)
    sampler = Sampler(admin, limit=100, interval=0.0)
    seen = set()
    for _ in range(4):
        sampler.limit = 100
        taken = sampler.sample(first=["g7", "gone"])
        assert len(taken.groups) == 100
        assert "g7" in taken.groups
        assert len(taken.names) == 250
        seen |= set(taken.groups)
    assert seen == set(taken.names)
    assert {count for name, count in admin.calls if name == "group_lag"} == {100}
    sampler.limit = 100
    sampler.sample()
    assert sampler.limit == 50, "samples that take longer than the interval become smaller"
    sampler.interval = 1e9
    sampler.sample()
    assert sampler.limit == 100


def test_a_failed_list_is_reported_with_the_groups_known_before():
    admin = FakeAdmin(2)
    sampler = Sampler(admin)
    sampler.sample()
    admin.down = KafkaTimeoutError("broker 1 does not respond")
    taken = sampler.sample()
    assert (taken.error, len(taken.groups)) == (admin.down, 2)
    lists = admin.calls.count(("list_groups", 0))
    sampler.sample()
    assert admin.calls.count(("list_groups", 0)) == lists, "not again at once"
    with pytest.raises(KafkaError, match="broker 1"):
        Sampler(admin).sample()
