"""Requests for settings and quotas."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any, TypeVar

from samsarrow import _core
from samsarrow._arguments import names_arguments
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
from samsarrow.exceptions import ConfigurationError, KafkaError
from samsarrow.results import Results, reads, writes
from samsarrow.types import (
    Seconds,
    Setting,
    to_seconds,
    to_setting,
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
    """Returns the settings of topics, brokers, loggers, groups and client metrics.

    Args:
        resources: resources whose settings to return; or a mapping from each resource to the names of the settings
            to return, None for all its settings.
        synonyms: also return the values that each setting has in all its sources, in order of precedence (KIP-226,
            Kafka 1.1).
        documentation: also return the documentation of settings (KIP-569, Kafka 2.6).
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The settings of each resource, by name. Looking up a topic that does not exist raises
        `UnknownTopicOrPartitionError`.
    """
    names_by_resource = resources if isinstance(resources, Mapping) else dict.fromkeys(resources)
    rows = [
        (_resource_row(resource), None if names is None else list(names))
        for resource, names in names_by_resource.items()
    ]
    call = _core.admin_describe_configs(core, rows, synonyms, documentation, to_seconds(timeout))
    return call.then(_configs)


@names_arguments
def alter_configs(
    core: _core.Admin,
    changes: Mapping[ConfigResource, ConfigChange | Mapping[str, Setting | None]],
    *,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[ConfigResource, None]]:
    """Changes individual settings; other settings stay unchanged (KIP-339, Kafka 2.3).

    Args:
        changes: by resource, the new values by name of the setting (None resets it to the default), or a
            `ConfigChange`.
        validate_only: only check whether the changes are possible.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some resources were not changed. It has the error of each, such as
            `InvalidConfigError`.
    """
    rows = [(_resource_row(resource), _change_rows(change)) for resource, change in changes.items()]
    return _core.admin_alter_configs(core, rows, validate_only, to_seconds(timeout)).then(writes(_resource))


@names_arguments
def list_config_resources(
    core: _core.Admin, types: Iterable[ConfigResourceType] = (), *, timeout: Seconds | None = None
) -> Call[tuple[ConfigResource, ...]]:
    """Lists the resources that have settings (KIP-1142, Kafka 4.1; 3.7 to 4.0 list only client metrics).

    Args:
        types: types of resources; by default all.
        timeout: seconds, by default `default.api.timeout.ms`.
    """
    kinds = [ConfigResourceType(kind).value for kind in types]
    call = _core.admin_list_config_resources(core, kinds, to_seconds(timeout))
    return call.then(lambda rows: tuple(_resource(row) for row in rows))


@names_arguments
def describe_quotas(
    core: _core.Admin,
    components: Mapping[str, str | Any | None] | None = None,
    *,
    strict: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[QuotaEntity, dict[str, float]]]:
    """Returns the quotas of users, clients and addresses (KIP-546, Kafka 2.6).

    Args:
        components: components that entities must have, by type (`user`, `client-id`, `ip`): a name, None for the
            default entity, or `ANY` for both. By default all entities are returned.
        strict: leave out entities that also have components of other types.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The quotas of each entity by name, such as `producer_byte_rate`.
    """
    filters = []
    for kind, name in (components or {}).items():
        matching = 2 if name is ANY else 1 if name is None else 0
        filters.append((kind, matching, name if matching == 0 else None))
    call = _core.admin_describe_quotas(core, filters, strict, to_seconds(timeout))
    return call.then(lambda rows: {_entity(row): dict(quotas) for row, quotas in rows})


@names_arguments
def alter_quotas(
    core: _core.Admin,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
    timeout: Seconds | None = None,
) -> Call[dict[QuotaEntity, None]]:
    """Sets and removes quotas (KIP-546, Kafka 2.6), all in one request.

    Args:
        changes: by entity, the new values by name of the quota; None removes the quota.
        validate_only: only check whether the changes are possible.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: the quotas of some entities were not changed. It has the error of each entity, such as
            `InvalidRequestError`.
    """
    for entity, quotas in changes.items():
        for name, value in quotas.items():
            # Kafka 4.3 rejects 0 and negative values, but stores NaN.
            if value is not None and isnan(value):
                raise ConfigurationError(f"quota {name} of {entity} is NaN: pass a number, or None to remove the quota")
    rows = [(list(entity.parts.items()), list(quotas.items())) for entity, quotas in changes.items()]
    return _core.admin_alter_quotas(core, rows, validate_only, to_seconds(timeout)).then(writes(_entity))


def _resource_row(resource: ConfigResource) -> tuple[int, str]:
    if not isinstance(resource, ConfigResource):
        raise TypeError(f"expected a ConfigResource such as ConfigResource.topic('t'), not {resource!r}")
    return resource.type.value, resource.name


def _known(kind: type[E], code: int) -> E:
    try:
        return kind(code)
    except ValueError:
        return kind(0)


def _resource(row: tuple[int, str]) -> ConfigResource:
    return ConfigResource(_known(ConfigResourceType, row[0]), row[1])


def _change_rows(change: ConfigChange | Mapping[str, Setting | None]) -> list[tuple[str, int, str | None]]:
    if not isinstance(change, ConfigChange):
        new = {name: value for name, value in change.items() if value is not None}
        change = ConfigChange(set=new, delete=tuple(name for name, value in change.items() if value is None))
    rows: list[tuple[str, int, str | None]] = [(name, 1, None) for name in change.delete]
    for operation, values in ((0, change.set), (2, change.append), (3, change.subtract)):
        rows += [(name, operation, to_setting(name, value)) for name, value in values.items()]
    return rows


def _entry(row: tuple[Any, ...]) -> ConfigEntry:
    name, value, source, read_only, sensitive, kind, documentation, synonyms = row
    others = tuple(ConfigSynonym(other, text, _known(ConfigSource, origin)) for other, text, origin in synonyms)
    source, kind = _known(ConfigSource, source), _known(ConfigType, kind)
    return ConfigEntry(name, value, source, read_only, sensitive, kind, documentation, others)


def _configs(rows: list[tuple[Any, Any, KafkaError | None]]) -> Results[ConfigResource, dict[str, ConfigEntry]]:
    entries = lambda entry_rows: {row[0]: _entry(row) for row in entry_rows}  # noqa: E731
    results: Results[ConfigResource, dict[str, ConfigEntry]]
    results = reads(_resource, entries, (ConfigResource, dict[str, ConfigEntry]))(rows)
    return results


def _entity(row: list[tuple[str, str | None]]) -> QuotaEntity:
    return QuotaEntity(dict(row))
