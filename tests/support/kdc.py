"""A Kerberos server (KDC) for tests, a proxy in front of the KDC, and the Kerberos library of this machine.

    with Kdc() as kdc:
        keytab = kdc.keytab("alice")
        os.environ["KRB5_CONFIG"] = str(kdc.krb5_conf())

The server is hadoop-minikdc, which Maven downloads. Clients connect through the proxy, which counts requests and can
reject or ignore them. Kerberos commands need not be installed, since `kinit` calls the library.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType

from support.kafka import QUICK_COMPILER, SUPPORT, KafkaServer, KafkaUnavailableError, free_ports

CACHE = SUPPORT.parent.parent / ".cache" / "kdc"
REALM = "SAMSARROW.TEST"
# ASN.1 tags of the KDC's requests (RFC 4120), for ticket-granting tickets and for service tickets.
REQUEST_TYPES = {0x6A: "initial", 0x6C: "service"}


def classpath() -> str:
    """Returns the class path of the KDC, which Maven downloads once and `.cache/` keeps."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            raise KafkaUnavailableError(f"a KDC needs `{tool}` on PATH (JDK 17 and Maven)")
    remembered = CACHE / "classpath"
    if remembered.exists() and all(Path(p).exists() for p in remembered.read_text().split(os.pathsep)):
        return remembered.read_text()
    CACHE.mkdir(parents=True, exist_ok=True)
    command = ["mvn", "-q", "-B", "-f", str(SUPPORT / "kdc-pom.xml"), "dependency:build-classpath"]
    command.append(f"-Dmdep.outputFile={remembered}")
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        remembered.unlink(missing_ok=True)
        raise KafkaUnavailableError(f"Maven could not fetch the KDC:\n{done.stdout}{done.stderr}")
    return remembered.read_text()


@functools.cache
def gssapi_library() -> str:
    """Returns the path of MIT's Kerberos library, either the system's or the copy in psycopg's wheel."""
    with contextlib.suppress(OSError):
        ctypes.CDLL("libgssapi_krb5.so.2")
        return "libgssapi_krb5.so.2"
    spec = importlib.util.find_spec("psycopg_binary")
    found = [] if spec is None or spec.origin is None else _beside(Path(spec.origin), "libgssapi_krb5")
    if not found:
        raise KafkaUnavailableError("Kerberos needs libgssapi_krb5.so.2: install libgssapi-krb5-2 or krb5-libs")
    return str(found[0])


def _beside(package: Path, name: str) -> list[Path]:
    return sorted(package.parent.with_name("psycopg_binary.libs").glob(f"{name}-*.so*"))


class Gate:
    """A TCP proxy in front of the KDC that counts requests and can block them."""

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = free_ports(1)[0]
        self.asked: Counter[str] = Counter()
        self._open = threading.Event()
        self._listener: socket.socket | None = None
        # Open connections whose requests get no response.
        self._held: list[socket.socket] = []
        self.unlock()

    def unlock(self) -> None:
        """Forwards requests."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        self._open.set()
        self._close_held()

    def silence(self) -> None:
        """Accepts connections and requests, but sends no response."""
        self._open.clear()

    def shut(self) -> None:
        """Rejects connections."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # Closing the socket alone would not wake the thread that accepts connections.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self._close_held()

    def _close_held(self) -> None:
        held, self._held = self._held, []
        for client in held:
            client.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        if not self._open.is_set():
            self._held.append(client)
            return
        with contextlib.suppress(OSError), client:
            request = _framed(client)
            self.asked[REQUEST_TYPES.get(request[4], "other")] += 1
            with socket.create_connection(("127.0.0.1", self._target)) as server:
                server.sendall(request)
                client.sendall(_framed(server))


def _framed(source: socket.socket) -> bytes:
    """Reads one message, which has a length prefix."""
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        part = source.recv(65536)
        if not part:
            raise OSError("closed")
        data += part
    return data


