"""Schema registries: schemas by id, by GUID and by subject."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, TypeAlias, final
from uuid import UUID

from samsarrow import _core
from samsarrow.config import HIDDEN, Secret, merge
from samsarrow.exceptions import ClosedError, ConfigurationError, SchemaIncompatibleError

__all__ = ["RegisteredSchema", "SchemaReference", "SchemaRegistry"]

Auth: TypeAlias = tuple[str, str] | str | None
"""Name and password, or a token."""
SchemaType: TypeAlias = Literal["AVRO"] | Literal["JSON"] | Literal["PROTOBUF"]


@final
@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses.

    Attributes:
        name: under which it is used: a full name in Avro, a path in Protobuf, an address in JSON Schema.
        subject: where it is registered.
        version: as which version there.
    """

    name: str
    subject: str
    version: int


@final
@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as a registry has it.

    Attributes:
        schema: its text.
        schema_type: `AVRO`, `JSON` or `PROTOBUF`.
        id: in this registry; None where the answer has none, as for a GUID.
        guid: in every registry; None where the registry is older than such.
        subject: of the version that was asked for; None for an id or a GUID, which says nothing of it.
        version: likewise.
        references: what it uses itself.
        needed: the texts of all schemas that it needs, each after those that it needs itself.
        has_rules: whether it has rules (a data contract), which are not run here.
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


