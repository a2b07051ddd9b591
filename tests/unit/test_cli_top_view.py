"""`samsarrow top`: the layout at 80 by 24 and other sizes, keys, and text of cells."""

import math

import pytest

from samsarrow import KafkaError, TopicPartition
from samsarrow.cli.tables import width_of
from samsarrow.cli.top.history import History
from samsarrow.cli.top.layout import columns_for, count, fit, rate, span, sparkline
from samsarrow.cli.top.sampler import GroupSample, Member, Progress, Sample
from samsarrow.cli.top.terminal import Keys
from samsarrow.cli.top.view import GROUPS, View


def test_numbers_fit_their_columns():
    assert [count(n) for n in (None, 0, 1234, 999_999, 1_000_000, 12_345_678, 987_654_321, 2**63)] == [
        "-", "0", "1,234", "999,999", "1.00M", "12.3M", "988M", "9.22E",
    ]  # fmt: skip
    assert [rate(n) for n in (None, 0.0, 1.54, 9.96, 9999, 10_000, 123_456, 5e9)] == [
        "-", "0", "1.5", "10", "9999", "10.0k", "123k", "5.00G",
    ]  # fmt: skip
    assert [span(s) for s in (None, 0, 59.2, 130, 11_100, 1e6, math.inf)] == [
        "-", "0s", "1m00s", "2m10s", "3h05m", "11d", "never",
    ]  # fmt: skip
    for number in (10**power - 1 for power in range(19)):
        assert len(count(number)) <= 7
        assert len(rate(number)) <= 6
        assert len(span(number)) <= 6


def test_sparklines():
    assert sparkline([0, 1, 4, 8], 4) == "▁▂▅█"
    assert sparkline([1, None, 1_000_000], 5) == "  ▂ █"
    assert sparkline([0, 0], 3) == " ▁▁"
    assert sparkline(list(range(100)), 3) == "███"
    assert sparkline([], 3) == "   "
    assert sparkline([1, 2], 2, "_#") == "##"


@pytest.mark.parametrize(
    "text", ["short", "a-very-long-name", "日本語のグループ名前", "e\u0301e\u0301", "\x1b[31mred\x07", ""]
)
def test_cells_have_their_width_and_no_control_characters(text):
    for width in range(1, 14):
        cell = fit(text, width)
        assert width_of(cell) == width
        assert cell.isprintable()
    assert fit("a-very-long-name", 6) == "a-ver…"
    assert fit("ab", 4, right=True) == "  ab"


def test_columns_for_narrow_and_wide_terminals():
    for width in range(12, 200):
        columns = columns_for(GROUPS, width)
        assert sum(cells for _, cells in columns) + len(columns) - 1 <= width
        assert columns[0][0].name == "key"
    assert [column.name for column, _ in columns_for(GROUPS, 80)] == [
        "key", "state", "members", "lag", "trend", "produced", "consumed", "rebalances"
    ]  # fmt: skip
    assert [column.name for column, _ in columns_for(GROUPS, 36)] == ["key", "lag", "consumed"]
    assert len(columns_for(GROUPS, 120)) == len(GROUPS)


def sample(time, count=3, **changes):
    groups = {}
    for number in range(count):
        name = f"group-{number:04}"
        partitions = {TopicPartition("orders", p): Progress(10 * p, 100 * p + int(time), 90 * p) for p in range(3)}
        members = (Member("m-1", None, "app", "/10.0.0.1", tuple(partitions), 3),)
        groups[name] = GroupSample(name, "classic", "Stable", "range", time, members, None, partitions)
    groups |= {name: GroupSample(name, **{"time": time, **values}) for name, values in changes.items()}
    return Sample(time, 0.1, tuple(sorted(groups)), groups)


def text_of(view, width=80, height=24, now=None):
    view_lines = view.lines(width, height, view._sample.time if now is None else now, clock=0)
    lines = ["".join(text for text, _ in line) for line in view_lines]
    assert len(lines) == height
    assert {width_of(line) for line in lines} == {width}
    return [line.rstrip() for line in lines]


def viewed(count=3, **options):
    view = View(History(), "kafka-1:9092", 2.0, **options)
    view.add(sample(0.0, count))
    view.add(sample(2.0, count))
    return view


def press(view, *keys):
    for key in keys:
        view.press(key)
    return text_of(view)


def test_groups_at_80_columns():
    lines = text_of(viewed())
    assert lines[0].startswith("samsarrow top  kafka-1:9092 ")
    assert lines[1] == "3 groups   lag 810   0 consumed/s"
    assert lines[3].split() == ["GROUP", "STATE", "MEMBERS", "LAG▼", "LAG", "TREND", "PROD/S", "CONS/S", "REBAL"]
    assert lines[4].split() == ["group-0000", "Stable", "1", "270", "██", "3", "0", "0"]
    assert lines[7:23] == [""] * 16
    assert lines[23].startswith("q quit  ↑↓ select")


@pytest.mark.parametrize("size", [(80, 24), (20, 5), (1, 1), (3, 2), (45, 10), (250, 60)])
def test_every_size_is_filled_exactly(size):
    view = viewed(40)
    for keys in ((), ("?",), ("x", "enter"), ("tab",), ("esc", "/", "z")):
        for key in keys:
            view.press(key)
        text_of(view, *size)
    text_of(View(History(), "k", 2.0), *size, now=0.0)


