"""The view of `samsarrow top`: lines for a terminal size, and the effect of keys. It does no input or output."""

from __future__ import annotations

import textwrap
import time
from dataclasses import InitVar, dataclass, field
from fnmatch import fnmatchcase

from samsarrow.cli.names import is_pattern
from samsarrow.cli.tables import width_of
from samsarrow.cli.top.history import History, Row, owner_text, sorted_rows
from samsarrow.cli.top.layout import (
    ASCII_BARS,
    BARS,
    Column,
    columns_for,
    count,
    fit,
    printable,
    rate,
    span,
    sparkline,
)
from samsarrow.cli.top.sampler import Member, Sample
from samsarrow.types import TopicPartition

GROUPS = (
    Column("key", "GROUP", 19, 60),
    Column("state", "STATE", 10, 10, rank=3),
    Column("members", "MEMBERS", 8, 8, right=True, rank=5),
    Column("lag", "LAG", 7, 7, right=True),
    Column("trend", "LAG TREND", 9, 30, rank=4),
    Column("produced", "PROD/S", 7, 7, right=True, rank=2),
    Column("consumed", "CONS/S", 7, 7, right=True, rank=1),
    Column("rebalances", "REBAL", 6, 6, right=True, rank=6),
    Column("eta", "ETA", 6, 6, right=True, rank=7),
    Column("partitions", "PARTS", 6, 6, right=True, rank=8),
    Column("type", "TYPE", 8, 8, rank=9),
)
PARTITIONS = (
    Column("key", "TOPIC-PARTITION", 18, 60),
    Column("offset", "OFFSET", 9, 9, right=True, rank=6),
    Column("end", "END", 9, 9, right=True, rank=8),
    Column("lag", "LAG", 7, 7, right=True),
    Column("trend", "LAG TREND", 9, 30, rank=3),
    Column("produced", "PROD/S", 7, 7, right=True, rank=2),
    Column("consumed", "CONS/S", 7, 7, right=True, rank=1),
    Column("eta", "ETA", 6, 6, right=True, rank=7),
    Column("member", "MEMBER", 12, 60, rank=5),
)
# Columns in the order of the key `s`. Numbers begin with the largest, texts with the first in the alphabet.
SORTS = ("lag", "consumed", "produced", "members", "rebalances", "eta", "state", "key")
PARTITION_SORTS = ("lag", "consumed", "produced", "eta", "member", "key")
ASCENDING = {"state", "key", "member"}
# Seconds beyond two intervals after which the age of the last sample is shown.
STALE_SECONDS = 1.0
ERROR_LINES = 3
SHORT_STATES = {"PreparingRebalance": "Preparing", "CompletingRebalance": "Completing"}
HELP = (
    ("q", "quit; also Ctrl-C"),
    ("↑ ↓ j k", "select a row"),
    ("PgUp PgDn g G", "page up and down, first and last row"),
    ("enter →", "show the partitions of the selected group"),
    ("tab", "in a group: partitions or members"),
    ("esc ←", "back to the groups; clears the filter"),
    ("s", "sort by the next column"),
    ("r", "reverse the order"),
    ("/", "filter by name, part of a name, or a pattern such as bill*"),
    ("p space", "pause and continue"),
    ("? h", "this help"),
)

# Replacements of symbols in terminals that show only ASCII.
ASCII = {"↑↓": "jk", "↑ ↓ j k": "j k    ", "→": "right", "←": "left", "…": "..."}

# Columns of names, which often differ only in their last characters.
NAMES = frozenset({"key", "member", "instance_id"})

Span = tuple[str, str]
"""Text and its style: empty, or `bold`, `dim`, `reverse`, `red`, `yellow`, `green`, several joined with a space."""


