"""Tables, numbers for people, and the output of rows."""

import json
import os
import pty
import re
import time

import pytest

from samsarrow.cli import output
from samsarrow.cli.numbers import MetadataVersion, Size, Timestamp, rate_text, size_text, written_text
from samsarrow.cli.progress import progress
from samsarrow.cli.tables import Table, cut, table, width_of


def test_columns_are_aligned_and_numbers_at_the_right():
    rows = [("orders", 4, Size(9_085_334_373), None), ("x", 12, Size(5), "")]
    assert list(table(["TOPIC", "N", "SIZE", "KEY"], rows)) == [
        "TOPIC    N    SIZE  KEY",
        "orders   4  9.1 GB    -",
        "x       12     5 B    -",
    ]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_lines_fit_a_terminal(width):
    rows = [("g" * 2000, "Stable", 7), ("short", "Empty", 1_000_000)]
    lines = list(Table(["GROUP", "STATE", "LAG"], width).lines(rows))
    assert max(map(len, lines)) == width
    assert lines[1].startswith("ggg")
    assert "ggg…ggg" in lines[1]
    assert lines[1].endswith("7")
    assert lines[2].endswith("1000000")
    # Without a terminal nothing is cut.
    assert len(next(line for line in table(["GROUP", "STATE", "LAG"], rows) if "ggg" in line)) > 2000


def test_lines_of_many_columns_are_cut():
    lines = list(Table([f"COLUMN {i}" for i in range(20)], 80).lines([range(20)]))
    assert [len(line) for line in lines] == [80, 80]
    assert all(line.endswith("…") for line in lines)


def test_wide_characters_take_two_columns():
    lines = list(Table(["NAME", "N"], 20).lines([("漢字" * 20, 1), ("e\u0301", 2)]))
    assert lines[1] == "漢字漢字…漢字漢字  1"
    assert lines[2] == "e\u0301" + " " * 16 + "  2"


def test_names_are_cut_in_the_middle_and_texts_at_the_end():
    rows = [(f"analytics-production-eu-west-{region}", "a long reason " * 3, 1) for region in ("orders", "bills")]
    lines = list(Table(["GROUP", "REASON", "LAG"], 44).lines(rows))
    assert [line.split("  ")[0] for line in lines[1:]] == ["analyt…rders", "analyt…bills"]
    assert all(line.rstrip("1 ").endswith("…") for line in lines[1:])
    assert cut("name-1", 1, middle=True) == "…"
    assert cut("abcde\u0301f", 4, middle=True) == "ab…f"
    for width in range(1, 12):
        assert width_of(cut("漢字漢字漢字", width, middle=True)) <= width


def test_control_characters_do_not_reach_the_terminal():
    assert list(table(["A"], [["\x1b[31mred\r\n\x9b"]]))[1] == r"\x1b[31mred\r\n\x9b"


def test_later_rows_widen_columns():
    parts = Table(["A", "B"])
    assert [*parts.lines([("1", "x")]), *parts.lines([("1000", "x")])] == ["A  B", "1  x", "1000  x"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (31_400, "31.4 kB"), (999_499, "999 kB"), (999_999, "1.0 MB"),
     (9_085_334_373, "9.1 GB"), (2**63, "9.2 EB")],
)  # fmt: skip
def test_sizes(number, text):
    assert size_text(number) == text
    assert Size(number).text == text


def test_numbers_for_people(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    assert Timestamp(1_793_527_200_000).text[:4] == "2026"
    assert Timestamp(-1).text == "-"
    assert Timestamp(10**18).text == str(10**18)
    assert (MetadataVersion(30).text, MetadataVersion(99).text) == ("4.3-IV0 (30)", "99")
    assert (rate_text(1_234_567, "records"), rate_text(5e6, "B")) == ("1.2M records/s", "5.0 MB/s")
    assert written_text(1, 10, 0.04) == "1 record, 10 B in 0.0 s"
    assert written_text(1234, 5_600_000, 1.25) == "1,234 records, 5.6 MB in 1.2 s"


def test_numbers_are_raw_in_json_and_csv(capsys):
    row = ("x", Size(5000), Timestamp(1_793_527_200_000), MetadataVersion(30))
    names = ("name", "size", "at", "level")
    for form in ("json", "ndjson"):
        output.show(form, names, [row])
        parsed = json.loads(capsys.readouterr().out)
        found = parsed[0] if form == "json" else parsed
        assert found == {"name": "x", "size": 5000, "at": 1_793_527_200_000, "level": 30}
    output.show("csv", names, [row])
    assert capsys.readouterr().out.splitlines()[1] == "x,5000,1793527200000,30"
    output.show("table", names, [row])
    assert "5.0 kB" in capsys.readouterr().out


@pytest.mark.parametrize(("form", "out"), [("table", ""), ("ndjson", ""), ("json", "[]\n"), ("csv", "a,b\n")])
def test_lists_without_rows(capsys, form, out):
    output.show(form, ("a", "b"), [], "no topics")
    assert capsys.readouterr() == (out, "no topics\n")
    output.show(form, ("a", "b"), [])
    assert capsys.readouterr() == (out, "")


def test_progress_bars_show_a_rate(monkeypatch):
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        with progress("orders.parquet", 100_000_000, "B") as update:
            # click computes averages once per second.
            time.sleep(1.05)
            update(50_000_000)
            shown = ""
            while "/s" not in shown:
                shown += os.read(leader, 4096).decode()
    os.close(leader)
    assert "orders.parquet" in shown
    assert re.search(r"4[\d.]+ MB/s", shown), shown


def test_no_progress_bar_without_a_terminal(capsys):
    with progress("orders.parquet", 100, "B") as update:
        update(50)
    assert capsys.readouterr() == ("", "")


def test_tables_are_cut_to_the_terminal(monkeypatch):
    leader, follower = pty.openpty()
    monkeypatch.setenv("COLUMNS", "30")
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        output.show(None, ("group", "lag"), [("g" * 100, 1)])
        terminal.flush()
        text = os.read(leader, 4096).decode()
    os.close(leader)
    assert max(len(line) for line in text.splitlines()) == 30
