"""OAuth tokens on the embedded broker: from Python functions, from files, from an HTTPS issuer, and invalid tokens."""

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from samsarrow import Consumer, Producer, TokenProvider
from samsarrow.exceptions import (
    AuthenticationError,
    ConfigurationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    TlsError,
)
from samsarrow.testing import Broker
from support.oidc import ID, SECRET, Issuer, private_pem, unsecured

OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT") as broker:
        yield broker


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with Issuer(tmp_path_factory.mktemp("issuer")) as issuer:
        yield issuer


@pytest.fixture(autouse=True)
def good(request: pytest.FixtureRequest) -> None:
    if "issuer" in request.fixturenames:
        issuer = request.getfixturevalue("issuer")
        issuer.mode, issuer.life = "good", 3600
        issuer.asked.clear()


def producer(broker: Broker, **options: Any) -> Producer:
    config = {name.replace("_", "."): value for name, value in options.items()}
    quick = {"max.block.ms": 4000, "bootstrap.servers": broker.bootstrap_servers}
    return Producer({**OAUTH, **quick, **config})


def sends(broker: Broker, **options: Any) -> None:
    with producer(broker, **options) as client:
        client.send("t", b"v").result(10)


class Provided:
    """A token provider of kafka-python."""

    def token(self) -> str:
        return unsecured()

    def extensions(self) -> dict[str, str]:
        return {"traceId": "t1"}


class ProvidedLater:
    """A token provider of aiokafka."""

    async def token(self) -> str:
        await asyncio.sleep(0)
        return unsecured()


async def later() -> tuple[str, float]:
    await asyncio.sleep(0.01)
    return unsecured(), time.time() + 60


@pytest.mark.parametrize(
    "provider",
    [
        unsecured,
        lambda: (unsecured(), time.time() + 60),
        lambda: (unsecured(), time.time() + 60, "alice"),
        lambda: (unsecured(), time.time() + 60, "alice", {"traceId": "t1"}),
        lambda: (unsecured(), None),
        later,
        Provided(),
        ProvidedLater(),
        "support.oidc:unsecured",
        f"{__name__.rpartition('.')[2]}:Provided",
    ],
    ids=["text", "end", "principal", "extensions", "no end", "async", "object", "async object", "name", "class"],
)
@pytest.mark.parametrize("option", ["sasl_oauthbearer_token_provider", "sasl_oauth_token_provider"])
def test_tokens_from_python(
    broker: Broker, provider: TokenProvider, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, __name__.rpartition(".")[2], sys.modules[__name__])
    before = broker.logins().succeeded
    sends(broker, **{option: provider})
    assert broker.logins().succeeded > before


def test_oauth_cb_gets_the_configuration(broker: Broker) -> None:
    got = []

    def callback(config: str) -> tuple[str, float]:
        got.append((config, threading.current_thread().name))
        return unsecured(), time.time() + 60

    sends(broker, oauth_cb=callback, **{"sasl.oauthbearer.config": "scope=read"})
    assert got == [("scope=read", "samsarrow-tokens")]
    sends(broker, oauth_cb=lambda config="none given": (got.append((config, "")), later())[1])
    assert got[1:] == [("", "")]
    # A function is called without arguments if it is passed as token provider, unlike `oauth_cb`.
    sends(broker, sasl_oauthbearer_token_provider=lambda config="mine": got.append(config) or unsecured())
    assert got[2:] == ["mine"]


def test_token_is_shared_and_refreshed_in_background(broker: Broker) -> None:
    calls: list[float] = []

    def callback() -> tuple[str, float]:
        calls.append(time.monotonic())
        return unsecured(life=4), time.time() + 4

    options = {"bootstrap.servers": broker.bootstrap_servers, "sasl.oauthbearer.token.provider": callback, **OAUTH}
    with Consumer(options, group_id="tokens") as consumer:
        consumer.subscribe(["t"])
        consumer.poll(1)
        # A group's consumer has connections for metadata, fetches and the coordinator.
        assert len(calls) == 1
        wait_until(lambda: len(calls) >= 3)
    count = len(calls)
    time.sleep(4.5)
    assert len(calls) == count, "the task ended with its client"


