//! Transaction markers and aborted transactions.
