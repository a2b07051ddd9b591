"""Storage of the in-memory schema registry: contexts, subjects, versions, ids and GUIDs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError

LEVELS = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


class ErrorResponse(Exception):  # noqa: N818 - a response to the client, not an error of the registry
    """An error response of the registry, with its error code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


@dataclass(frozen=True)
class Schema:
    """A schema, independent of its subjects."""

    text: str
    kind: str
    references: tuple[tuple[str, str, int], ...]
    rules: str | None = None

    @property
    def guid(self) -> UUID:
        content = json.dumps([self.text, self.kind, self.references, self.rules])
        return UUID(bytes=hashlib.sha256(content.encode()).digest()[:16])

    def response(self) -> dict[str, Any]:
        """Returns the members of a response that describe the schema itself."""
        members: dict[str, Any] = {"schema": self.text, "guid": str(self.guid)}
        if self.kind != "AVRO":
            members["schemaType"] = self.kind
        if self.references:
            members["references"] = [{"name": n, "subject": s, "version": v} for n, s, v in self.references]
        if self.rules:
            members["ruleSet"] = json.loads(self.rules)
        return members


@dataclass
class Context:
    """A registry context, which is a separate namespace of ids and subjects."""

    ids: dict[int, Schema] = field(default_factory=dict)
    subjects: dict[str, dict[int, int]] = field(default_factory=dict)
    # Versions of deleted subjects. Registries return the versions only with `deleted=true`, but always resolve their
    # ids.
    deleted: dict[str, dict[int, int]] = field(default_factory=dict)


class Store:
    """All contexts of the registry. Subjects without a prefix such as `:.context:` are in the default context."""

    def __init__(self, level: str) -> None:
        self.contexts: dict[str, Context] = {}
        self.level = checked(level)
        self.levels: dict[str, str] = {}
        # Results of compatibility checks that tests have set, by subject: the reasons for rejection.
        self.verdicts: dict[str, list[str]] = {}

    def context(self, subject: str) -> tuple[Context, str]:
        name, bare = split(subject)
        return self.contexts.setdefault(name, Context()), bare

    def register(self, subject: str, schema: Schema) -> tuple[int, int]:
        """Registers a schema as the next version of a subject. Returns its id and its version."""
        context, name = self.context(subject)
        self.validate(subject, schema)
        known = next((number for number, registered in context.ids.items() if registered == schema), None)
        versions = context.subjects.get(name, {})
        for version, number in versions.items():
            if number == known:
                return number, version
        reasons = self.incompatibilities(subject, schema)
        if reasons:
            details = "; ".join(reasons)
            text = f"Schema being registered is incompatible with an earlier schema for subject {subject!r}: {details}"
            raise ErrorResponse(409, text)
        number = known or max(context.ids, default=0) + 1
        context.ids[number] = schema
        version = max([*versions, *context.deleted.get(name, {})], default=0) + 1
        context.subjects.setdefault(name, {})[version] = number
        return number, version

    def versions(self, subject: str) -> dict[int, int]:
        context, name = self.context(subject)
        if name not in context.subjects:
            raise ErrorResponse(40401, f"Subject {subject!r} not found.")
        return context.subjects[name]

    def version(self, subject: str, version: str, *, deleted: bool = False) -> dict[str, Any]:
        context, name = self.context(subject)
        gone = context.deleted.get(name, {}) if deleted else {}
        versions = {**gone, **context.subjects.get(name, {})} if gone else self.versions(subject)
        number = max(versions) if version in ("latest", "-1") else int(version) if version.isdigit() else 0
        if number < 1:
            raise ErrorResponse(42202, f"The specified version {version!r} is not a valid version id.")
        if number not in versions:
            raise ErrorResponse(40402, f"Version {version} not found.")
        schema = context.ids[versions[number]]
        return {"subject": subject, "version": number, "id": versions[number], **schema.response()}

    def delete(self, subject: str) -> list[int]:
        """Deletes a subject. The ids of its schemas stay valid."""
        versions = self.versions(subject)
        context, name = self.context(subject)
        context.deleted.setdefault(name, {}).update(context.subjects.pop(name))
        return sorted(versions)

    def by_id(self, number: str, subject: str) -> Schema:
        context, _ = self.context(subject)
        schema = context.ids.get(int(number) if number.isdigit() else -1)
        if schema is None:
            raise ErrorResponse(40403, f"Schema {number} not found.")
        return schema

    def by_guid(self, guid: str) -> Schema:
        for context in self.contexts.values():
            for schema in context.ids.values():
                if str(schema.guid) == guid:
                    return schema
        raise ErrorResponse(40403, f"Schema {guid} not found.")

    def lookup(self, subject: str, schema: Schema) -> dict[str, Any]:
        context, _ = self.context(subject)
        for version, number in self.versions(subject).items():
            if context.ids[number] == schema:
                return self.version(subject, str(version))
        raise ErrorResponse(40403, "Schema not found.")

    def referenced_texts(self, subject: str, schema: Schema) -> list[str]:
        """Returns the texts of the schemas that a schema refers to, directly or indirectly."""
        space, _ = split(subject)
        texts: list[str] = []
        for _, other, version in schema.references:
            qualified = other if other.startswith(":.") else f"{space}{other}"
            context, name = self.context(qualified)
            number = context.subjects.get(name, {}).get(version)
            if number is None:
                raise ErrorResponse(42201, f"Invalid schema: reference to version {version} of subject {other!r}.")
            referenced = context.ids[number]
            new = [*self.referenced_texts(qualified, referenced), referenced.text]
            texts += [text for text in new if text not in texts]
        return texts

    def validate(self, subject: str, schema: Schema) -> None:
        self.referenced_texts(subject, schema)
        if schema.kind == "AVRO" and schema.text not in PRIMITIVES:
            try:
                json.loads(schema.text)
            except ValueError:
                raise ErrorResponse(42201, "Invalid schema: it is not JSON.") from None

    def incompatibilities(self, subject: str, schema: Schema, version: str | None = None) -> list[str]:
        """Returns the reasons why a schema is incompatible with a subject; empty if it is compatible."""
        if subject in self.verdicts:
            return self.verdicts[subject]
        context, name = self.context(subject)
        versions = context.subjects.get(name, {})
        level = self.levels.get(subject, self.level)
        if schema.kind != "AVRO" or level == "NONE" or not versions:
            return []
        numbers = sorted(versions, reverse=True)
        if version not in (None, "latest", "-1"):
            numbers = [number for number in numbers if str(number) == version]
        elif not level.endswith("TRANSITIVE"):
            numbers = numbers[:1]
        new = (schema.text, self.referenced_texts(subject, schema))
        reasons = []
        for number in numbers:
            before = context.ids[versions[number]]
            old = (before.text, self.referenced_texts(subject, before))
            pairs = [] if level.startswith("FORWARD") else [("BACKWARD", old, new)]
            pairs += [] if level.startswith("BACKWARD") else [("FORWARD", new, old)]
            checked_pairs = ((direction, _incompatibility(*pair)) for direction, *pair in pairs)
            reasons += [f"version {number}, {direction}: {reason}" for direction, reason in checked_pairs if reason]
        return reasons


