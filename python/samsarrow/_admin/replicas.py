"""Replicas: who leads, where they are, on which disks.

Each function gives the call that both `Admin` and `AsyncAdmin` make; they have the documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from samsarrow import _core
from samsarrow._admin.arguments import names_arguments
from samsarrow._admin.common import to_partition as _tp
from samsarrow.cluster_types import (
    ElectionType,
    LogDir,
    PartitionReassignment,
    Replica,
    ReplicaInfo,
)
from samsarrow.results import Results, reads, writes
from samsarrow.types import (
    Seconds,
    TopicPartition,
    to_pair,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call


@names_arguments
def elect_leaders(
    core: _core.Admin,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    election: ElectionType = ElectionType.PREFERRED,
    timeout: Seconds | None = None,
) -> Call[dict[TopicPartition, bool]]:
    some = None if partitions is None else [to_pair(tp) for tp in partitions]
    done = _core.admin_elect_leaders(core, ElectionType(election).value, some, to_seconds(timeout))
    return done.then(writes(_tp, lambda key, changed: changed))


@names_arguments
def alter_reassignments(
    core: _core.Admin,
    replicas: Mapping[TopicPartition, Iterable[int] | None],
    *,
    allow_replication_factor_change: bool = True,
    timeout: Seconds | None = None,
) -> Call[dict[TopicPartition, None]]:
    plain = [(to_pair(tp), None if its is None else list(its)) for tp, its in replicas.items()]
    done = _core.admin_alter_reassignments(core, plain, allow_replication_factor_change, to_seconds(timeout))
    return done.then(writes(_tp))


@names_arguments
def list_reassignments(
    core: _core.Admin, partitions: Iterable[TopicPartition] | None = None, *, timeout: Seconds | None = None
) -> Call[dict[TopicPartition, PartitionReassignment]]:
    some = None if partitions is None else [to_pair(tp) for tp in partitions]
    found = _core.admin_list_reassignments(core, some, to_seconds(timeout))
    return found.then(lambda rows: {_tp(tp): PartitionReassignment(*map(tuple, its)) for tp, its in rows})


@names_arguments
def log_dirs(
    core: _core.Admin, brokers: Iterable[int] | None = None, *, timeout: Seconds | None = None
) -> Call[Results[int, tuple[LogDir, ...]]]:
    some = None if brokers is None else list(brokers)
    found = _core.admin_log_dirs(core, some, to_seconds(timeout))
    return found.then(reads(int, _dirs, (int, tuple[LogDir])))


@names_arguments
def move_replicas(
    core: _core.Admin, replicas: Mapping[Replica, str], *, timeout: Seconds | None = None
) -> Call[dict[Replica, None]]:
    plain = [(((at.topic, at.partition), at.broker), path) for at, path in replicas.items()]
    done = _core.admin_move_replicas(core, plain, to_seconds(timeout))
    return done.then(writes(lambda raw: Replica(raw[0][0], raw[0][1], raw[1])))


def _dirs(rows: list[tuple[Any, ...]]) -> tuple[LogDir, ...]:
    made = []
    for path, replicas, error, total, usable, cordoned in rows:
        its = tuple(ReplicaInfo(_tp(tp), size, lag, future) for tp, size, lag, future in replicas)
        made.append(LogDir(path, its, error, total, usable, cordoned))
    return tuple(made)
