"""Client of AWS Glue Schema Registry, with schemas by the UUIDs of their versions and by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, final
from uuid import UUID

from samsarrow import _core
from samsarrow._arguments import names_arguments, to_uuid
from samsarrow._registry_client import BlockingRegistry, RegistryClient
from samsarrow.config import merge
from samsarrow.registry import RegisteredSchema, SchemaRegistry, SchemaType, _new, _schema

__all__ = ["GlueSchemaRegistry"]

Compatibility = Literal["NONE", "DISABLED", "BACKWARD", "BACKWARD_ALL", "FORWARD", "FORWARD_ALL", "FULL", "FULL_ALL"]
"""Compatibility mode of a schema, with the names of AWS."""


class GlueClient(RegistryClient):
    """Base of the clients of AWS Glue Schema Registry."""

    def __init__(
        self,
        region: str | None = None,
        *,
        registry_name: str = "default-registry",
        compatibility: Compatibility = "BACKWARD",
        profile: str | None = None,
        role_arn: str | None = None,
        endpoint_url: str | None = None,
        **options: Any,
    ) -> None:
        self._arguments = {
            "region": region,
            "registry_name": registry_name,
            "compatibility": compatibility,
            "profile": profile,
            "role_arn": role_arn,
            "endpoint_url": endpoint_url,
            **options,
        }
        aws = [("awsProfileName", profile), ("awsRoleArn", role_arn), ("awsStsRegion", role_arn and region)]
        selected = [(name, value) for name, value in aws if value]
        self._core: _core.Registry | None = _core.Registry.glue(
            region, registry_name, compatibility, endpoint_url, selected, merge(None, options)
        )

    def _schema(
        self, uuid: UUID | str | None, name: str | None, version: int | Literal["latest"]
    ) -> _core.Call[RegisteredSchema]:
        names = [text for text, value in (("uuid", uuid), ("name", name)) if value is not None]
        if len(names) != 1:
            raise TypeError(f"pass exactly one of uuid and name, not {' and '.join(names) or 'none'}")
        if name is not None and not isinstance(name, str):
            raise TypeError(f"name must be str, not {type(name).__name__}")
        found = None if uuid is None else to_uuid(uuid, "uuid")
        return _schema(self._open, None, found, name, version)

    def __repr__(self) -> str:
        shown = ("region", "registry_name", "endpoint_url")
        arguments = (f"{name}={self._arguments[name]!r}" for name in shown if self._arguments[name] is not None)
        return f"{type(self).__name__}({', '.join(arguments)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _create, (type(self), self._arguments)


def _create(cls: type[GlueClient], arguments: dict[str, Any]) -> GlueClient:
    return cls(**arguments)


@final
class GlueSchemaRegistry(GlueClient, BlockingRegistry):
    """A client of AWS Glue Schema Registry, which formats accept in place of a `SchemaRegistry`.

    Credentials come from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`), otherwise
    from a web identity, a profile, the container or the instance; docs/security.md describes the order.

    Schemas by UUID are cached without expiry. Concurrent lookups of a schema share one request. Safe to use from
    several threads and event loops; other processes can unpickle it. The client connects on the first call.

    Args:
        region: AWS region; by default that of `AWS_REGION` or `AWS_DEFAULT_REGION`.
        registry_name: name of the registry in the account.
        compatibility: compatibility mode of schemas that `register` creates.
        profile: name of a profile in the configuration files of AWS.
        role_arn: role to assume.
        endpoint_url: URL to use instead of `https://glue.REGION.amazonaws.com`.
        **options: `max_retries=1` and others, and TLS options such as `ssl_ca_location="…"`; docs/values.md lists them.

    Raises:
        ConfigurationError: the region is unknown, or an option is unknown or has an invalid value.
    """

    def schema(
        self,
        *,
        uuid: UUID | str | None = None,
        name: str | None = None,
        version: int | Literal["latest"] = "latest",
    ) -> RegisteredSchema:
        """Returns a version of a schema. Its `guid` is the UUID of the version, and its `subject` the schema's name.

        Args:
            uuid: UUID of the version, as in frames of values.
            name: name of the schema, to pass instead of `uuid`.
            version: version of the schema with this name.

        Raises:
            SchemaNotFoundError: the version or the schema does not exist. A UUID is requested three times in 2 s.
            RegistryError: AWS Glue cannot be reached, or rejects the request.
            AuthenticationError: there are no AWS credentials.
        """
        return self._schema(uuid, name, version).wait()

    @names_arguments
    def versions(self, name: str) -> list[int]:
        """Returns the numbers of the versions of a schema that are available.

        Raises:
            SchemaNotFoundError: the schema does not exist.
            RegistryError: AWS Glue cannot be reached, or rejects the request.
        """
        return self._open.versions(name).wait()

    def schemas(self) -> list[str]:
        """Returns the names of the schemas in the registry.

        Raises:
            RegistryError: AWS Glue cannot be reached, or rejects the request.
        """
        return self._open.subjects().wait()

    @names_arguments
    def register(
        self,
        name: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
    ) -> UUID:
        """Registers a version of a schema, and creates the schema if it does not exist.

        A text that is already registered keeps its UUID. Waits until AWS Glue has checked the version, at most 30 s.

        Args:
            name: name of the schema: `orders` for the values of topic `orders`, as the serializers of AWS name it.
            schema: text of the schema, or its parsed JSON.
            schema_type: `AVRO`, `JSON` or `PROTOBUF`.

        Returns:
            The UUID of the version.

        Raises:
            SchemaIncompatibleError: the version is incompatible with earlier versions.
            RegistryError: the text is invalid, or AWS Glue cannot be reached.
        """
        return _uuid(self._open.register(name, _new(schema, schema_type, ()), False).wait())

    @names_arguments
    def lookup(
        self,
        name: str,
        schema: str | Mapping[str, Any] | Sequence[Any],
        *,
        schema_type: SchemaType = "AVRO",
    ) -> UUID:
        """Looks up the UUID of the version with this text, without registering it.

        Args:
            name: as for `register`.
            schema: as for `register`.
            schema_type: as for `register`.

        Returns:
            The UUID of the version.

        Raises:
            SchemaNotFoundError: the schema has no such version.
            RegistryError: AWS Glue cannot be reached, or rejects the request.
        """
        return _uuid(self._open.lookup(name, _new(schema, schema_type, ()), False).wait())

    @names_arguments
    def compatibility(self, name: str) -> str:
        """Returns the compatibility mode of a schema, such as `BACKWARD`.

        Raises:
            SchemaNotFoundError: the schema does not exist.
            RegistryError: AWS Glue cannot be reached, or rejects the request.
        """
        return self._open.compatibility(name).wait()


def registry_of_url(url: str, options: Mapping[str, Any]) -> SchemaRegistry | GlueSchemaRegistry:
    """Creates the client of a registry.

    Args:
        url: URL of a registry with Confluent's API, or several; or `glue://REGION/REGISTRY` for AWS Glue.
        options: options of the client with dotted names, without the prefix `schema.registry.`.

    Raises:
        ConfigurationError: the URL is invalid, or an option is unknown, has an invalid value or does not apply to the
            kind of registry.
    """
    arguments = _core.glue_arguments(url, dict(options))
    if arguments is not None:
        return GlueSchemaRegistry(**arguments)  # type: ignore[arg-type]
    others = dict(options)
    return SchemaRegistry(url, context=others.pop("context", None), **others)


def _uuid(key: int | bytes) -> UUID:
    assert isinstance(key, bytes)
    return UUID(bytes=key)
