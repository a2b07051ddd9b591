//! Options of other clients that have another form here: reported as errors that name the replacement.

/// Option names and their replacements.
pub(super) const FOREIGN_OPTIONS: &[(&str, &str)] = &[
    ("api.version.auto.timeout.ms", "brokers are asked for their versions within request.timeout.ms: leave it out"),
    ("compression.lz4.level", "lz4 has one level here, the fast one: leave it out"),
    ("consumer.timeout.ms", "poll(timeout) ends by itself, and reader() at the end of the topic"),
    ("debug", "set the level of the loggers samsarrow.* with Python's logging"),
    ("enable.partition.eof", "reader() ends at the end of the topic; lag() says how far that is"),
    ("interceptor.classes", "wrap send and poll in functions of your own"),
    ("key.deserializer", "keys come as a binary column: cast it, or decode it with pyarrow.compute"),
    ("key.serializer", "keys are bytes or text: make them before send, or give send_batch a column"),
    ("log.cb", "set up the loggers samsarrow.* with Python's logging"),
    ("logger", "set up the loggers samsarrow.* with Python's logging"),
    ("metric.reporters", "metrics() gives them as values"),
    ("on.commit", "give commit a callback"),
    ("on.delivery", "give send on_delivery="),
    ("partitioner.class", "give partitioner the name of an algorithm or a function"),
    ("queued.max.messages.kbytes", "use queued.max.bytes, in bytes"),
    ("queued.min.messages", "use queued.max.bytes, in bytes"),
    ("schema.registry.url", "make a SchemaRegistry(url) and pass it to a format, as value_format=Avro(registry)"),
    ("statistics.interval.ms", "metrics() gives them when they are asked for"),
    ("stats.cb", "metrics() gives them when they are asked for"),
    ("throttle.cb", "give on_event= a function: it is called with Throttled"),
    ("value.deserializer", "values come as a binary column: cast it, or decode it with pyarrow.compute"),
    ("value.serializer", "values are bytes or text: make them before send, or use send_batch with value_format"),
];
