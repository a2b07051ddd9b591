"""Topic configs that Kafka rejects, each with Kafka's error message."""

REJECTED_SETTINGS = [
    ("retention.ms", "soon", "Invalid value soon for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    (
        "cleanup.policy",
        "delete,nonsense",
        "Invalid value nonsense for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    (
        "min.insync.replicas",
        "-4",
        "Invalid value -4 for configuration min.insync.replicas: Value must be at least 1",
    ),
    ("min.insync.replicas", "1.5", "Invalid value 1.5 for configuration min.insync.replicas: Not a number of type INT"),
    (
        "compression.type",
        "rar",
        "Invalid value rar for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, "
        "gzip, producer",
    ),
    (
        "compression.gzip.level",
        "0",
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
    ),
    (
        "compression.zstd.level",
        "23",
        "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22",
    ),
    (
        "min.cleanable.dirty.ratio",
        "1.5",
        "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
    ),
    (
        "preallocate",
        "maybe",
        "Invalid value maybe for configuration preallocate: Expected value to be either true or false",
    ),
    (
        "message.timestamp.type",
        "Now",
        "Invalid value Now for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime",
    ),
    ("segment.bytes", "1", "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
    ("max.message.bytes", "-1", "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"),
    ("no.such", "1", "Unknown topic config name: no.such"),
]
