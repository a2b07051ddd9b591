"""AWS_MSK_IAM: the payload sent to an MSK broker has the signature that botocore computes."""

import os
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import botocore.auth
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from samsarrow import Producer
from samsarrow.exceptions import AuthenticationError, ConfigurationError, KafkaError
from support.msk import Msk

MODULE = "software.amazon.msk.auth.iam.IAMLoginModule"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": "env/s3cret+", "AWS_REGION": "eu-central-1"}
PROFILES = """
[default]
aws_access_key_id = AKIDFILE
aws_secret_access_key = file/s3cret+

[other]
aws_access_key_id = AKIDOTHER
aws_secret_access_key = other/s3cret+
aws_session_token = FwoGZXIvYXdz+/=
"""


@pytest.fixture
def msk(tmp_path: Path) -> Iterator[Msk]:
    with Msk(tmp_path) as msk:
        yield msk


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Leaves credentials only in a file of profiles, and no instance metadata."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name, raising=False)
    profiles = tmp_path / "credentials"
    profiles.write_text(PROFILES)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")


def logs_in(msk: Msk, **options: Any) -> tuple[dict[str, Any], KafkaError]:
    """Returns the first payload that MSK receives, and the client's final error, because this broker only
    authenticates.
    """
    config = {
        "bootstrap.servers": msk.servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "ssl.truststore.location": str(msk.ca),
        "max.block.ms": 3000,
        **{name.replace("_", "."): value for name, value in options.items()},
    }
    with Producer(config) as producer, pytest.raises(KafkaError) as caught:
        producer.send("t", b"v").result(10)
    text = f"{caught.value!r} {caught.value}"
    assert "s3cret" not in text
    return msk.payloads[0] if msk.payloads else {}, caught.value


def signature(payload: dict[str, Any], secret: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Returns botocore's signature at the time of the payload."""
    moment = datetime.strptime(payload["x-amz-date"], "%Y%m%dT%H%M%SZ")
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda *_, **__: moment)
    key, _, region, service, _ = payload["x-amz-credential"].split("/")
    request = AWSRequest("GET", f"https://{payload['host']}/", params={"Action": "kafka-cluster:Connect"})
    credentials = Credentials(key, secret, payload.get("x-amz-security-token"))
    botocore.auth.SigV4QueryAuth(credentials, service, region, expires=900).add_auth(request)
    return parse_qs(urlsplit(request.url).query)["X-Amz-Signature"][0]


def test_credentials_from_environment(msk: Msk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    payload, _ = logs_in(msk)
    assert payload["x-amz-signature"] == signature(payload, "env/s3cret+", monkeypatch)
    assert payload["x-amz-credential"].startswith("AKIDENV/")
    assert payload["x-amz-credential"].endswith("/eu-central-1/kafka-cluster/aws4_request")
    assert set(payload) == {
        *("version", "host", "user-agent", "action", "x-amz-algorithm", "x-amz-credential", "x-amz-date"),
        *("x-amz-expires", "x-amz-signedheaders", "x-amz-signature"),
    }


def test_credentials_from_profile(msk: Msk, monkeypatch: pytest.MonkeyPatch) -> None:
    payload, _ = logs_in(msk)
    assert payload["x-amz-credential"].startswith("AKIDFILE/")
    assert payload["x-amz-signature"] == signature(payload, "file/s3cret+", monkeypatch)
    msk.payloads.clear()
    # A profile named with Java's option takes precedence over the environment.
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    jaas = f'{MODULE} required awsProfileName="other";'
    payload, _ = logs_in(msk, sasl_jaas_config=jaas, sasl_client_callback_handler_class=handler)
    assert payload["x-amz-security-token"] == "FwoGZXIvYXdz+/="
    assert payload["x-amz-signature"] == signature(payload, "other/s3cret+", monkeypatch)


def test_credentials_are_read_at_each_login(msk: Msk, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    logs_in(msk)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDNEXT")
    msk.payloads.clear()
    payload, _ = logs_in(msk)
    assert payload["x-amz-credential"].startswith("AKIDNEXT/")


def test_credentials_from_process(msk: Msk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\n"
        "keys = {'Version': 1, 'AccessKeyId': sys.argv[1], 'SecretAccessKey': 'pr0/s3cret+', 'SessionToken': 't'}\n"
        "print(json.dumps(keys | {'Expiration': '2099-01-01T00:00:00Z'}))\n"
    )
    command = f'"{sys.executable}" "{program}" AKIDPROCESS'
    (tmp_path / "config").write_text(f"[profile work]\ncredential_process = {command}\n")
    monkeypatch.setenv("AWS_PROFILE", "work")
    payload, _ = logs_in(msk)
    assert payload["x-amz-credential"].startswith("AKIDPROCESS/")
    assert payload["x-amz-signature"] == signature(payload, "pr0/s3cret+", monkeypatch)


def test_missing_credentials(msk: Msk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    _, error = logs_in(msk)
    assert isinstance(error, AuthenticationError)
    for source in ("environment: AWS_ACCESS_KEY_ID", "web identity: ", "profile default: ", "container: ", "instance "):
        assert source in str(error)
    _, error = logs_in(msk, sasl_jaas_config=f'{MODULE} required awsProfileName="nobody";')
    assert "profile nobody does not exist" in str(error)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDENV")
    _, error = logs_in(msk)
    assert "environment variable AWS_SECRET_ACCESS_KEY is missing" in str(error)
    assert msk.payloads == []


def test_empty_response_is_an_error(msk: Msk, monkeypatch: pytest.MonkeyPatch) -> None:
    msk.answer = b""
    _, error = logs_in(msk)
    assert isinstance(error, AuthenticationError)
    assert "the broker's response to the signature is empty" in str(error)
    monkeypatch.delenv("AWS_REGION")
    _, error = logs_in(msk)
    assert "set AWS_REGION" in str(error)


def test_requires_tls_and_known_options(msk: Msk) -> None:
    with pytest.raises(ConfigurationError, match=r"needs security\.protocol=SASL_SSL"):
        logs_in(msk, security_protocol="SASL_PLAINTEXT")
    with pytest.raises(ConfigurationError, match="awsFoo of IAMLoginModule is not one of the known options"):
        logs_in(msk, sasl_jaas_config=f'{MODULE} required awsFoo="s3cret";')
    with pytest.raises(ConfigurationError, match="classes are never loaded"):
        logs_in(msk, sasl_client_callback_handler_class="com.example.Handler")
    assert msk.payloads == []
