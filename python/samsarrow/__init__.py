"""Kafka for Python at Arrow speed.

Record batches are decoded straight into Arrow arrays and encoded straight from Arrow columns, by a core that speaks
Kafka's protocol itself.
"""

from samsarrow import _baseline as _baseline  # before the core, which an older CPU could not even load
from samsarrow._core import BatchDelivery, Delivery
from samsarrow.admin import Admin
from samsarrow.codec import decode_batches, encode_batches
from samsarrow.consumer import Consumer
from samsarrow.exceptions import KafkaError
from samsarrow.group import Assignor, ConsumerGroupMetadata, GroupMember, RebalanceListener
from samsarrow.producer import Producer
from samsarrow.segment import read_segment
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
    ProducerMetrics,
    RecordMetadata,
    TopicListing,
    TopicPartition,
)

__all__ = [
    "Admin",
    "Assignor",
    "BatchDelivery",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Delivery",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "KafkaError",
    "Latency",
    "MemberDescription",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionReceipt",
    "Producer",
    "ProducerMetrics",
    "RebalanceListener",
    "RecordMetadata",
    "TopicListing",
    "TopicPartition",
    "decode_batches",
    "encode_batches",
    "read_segment",
]
