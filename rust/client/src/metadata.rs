//! Brokers, topics, leaders.
