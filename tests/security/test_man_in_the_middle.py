"""A man in the middle, or a malicious broker, can neither downgrade security nor make clients hang."""

import pytest

from samsarrow import Admin
from samsarrow.exceptions import AuthenticationError, KafkaError
from samsarrow.testing import Broker
from support.mitm import AUTHENTICATE, HANDSHAKE, VERSIONS, Middle, framed

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def broker():
    with Broker(topics={"t": 1}, security="SASL_PLAINTEXT", users={"alice": PASSWORD}) as broker:
        yield broker


def topics(broker, middle, mechanism, timeout=5):
    options = broker.client_options("alice", mechanism) | {"bootstrap.servers": middle.address}
    with Admin(options) as admin:
        return admin.list_topics(timeout=timeout)


def without(*apis):
    """Returns a handler that removes these APIs from the ApiVersions response that the broker sends before
    authentication.
    """

    def answer(api, body):
        # Response version 0 has a correlation id, an error, a count, and six bytes for each API.
        if api != VERSIONS or (len(body) - 10) % 6:
            return framed(body)
        kept = [body[i : i + 6] for i in range(10, len(body), 6)]
        kept = [each for each in kept if int.from_bytes(each[:2], "big") not in apis]
        return framed(body[:6] + len(kept).to_bytes(4, "big") + b"".join(kept))

    return answer


def instead(asked, change):
    """Replaces the broker's response to one API."""
    return lambda api, body: change(body) if api == asked else framed(body)


def test_broker_must_authenticate_without_sasl_authenticate(broker):
    with Middle(broker.bootstrap_servers, answer=without(AUTHENTICATE)) as middle:
        assert "t" in topics(broker, middle, "SCRAM-SHA-256")
        assert None in middle.asked, "tokens went as they are"
        assert AUTHENTICATE not in middle.asked
        assert PASSWORD.encode() not in middle.seen

    def forge(api, body):
        stripped = without(AUTHENTICATE)(api, body)
        return framed(b"v=" + b"A" * 43 + b"=") if api is None and body.startswith(b"v=") else stripped

    with Middle(broker.bootstrap_servers, answer=forge) as middle:
        with pytest.raises(AuthenticationError, match="not from a broker that knows your password"):
            topics(broker, middle, "SCRAM-SHA-256")
        assert PASSWORD.encode() not in middle.seen


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "PLAIN"])
def test_broker_without_sasl_gets_no_credentials_or_requests(broker, mechanism):
    with Middle(broker.bootstrap_servers, answer=without(HANDSHAKE, AUTHENTICATE)) as middle:
        with pytest.raises(AuthenticationError, match=r"security\.protocol=PLAINTEXT"):
            topics(broker, middle, mechanism)
        assert set(middle.asked) == {VERSIONS}


def test_mechanism_is_never_downgraded(broker):
    def swap(body):
        return framed(body[:4] + (33).to_bytes(2, "big") + (1).to_bytes(4, "big") + b"\0\5PLAIN")

    with Middle(broker.bootstrap_servers, answer=instead(HANDSHAKE, swap)) as middle:
        with pytest.raises(AuthenticationError, match=r"it accepts PLAIN: set sasl\.mechanism"):
            topics(broker, middle, "SCRAM-SHA-256")
        assert set(middle.asked) == {VERSIONS, HANDSHAKE}
        assert PASSWORD.encode() not in middle.seen


# Replacements for a response, with the text that the error must contain.
GARBLED = {
    "2 GiB": (b"\x7f\xff\xff\xff" + bytes(100), "2147483647 bytes during a login"),
    "just too long": (b"\0\x08\0\1" + bytes(100), "524289 bytes during a login"),
    "negative": (b"\xff\xff\xff\xff" + bytes(100), "invalid response length -1"),
    "another correlation id": (framed(b"\x7f\0\0\1" + bytes(20)), "correlation id"),
    "HTTP": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
}


@pytest.mark.parametrize("api", [VERSIONS, HANDSHAKE, AUTHENTICATE], ids=["versions", "handshake", "authenticate"])
@pytest.mark.parametrize("kind", GARBLED)
def test_invalid_response_lengths_are_rejected(broker, api, kind):
    answer, expected = GARBLED[kind]
    middle = Middle(broker.bootstrap_servers, answer=instead(api, lambda _: answer))
    with middle, pytest.raises(KafkaError, match=expected):
        topics(broker, middle, "SCRAM-SHA-256", timeout=2)


@pytest.mark.parametrize("cut", [0, 3, 11, 200, 350, 400])
def test_interrupted_sasl_exchange_fails(broker, cut):
    with Middle(broker.bootstrap_servers, cut=cut) as middle:
        with pytest.raises(KafkaError) as raised:
            topics(broker, middle, "SCRAM-SHA-512", timeout=0.5)
        assert not isinstance(raised.value, AuthenticationError), "it may have been the network"
        assert PASSWORD not in str(raised.value)


def test_broker_messages_are_redacted_to_one_line(broker):
    said = f"no\x1b[2J\nsuch {PASSWORD} eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln " + "x" * 5000
    broker.alter_logins(step=1, error="SASL_AUTHENTICATION_FAILED", message=said, times=None)
    try:
        with pytest.raises(AuthenticationError) as raised, Admin(broker.client_options("alice", "PLAIN")) as admin:
            admin.list_topics(timeout=5)
    finally:
        broker.heal()
    text = str(raised.value)
    assert "no\\u{1b}[2J\\nsuch [hidden] [hidden] xxx" in text
    assert len(text) < 600
    assert text.isprintable()
