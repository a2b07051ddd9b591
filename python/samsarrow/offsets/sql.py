"""Offsets in a database, in the same transaction as results."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from samsarrow.exceptions import ConfigurationError
from samsarrow.offsets.store import (
    BackwardsOffsetError,
    FencedOwnerError,
    Found,
    Offsets,
    OffsetStoreError,
    normal,
    only,
)
from samsarrow.types import OffsetAndMetadata, TopicPartition

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_KEY = "group_id = {} AND topic = {} AND partition_id = {}"
# Types that every common database knows under these names; the lengths are those of Kafka's own limits.
_CREATE = """CREATE TABLE IF NOT EXISTS {table} (
    group_id VARCHAR(255) NOT NULL,
    topic VARCHAR(249) NOT NULL,
    partition_id INTEGER NOT NULL,
    next_offset BIGINT,
    metadata VARCHAR(4096) NOT NULL,
    leader_epoch INTEGER,
    generation BIGINT NOT NULL,
    owner VARCHAR(255),
    PRIMARY KEY (group_id, topic, partition_id)
)"""


class SqlOffsetStore:
    """Offsets of a group in a table, through any DB-API 2.0 connection.

    With a cursor, `store` joins the cursor's transaction, so that results and offsets are committed together or not at
    all: each record counts exactly once, whatever crashes. Without a cursor, every method runs and commits a
    transaction of its own: do not call it within yours.

    A worker that takes over partitions calls `claim`. From then on a transaction of the previous worker, which may not
    know yet that it was replaced, fails with `FencedOwnerError`.

    Args:
        connection: a connection that is not in autocommit mode. The store does not close it. One thread uses it at a
            time.
        group: name of the group.
        table: name of the table, optionally with a schema; created if it does not exist.
        owner: name of this worker in the table, for people.
        paramstyle: parameter style of the connection's module, by default the module's own.

    Raises:
        ConfigurationError: the name of the table or the paramstyle is invalid.
    """

    def __init__(
        self,
        connection: Any,
        group: str,
        *,
        table: str = "samsarrow_offsets",
        owner: str | None = None,
        paramstyle: str | None = None,
    ) -> None:
        if not _IDENTIFIER.fullmatch(table):
            raise ConfigurationError(
                f"{table!r} is not a valid table name: use letters, digits and _, with a schema before a dot"
            )
        self.group = group
        self.owner = owner
        self._connection = connection
        self._table = table
        style = paramstyle or _paramstyle(connection)
        if style not in _PLACEHOLDERS:
            raise ConfigurationError(f"paramstyle {style!r} is none of {', '.join(_PLACEHOLDERS)}")
        self._placeholder = _PLACEHOLDERS[style]
        self._by_name = style in ("named", "pyformat")
        self._claims: dict[TopicPartition, int] = {}
        self._create()

    def _run(self, cursor: Any, sql: str, *values: object) -> None:
        """Executes a statement whose `{}` stand for values."""
        text = sql.format(*(self._placeholder(i) for i in range(1, len(values) + 1)))
        bound: Any = {f"p{i}": value for i, value in enumerate(values, 1)} if self._by_name else values
        cursor.execute(text, bound) if values else cursor.execute(text)

    def _alone(self, work: Callable[[Any], Any]) -> Any:
        """Does `work` with a cursor in a transaction of its own."""
        cursor = self._connection.cursor()
        try:
            result = work(cursor)
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            cursor.close()
        return result

    def _create(self) -> None:
        try:
            self._alone(lambda cursor: cursor.execute(_CREATE.format(table=self._table)))
        except Exception:
            # Another worker may have made it at the same moment; and who may not create may still use what is there.
            try:
                self._alone(lambda cursor: cursor.execute(f"SELECT group_id FROM {self._table} WHERE 1 = 0"))  # noqa: S608
            except Exception as absent:
                absent.add_note(f"table {self._table} does not exist and could not be created")
                raise

    def load(self, partitions: Iterable[TopicPartition] | None = None, *, cursor: Any = None) -> Found:
        """Returns stored offsets.

        Args:
            partitions: partitions to return; by default all stored ones.
            cursor: cursor to read with, in its transaction.
        """
        rows = self._rows(cursor) if cursor is not None else self._alone(self._rows)
        found = {tp: at for tp, (at, _, _) in rows.items() if at is not None}
        return only(found, partitions)

    def _rows(self, cursor: Any) -> dict[TopicPartition, tuple[OffsetAndMetadata | None, int, str | None]]:
        columns = "topic, partition_id, next_offset, metadata, leader_epoch, generation, owner"
        self._run(cursor, f"SELECT {columns} FROM {self._table} WHERE group_id = {{}}", self.group)  # noqa: S608
        return {
            TopicPartition(topic, partition): (
                None if offset is None else OffsetAndMetadata(offset, metadata, epoch),
                generation,
                owner,
            )
            for topic, partition, offset, metadata, epoch, generation, owner in cursor.fetchall()
        }

    def claim(self, partitions: Iterable[TopicPartition]) -> Found:
        """Takes over partitions from their owner, in a separate transaction, and returns where to continue.

        Waits for a transaction of the previous owner that has already stored offsets of them; one that has not will
        fail.

        Args:
            partitions: partitions that this worker owns from now on.

        Returns:
            The offset of each partition, None without a stored offset.
        """
        # One order for all: workers that claim the same partitions must not wait for each other in a circle.
        wanted = [TopicPartition(*tp) for tp in partitions]
        try:
            rows = self._alone(lambda cursor: self._take(cursor, sorted(set(wanted))))
        except Exception as error:
            # Another worker has just made a row that was not there: now it is, and can be taken over.
            if not any(cls.__name__ == "IntegrityError" for cls in type(error).__mro__):
                raise
            rows = self._alone(lambda cursor: self._take(cursor, sorted(set(wanted))))
        self._claims |= {tp: rows[tp][1] for tp in wanted}
        return {tp: rows[tp][0] for tp in wanted}

    def _take(
        self, cursor: Any, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[OffsetAndMetadata | None, int, str | None]]:
        update = f"UPDATE {self._table} SET generation = generation + 1, owner = {{}} WHERE {_KEY}"  # noqa: S608
        for tp in partitions:
            self._run(cursor, update, self.owner, self.group, *tp)
            if cursor.rowcount == 0:
                self._insert(cursor, tp, None, 1)
        return self._rows(cursor)

    def _insert(self, cursor: Any, tp: TopicPartition, at: OffsetAndMetadata | None, generation: int) -> None:
        columns = "group_id, topic, partition_id, next_offset, metadata, leader_epoch, generation, owner"
        offset, metadata, epoch = (None, "", None) if at is None else at
        self._run(
            cursor,
            f"INSERT INTO {self._table} ({columns}) VALUES ({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}})",  # noqa: S608
            self.group, *tp, offset, metadata, epoch, generation, self.owner,
        )  # fmt: skip

    def store(self, offsets: Offsets, cursor: Any = None, *, backwards: bool = False) -> None:
        """Stores offsets.

        Args:
            offsets: offsets by partition; other partitions stay unchanged.
            cursor: of the transaction to take part in; its owner commits it or rolls it back.
                Without one this is a transaction of its own.
            backwards: whether an offset may be smaller than the one that is stored.

        Raises:
            FencedOwnerError: another owner has claimed a partition: roll back, and stop working on it.
            BackwardsOffsetError: an offset would go back: roll back.
            ConfigurationError: there is no cursor, and the connection commits each statement by itself.
        """
        new = sorted(normal(offsets).items())
        if cursor is not None:
            self._store(cursor, new, backwards)
            return
        if _autocommits(self._connection):
            raise ConfigurationError(
                "the connection commits each statement by itself, so offsets of several partitions would not be stored "
                "together: switch autocommit off, or give a cursor that is in a transaction"
            )
        self._alone(lambda own: self._store(own, new, backwards))

    def _store(self, cursor: Any, offsets: list[tuple[TopicPartition, OffsetAndMetadata]], backwards: bool) -> None:
        change = f"UPDATE {self._table} SET next_offset = {{}}, metadata = {{}}, leader_epoch = {{}} WHERE {_KEY}"  # noqa: S608
        # Anyone who claims a partition waits for this row until the transaction ends, and the other way round.
        change += " AND generation = {}"
        forward = change + " AND (next_offset IS NULL OR next_offset <= {})"
        for tp, at in offsets:
            generation = self._claims.get(tp, 0)
            values = (*at, self.group, *tp, generation)
            if backwards:
                self._run(cursor, change, *values)
            else:
                self._run(cursor, forward, *values, at.offset)
            if cursor.rowcount != 1:
                self._explain(cursor, tp, at, generation, backwards)

    def _explain(
        self, cursor: Any, tp: TopicPartition, at: OffsetAndMetadata, generation: int, backwards: bool
    ) -> None:
        """Why no row changed; or makes it, if there was none."""
        name = f"{tp.topic}-{tp.partition} of group {self.group}"
        sql = f"SELECT next_offset, generation, owner FROM {self._table} WHERE {_KEY}"  # noqa: S608
        self._run(cursor, sql, self.group, *tp)
        row = cursor.fetchone()
        if row is None and generation == 0:
            self._insert(cursor, tp, at, 0)
        elif row is None:
            raise FencedOwnerError(f"{name} is no longer in table {self._table}, where this worker had claimed it")
        elif row[1] != generation:
            who = f"claimed by {row[2] or 'another owner'} (generation {row[1]})"
            mine = (
                f"this worker's claim is of generation {generation}" if generation else "this worker never claimed it"
            )
            raise FencedOwnerError(f"{name} is {who}, and {mine}")
        elif row[0] is not None and row[0] > at.offset and not backwards:
            raise BackwardsOffsetError(
                f"{name} would move back from offset {row[0]} to {at.offset}: store with backwards=True to allow it"
            )
        elif row[0] != at.offset:
            raise OffsetStoreError(f"{name} is at {row[0]} in table {self._table} and did not change to {at.offset}")
        # Else the row was so already, and the database counts only rows that change.

    def close(self) -> None:
        """Forgets the claims; the connection stays open. May be called again."""
        self._claims.clear()


_PLACEHOLDERS: dict[str, Callable[[int], str]] = {
    "qmark": lambda _: "?",
    "numeric": lambda i: f":{i}",
    "format": lambda _: "%s",
    "named": lambda i: f":p{i}",
    "pyformat": lambda i: f"%(p{i})s",
}


def _paramstyle(connection: Any) -> str:
    """What the module of the connection says, or the one of a class that it is derived from."""
    for cls in type(connection).__mro__:
        parts = cls.__module__.split(".")
        for end in range(len(parts), 0, -1):
            style = getattr(sys.modules.get(".".join(parts[:end])), "paramstyle", None)
            if isinstance(style, str):
                return style
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise ConfigurationError(f"{kind} does not declare its paramstyle: pass it, for example paramstyle='format'")


def _autocommits(connection: Any) -> bool:
    """Whether each statement is a transaction. sqlite3 has two ways to say so, and a third value of `autocommit`."""
    autocommit = getattr(connection, "autocommit", None)
    if isinstance(autocommit, bool):
        return autocommit
    return getattr(connection, "isolation_level", "") is None and type(connection).__module__ == "sqlite3"