@dataclass
class View:
    """State of the screen.

    Attributes:
        history: histories of the groups.
        servers: bootstrap servers, for the first line.
        interval: seconds between samples.
        ascii: whether the terminal shows only ASCII.
        sort: column of `Row` by which groups are sorted at first.
        group: group whose details are shown; None in the list of groups.
        paused: whether the shown values stay, and no samples are taken.
        filter: text of the filter.
        typing: whether keys go into the filter.
        quit: whether the user ended the view.
        error: the last error; empty if the last sample had no error.
        last_good: time of the last sample without an error, seconds of the monotonic clock.
        show_help: whether the help is shown.
        show_members: whether the members of the group are shown instead of its partitions.
    """

    history: History
    servers: str
    interval: float
    ascii: bool = False
    sort: InitVar[str] = "lag"
    group: str | None = None
    paused: bool = False
    filter: str = ""
    typing: bool = False
    quit: bool = False
    error: str = ""
    last_good: float = 0.0
    show_help: bool = False
    show_members: bool = False
    _sample: Sample | None = None
    _all: list[Row] = field(default_factory=list)
    _rows: list[Row] = field(default_factory=list)
    _needs: dict[str, int] = field(default_factory=dict)
    _sort: dict[bool, str] = field(default_factory=lambda: {False: "lag", True: "lag"})
    _reversed: dict[bool, bool] = field(default_factory=lambda: {False: False, True: False})
    _selected: str | TopicPartition | None = None
    _selected_group: str | None = None
    _top: int = 0
    _page: int = 10

    def __post_init__(self, sort: str) -> None:
        self._sort[False] = sort

    def add(self, sample: Sample) -> None:
        """Adds a sample. It is ignored while the view is paused."""
        if self.paused:
            return
        self.history.add(sample)
        self._sample = sample
        errors = [group.error for group in sample.groups.values() if group.error is not None]
        if sample.error is not None:
            self.fail(str(sample.error), sample.time)
        elif errors:
            more = f" (and {len(errors) - 1} more groups)" if len(errors) > 1 else ""
            self.fail(f"{errors[0]}{more}", sample.time)
        else:
            self.error, self.last_good = "", sample.time
        self._reload()

    def fail(self, error: str, now: float) -> None:
        """Shows an error until the next sample without an error."""
        self.last_good = self.last_good or now
        self.error = error

    def visible(self) -> list[str]:
        """Returns the groups on the screen, which every sample must contain."""
        if self.group is not None:
            return [self.group]
        return [row.key for row in self._rows[self._top : self._top + self._page] if isinstance(row.key, str)]

    def press(self, key: str) -> None:
        """Handles a key: a character, or a name such as `up`, `enter`, `esc`."""
        if self.typing:
            self._type(key)
        elif self.show_help:
            self.show_help = False
            self.quit = key == "q"
        elif key in ("q", "Q"):
            self.quit = True
        elif key in ("?", "h"):
            self.show_help = True
        elif key in ("p", " "):
            self.paused = not self.paused
        elif key == "/":
            self.typing = True
        elif key in ("s", "S"):
            sorts = SORTS if self.group is None else PARTITION_SORTS
            inside = self.group is not None
            step = 1 if key == "s" else -1
            self._sort[inside] = sorts[(sorts.index(self._sort[inside]) + step) % len(sorts)]
            self._reversed[inside] = False
            self._arrange()
        elif key == "r":
            self._reversed[self.group is not None] ^= True
            self._arrange()
        elif key in ("enter", "right") and self.group is None:
            self._open()
        elif key == "tab" and self.group is not None:
            self.show_members = not self.show_members
            self._selected, self._top = None, 0
        elif key in ("esc", "left", "backspace"):
            self._back()
        else:
            self._move(key)

    def _type(self, key: str) -> None:
        if key == "enter":
            self.typing = False
        elif key == "esc":
            self.typing, self.filter = False, ""
        elif key == "backspace":
            self.typing = bool(self.filter)
            self.filter = self.filter[:-1]
        elif key == "clear":
            self.filter = ""
        elif len(key) == 1 and key.isprintable():
            self.filter += key
        self._arrange()

    def _open(self) -> None:
        if isinstance(self._selected, str):
            self.group = self._selected_group = self._selected
            self.history.by_partition = {self.group}
            self._selected, self._top, self.filter, self.show_members = None, 0, "", False
            self._reload()

    def _back(self) -> None:
        if self.filter:
            self.filter = ""
        elif self.group is not None:
            self.group, self._selected, self._top = None, self._selected_group, 0
            self.history.by_partition = set()
        self._reload()

    def _move(self, key: str) -> None:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -self._page, "pgdn": self._page}
        count = len(self._entries())
        if not count:
            return
        at = self._index()
        if key in steps:
            at += steps[key]
        elif key in ("home", "g"):
            at = 0
        elif key in ("end", "G"):
            at = count - 1
        else:
            return
        at = min(max(at, 0), count - 1)
        if self._listing_members:
            self._top = at
        else:
            self._selected = self._rows[at].key

    @property
    def _listing_members(self) -> bool:
        return self.group is not None and self.show_members

    def _entries(self) -> list[Row] | list[Member]:
        return self._members() if self._listing_members else self._rows

    def _index(self) -> int:
        if self._listing_members:
            return self._top
        return next((at for at, row in enumerate(self._rows) if row.key == self._selected), 0)

    def _members(self) -> list[Member]:
        history = self.history.groups.get(self.group or "")
        members = [] if history is None else list(history.last.members or ())
        return [m for m in members if _matches(self.filter, f"{m.client_id} {m.member_id} {m.host} {m.instance_id}")]

    def _reload(self) -> None:
        """Reads the rows from the history."""
        self._all = self.history.rows() if self.group is None else self.history.partition_rows(self.group)
        self._arrange()

    def _arrange(self) -> None:
        """Filters and sorts the rows."""
        inside = self.group is not None
        rows = [row for row in self._all if _matches(self.filter, key_text(row.key))]
        self._rows = sorted_rows(rows, self._sort[inside], self._descending)
        self._needs = {
            "key": max((width_of(key_text(row.key)) for row in self._rows), default=0),
            "member": max((width_of(row.member) for row in self._rows), default=0),
        }
        if self._rows and not any(row.key == self._selected for row in self._rows):
            # Selects the row at the same height, because the selected group is gone or does not match the filter.
            self._selected = self._rows[min(self._top, len(self._rows) - 1)].key

    @property
    def _descending(self) -> bool:
        inside = self.group is not None
        return (self._sort[inside] not in ASCENDING) != self._reversed[inside]

    def lines(self, width: int, height: int, now: float, clock: float | None = None) -> list[list[Span]]:
        """Returns exactly `height` lines of `width` cells.

        Args:
            width: columns of the terminal.
            height: rows of the terminal.
            now: seconds of the monotonic clock.
            clock: seconds since 1970 for the first line; by default the current time.
        """
        lines = [self._title(width, clock), self._summary(width), *self._error(width, now)]
        if self.show_help:
            keys = [[(self._fit(f"  {keys:<15} {text}", width), "")] for keys, text in HELP]
            body = [[(self._fit("KEYS", width), "bold")], *keys]
        elif self.group is not None:
            charts = self._charts(width)
            body = [*charts, *self._table(width, height - len(lines) - len(charts) - 1)]
        else:
            body = self._table(width, height - len(lines) - 1)
        lines += body
        blank: list[Span] = [(" " * width, "")]
        lines = lines[: max(height - 1, 1)]
        lines += [blank] * (height - 1 - len(lines))
        return [*lines, self._keys(width)][:height] if height > 1 else lines[:1]

    def _title(self, width: int, clock: float | None) -> list[Span]:
        at = time.strftime("%H:%M:%S", time.localtime(clock))
        right = f"{'PAUSED' if self.paused else f'every {self.interval:g}s'}  {at}"
        left = f"samsarrow top  {self.servers}"
        if self.group is not None:
            left += f"  {printable(self.group)}"
        available = max(width - len(right) - 1, 0)
        style = "bold yellow" if self.paused else "bold"
        return [(self._fit(left, available), "bold"), (self._fit(f" {right}", width - available), style)]

    def _summary(self, width: int) -> list[Span]:
        if self._sample is None:
            return [(self._fit("" if self.error else "waiting for the first sample…", width), "dim")]
        if self.group is None:
            total, lag = len(self._all), sum(row.lag or 0 for row in self._rows)
            text = f"{len(self._rows)} of {total} groups" if self.filter else _plural(total, "group")
            _, consumed = self.history.total.rates()
            text += f"   lag {count(lag)}   {rate(consumed)} consumed/s"
            sampled = len(self._sample.groups)
            if sampled < len(self._sample.names):
                text += f"   {sampled} per sample"
        else:
            text = self._group_summary()
        if self.filter or self.typing:
            text += f"   /{printable(self.filter)}{'▏' if self.typing and not self.ascii else ''}"
        return [(self._fit(text, width), "")]

    def _group_summary(self) -> str:
        history = self.history.groups.get(self.group or "")
        if history is None:
            return "this group does not exist any more"
        last = history.last
        parts = [last.type, last.state, last.assignor]
        members = "" if last.members is None else _plural(len(last.members), "member")
        parts += [members, _plural(len(last.partitions or {}), "partition")]
        parts += [f"lag {count(history.lag)}", _plural(history.rebalances, "rebalance")]
        return "   ".join(printable(part) for part in parts if part)

    def _error(self, width: int, now: float) -> list[list[Span]]:
        """Returns the error in at most `ERROR_LINES` lines; a blank line without an error."""
        text = f"for {span(max(now - self.last_good, 0))}: {printable(self.error)}" if self.error else ""
        age = 0.0 if self._sample is None or self.paused else now - self._sample.time
        if not self.error and age > 2 * self.interval + STALE_SECONDS:
            # Requests to a lost broker end with an error after their timeout.
            text = f"no response for {span(age)}"
        lines = textwrap.wrap(text, max(width, 1)) or [""]
        return [[(self._fit(line, width), "red")] for line in lines[:ERROR_LINES]]

    def _charts(self, width: int) -> list[list[Span]]:
        history = self.history.groups.get(self.group or "")
        if history is None:
            return [[(" " * width, "")]] * 4
        produced, consumed = history.series.rates()
        made, read = history.series.speeds()
        charts = (
            ("lag", count(history.lag), history.series.trend(), "yellow"),
            ("produced/s", rate(produced), made, ""),
            ("consumed/s", rate(consumed), read, "green"),
        )
        lines: list[list[Span]] = []
        for name, value, values, style in charts:
            label = self._fit(f"{name:<10} {value:>8}  ", min(21, width))
            lines.append([(label, ""), (self._spark(values, max(width - len(label), 0)), style)])
        return [*lines, [(" " * width, "")]]

    def _table(self, width: int, height: int) -> list[list[Span]]:
        """Returns the title line and at most `height - 1` rows, with the selected row among them."""
        if self._listing_members:
            return self._member_table(width, height)
        self._page = max(height - 1, 1)
        at = self._index()
        self._top = max(min(self._top, at, len(self._rows) - self._page), at - self._page + 1, 0)
        inside = self.group is not None
        columns = columns_for(PARTITIONS if inside else GROUPS, width, self._needs)
        column = self._sort[inside]
        mark = ("▼", "▲") if not self.ascii else ("v", "^")
        titles = []
        for each, cells in columns:
            title = each.title
            if each.name == column:
                title += mark[0 if self._descending else 1]
            titles.append(self._fit(title, cells, right=each.right))
        lines: list[list[Span]] = [[(self._fit(" ".join(titles), width), "bold reverse")]]
        shown = self._rows[self._top : self._top + self._page]
        lines += [self._line(row, columns, width, selected=row.key == self._selected) for row in shown]
        if not self._rows and self._sample is not None:
            lines.append([(self._fit(self._nothing(), width), "dim")])
        return lines

    def _nothing(self) -> str:
        if self.filter:
            return f"nothing matches {self.filter!r}: esc clears the filter"
        return "no partitions with committed offsets" if self.group is not None else "no groups"

    def _line(self, row: Row, columns: list[tuple[Column, int]], width: int, selected: bool) -> list[Span]:
        spans: list[Span] = []
        for at, (column, cells) in enumerate(columns):
            text, style = self._cell(row, column, cells)
            fitted = self._fit(text, cells, right=column.right, middle=column.name in NAMES)
            spans.append((fitted + (" " if at < len(columns) - 1 else ""), style))
        used = sum(width_of(text) for text, _ in spans)
        spans.append((" " * max(width - used, 0), ""))
        if used > width:
            spans = [(self._fit("".join(text for text, _ in spans), width), "")]
        return [(text, "reverse") for text, _ in spans] if selected else spans

    def _cell(self, row: Row, column: Column, cells: int) -> Span:
        name = column.name
        if name == "key":
            return key_text(row.key), "red" if row.error else ""
        if name == "trend":
            return self._spark(row.trend(), cells), "yellow" if row.lag else "dim"
        if name in ("produced", "consumed"):
            return rate(getattr(row, name)), ""
        if name == "eta":
            return span(row.eta), "red" if row.lag and row.eta == float("inf") else ""
        if name in ("lag", "rebalances", "members", "partitions"):
            return count(getattr(row, name)), ""
        if name in ("offset", "end"):
            number = getattr(row, name)
            text = "-" if number is None else f"{number:,}"
            return (text if len(text) <= cells else count(number)), ""
        if name == "state":
            return SHORT_STATES.get(row.state, row.state) or "-", _state_style(row.state)
        return getattr(row, name) or "-", ""

    def _member_table(self, width: int, height: int) -> list[list[Span]]:
        members = self._members()
        self._page = max(height - 1, 1)
        self._top = max(min(self._top, len(members) - self._page), 0)
        columns = columns_for(
            (
                Column("member", "MEMBER", 16, 40),
                Column("partitions", "PARTS", 6, 6, right=True),
                Column("assignment", "ASSIGNMENT", 16, 200, rank=1),
                Column("instance_id", "INSTANCE ID", 12, 12, rank=2),
            ),
            width,
        )
        heads = " ".join(self._fit(column.title, cells, right=column.right) for column, cells in columns)
        lines: list[list[Span]] = [[(self._fit(heads, width), "bold reverse")]]
        for member in members[self._top : self._top + self._page]:
            cells = {
                "member": owner_text(member.client_id, member.host),
                "partitions": str(member.tasks),
                "assignment": " ".join(key_text(tp) for tp in member.assignment) or "-",
                "instance_id": member.instance_id or "-",
            }
            line = " ".join(
                self._fit(cells[column.name], size, right=column.right, middle=column.name in NAMES)
                for column, size in columns
            )
            lines.append([(self._fit(line, width), "")])
        if not members:
            lines.append([(self._fit("no members", width), "dim")])
        return lines

    def _keys(self, width: int) -> list[Span]:
        if self.typing:
            text = "type a name, part of a name or a pattern   enter apply   esc clear"
        elif self.show_help:
            text = "q quit  any other key returns"
        elif self.group is None:
            text = "q quit  ↑↓ select  enter details  s sort  r reverse  / filter  p pause  ? help"
        else:
            other = "partitions" if self.show_members else "members"
            text = f"q quit  esc back  tab {other}  s sort  r reverse  / filter  p pause  ? help"
        return [(self._fit(text, width), "dim")]

    def _fit(self, text: str, width: int, *, right: bool = False, middle: bool = False) -> str:
        if not self.ascii:
            return fit(text, width, right=right, middle=middle)
        for symbol, name in ASCII.items():
            text = text.replace(symbol, name)
        plain = text.encode("ascii", "replace").decode()
        return fit(plain, width, right=right, ellipsis="~", middle=middle)

    def _spark(self, values: list[float | None], width: int) -> str:
        return sparkline(values, width, ASCII_BARS if self.ascii else BARS)


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def key_text(key: str | TopicPartition) -> str:
    """Returns the name of a group, or a partition as text: orders-0."""
    return f"{key.topic}-{key.partition}" if isinstance(key, TopicPartition) else key


def _matches(pattern: str, text: str) -> bool:
    """True if a text contains the pattern or matches it as a whole. Case is ignored."""
    pattern, text = pattern.lower(), text.lower()
    return pattern in text or (is_pattern(pattern) and fnmatchcase(text, pattern))


def _state_style(state: str) -> str:
    if state == "Stable":
        return "green"
    return "dim" if state in ("Empty", "Dead", "") else "yellow"
