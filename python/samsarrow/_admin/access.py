"""Users, ACLs and delegation tokens.

Each function gives the call that both `Admin` and `AsyncAdmin` make; they have the documentation.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from samsarrow import _core
from samsarrow._admin.arguments import names_arguments
from samsarrow._admin.common import names_of
from samsarrow.access import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    DelegationToken,
    PatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from samsarrow.exceptions import KafkaError
from samsarrow.results import Results, failure, reads, writes
from samsarrow.types import (
    Seconds,
    to_seconds,
)

if TYPE_CHECKING:
    from samsarrow._core import Call

T = TypeVar("T")
E = TypeVar("E", bound=enum.IntEnum)

ScramAlteration: TypeAlias = UserScramCredentialUpsertion | UserScramCredentialDeletion

# As the core has them.
AclRow: TypeAlias = tuple[int, str, int, str, str, int, int]
FilterRow: TypeAlias = tuple[int, str | None, int, str | None, str | None, int, int]
TokenRow: TypeAlias = tuple[str, bytes, str, str | None, list[str], int, int, int]


@names_arguments
def describe_users(
    core: _core.Admin, users: Iterable[str] | None = None, *, timeout: Seconds | None = None
) -> Call[Results[str, tuple[ScramCredentialInfo, ...]]]:
    asked = None if users is None else names_of("users", users)
    found = _core.admin_describe_users(core, asked, to_seconds(timeout))
    return found.then(reads(str, _mechanisms, (str, tuple[ScramCredentialInfo])))


@names_arguments
def alter_users(
    core: _core.Admin, alterations: Iterable[ScramAlteration], *, timeout: Seconds | None = None
) -> Call[dict[str, None]]:
    plain: list[tuple[str, int, tuple[str, int, bytes | None] | None]] = []
    for change in alterations:
        new = None
        if isinstance(change, UserScramCredentialUpsertion):
            new = (change.password, change.iterations, change.salt)
        elif not isinstance(change, UserScramCredentialDeletion):
            raise TypeError(
                "alterations must be UserScramCredentialUpsertions and UserScramCredentialDeletions, not "
                f"{type(change).__name__}"
            )
        plain.append((change.user, change.mechanism.value, new))
    return _core.admin_alter_users(core, plain, to_seconds(timeout)).then(writes(str))


@names_arguments
def describe_acls(
    core: _core.Admin, acl_filter: AclFilter | None = None, *, timeout: Seconds | None = None
) -> Call[list[AclBinding]]:
    wanted = AclFilter() if acl_filter is None else acl_filter
    found = _core.admin_describe_acls(core, _plain_filter(wanted), to_seconds(timeout))
    return found.then(lambda rows: [_binding(row) for row in rows])


@names_arguments
def create_acls(
    core: _core.Admin, acls: Iterable[AclBinding], *, timeout: Seconds | None = None
) -> Call[dict[AclBinding, None]]:
    wanted = list(dict.fromkeys(_checked("acls", AclBinding, acls)))
    done = _core.admin_create_acls(core, [_plain(acl) for acl in wanted], to_seconds(timeout))
    return done.then(writes(_binding))


@names_arguments
def delete_acls(
    core: _core.Admin, filters: Iterable[AclFilter], *, timeout: Seconds | None = None
) -> Call[dict[AclFilter, tuple[AclBinding, ...]]]:
    wanted = list(dict.fromkeys(_checked("filters", AclFilter, filters)))
    done = _core.admin_delete_acls(core, [_plain_filter(one) for one in wanted], to_seconds(timeout))
    return done.then(_removed)


@names_arguments
def create_delegation_token(
    core: _core.Admin,
    *,
    owner: str | None = None,
    renewers: Iterable[str] = (),
    max_lifetime: Seconds | None = None,
    timeout: Seconds | None = None,
) -> Call[DelegationToken]:
    made = _core.admin_create_delegation_token(
        core, owner, names_of("renewers", renewers), to_seconds(max_lifetime), to_seconds(timeout)
    )
    return made.then(_token)


@names_arguments
def renew_delegation_token(
    core: _core.Admin,
    token: DelegationToken | bytes,
    *,
    renew_period: Seconds | None = None,
    timeout: Seconds | None = None,
) -> Call[int]:
    return _core.admin_renew_delegation_token(core, _hmac(token), to_seconds(renew_period), to_seconds(timeout))


@names_arguments
def expire_delegation_token(
    core: _core.Admin,
    token: DelegationToken | bytes,
    *,
    expiry_period: Seconds | None = None,
    timeout: Seconds | None = None,
) -> Call[int]:
    return _core.admin_expire_delegation_token(core, _hmac(token), to_seconds(expiry_period), to_seconds(timeout))


@names_arguments
def describe_delegation_tokens(
    core: _core.Admin, owners: Iterable[str] | None = None, *, timeout: Seconds | None = None
) -> Call[list[DelegationToken]]:
    asked = None if owners is None else names_of("owners", owners)
    found = _core.admin_describe_delegation_tokens(core, asked, to_seconds(timeout))
    return found.then(lambda rows: [_token(row) for row in rows])


def _mechanisms(rows: list[tuple[int, int]]) -> tuple[ScramCredentialInfo, ...]:
    return tuple(ScramCredentialInfo(ScramMechanism(code), iterations) for code, iterations in rows)


def _removed(rows: list[tuple[FilterRow, Any, KafkaError | None]]) -> dict[AclFilter, tuple[AclBinding, ...]]:
    succeeded: dict[AclFilter, tuple[AclBinding, ...]] = {}
    failures: dict[Any, KafkaError] = {}
    for raw, acls, error in rows:
        if error is not None:
            failures[_filter(raw)] = error
            continue
        failures.update({_binding(acl): why for acl, why in acls if why is not None})
        succeeded[_filter(raw)] = tuple(_binding(acl) for acl, why in acls if why is None)
    if failures:
        raise failure(failures, {**succeeded})
    return succeeded


def _checked(what: str, kind: type[T], given: Iterable[T]) -> list[T]:
    items = list(given)
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"{what} must be {kind.__name__}s, not {type(item).__name__}")
    return items


def _hmac(token: DelegationToken | bytes) -> bytes:
    hmac = token.hmac if isinstance(token, DelegationToken) else token
    if not isinstance(hmac, bytes):
        raise TypeError(f"token must be a DelegationToken or the bytes of its hmac, not {type(hmac).__name__}")
    return hmac


def _plain(acl: AclBinding) -> AclRow:
    return (
        acl.resource_type.value, acl.resource_name, acl.pattern_type.value, acl.principal, acl.host,
        acl.operation.value, acl.permission.value,
    )  # fmt: skip


def _plain_filter(wanted: AclFilter) -> FilterRow:
    return (
        wanted.resource_type.value, wanted.resource_name, wanted.pattern_type.value, wanted.principal, wanted.host,
        wanted.operation.value, wanted.permission.value,
    )  # fmt: skip


def _binding(row: AclRow) -> AclBinding:
    resource_type, name, pattern_type, principal, host, operation, permission = row
    return AclBinding(
        ResourceType(resource_type), name, principal, AclOperation(operation), AclPermission(permission), host,
        PatternType(pattern_type),
    )  # fmt: skip


def _filter(row: FilterRow) -> AclFilter:
    resource_type, name, pattern_type, principal, host, operation, permission = row
    return AclFilter(
        ResourceType(resource_type), name, principal, AclOperation(operation), AclPermission(permission), host,
        PatternType(pattern_type),
    )  # fmt: skip


def _token(row: TokenRow) -> DelegationToken:
    token_id, hmac, owner, requester, renewers, issued, expires, ends = row
    return DelegationToken(token_id, hmac, owner, requester, tuple(renewers), issued, expires, ends)
