"""Client of schema registries, with schemas by id, by GUID and by subject."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final
from uuid import UUID

from samsarrow import _core
from samsarrow._arguments import names_arguments, to_uuid
from samsarrow._registry_client import BlockingRegistry, RegistryClient
from samsarrow.config import HIDDEN, Secret, merge
from samsarrow.exceptions import ConfigurationError, SchemaIncompatibleError
from samsarrow.types import INT32, INT64, to_integer

__all__ = ["RegisteredSchema", "SchemaReference", "SchemaRegistry"]

Auth: TypeAlias = tuple[str, str] | str | None
"""Name and password, or a token."""
SchemaType: TypeAlias = Literal["AVRO"] | Literal["JSON"] | Literal["PROTOBUF"]


@final
@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another schema uses.

    Attributes:
        name: the name by which the other schema refers to it: a full name in Avro, a path in Protobuf, a URI in JSON
        Schema.
        subject: subject of the referenced schema.
        version: version of the referenced schema in that subject.
    """

    name: str
    subject: str
    version: int


@final
@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema from a registry.

    Attributes:
        schema: the text of the schema.
        schema_type: `AVRO`, `JSON` or `PROTOBUF`.
        id: id of the schema in this registry; None if the response has no id, as in lookups by GUID.
        guid: id of the schema in every registry; None if the registry does not support GUIDs.
        subject: subject of the requested version; None in lookups by id or GUID.
        version: the requested version; None in lookups by id or GUID.
        references: the schemas that this schema refers to directly.
        needed: texts of all schemas that this schema needs, in dependency order.
        links: references between schemas. Each has the index in `needed` of the referring schema, the name of the
            reference, and the index of the referenced schema. The index `len(needed)` stands for this schema.
        has_rules: whether the schema has rules (a data contract), which samsarrow does not execute.
    """

    schema: str
    schema_type: str
    id: int | None
    guid: UUID | None
    subject: str | None
    version: int | None
    references: tuple[SchemaReference, ...]
    needed: tuple[str, ...]
    has_rules: bool = False
    links: tuple[tuple[int, str, int], ...] = ()


class ConfluentClient(RegistryClient):
    """Base of the clients of registries with Confluent's API."""

    def __init__(
        self,
        url: str | Sequence[str] | Mapping[str, Any],
        *,
        auth: Auth = None,
        context: str | None = None,
        **options: Any,
    ) -> None:
        url, options = _url_and_options(url, options)
        self._urls, self._arguments = _urls(url), (url, auth, context, options)
        self._core: _core.Registry | None = _core.Registry(self._urls, context, _pairs(auth, options))

    def __repr__(self) -> str:
        url, auth, context, _ = self._arguments
        name, login = type(self).__name__, "" if auth is None else f", auth={HIDDEN}"
        return f"{name}({url!r}{login}{'' if context is None else f', context={context!r}'})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The client is pickled for workers that decode values. The pickle contains the password.
        return _create, (type(self), *self._arguments)


def _create(cls: type[ConfluentClient], url: Any, auth: Any, context: Any, options: dict[str, Any]) -> ConfluentClient:
    return cls(url, auth=auth, context=context, **options)


