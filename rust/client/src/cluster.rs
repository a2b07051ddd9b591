//! Brokers, connections and metadata behind one handle.
