"""What a registry for tests holds: contexts, subjects, versions, ids and GUIDs."""

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


class Refused(Exception):  # noqa: N818 - it is an answer, not an error of the program
    """What is answered in the place of what was asked for, by the registry's number of it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100


@dataclass(frozen=True)
class Schema:
    """One schema, whatever subjects have it."""

    text: str
    kind: str
    references: tuple[tuple[str, str, int], ...]
    rules: str | None = None

    @property
    def guid(self) -> UUID:
        said = json.dumps([self.text, self.kind, self.references, self.rules])
        return UUID(bytes=hashlib.sha256(said.encode()).digest()[:16])

    def answer(self) -> dict[str, Any]:
        """The part of answers that is about the schema alone."""
        found: dict[str, Any] = {"schema": self.text, "guid": str(self.guid)}
        if self.kind != "AVRO":
            found["schemaType"] = self.kind
        if self.references:
            found["references"] = [{"name": n, "subject": s, "version": v} for n, s, v in self.references]
        if self.rules:
            found["ruleSet"] = json.loads(self.rules)
        return found


@dataclass
class Context:
    """One space of ids."""

    ids: dict[int, Schema] = field(default_factory=dict)
    subjects: dict[str, dict[int, int]] = field(default_factory=dict)
    # Versions of subjects that were deleted; registries give them with `deleted=true`, and their ids always.
    deleted: dict[str, dict[int, int]] = field(default_factory=dict)


class Store:
    """Subjects come with the name of their context, `:.name:subject`; without one they are the default's."""

    def __init__(self, level: str) -> None:
        self.contexts: dict[str, Context] = {}
        self.level = checked(level)
        self.levels: dict[str, str] = {}
        # What tests have said of subjects.
        self.verdicts: dict[str, list[str]] = {}

    def context(self, subject: str) -> tuple[Context, str]:
        name, bare = split(subject)
        return self.contexts.setdefault(name, Context()), bare

    def register(self, subject: str, schema: Schema) -> tuple[int, int]:
        """Id and version."""
        context, name = self.context(subject)
        self.validate(subject, schema)
        known = next((number for number, one in context.ids.items() if one == schema), None)
        versions = context.subjects.get(name, {})
        for version, number in versions.items():
            if number == known:
                return number, version
        reasons = self.against(subject, schema)
        if reasons:
            details = "; ".join(reasons)
            text = f"Schema being registered is incompatible with an earlier schema for subject {subject!r}: {details}"
            raise Refused(409, text)
        number = known or max(context.ids, default=0) + 1
        context.ids[number] = schema
        version = max([*versions, *context.deleted.get(name, {})], default=0) + 1
        context.subjects.setdefault(name, {})[version] = number
        return number, version

    def versions(self, subject: str) -> dict[int, int]:
        context, name = self.context(subject)
        if name not in context.subjects:
            raise Refused(40401, f"Subject {subject!r} not found.")
        return context.subjects[name]

    def version(self, subject: str, version: str, *, deleted: bool = False) -> dict[str, Any]:
        context, name = self.context(subject)
        gone = context.deleted.get(name, {}) if deleted else {}
        versions = {**gone, **context.subjects.get(name, {})} if gone else self.versions(subject)
        number = max(versions) if version in ("latest", "-1") else int(version) if version.isdigit() else 0
        if number < 1:
            raise Refused(42202, f"The specified version {version!r} is not a valid version id.")
        if number not in versions:
            raise Refused(40402, f"Version {version} not found.")
        schema = context.ids[versions[number]]
        return {"subject": subject, "version": number, "id": versions[number], **schema.answer()}

    def delete(self, subject: str) -> list[int]:
        """Deletes a subject, whose ids stay."""
        versions = self.versions(subject)
        context, name = self.context(subject)
        context.deleted.setdefault(name, {}).update(context.subjects.pop(name))
        return sorted(versions)

    def by_id(self, number: str, subject: str) -> Schema:
        context, _ = self.context(subject)
        schema = context.ids.get(int(number) if number.isdigit() else -1)
        if schema is None:
            raise Refused(40403, f"Schema {number} not found.")
        return schema

    def by_guid(self, guid: str) -> Schema:
        for context in self.contexts.values():
            for schema in context.ids.values():
                if str(schema.guid) == guid:
                    return schema
        raise Refused(40403, f"Schema {guid} not found.")

    def lookup(self, subject: str, schema: Schema) -> dict[str, Any]:
        context, _ = self.context(subject)
        for version, number in self.versions(subject).items():
            if context.ids[number] == schema:
                return self.version(subject, str(version))
        raise Refused(40403, "Schema not found.")

    def needed(self, subject: str, schema: Schema) -> list[str]:
        """The texts of what a schema refers to."""
        space, _ = split(subject)
        found: list[str] = []
        for _, other, version in schema.references:
            where = other if other.startswith(":.") else f"{space}{other}"
            context, name = self.context(where)
            number = context.subjects.get(name, {}).get(version)
            if number is None:
                raise Refused(42201, f"Invalid schema: reference to version {version} of subject {other!r}.")
            one = context.ids[number]
            found += [text for text in [*self.needed(where, one), one.text] if text not in found]
        return found

    def validate(self, subject: str, schema: Schema) -> None:
        self.needed(subject, schema)
        if schema.kind == "AVRO" and schema.text not in PRIMITIVES:
            try:
                json.loads(schema.text)
            except ValueError:
                raise Refused(42201, "Invalid schema: it is not JSON.") from None

    def against(self, subject: str, schema: Schema, version: str | None = None) -> list[str]:
        """Why a schema cannot be the next of a subject."""
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
        new = (schema.text, self.needed(subject, schema))
        reasons = []
        for number in numbers:
            before = context.ids[versions[number]]
            old = (before.text, self.needed(subject, before))
            pairs = [] if level.startswith("FORWARD") else [("BACKWARD", old, new)]
            pairs += [] if level.startswith("BACKWARD") else [("FORWARD", new, old)]
            reasons += [f"version {number}, {how}: {said}" for how, *pair in pairs if (said := _refusal(*pair))]
        return reasons


def _refusal(writer: tuple[str, Sequence[str]], reader: tuple[str, Sequence[str]]) -> str | None:
    try:
        return _core.avro_incompatibility(writer, reader)
    except ConfigurationError:
        # One that has no Arrow type, such as one that contains itself, is a schema all the same.
        return None


def split(subject: str) -> tuple[str, str]:
    """The context's name with its colons, empty for the default one, and the rest."""
    if subject.startswith(":."):
        name, _, bare = subject[1:].partition(":")
        return ("", bare) if name == "." else (f":{name}:", bare)
    return "", subject


def checked(level: str) -> str:
    if level not in LEVELS:
        raise Refused(42203, f"Invalid compatibility level {level!r}: it is one of {', '.join(LEVELS)}.")
    return level


def of_body(body: Mapping[str, Any]) -> Schema:
    """The schema that is sent."""
    references = tuple((one["name"], one["subject"], one["version"]) for one in body.get("references") or ())
    rules = json.dumps(body["ruleSet"]) if body.get("ruleSet") else None
    text = body.get("schema")
    if not isinstance(text, str) or not text:
        raise Refused(42201, "Empty schema.")
    kind = body.get("schemaType") or "AVRO"
    if kind == "AVRO" and text not in PRIMITIVES:
        try:
            text = json.dumps(json.loads(text), separators=(",", ":"))
        except ValueError:
            raise Refused(42201, "Invalid schema: it is not JSON.") from None
    return Schema(text, kind, references, rules)
