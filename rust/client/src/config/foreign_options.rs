//! Options of other clients that have another name or form in this client. They are reported as errors that name the
//! replacement.

/// Option names of other clients, with their replacements.
pub(super) const FOREIGN_OPTIONS: &[(&str, &str)] = &[
    (
        "api.version",
        "versions are negotiated with each broker; broker.version.fallback is for brokers that cannot report theirs",
    ),
    ("api.version.auto.timeout.ms", "versions are requested within request.timeout.ms: leave it out"),
    ("auto.commit.enable", "use enable.auto.commit"),
    ("batch.num.messages", "use batch.size, in bytes"),
    ("compression.level", "use compression.gzip.level or compression.zstd.level"),
    ("compression.lz4.level", "lz4 always uses its fast level: leave it out"),
    ("consumer.timeout.ms", "poll(timeout) returns after its timeout, and reader() ends at the end of the topic"),
    ("debug", "set the level of the loggers samsarrow.* with Python's logging"),
    ("default.offset.commit.callback", "pass a callback to commit_async"),
    ("enable.partition.eof", "reader() ends at the end of the topic; lag() returns the distance to it"),
    (
        "error.cb",
        "errors of a call are raised by it; other events are logged by the loggers samsarrow.*, or passed to on_event",
    ),
    ("fetch.error.backoff.ms", "use retry.backoff.ms"),
    ("interceptor.classes", "wrap send and poll in your own functions"),
    ("key.deserializer", "keys come as a binary column: cast it, or decode it with pyarrow.compute"),
    ("key.serializer", "keys are bytes or text: encode them before send, or pass a column to send_batch"),
    ("log.cb", "set up the loggers samsarrow.* with Python's logging"),
    ("logger", "set up the loggers samsarrow.* with Python's logging"),
    ("max.batch.size", "use batch.size"),
    ("metric.reporters", "metrics() returns the values"),
    ("on.commit", "pass a callback to commit_async"),
    ("on.delivery", "pass on_delivery= to send"),
    ("partitioner.class", "set partitioner to the name of an algorithm or to a function"),
    ("queue.buffering.max.kbytes", "use buffer.memory, in bytes"),
    ("queue.buffering.max.messages", "use buffer.memory, in bytes"),
    ("queued.max.messages.kbytes", "use queued.max.bytes, in bytes"),
    ("queued.min.messages", "use queued.max.bytes, in bytes"),
    ("rebalance.timeout.ms", "use max.poll.interval.ms"),
    (
        "schema.registry.url",
        "create a SchemaRegistry(url) and pass it to a format, such as value_format=Avro(registry)",
    ),
    ("ssl.ca.certificate.stores", "the system's store is used unless ssl.truststore.location is set"),
    ("statistics.interval.ms", "metrics() returns the values"),
    ("stats.cb", "metrics() returns the values"),
    ("throttle.cb", "set on_event to a function, which is called with Throttled"),
    ("value.deserializer", "values come as a binary column: cast it, or decode it with pyarrow.compute"),
    ("value.serializer", "values are bytes or text: encode them before send, or use send_batch with value_format"),
];
