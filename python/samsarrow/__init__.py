"""Kafka for Python at Arrow speed.

Record batches are decoded directly into Arrow arrays and encoded directly from Arrow columns, by a Kafka client written
in Rust.
"""

import importlib
from typing import TYPE_CHECKING, Any

from samsarrow import _cpu_check as _cpu_check  # imported before _core, which older CPUs cannot load

if TYPE_CHECKING:
    from samsarrow._core import BatchDelivery, Delivery
    from samsarrow.access import (
        AclBinding,
        AclFilter,
        AclOperation,
        AclPermission,
        DelegationToken,
        PatternType,
        ResourceType,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from samsarrow.admin import Admin
    from samsarrow.admin_types import ConfigChange, ConfigResource, NewPartitions, OffsetSpec
    from samsarrow.aio_admin import AsyncAdmin
    from samsarrow.aio_consumer import AsyncConsumer
    from samsarrow.aio_producer import AsyncProducer
    from samsarrow.aio_registry import AsyncGlueSchemaRegistry, AsyncSchemaRegistry
    from samsarrow.aio_share import AsyncShareConsumer
    from samsarrow.codec import decode_batches, encode_batches
    from samsarrow.consumer import Consumer
    from samsarrow.display import show
    from samsarrow.exceptions import (
        AuthenticationError,
        AuthorizationError,
        BadValueError,
        ClosedError,
        ConfigurationError,
        KafkaConnectionError,
        KafkaError,
        KafkaTimeoutError,
        RetriableError,
        WakeupError,
    )
    from samsarrow.glue import GlueSchemaRegistry
    from samsarrow.group import Assignor, ConsumerGroupMetadata, GroupMember, RebalanceListener
    from samsarrow.metrics.client import (
        AdminMetrics,
        ConsumerMetrics,
        NodeMetrics,
        ProducerMetrics,
        ShareConsumerMetrics,
    )
    from samsarrow.producer import Producer
    from samsarrow.registry import RegisteredSchema, SchemaReference, SchemaRegistry
    from samsarrow.results import PartialFailureError, Results
    from samsarrow.segment import read_segment
    from samsarrow.share import ShareConsumer
    from samsarrow.tables import read, write
    from samsarrow.tokens import TokenProvider
    from samsarrow.types import (
        ConsumerRecord,
        GroupDescription,
        GroupListing,
        Latency,
        MemberDescription,
        NewTopic,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionReceipt,
        PartOutcome,
        RecordMetadata,
        TopicListing,
        TopicPartition,
    )
    from samsarrow.values import (
        Avro,
        DeadLetter,
        Json,
        Protobuf,
        decode_values,
        encode_values,
        infer_schema,
    )

# Loaded on first use (PEP 562), so that an application imports only the modules it uses.
_MODULES = {
    "_core": ("BatchDelivery", "Delivery"),
    "access": (
        "AclBinding",
        "AclFilter",
        "AclOperation",
        "AclPermission",
        "DelegationToken",
        "PatternType",
        "ResourceType",
        "ScramCredentialInfo",
        "ScramMechanism",
        "UserScramCredentialDeletion",
        "UserScramCredentialUpsertion",
    ),
    "admin": ("Admin",),
    "admin_types": ("ConfigChange", "ConfigResource", "NewPartitions", "OffsetSpec"),
    "aio_admin": ("AsyncAdmin",),
    "cluster_types": (),
    "group_types": (),
    "results": ("PartialFailureError", "Results"),
    "aio_consumer": ("AsyncConsumer",),
    "aio_producer": ("AsyncProducer",),
    "aio_registry": ("AsyncGlueSchemaRegistry", "AsyncSchemaRegistry"),
    "aio_share": ("AsyncShareConsumer",),
    "codec": ("decode_batches", "encode_batches"),
    "consumer": ("Consumer",),
    "display": ("show",),
    "exceptions": (
        "AuthenticationError",
        "AuthorizationError",
        "BadValueError",
        "ClosedError",
        "ConfigurationError",
        "KafkaConnectionError",
        "KafkaError",
        "KafkaTimeoutError",
        "RetriableError",
        "WakeupError",
    ),
    "group": ("Assignor", "ConsumerGroupMetadata", "GroupMember", "RebalanceListener"),
    "metrics.client": ("AdminMetrics", "ConsumerMetrics", "NodeMetrics", "ProducerMetrics", "ShareConsumerMetrics"),
    "producer": ("Producer",),
    "glue": ("GlueSchemaRegistry",),
    "registry": ("RegisteredSchema", "SchemaReference", "SchemaRegistry"),
    "segment": ("read_segment",),
    "share": ("ShareConsumer",),
    "tables": ("read", "write"),
    "tokens": ("TokenProvider",),
    "types": (
        "ConsumerRecord",
        "GroupDescription",
        "GroupListing",
        "Latency",
        "MemberDescription",
        "NewTopic",
        "Node",
        "OffsetAndMetadata",
        "OffsetAndTimestamp",
        "PartOutcome",
        "PartitionReceipt",
        "RecordMetadata",
        "TopicListing",
        "TopicPartition",
    ),
    "values": ("Avro", "DeadLetter", "Json", "Protobuf", "decode_values", "encode_values", "infer_schema"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
# Optional modules, each with the package that it requires.
_REQUIRES = {
    "daft": "daft",
    "datafusion": "datafusion",
    "dlt": "dlt",
    "polars": "polars",
    "ray": "ray",
    "spark": "pyspark",
}
_SUBMODULES = frozenset(
    {
        *_MODULES,
        "aio",
        "backup",
        "daft",
        "datafusion",
        "dlt",
        "doctor",
        "metrics",
        "offsets",
        "partitioner",
        "polars",
        "ranges",
        "ray",
        "spark",
        "testing",
        "tracing",
    }
    - {"_core", "metrics.client"}
)

__all__ = [
    "AclBinding",
    "AclFilter",
    "AclOperation",
    "AclPermission",
    "Admin",
    "AdminMetrics",
    "Assignor",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncGlueSchemaRegistry",
    "AsyncProducer",
    "AsyncSchemaRegistry",
    "AsyncShareConsumer",
    "AuthenticationError",
    "AuthorizationError",
    "Avro",
    "BadValueError",
    "BatchDelivery",
    "ClosedError",
    "ConfigChange",
    "ConfigResource",
    "ConfigurationError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerMetrics",
    "ConsumerRecord",
    "DeadLetter",
    "DelegationToken",
    "Delivery",
    "GlueSchemaRegistry",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "Json",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "Latency",
    "MemberDescription",
    "NewPartitions",
    "NewTopic",
    "Node",
    "NodeMetrics",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "PartOutcome",
    "PartialFailureError",
    "PartitionReceipt",
    "PatternType",
    "Producer",
    "ProducerMetrics",
    "Protobuf",
    "RebalanceListener",
    "RecordMetadata",
    "RegisteredSchema",
    "ResourceType",
    "Results",
    "RetriableError",
    "SchemaReference",
    "SchemaRegistry",
    "ScramCredentialInfo",
    "ScramMechanism",
    "ShareConsumer",
    "ShareConsumerMetrics",
    "TokenProvider",
    "TopicListing",
    "TopicPartition",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "WakeupError",
    "decode_batches",
    "decode_values",
    "encode_batches",
    "encode_values",
    "infer_schema",
    "read",
    "read_segment",
    "show",
    "write",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Computed on first use, because reading package metadata takes longer than importing this package.
        metadata = importlib.import_module("importlib.metadata")
        try:
            version: str = metadata.version("samsarrow")
        except metadata.PackageNotFoundError as error:
            # An archive or folder on the path, such as those that Spark ships, has no metadata.
            raise AttributeError("samsarrow has no version here: its package metadata is not installed") from error
        globals()[name] = version
        return version
    if name in _SUBMODULES:
        return importlib.import_module(f"samsarrow.{name}")
    if name not in _HOMES:
        caller = importlib.import_module("sys")._getframe().f_back
        raise importlib.import_module("samsarrow._names").unknown_name(name, __all__, __name__, caller)
    value = getattr(importlib.import_module(f"samsarrow.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # Leaves out modules whose packages are not installed, because `help()` and completion import every listed module.
    find_spec = importlib.import_module("importlib.util").find_spec
    modules = {name for name in _SUBMODULES if name not in _REQUIRES or find_spec(_REQUIRES[name]) is not None}
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, *modules, "__version__"})