class Kdc:
    """A KDC for the realm `SAMSARROW.TEST`. Principals are created on demand."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="samsarrow-kdc-"))
        self._keytabs: dict[tuple[str, ...], Path] = {}
        self._log = (self.directory / "kdc.out").open("wb")
        command = ["java", "-XX:+UseSerialGC", *QUICK_COMPILER, "-Xmx128m", "-cp", classpath()]
        command += [str(SUPPORT / "java" / "Kdc.java"), str(self.directory), *REALM.split(".")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, process_group=0
        )
        self.gate = Gate(int(self._line()))

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            message = (self.directory / "kdc.out").read_text(errors="replace")
            self.discard()
            raise RuntimeError(f"the KDC ended:\n{message}")
        return line

    def keytab(self, *principals: str) -> Path:
        """Returns a keytab file with the keys of these principals. The same principals always have the same file."""
        if principals not in self._keytabs:
            path = self.directory / f"{len(self._keytabs)}.keytab"
            assert self._process.stdin is not None
            self._process.stdin.write("\t".join([str(path), *principals]) + "\n")
            self._process.stdin.flush()
            assert self._line() == "ok"
            self._keytabs[principals] = path
        return self._keytabs[principals]

    def krb5_conf(self, life: str = "1h", **defaults: str) -> Path:
        """Writes a client configuration that all Kerberos libraries can read, including Java's."""
        settings = {
            "default_realm": REALM,
            "ticket_lifetime": life,
            "udp_preference_limit": "1",
            "dns_lookup_kdc": "false",
            "dns_lookup_realm": "false",
            "dns_canonicalize_hostname": "false",
            "rdns": "false",
            **defaults,
        }
        path = self.directory / f"krb5-{'-'.join([life, *defaults])}.conf"
        lines = [f"{name} = {value}" for name, value in settings.items()]
        realm = ["[realms]", f"{REALM} = {{", f"kdc = 127.0.0.1:{self.gate.port}", "}"]
        path.write_text("\n".join(["[libdefaults]", *lines, *realm, ""]))
        return path

    def discard(self) -> None:
        """Ends the process and removes its files."""
        if hasattr(self, "gate"):
            self.gate.shut()
        self._process.kill()
        self._process.communicate()
        self._log.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Kdc:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()


class KerberosKafka(KafkaServer):
    """A broker with a GSSAPI listener in addition to the listener of `KafkaServer`."""

    def __init__(self, kdc: Kdc, host: str = "localhost") -> None:
        krb5_conf = kdc.krb5_conf()
        super().__init__(jvm=[*QUICK_COMPILER, f"-Djava.security.krb5.conf={krb5_conf}"], heap="512m")
        self._kerberos_port = free_ports(1)[0]
        self.host = host
        login = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        keytab = kdc.keytab(f"kafka/{host}")
        self._properties |= {
            "listeners": f"{self._properties['listeners']},SASL_PLAINTEXT://127.0.0.1:{self._kerberos_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port},SASL_PLAINTEXT://{self.kerberos_servers}",
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}"
                for name, protocol in [
                    ("PLAINTEXT", "PLAINTEXT"), ("CONTROLLER", "PLAINTEXT"), ("SASL_PLAINTEXT", "SASL_PLAINTEXT")
                ]
            ),
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
                f'{login} keyTab="{keytab}" principal="kafka/{host}@{REALM}";'
            ),
        }  # fmt: skip

    @property
    def kerberos_servers(self) -> str:
        return f"{self.host}:{self._kerberos_port}"


def with_other_keys(keytab: Path, path: Path) -> Path:
    """Writes a keytab with the same principals but other keys, as if their passwords had been changed."""
    data = bytearray(keytab.read_bytes())
    at = 2
    while at < len(data):
        size = struct.unpack_from(">i", data, at)[0]
        entry = at + 4
        components, realm = struct.unpack_from(">HH", data, entry)
        place = entry + 4 + realm
        for _ in range(components):
            place += 2 + struct.unpack_from(">H", data, place)[0]
        # Skips the name type, the timestamp, and the version and type of the key. The length of the key follows.
        place += 4 + 4 + 1 + 2
        length = struct.unpack_from(">H", data, place)[0]
        for key in range(place + 2, place + 2 + length):
            data[key] ^= 0x55
        at = entry + abs(size)
    path.write_bytes(data)
    return path


def kinit(principal: str, keytab: Path, cache: Path, life_s: int = 3600) -> None:
    """Obtains a ticket and stores it in a cache file, like the command `kinit`. `KRB5_CONFIG` determines the KDC."""
    library = ctypes.CDLL(gssapi_library())
    library.krb5_get_error_message.restype = ctypes.c_char_p
    context = ctypes.c_void_p()

    def call(name: str, *arguments: object) -> None:
        code = getattr(library, name)(*arguments)
        if code != 0:
            message = library.krb5_get_error_message(context, code)
            raise RuntimeError(f"{name} failed ({code}): {message!r}")

    call("krb5_init_context", ctypes.byref(context))
    client, table, store, options = (ctypes.c_void_p() for _ in range(4))
    # Buffer for a krb5_creds structure, which needs about 200 bytes.
    credentials = ctypes.create_string_buffer(1024)
    call("krb5_parse_name", context, principal.encode(), ctypes.byref(client))
    call("krb5_kt_resolve", context, f"FILE:{keytab}".encode(), ctypes.byref(table))
    call("krb5_get_init_creds_opt_alloc", context, ctypes.byref(options))
    library.krb5_get_init_creds_opt_set_tkt_life(options, life_s)
    call("krb5_get_init_creds_keytab", context, credentials, client, table, 0, None, options)
    call("krb5_cc_resolve", context, f"FILE:{cache}".encode(), ctypes.byref(store))
    call("krb5_cc_initialize", context, store, client)
    call("krb5_cc_store_cred", context, store, credentials)
    library.krb5_cc_close(context, store)
    library.krb5_kt_close(context, table)
    library.krb5_free_context(context)
