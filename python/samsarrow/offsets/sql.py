"""Store of offsets in a database, which can store them in the same transaction as results."""

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
    check_group,
    listed,
    normal,
    only,
)
from samsarrow.types import OffsetAndMetadata, TopicPartition

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")
_KEY = "group_id = {} AND topic = {} AND partition_id = {}"
# Column types that all common databases support under these names. The lengths are Kafka's limits.
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
    """Store of a group's offsets in a database table, through any DB-API 2.0 connection.

    With a cursor, `store` joins the cursor's transaction, so that results and offsets are committed together or not at
    all. Each record then takes effect exactly once, even after a crash. Without a cursor, every method runs and commits
    its own transaction, so do not call it while your transaction is open.

    A worker that takes over partitions calls `claim`. From then on, transactions of the previous worker, which may not
    know yet that it was replaced, fail with `FencedOwnerError`.

    Args:
        connection: connection that is not in autocommit mode. The store does not close it. Only one thread may use it
            at a time.
        group: name of the group.
        table: name of the table, optionally with a schema; created if it does not exist.
        owner: human-readable name of this worker, stored in the table.
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
        if not callable(getattr(connection, "cursor", None)):
            kind = type(connection).__name__
            raise TypeError(
                f"connection must be an open database connection, such as sqlite3.connect(path), not {kind}"
            )
        if not isinstance(table, str):
            raise TypeError(f"table must be text, not {type(table).__name__}")
        if not _IDENTIFIER.fullmatch(table):
            raise ConfigurationError(
                f"{table!r} is not a valid table name: use letters, digits and _, with a schema before a dot"
            )
        self.group = check_group(group)
        self.owner = owner
        self._connection = connection
        self._table = table
        style = paramstyle or _paramstyle(connection)
        if style not in _PLACEHOLDERS:
            raise ConfigurationError(f"paramstyle {style!r} is not one of {', '.join(_PLACEHOLDERS)}")
        self._placeholder = _PLACEHOLDERS[style]
        self._by_name = style in ("named", "pyformat")
        self._claims: dict[TopicPartition, int] = {}
        self._create()

    def __repr__(self) -> str:
        owner = "" if self.owner is None else f" owner={self.owner!r}"
        return f"<{type(self).__name__} group={self.group!r} table={self._table!r}{owner}>"

    def _run(self, cursor: Any, sql: str, *values: object) -> None:
        """Executes a statement, in which each `{}` is replaced by a placeholder in the paramstyle."""
        text = sql.format(*(self._placeholder(i) for i in range(1, len(values) + 1)))
        parameters: Any = {f"p{i}": value for i, value in enumerate(values, 1)} if self._by_name else values
        cursor.execute(text, parameters) if values else cursor.execute(text)

    def _in_transaction(self, work: Callable[[Any], Any]) -> Any:
        """Calls `work` with a cursor in a separate transaction, and commits it."""
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
            self._in_transaction(lambda cursor: cursor.execute(_CREATE.format(table=self._table)))
        except Exception:
            # Another worker may have created the table, and a user without the right to create tables may still use it.
            select = f"SELECT group_id FROM {self._table} WHERE 1 = 0"  # noqa: S608
            try:
                self._in_transaction(lambda cursor: cursor.execute(select))
            except Exception as error:
                error.add_note(f"table {self._table} does not exist and could not be created")
                raise

    def load(self, partitions: Iterable[TopicPartition] | None = None, *, cursor: Any = None) -> Found:
        """Returns stored offsets.

        Args:
            partitions: partitions to return; by default all stored ones.
            cursor: cursor that reads the offsets, within its transaction.
        """
        rows = self._rows(cursor) if cursor is not None else self._in_transaction(self._rows)
        stored = {tp: offset for tp, (offset, _, _) in rows.items() if offset is not None}
        return only(stored, partitions)

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
        """Takes over partitions from their owner, in a separate transaction, and returns the offsets to continue from.

        Waits for transactions of the previous owner that have already stored offsets of these partitions. Its
        transactions that store offsets later will fail.

        Args:
            partitions: partitions that this worker owns from now on.

        Returns:
            The offset of each partition, None without a stored offset.
        """
        # Partitions are claimed in sorted order, so that workers that claim the same partitions cannot deadlock.
        claimed = listed(partitions)
        try:
            rows = self._in_transaction(lambda cursor: self._take(cursor, sorted(set(claimed))))
        except Exception as error:
            # Another worker has just inserted the missing row, which this worker can now take over.
            if not any(cls.__name__ == "IntegrityError" for cls in type(error).__mro__):
                raise
            rows = self._in_transaction(lambda cursor: self._take(cursor, sorted(set(claimed))))
        self._claims |= {tp: rows[tp][1] for tp in claimed}
        return {tp: rows[tp][0] for tp in claimed}

    def _take(
        self, cursor: Any, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[OffsetAndMetadata | None, int, str | None]]:
        update = f"UPDATE {self._table} SET generation = generation + 1, owner = {{}} WHERE {_KEY}"  # noqa: S608
        for tp in partitions:
            self._run(cursor, update, self.owner, self.group, *tp)
            if cursor.rowcount == 0:
                self._insert(cursor, tp, None, 1)
        return self._rows(cursor)

    def _insert(self, cursor: Any, tp: TopicPartition, offset: OffsetAndMetadata | None, generation: int) -> None:
        columns = "group_id, topic, partition_id, next_offset, metadata, leader_epoch, generation, owner"
        next_offset, metadata, epoch = (None, "", None) if offset is None else offset
        self._run(
            cursor,
            f"INSERT INTO {self._table} ({columns}) VALUES ({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}})",  # noqa: S608
            self.group, *tp, next_offset, metadata, epoch, generation, self.owner,
        )  # fmt: skip

    def store(self, offsets: Offsets, cursor: Any = None, *, backwards: bool = False) -> None:
        """Stores offsets.

        Args:
            offsets: offsets by partition; other partitions stay unchanged.
            cursor: cursor of the transaction to join, which the caller commits or rolls back. Without a cursor, the
                offsets are stored in a separate transaction.
            backwards: whether an offset may be smaller than the stored one.

        Raises:
            FencedOwnerError: another owner has claimed a partition. Roll back, and stop working on the partition.
            BackwardsOffsetError: an offset is smaller than the stored offset. Roll back.
            ConfigurationError: no cursor is passed, and the connection is in autocommit mode.
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
        self._in_transaction(lambda own_cursor: self._store(own_cursor, new, backwards))

    def _store(self, cursor: Any, offsets: list[tuple[TopicPartition, OffsetAndMetadata]], backwards: bool) -> None:
        change = f"UPDATE {self._table} SET next_offset = {{}}, metadata = {{}}, leader_epoch = {{}} WHERE {_KEY}"  # noqa: S608
        # The update locks the row, so that a worker that claims the partition waits until the transaction ends, and
        # vice versa.
        change += " AND generation = {}"
        forward = change + " AND (next_offset IS NULL OR next_offset <= {})"
        for tp, offset in offsets:
            generation = self._claims.get(tp, 0)
            values = (*offset, self.group, *tp, generation)
            if backwards:
                self._run(cursor, change, *values)
            else:
                self._run(cursor, forward, *values, offset.offset)
            if cursor.rowcount != 1:
                self._insert_or_raise(cursor, tp, offset, generation, backwards)

    def _insert_or_raise(
        self, cursor: Any, tp: TopicPartition, offset: OffsetAndMetadata, generation: int, backwards: bool
    ) -> None:
        """Called when an update has changed no row. Inserts the row if it is missing, otherwise raises the reason."""
        name = f"{tp.topic}-{tp.partition} of group {self.group}"
        sql = f"SELECT next_offset, generation, owner FROM {self._table} WHERE {_KEY}"  # noqa: S608
        self._run(cursor, sql, self.group, *tp)
        row = cursor.fetchone()
        if row is None and generation == 0:
            self._insert(cursor, tp, offset, 0)
        elif row is None:
            raise FencedOwnerError(f"{name} is no longer in table {self._table}, where this worker had claimed it")
        elif row[1] != generation:
            other = f"claimed by {row[2] or 'another owner'} (generation {row[1]})"
            own = f"this worker's claim is of generation {generation}" if generation else "this worker never claimed it"
            raise FencedOwnerError(f"{name} is {other}, and {own}")
        elif row[0] is not None and row[0] > offset.offset and not backwards:
            raise BackwardsOffsetError(
                f"{name} would move back from offset {row[0]} to {offset.offset}: store with backwards=True to allow it"
            )
        elif row[0] != offset.offset:
            raise OffsetStoreError(
                f"{name} is at {row[0]} in table {self._table} and did not change to {offset.offset}"
            )
        # If no error was raised, the row already had these values, and the database counts only rows that change.

    def close(self) -> None:
        """Drops the claims of this store. The connection stays open. May be called again."""
        self._claims.clear()


_PLACEHOLDERS: dict[str, Callable[[int], str]] = {
    "qmark": lambda _: "?",
    "numeric": lambda i: f":{i}",
    "format": lambda _: "%s",
    "named": lambda i: f":p{i}",
    "pyformat": lambda i: f"%(p{i})s",
}


def _paramstyle(connection: Any) -> str:
    """Returns the `paramstyle` of the module that defines the connection's class, or one of its base classes."""
    for cls in type(connection).__mro__:
        parts = cls.__module__.split(".")
        for end in range(len(parts), 0, -1):
            style = getattr(sys.modules.get(".".join(parts[:end])), "paramstyle", None)
            if isinstance(style, str):
                return style
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise ConfigurationError(f"{kind} does not declare its paramstyle: pass it, for example paramstyle='format'")


def _autocommits(connection: Any) -> bool:
    """Returns whether the connection is in autocommit mode.

    A sqlite3 connection is also in autocommit mode if `isolation_level` is None, and its `autocommit` may be a constant
    that is not a bool.
    """
    autocommit = getattr(connection, "autocommit", None)
    if isinstance(autocommit, bool):
        return autocommit
    return getattr(connection, "isolation_level", "") is None and type(connection).__module__ == "sqlite3"
