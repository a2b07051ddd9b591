"""Users, ACLs and delegation tokens, for programs that wait."""

from __future__ import annotations

from collections.abc import Iterable

from samsarrow._admin import access as _access
from samsarrow._admin.access import ScramAlteration
from samsarrow._admin.plain import Face
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


class AccessAdmin(Face):
    """A part of `Admin`, which see."""

    def describe_users(
        self, users: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> Results[str, tuple[ScramCredentialInfo, ...]]:
        """The mechanisms by which users log in with a password that the cluster keeps (SCRAM, KIP-554).

        Args:
            users: names; by default all that have such a password.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each user the mechanisms, `ResourceNotFoundError` for one without any.

        Raises:
            ClusterAuthorizationFailedError: the user that is logged in may not look at the cluster.
            UnsupportedVersionError: brokers before Kafka 2.7, or before 3.5 without ZooKeeper.
        """
        return _access.describe_users(self._open, users, timeout=timeout).wait()

    def alter_users(self, alterations: Iterable[ScramAlteration], *, timeout: Seconds | None = None) -> dict[str, None]:
        """Sets and deletes passwords that the cluster keeps (SCRAM, KIP-554).

        Passwords are salted and hashed here, and are never sent. Brokers take one change a user at a time: where a user
        has several, they are made one after the other, up to the first that fails.

        Args:
            alterations: what to set and delete; each user and mechanism once.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each user of whom not all was changed: `ResourceNotFoundError` where
                there
                is nothing to delete, `UnacceptableCredentialError` for more iterations than the cluster takes.
            ConfigurationError: fewer than 4096 iterations, an empty password, a mechanism twice; nothing is changed.
            UnsupportedVersionError: brokers before Kafka 2.7, or before 3.5 without ZooKeeper.
        """
        return _access.alter_users(self._open, alterations, timeout=timeout).wait()

    def describe_acls(self, acl_filter: AclFilter | None = None, *, timeout: Seconds | None = None) -> list[AclBinding]:
        """ACLs in the order of their resources (KIP-140).

        Args:
            acl_filter: which; by default all.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            SecurityDisabledError: the cluster has no authorizer, and so no ACLs.
            ClusterAuthorizationFailedError: the user that is logged in may not look at the cluster.
        """
        return _access.describe_acls(self._open, acl_filter, timeout=timeout).wait()

    def create_acls(self, acls: Iterable[AclBinding], *, timeout: Seconds | None = None) -> dict[AclBinding, None]:
        """Adds ACLs (KIP-140). One that is there already stays, and is no error.

        Args:
            acls: what to add.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            PartialFailureError: with the error of each ACL that was not added: `SecurityDisabledError` where the
                cluster has
                no authorizer, `InvalidRequestError` for a principal that is not TYPE:NAME.
            UnsupportedVersionError: a prefix on brokers before Kafka 2.0.
        """
        return _access.create_acls(self._open, acls, timeout=timeout).wait()

    def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: Seconds | None = None
    ) -> dict[AclFilter, tuple[AclBinding, ...]]:
        """Removes all ACLs that match one of several filters (KIP-140).

        Args:
            filters: which; `AclBinding.to_filter` makes one for a single ACL.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each filter the ACLs that it removed.

        Raises:
            PartialFailureError: with the error of each filter that nothing was done for, `SecurityDisabledError` where
                the
                cluster has no authorizer, and of each ACL that is still there.
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
        """Makes a delegation token: a login for a while, to be handed to others in place of a password (KIP-48).

        ```python
        token = admin.create_delegation_token(max_lifetime=3600)
        Consumer({"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": token.jaas_config, ...})
        ```

        Brokers learn of it a moment later: a login right after this may be refused, and then succeed.

        Args:
            owner: who those that log in with it are, `User:alice`; by default the user that is logged in (KIP-373).
            renewers: who may renew it besides the owner.
            max_lifetime: after which it expires for good, however often it is renewed; by default, and at most, the
                brokers' `delegation.token.max.lifetime.ms`.
            timeout: seconds, by default `default.api.timeout.ms`. When it has passed, a token may have been made that
                nobody knows.

        Raises:
            DelegationTokenAuthDisabledError: the cluster has no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: the connection is not logged in, or only by a token.
            DelegationTokenAuthorizationFailedError: a token for another user needs CREATE_TOKENS on that user.
            InvalidPrincipalTypeError: an owner or renewer of another type than `User`.
            ConfigurationError: an owner or renewer that is not TYPE:NAME.
            UnsupportedVersionError: brokers before Kafka 1.1, before 3.6 without ZooKeeper; an owner before 3.3.
        """
        return _access.create_delegation_token(
            self._open, owner=owner, renewers=renewers, max_lifetime=max_lifetime, timeout=timeout
        ).wait()

    def renew_delegation_token(
        self, token: DelegationToken | bytes, *, renew_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
        """Makes a delegation token expire later, but not after its maximal lifetime.

        Args:
            token: the token, or its hmac.
            renew_period: from now; by default the brokers' `delegation.token.expiry.time.ms`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            When it expires, milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: no broker knows it, or not yet.
            DelegationTokenExpiredError: it has expired.
            DelegationTokenOwnerMismatchError: the user that is logged in is neither its owner nor one of its renewers.
        """
        return _access.renew_delegation_token(self._open, token, renew_period=renew_period, timeout=timeout).wait()

    def expire_delegation_token(
        self, token: DelegationToken | bytes, *, expiry_period: Seconds | None = None, timeout: Seconds | None = None
    ) -> int:
        """Makes a delegation token expire: at once, or later.

        Args:
            token: the token, or its hmac.
            expiry_period: from now; by default it expires at once.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            When it expires, milliseconds since 1970.

        Raises:
            DelegationTokenNotFoundError: no broker knows it, or not yet.
            DelegationTokenExpiredError: it has expired.
            DelegationTokenOwnerMismatchError: the user that is logged in is neither its owner nor one of its renewers.
        """
        return _access.expire_delegation_token(self._open, token, expiry_period=expiry_period, timeout=timeout).wait()

    def describe_delegation_tokens(
        self, owners: Iterable[str] | None = None, *, timeout: Seconds | None = None
    ) -> list[DelegationToken]:
        """Delegation tokens that have not expired, in the order in which they were made.

        Args:
            owners: whose, `User:alice`; by default all that the user that is logged in may see.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            DelegationTokenAuthDisabledError: the cluster has no `delegation.token.secret.key`.
            DelegationTokenRequestNotAllowedError: the connection is not logged in, or only by a token.
        """
        return _access.describe_delegation_tokens(self._open, owners, timeout=timeout).wait()
