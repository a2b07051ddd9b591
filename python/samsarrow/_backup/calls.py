"""Bodies of `samsarrow.backup`, with a progress bar that the caller chooses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from samsarrow._backup.errors import BackupIncompleteError
from samsarrow._backup.files import check_bytes, check_layout, check_records
from samsarrow._backup.folder import read_manifest
from samsarrow._backup.making import BackupRun
from samsarrow._backup.manifest import Manifest
from samsarrow._backup.options import ClientOptions
from samsarrow._backup.restoring import RestoreRun
from samsarrow._backup.results import BackupResult, Bar, RestoredTopic, RestoreResult
from samsarrow.exceptions import ConfigurationError
from samsarrow.ranges import OnDataLoss
from samsarrow.types import Seconds, Setting, check_topic, to_seconds, to_setting

CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
"""Compression codecs of the files."""


def backup(
    topics: Iterable[str],
    path: str | os.PathLike[str],
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    groups: Iterable[str] | Literal["all"] = (),
    on_data_loss: OnDataLoss,
    file_size: int,
    compression: str,
    if_exists: bool,
    timeout: Seconds | None,
    bar: Bar,
) -> BackupResult:
    """Backs up topics, as `samsarrow.backup.backup` does."""
    names = _names("topics", topics)
    for name in names:
        check_topic(name)
    if on_data_loss not in ("raise", "skip"):
        raise ConfigurationError(f"on_data_loss is 'raise' or 'skip', not {on_data_loss!r}")
    if compression not in CODECS:
        raise ConfigurationError(f"compression is one of {', '.join(CODECS)}, not {compression!r}")
    if not isinstance(file_size, int) or file_size < 1:
        raise ConfigurationError(f"file_size is a number of bytes of at least 1, not {file_size!r}")
    run = BackupRun(
        names,
        Path(path),
        ClientOptions(config, options),
        "all" if groups == "all" else _names("groups", groups, empty=True),
        on_data_loss,
        file_size,
        compression,
        if_exists,
        to_seconds(timeout),
        bar,
    )
    manifest = run.run()
    result = BackupResult(
        manifest, run.new_rows.total(), run.new_size, run.resumed, tuple(run.lost), dict(run.new_rows),
        tuple(name for name in run.missing if name in manifest.topics),
    )  # fmt: skip
    if run.failures:
        text = "; ".join(f"{name}: {error}" for name, error in run.failures.items())
        incomplete = BackupIncompleteError(
            f"{len(run.failures)} of {len({*names, *manifest.topics})} topics were not backed up: {text}",
            result,
            run.failures,
        )
        for note in dict.fromkeys(note for error in run.failures.values() for note in getattr(error, "__notes__", ())):
            incomplete.add_note(note)
        raise incomplete from next(iter(run.failures.values()))
    return result


def restore(
    path: str | os.PathLike[str],
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    topics: Iterable[str] | None,
    topic_map: Mapping[str, str] | None,
    configs: Mapping[str, Setting | None] | None,
    replication_factor: int | None,
    groups: Iterable[str] | None,
    dry_run: bool,
    timeout: Seconds | None,
    bar: Bar,
) -> RestoreResult:
    """Restores topics, as `samsarrow.backup.restore` does."""
    folder = Path(path)
    manifest = read_manifest(folder)
    chosen = sorted(manifest.topics) if topics is None else _names("topics", topics)
    for argument, mapping in (("topic_map", topic_map), ("configs", configs)):
        if not isinstance(mapping, Mapping | None):
            raise TypeError(f"{argument} is a dict, not {type(mapping).__name__}")
    new_names = dict(topic_map or {})
    for kind, names, known in (
        ("topics", chosen, manifest.topics),
        ("topic_map", list(new_names), chosen),
        ("groups", chosen_groups := _names("groups", manifest.groups if groups is None else groups, empty=True),
         manifest.groups),
    ):  # fmt: skip
        if missing := [name for name in names if name not in known]:
            raise ConfigurationError(
                f"{kind}: the backup in {folder} has no {missing[0]}, but {', '.join(sorted(known)) or 'none'}"
            )
    targets = {name: new_names.get(name, name) for name in chosen}
    for name in targets.values():
        check_topic(name)
    if len(set(targets.values())) < len(targets):
        raise ConfigurationError("topic_map: two topics would be restored to the same name")
    replicas_ok = replication_factor is None or (
        type(replication_factor) is int and (replication_factor == -1 or replication_factor > 0)
    )
    if not replicas_ok:
        raise ConfigurationError(
            f"replication_factor is a number of replicas, or -1 for the brokers' default, not {replication_factor!r}"
        )
    changed = {name: to_setting(name, value) for name, value in (configs or {}).items() if value is not None}
    run = RestoreRun(
        folder,
        manifest,
        ClientOptions(config, options),
        targets,
        changed,
        [name for name, value in (configs or {}).items() if value is None],
        replication_factor,
        chosen_groups,
        to_seconds(timeout),
        bar,
        dry_run,
    )
    run.run()
    restored = (
        RestoredTopic(t.name, t.backup.name, t.backup.rows, t.written, t.state, tuple(t.warnings), t.backup.error)
        for t in run.targets
    )
    return RestoreResult(tuple(restored), run.offsets)


def verify(path: str | os.PathLike[str], *, bar: Bar) -> Manifest:
    """Compares a backup with its manifest, as `samsarrow.backup.verify` does."""
    folder = Path(path)
    manifest = read_manifest(folder)
    with bar("verifying", manifest.size, "B") as advance:
        for topic in manifest.topics.values():
            for partition in topic.partitions:
                for file in partition.files:
                    check_bytes(folder, file, advance)
                    check_layout(folder, file, topic.name, partition.partition)
                    check_records(folder, file, topic.name, partition.partition)
    return manifest


def _names(argument: str, names: Iterable[str], *, empty: bool = False) -> list[str]:
    """Returns distinct names.

    Raises:
        TypeError: the argument is one text, or a name is not a text.
        ConfigurationError: the argument is empty.
    """
    if isinstance(names, str):
        raise TypeError(f"{argument} are several names, not one str: [{names!r}]")
    found = list(dict.fromkeys(names))
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"{argument} are names, not {type(name).__name__}")
    if not found and not empty:
        raise ConfigurationError(f"{argument} has no names")
    return found
