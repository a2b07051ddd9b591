"""What formats with schemas share: where their schemas are, and what a registry says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from samsarrow import _core
from samsarrow._faces import Do
from samsarrow.exceptions import ConfigurationError
from samsarrow.registry import RegisteredSchema, SchemaRegistry, SchemaType, _new, _schema

T = TypeVar("T")


class Registered:
    """A format whose schemas may be a registry's."""

    __slots__ = ("_arguments", "_decoders", "_found", "_ids", "_registry")

    _kind: ClassVar[SchemaType]
    # What arguments are where they are left out, unless None.
    _left_out: ClassVar[Mapping[str, Any]]
    # Texts that schemas need and a registry may not have.
    _imports: list[str] = []  # noqa: RUF012 - never changed

    def _keep(self, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self._registry: SchemaRegistry | None = arguments["registry"]
        # By subject; None has the one of the schema that was given.
        self._decoders: dict[str | None, _core.ValueDecoder] = {}
        # What the registry says that rows look like, by subject.
        self._found: dict[str, RegisteredSchema] = {}
        # By subject and text.
        self._ids: dict[tuple[str, str], int] = {}

    async def _latest(self, do: Do, subject: str) -> RegisteredSchema:
        """The latest version of a subject, or the one that was asked for; asked for once."""
        assert self._registry is not None
        if subject not in self._found:
            found = await do(_schema(self._registry._open, None, None, subject, self._arguments["version"]))
            if found.schema_type != self._kind:
                text = f"the schema of subject {subject} is of type {found.schema_type}, not {self._kind}"
                raise ConfigurationError(text)
            self._found[subject] = found
        return self._found[subject]

    def _check_rules(self, found: RegisteredSchema, subject: str | None, doing: str) -> None:
        """Refuses a data contract, unless its rules are to be ignored."""
        if found.has_rules and not self._arguments["ignore_rules"]:
            text = f"the schema of subject {subject} has rules, which samsarrow does not run"
            raise ConfigurationError(f"{text}: ignore_rules=True {doing} values as they are")

    async def _id_of(self, do: Do, subject: str, text: str) -> int:
        """The id of a schema to write with, which is registered or looked up once."""
        assert self._registry is not None
        if (subject, text) not in self._ids:
            core = self._registry._open
            ask = core.register if self._arguments["auto_register"] else core.lookup
            self._ids[subject, text] = await do(ask(subject, _new(text, self._kind, ()), False))
        return self._ids[subject, text]

    async def _header(self, do: Do, known: int | bytes | None) -> bytes:
        """What names a schema in a header, by its id or GUID: by the GUID, as Confluent's serializers do."""
        if isinstance(known, int):
            if self._registry is None:
                return b"\0" + known.to_bytes(4)
            found = await do(_schema(self._registry._open, known, None, None, "latest"))
            known = None if found.guid is None else found.guid.bytes
        if known is None:
            raise ConfigurationError("the registry has no GUIDs, which headers have: framing='confluent' takes ids")
        return b"\1" + known

    async def _learn(self, do: Do, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        """Has the registry say what values of a batch were written with."""
        if self._registry is not None:
            given = (self._arguments["ignore_rules"], self._imports)
            call = decoder.learn(self._registry._open, batch, key, *given)
            if call is not None:
                await do(call)

    @property
    def _in_headers(self) -> bool:
        """Whether headers of records may name the schema."""
        return self._arguments["framing"] in ("auto", "header")

    @property
    def _writes_headers(self) -> bool:
        """Whether headers of records name the schema that is written."""
        return bool(self._arguments["framing"] == "header")

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (type(self), self._arguments)

    def __repr__(self) -> str:
        given = (f"{name}={one!r}" for name, one in self._arguments.items() if one != self._left_out.get(name))
        return f"{type(self).__name__}({', '.join(given)})"


def given_once(
    source: T | SchemaRegistry | None, schema: T | None, registry: SchemaRegistry | None
) -> tuple[T | None, SchemaRegistry | None]:
    """The schema and the registry, one of which may be given without a name."""
    if isinstance(source, SchemaRegistry):
        if registry is not None:
            raise TypeError("the registry is passed twice")
        return schema, source
    if source is not None and schema is not None:
        raise TypeError("the schema is passed twice")
    return schema if source is None else source, registry


def _made(of: type[Any], arguments: dict[str, Any]) -> Any:
    return of(**arguments)
