//! The hash of Kafka's default partitioner.
