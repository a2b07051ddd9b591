"""An issuer of tokens over HTTPS, for tests: it signs with RS256, writes its keys down for a broker, and misbehaves.

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
    """A token that nobody signs, for the embedded broker."""
    now = time.time()
    parts = [{"alg": "none"}, {"sub": sub, "iat": int(now), "exp": now + life, **claims}]
    return ".".join(encoded(json.dumps(part).encode()) for part in parts) + "."


class Issuer:
    """One issuer with one client, and one that signs (`trusted`).

    Attributes:
        mode: how it answers: `good`, or one of the methods of its handler that begin with `_bad_`.
        asked: what it was asked: forms by name, with `Authorization` among them.
        life: of its tokens, in seconds.
        trusted: public keys whose assertions it takes.
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
        # What nothing on the way may see, but those on this machine.
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
        """Of a client of ours that it knows by a secret."""
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": self.url,
            "sasl.oauthbearer.client.credentials.client.id": ID,
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
            "https.ca.location": str(self.ca),
        }

    def token(self, sub: str = "alice", life: float | None = None) -> str:
        """A token that brokers with its keys take."""
        now = time.time()
        life = self.life if life is None else life
        header = {"alg": "RS256", "typ": "JWT", "kid": "1"}
        claims = {"iss": self.issuer, "aud": self.audience, "sub": sub, "iat": int(now) - 1, "exp": now + life}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (header, claims))
        return f"{signed}.{encoded(self.key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def takes(self, assertion: str) -> bool:
        """Whether an assertion is of somebody trusted, for this issuer, and holds now."""
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
    """A key as PKCS8."""
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
        """Clients hang up on what they do not like."""


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
            # Here, on a thread of the connection's own.
            self.request = self.context.wrap_socket(self.request, server_side=True)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing."""

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        asked = {name: values[0] for name, values in form.items()}
        asked["Authorization"] = self.headers.get("Authorization", "")
        self.issuer.asked.append(asked)
        answer: Callable[[dict[str, str]], None] = getattr(self, f"_bad_{self.issuer.mode}", self._good)
        answer(asked)
        self.close_connection = True

    def _answer(self, status: int, body: str, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def _good(self, asked: dict[str, str]) -> None:
        basic = "Basic " + base64.b64encode(f"{ID}:{SECRET}".encode()).decode()
        assertion = asked.get("assertion" if asked["grant_type"] == BEARER else "client_assertion")
        if asked["Authorization"] == basic or (assertion is not None and self.issuer.takes(assertion)):
            answer = {"access_token": self.issuer.token(), "token_type": "Bearer", "expires_in": int(self.issuer.life)}
            self._answer(200, json.dumps(answer))
        else:
            self._answer(401, json.dumps({"error": "invalid_client", "error_description": "nobody we know"}))

    def _bad_redirect(self, asked: dict[str, str]) -> None:
        self._answer(307, "", Location=self.issuer.url)

    def _bad_html(self, asked: dict[str, str]) -> None:
        self._answer(200, "<html>please sign in</html>", "text/html; charset=utf-8")

    def _bad_huge(self, asked: dict[str, str]) -> None:
        self._answer(200, "{", **{"Content-Length": str(1 << 30)})

    def _bad_endless(self, asked: dict[str, str]) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(1 << 14):
            self.wfile.write(b" " * (1 << 16))

    def _bad_slow(self, asked: dict[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b" ")
            time.sleep(0.1)

    def _bad_expired(self, asked: dict[str, str]) -> None:
        self._answer(200, json.dumps({"access_token": self.issuer.token(life=-60), "expires_in": 3600}))

    def _bad_echo(self, asked: dict[str, str]) -> None:
        text = f"{SECRET} {asked['Authorization']} {self.issuer.token()}\x1b[2J"
        self._answer(400, json.dumps({"error": "invalid_request", "error_description": text}))

    def _bad_down(self, asked: dict[str, str]) -> None:
        self._answer(503, "")
