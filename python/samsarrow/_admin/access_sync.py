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
        return _access.describe_users(self._open, users, timeout=timeout).wait()

    def alter_users(self, alterations: Iterable[ScramAlteration], *, timeout: Seconds | None = None) -> dict[str, None]:
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
        return _access.alter_users(self._open, alterations, timeout=timeout).wait()

    def describe_acls(self, acl_filter: AclFilter | None = None, *, timeout: Seconds | None = None) -> list[AclBinding]:
        """Returns ACLs, sorted by resource (KIP-140).

        Args:
            acl_filter: ACLs to return; by default all.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            SecurityDisabledError: the cluster has no authorizer, and therefore no ACLs.
            ClusterAuthorizationFailedError: this user may not describe the cluster.
        """
        return _access.describe_acls(self._open, acl_filter, timeout=timeout).wait()

    def create_acls(self, acls: Iterable[AclBinding], *, timeout: Seconds | None = None) -> dict[AclBinding, None]:
        """Adds ACLs (KIP-140). ACLs that already exist are left unchanged and cause no error.

        Args:
            acls: ACLs to add.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: some ACLs were not added, with the error of each: `SecurityDisabledError` if the
                cluster has no authorizer, `InvalidRequestError` for a principal that is not TYPE:NAME.
            UnsupportedVersionError: an ACL has the pattern type `PREFIXED`, and the brokers are older than Kafka 2.0.
        """
        return _access.create_acls(self._open, acls, timeout=timeout).wait()

    def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: Seconds | None = None
    ) -> dict[AclFilter, tuple[AclBinding, ...]]:
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

        The token reaches all brokers with a delay, so a login right after this call may be rejected and succeed when it
        is retried.

        Args:
            owner: principal of clients that log in with the token, `User:alice`; by default this client's user
                (KIP-373).
            renewers: principals that may renew the token, besides the owner.
            max_lifetime: seconds after which the token expires even if it is renewed; the default and the maximum are
                the brokers' `delegation.token.max.lifetime.ms`.
            timeout: seconds, by default `default.api.timeout.ms`. If the call times out, the brokers may still have
                created a token, whose secret is then lost.

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
        return _access.create_delegation_token(
            self._open, owner=owner, renewers=renewers, max_lifetime=max_lifetime, timeout=timeout
        ).wait()

    def renew_delegation_token(
        self, token: DelegationToken | bytes, *, renew_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
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
        return _access.renew_delegation_token(self._open, token, renew_period=renew_period, timeout=timeout).wait()

    def expire_delegation_token(
        self, token: DelegationToken | bytes, *, expiry_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
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
        return _access.expire_delegation_token(self._open, token, expiry_period=expiry_period, timeout=timeout).wait()

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> list[DelegationToken]:
        """Returns the delegation tokens that have not expired, sorted by creation time.

        Args:
            owners: principals that own the tokens, such as `User:alice`; by default all tokens that this client's user
                may see are returned.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            DelegationTokenAuthDisabledError: the cluster has no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: this client did not log in, or logged in with a delegation token.
        """
        return _access.describe_delegation_tokens(self._open, owners, timeout=timeout).wait()