def test_client_close_ends_token_thread_and_loop(broker: Broker) -> None:
    def threads() -> int:
        return sum(thread.name == "samsarrow-tokens" for thread in threading.enumerate())

    loops = []

    async def token() -> str:
        loops.append(asyncio.get_running_loop())
        return unsecured()

    before = threads()
    sends(broker, oauth_cb=lambda config: token())
    wait_until(lambda: threads() <= before)
    assert loops[0].is_closed()


def test_provider_exception_is_the_cause(broker: Broker) -> None:
    raised = ValueError("no token today\n" + unsecured())

    def fails() -> str:
        raise raised

    with pytest.raises(AuthenticationError) as caught:
        sends(broker, oauth_cb=lambda config: fails())
    assert caught.value.__cause__ is raised
    text = str(caught.value)
    assert "it raised ValueError: no token today\\n[hidden]" in text
    assert "sasl.oauthbearer.token.provider (" in text
    assert "test_provider_exception" in text
    assert (caught.value.fatal, caught.value.retriable) == (True, False)


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (None, "a token is text or (text, end in seconds since 1970, principal, extensions), not NoneType"),
        (b"bytes", "not bytes"),
        (("t",), "not tuple"),
        (("t", "soon"), "a token's end is a number of seconds since 1970 or a datetime, not str"),
        (("t", True), "not bool"),
        (("t", 1.8e12), "is it in milliseconds?"),
        (("t", 3600), "or a length given where the end belongs?"),
        (("t", None, "p", {"a": 1}), "extensions of a token are pairs of text"),
        (("t", None, "p", {"auth": "x"}), "cannot have the name auth"),
        ("t\x01auth=Bearer other", "has the character '\\u{1}'"),
        ("", "the token is empty"),
    ],
)
def test_invalid_token_errors(broker: Broker, token: Any, expected: str) -> None:
    with pytest.raises(AuthenticationError) as caught:
        sends(broker, oauth_cb=lambda config: token)
    assert expected in str(caught.value)


def test_transient_failures_are_retried(broker: Broker) -> None:
    answers: list[Any] = [ConnectionRefusedError("not now"), OSError("nor now"), unsecured()]

    def token() -> str:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return str(answer)

    sends(broker, max_block_ms=20000, oauth_cb=lambda config: token())
    assert not answers


def test_hanging_provider_does_not_block_other_clients(broker: Broker) -> None:
    until = threading.Event()
    with producer(broker, oauth_cb=lambda config: until.wait(60) and unsecured()) as stuck:
        with pytest.raises(KafkaTimeoutError):
            stuck.send("t", b"v")
        sends(broker, oauth_cb=lambda config: unsecured())
        until.set()
        stuck.send("t", b"v").result(20)


