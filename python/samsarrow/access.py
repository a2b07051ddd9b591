"""Users, ACLs and delegation tokens: names for what `Admin` takes and gives."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from samsarrow.config import Secret
from samsarrow.exceptions import ConfigurationError

E = TypeVar("E", bound=Enum)


class _Code(Enum):
    """Names of Kafka's; the values are the numbers in its protocol."""

    @classmethod
    def _missing_(cls, value: object) -> Enum | None:
        # What a broker that is newer than this client may say.
        return cls["UNKNOWN"] if isinstance(value, int) else None


class ScramMechanism(_Code):
    """How a password is proven without being sent (KIP-84)."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """As `sasl.mechanism` has it: `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")


class ResourceType(_Code):
    """What an ACL is about."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Code):
    """How the name in an ACL is compared with the names of resources (KIP-290).

    In an ACL it is `LITERAL`, where the name `*` stands for all, or `PREFIXED`. In a filter `ANY` takes both, and
    `MATCH` takes every ACL that applies to the resource of that name.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Code):
    """What is done to a resource."""

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
    """Whether it may be done; what one ACL denies no other can allow."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An ACL: who may or may not do what to which resource, from where.

    Attributes:
        resource_type: what the resource is.
        resource_name: its name, `*` for all, or with `PREFIXED` how the names begin; `kafka-cluster` for the cluster.
        principal: who, `User:alice`; `User:*` are all.
        operation: what is done.
        permission: whether it may be.
        host: the address that it is done from; `*` are all.
        pattern_type: what the name is.

    Raises:
        ConfigurationError: a field that says more than one thing, such as `AclOperation.ANY`.
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
            given = getattr(self, name)
            if given in vague:
                raise ConfigurationError(f"an ACL needs a definite {name}, not {given.name}, which is for filters")

    def to_filter(self) -> AclFilter:
        """The filter that matches this ACL and no other."""
        return AclFilter(
            self.resource_type, self.resource_name, self.principal, self.operation, self.permission, self.host,
            self.pattern_type,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Some ACLs; what is None or `ANY` matches all, so `AclFilter()` are all.

    Attributes:
        resource_type: what the resource is.
        resource_name: as it stands in the ACL; with `MATCH` the name of a resource that the ACLs apply to.
        principal: who.
        operation: what is done.
        permission: whether it may be.
        host: the address that it is done from.
        pattern_type: what the name is.
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


def _check_kinds(of: AclBinding | AclFilter) -> None:
    for name, kind in (
        ("resource_type", ResourceType),
        ("pattern_type", PatternType),
        ("operation", AclOperation),
        ("permission", AclPermission),
    ):
        check_kind(name, kind, getattr(of, name))


def check_kind(name: str, kind: type[E], given: E) -> E:
    """That a name of Kafka's is one of its enum, where text or a number would be taken apart later or never."""
    if not isinstance(given, kind):
        some = list(kind)[-1]
        raise TypeError(f"{name} must be a {kind.__name__} such as {kind.__name__}.{some.name}, not {given!r}")
    return given


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """What brokers say of a password.

    Attributes:
        mechanism: how it is proven.
        iterations: how often it was hashed.
    """

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A password to set for a user, who may have had one before (KIP-554). Neither password nor salt prints.

    Attributes:
        user: whose. Of names that are not ASCII Kafka's brokers keep passwords, and take no login.
        mechanism: for which logins.
        password: never sent: brokers get what is made of it.
        iterations: how often it is hashed, at least 4096; Kafka's brokers take up to 16384. More make guessing harder,
            and each login slower.
        salt: random by default.
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
    """A password to delete (KIP-554).

    Attributes:
        user: whose.
        mechanism: for which logins.
    """

    user: str
    mechanism: ScramMechanism

    def __post_init__(self) -> None:
        check_kind("mechanism", ScramMechanism, self.mechanism)


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A login for a while, without a password (KIP-48). What it proves itself with does not print.

    Attributes:
        token_id: its name, the user of a login.
        hmac: its secret.
        owner: who a client is that logs in with it, `User:alice`.
        requester: who asked for it (KIP-373); None where the broker does not report it (before 3.3).
        renewers: who may renew it besides its owner.
        issue_timestamp: when it was made, milliseconds since 1970.
        expiry_timestamp: when it expires unless it is renewed, milliseconds since 1970.
        max_timestamp: when it expires for good, milliseconds since 1970.
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
        """The secret as text, the password of a login."""
        return Secret(base64.b64encode(self.hmac).decode())

    @property
    def jaas_config(self) -> Secret:
        """For the option `sasl.jaas.config` of a client that logs in with it, by SCRAM-SHA-256 or SCRAM-SHA-512."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        user, password = self.token_id.replace("\\", "\\\\").replace('"', '\\"'), self.hmac_base64.reveal()
        return Secret(f'{module} required username="{user}" password="{password}" tokenauth="true";')
