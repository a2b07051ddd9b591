"""Sends single requests of any version, encoded by kafka-python, for example in an order that no client uses."""

from __future__ import annotations

import socket
import warnings
from types import TracebackType
from typing import Any

from support import share_messages

with warnings.catch_warnings():
    # kafka-python reads package files with a function that is deprecated since Python 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.errors import for_code
    from kafka.protocol.admin import transactions as admin
    from kafka.protocol.consumer import fetch, group, offsets
    from kafka.protocol.metadata import api_versions, find_coordinator, metadata
    from kafka.protocol.producer import produce, transaction
    from kafka.record.default_records import DefaultRecordBatchBuilder

_MODULES = (
    admin, fetch, group, offsets, api_versions, find_coordinator, metadata, produce, share_messages, transaction,
)  # fmt: skip
_T0 = 1_700_000_000_000


def error(code: int) -> str:
    """Returns the name of an error code, or `OK` for 0."""
    return "OK" if code == 0 else str(for_code(code).__name__)


def _message(kind: Any, fields: dict[str, Any], **version: int) -> Any:
    """Builds a message from nested dictionaries and lists."""

    def value(field: Any, input_value: Any) -> Any:
        if isinstance(input_value, dict):
            return _message(field.data_class, input_value)
        if isinstance(input_value, list) and input_value and isinstance(input_value[0], dict):
            return [_message(field.data_class, one) for one in input_value]
        return input_value

    return kind(
        **version, **{name: value(kind._struct.fields[name], input_value) for name, input_value in fields.items()}
    )


class Raw:
    """A connection that sends single requests and returns responses as dictionaries."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._count = 0

    def call(self, api: str, version: int, **fields: Any) -> Any:
        """Sends a request and waits for its response."""
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
    """Encodes a record batch of a producer, given by id and epoch, for a Produce request."""
    builder = DefaultRecordBatchBuilder(2, 0, transactional, *producer, sequence, 1 << 20)
    for i in range(count):
        builder.append(i, _T0 + i, None, b"%d" % (sequence + i), [])
    return bytes(builder.build())
