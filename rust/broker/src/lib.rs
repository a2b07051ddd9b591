//! An embedded Kafka broker: in memory, many partitions, several virtual brokers.
