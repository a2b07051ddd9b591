"""Settings and quotas.

Each function gives the call that both `Admin` and `AsyncAdmin` make; they have the documentation.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from samsarrow import _core
from samsarrow._admin.arguments import names_arguments
from samsarrow.admin_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigSynonym,
    ConfigType,
)
from samsarrow.cluster_types import (
    ANY,
    QuotaEntity,
)
from samsarrow.exceptions import KafkaError
from samsarrow.results import Results, reads, writes
from samsarrow.types import (
    Seconds,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call

T = TypeVar("T")
E = TypeVar("E", bound=enum.IntEnum)


@names_arguments
def describe_configs(
    core: _core.Admin,
    resources: Iterable[ConfigResource] | Mapping[ConfigResource, Iterable[str] | None],
    *,
    synonyms: bool = False,
    documentation: bool = False,
    timeout: Seconds | None = None,
) -> Call[Results[ConfigResource, dict[str, ConfigEntry]]]:
    wanted = resources if isinstance(resources, Mapping) else dict.fromkeys(resources)
    plain = [(_resource(of), None if names is None else list(names)) for of, names in wanted.items()]
    found = _core.admin_describe_configs(core, plain, synonyms, documentation, to_seconds(timeout))
    return found.then(_configs)


@names_arguments
def alter_configs(
    core: _core.Admin,
    changes: Mapping[ConfigResource, ConfigChange | Mapping[str, str | None]],
    *,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[ConfigResource, None]]:
    plain = [(_resource(of), _changes(change)) for of, change in changes.items()]
    return _core.admin_alter_configs(core, plain, validate_only, to_seconds(timeout)).then(writes(_of))


@names_arguments
def list_config_resources(
    core: _core.Admin, types: Iterable[ConfigResourceType] = (), *, timeout: Seconds | None = None
) -> Call[tuple[ConfigResource, ...]]:
    kinds = [ConfigResourceType(kind).value for kind in types]
    found = _core.admin_list_config_resources(core, kinds, to_seconds(timeout))
    return found.then(lambda rows: tuple(_of(row) for row in rows))


@names_arguments
def describe_quotas(
    core: _core.Admin,
    components: Mapping[str, str | Any | None] | None = None,
    *,
    strict: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[QuotaEntity, dict[str, float]]]:
    plain = []
    for kind, name in (components or {}).items():
        matching = 2 if name is ANY else 1 if name is None else 0
        plain.append((kind, matching, name if matching == 0 else None))
    found = _core.admin_describe_quotas(core, plain, strict, to_seconds(timeout))
    return found.then(lambda rows: {_entity(row): dict(quotas) for row, quotas in rows})


@names_arguments
def alter_quotas(
    core: _core.Admin,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[QuotaEntity, None]]:
    plain = [(list(entity.parts.items()), list(its.items())) for entity, its in changes.items()]
    return _core.admin_alter_quotas(core, plain, validate_only, to_seconds(timeout)).then(writes(_entity))


def _resource(of: ConfigResource) -> tuple[int, str]:
    if not isinstance(of, ConfigResource):
        raise TypeError(f"expected a ConfigResource such as ConfigResource.topic('t'), not {of!r}")
    return of.type.value, of.name


def _known(kind: type[E], code: int) -> E:
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def _of(row: tuple[int, str]) -> ConfigResource:
    return ConfigResource(_known(ConfigResourceType, row[0]), row[1])


def _changes(given: ConfigChange | Mapping[str, str | None]) -> list[tuple[str, int, str | None]]:
    if not isinstance(given, ConfigChange):
        kept = {name: value for name, value in given.items() if value is not None}
        given = ConfigChange(set=kept, delete=tuple(name for name, value in given.items() if value is None))
    rows: list[tuple[str, int, str | None]] = [(name, 1, None) for name in given.delete]
    for operation, values in ((0, given.set), (2, given.append), (3, given.subtract)):
        rows += [(name, operation, value) for name, value in values.items()]
    return rows


def _entry(row: tuple[Any, ...]) -> ConfigEntry:
    name, value, source, read_only, sensitive, kind, documentation, synonyms = row
    others = tuple(ConfigSynonym(other, its, _known(ConfigSource, of)) for other, its, of in synonyms)
    found, kind = _known(ConfigSource, source), _known(ConfigType, kind)
    return ConfigEntry(name, value, found, read_only, sensitive, kind, documentation, others)


def _configs(rows: list[tuple[Any, Any, KafkaError | None]]) -> Results[ConfigResource, dict[str, ConfigEntry]]:
    one = lambda its: {row[0]: _entry(row) for row in its}  # noqa: E731
    made: Results[ConfigResource, dict[str, ConfigEntry]] = reads(_of, one, (ConfigResource, dict[str, ConfigEntry]))(
        rows
    )
    return made


def _entity(row: list[tuple[str, str | None]]) -> QuotaEntity:
    return QuotaEntity(dict(row))
