//! One walk over the records of a batch.
