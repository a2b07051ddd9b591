"""Blocking methods of `Admin` for settings and quotas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from samsarrow._admin import configs as _configs
from samsarrow._admin.common import AdminBase
from samsarrow.admin_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
)
from samsarrow.cluster_types import (
    QuotaEntity,
)
from samsarrow.results import Results
from samsarrow.types import (
    Seconds,
)


class ConfigAdmin(AdminBase):
    """Methods of `Admin` for settings and quotas."""

    def describe_configs(
        self,
        resources: Iterable[ConfigResource] | Mapping[ConfigResource, Iterable[str] | None],
        *,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
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
        return _configs.describe_configs(
            self._open, resources, synonyms=synonyms, documentation=documentation, timeout=timeout
        ).wait()

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, ConfigChange | Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[ConfigResource, None]:
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
        return _configs.alter_configs(self._open, changes, validate_only=validate_only, timeout=timeout).wait()

    def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout: Seconds | None = None
    ) -> tuple[ConfigResource, ...]:
        """Lists the resources that have settings (KIP-1142, Kafka 4.1; 3.7 to 4.0 list only client metrics).

        Args:
            types: types of resources; by default all.
            timeout: seconds, by default `default.api.timeout.ms`.
        """
        return _configs.list_config_resources(self._open, types, timeout=timeout).wait()

    def describe_quotas(
        self,
        components: Mapping[str, str | Any | None] | None = None,
        *,
        strict: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Returns the quotas of users, clients and addresses (KIP-546, Kafka 2.6).

        Args:
            components: components that entities must have, by type (`user`, `client-id`, `ip`): a name, None for the
                default entity, or `ANY` for both. By default all entities are returned.
            strict: leave out entities that also have components of other types.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The quotas of each entity by name, such as `producer_byte_rate`.
        """
        return _configs.describe_quotas(self._open, components, strict=strict, timeout=timeout).wait()

    def alter_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[QuotaEntity, None]:
        """Sets and removes quotas (KIP-546, Kafka 2.6), all in one request.

        Args:
            changes: by entity, the new values by name of the quota; None removes the quota.
            validate_only: only check whether the changes are possible.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: the quotas of some entities were not changed. It has the error of each entity, such as
                `InvalidRequestError`.
        """
        return _configs.alter_quotas(self._open, changes, validate_only=validate_only, timeout=timeout).wait()