def _incompatibility(writer: tuple[str, Sequence[str]], reader: tuple[str, Sequence[str]]) -> str | None:
    try:
        return _core.avro_incompatibility(writer, reader)
    except ConfigurationError:
        # The schema is valid but has no Arrow type, for example because it is recursive.
        return None


def split(subject: str) -> tuple[str, str]:
    """Splits a subject into its context prefix, which is empty for the default context, and its name."""
    if subject.startswith(":."):
        name, _, bare = subject[1:].partition(":")
        return ("", bare) if name == "." else (f":{name}:", bare)
    return "", subject


def checked(level: str) -> str:
    if level not in LEVELS:
        raise ErrorResponse(42203, f"Invalid compatibility level {level!r}: it is one of {', '.join(LEVELS)}.")
    return level


def schema_of_body(body: Mapping[str, Any]) -> Schema:
    """Returns the schema in the body of a request."""
    references = tuple((ref["name"], ref["subject"], ref["version"]) for ref in body.get("references") or ())
    rules = json.dumps(body["ruleSet"]) if body.get("ruleSet") else None
    text = body.get("schema")
    if not isinstance(text, str) or not text:
        raise ErrorResponse(42201, "Empty schema.")
    kind = body.get("schemaType") or "AVRO"
    if kind == "AVRO" and text not in PRIMITIVES:
        try:
            text = json.dumps(json.loads(text), separators=(",", ":"))
        except ValueError:
            raise ErrorResponse(42201, "Invalid schema: it is not JSON.") from None
    return Schema(text, kind, references, rules)
