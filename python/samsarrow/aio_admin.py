"""Administration of a cluster for asyncio and trio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack
from uuid import UUID

from samsarrow import _core
from samsarrow._admin import access as _access
from samsarrow._admin import cluster as _cluster
from samsarrow._admin import configs as _configs
from samsarrow._admin import groups as _groups
from samsarrow._admin import offsets as _offsets
from samsarrow._admin import replicas as _replicas
from samsarrow._admin import topics as _topics
from samsarrow._admin import transactions as _transactions
from samsarrow._admin.access import ScramAlteration
from samsarrow._sync import documented_by
from samsarrow.access import (
    AclBinding,
    AclFilter,
    DelegationToken,
    ScramCredentialInfo,
)
from samsarrow.admin import Admin
from samsarrow.admin_types import (
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    CreatedTopic,
    FencedProducer,
    GroupLag,
    HangingTransaction,
    NewPartitions,
    OffsetSpec,
    ProducerState,
    RemovedMember,
    TopicDescription,
    TransactionDescription,
    TransactionListing,
)
from samsarrow.cluster_types import (
    ClusterDescription,
    ElectionType,
    FeatureMetadata,
    FeatureUpdate,
    LogDir,
    PartitionReassignment,
    QuorumInfo,
    QuotaEntity,
    RaftEndpoint,
    Replica,
)
from samsarrow.config import merge
from samsarrow.exceptions import ClosedError
from samsarrow.group_types import (
    ShareGroupDescription,
    ShareOffset,
    StreamsGroupDescription,
)
from samsarrow.metrics.client import AdminMetrics, of_admin, to_uuid
from samsarrow.results import Results
from samsarrow.types import (
    GroupDescription,
    GroupListing,
    NewTopic,
    Node,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Seconds,
    TopicListing,
    TopicPartition,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow.options import AdminOptions


@documented_by(Admin)
class AsyncAdmin:
    """`Admin` with awaitable methods, which have the same names, arguments, results and errors.

    It can be created without a running event loop, and may be used by several loops and threads. Cancelling a call does
    not cancel its request, but the result is discarded.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Unpack[AdminOptions]) -> None:
        self._core: _core.Admin | None = _core.Admin(merge(config, options))

    @property
    def _open(self) -> _core.Admin:
        if self._core is None:
            raise ClosedError("the admin client is closed")
        return self._core

    async def client_instance_id(self, timeout: Seconds | None = None) -> UUID:
        return await self._open.client_instance_id(to_seconds(timeout)).then(to_uuid)

    def metrics(self) -> AdminMetrics:
        return of_admin(self._open.metrics())

    async def create_topics(
        self,
        topics: Sequence[str | NewTopic],
        *,
        num_partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, CreatedTopic]:
        return await _topics.create_topics(
            self._open,
            topics,
            num_partitions=num_partitions,
            replication_factor=replication_factor,
            configs=configs,
            validate_only=validate_only,
            timeout=timeout,
        )

    async def delete_topics(
        self, topics: Sequence[str | UUID], *, timeout: Seconds | None = None
    ) -> dict[str | UUID, None]:
        return await _topics.delete_topics(self._open, topics, timeout=timeout)

    async def list_topics(
        self, names: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> Results[str, TopicListing]:
        return await _topics.list_topics(self._open, names, timeout=timeout)

    async def describe_topics(
        self,
        topics: Iterable[str | UUID],
        *,
        page_size: int = 2000,
        include_authorized_operations: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[str | UUID, TopicDescription]:
        return await _topics.describe_topics(
            self._open,
            topics,
            page_size=page_size,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        )

    async def create_partitions(
        self,
        partitions: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[str, None]:
        return await _topics.create_partitions(self._open, partitions, validate_only=validate_only, timeout=timeout)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        return await _topics.delete_records(self._open, before, timeout=timeout)

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource] | Mapping[ConfigResource, Iterable[str] | None],
        *,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        return await _configs.describe_configs(
            self._open, resources, synonyms=synonyms, documentation=documentation, timeout=timeout
        )

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, ConfigChange | Mapping[str, str | None]],
        *,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[ConfigResource, None]:
        return await _configs.alter_configs(self._open, changes, validate_only=validate_only, timeout=timeout)

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] = (), *, timeout: Seconds | None = None
    ) -> tuple[ConfigResource, ...]:
        return await _configs.list_config_resources(self._open, types, timeout=timeout)

    async def describe_quotas(
        self,
        components: Mapping[str, str | Any | None] | None = None,
        *,
        strict: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        return await _configs.describe_quotas(self._open, components, strict=strict, timeout=timeout)

    async def alter_quotas(
        self,
        changes: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[QuotaEntity, None]:
        return await _configs.alter_quotas(self._open, changes, validate_only=validate_only, timeout=timeout)

    async def describe_cluster(
        self,
        *,
        include_fenced: bool = False,
        include_authorized_operations: bool = False,
        timeout: Seconds | None = None,
    ) -> ClusterDescription:
        return await _cluster.describe_cluster(
            self._open,
            include_fenced=include_fenced,
            include_authorized_operations=include_authorized_operations,
            timeout=timeout,
        )

    async def describe_features(self, *, timeout: Seconds | None = None) -> FeatureMetadata:
        return await _cluster.describe_features(self._open, timeout=timeout)

    async def update_features(
        self, updates: Mapping[str, int | FeatureUpdate], *, validate_only: bool = False, timeout: Seconds | None = None
    ) -> dict[str, None]:
        return await _cluster.update_features(self._open, updates, validate_only=validate_only, timeout=timeout)

    async def describe_quorum(self, *, timeout: Seconds | None = None) -> QuorumInfo:
        return await _cluster.describe_quorum(self._open, timeout=timeout)

    async def add_raft_voter(
        self,
        voter: int,
        directory_id: UUID,
        endpoints: Iterable[RaftEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        return await _cluster.add_raft_voter(
            self._open, voter, directory_id, endpoints, cluster_id=cluster_id, timeout=timeout
        )

    async def remove_raft_voter(
        self, voter: int, directory_id: UUID, *, cluster_id: str | None = None, timeout: Seconds | None = None
    ) -> None:
        return await _cluster.remove_raft_voter(self._open, voter, directory_id, cluster_id=cluster_id, timeout=timeout)

    async def unregister_broker(self, broker: int, *, timeout: Seconds | None = None) -> None:
        return await _cluster.unregister_broker(self._open, broker, timeout=timeout)

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election: ElectionType = ElectionType.PREFERRED,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, bool]:
        return await _replicas.elect_leaders(self._open, partitions, election=election, timeout=timeout)

    async def alter_reassignments(
        self,
        replicas: Mapping[TopicPartition, Iterable[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, None]:
        return await _replicas.alter_reassignments(
            self._open, replicas, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
        )

    async def list_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        return await _replicas.list_reassignments(self._open, partitions, timeout=timeout)

    async def log_dirs(
        self, brokers: Iterable[int] | None = None, *, timeout: Seconds | None = None
    ) -> Results[int, tuple[LogDir, ...]]:
        return await _replicas.log_dirs(self._open, brokers, timeout=timeout)

    async def move_replicas(
        self, replicas: Mapping[Replica, str], *, timeout: Seconds | None = None
    ) -> dict[Replica, None]:
        return await _replicas.move_replicas(self._open, replicas, timeout=timeout)

    async def find_coordinator(self, group: str, *, timeout: Seconds | None = None) -> Node:
        return await _groups.find_coordinator(self._open, group, timeout=timeout)

    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] = (),
        timeout: Seconds | None = None,
    ) -> dict[str, GroupListing]:
        return await _groups.list_groups(
            self._open, states=states, types=types, protocol_types=protocol_types, timeout=timeout
        )

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[str, GroupDescription]:
        return await _groups.describe_groups(
            self._open, groups, include_authorized_operations=include_authorized_operations, timeout=timeout
        )

    async def delete_groups(self, groups: Iterable[str], *, timeout: Seconds | None = None) -> dict[str, None]:
        return await _groups.delete_groups(self._open, groups, timeout=timeout)

    async def remove_members(
        self,
        group: str,
        members: Iterable[str | RemovedMember] | None = None,
        *,
        reason: str = "removed by an administrator",
        timeout: Seconds | None = None,
    ) -> dict[RemovedMember, None]:
        return await _groups.remove_members(self._open, group, members, reason=reason, timeout=timeout)

    async def group_lag(
        self, groups: Iterable[str], *, read_committed: bool = False, timeout: Seconds | None = None
    ) -> Results[str, GroupLag]:
        return await _groups.group_lag(self._open, groups, read_committed=read_committed, timeout=timeout)

    async def describe_share_groups(
        self, groups: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, ShareGroupDescription]:
        return await _groups.describe_share_groups(self._open, groups, timeout=timeout)

    async def describe_streams_groups(
        self, groups: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, StreamsGroupDescription]:
        return await _groups.describe_streams_groups(self._open, groups, timeout=timeout)

    async def commit_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        api_version: int | None = None,
        retention: Seconds | None = None,
        timestamp: int | datetime | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, None]:
        return await _offsets.commit_offsets(
            self._open,
            group,
            offsets,
            api_version=api_version,
            retention=retention,
            timestamp=timestamp,
            timeout=timeout,
        )

    async def fetch_offsets(
        self,
        group: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        api_version: int | None = None,
        require_stable: bool = False,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return await _offsets.fetch_offsets(
            self._open, group, partitions, api_version=api_version, require_stable=require_stable, timeout=timeout
        )

    async def fetch_offsets_many(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        api_version: int | None = None,
        require_stable: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        return await _offsets.fetch_offsets_many(
            self._open, groups, api_version=api_version, require_stable=require_stable, timeout=timeout
        )

    async def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, None]:
        return await _offsets.delete_offsets(self._open, group, partitions, timeout=timeout)

    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec | int | datetime],
        *,
        read_committed: bool = False,
        timeout: Seconds | None = None,
    ) -> Results[TopicPartition, OffsetAndTimestamp | None]:
        return await _offsets.list_offsets(self._open, partitions, read_committed=read_committed, timeout=timeout)

    async def list_share_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, timeout: Seconds | None = None
    ) -> Results[str, Results[TopicPartition, ShareOffset | None]]:
        return await _offsets.list_share_offsets(self._open, groups, timeout=timeout)

    async def alter_share_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, None]:
        return await _offsets.alter_share_offsets(self._open, group, offsets, timeout=timeout)

    async def delete_share_offsets(
        self, group: str, topics: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, None]:
        return await _offsets.delete_share_offsets(self._open, group, topics, timeout=timeout)

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than: Seconds | None = None,
        pattern: str | None = None,
        timeout: Seconds | None = None,
    ) -> dict[str, TransactionListing]:
        return await _transactions.list_transactions(
            self._open,
            states=states,
            producer_ids=producer_ids,
            longer_than=longer_than,
            pattern=pattern,
            timeout=timeout,
        )

    async def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: Seconds | None = None
    ) -> Results[str, TransactionDescription]:
        return await _transactions.describe_transactions(self._open, transactional_ids, timeout=timeout)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        return await _transactions.describe_producers(self._open, partitions, timeout=timeout)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        coordinator_epoch: int | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        return await _transactions.abort_transaction(
            self._open, partition, producer_id, producer_epoch, coordinator_epoch=coordinator_epoch, timeout=timeout
        )

    async def fence_producers(
        self, transactional_ids: Iterable[str], *, timeout: Seconds | None = None
    ) -> dict[str, FencedProducer]:
        return await _transactions.fence_producers(self._open, transactional_ids, timeout=timeout)

    async def find_hanging(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        longer_than: Seconds = 900,
        timeout: Seconds | None = None,
    ) -> tuple[HangingTransaction, ...]:
        return await _transactions.find_hanging(self._open, partitions, longer_than=longer_than, timeout=timeout)

    async def describe_users(
        self, users: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        return await _access.describe_users(self._open, users, timeout=timeout)

    async def alter_users(
        self, alterations: Iterable[ScramAlteration], *, timeout: Seconds | None = None
    ) -> dict[str, None]:
        return await _access.alter_users(self._open, alterations, timeout=timeout)

    async def describe_acls(
        self, acl_filter: AclFilter | None = None, *, timeout: Seconds | None = None
    ) -> list[AclBinding]:
        return await _access.describe_acls(self._open, acl_filter, timeout=timeout)

    async def create_acls(
        self, acls: Iterable[AclBinding], *, timeout: Seconds | None = None
    ) -> dict[AclBinding, None]:
        return await _access.create_acls(self._open, acls, timeout=timeout)

    async def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: Seconds | None = None
    ) -> dict[AclFilter, tuple[AclBinding, ...]]:
        return await _access.delete_acls(self._open, filters, timeout=timeout)

    async def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> DelegationToken:
        return await _access.create_delegation_token(
            self._open, owner=owner, renewers=renewers, max_lifetime=max_lifetime, timeout=timeout
        )

    async def renew_delegation_token(
        self, token: DelegationToken | bytes, *, renew_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
        return await _access.renew_delegation_token(self._open, token, renew_period=renew_period, timeout=timeout)

    async def expire_delegation_token(
        self, token: DelegationToken | bytes, *, expiry_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
        return await _access.expire_delegation_token(self._open, token, expiry_period=expiry_period, timeout=timeout)

    async def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> list[DelegationToken]:
        return await _access.describe_delegation_tokens(self._open, owners, timeout=timeout)

    async def close(self) -> None:
        core, self._core = self._core, None
        if core is not None:
            await core.close()

    async def __aenter__(self) -> AsyncAdmin:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
