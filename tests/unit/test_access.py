"""Value types of users, ACLs and delegation tokens."""

import dataclasses
import pickle

import pytest

from samsarrow import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    Admin,
    DelegationToken,
    PatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from samsarrow.exceptions import ConfigurationError

READ = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.READ)
UPSERTION = UserScramCredentialUpsertion("alice", ScramMechanism.SCRAM_SHA_512, "hunter2", salt=b"hunter3")
TOKEN = DelegationToken("id", b"hunter2", "User:alice", None, (), 1, 2, 3)


def test_enum_values_of_newer_brokers_are_unknown():
    for kind in (ScramMechanism, ResourceType, PatternType, AclOperation, AclPermission):
        assert kind(99) is kind["UNKNOWN"]
        with pytest.raises(ValueError, match="is not a valid"):
            kind("READ")
    assert ScramMechanism.SCRAM_SHA_256.mechanism_name == "SCRAM-SHA-256"


def test_acl_binding_defaults_and_hash():
    assert (READ.permission, READ.host, READ.pattern_type) == (AclPermission.ALLOW, "*", PatternType.LITERAL)
    assert {READ: 1}[dataclasses.replace(READ)] == 1
    assert pickle.loads(pickle.dumps(READ)) == READ
    assert READ.to_filter() == AclFilter(
        ResourceType.TOPIC, "t", "User:alice", AclOperation.READ, AclPermission.ALLOW, "*", PatternType.LITERAL
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        READ.host = "x"


@pytest.mark.parametrize(
    ("name", "vague"),
    [
        ("resource_type", ResourceType.ANY),
        ("pattern_type", PatternType.MATCH),
        ("pattern_type", PatternType.ANY),
        ("operation", AclOperation.ANY),
        ("permission", AclPermission.ANY),
    ],
)
def test_acl_binding_rejects_filter_values(name, vague):
    with pytest.raises(ConfigurationError, match=f"definite {name}, not {vague.name}, which is for filters"):
        dataclasses.replace(READ, **{name: vague})
    assert getattr(AclFilter(**{name: vague}), name) is vague
    with pytest.raises(TypeError, match=f"{name} must be a .* such as .*, not 'READ'"):
        dataclasses.replace(READ, **{name: "READ"})
    with pytest.raises(TypeError, match=f"{name} must be a "):
        AclFilter(**{name: 2})


def test_repr_and_pickle_hide_secrets():
    for secret in (UPSERTION, TOKEN, UPSERTION.password, TOKEN.hmac_base64, TOKEN.jaas_config):
        for text in (repr(secret), str(secret), f"{secret}", f"{[secret]}"):
            assert "hunter" not in text
            assert "aHVudGVyMg==" not in text
    assert UPSERTION.password == "hunter2"
    assert dataclasses.replace(UPSERTION, user="bob").password == "hunter2", "not what it shows"
    again = pickle.loads(pickle.dumps((UPSERTION, TOKEN)))
    assert again == (UPSERTION, TOKEN)
    assert "hunter" not in str(again)


def test_delegation_token_as_scram_login():
    assert TOKEN.hmac_base64.reveal() == "aHVudGVyMg=="
    assert TOKEN.jaas_config.reveal() == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="id" password="aHVudGVyMg==" tokenauth="true";'
    )


def test_admin_checks_arguments_before_it_sends_a_request():
    with Admin(bootstrap_servers="127.0.0.1:1") as admin:
        deletion = UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)
        assert admin.alter_users([]) == admin.create_acls([]) == admin.delete_acls([]) == admin.describe_users([]) == {}
        for wrong, error, match in [
            (lambda: admin.alter_users(["alice"]), TypeError, "not str"),
            (lambda: admin.describe_users("alice"), TypeError, "users must be an iterable of str"),
            (lambda: admin.create_acls([READ.to_filter()]), TypeError, "must be AclBinding, not AclFilter"),
            (lambda: admin.delete_acls([READ]), TypeError, "must be AclFilter, not AclBinding"),
            (lambda: admin.renew_delegation_token("hmac"), TypeError, "token must be DelegationToken or bytes"),
            (lambda: admin.create_delegation_token(renewers="User:a"), TypeError, "renewers must be an iterable"),
            (lambda: admin.create_delegation_token(owner="alice"), ConfigurationError, "write TYPE:NAME"),
            (lambda: admin.create_delegation_token(renewers=["User:"]), ConfigurationError, "write TYPE:NAME"),
            (lambda: admin.create_delegation_token(max_lifetime=0), ConfigurationError, "needs a lifetime"),
            (lambda: admin.create_delegation_token(max_lifetime=-1), ConfigurationError, "a lifetime of -1 seconds"),
            (lambda: admin.renew_delegation_token(TOKEN, renew_period=-1), ConfigurationError, "a renewal of -1"),
            (lambda: UserScramCredentialUpsertion("a", "SCRAM", "p"), TypeError, "such as ScramMechanism.SCRAM_SHA"),
            (lambda: UserScramCredentialUpsertion("a", ScramMechanism(1), b"p"), TypeError, "must be text, not bytes"),
            (lambda: UserScramCredentialDeletion("a", 1), TypeError, "mechanism must be a ScramMechanism"),
        ]:
            with pytest.raises(error, match=match):
                wrong()
        for iterations in (-1, 0, 4095, 10**7, 2**40):
            few = dataclasses.replace(UPSERTION, iterations=iterations)
            with pytest.raises(ConfigurationError, match="not between 4096 and 1000000") as raised:
                admin.alter_users([deletion, few])
            assert "hunter" not in str(raised.value)
        with pytest.raises(ConfigurationError, match="user alice: the password is empty"):
            admin.alter_users([dataclasses.replace(UPSERTION, password="")])
