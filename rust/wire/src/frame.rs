//! Request and response frames: length, header, body.
