//! Kafka's error codes and what a client does about each.
