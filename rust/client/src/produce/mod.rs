//! Records to brokers.
