//! Topic partitions and offsets.
