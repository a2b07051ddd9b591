//! One socket to one broker.
