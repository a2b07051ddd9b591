"""Users, ACLs and delegation tokens on Apache Kafka, written by us and read by Java's AdminClient, and the reverse."""

import json
import subprocess
import time

import pytest
from click.testing import CliRunner
from confluent_kafka import admin as theirs

from samsarrow import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    Admin,
    PatternType,
    Producer,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from samsarrow.cli import cli
from samsarrow.exceptions import (
    ClusterAuthorizationFailedError,
    DelegationTokenAuthDisabledError,
    DelegationTokenAuthorizationFailedError,
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    InvalidPrincipalTypeError,
    InvalidRequestError,
    ResourceNotFoundError,
    SecurityDisabledError,
    TopicAuthorizationFailedError,
    UnacceptableCredentialError,
)
from samsarrow.results import PartialFailureError
from support.kafka import QUICK_COMPILER, SUPPORT, KafkaServer, free_ports, server_of
from support.waiting import until

SHA256, SHA512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
MODULE = "org.apache.kafka.common.security.{0}.{1}LoginModule required"
SCRAM = MODULE.format("scram", "Scram")
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}
TOPIC_READ = AclBinding(ResourceType.TOPIC, "t", "User:alice", AclOperation.READ)


class SecuredKafka(KafkaServer):
    """A broker with an authorizer, tokens, and a second listener: SASL_PLAINTEXT for PLAIN and SCRAM-SHA-512."""

    def __init__(self) -> None:
        listener = "listener.name.sasl_plaintext"
        super().__init__(
            heap="512m",
            jvm=QUICK_COMPILER,
            properties={
                **AUTHORIZER,
                "listener.security.protocol.map": ",".join(
                    f"{name}:{name.replace('CONTROLLER', 'PLAINTEXT')}"
                    for name in ("PLAINTEXT", "CONTROLLER", "SASL_PLAINTEXT")
                ),
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                f"{listener}.plain.sasl.jaas.config": MODULE.format("plain", "Plain")
                + ' user_admin="admin-pw" user_alice="alice-pw";',
                f"{listener}.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
                f"{listener}.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
                "delegation.token.secret.key": "the-secret-of-tokens",
            },
        )
        [port] = free_ports(1)
        self.sasl = f"127.0.0.1:{port}"
        for name in ("listeners", "advertised.listeners"):
            self._properties[name] += f",SASL_PLAINTEXT://{self.sasl}"

    def as_user(self, user: str) -> dict[str, str]:
        """Returns options to authenticate with PLAIN."""
        return {
            "bootstrap.servers": self.sasl,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": f"{user}-pw",
        }

    def java_reads(self, *logins: dict[str, str]) -> dict:
        """Returns the results of Java's AdminClient logged in as `admin`, and whether each of `logins` succeeds."""
        jaas = MODULE.format("plain", "Plain") + ' username="admin" password="admin-pw";'
        common = {"bootstrap.servers": self.sasl, "security.protocol": "SASL_PLAINTEXT"}
        config = {**common, "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
        done = subprocess.run(
            self.java(str(SUPPORT / "java" / "Access.java"), jvm=["-Xmx256m", *QUICK_COMPILER]),
            input=json.dumps({"config": config, "logins": [{**common, **login} for login in logins]}),
            capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def kafka():
    with SecuredKafka() as kafka:
        yield kafka


@pytest.fixture(scope="module")
def admin(kafka):
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        yield admin


@pytest.fixture(scope="module")
def other(kafka):
    """An admin client of librdkafka, with which tests also make changes."""
    return theirs.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture(autouse=True)
def nothing_left(admin):
    yield
    admin.delete_acls([AclFilter()])
    have = admin.describe_users()
    admin.alter_users([UserScramCredentialDeletion(user, c.mechanism) for user in have for c in have[user]])
    until(lambda: admin.describe_acls() == [] and admin.describe_users() == {})


def test_users_are_set_read_and_deleted(kafka, admin, other):
    name = "bj=o,rn"
    changes = [
        UserScramCredentialUpsertion(name, SHA512, "pä=ss, word", 8192),
        UserScramCredentialUpsertion(name, SHA256, "other"),
        UserScramCredentialUpsertion("too-many", SHA256, "p", 16385),
        UserScramCredentialDeletion("nobody", SHA256),
    ]
    with pytest.raises(PartialFailureError) as raised:
        admin.alter_users(changes)
    done = raised.value.failures
    assert raised.value.succeeded == {name: None}
    assert isinstance(done["too-many"], UnacceptableCredentialError)
    assert "Too many iterations" in str(done["too-many"])
    assert isinstance(done["nobody"], ResourceNotFoundError)
    both = (ScramCredentialInfo(SHA256, 4096), ScramCredentialInfo(SHA512, 8192))
    until(lambda: admin.describe_users() == {name: both})
    result = admin.describe_users([name, "nobody"])
    assert result[name] == both
    assert isinstance(result.errors["nobody"], ResourceNotFoundError)
    # Java's client can log in with the passwords.
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": f'{SCRAM} username="{name}" password="%s";'}
    right, wrong = (
        {**login, "sasl.jaas.config": login["sasl.jaas.config"] % password} for password in ("pä=ss, word", "other")
    )
    read = kafka.java_reads(right, {**wrong, "sasl.mechanism": "SCRAM-SHA-256"}, wrong)
    assert sorted(read["users"]) == [[name, "SCRAM-SHA-256", 4096], [name, "SCRAM-SHA-512", 8192]]
    assert read["logins"][:2] == ["ok", "ok"]
    assert "SaslAuthenticationException" in read["logins"][2]

    info = theirs.ScramCredentialInfo(theirs.ScramMechanism.SCRAM_SHA_256, 5000)
    [future] = other.alter_user_scram_credentials([theirs.UserScramCredentialUpsertion("theirs", info, b"p")]).values()
    future.result(20)
    until(lambda: admin.describe_users().get("theirs") == (ScramCredentialInfo(SHA256, 5000),))
    assert admin.alter_users([UserScramCredentialDeletion("theirs", SHA256)]) == {"theirs": None}
    until(lambda: list(admin.describe_users()) == [name])


def test_acls_are_added_read_and_removed(kafka, admin, other):
    acls = [
        TOPIC_READ,
        AclBinding(
            ResourceType.TOPIC, "t", "User:bob", AclOperation.WRITE, AclPermission.DENY, "10.0.0.1",
            PatternType.PREFIXED,
        ),
        AclBinding(ResourceType.GROUP, "*", "User:*", AclOperation.ALL),
        AclBinding(ResourceType.CLUSTER, "kafka-cluster", "User:alice", AclOperation.DESCRIBE_CONFIGS),
        AclBinding(ResourceType.TRANSACTIONAL_ID, "x", "User:alice", AclOperation.TWO_PHASE_COMMIT),
        AclBinding(ResourceType.DELEGATION_TOKEN, "x", "User:alice", AclOperation.DESCRIBE),
        AclBinding(ResourceType.USER, "User:bob", "User:alice", AclOperation.CREATE_TOKENS),
    ]  # fmt: skip
    nameless = AclBinding(ResourceType.TOPIC, "t", "alice", AclOperation.READ)
    with pytest.raises(InvalidRequestError) as raised:
        admin.create_acls([*acls, nameless, acls[0]])
    assert isinstance(raised.value, PartialFailureError)
    assert (list(raised.value.failures), list(raised.value.succeeded)) == ([nameless], acls)
    assert admin.create_acls([TOPIC_READ]) == {TOPIC_READ: None}, "it is there already"
    assert until(lambda: len(actual := admin.describe_acls()) == len(acls) and actual) == acls
    rows = [
        [a.resource_type.name, a.resource_name, a.pattern_type.name, a.principal, a.host, a.operation.name,
         a.permission.name]
        for a in acls
    ]  # fmt: skip
    assert sorted(kafka.java_reads()["acls"]) == sorted(rows)

    for acl_filter, matching in [
        (AclFilter(principal="User:bob"), acls[1:2]),
        (AclFilter(operation=AclOperation.DESCRIBE), acls[5:6]),
        (AclFilter(permission=AclPermission.DENY), acls[1:2]),
        (AclFilter(host="10.0.0.1"), acls[1:2]),
        (AclFilter(ResourceType.TOPIC, "tt", pattern_type=PatternType.MATCH), acls[1:2]),
        (AclFilter(ResourceType.TOPIC, "t", pattern_type=PatternType.MATCH), acls[:2]),
        (AclFilter(ResourceType.GROUP, "g", pattern_type=PatternType.MATCH), acls[2:3]),
        (AclFilter(ResourceType.GROUP, "g"), []),
        (acls[3].to_filter(), acls[3:4]),
    ]:
        assert admin.describe_acls(acl_filter) == matching, acl_filter

    [future] = other.create_acls(
        [
            theirs.AclBinding(
                theirs.ResourceType.TOPIC, "theirs", theirs.ResourcePatternType.PREFIXED, "User:c", "*",
                theirs.AclOperation.ALTER, theirs.AclPermissionType.ALLOW,
            )
        ]
    ).values()  # fmt: skip
    future.result(20)
    their = AclBinding(ResourceType.TOPIC, "theirs", "User:c", AclOperation.ALTER, pattern_type=PatternType.PREFIXED)
    assert until(lambda: admin.describe_acls(AclFilter(principal="User:c"))) == [their]

    bobs, none, groups = AclFilter(principal="User:bob"), AclFilter(host="nowhere"), acls[2].to_filter()
    assert admin.delete_acls([bobs, none, groups]) == {bobs: (acls[1],), none: (), groups: (acls[2],)}
    until(lambda: len(admin.describe_acls()) == len(acls) - 1)


def test_acl_grants_access(kafka, admin):
    admin.create_topics(["closed"])
    with Producer(kafka.as_user("alice"), request_timeout_ms=10_000, delivery_timeout_ms=20_000) as producer:
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("closed", b"x").result(20)
        write = AclBinding(
            ResourceType.TOPIC, "clo", "User:alice", AclOperation.WRITE, pattern_type=PatternType.PREFIXED
        )
        assert admin.create_acls([write]) == {write: None}
        until(lambda: admin.describe_acls() == [write])
        assert producer.send("closed", b"x").result(20).offset == 0


def test_authorization_errors_name_missing_permission(kafka):
    with Admin(kafka.as_user("alice")) as alice:
        for look in (alice.describe_users, alice.describe_acls):
            with pytest.raises(ClusterAuthorizationFailedError, match="needs the operation DESCRIBE on the cluster"):
                look()
        with pytest.raises(ClusterAuthorizationFailedError, match="needs the operation ALTER on the cluster"):
            alice.create_acls([TOPIC_READ])
        with pytest.raises(ClusterAuthorizationFailedError):
            alice.delete_acls([AclFilter()])
        with pytest.raises(ClusterAuthorizationFailedError) as raised:
            alice.alter_users([UserScramCredentialUpsertion("u", SHA256, "hunter2")])
        assert "hunter2" not in str(raised.value)
        with pytest.raises(DelegationTokenAuthorizationFailedError, match="CREATE_TOKENS"):
            alice.create_delegation_token(owner="User:bob")


def test_tokens_are_created_renewed_and_expired(kafka, admin):
    now = time.time() * 1000
    with Admin(kafka.as_user("admin")) as minting, Admin(kafka.as_user("alice")) as alice:
        token = minting.create_delegation_token(owner="User:alice", renewers=["User:bob"], max_lifetime=3600)
        assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:admin", ("User:bob",))
        assert now - 60_000 < token.issue_timestamp < now + 60_000
        assert token.max_timestamp == token.issue_timestamp + 3_600_000 == token.expiry_timestamp
        own = minting.create_delegation_token()
        assert (own.owner, own.renewers) == ("User:admin", ())
        assert own.max_timestamp - own.issue_timestamp == 7 * 24 * 3_600_000
        assert until(lambda: len(result := minting.describe_delegation_tokens()) == 2 and result) == [token, own]
        assert minting.describe_delegation_tokens(["User:alice"]) == [token]
        assert minting.describe_delegation_tokens([]) == []
        assert alice.describe_delegation_tokens() == [token], "others' are not hers to see"

        # Java lists the same token, and authenticates with it.
        login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": token.jaas_config.reveal()}
        read = kafka.java_reads(login, {**login, "sasl.mechanism": "SCRAM-SHA-256"})
        assert read["logins"] == ["ok", "ok"]
        assert {
            "id": token.token_id, "hmac": token.hmac_base64.reveal(), "owner": "User:alice", "requester": "User:admin",
            "issued": token.issue_timestamp, "expires": token.expiry_timestamp, "ends": token.max_timestamp,
            "renewers": ["User:bob"],
        } in read["tokens"]  # fmt: skip

        asked = time.time() * 1000
        renewed = alice.renew_delegation_token(token, renew_period=1800)
        assert asked + 1_700_000 < renewed < time.time() * 1000 + 1_900_000
        until(lambda: alice.describe_delegation_tokens()[0].expiry_timestamp == renewed)
        with pytest.raises(DelegationTokenOwnerMismatchError, match="by its owner and its renewers"):
            alice.expire_delegation_token(own)
        assert alice.expire_delegation_token(token.hmac, expiry_period=600) < renewed
        assert alice.expire_delegation_token(token) < time.time() * 1000 + 5000
        until(lambda: alice.describe_delegation_tokens() == [])
        with pytest.raises(DelegationTokenNotFoundError, match="the brokers have no token with this hmac") as raised:
            alice.renew_delegation_token(token)
        assert token.hmac_base64.reveal() not in str(raised.value)
        with pytest.raises(InvalidPrincipalTypeError, match="as in User:alice"):
            minting.create_delegation_token(renewers=["Group:g"])
        minting.expire_delegation_token(own)
    for call in (admin.create_delegation_token, admin.describe_delegation_tokens):
        with pytest.raises(DelegationTokenRequestNotAllowedError, match="log in by SASL or with a client certificate"):
            call()


def test_cli_security_commands(kafka, admin):
    def run(*arguments, code=0, stdin=""):
        done = CliRunner().invoke(cli, [*arguments, "-b", kafka.bootstrap_servers], input=stdin)
        assert done.exit_code == code, done.output
        return done.output

    assert "user carol: password set for SCRAM-SHA-512" in run("users", "set", "carol", "--password-stdin", stdin="p\n")
    until(lambda: "carol" in admin.describe_users())
    assert [line.split() for line in run("users", "list", "-o", "table").splitlines()] == [
        ["USER", "MECHANISM", "ITERATIONS"], ["carol", "SCRAM-SHA-512", "4096"]
    ]  # fmt: skip
    assert json.loads(run("users", "list", "carol")) == {
        "user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 4096
    }  # fmt: skip
    assert "user dave has no password here" in run("users", "list", "dave")
    assert "password changed for SCRAM-SHA-512" in run("users", "set", "carol", "--password-stdin", stdin="q\n")
    assert "pass --yes" in run("users", "delete", "carol", "dave", code=2)
    assert run("users", "delete", "carol", "dave", "--yes").endswith("user carol: deleted\n")
    until(lambda: admin.describe_users() == {})
    assert run("users", "delete", "carol") == "user carol: nothing to delete\n"

    output = run("acls", "add", "--topic", "t", "--group", "g", "--principal", "User:carol", "--consumer")
    assert output.endswith("3 ACLs added, or already present\n")
    until(lambda: len(admin.describe_acls()) == 3)
    assert [line.split() for line in run("acls", "list", "--topic", "t", "-o", "table").splitlines()] == [
        ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        ["TOPIC", "t", "LITERAL", "User:carol", "*", "DESCRIBE", "ALLOW"],
        ["TOPIC", "t", "LITERAL", "User:carol", "*", "READ", "ALLOW"],
    ]
    [line] = run("acls", "list", "--group", "g", "--pattern", "match").splitlines()
    assert json.loads(line) == {
        "resource": "GROUP", "name": "g", "pattern": "LITERAL", "principal": "User:carol", "host": "*",
        "operation": "READ", "permission": "ALLOW",
    }  # fmt: skip
    assert "dry run: nothing is removed" in run("acls", "remove", "--topic", "t", "--dry-run")
    assert "Removing 1 ACLs" in run("acls", "remove", "--topic", "t", "--operation", "read", code=2)
    assert run("acls", "remove", "--topic", "t", "--operation", "read", "--yes").endswith("1 ACLs removed\n")
    until(lambda: len(admin.describe_acls()) == 2)
    assert run("acls", "remove", "--principal", "User:carol", "--yes").endswith("2 ACLs removed\n")
    refused = CliRunner().invoke(
        cli, ["acls", "add", "--topic", "t", "--principal", "User:a", "--operation", "read",
              *(part for pair in kafka.as_user("alice").items() for part in ("-c", "=".join(pair)))]
    )  # fmt: skip
    assert refused.exit_code == 1
    assert "0 ACLs added" in refused.output
    assert "needs the operation ALTER on the cluster" in refused.output


def test_kafka_2_8_with_zookeeper():
    """Kafka 2.8 supports ACLs of version 2, and changes of users at the controller. The broker has no secret for
    tokens.
    """
    authorizer = {**AUTHORIZER, "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    with server_of("2.8.2", authorizer) as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        assert admin.create_acls([TOPIC_READ]) == {TOPIC_READ: None}
        until(lambda: admin.describe_acls() == [TOPIC_READ])
        assert admin.delete_acls([AclFilter()]) == {AclFilter(): (TOPIC_READ,)}
        assert admin.alter_users([UserScramCredentialUpsertion("u", SHA256, "p")]) == {"u": None}
        until(lambda: admin.describe_users() == {"u": (ScramCredentialInfo(SHA256, 4096),)})
        with pytest.raises(DelegationTokenRequestNotAllowedError):
            admin.create_delegation_token()


def test_missing_authorizer_error():
    with server_of("3.7.2") as kafka, Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        with pytest.raises(SecurityDisabledError, match=r"set authorizer\.class\.name on brokers and controllers"):
            admin.describe_acls()
        with pytest.raises(SecurityDisabledError):
            admin.create_acls([TOPIC_READ])
        with pytest.raises((DelegationTokenAuthDisabledError, DelegationTokenRequestNotAllowedError)):
            admin.describe_delegation_tokens()
        assert admin.alter_users([UserScramCredentialUpsertion("u", SHA512, "p")]) == {"u": None}