def test_long_names_are_truncated():
    view = viewed(1)
    view.add(sample(4.0, 1, **{"analytics-" * 20: {}, "\x1b[2Jevil": {}}))
    lines = text_of(view)
    assert any(line.startswith("analytics") and "…" in line[:30] for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_names_with_a_common_beginning_differ_on_the_screen():
    view = viewed(1)
    names = [f"analytics-production-eu-west-{number}" for number in (1, 2)]
    view.add(sample(4.0, 1, **{key: {} for key in names}))
    rows = [line for line in text_of(view) if "analytics" in line]
    assert len(rows) == 2
    assert rows[0] != rows[1]


def test_ascii_terminals_get_ascii_only():
    view = viewed(3, ascii=True)
    view.add(sample(4.0, 3, grüße={}))
    assert all(line.isascii() for line in press(view))
    assert all(line.isascii() for line in press(view, "?"))
    assert all(line.isascii() for line in press(view, "x", "enter"))


def test_selection_pages_and_sampled_groups():
    view = viewed(3000)
    text_of(view)
    assert view.visible()[0] == "group-0000"
    assert len(view.visible()) == 19
    press(view, "pgdn", "down")
    assert "group-0020" in view.visible()
    assert "group-0000" not in view.visible()
    lines = press(view, "G")
    assert "group-2999" in lines[22]
    assert "group-0000" in press(view, "g")[4]
    # The selection follows its group.
    press(view, "end")
    view.add(sample(4.0, 3000))
    assert "group-2999" in view.visible()
    view.add(sample(6.0, 5))
    assert text_of(view)[4].startswith("group-0000")


def test_details_of_a_group():
    view = viewed()
    lines = press(view, "down", "enter")
    assert "group-0001" in lines[0]
    assert lines[1].startswith("classic   Stable   range   1 member   3 partitions   lag 270   0 rebalances")
    assert [line.split()[0] for line in lines[3:6]] == ["lag", "produced/s", "consumed/s"]
    assert lines[7].split()[0] == "TOPIC-PARTITION"
    assert [line.split()[0] for line in lines[8:11]] == ["orders-2", "orders-1", "orders-0"]
    assert lines[8].split()[-1] == "app@10.0.0.1"
    assert view.visible() == ["group-0001"]
    view.add(sample(4.0))
    view.add(sample(6.0))
    assert view.history.partition_rows("group-0001")[0].produced == 1.0
    assert press(view, "tab")[7].split() == ["MEMBER", "PARTS", "ASSIGNMENT", "INSTANCE", "ID"]
    assert text_of(view)[8].split()[:4] == ["app@10.0.0.1", "3", "orders-0", "orders-1"]
    assert press(view, "tab", "esc")[3].startswith("GROUP")
    assert view._selected == "group-0001"
    press(view, "enter")
    view.add(sample(8.0, 1))
    assert text_of(view)[1] == "this group does not exist any more"


def test_filter_sort_and_reverse():
    view = viewed(20)
    lines = press(view, "/", "0", "0", "1", "3")
    assert lines[1].startswith("1 of 20 groups")
    assert lines[4].startswith("group-0013")
    assert "esc clears" in press(view, "!")[4]
    assert press(view, "backspace", "enter")[4].startswith("group-0013")
    assert press(view, "esc")[1].startswith("20 groups")
    assert len([line for line in press(view, "/", *"*-001?", "enter") if line.startswith("group-001")]) == 10
    assert "GROUP▲" in press(view, "esc", *"sssssss")[3]
    assert "GROUP▼" in press(view, "r")[3]
    assert press(view)[4].startswith("group-0019")


def test_pause_keeps_the_values():
    view = viewed(2)
    assert "PAUSED" in press(view, "p")[0]
    view.add(sample(4.0, 9))
    assert text_of(view)[1].startswith("2 groups")
    press(view, "p")
    view.add(sample(6.0, 9))
    assert text_of(view)[1].startswith("9 groups")


def test_errors_and_silence_are_shown_with_their_duration():
    view = viewed(2)
    assert text_of(view, now=3.0)[2] == ""
    assert text_of(view, now=12.0)[2] == "no response for 10s"
    view.add(sample(14.0, 2, lost={"error": KafkaError("broker 3 is not reachable")}))
    assert text_of(view)[2] == "for 12s: broker 3 is not reachable"
    # Long errors take more lines, and the table fewer.
    view.fail("broker " * 200, 15.0)
    lines = text_of(view, now=15.0)
    assert [line[:6] for line in lines[2:6]] == ["for 13", "broker", "broker", "GROUP "]
    view.fail("timeout", 20.0)
    assert text_of(view, now=15.0)[2] == "for 13s: timeout"
    view.add(sample(16.0, 2))
    assert text_of(view)[2] == ""


def test_quit_and_help():
    view = viewed()
    assert "KEYS" in press(view, "?")[3]
    assert press(view, "x")[3].startswith("GROUP")
    press(view, "q")
    assert view.quit


def test_keys_of_terminal_input():
    keys = Keys()
    assert list(keys.feed(b"jq\r\x7f\t \x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[1;5C")) == [
        "j", "q", "enter", "backspace", "tab", " ", "up", "down", "pgup", "pgdn",
    ]  # fmt: skip
    assert list(keys.feed(b"\xc3")) == []
    assert list(keys.feed(b"\xbc")) == ["ü"]
    assert list(keys.feed(b"\x1b")) == []
    assert keys.pending
    assert list(keys.flush()) == ["esc"]
    assert list(keys.feed(b"\x1b[")) == []
    assert list(keys.feed(b"B\x1b\x1b[A")) == ["down", "esc", "up"]
    assert list(keys.feed(b"\x1b[" + b"1;" * 40)) != ["esc"]
    list(keys.flush())
    assert not keys.pending