class SchemaRegistry:
    """A client of a schema registry, as Confluent's API has it.

    Schemas by id or GUID are kept for ever and asked for once, whoever waits for them. It may be used by several
    threads. No connection is made before the first call.

    Args:
        url: where the registry is; of several the next is tried where one fails.
        auth: name and password, or a token.
        context: subjects and ids are those of this context.
        **options: `max_retries=1` and others, and those of TLS, `ssl_ca_location="…"`; docs/values.md lists them. They
            may have dots, in `**{…}`.

    Raises:
        ConfigurationError: an option is unknown or has an invalid value.
    """

    def __init__(
        self, url: str | Sequence[str], *, auth: Auth = None, context: str | None = None, **options: Any
    ) -> None:
        self._urls, self._arguments = _urls(url), (url, auth, context, options)
        self._core: _core.Registry | None = _core.Registry(self._urls, context, _pairs(auth, options))

    @property
    def _open(self) -> _core.Registry:
        if self._core is None:
            raise ClosedError("the schema registry's client is closed")
        return self._core

    def schema(
        self,
        *,
        id: int | None = None,  # noqa: A002 - as in every registry
        guid: UUID | str | None = None,
        subject: str | None = None,
        version: int | Literal["latest"] = "latest",
    ) -> RegisteredSchema:
        """A schema, with all that it needs.

        Args:
            id: its number in this registry.
            guid: its number in every registry, in the place of `id`.
            subject: where it is a version, in the place of `id`.
            version: of `subject`.

        Raises:
            SchemaNotFoundError: there is none. Replicas may lag: an id is asked for three times within 2 seconds.
            RegistryError: the registry cannot be asked, or refuses.
        """
        return _schema(self._open, id, guid, subject, version).wait()

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject.

        Raises:
            SchemaNotFoundError: there is no such subject.
            RegistryError: the registry cannot be asked, or refuses.
        """
        return self._open.versions(subject).wait()

    def subjects(self) -> list[str]:
        """The subjects, without the context's name.

        Raises:
            RegistryError: the registry cannot be asked, or refuses.
        """
        return self._open.subjects().wait()

    def register(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> int:
        """Registers a schema; one that is there already keeps its id.

        Args:
            subject: `orders-value` for the values of topic `orders`.
            schema: its text, or what that parses to.
            schema_type: what kind it is.
            references: what it uses.
            normalize: has the registry bring the text into one form first.

        Returns:
            Its id.

        Raises:
            SchemaIncompatibleError: it does not go with earlier versions, with the registry's reasons.
            RegistryError: it is no schema, or the registry cannot be asked.
        """
        return self._open.register(subject, _new(schema, schema_type, references), normalize).wait()

    def lookup(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
        normalize: bool = False,
    ) -> int:
        """Looks for a schema among those of a subject, without registering it.

        Args:
            subject: as for `register`.
            schema: as for `register`.
            schema_type: as for `register`.
            references: as for `register`.
            normalize: as for `register`.

        Returns:
            Its id.

        Raises:
            SchemaNotFoundError: the subject has no such schema.
            RegistryError: it is no schema, or the registry cannot be asked.
        """
        return self._open.lookup(subject, _new(schema, schema_type, references), normalize).wait()

    def check(
        self,
        subject: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
        references: Sequence[SchemaReference] = (),
    ) -> None:
        """Checks whether a schema may be the next of a subject, without registering it.

        Args:
            subject: as for `register`.
            schema: as for `register`.
            schema_type: as for `register`.
            references: as for `register`.

        Raises:
            SchemaIncompatibleError: it does not go with earlier versions, with the registry's reasons.
            RegistryError: it is no schema, or the registry cannot be asked.
        """
        return _check(self._open, subject, _new(schema, schema_type, references)).wait()

    def compatibility(self, subject: str | None = None) -> str:
        """What the next schema must be compatible with, such as `BACKWARD`.

        Args:
            subject: of this one; by default what holds for all that have nothing of their own.

        Raises:
            RegistryError: the registry cannot be asked, or refuses.
        """
        return self._open.compatibility(subject).wait()

    def close(self) -> None:
        """Ends what is being asked. May be called again."""
        core, self._core = self._core, None
        if core is not None:
            core.close()

    def __enter__(self) -> SchemaRegistry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return _shown(self, self._arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers that read values ask it, too. What is pickled has the password.
        return _made, (type(self), *self._arguments)


def _made(of: type[SchemaRegistry], url: Any, auth: Any, context: Any, options: dict[str, Any]) -> SchemaRegistry:
    return of(url, auth=auth, context=context, **options)


def _shown(of: object, arguments: tuple[Any, Any, Any, dict[str, Any]]) -> str:
    url, auth, context, _ = arguments
    name, login = type(of).__name__, "" if auth is None else f", auth={HIDDEN}"
    return f"{name}({url!r}{login}{'' if context is None else f', context={context!r}'})"


def _urls(url: str | Sequence[str]) -> list[str]:
    urls = [url] if isinstance(url, str) else list(url)
    return [one.strip() for given in urls for one in given.split(",") if one.strip()]


def _pairs(auth: Auth, options: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs = merge(None, options)
    if isinstance(auth, tuple):
        if len(auth) != 2:
            raise ConfigurationError("auth must be (name, password), or a token")
        name, password = map(_revealed, auth)
        if ":" in name:
            raise ConfigurationError("the name in auth has a colon, which ends names in HTTP")
        pairs.append(("basic.auth.user.info", f"{name}:{password}"))
    elif auth is not None:
        pairs.append(("bearer.auth.token", _revealed(auth)))
    return pairs


def _revealed(text: str) -> str:
    return text.reveal() if isinstance(text, Secret) else text


def _schema(
    core: _core.Registry, schema_id: int | None, guid: UUID | str | None, subject: str | None, version: int | str
) -> _core.Call[RegisteredSchema]:
    given = [name for name, one in (("id", schema_id), ("guid", guid), ("subject", subject)) if one is not None]
    if len(given) != 1:
        raise TypeError(f"one of id, guid and subject says which schema, not {' and '.join(given) or 'none'}")
    if schema_id is not None:
        return core.schema_of_id(schema_id).then(_registered)
    if guid is not None:
        return core.schema_of_guid((guid if isinstance(guid, UUID) else UUID(guid)).bytes).then(_registered)
    if isinstance(version, str) and version != "latest":
        raise ConfigurationError(f"version must be a number or latest, not {version!r}")
    number = None if isinstance(version, str) else version
    return core.schema_of_subject(str(subject), number).then(_registered)


def _check(core: _core.Registry, subject: str, schema: _core._NewSchema) -> _core.Call[None]:
    def judged(reasons: list[str]) -> None:
        if reasons:
            lines = "".join(f"\n  {reason}" for reason in reasons)
            error = SchemaIncompatibleError(f"a schema for subject {subject} does not go with earlier versions{lines}")
            error.reasons = reasons
            raise error

    return core.check(subject, schema).then(judged)


def _new(
    schema: str | Mapping[str, Any] | Sequence[Any], kind: str, references: Sequence[SchemaReference]
) -> _core._NewSchema:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return text, kind, [(one.name, one.subject, one.version) for one in references]


def _registered(found: _core._RegisteredSchema) -> RegisteredSchema:
    text, kind, schema_id, guid, subject, version, references, needed, has_rules = found
    refers = tuple(SchemaReference(*reference) for reference in references)
    known = UUID(guid) if guid else None
    return RegisteredSchema(text, kind, schema_id, known, subject, version, refers, tuple(needed), has_rules)
