"""Blocking methods of `Admin` for users, ACLs and delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow._admin import access as _access
from samsarrow._admin.access import ScramAlteration
from samsarrow._admin.common import AdminBase
from samsarrow.access import (
    AclBinding,
    AclFilter,
    DelegationToken,
    ScramCredentialInfo,
)
from samsarrow.results import Results
from samsarrow.types import (
    Seconds,
)


class AccessAdmin(AdminBase):
    """Methods of `Admin` for users, ACLs and delegation tokens."""

    def describe_users(
        self, users: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """Returns the mechanisms of users whose password the cluster stores (SCRAM, KIP-554).

        Args:
            users: names; by default all users with such a password.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The mechanisms of each user, `ResourceNotFoundError` for a user without any.

        Raises:
            ClusterAuthorizationFailedError: this user may not describe the cluster.
            UnsupportedVersionError: brokers before Kafka 2.7, or before 3.5 without ZooKeeper.
        """
        return _access.describe_users(self._open, users, timeout=timeout).wait()

    def alter_users(self, alterations: Iterable[ScramAlteration], *, timeout: Seconds | None = None) -> dict[str, None]:
        """Sets and deletes passwords that the cluster stores (SCRAM, KIP-554).

        Passwords are salted and hashed locally, and never sent. Brokers accept one change per user at a time: several
        changes of a user are made one after another, up to the first failure.

        Args:
            alterations: passwords to set and delete; each user and mechanism once.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some users were not fully changed, with the error of each: `ResourceNotFoundError` if
                a deleted credential does not exist, `UnacceptableCredentialError` for more iterations than the cluster
                allows.
            ConfigurationError: fewer than 4096 iterations, an empty password, a mechanism twice; nothing is changed.
            UnsupportedVersionError: brokers before Kafka 2.7, or before 3.5 without ZooKeeper.
        """
        return _access.alter_users(self._open, alterations, timeout=timeout).wait()

    def describe_acls(self, acl_filter: AclFilter | None = None, *, timeout: Seconds | None = None) -> list[AclBinding]:
        """Returns ACLs in the order of their resources (KIP-140).

        Args:
            acl_filter: ACLs to return; by default all.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            SecurityDisabledError: the cluster has no authorizer, and therefore no ACLs.
            ClusterAuthorizationFailedError: this user may not describe the cluster.
        """
        return _access.describe_acls(self._open, acl_filter, timeout=timeout).wait()

    def create_acls(self, acls: Iterable[AclBinding], *, timeout: Seconds | None = None) -> dict[AclBinding, None]:
        """Adds ACLs (KIP-140). An ACL that already exists stays, without an error.

        Args:
            acls: ACLs to add.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some ACLs were not added, with the error of each: `SecurityDisabledError` if the
                cluster has no authorizer, `InvalidRequestError` for a principal that is not TYPE:NAME.
            UnsupportedVersionError: a prefix on brokers before Kafka 2.0.
        """
        return _access.create_acls(self._open, acls, timeout=timeout).wait()

    def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: Seconds | None = None
    ) -> dict[AclFilter, tuple[AclBinding, ...]]:
        """Removes all ACLs that match any of several filters (KIP-140).

        Args:
            filters: filters to match; `AclBinding.to_filter` makes one for a single ACL.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The removed ACLs by filter.

        Raises:
            PartialFailureError: some ACLs were not removed, with the error of each filter and each remaining ACL:
                `SecurityDisabledError` if the cluster has no authorizer.
        """
        return _access.delete_acls(self._open, filters, timeout=timeout).wait()

    def create_delegation_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> DelegationToken:
        """Creates a delegation token: a temporary login to pass on instead of a password (KIP-48).

        ```python
        token = admin.create_delegation_token(max_lifetime=3600)
        Consumer({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": token.jaas_config, ...})
        ```

        It reaches all brokers with a delay: a login right after this call may be rejected, and succeed if retried.

        Args:
            owner: principal of clients that log in with it, `User:alice`; by default this client's user (KIP-373).
            renewers: principals that may renew it, besides the owner.
            max_lifetime: lifetime after which it expires regardless of renewals; the default and the maximum are the
                brokers' `delegation.token.max.lifetime.ms`.
            timeout: seconds, by default `default.api.timeout.ms`. After a timeout, a token may have been created whose
                secret is lost.

        Raises:
            DelegationTokenAuthDisabledError: the cluster has no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: the connection is not logged in, or only with a token.
            DelegationTokenAuthorizationFailedError: a token for another user needs CREATE_TOKENS on that user.
            InvalidPrincipalTypeError: an owner or renewer of a type other than `User`.
            ConfigurationError: an owner or renewer that is not TYPE:NAME.
            UnsupportedVersionError: brokers before Kafka 1.1, before 3.6 without ZooKeeper; an owner before 3.3.
        """
        return _access.create_delegation_token(
            self._open, owner=owner, renewers=renewers, max_lifetime=max_lifetime, timeout=timeout
        ).wait()

    def renew_delegation_token(
        self, token: DelegationToken | bytes, *, renew_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
        """Extends a delegation token, up to its maximum lifetime.

        Args:
            token: the token, or its hmac.
            renew_period: from now; by default the brokers' `delegation.token.expiry.time.ms`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The expiry time, milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: the token is unknown, or has not reached the broker yet.
            DelegationTokenExpiredError: the token has expired.
            DelegationTokenOwnerMismatchError: this client's user is neither its owner nor one of its renewers.
        """
        return _access.renew_delegation_token(self._open, token, renew_period=renew_period, timeout=timeout).wait()

    def expire_delegation_token(
        self, token: DelegationToken | bytes, *, expiry_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
        """Expires a delegation token, immediately or later.

        Args:
            token: the token, or its hmac.
            expiry_period: from now; by default it expires immediately.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            The expiry time, milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: the token is unknown, or has not reached the broker yet.
            DelegationTokenExpiredError: the token has expired.
            DelegationTokenOwnerMismatchError: this client's user is neither its owner nor one of its renewers.
        """
        return _access.expire_delegation_token(self._open, token, expiry_period=expiry_period, timeout=timeout).wait()

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> list[DelegationToken]:
        """Returns the delegation tokens that have not expired, in order of creation.

        Args:
            owners: owners of the tokens, `User:alice`; by default all tokens that this client's user may see.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            DelegationTokenAuthDisabledError: the cluster has no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: the connection is not logged in, or only with a token.
        """
        return _access.describe_delegation_tokens(self._open, owners, timeout=timeout).wait()
