"""Requests for users, ACLs and delegation tokens."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from samsarrow import _core
from samsarrow._admin.common import names_of
from samsarrow._arguments import names_arguments
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

# The Rust client takes and returns ACLs, ACL filters and delegation tokens as these tuples.
AclRow: TypeAlias = tuple[int, str, int, str, str, int, int]
FilterRow: TypeAlias = tuple[int, str | None, int, str | None, str | None, int, int]
TokenRow: TypeAlias = tuple[str, bytes, str, str | None, list[str], int, int, int]


@names_arguments
def describe_users(
    core: _core.Admin, users: Iterable[str] | None = None, *, timeout: Seconds | None = None
) -> Call[Results[str, tuple[ScramCredentialInfo, ...]]]:
    """Returns the SCRAM mechanisms of users whose passwords the cluster stores (KIP-554).

    Args:
        users: names; by default all users with such a password.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The mechanisms of each user. Looking up a user without a stored password raises `ResourceNotFoundError`.

    Raises:
        ClusterAuthorizationFailedError: this user may not describe the cluster.
        UnsupportedVersionError: the brokers are older than Kafka 2.7, or older than 3.5 in KRaft mode.
    """
    names = None if users is None else names_of("users", users)
    call = _core.admin_describe_users(core, names, to_seconds(timeout))
    return call.then(reads(str, _mechanisms, (str, tuple[ScramCredentialInfo])))


@names_arguments
def alter_users(
    core: _core.Admin, alterations: Iterable[ScramAlteration], *, timeout: Seconds | None = None
) -> Call[dict[str, None]]:
    """Sets and deletes SCRAM passwords of users (KIP-554).

    Passwords are salted and hashed locally, and never sent. Brokers accept one change per user at a time: several
    changes of a user are made one after another, up to the first failure.

    Args:
        alterations: passwords to set and delete, at most one alteration per user and mechanism.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: not all alterations of some users were made. It has the error of each user:
            `ResourceNotFoundError` if a password to delete does not exist, `UnacceptableCredentialError` for more
            iterations than the cluster allows.
        ConfigurationError: an alteration has fewer than 4096 iterations or an empty password, or a user has two
            alterations of one mechanism. Nothing is changed.
        UnsupportedVersionError: the brokers are older than Kafka 2.7, or older than 3.5 in KRaft mode.
    """
    rows: list[tuple[str, int, tuple[str, int, bytes | None] | None]] = []
    for change in alterations:
        credential = None
        if isinstance(change, UserScramCredentialUpsertion):
            credential = (change.password, change.iterations, change.salt)
        elif not isinstance(change, UserScramCredentialDeletion):
            raise TypeError(
                "alterations must be UserScramCredentialUpsertions and UserScramCredentialDeletions, not "
                f"{type(change).__name__}"
            )
        rows.append((change.user, change.mechanism.value, credential))
    return _core.admin_alter_users(core, rows, to_seconds(timeout)).then(writes(str))


@names_arguments
def describe_acls(
    core: _core.Admin, acl_filter: AclFilter | None = None, *, timeout: Seconds | None = None
) -> Call[list[AclBinding]]:
    """Returns ACLs, sorted by resource (KIP-140).

    Args:
        acl_filter: ACLs to return; by default all.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        SecurityDisabledError: the cluster has no authorizer, and therefore no ACLs.
        ClusterAuthorizationFailedError: this user may not describe the cluster.
    """
    row = _filter_row(AclFilter() if acl_filter is None else acl_filter)
    call = _core.admin_describe_acls(core, row, to_seconds(timeout))
    return call.then(lambda rows: [_binding(row) for row in rows])


@names_arguments
def create_acls(
    core: _core.Admin, acls: Iterable[AclBinding], *, timeout: Seconds | None = None
) -> Call[dict[AclBinding, None]]:
    """Adds ACLs (KIP-140). ACLs that already exist are left unchanged and cause no error.

    Args:
        acls: ACLs to add.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        PartialFailureError: some ACLs were not added, with the error of each: `SecurityDisabledError` if the
            cluster has no authorizer, `InvalidRequestError` for a principal that is not TYPE:NAME.
        UnsupportedVersionError: an ACL has the pattern type `PREFIXED`, and the brokers are older than Kafka 2.0.
    """
    bindings = list(dict.fromkeys(_checked("acls", AclBinding, acls)))
    call = _core.admin_create_acls(core, [_acl_row(acl) for acl in bindings], to_seconds(timeout))
    return call.then(writes(_binding))


@names_arguments
def delete_acls(
    core: _core.Admin, filters: Iterable[AclFilter], *, timeout: Seconds | None = None
) -> Call[dict[AclFilter, tuple[AclBinding, ...]]]:
    """Removes all ACLs that match any of several filters (KIP-140).

    Args:
        filters: filters that select ACLs; `AclBinding.to_filter` returns the filter that matches one ACL.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The removed ACLs by filter.

    Raises:
        PartialFailureError: some ACLs were not removed. It has the error of each failed filter and of each ACL that
            remains: `SecurityDisabledError` if the cluster has no authorizer.
    """
    unique = list(dict.fromkeys(_checked("filters", AclFilter, filters)))
    call = _core.admin_delete_acls(core, [_filter_row(acl_filter) for acl_filter in unique], to_seconds(timeout))
    return call.then(_removed)


@names_arguments
def create_delegation_token(
    core: _core.Admin,
    *,
    owner: str | None = None,
    renewers: Iterable[str] = (),
    max_lifetime: Seconds | None = None,
    timeout: Seconds | None = None,
) -> Call[DelegationToken]:
    """Creates a delegation token: a temporary login to pass on instead of a password (KIP-48).

    ```python
    token = admin.create_delegation_token(max_lifetime=3600)
    Consumer({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": token.jaas_config, ...})
    ```

    The token reaches all brokers with a delay, so a login right after this call may be rejected and succeed when it
    is retried.

    Args:
        owner: principal of clients that log in with the token, `User:alice`; by default this client's user
            (KIP-373).
        renewers: principals that may renew the token, besides the owner.
        max_lifetime: seconds after which the token expires even if it is renewed; the default and the maximum are
            the brokers' `delegation.token.max.lifetime.ms`.
        timeout: seconds, by default `default.api.timeout.ms`. If no response comes, the request
            is not repeated: the error says that a token may exist, and `describe_delegation_tokens` returns it.

    Raises:
        DelegationTokenAuthDisabledError: the cluster has no `delegation.token.secret.key`.
        DelegationTokenRequestNotAllowedError: this client did not log in, or logged in with a delegation token.
        DelegationTokenAuthorizationFailedError: `owner` is another user, and this client's user does not have
            CREATE_TOKENS on that user.
        InvalidPrincipalTypeError: the type of the owner or of a renewer is not `User`.
        ConfigurationError: the owner or a renewer does not have the form TYPE:NAME.
        UnsupportedVersionError: the brokers are older than Kafka 1.1, or older than 3.6 in KRaft mode, or `owner`
            is set and they are older than 3.3.
    """
    call = _core.admin_create_delegation_token(
        core, owner, names_of("renewers", renewers), to_seconds(max_lifetime), to_seconds(timeout)
    )
    return call.then(_token)


@names_arguments
def renew_delegation_token(
    core: _core.Admin,
    token: DelegationToken | bytes,
    *,
    renew_period: Seconds | None = None,
    timeout: Seconds | None = None,
) -> Call[int]:
    """Extends a delegation token, up to its maximum lifetime.

    Args:
        token: the token, or the bytes of its `hmac`.
        renew_period: seconds from now until the token expires; by default the brokers'
            `delegation.token.expiry.time.ms`.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The expiry time, milliseconds since 1970.

    Raises:
        DelegationTokenNotFoundError: the token does not exist, or the broker does not know it yet.
        DelegationTokenExpiredError: the token has expired.
        DelegationTokenOwnerMismatchError: this client's user is neither the owner nor a renewer of the token.
    """
    return _core.admin_renew_delegation_token(core, _hmac(token), to_seconds(renew_period), to_seconds(timeout))


@names_arguments
def expire_delegation_token(
    core: _core.Admin,
    token: DelegationToken | bytes,
    *,
    expiry_period: Seconds | None = None,
    timeout: Seconds | None = None,
) -> Call[int]:
    """Expires a delegation token, immediately or later.

    Args:
        token: the token, or the bytes of its `hmac`.
        expiry_period: seconds from now until the token expires; by default it expires immediately.
        timeout: seconds, by default `default.api.timeout.ms`.

    Returns:
        The expiry time, milliseconds since 1970.

    Raises:
        DelegationTokenNotFoundError: the token does not exist, or the broker does not know it yet.
        DelegationTokenExpiredError: the token has expired.
        DelegationTokenOwnerMismatchError: this client's user is neither the owner nor a renewer of the token.
    """
    return _core.admin_expire_delegation_token(core, _hmac(token), to_seconds(expiry_period), to_seconds(timeout))


@names_arguments
def describe_delegation_tokens(
    core: _core.Admin, owners: Iterable[str] | None = None, *, timeout: Seconds | None = None
) -> Call[list[DelegationToken]]:
    """Returns the delegation tokens that have not expired, sorted by creation time.

    Args:
        owners: principals that own the tokens, such as `User:alice`; by default all tokens that this client's user
            may see are returned.
        timeout: seconds, by default `default.api.timeout.ms`.

    Raises:
        DelegationTokenAuthDisabledError: the cluster has no `delegation.token.secret.key`.
        DelegationTokenRequestNotAllowedError: this client did not log in, or logged in with a delegation token.
    """
    names = None if owners is None else names_of("owners", owners)
    call = _core.admin_describe_delegation_tokens(core, names, to_seconds(timeout))
    return call.then(lambda rows: [_token(row) for row in rows])


def _mechanisms(rows: list[tuple[int, int]]) -> tuple[ScramCredentialInfo, ...]:
    return tuple(ScramCredentialInfo(ScramMechanism(code), iterations) for code, iterations in rows)


def _removed(rows: list[tuple[FilterRow, Any, KafkaError | None]]) -> dict[AclFilter, tuple[AclBinding, ...]]:
    succeeded: dict[AclFilter, tuple[AclBinding, ...]] = {}
    failures: dict[Any, KafkaError] = {}
    for raw, acls, error in rows:
        if error is not None:
            failures[_filter(raw)] = error
            continue
        failures.update({_binding(acl): acl_error for acl, acl_error in acls if acl_error is not None})
        succeeded[_filter(raw)] = tuple(_binding(acl) for acl, acl_error in acls if acl_error is None)
    if failures:
        raise failure(failures, {**succeeded})
    return succeeded


def _checked(argument: str, kind: type[T], values: Iterable[T]) -> list[T]:
    items = list(values)
    for item in items:
        if not isinstance(item, kind):
            raise TypeError(f"{argument} must be {kind.__name__}s, not {type(item).__name__}")
    return items


def _hmac(token: DelegationToken | bytes) -> bytes:
    hmac = token.hmac if isinstance(token, DelegationToken) else token
    if not isinstance(hmac, bytes):
        raise TypeError(f"token must be a DelegationToken or the bytes of its hmac, not {type(hmac).__name__}")
    return hmac


def _acl_row(acl: AclBinding) -> AclRow:
    return (
        acl.resource_type.value, acl.resource_name, acl.pattern_type.value, acl.principal, acl.host,
        acl.operation.value, acl.permission.value,
    )  # fmt: skip


def _filter_row(acl_filter: AclFilter) -> FilterRow:
    return (
        acl_filter.resource_type.value, acl_filter.resource_name, acl_filter.pattern_type.value, acl_filter.principal,
        acl_filter.host, acl_filter.operation.value, acl_filter.permission.value,
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
    token_id, hmac, owner, requester, renewers, issued, expires, maximum = row
    return DelegationToken(token_id, hmac, owner, requester, tuple(renewers), issued, expires, maximum)