def test_rejected_token_is_replaced(broker: Broker) -> None:
    tokens = ["refused.by.everybody", *[unsecured()] * 9]
    with producer(broker, oauth_cb=lambda config: (tokens.pop(0), time.time() + 600)) as client:
        with pytest.raises(AuthenticationError) as caught:
            client.send("t", b"v").result(10)
        assert "refused.by" not in str(caught.value)
        assert "invalid_token" in str(caught.value)
        wait_until(lambda: _sent(client))


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ("nowhere", "must be module:function, as app.tokens:fetch, not 'nowhere'"),
        ("no.such.module:f", "no.such.module:f cannot be imported: No module named"),
        ("support.oidc:no_such", "support.oidc:no_such cannot be imported"),
        (Provided, "is a class: pass an instance of it"),
        (7, "must be a function, an object with a method token, or module:function, not int"),
        (lambda a, b: "t", "takes more than one argument"),
    ],
)
def test_invalid_providers_are_rejected(broker: Broker, provider: Any, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        producer(broker, sasl_oauthbearer_token_provider=provider)
    assert expected in str(caught.value)


def test_only_one_token_source(broker: Broker) -> None:
    with pytest.raises(ConfigurationError, match="both set the source of tokens"):
        producer(broker, oauth_cb=lambda config: "t", **{"sasl.oauthbearer.token.endpoint.url": "https://localhost/"})
    with pytest.raises(ConfigurationError, match="needs a source of tokens"):
        producer(broker)


def test_unsecured_tokens_with_java_and_librdkafka_options(broker: Broker) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    sends(broker, **{"sasl.jaas.config": f'{module} required unsecuredLoginStringClaim_sub="alice";'})
    unsecure = {"enable.sasl.oauthbearer.unsecure.jwt": "true"}
    sends(broker, **unsecure, **{"sasl.oauthbearer.config": "principal=alice extension_traceId=t1"})


def test_token_files_are_reread(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.write_text("wrong")
    url = {"sasl.oauthbearer.token.endpoint.url": file.as_uri()}
    with producer(broker, **url) as client:
        with pytest.raises(AuthenticationError, match="invalid_token"):
            client.send("t", b"v").result(10)
        file.write_text(unsecured() + "\n")
        wait_until(lambda: _sent(client))
    file.unlink()
    with pytest.raises(AuthenticationError, match="a token cannot be read: No such file"):
        sends(broker, **url)


# Tests with an HTTPS issuer. The embedded broker rejects its signed tokens, so these tests check only the client's
# requests and its errors. test_logins.py uses the tokens with Kafka.


def asks(broker: Broker, issuer: Issuer, wanted: type[Exception] = AuthenticationError, **options: Any) -> str:
    """Returns the error of a client whose login fails: at the issuer, or at the broker, which rejects the issuer's
    token.
    """
    config = {**issuer.options, **{name.replace("_", "."): value for name, value in options.items()}}
    config = {name: value for name, value in config.items() if value is not None}
    with producer(broker, **config) as client, pytest.raises(wanted) as caught:
        client.send("t", b"v").result(10)
    text = f"{caught.value!r} {caught.value}"
    assert SECRET not in text
    assert "eyJ" not in text
    return text


REFUSED = '{"status":"invalid_token"}'


def test_client_credentials_grant(broker: Broker, issuer: Issuer) -> None:
    assert REFUSED in asks(broker, issuer, sasl_oauthbearer_scope="kafka write")
    assert issuer.asked[0]["grant_type"] == "client_credentials"
    assert issuer.asked[0]["scope"] == "kafka write"
    assert REFUSED in asks(broker, issuer, ssl_truststore_location=str(issuer.ca), https_ca_location=None)
    assert REFUSED in asks(broker, issuer, https_ca_pem=issuer.ca.read_text(), https_ca_location=None)
    assert REFUSED in asks(broker, issuer, sasl_oauthbearer_token_endpoint_url=issuer.open_url)
    wrong = {"sasl.oauthbearer.client.credentials.client.secret": "hunter2"}
    assert "it responds with 401: invalid_client: nobody we know" in asks(broker, issuer, **wrong)


def test_client_id_in_jaas(broker: Broker, issuer: Issuer) -> None:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = f'{module} required clientId="{ID}" clientSecret="{SECRET}" scope="s" extension_logicalCluster="lkc-1";'
    plain = dict.fromkeys(
        ["sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret"]
    )
    assert REFUSED in asks(broker, issuer, **plain, **{"sasl.jaas.config": jaas})
    assert issuer.asked[0]["scope"] == "s"


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
@pytest.mark.parametrize("grant", ["client_credentials", "jwt-bearer"])
def test_signed_assertions(broker: Broker, issuer: Issuer, kind: str, grant: str, tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048) if kind == "RS256" else ec.generate_private_key(ec.SECP256R1())
    issuer.trusted.append(key.public_key())
    file = tmp_path / "key.pem"
    file.write_text(private_pem(key, "key-passphrase"))
    options = {
        "sasl.oauthbearer.client.credentials.client.secret": None,
        "sasl.oauthbearer.grant.type": grant,
        "sasl.oauthbearer.assertion.algorithm": kind,
        "sasl.oauthbearer.assertion.private.key.file": str(file),
        "sasl.oauthbearer.assertion.private.key.passphrase": "key-passphrase",
        "sasl.oauthbearer.assertion.jti.include": True,
    }
    assert REFUSED in asks(broker, issuer, **options)
    issuer.trusted.clear()
    assert "it responds with 401" in asks(broker, issuer, **options)
    options["sasl.oauthbearer.assertion.private.key.passphrase"] = "wrong"
    with pytest.raises(ConfigurationError, match=r"sasl\.oauthbearer\.assertion\.private\.key\.passphrase"):
        asks(broker, issuer, **options)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("redirect", "it responds with 307 and a redirect to https://localhost"),
        ("html", "the response is not a JSON object (text/html, 27 bytes): is this a token endpoint?"),
        ("huge", "the response has more than 1048576 bytes"),
        ("endless", "the response has more than 1048576 bytes"),
        ("expired", "the token had ended 6"),
        ("echo", "it responds with 400: invalid_request: [hidden] Basic [hidden] [hidden]\\u{1b}[2J"),
    ],
)
def test_hostile_responses_are_rejected(broker: Broker, issuer: Issuer, mode: str, expected: str) -> None:
    issuer.mode = mode
    begun = time.monotonic()
    assert expected in asks(broker, issuer)
    assert time.monotonic() - begun < 15
    assert len(issuer.asked) <= 3, "no loop"


