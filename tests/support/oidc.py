"""An OAuth token issuer over HTTPS for tests. It signs with RS256, stores its keys for brokers, and can simulate
faults.

with Issuer(folder) as issuer:
    Producer(**issuer.options, ...)
    issuer.mode = "redirect"
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

import trustme
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

ID, SECRET = "samsarrow client", "issuer-s3cret+/="
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def unsecured(sub: str = "alice", life: float = 3600, **claims: Any) -> str:
    """Returns an unsigned token, for the embedded broker."""
    now = time.time()
    parts = [{"alg": "none"}, {"sub": sub, "iat": int(now), "exp": now + life, **claims}]
    return ".".join(encoded(json.dumps(part).encode()) for part in parts) + "."


class Issuer:
    """An issuer for two clients: one has a secret, the other signs assertions with a key in `trusted`.

    Attributes:
        mode: `good`, or the suffix of a `_bad_` method of the handler.
        asked: fields of the received forms, with the header `Authorization`.
        life: lifetime of its tokens, in seconds.
        trusted: public keys for assertions.
    """

    audience = "kafka"

    def __init__(self, folder: Path, life: float = 3600) -> None:
        self.mode, self.life, self.asked = "good", life, list[dict[str, str]]()
        self.trusted: list[rsa.RSAPublicKey | ec.EllipticCurvePublicKey] = []
        self.key = rsa.generate_private_key(65537, 2048)
        authority = trustme.CA()
        self.ca = folder / "issuer-ca.pem"
        authority.cert_pem.write_to_path(self.ca)
        self.jwks = folder / "jwks.json"
        self.jwks.write_text(json.dumps({"keys": [self._public()]}))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        self._server = _server(self, context)
        self.url = f"https://localhost:{self._server.server_port}/token"
        self.issuer = f"https://localhost:{self._server.server_port}"
        self.allowed_urls = [self.url]
        # Plaintext endpoint, which clients accept only on the loopback interface.
        self._open = _server(self, None)
        self.open_url = f"http://127.0.0.1:{self._open.server_port}/token"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for server in (self._server, self._open):
            server.shutdown()
            server.server_close()

    @property
    def options(self) -> dict[str, str]:
        """Options of a samsarrow client that authenticates with the client secret."""
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.credentials.client.id": ID,
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "https.ca.location": str(self.ca),
        }

    def token(self, sub: str = "alice", life: float | None = None) -> str:
        """Returns a signed token, which brokers that have the issuer's keys accept."""
        now = time.time()
        life = self.life if life is None else life
        header = {"alg": "RS256", "typ": "JWT", "kid": "1"}
        claims = {"iss": self.issuer, "aud": self.audience, "sub": sub, "iat": int(now) - 1, "exp": now + life}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{encoded(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def takes(self, assertion: str) -> bool:
        """Returns true if an assertion is signed with a trusted key, intended for this issuer, and valid now."""
        signed, _, signature = assertion.rpartition(".")
        claims = json.loads(decoded(signed.partition(".")[2]))
        if claims["aud"] not in (self.url, self.open_url) or not claims["nbf"] <= time.time() < claims["exp"]:
            return False
        return any(_is_signed(key, signed.encode(), decoded(signature)) for key in self.trusted)

    def _public(self) -> dict[str, str]:
        numbers = self.key.public_key().public_numbers()
        n, e = (encoded(value.to_bytes((value.bit_length() + 7) // 8)) for value in (numbers.n, numbers.e))
        return {"kty": "RSA", "kid": "1", "use": "sig", "alg": "RS256", "n": n, "e": e}


def private_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, passphrase: str | None = None) -> str:
    """Returns a private key in PKCS #8 format."""
    encryption = (
        serialization.NoEncryption()
        if passphrase is None
        else serialization.BestAvailableEncryption(passphrase.encode())
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


def _is_signed(key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, signed: bytes, signature: bytes) -> bool:
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, signed, padding.PKCS1v15(), hashes.SHA256())
        else:
            r, s = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
            key.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        return False
    return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of connections that clients have closed."""


def _server(issuer: Issuer, context: ssl.SSLContext | None) -> _Server:
    server = _Server(("127.0.0.1", 0), type("Bound", (_Handler,), {"issuer": issuer, "context": context}))
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


class _Handler(BaseHTTPRequestHandler):
    issuer: Issuer
    context: ssl.SSLContext | None
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        self.request.settimeout(30)
        if self.context is not None:
            # The handshake runs in the thread of the connection, so that it does not block the others.
            self.request = self.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Logs nothing."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        fields = {name: values[0] for name, values in form.items()}
        fields["Authorization"] = self.headers.get("Authorization", "")
        self.issuer.asked.append(fields)
        answer: Callable[[dict[str, str]], None] = getattr(self, f"_bad_{self.issuer.mode}", self._good)
        answer(fields)
        self.close_connection = True

    def _answer(self, status: int, body: str, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def _good(self, fields: dict[str, str]) -> None:
        basic = "Basic " + base64.b64encode(f"{ID}:{SECRET}".encode()).decode()
        assertion = fields.get("assertion" if fields["grant_type"] == BEARER else "client_assertion")
        if fields["Authorization"] == basic or (assertion is not None and self.issuer.takes(assertion)):
            answer = {"access_token": self.issuer.token(), "token_type": "Bearer", "expires_in": int(self.issuer.life)}
            self._answer(200, json.dumps(answer))
        else:
            self._answer(401, json.dumps({"error": "invalid_client", "error_description": "nobody we know"}))

    def _bad_redirect(self, fields: dict[str, str]) -> None:
        self._answer(307, "", Location=self.issuer.url)

    def _bad_html(self, fields: dict[str, str]) -> None:
        self._answer(200, "<html>please sign in</html>", "text/html; charset=utf-8")

    def _bad_huge(self, fields: dict[str, str]) -> None:
        self._answer(200, "{", **{"Content-Length": str(1 << 30)})

    def _bad_endless(self, fields: dict[str, str]) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(1 << 14):
            self.wfile.write(b" " * (1 << 16))

    def _bad_slow(self, fields: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b" ")
            time.sleep(0.1)

    def _bad_expired(self, fields: dict[str, str]) -> None:
        self._answer(200, json.dumps({"access_token": self.issuer.token(life=-60), "expires_in": 3600}))

    def _bad_echo(self, fields: dict[str, str]) -> None:
        text = f"{SECRET} {fields['Authorization']} {self.issuer.token()}\x1b[2J"
        self._answer(400, json.dumps({"error": "invalid_request", "error_description": text}))

    def _bad_down(self, fields: dict[str, str]) -> None:
        self._answer(503, "")
