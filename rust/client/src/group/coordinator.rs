//! Finding and keeping a group's coordinator.
