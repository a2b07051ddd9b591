"""Users, ACLs and delegation tokens: types for `Admin`."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from samsarrow.config import Secret
from samsarrow.exceptions import ConfigurationError

E = TypeVar("E", bound=Enum)


class _Code(Enum):
    """Base of Kafka's enums, whose values are the codes in the protocol."""

    @classmethod
    def _missing_(cls, value: object) -> Enum | None:
        # Newer brokers may send codes that this enum does not have.
        return cls["UNKNOWN"] if isinstance(value, int) else None


class ScramMechanism(_Code):
    """A SCRAM mechanism, with which a client proves that it knows a password without sending it (KIP-84)."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """The value of the option `sasl.mechanism`, such as `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")


class ResourceType(_Code):
    """The type of a resource in an ACL."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """The way in which the name in an ACL is compared with names of resources (KIP-290).

    ACLs have `LITERAL` or `PREFIXED`; with `LITERAL`, the name `*` matches all resources. In a filter, `ANY` matches
    both, and `MATCH` matches every ACL that applies to the resource with the filter's name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """An operation that ACLs allow or deny on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Code):
    """The effect of an ACL: it allows or denies an operation. Denials override ACLs that allow the operation."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An ACL: allows or denies a principal an operation on a resource, from a host.

    Attributes:
        resource_type: type of the resource.
        resource_name: name of the resource, or `*` for all resources of the type; with `PREFIXED` a prefix of names.
            The name of the cluster is `kafka-cluster`.
        principal: principal, such as `User:alice`; `User:*` for all users.
        operation: the operation.
        permission: whether the operation is allowed or denied.
        host: address of the client; `*` for all addresses.
        pattern_type: comparison of `resource_name` with names of resources.

    Raises:
        ConfigurationError: a field has a value that only filters can have, such as `AclOperation.ANY`.
    """

    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL

    def __post_init__(self) -> None:
        _check_kinds(self)
        for name, vague in (
            ("resource_type", (ResourceType.ANY,)),
            ("pattern_type", (PatternType.ANY, PatternType.MATCH)),
            ("operation", (AclOperation.ANY,)),
            ("permission", (AclPermission.ANY,)),
        ):
            value = getattr(self, name)
            if value in vague:
                raise ConfigurationError(f"an ACL needs a definite {name}, not {value.name}, which is for filters")

    def to_filter(self) -> AclFilter:
        """Returns the filter that matches exactly this ACL."""
        return AclFilter(
            self.resource_type, self.resource_name, self.principal, self.operation, self.permission, self.host,
            self.pattern_type,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs. None and `ANY` match everything, so `AclFilter()` matches all ACLs.

    Attributes:
        resource_type: type of the resource.
        resource_name: name in the ACL; with `MATCH`, the name of a resource to which the ACLs apply.
        principal: the principal.
        operation: the operation.
        permission: whether the operation is allowed or denied.
        host: the client's address.
        pattern_type: comparison of `resource_name` with names of resources.
    """

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY

    def __post_init__(self) -> None:
        _check_kinds(self)


def _check_kinds(acl: AclBinding | AclFilter) -> None:
    for name, kind in (
        ("resource_type", ResourceType),
        ("pattern_type", PatternType),
        ("operation", AclOperation),
        ("permission", AclPermission),
    ):
        check_kind(name, kind, getattr(acl, name))


def check_kind(name: str, kind: type[E], value: E) -> E:
    """Returns `value` if it is a member of the enum `kind`.

    Raises:
        TypeError: `value` is not a member, for example text or a number. Without this check the error would come later
            or not at all.
    """
    if not isinstance(value, kind):
        example = list(kind)[-1]
        raise TypeError(f"{name} must be a {kind.__name__} such as {kind.__name__}.{example.name}, not {value!r}")
    return value


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """A user's credential, without the password.

    Attributes:
        mechanism: SCRAM mechanism of the credential.
        iterations: number of hash iterations.
    """

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A password to set for a user (KIP-554). Neither password nor salt is printed.

    It replaces the user's earlier password for the mechanism.

    Attributes:
        user: name of the user. Brokers store passwords for names that are not ASCII, but reject logins with these
            names.
        mechanism: mechanism to which the password applies.
        password: password. It is never sent; brokers receive only values that are derived from it.
        iterations: number of hash iterations, at least 4096; Kafka's brokers accept up to 16384. More iterations make
            the password harder to guess, and each login slower.
        salt: salt of the hash, by default random.
    """

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = 4096
    salt: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_kind("mechanism", ScramMechanism, self.mechanism)
        if not isinstance(self.password, str):
            raise TypeError(f"password must be text, not {type(self.password).__name__}")
        object.__setattr__(self, "password", Secret(self.password))


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """A password of a user to delete (KIP-554).

    Attributes:
        user: name of the user.
        mechanism: mechanism to which the password applies.
    """

    user: str
    mechanism: ScramMechanism

    def __post_init__(self) -> None:
        check_kind("mechanism", ScramMechanism, self.mechanism)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A delegation token: a temporary login without a password (KIP-48). Its secret is not printed.

    Attributes:
        token_id: id of the token, which is the user name of logins.
        hmac: secret of the token.
        owner: principal of clients that log in with the token, such as `User:alice`.
        requester: principal that created the token (KIP-373); None from brokers before 3.3.
        renewers: principals that may renew the token, besides its owner.
        issue_timestamp: creation time, milliseconds since 1970.
        expiry_timestamp: time at which the token expires unless it is renewed, milliseconds since 1970.
        max_timestamp: time after which the token cannot be renewed, milliseconds since 1970.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issue_timestamp: int
    expiry_timestamp: int
    max_timestamp: int

    @property
    def hmac_base64(self) -> Secret:
        """The secret as text, which is the password of logins."""
        return Secret(base64.b64encode(self.hmac).decode())

    @property
    def jaas_config(self) -> Secret:
        """The option `sasl.jaas.config` for clients that log in with the token by SCRAM-SHA-256 or SCRAM-SHA-512."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        user, password = self.token_id.replace("\\", "\\\\").replace('"', '\\"'), self.hmac_base64.reveal()
        return Secret(f'{module} required username="{user}" password="{password}" tokenauth="true";')