class SchemaRegistry(ConfluentClient, BlockingRegistry):
    """A client of a schema registry with Confluent's API.

    Schemas by id or GUID are cached without expiry. Concurrent lookups of a schema share one request. Safe to use from
    several threads. The client connects on the first call.

    Args:
        url: URL of the registry, or several URLs: if a request to one fails, the client tries the next. Or a mapping
            of `url` and options with dotted names, `{"url": "http://localhost:8081", "max.retries": 1}`.
        auth: a tuple of name and password, or a token.
        context: registry context of all subjects and ids.
        **options: `max_retries=1` and others, and TLS options such as `ssl_ca_location="…"`; docs/values.md lists them.

    Raises:
        ConfigurationError: an option is unknown or has an invalid value.
    """

    def schema(
        self,
        *,
        id: int | None = None,  # noqa: A002 - the name in the registry's API
        guid: UUID | str | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
    ) -> RegisteredSchema:
        """Returns a schema, with all schemas that it needs.

        Args:
            id: id of the schema in this registry.
            guid: id of the schema in every registry, to pass instead of `id`.
            subject: subject of the schema, to pass instead of `id`.
            version: version of the schema in `subject`.

        Raises:
            SchemaNotFoundError: the schema does not exist. An id is requested three times in 2 s, because replicas of
                the registry may lag.
            RegistryError: the registry cannot be reached, or rejects the request.
        """
        return _schema(self._open, id, guid, subject, version).wait()

    @names_arguments
    def versions(self, subject: str) -> list[int]:
        """Returns the versions of a subject.

        Raises:
            SchemaNotFoundError: the subject does not exist.
            RegistryError: the registry cannot be reached, or rejects the request.
        """
        return self._open.versions(subject).wait()

    def subjects(self) -> list[str]:
        """Returns the names of the subjects, without the context.

        Raises:
            RegistryError: the registry cannot be reached, or rejects the request.
        """
        return self._open.subjects().wait()

    @names_arguments
    def register(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> int:
        """Registers a schema; a schema that is already registered keeps its id.

        Args:
            subject: `orders-value` for the values of topic `orders`.
            schema: text of the schema, or its parsed JSON.
            schema_type: `AVRO`, `JSON` or `PROTOBUF`.
            references: the schemas that the schema refers to.
            normalize: whether the registry normalizes the text first.

        Returns:
            The id of the schema.

        Raises:
            SchemaIncompatibleError: the schema is incompatible with earlier versions. The error has the registry's
                reasons.
            RegistryError: the schema is invalid, or the registry cannot be reached.
        """
        return _number(self._open.register(subject, _new(schema, schema_type, references), normalize).wait())

    @names_arguments
    def lookup(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> int:
        """Looks up the id of a schema in a subject, without registering it.

        Args:
            subject: as for `register`.
            schema: as for `register`.
            schema_type: as for `register`.
            references: as for `register`.
            normalize: as for `register`.

        Returns:
            The id of the schema.

        Raises:
            SchemaNotFoundError: the subject has no such schema.
            RegistryError: the schema is invalid, or the registry cannot be reached.
        """
        return _number(self._open.lookup(subject, _new(schema, schema_type, references), normalize).wait())

    @names_arguments
    def check(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
    ) -> None:
        """Checks whether a schema may become the next version of a subject, without registering it.

        Args:
            subject: as for `register`.
            schema: as for `register`.
            schema_type: as for `register`.
            references: as for `register`.

        Raises:
            SchemaIncompatibleError: the schema is incompatible with earlier versions. The error has the registry's
                reasons.
            RegistryError: the schema is invalid, or the registry cannot be reached.
        """
        return _check(self._open, subject, _new(schema, schema_type, references)).wait()

    @names_arguments
    def compatibility(self, subject: str | None = None) -> str:
        """Returns the compatibility level for new schemas, such as `BACKWARD`.

        Args:
            subject: the subject. By default, the level that applies to subjects without a level of their own is
                returned.

        Raises:
            RegistryError: the registry cannot be reached, or rejects the request.
        """
        return self._open.compatibility(subject).wait()


def _url_and_options(
    url: str | Sequence[str] | Mapping[str, Any], options: dict[str, Any]
) -> tuple[str | Sequence[str], dict[str, Any]]:
    """Returns the URLs and the options of a client that was created with a mapping or with arguments."""
    if not isinstance(url, Mapping):
        return url, options
    merged: dict[str, Any] = {}
    for name, value in [*url.items(), *options.items()]:
        if not isinstance(name, str):
            raise ConfigurationError(f"option names are text, not {type(name).__name__}")
        dotted = name.replace("_", ".").removeprefix("schema.registry.")
        if dotted in merged:
            raise ConfigurationError(f"option {dotted} is given twice, under two spellings or as a keyword too")
        merged[dotted] = value
    if merged.get("url") is None:
        raise ConfigurationError("a schema registry needs option url, for example http://localhost:8081")
    return merged.pop("url"), merged


def _urls(url: str | Sequence[str]) -> list[str]:
    if not isinstance(url, str) and not (isinstance(url, Sequence) and all(isinstance(text, str) for text in url)):
        raise TypeError(f"url must be text, a list of texts or a mapping with url, not {type(url).__name__}")
    urls = [url] if isinstance(url, str) else list(url)
    return [part.strip() for text in urls for part in text.split(",") if part.strip()]


def _pairs(auth: Auth, options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs = merge(None, options)
    if isinstance(auth, tuple):
        if len(auth) != 2:
            raise ConfigurationError("auth must be (name, password), or a token")
        name, password = map(_revealed, auth)
        if ":" in name:
            raise ConfigurationError("the name in auth must not contain a colon, which ends names in HTTP")
        pairs.append(("basic.auth.user.info", f"{name}:{password}"))
    elif auth is not None:
        pairs.append(("bearer.auth.token", _revealed(auth)))
    return pairs


def _revealed(text: str) -> str:
    return text.reveal() if isinstance(text, Secret) else text


def _schema(
    core: _core.Registry, schema_id: int | None, guid: UUID | str | None, subject: str | None, version: int | str
) -> _core.Call[RegisteredSchema]:
    names = [name for name, value in (("id", schema_id), ("guid", guid), ("subject", subject)) if value is not None]
    if len(names) != 1:
        raise TypeError(f"pass exactly one of id, guid and subject, not {' and '.join(names) or 'none'}")
    if schema_id is not None:
        return core.schema_of_id(to_integer(schema_id, "id", 0, INT64)).then(_registered)
    if guid is not None:
        return core.schema_of_guid(to_uuid(guid, "guid").bytes).then(_registered)
    if isinstance(version, str) and version != "latest":
        raise ConfigurationError(f"version must be a number or latest, not {version!r}")
    if not isinstance(subject, str):
        raise TypeError(f"subject must be str, not {type(subject).__name__}")
    number = None if isinstance(version, str) else to_integer(version, "version", 1, INT32)
    return core.schema_of_subject(subject, number).then(_registered)


def _number(key: int | bytes) -> int:
    """Returns an id of a registry with Confluent's API, whose ids are numbers."""
    assert isinstance(key, int)
    return key


def _check(core: _core.Registry, subject: str, schema: _core._NewSchema) -> _core.Call[None]:
    def raise_if_incompatible(reasons: list[str]) -> None:
        if reasons:
            lines = "".join(f"\n  {reason}" for reason in reasons)
            text = f"a schema for subject {subject} is incompatible with earlier versions{lines}"
            error = SchemaIncompatibleError(text)
            error.reasons = reasons
            raise error

    return core.check(subject, schema).then(raise_if_incompatible)


def _new(
    schema: str | Mapping[str, Any] | Sequence[Any], kind: str, references: Sequence[SchemaReference]
) -> _core._NewSchema:
    # `names_arguments` reports values of other types.
    if isinstance(kind, str) and kind not in ("AVRO", "JSON", "PROTOBUF"):
        raise ConfigurationError(f"schema_type must be AVRO, JSON or PROTOBUF, not {kind!r}")
    parsed = isinstance(schema, (Mapping, Sequence)) or (kind == "JSON" and isinstance(schema, bool))
    if not isinstance(schema, str) and (kind == "PROTOBUF" or not parsed or isinstance(schema, (bytes, bytearray))):
        expected = "text" if kind == "PROTOBUF" else "text or parsed JSON"
        raise TypeError(f"schema of type {kind} must be {expected}, not {type(schema).__name__}")
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return text, kind, [(reference.name, reference.subject, reference.version) for reference in references]


def _registered(row: _core._RegisteredSchema) -> RegisteredSchema:
    text, kind, schema_id, guid, subject, version, rows, needed, links, has_rules = row
    references = tuple(SchemaReference(*reference) for reference in rows)
    uuid = UUID(guid) if guid else None
    return RegisteredSchema(
        text, kind, schema_id, uuid, subject, version, references, tuple(needed), has_rules, tuple(links)
    )
