//! Topics: create, delete, list.
