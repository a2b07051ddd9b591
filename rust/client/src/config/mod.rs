//! Options: one table, typed.
