"""An in-memory schema registry, for tests."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from samsarrow._threads import replaced_by
from samsarrow.testing._checks import in_range
from samsarrow.testing._registry_store import ErrorResponse, Schema, Store, checked, schema_of_body

if TYPE_CHECKING:
    from ssl import SSLContext

TYPE = "application/vnd.schemaregistry.v1+json"


@dataclass
class _Fault:
    status: int
    body: bytes | None
    path: str
    times: int | None


class Registry:
    """An in-memory schema registry over HTTP: subjects, versions, ids, GUIDs, references, contexts, compatibility.

    The responses are like those of Confluent's registry. Compatibility is checked for Avro; schemas of other types are
    always compatible. The registry listens on this machine only.

        with Registry() as registry, SchemaRegistry(registry.url) as client:
            client.register("orders-value", '"long"')

    Args:
        port: port to listen on; 0 for a free port.
        compatibility: compatibility level of subjects, `BACKWARD` or another level.
        auth: a tuple of name and password, or a token, that each request must have.
        ssl_context: an SSL context for servers, with which the registry serves `https:`.

    Raises:
        RuntimeError: gevent or eventlet has replaced threads by greenlets.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        compatibility: str = "BACKWARD",
        auth: tuple[str, str] | str | None = None,
        ssl_context: SSLContext | None = None,
    ) -> None:
        try:
            self._store = Store(compatibility)
        except ErrorResponse as error:
            raise ValueError(error.message) from None
        self._lock = threading.RLock()
        self._login = None
        if isinstance(auth, str):
            self._login = f"Bearer {auth}"
        elif auth is not None:
            self._login = f"Basic {base64.b64encode(':'.join(auth).encode()).decode()}"
        self._faults: list[_Fault] = []
        self._requests: Counter[str] = Counter()
        self._going = threading.Event()
        self._going.set()
        self._tls = ssl_context
        self._server: ThreadingHTTPServer | None = None
        self._port = in_range("port", port, 0, 65_535)
        self.up()

    def __repr__(self) -> str:
        return f"<Registry url={self.url!r}{'' if self._server else ', down'}>"

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._port}"

    def register(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
        rules: Mapping[str, Any] | None = None,
    ) -> int:
        """Registers a schema directly, without a request.

        Args:
            subject: subject, with its context if it is not in the default context: `:.staging:orders-value`.
            schema: text of the schema, or its parsed JSON.
            schema_type: `AVRO`, `JSON` or `PROTOBUF`.
            references: name, subject and version of each referenced schema.
            rules: rules of a data contract, as in Confluent's field `ruleSet`.

        Returns:
            The id of the schema.

        Raises:
            ValueError: the schema is rejected.
        """
        text = schema if isinstance(schema, str) else json.dumps(schema)
        named = [{"name": n, "subject": s, "version": v} for n, s, v in references]
        body = {"schema": text, "schemaType": schema_type, "references": named, "ruleSet": rules}
        try:
            with self._lock:
                return self._store.register(subject, schema_of_body(body))[0]
        except ErrorResponse as error:
            raise ValueError(error.message) from None

    def put(self, schema_id: int, schema: str, *, context: str = "", **more: Any) -> None:
        """Stores a schema under an id without checks, even if a registry would reject the schema.

        Args:
            schema_id: the id.
            schema: text of the schema.
            context: context prefix as in subjects, such as `:.staging:`.
            **more: `schema_type` and `references` as for `register`.
        """
        kind, references = more.get("schema_type", "AVRO"), tuple(map(tuple, more.get("references", ())))
        with self._lock:
            self._store.context(context)[0].ids[schema_id] = Schema(schema, kind, references)

    def put_version(self, subject: str, version: int, schema_id: int) -> None:
        """Makes the schema with this id a version of a subject, without checks."""
        with self._lock:
            context, name = self._store.context(subject)
            context.subjects.setdefault(name, {})[version] = schema_id

    def remove(self, schema_id: int, *, context: str = "") -> None:
        """Removes the schema with an id, and all versions with this id."""
        with self._lock:
            store = self._store.context(context)[0]
            store.ids.pop(schema_id, None)
            for versions in store.subjects.values():
                for version in [version for version, number in versions.items() if number == schema_id]:
                    del versions[version]
            store.subjects = {name: versions for name, versions in store.subjects.items() if versions}

    def delete(self, subject: str) -> list[int]:
        """Deletes a subject. As in Confluent's registry, ids of its schemas and references to it still work.

        Returns:
            The versions of the subject.
        """
        with self._lock:
            return self._store.delete(subject)

    def guid(self, schema_id: int, *, context: str = "") -> str:
        """The GUID of a schema."""
        with self._lock:
            return str(self._store.context(context)[0].ids[schema_id].guid)

    def set_compatibility(self, level: str, subject: str | None = None) -> None:
        """Sets the compatibility level of a subject, or the default level."""
        with self._lock:
            if subject is None:
                self._store.level = checked(level)
            else:
                self._store.levels[subject] = checked(level)

    def judge(self, subject: str, reasons: Sequence[str] | None) -> None:
        """Makes a subject reject every schema with these reasons, or accept every schema if the reasons are empty.

        None restores the compatibility check.
        """
        with self._lock:
            if reasons is None:
                self._store.verdicts.pop(subject, None)
            else:
                self._store.verdicts[subject] = list(reasons)

    def fail(self, status: int, times: int | None = 1, *, path: str = "", body: str | bytes | None = None) -> None:
        """Makes requests fail with a status.

        Args:
            status: HTTP status.
            times: number of requests; None for all, until `heal`.
            path: beginning of the paths to which this applies; by default all paths.
            body: body of the response; by default a body like a registry's.
        """
        with self._lock:
            self._faults.append(_Fault(status, body.encode() if isinstance(body, str) else body, path, times))

    def stall(self) -> None:
        """Makes requests wait until `heal`."""
        self._going.clear()

    def heal(self) -> None:
        """Undoes all `fail` and `stall` calls, so that requests work again."""
        with self._lock:
            self._faults.clear()
        self._going.set()

    def requests(self, path: str = "") -> int:
        """The number of requests so far, including failed ones.

        Args:
            path: beginning of the path, or of method and path, of the requests to count, such as `GET /schemas/ids/1`.
        """
        with self._lock:
            return sum(
                count
                for request, count in self._requests.items()
                if request.startswith(path) or request.partition(" ")[2].startswith(path)
            )

    def down(self) -> None:
        """Stops accepting connections until `up`. Registered schemas are kept."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def up(self) -> None:
        """Accepts connections again, on the same port."""
        if (library := replaced_by()) is not None:
            raise RuntimeError(
                f"Registry serves from a thread, and {library} replaces threads by greenlets, which do not run while a "
                "client waits: start it in another process"
            )
        if self._server is None:
            self._server = _Server(self._port, self)
            self._port = self._server.server_address[1]
            if self._tls is not None:
                # TLS handshakes run in the threads of connections, so that a stalled handshake does not block other
                # connections.
                listening = self._server.socket
                self._server.socket = self._tls.wrap_socket(listening, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Stops the registry. May be called again."""
        self._going.set()
        self.down()

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _respond(self, method: str, target: str, login: str | None, body: bytes) -> tuple[int, bytes]:
        address = urlsplit(target)
        with self._lock:
            self._requests[f"{method} {target}"] += 1
            fault = next((fault for fault in self._faults if address.path.startswith(fault.path)), None)
            if fault is not None and fault.times is not None:
                fault.times -= 1
                if fault.times <= 0:
                    self._faults.remove(fault)
        self._going.wait()
        if fault is not None:
            injected = json.dumps({"error_code": fault.status, "message": "injected"}).encode()
            return fault.status, injected if fault.body is None else fault.body
        if self._login is not None and not hmac.compare_digest(login or "", self._login):
            return 401, b'{"error_code":401,"message":"Unauthorized"}'
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        parts = [unquote(part) for part in address.path.strip("/").split("/")]
        try:
            with self._lock:
                response = self._handle(method, parts, query, json.loads(body) if body else {})
        except ErrorResponse as error:
            return error.status, json.dumps({"error_code": error.code, "message": error.message}).encode()
        except (ValueError, KeyError, TypeError, AttributeError):
            return 422, b'{"error_code":422,"message":"the body cannot be read"}'
        return 200, json.dumps(response).encode()

    def _handle(self, method: str, parts: list[str], query: dict[str, str], body: dict[str, Any]) -> Any:
        store = self._store
        match method, parts:
            case "GET", ["subjects"]:
                return self._subjects(query.get("subjectPrefix", ""))
            case "POST", ["subjects", subject]:
                return store.lookup(subject, schema_of_body(body))
            case "GET", ["subjects", subject, "versions"]:
                return sorted(store.versions(subject))
            case "POST", ["subjects", subject, "versions"]:
                number, version = store.register(subject, schema_of_body(body))
                schema = store.by_id(str(number), subject)
                return {"id": number, "version": version, **schema.response()}
            case "GET", ["subjects", subject, "versions", version]:
                return store.version(subject, version, deleted=query.get("deleted") == "true")
            case "DELETE", ["subjects", subject]:
                return store.delete(subject)
            case "GET", ["schemas", "types"]:
                return ["AVRO", "JSON", "PROTOBUF"]
            case "GET", ["schemas", "ids", number]:
                return store.by_id(number, query.get("subject", "")).response()
            case "GET", ["schemas", "guids", guid]:
                return store.by_guid(guid).response()
            case "GET", ["config"]:
                return {"compatibilityLevel": store.level}
            case "GET", ["config", subject]:
                if subject not in store.levels and query.get("defaultToGlobal") != "true":
                    raise ErrorResponse(
                        40408, f"Subject {subject!r} does not have subject-level compatibility configured"
                    )
                return {"compatibilityLevel": store.levels.get(subject, store.level)}
            case "PUT", ["config", *subject]:
                self.set_compatibility(body.get("compatibility", ""), *subject[:1])
                return {"compatibility": body["compatibility"]}
            case "POST", ["compatibility", "subjects", subject, "versions", *version]:
                if version:
                    store.versions(subject)
                schema = schema_of_body(body)
                store.validate(subject, schema)
                reasons = store.incompatibilities(subject, schema, *version[:1])
                verbose = {"messages": reasons} if query.get("verbose") == "true" else {}
                return {"is_compatible": not reasons, **verbose}
        raise ErrorResponse(404, "HTTP 404 Not Found")

    def _subjects(self, prefix: str) -> list[str]:
        names = [f"{space}{name}" for space, context in self._store.contexts.items() for name in context.subjects]
        return sorted(name for name in names if name.startswith(prefix) and (prefix or not name.startswith(":.")))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, port: int, registry: Registry) -> None:
        self.registry = registry
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Does nothing, because a client that disconnects is not an error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        login = self.headers.get("Authorization")
        status, response = self.server.registry._respond(self.command, self.path, login, body)
        # Ignored because the client may have disconnected.
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", TYPE)
            self.send_header("Content-Length", str(len(response)))
            self.end_headers()
            self.wfile.write(response)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Does nothing, so that requests are not logged."""
