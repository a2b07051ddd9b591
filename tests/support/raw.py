"""Single requests of any version, by kafka-python's definitions: what no client would send in this order."""

from __future__ import annotations

import socket
import warnings
from types import TracebackType
from typing import Any

with warnings.catch_warnings():
    # It reads its own files in a way that Python 3.11 calls old.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import for_code
    from kafka.protocol.admin import transactions as admin
    from kafka.protocol.consumer import fetch, group, offsets
    from kafka.protocol.metadata import api_versions, find_coordinator, metadata
    from kafka.protocol.producer import produce, transaction
    from kafka.record.default_records import DefaultRecordBatchBuilder

_MODULES = (admin, fetch, group, offsets, api_versions, find_coordinator, metadata, produce, transaction)
_T0 = 1_700_000_000_000


def error(code: int) -> str:
    """The name of an error code, `OK` for none."""
    return "OK" if code == 0 else str(for_code(code).__name__)


def _message(kind: Any, fields: dict[str, Any], **version: int) -> Any:
    """A message from dictionaries and lists."""

    def value(field: Any, given: Any) -> Any:
        if isinstance(given, dict):
            return _message(field.data_class, given)
        if isinstance(given, list) and given and isinstance(given[0], dict):
            return [_message(field.data_class, one) for one in given]
        return given

    return kind(**version, **{name: value(kind._struct.fields[name], given) for name, given in fields.items()})


class Raw:
    """One connection; answers come as dictionaries."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count = 0

    def call(self, api: str, version: int, **fields: Any) -> Any:
        """Sends a request and waits for its answer."""
        [module] = [module for module in _MODULES if hasattr(module, f"{api}Request")]
        request = _message(getattr(module, f"{api}Request"), fields, version=version)
        self._count += 1
        request.with_header(correlation_id=self._count, client_id="raw")
        self._socket.sendall(request.encode(header=True, framed=True))
        size = int.from_bytes(self._exactly(4), "big")
        answer = getattr(module, f"{api}Response").decode(self._exactly(size), version=version, header=True)
        return answer.to_dict(json=False)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionError(f"closed after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def batch(producer: tuple[int, int], sequence: int, count: int = 1, *, transactional: bool = True) -> bytes:
    """Records of a producer (id, epoch), as Produce takes them."""
    builder = DefaultRecordBatchBuilder(2, 0, transactional, *producer, sequence, 1 << 20)
    for i in range(count):
        builder.append(i, _T0 + i, None, b"%d" % (sequence + i), [])
    return bytes(builder.build())