def test_unavailable_issuer_is_retried_and_named(broker: Broker, issuer: Issuer) -> None:
    issuer.mode = "down"
    assert "it responds with 503" in asks(broker, issuer, KafkaTimeoutError, max_block_ms=3000)
    issuer.mode = "slow"
    options = {"sasl.login.read.timeout.ms": 300, "sasl.login.retry.backoff.max.ms": 500}
    assert "no complete response within 300 ms" in asks(broker, issuer, KafkaTimeoutError, **options)
    gone = {"sasl.oauthbearer.token.endpoint.url": "https://localhost:1/"}
    assert "cannot connect to localhost:1" in asks(broker, issuer, KafkaTimeoutError, max_block_ms=3000, **gone)


def test_secrets_are_sent_only_to_the_trusted_issuer(broker: Broker, issuer: Issuer) -> None:
    with pytest.raises(ConfigurationError, match="it must be https://"):
        asks(broker, issuer, sasl_oauthbearer_token_endpoint_url="http://id.example.com/token")
    # Even if broker verification is disabled, the issuer's certificate authority must be trusted.
    other = {"https.ca.location": None, "enable.ssl.certificate.verification": False, "ssl.ca.location": None}
    assert "https.ca.location" in asks(broker, issuer, TlsError, **other)
    # The certificate does not contain this host name.
    wrong = {"sasl.oauthbearer.token.endpoint.url": issuer.url.replace("localhost", "127.0.0.1")}
    assert "127.0.0.1" in asks(broker, issuer, TlsError, **wrong)
    # This server does not use TLS.
    clear = {"sasl.oauthbearer.token.endpoint.url": issuer.open_url.replace("http:", "https:")}
    assert "TLS" in asks(broker, issuer, TlsError, **clear)
    assert issuer.asked == []


def wait_until(condition: Callable[[], bool], limit: float = 60) -> None:
    end = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _sent(client: Producer) -> bool:
    try:
        client.send("t", b"v").result(10)
    except (AuthenticationError, KafkaConnectionError, KafkaTimeoutError):
        return False
    return True
